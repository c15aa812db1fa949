/* The expiry index at the end of a run: each token that expires has one entry, no entry is left of
 * a token that is gone, and at a level that was raised no former key is left. */
#include "front_parts.h"

#include "auth/token_tree.h"
#include "state/feature.h"
#include "state/ns_key.h"

#include <inttypes.h>
#include <stdio.h>

enum { STEP_MS = 100, SETTLE_MS = 20000 };

struct found {
    uint64_t tokens;  /* tokens that expire */
    uint64_t matched; /* of these, tokens with an entry of their time */
    struct front_lease_counts leases;
    uint64_t kept; /* keys of wrapping tokens that are gone */
    struct expiry_sizes sizes;
    bool raised;
};

static const struct expiry_kinds kinds = {.items = {&token_expiry, &lease_expiry}, .n = 2};

/* Whether an entry of the token exists, in either form. */
static bool has_entry(const struct state_txn *txn, const char *id, int64_t expire_ms)
{
    char key[200], time[STATE_TIME_DIGITS + 1];
    state_time_text(expire_ms, time);
    (void)snprintf(key, sizeof key, "s/expire/%s/root/token/%s", time, id);
    uint64_t n = state_count(txn, bytes_str(key));
    (void)snprintf(key, sizeof key, "s/ns/root/expire/%s/%s", time, id);
    return n + state_count(txn, bytes_str(key)) != 0;
}

static enum status look_at(struct state_txn *txn, struct found *found)
{
    const struct auth_scope scope = {.txn = txn, .cipher = txn->cipher, .ns = STATE_NS_ROOT};
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    struct auth_token token;
    struct bytes prefix;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_has_feature(txn, EXPIRY_FEATURE, &found->raised));
    TRY(expiry_sizes_at(&kinds, &txn->pin, &found->sizes));
    TRY(state_ns_key(txn->arena, STATE_NS_ROOT, "token", (struct bytes){0}, NULL, &prefix));
    for (state_walk(txn, prefix, walk); state_walk_next(walk);) {
        const char *id = arena_str(txn->arena, bytes_from(walk->key, prefix.len));
        if (id == NULL)
            return ST_NOMEM;
        TRY(token_store_load(&scope, id, &token));
        if (token.expire_ms == 0)
            continue;
        found->tokens++;
        found->matched += has_entry(txn, id, token.expire_ms);
    }
    return ST_OK;
}

static struct found look(struct node *n)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct found found = {0};
    sim_env_enter(&n->env);
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = look_at(&txn, &found);
    if (st == ST_OK)
        seals_check(n, &txn);
    if (st == ST_OK)
        st = front_lease_look(n, &txn, &found.leases);
    if (st == ST_OK)
        st = front_wrap_look(&txn, &found.kept);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: the expiry index at the end: %s", n->name,
                  status_name(st));
    state_end(&txn);
    arena_done(&arena);
    (void)sim_env_leave(&n->env); /* it did nothing that ends a process */
    return found;
}

void front_index_check(struct cluster *c)
{
    for (unsigned ms = 0;; ms += STEP_MS) {
        struct node *leader = cluster_leader(c);
        struct found f = {0};
        if (leader != NULL && leader->state == NODE_UP && leader->service != NULL) {
            f = look(leader);
            if (f.matched != f.tokens || f.sizes.entries != f.tokens + f.leases.leases)
                core_fail(c->core,
                          "%s: %" PRIu64 " tokens expire, %" PRIu64 " of them have an entry, and "
                          "there are %" PRIu64 " entries, with %" PRIu64 " leases",
                          leader->name, f.tokens, f.matched, f.sizes.entries, f.leases.leases);
            if (f.sizes.marks == 0 && f.leases.orphans != 0)
                core_fail(c->core, "%s: %" PRIu64 " leases are left of tokens that are gone",
                          leader->name, f.leases.orphans);
            if (f.sizes.marks == 0 && f.kept != 0)
                core_fail(c->core, "%s: %" PRIu64 " keys are left of wrapping tokens that are gone",
                          leader->name, f.kept);
            if (f.sizes.marks == 0 && (!f.raised || f.sizes.former == 0))
                return;
        }
        if (ms >= SETTLE_MS)
            core_fail(c->core, "%" PRIu64 " former keys and %" PRIu64 " marks are left",
                      f.sizes.former, f.sizes.marks);
        cluster_run_for(c, STEP_MS * SIM_MS);
    }
}
