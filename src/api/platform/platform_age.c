/* The age of runs and configuration versions: a workspace keeps the newest (platform_run.h). */
#include "api/platform/platform_run.h"
#include "state/blob.h"

enum { DELETED_AT_ONCE = 4, LOOKED_AT_ONCE = 64 };

static bool may_end_run(const struct platform_object *ws, const struct platform_object *run)
{
    return run_state_of(platform_run_status(run))->final &&
           strcmp(platform_text(ws->links, "current-run"), run->id) != 0;
}

static enum status may_end_config(struct state_txn *txn, const struct platform_object *ws,
                                  const struct platform_object *config, bool *ret_may)
{
    struct platform_object run;
    const char *id = platform_text(config->links, "run");
    *ret_may = strcmp(platform_text(ws->links, "current-config"), config->id) != 0;
    if (!*ret_may || id[0] == '\0')
        return ST_OK;
    enum status st = platform_object_load(txn, "runs", id, &run);
    if (st == ST_OK)
        *ret_may = run_state_of(platform_run_status(&run))->final;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Stage the deletion of one old object, if nothing needs it. Its age key goes with it. */
static enum status end_old(struct state_txn *txn, const struct platform_object *ws, const char *id,
                           bool *ret_ended)
{
    struct platform_object object;
    bool run = strncmp(id, "run-", 4) == 0;
    *ret_ended = false;
    enum status st = platform_object_load(txn, NULL, id, &object);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (run)
        *ret_ended = may_end_run(ws, &object);
    else
        TRY(may_end_config(txn, ws, &object, ret_ended));
    if (!*ret_ended)
        return ST_OK;
    const char *blob = platform_text(object.links, "blob");
    if (blob[0] != '\0')
        TRY(blob_delete(txn, blob));
    return platform_object_delete(txn, &object);
}

enum status platform_age_add(struct state_txn *txn, const char *ws, int64_t created_ms,
                             const char *id)
{
    struct platform_object workspace;
    struct state_walk walk;
    struct bytes key, prefix;
    unsigned ended = 0;
    TRY(platform_run_key(txn, "age", ws, created_ms, id, &key));
    TRY(state_put_name(txn, key, false));
    TRY(platform_run_prefix(txn, "age", ws, &prefix));
    if (state_count(txn, prefix) < 2 * (uint64_t)PLATFORM_RUNS_MAX)
        return ST_OK;
    TRY(platform_object_load(txn, "workspaces", ws, &workspace));
    state_walk(txn, prefix, &walk);
    for (unsigned i = 0; i < LOOKED_AT_ONCE && ended < DELETED_AT_ONCE; i++) {
        bool gone;
        if (!state_walk_next(&walk))
            break;
        const uint8_t *old = arena_dup(txn->arena, walk.key);
        const char *old_id = platform_run_key_id(txn, walk.key);
        if (old == NULL || old_id == NULL)
            return ST_NOMEM;
        TRY(end_old(txn, &workspace, old_id, &gone));
        if (gone)
            TRY(state_delete(txn, bytes_of(old, walk.key.len)));
        ended += gone;
    }
    return ST_OK;
}
