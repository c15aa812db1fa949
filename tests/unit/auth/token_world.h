/* Shared by tests of tokens below the API: a state of its own, and tokens in it. */
#ifndef HOLDFAST_TESTS_AUTH_TOKEN_WORLD_H
#define HOLDFAST_TESTS_AUTH_TOKEN_WORLD_H

#include "state/ns_key.h"
#include "state/state_world.h"

#include "auth/token.h"
#include "auth/token_record.h"

enum { NOW_MS = 1000000 };

static struct state_world world;

static inline int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static inline int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static const char *const policies[] = {"a", "b"}, *const meta[] = {"k", "v", "", "w"};
static const char *const cidrs[] = {"10.0.0.0/8", "::1"};

static inline struct auth_token sample(void)
{
    return (struct auth_token){.id = "",
                               .parent = "p",
                               .accessor = "acc",
                               .display_name = "d",
                               .path = "auth/x",
                               .type = AUTH_TYPE_SERVICE,
                               .role = "r",
                               .entity_id = "e",
                               .policies = {policies, 2, true},
                               .meta = {meta, 2, true},
                               .bound_cidrs = {cidrs, 2, true},
                               .created_ms = 1,
                               .expire_ms = INT64_C(1) << 47,
                               .renewed_ms = 3,
                               .creation_ttl_s = 4,
                               .explicit_max_ttl_s = 5,
                               .period_s = 6,
                               .num_uses = INT64_MAX,
                               .depth = 8,
                               .renewable = true,
                               .keeps = true,
                               .derived = true};
}

static inline struct auth_scope scope_of(struct state_txn *txn)
{
    return (struct auth_scope){
        .txn = txn, .cipher = state_cipher(world.state), .ns = STATE_NS_ROOT, .now_ms = NOW_MS};
}

static inline struct auth_token child_of(const char *parent, int64_t expire_ms)
{
    struct auth_token token = auth_token_root(NOW_MS);
    token.parent = parent;
    token.depth = parent[0] != '\0';
    token.expire_ms = expire_ms;
    return token;
}

/* Create and commit; its bearer lies in the world's arena. */
static inline const char *created(const struct auth_token *wanted, const char **ret_id)
{
    struct state_txn txn;
    struct auth_token token = *wanted;
    const char *bearer = NULL;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &token, &bearer), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    if (ret_id != NULL)
        *ret_id = token.id;
    return bearer;
}

static inline enum status load(const char *bearer, int64_t now_ms)
{
    struct state_txn txn;
    struct auth_token token;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    scope.now_ms = now_ms;
    enum status st = auth_token_load(&scope, bytes_str(bearer), &token);
    state_end(&txn);
    return st;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

#endif
