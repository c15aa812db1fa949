/* Storing the content of a version (platform_state.h). */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_lock.h"
#include "api/platform/platform_state.h"

enum status platform_storing_read(struct req *req, struct bytes raw)
{
    struct platform_storing *storing = req->prepared;
    struct reason why = {{0}};
    enum status st = platform_content_read(req->arena, raw, &storing->content, &why);
    if (st == ST_REFUSED)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    const char *md5 = platform_text(storing->state.attrs, "md5");
    if (strcasecmp(md5, storing->content.md5) != 0)
        return platform_refuse(req, "md5", "is not the MD5 of the state that was sent");
    blob_id(req->env, storing->blob);
    return ST_OK;
}

enum status platform_storing_check(struct req *req, const struct platform_object *ws,
                                   const struct platform_object *state, bool forced)
{
    struct platform_object current;
    enum status st = platform_state_current(req->txn, ws, &current);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    int64_t serial = platform_number(state->attrs, "serial");
    int64_t before = platform_number(current.attrs, "serial");
    const char *lineage = platform_text(state->links, "lineage");
    const char *known = platform_text(current.links, "lineage");
    bool same =
        strcasecmp(platform_text(state->attrs, "md5"), platform_text(current.attrs, "md5")) == 0;
    if (forced)
        return ST_OK;
    if (serial < before || (serial == before && !same))
        return req_fail(req, ST_EXISTS,
                        "the serial %lld does not follow the serial %lld of the current version",
                        (long long)serial, (long long)before);
    if (lineage[0] != '\0' && known[0] != '\0' && strcmp(lineage, known) != 0)
        return req_fail(req, ST_EXISTS, "the lineage is not that of the current version");
    return ST_OK;
}

static enum status store_outputs(struct req *req, const struct platform_storing *storing)
{
    for (size_t i = 0; i < storing->content.n_outputs; i++) {
        struct platform_object output;
        TRY(platform_object_new(req, "state-version-outputs", "wsout-", &output));
        output.parent = storing->state.id;
        output.name = storing->content.outputs[i].name;
        TEXT_FOR (v, storing->content.outputs[i].attrs)
            TRY(platform_set(req->arena, output.attrs, (const char *)v->name.data, v));
        TRY(platform_object_add(req->txn, &output));
        if (state_size(req->txn) > (size_t)(3 * 1024 * 1024))
            return req_fail(req, ST_REFUSED, "the outputs of the state take more than %d bytes",
                            PLATFORM_OUTPUT_BYTES_MAX);
    }
    return ST_OK;
}

/* A version that was begun and never completed gives way to this one. */
static enum status discard_pending(struct req *req, struct platform_object *ws, const char *id)
{
    struct platform_object other;
    const char *pending = platform_text(ws->links, "pending-state");
    TRY(platform_set_text(req->arena, ws->links, "pending-state", ""));
    if (pending[0] == '\0' || strcmp(pending, id) == 0)
        return ST_OK;
    enum status st = platform_object_load(req->txn, "state-versions", pending, &other);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (strcmp(platform_text(other.attrs, "status"), "pending") != 0)
        return ST_OK;
    TRY(platform_set_text(req->arena, other.attrs, "status", "discarded"));
    return platform_object_put(req->txn, "", &other);
}

static enum status fill_state(struct req *req, struct platform_storing *storing,
                              struct platform_object *state)
{
    const struct platform_content *content = &storing->content;
    struct arena *arena = req->arena;
    TRY(platform_set_text(arena, state->attrs, "status", "finalized"));
    TRY(platform_set_number(arena, state->attrs, "size", (int64_t)content->raw.len));
    TRY(platform_set_number(arena, state->attrs, "state-version", content->version));
    TRY(platform_set_text(arena, state->attrs, "terraform-version", content->terraform_version));
    TRY(platform_set_flag(arena, state->attrs, "resources-processed", true));
    TEXT_FOR (v, content->summary)
        TRY(platform_set(arena, state->attrs, (const char *)v->name.data, v));
    state->updated_ms = req->now_ms;
    return platform_set_text(arena, state->links, "blob", storing->blob);
}

/* The last transaction: everything holds still, so the version becomes the current one. */
static enum status complete_storing(struct req *req, struct platform_storing *storing)
{
    struct platform_object ws, *state = &storing->state;
    TRY(platform_object_load(req->txn, "workspaces", state->parent, &ws));
    if (!storing->is_new)
        TRY(platform_object_load(req->txn, "state-versions", state->id, state));
    if (!storing->is_new && strcmp(platform_text(state->attrs, "status"), "pending") != 0)
        return req_fail(req, ST_EXISTS, "the content of this version was sent already");
    if (strcmp(platform_text(ws.links, "locked-by"), platform_text(state->links, "locker")) != 0)
        return req_fail(req, ST_EXISTS, "the lock of the workspace has another holder now");
    TRY(platform_storing_check(req, &ws, state, storing->forced));
    TRY(blob_close(req->txn, storing->blob, storing->content.raw, storing->opened_ms));
    TRY(fill_state(req, storing, state));
    TRY(storing->is_new ? platform_object_add(req->txn, state)
                        : platform_object_put(req->txn, "", state));
    TRY(store_outputs(req, storing));
    TRY(discard_pending(req, &ws, state->id));
    TRY(platform_set_text(req->arena, ws.links, "current-state", state->id));
    TRY(platform_set_number(req->arena, ws.links, "resource-count", storing->content.resources));
    return platform_object_put(req->txn, ws.name, &ws);
}

/* A content of one chunk is stored with its version. The chunks of a longer one come in
 * transactions of their own, as a transaction has a longest form. Which turn is run depends on the
 * committed ones alone: a run after a conflict does the same. */
enum status platform_storing_turn(struct req *req, bool *ret_done)
{
    struct platform_storing *storing = req->prepared;
    struct bytes raw = storing->content.raw;
    bool more, whole = raw.len <= BLOB_CHUNK_BYTES;
    size_t chunks = (raw.len + BLOB_CHUNK_BYTES - 1) / BLOB_CHUNK_BYTES;
    size_t turns = whole ? 0 : (chunks + BLOB_TURN_CHUNKS - 1) / BLOB_TURN_CHUNKS;
    unsigned turn = req->steps.finished;
    if (turn == 0)
        storing->opened_ms = req->now_ms;
    if (turn < turns || whole)
        TRY(blob_put(req->txn, storing->blob, raw, turn, storing->opened_ms, &more));
    *ret_done = turn >= turns;
    if (*ret_done)
        return complete_storing(req, storing);
    req_finish_again(req);
    return ST_OK;
}
