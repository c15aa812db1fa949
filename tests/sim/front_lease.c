/* Leases of tokens: a node's side, and what must hold at the end of a run. A lease lends a lamp: a
 * key that holds the id of the lease, and that the end of the lease deletes. */
#include "front_parts.h"

#include "auth/token_lease.h"
#include "state/ns_key.h"

#include <inttypes.h>
#include <stdlib.h>

#define LAMPS "lamps"

static enum status lamp_renew(const struct lease_scope *s, struct lease *lease,
                              struct lease_ttl *ttl, struct reason *why)
{
    (void)s; /* every kind of lease has this signature */
    (void)lease;
    (void)ttl;
    (void)why;
    return ST_OK;
}

static enum status lamp_end(const struct lease_scope *s, const struct lease *lease)
{
    ASSERT(state_exists(s->txn, lease->data) != ST_NOT_FOUND); /* a lease ends once */
    return state_delete(s->txn, lease->data);
}

static const struct lease_kind lamp_kind = {.name = "lamp", .renew = lamp_renew, .end = lamp_end};

const struct lease_kinds front_leases = {
    .items = {&token_lease_kind, &lamp_kind}, .n = 2, .tokens = &token_lease_kind};

static struct lease_scope scope_of(const struct auth_scope *s)
{
    return (struct lease_scope){
        .txn = s->txn, .ns = s->ns, .kinds = &front_leases, .now_ms = s->now_ms};
}

static enum status lamp_key(struct arena *arena, uint64_t number, struct bytes *ret_key)
{
    const char *name = arena_format(arena, "%" PRIu64, number);
    return name == NULL ? ST_NOMEM
                        : state_ns_key(arena, STATE_NS_ROOT, "data", BYTES(LAMPS), name, ret_key);
}

/* The folder of a lease; it ends in '/'. */
static const char *folder_of(struct arena *arena, uint64_t number)
{
    return arena_format(arena, "lamps/%" PRIu64 "/", number % FRONT_FOLDERS);
}

/* A batch token's parent has its leases, which end with the batch token too, as
 * src/router/req_lease.c does it. */
static void limit_to(const struct auth_token *batch, struct lease *lease)
{
    lease->token = batch->parent;
    lease->limit_ms = batch->expire_ms;
    if (batch->expire_ms != 0)
        lease->expire_ms = MIN(lease->expire_ms, batch->expire_ms);
}

enum status front_lease_take(const struct auth_scope *s, struct env *env,
                             const struct auth_token *token, const struct front_op *op,
                             int64_t *ret_expire_ms)
{
    const struct lease_scope scope = scope_of(s);
    struct bytes key;
    TRY(lamp_key(s->txn->arena, op->about, &key));
    enum status st = state_exists(s->txn, key);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    struct lease lease = {.kind = &lamp_kind,
                          .token = token->id,
                          .expire_ms = s->now_ms + op->ttl_s * 1000,
                          .renewable = true,
                          .data = key};
    const char *folder = folder_of(s->txn->arena, op->about);
    if (auth_token_is_batch(token))
        limit_to(token, &lease);
    if (folder == NULL)
        return ST_NOMEM;
    TRY(lease_create(&scope, env, folder, &lease));
    *ret_expire_ms = lease.expire_ms;
    return state_put(s->txn, key, bytes_str(lease.id));
}

enum status front_lease_find(const struct auth_scope *s, uint64_t number, struct lease *ret_lease)
{
    const struct lease_scope scope = scope_of(s);
    struct state_value stored;
    struct bytes key;
    TRY(lamp_key(s->txn->arena, number, &key));
    TRY(state_get(s->txn, key, &stored));
    const char *id = arena_str(s->txn->arena, stored.value);
    return id == NULL ? ST_NOMEM : lease_find(&scope, id, ret_lease);
}

enum status front_lease_renew(const struct auth_scope *s, struct lease *lease, int64_t ttl_s)
{
    static const struct lease_limits limits = {.default_s = 60, .max_s = 3600};
    const struct lease_scope scope = scope_of(s);
    struct lease_cut cut;
    return lease_renew(&scope, lease, ttl_s, &limits, &cut, NULL);
}

enum status front_lease_end(const struct auth_scope *s, const struct lease *lease)
{
    const struct lease_scope scope = scope_of(s);
    return lease_end(&scope, lease);
}

enum status front_lease_end_below(const struct auth_scope *s, uint64_t folder, bool force,
                                  bool *ret_all)
{
    const struct lease_scope scope = scope_of(s);
    const char *prefix = folder_of(s->txn->arena, folder);
    struct lease_ended ended;
    if (prefix == NULL)
        return ST_NOMEM;
    TRY(lease_end_below(&scope, prefix, force, &ended));
    ASSERT(ended.skipped == 0);
    *ret_all = ended.all;
    return ST_OK;
}

/* The end of a run */

/* Count the leases, and fail unless each has its lamp, its token and the key below the token. */
static enum status look_at(struct node *n, struct state_txn *txn, struct front_lease_counts *ret)
{
    const struct auth_scope scope = {.txn = txn, .cipher = txn->cipher, .ns = STATE_NS_ROOT};
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    struct bytes prefix, keys;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(txn->arena, STATE_NS_ROOT, "data", BYTES(LAMPS), "", &prefix));
    for (state_walk(txn, prefix, walk); state_walk_next(walk);) {
        const char *number = arena_str(txn->arena, bytes_from(walk->key, prefix.len));
        struct state_value stored;
        struct lease lease;
        struct bytes key, of_token;
        TRY(state_get(txn, walk->key, &stored));
        const char *id = arena_str(txn->arena, stored.value);
        if (number == NULL || id == NULL)
            return ST_NOMEM;
        TRY(lease_prefix(txn->arena, STATE_NS_ROOT, id, &key));
        enum status st = state_get(txn, key, &stored);
        if (st == ST_OK)
            st = lease_record_read(stored.value, &front_leases, &lease);
        if (st != ST_OK || lease.kind != &lamp_kind)
            core_fail(n->cluster->core, "%s: lamp %s has no lease: %s", n->name, number,
                      status_name(st));
        ret->leases++;
        if (lease.token[0] == '\0') {
            ret->free++;
            continue;
        }
        TRY(lease_token_prefix(txn->arena, STATE_NS_ROOT, lease.token, &of_token));
        const char *whole =
            arena_format(txn->arena, "%.*s%s", (int)of_token.len, (const char *)of_token.data, id);
        if (whole == NULL)
            return ST_NOMEM;
        if (state_count(txn, bytes_str(whole)) == 0)
            core_fail(n->cluster->core, "%s: lease %s is not among those of its token", n->name,
                      id);
        ret->orphans += token_store_exists(&scope, lease.token) == ST_NOT_FOUND;
    }
    TRY(state_ns_key(txn->arena, STATE_NS_ROOT, "token-lease", (struct bytes){0}, NULL, &keys));
    ret->of_tokens = state_count(txn, keys);
    TRY(lease_prefix(txn->arena, STATE_NS_ROOT, "lamps/", &keys));
    ret->records = state_count(txn, keys);
    return ST_OK;
}

enum status front_lease_look(struct node *n, struct state_txn *txn, struct front_lease_counts *ret)
{
    *ret = (struct front_lease_counts){0};
    TRY(look_at(n, txn, ret));
    if (ret->records != ret->leases || ret->of_tokens + ret->free != ret->leases)
        core_fail(n->cluster->core,
                  "%s: %" PRIu64 " lamps burn, with %" PRIu64
                  " leases, of which tokens have %" PRIu64,
                  n->name, ret->leases, ret->records, ret->of_tokens);
    return ST_OK;
}

static enum status check_left(struct node *n, struct state_txn *txn, const struct front_log *log)
{
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    struct bytes prefix;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(txn->arena, STATE_NS_ROOT, "data", BYTES(LAMPS), "", &prefix));
    for (state_walk(txn, prefix, walk); state_walk_next(walk);) {
        const char *number = arena_str(txn->arena, bytes_from(walk->key, prefix.len));
        if (number == NULL)
            return ST_NOMEM;
        if (!front_judge_left(log, strtoull(number, NULL, 10)))
            core_fail(n->cluster->core, "%s: lease %s is left, but its folder was ended", n->name,
                      number);
    }
    return ST_OK;
}

void front_lease_check(struct node *n, const struct front_log *log)
{
    struct arena arena = {0};
    struct state_txn txn;
    sim_env_enter(&n->env);
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = check_left(n, &txn, log);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: leases at the end: %s", n->name, status_name(st));
    state_end(&txn);
    arena_done(&arena);
    (void)sim_env_leave(&n->env); /* it did nothing that ends a process */
}
