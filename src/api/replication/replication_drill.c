/* The drill of a secondary: what a promotion would do, on a copy that is dropped. */
#include "api/replication/replication_preflight.h"
#include "cluster/dr/drill/drill.h"
#include "router/req_left.h"
#include "text/encode.h"

enum { LIMIT_S_MAX = 540 }; /* a forwarded request ends after 10 minutes */

struct replication_drill {
    const char *dr_operation_token;
    int64_t limit;
};
static const struct field drill_fields[] = {
    REQ_DR_TOKEN_FIELD(struct replication_drill),
    FIELD(struct replication_drill, limit, DURATION, .preset = "5m",
          .help = "How long the drill may take, at most 9 minutes. The reply counts the keys that "
                  "were read."),
};
static const struct schema replication_drill_schema =
    SCHEMA(struct replication_drill, drill_fields);

struct damage_out {
    const char *key, *problem;
};
static const struct field damage_fields[] = {
    FIELD(struct damage_out, key, STRING),
    FIELD(struct damage_out, problem, STRING),
};
static const struct schema damage_schema = SCHEMA(struct damage_out, damage_fields);

struct drill_out {
    bool passed, complete, own_seal, ready;
    uint64_t version, epoch, epoch_after, lag_entries, keys, keys_total, values, bytes;
    uint64_t mounts, policies, tokens, wrong_hashes, unreadable, duration_ms;
    int64_t lag_ms, last_heard_ms;
    const char *merkle_root;
    struct field_list damage, checks;
};
static const struct field drill_out_fields[] = {
    FIELD(struct drill_out, passed, BOOL),
    FIELD(struct drill_out, complete, BOOL),
    FIELD(struct drill_out, version, UINT),
    FIELD(struct drill_out, merkle_root, STRING),
    FIELD(struct drill_out, epoch, UINT),
    FIELD(struct drill_out, epoch_after, UINT),
    FIELD(struct drill_out, lag_entries, UINT),
    FIELD(struct drill_out, lag_ms, INT),
    FIELD(struct drill_out, last_heard_ms, INT),
    FIELD(struct drill_out, own_seal, BOOL),
    FIELD(struct drill_out, keys, UINT),
    FIELD(struct drill_out, keys_total, UINT),
    FIELD(struct drill_out, values, UINT),
    FIELD(struct drill_out, bytes, UINT),
    FIELD(struct drill_out, mounts, UINT),
    FIELD(struct drill_out, policies, UINT),
    FIELD(struct drill_out, tokens, UINT),
    FIELD(struct drill_out, wrong_hashes, UINT),
    FIELD(struct drill_out, unreadable, UINT),
    FIELD(struct drill_out, damage, LIST, .sub = &damage_schema),
    FIELD(struct drill_out, duration_ms, UINT),
    FIELD(struct drill_out, ready, BOOL),
    FIELD(struct drill_out, checks, LIST, .sub = &replication_check_schema),
};
static const struct schema replication_drill_reply = SCHEMA(struct drill_out, drill_out_fields);

/* Judge, as for a promotion. The copy is read outside of the transaction. */
static enum status replication_drill(struct req *req)
{
    const struct replication_drill *in = req_body(req);
    struct replication_preflight *found = arena_alloc(req->arena, sizeof *found);
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    if (found == NULL)
        return ST_NOMEM;
    TRY(replication_need_secondary(req, &role));
    if (in->limit <= 0 || in->limit > LIMIT_S_MAX)
        return req_fail(req, ST_INVALID, "limit: from 1 s to 9 m");
    if (role.phase == DR_PHASE_SYNCING)
        return req_fail(req, ST_INVALID,
                        "this secondary still syncs, so its state is not whole and cannot be "
                        "promoted: repeat the drill when the sync has ended");
    TRY(replication_preflight(req, &role, bytes_str(in->dr_operation_token), found));
    req->prepared = found;
    return ST_OK;
}

static bool is_awaited(void *ctx)
{
    ASSERT(ctx != NULL);
    return !req_is_left(ctx);
}

static enum status run_drill(struct req *req, struct dr_drill *drill)
{
    const struct replication_drill *in = req_body(req);
    const struct dr_drill_ask ask = {.seal = req->host->seal,
                                     .env = req->env,
                                     .limit_ms = (uint64_t)in->limit * 1000,
                                     .goes_on = is_awaited,
                                     .ctx = req};
    struct reason why = {{0}};
    ASSERT(in->limit > 0);
    enum status st = req->host->node_ops->dr_drill(req->host->node, &ask, drill, &why);
    if (st == ST_BUSY)
        return req_fail(req, ST_BUSY, "another drill runs: try again later");
    return st == ST_INVALID ? req_fail(req, st, "%s", why.text) : st;
}

static bool is_blocked(const struct replication_preflight *found)
{
    for (unsigned i = 0; i < found->n; i++)
        if (strcmp(found->items[i].result, "blocked") == 0)
            return true;
    return false;
}

static void fill_reply(const struct dr_drill *d, const struct replication_preflight *found,
                       struct drill_out *out)
{
    ASSERT(dr_is_secondary(&d->role));
    *out = (struct drill_out){
        .complete = d->complete,
        .passed = d->complete && d->wrong_hashes == 0 && d->unreadable == 0 && !is_blocked(found),
        .version = d->version,
        .epoch = d->role.epoch,
        .epoch_after = d->role.epoch + 1,
        .lag_entries = d->lag.entries,
        .lag_ms = d->lag.ms,
        .last_heard_ms = d->lag.heard_ms,
        .own_seal = d->own_seal,
        .keys = d->keys,
        .keys_total = d->total,
        .values = d->decrypted,
        .bytes = d->bytes,
        .mounts = d->mounts,
        .policies = d->policies,
        .tokens = d->tokens,
        .wrong_hashes = d->wrong_hashes,
        .unreadable = d->unreadable,
        .duration_ms = d->took_ms,
        .ready = found->ready,
        .checks = {found->items, found->n},
    };
}

static enum status drill_outside(struct req *req)
{
    struct dr_drill *drill = arena_alloc(req->arena, sizeof *drill);
    struct damage_out damage[DR_DRILL_NAMED];
    char root[TEXT_HEX_LEN(DR_ROOT_BYTES) + 1];
    struct drill_out out;
    ASSERT(!req_in_txn(req) && req->prepared != NULL);
    if (drill == NULL)
        return ST_NOMEM;
    TRY(run_drill(req, drill));
    fill_reply(drill, req->prepared, &out);
    ASSERT(drill->n_damage <= DR_DRILL_NAMED && drill->keys <= drill->total);
    for (unsigned i = 0; i < drill->n_damage; i++)
        damage[i] = (struct damage_out){drill->damage[i].key, drill->damage[i].problem};
    out.damage = (struct field_list){damage, drill->n_damage};
    text_hex_put(bytes_of(drill->root, sizeof drill->root), root);
    out.merkle_root = root;
    return req_reply(req, &out);
}

static const struct route drill_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/drill",
     .handler = replication_drill,
     .outside = drill_outside,
     .ends_with_client = true,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_LONG,
     .body = &replication_drill_schema,
     .reply = &replication_drill_reply,
     .help =
         "Rehearse a promotion of this secondary on a copy: pin a version of the state, open its "
         "keys with this cluster's own seal, compute every hash anew, decrypt every value, read "
         "the mounts, policies and tokens, and drop the copy. This cluster follows its primary "
         "meanwhile, and nothing is written. The reply has the checks of a promotion too."},
};

const struct route_table replication_drill_table = {drill_routes, ARRAY_LEN(drill_routes)};
