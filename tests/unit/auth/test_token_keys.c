/* The keys that lead to a token: their form at each feature level, and their end. */
#include "auth/token_world.h"

#include "auth/token_lease.h"
#include "auth/token_tree.h"
#include "lease/lease.h"

#include <stdio.h>

enum { PARENTED_KEYS = 3 }; /* child, lease and expiry entry */

static void set_level(const char *level)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    assert_status(state_put_raw(&txn, BYTES(STATE_FEATURE_RAISED), bytes_str(level)), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

/* The keys that name a token beside its record, and the bytes of their values. */
static size_t names(const char *id, size_t *ret_value_bytes)
{
    static struct store_iter iter;
    struct store_pin pin;
    size_t n = 0;
    *ret_value_bytes = 0;
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(&iter, &pin, BYTES("s/"), (struct bytes){0});
    while (store_iter_next(&iter)) {
        struct bytes key = iter.item.key;
        bool record = bytes_has_prefix(key, BYTES("s/ns/root/token/"));
        if (record || memmem(key.data, key.len, id, strlen(id)) == NULL)
            continue;
        n++;
        *ret_value_bytes += iter.item.value.len;
    }
    store_unpin(&pin);
    return n;
}

static void end_now(const char *id)
{
    struct auth_token token;
    struct state_txn txn;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load_id(&scope, id, &token), ST_OK);
    assert_status(token_tree_end(&scope, &token, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

/* The token is found as a lease, by the key of the index. */
static void assert_lease(const char *id)
{
    struct lease_kinds kinds = {.n = 0};
    struct state_txn txn;
    struct lease lease;
    lease_kinds_add(&kinds, &token_lease_kind);
    sw_begin(&world, &txn);
    const struct lease_scope scope = {
        .txn = &txn, .ns = STATE_NS_ROOT, .kinds = &kinds, .now_ms = NOW_MS};
    const char *name = lease_id(txn.arena, AUTH_ROOT_PATH, id);
    assert_non_null(name);
    assert_status(lease_find(&scope, name, &lease), ST_OK);
    assert_ptr_equal(lease.kind, &token_lease_kind);
    assert_int_equal(lease.expire_ms, NOW_MS + 1000);
    state_end(&txn);
}

static void keys_that_lead_to_a_token_are_not_encrypted_from_their_level_on(void **ctx)
{
    (void)ctx;
    struct auth_token top = child_of("", 0), below;
    const char *parent, *former, *newer;
    size_t bytes;

    set_level("2");
    (void)created(&top, &parent);
    below = child_of(parent, NOW_MS + 1000);
    (void)created(&below, &former);
    assert_int_equal(names(former, &bytes), PARENTED_KEYS);
    assert_int_equal(bytes, PARENTED_KEYS * BARRIER_OVERHEAD);
    set_level("3");
    (void)created(&below, &newer);
    assert_int_equal(names(newer, &bytes), PARENTED_KEYS);
    assert_int_equal(bytes, 0);
    assert_lease(former);
    assert_lease(newer);
}

static void a_token_of_each_level_ends_with_its_keys(void **ctx)
{
    (void)ctx;
    static const char *const levels[] = {"1", "2", "3"};
    struct auth_token top = child_of("", 0), below;
    const char *parent, *ids[ARRAY_LEN(levels)];
    size_t bytes;

    (void)created(&top, &parent);
    below = child_of(parent, NOW_MS + 1000);
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        set_level(levels[i]);
        (void)created(&below, &ids[i]);
        assert_true(names(ids[i], &bytes) >= PARENTED_KEYS);
    }
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        end_now(ids[i]);
        assert_int_equal(names(ids[i], &bytes), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_that_lead_to_a_token_are_not_encrypted_from_their_level_on),
        TEST(a_token_of_each_level_ends_with_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
