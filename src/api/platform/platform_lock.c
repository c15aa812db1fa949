/* Locks of workspaces. Clients match words of the refusals: "is locked by User", "already". */
#include "api/platform/platform_lock.h"
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"

enum { REASON_MAX = 1000 };

bool platform_is_locked(const struct platform_object *ws)
{
    return platform_text(ws->links, "locked-by")[0] != '\0';
}

bool platform_holds_lock(const struct platform_who *who, const struct platform_object *ws)
{
    return platform_is_locked(ws) && strcmp(platform_text(ws->links, "locked-by"), who->id) == 0;
}

/* The reason, in the body itself or in a document whose type may be empty. */
static enum status read_reason(struct req *req, const char **ret_reason)
{
    const struct text_value *data = text_get(req->data, "data");
    const struct text_value *reason = text_get(text_get(data, "attributes"), "reason");
    if (reason == NULL)
        reason = text_get(req->data, "reason");
    *ret_reason = "";
    if (reason == NULL || reason->kind == TEXT_NULL)
        return ST_OK;
    if (reason->kind != TEXT_STRING || reason->text.len > REASON_MAX ||
        memchr(reason->text.data, 0, reason->text.len) != NULL)
        return platform_refuse(req, "reason", "a text of at most %d bytes is expected", REASON_MAX);
    *ret_reason = (const char *)reason->text.data;
    return ST_OK;
}

/* A run that has work under way keeps the lock: two applies at once would spoil the state. */
static enum status check_run(struct req *req, const struct platform_object *ws)
{
    struct platform_object run;
    if (strcmp(platform_text(ws->links, "locked-type"), "runs") != 0)
        return ST_OK;
    enum status st =
        platform_object_load(req->txn, "runs", platform_text(ws->links, "locked-by"), &run);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return req_fail(req, ST_EXISTS,
                    "the workspace is locked by Run %s, which is %s: discard or cancel it", run.id,
                    platform_text(run.attrs, "status"));
}

static enum status set_lock(struct req *req, struct platform_object *ws, const char *type,
                            const char *id, const char *reason)
{
    TRY(platform_set_text(req->arena, ws->links, "locked-type", type));
    TRY(platform_set_text(req->arena, ws->links, "locked-by", id));
    TRY(platform_set_text(req->arena, ws->links, "locked-reason", reason));
    return platform_object_put(req->txn, ws->name, ws);
}

/* The workspace becomes free: the next run of its queue may start. */
static enum status unlock_ws(struct req *req, struct platform_object *ws)
{
    TRY(set_lock(req, ws, "", "", ""));
    TRY(platform_run_next(req->txn, req->now_ms, ws->id));
    return platform_object_load(req->txn, "workspaces", ws->id, ws);
}

static enum status lock(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    const char *reason;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_LOCK, &place));
    TRY(read_reason(req, &reason));
    if (platform_is_locked(&place.ws))
        return req_fail(req, ST_EXISTS, "the workspace is already locked");
    if (who.owner == PLATFORM_ORGANIZATION)
        return req_fail(req, ST_EXISTS, "the token of an organization cannot lock a workspace");
    TRY(set_lock(req, &place.ws, who.owner == PLATFORM_TEAM ? "teams" : "users", who.id, reason));
    return platform_reply_one(req, &who, &platform_ws, &place.ws, 0);
}

/* The name of the holder, for people. */
static enum status name_holder(struct req *req, const struct platform_object *ws,
                               const char **ret_name)
{
    struct platform_object holder;
    const char *id = platform_text(ws->links, "locked-by");
    *ret_name = id;
    bool user = strcmp(platform_text(ws->links, "locked-type"), "users") == 0;
    enum status st = user ? platform_user_load(req->txn, id, &holder)
                          : platform_object_load(req->txn, "teams", id, &holder);
    if (st == ST_OK)
        *ret_name = holder.name;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* A version whose content was not uploaded yet stands in the way of an unlock, not of a forced
 * one. 400, because clients read 409 as the word of another holder. */
static enum status check_uploads(struct req *req, const struct platform_object *ws)
{
    struct platform_object state;
    const char *id = platform_text(ws->links, "pending-state");
    if (id[0] == '\0')
        return ST_OK;
    enum status st = platform_object_load(req->txn, "state-versions", id, &state);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return strcmp(platform_text(state.attrs, "status"), "pending") == 0
               ? req_fail(req, ST_INVALID, "latest state version is still pending")
               : ST_OK;
}

static enum status unlock(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    const char *name;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_LOCK, &place));
    if (!platform_is_locked(&place.ws))
        return req_fail(req, ST_EXISTS, "the workspace is already unlocked");
    if (!platform_holds_lock(&who, &place.ws)) {
        bool team = strcmp(platform_text(place.ws.links, "locked-type"), "teams") == 0;
        TRY(check_run(req, &place.ws));
        TRY(name_holder(req, &place.ws, &name));
        return req_fail(req, ST_EXISTS, "the workspace is locked by %s %s", team ? "Team" : "User",
                        name);
    }
    TRY(check_uploads(req, &place.ws));
    TRY(unlock_ws(req, &place.ws));
    return platform_reply_one(req, &who, &platform_ws, &place.ws, 0);
}

static enum status force_unlock(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_ADMIN, &place));
    if (!platform_is_locked(&place.ws))
        return req_fail(req, ST_EXISTS, "the workspace is already unlocked");
    TRY(check_run(req, &place.ws));
    TRY(unlock_ws(req, &place.ws));
    return platform_reply_one(req, &who, &platform_ws, &place.ws, 0);
}

static const struct platform_row locks = {&platform_ws_kind, PLATFORM_ONE, "workspace: lock", false,
                                          false},
                                 forces = {&platform_ws_kind, PLATFORM_ONE, "workspace: admin",
                                           false, false};

static const struct route lock_routes[] = {
    PLATFORM_SEND(POST, "workspaces/:ws/actions/lock", lock, locks, .help = "Lock a workspace."),
    PLATFORM_SEND(POST, "workspaces/:ws/actions/unlock", unlock, locks,
                  .help = "Unlock a workspace that the sender has locked."),
    PLATFORM_SEND(POST, "workspaces/:ws/actions/force-unlock", force_unlock, forces,
                  .help = "Unlock a workspace of any holder."),
};

const struct route_table platform_lock_table = {lock_routes, ARRAY_LEN(lock_routes)};
