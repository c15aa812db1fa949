/* The duty that deletes what was below deleted resources, a little at a time. */
#include "api/platform/platform.h"
#include "api/platform/platform_log.h"
#include "api/platform/platform_run.h"
#include "state/blob.h"
#include "state/ns_key.h"

#define KEYS STATE_SHARED "platform/"
#define ENDED KEYS "ended/"

enum { SWEEP_STEPS = 200 };

/* Delete what a resource has outside of its record: large values, the log of a phase. */
static enum status drop_own(const struct auth_scope *scope, const struct platform_object *object)
{
    struct state_txn *txn = scope->txn;
    static const char *const blobs[] = {"blob", "plan-file", "json-output", "json-output-redacted",
                                        "json-schema"};
    for (size_t i = 0; i < ARRAY_LEN(blobs); i++) {
        const char *blob = platform_text(object->links, blobs[i]);
        if (blob[0] != '\0')
            TRY(blob_delete(txn, blob));
    }
    bool phase = strcmp(object->type, "plans") == 0 || strcmp(object->type, "applies") == 0;
    if (phase)
        TRY(platform_log_delete(txn, object->id));
    return platform_run_forget(scope, object);
}

/* Delete resources below `parent`, at most *left of them. *ret_done: there are no more. */
static enum status sweep_below(const struct auth_scope *scope, const char *parent, unsigned *left,
                               bool *ret_done)
{
    struct state_txn *txn = scope->txn;
    struct state_walk walk;
    struct bytes prefix;
    const char *below = arena_format(txn->arena, KEYS "in/%s/", parent);
    if (below == NULL)
        return ST_NOMEM;
    prefix = bytes_str(below);
    state_walk(txn, prefix, &walk);
    *ret_done = false;
    while (state_walk_next(&walk)) {
        if ((*left)-- == 1)
            return ST_OK;
        const uint8_t *slash = memrchr(walk.key.data, '/', walk.key.len);
        size_t at = (size_t)(slash + 1 - walk.key.data);
        struct platform_object object;
        char *id = arena_str(txn->arena, bytes_from(walk.key, at));
        uint8_t *key = arena_dup(txn->arena, walk.key);
        if (id == NULL || key == NULL)
            return ST_NOMEM;
        enum status st = platform_object_load(txn, NULL, id, &object);
        if (st == ST_OK && strcmp(object.type, "authentication-tokens") == 0)
            TRY(platform_token_end(scope, id));
        if (st == ST_OK)
            TRY(drop_own(scope, &object));
        if (st == ST_OK)
            TRY(platform_object_delete(txn, &object));
        else if (st == ST_NOT_FOUND)
            TRY(state_delete(txn, bytes_of(key, walk.key.len)));
        else
            return st;
    }
    *ret_done = true;
    return ST_OK;
}

enum status platform_sweep(struct state_txn *txn, int64_t now_ms)
{
    struct state_walk walk;
    unsigned left = SWEEP_STEPS;
    const struct auth_scope scope = {.txn = txn,
                                     .cipher = txn->cipher,
                                     .ns = STATE_NS_ROOT,
                                     .now_ms = now_ms,
                                     .kind = TOKEN_PLATFORM};
    state_walk(txn, BYTES(ENDED), &walk);
    while (left > 1 && state_walk_next(&walk)) {
        bool done;
        char *id = arena_str(txn->arena, bytes_from(walk.key, sizeof ENDED - 1));
        uint8_t *key = arena_dup(txn->arena, walk.key);
        struct bytes mark = bytes_of(key, walk.key.len);
        if (id == NULL || key == NULL)
            return ST_NOMEM;
        TRY(sweep_below(&scope, id, &left, &done));
        if (!done)
            return ST_OK;
        TRY(state_delete(txn, mark));
    }
    return ST_OK;
}
