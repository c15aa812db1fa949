/* Tokens of other APIs than the secrets service: record, keys, the API that takes them, expiry. */
#include "auth/token_world.h"

#include "auth/token_accessor.h"
#include "auth/token_cache.h"
#include "auth/token_lease.h"
#include "auth/token_tree.h"
#include "base/mem.h"

#define ACCESSOR "11111111-2222-3333-4444-555555555555"
#define SECRET "66666666-7777-8888-9999-aaaaaaaaaaaa"

static struct auth_token of_kind(enum token_kind kind, int64_t expire_ms)
{
    struct auth_token token = auth_token_of_kind(kind);
    token.accessor = ACCESSOR;
    token.policies = (struct field_strings){policies, 2, true};
    token.part = BYTES("part of the kind");
    token.created_ms = NOW_MS;
    token.expire_ms = expire_ms;
    return token;
}

static void a_record_of_another_kind_holds_its_part(void **ctx)
{
    (void)ctx;
    for (unsigned kind = TOKEN_SECRETS + 1; kind < TOKEN_KINDS; kind++) {
        CLEANUP(buf_done) struct buf record = {0};
        struct auth_token in = of_kind(kind, NOW_MS + 5), out;
        token_record_put(&in, &record);
        assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_OK);
        assert_int_equal(out.kind, kind);
        assert_string_equal(out.accessor, ACCESSOR);
        assert_string_equal(out.type, token_kind_name(kind));
        assert_true(bytes_eq(out.part, in.part));
        assert_true(out.created_ms == NOW_MS && out.expire_ms == NOW_MS + 5);
        assert_true(out.orphan && !out.renewable && !out.limited && !out.keeps && !out.derived);
        assert_true(out.parent[0] == '\0' && out.path[0] == '\0');
        assert_true(out.policies.n == 2 && strcmp(out.policies.items[1], "b") == 0);
        assert_true(out.policies_text.len != 0 && out.policies_hash != 0);
    }
}

static void a_damaged_record_of_another_kind_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token in = of_kind(TOKEN_REGISTRY, 0), out;
    token_record_put(&in, &record);
    for (size_t len = 0; len < record.len; len++)
        assert_status(token_record_read(bytes_of(record.data, len), &world.arena, &out),
                      ST_CORRUPT);
    static const uint8_t wrong[] = {TOKEN_SECRETS, TOKEN_KINDS, 255};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        record.data[1] = wrong[i];
        assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);
    }
    record.data[1] = TOKEN_REGISTRY;
    buf_add_u8(&record, 0); /* a byte too many */
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);
}

static void add_token(enum token_kind kind, int64_t expire_ms)
{
    struct state_txn txn;
    struct auth_token token = of_kind(kind, expire_ms);
    bool used;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_is_used(&scope, BYTES(SECRET), &used), ST_OK);
    assert_false(used);
    assert_status(auth_token_add(&scope, BYTES(SECRET), &token), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static enum status load_as(enum token_kind kind, const char *bearer, int64_t now_ms)
{
    struct state_txn txn;
    struct auth_token token;
    const struct auth_token *held;
    struct token_ref *ref;
    struct token_cache *cache;
    assert_status(token_cache_new(&cache), ST_OK);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    scope.now_ms = now_ms;
    scope.kind = kind;
    enum status st = auth_token_load(&scope, bytes_str(bearer), &token);
    scope.cache = cache;
    for (unsigned i = 0; i < 2; i++) { /* the second time from the cache */
        assert_status(auth_token_hold(&scope, bytes_str(bearer), &held, &ref), st);
        if (st == ST_OK)
            token_ref_drop(ref);
    }
    state_end(&txn);
    token_cache_free(cache);
    return st;
}

static void a_token_acts_in_its_own_api_alone(void **ctx)
{
    (void)ctx;
    struct auth_token wanted = auth_token_root(NOW_MS);
    static const char *const powerless[] = {"default"};
    const char *root = created(&wanted, NULL);
    wanted.policies = (struct field_strings){powerless, 1, true};
    const char *service = created(&wanted, NULL);
    for (unsigned kind = TOKEN_SECRETS + 1; kind < TOKEN_KINDS; kind++) {
        add_token(kind, 0);
        for (unsigned in = 0; in < TOKEN_KINDS; in++) {
            enum status secrets = in == TOKEN_SECRETS ? ST_OK : ST_DENIED;
            assert_status(load_as(in, SECRET, NOW_MS), in == kind ? ST_OK : ST_DENIED);
            assert_status(load_as(in, service, NOW_MS), secrets);
            assert_status(load_as(in, root, NOW_MS), ST_OK); /* the one exception */
        }
        struct state_txn txn;
        struct auth_token token;
        sw_begin(&world, &txn);
        struct auth_scope scope = scope_of(&txn);
        assert_status(auth_token_find(&scope, ACCESSOR, &token), ST_NOT_FOUND);
        scope.kind = kind;
        assert_status(auth_token_find(&scope, ACCESSOR, &token), ST_OK);
        scope.kind = TOKEN_SECRETS;
        assert_status(auth_token_find_any(&scope, ACCESSOR, &token), ST_OK);
        assert_int_equal(token.kind, kind);
        assert_status(token_tree_end(&scope, &token, TOKEN_END_TREE), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
    }
}

static uint64_t count(const char *prefix)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    uint64_t n = state_count(&txn, bytes_str(prefix));
    state_end(&txn);
    return n;
}

/* End the token as the duty of the expiry index does. */
static enum status expire_at(int64_t now_ms)
{
    struct state_txn txn;
    const char *id;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_id(&scope, BYTES(SECRET), &id), ST_OK);
    const struct expiry_task task = {.txn = &txn, .ns = STATE_NS_ROOT, .id = id, .now_ms = now_ms};
    enum status st = token_expiry.end(&task);
    if (st == ST_OK)
        assert_status(sw_commit(&world, &txn), ST_OK);
    else
        state_end(&txn);
    return st;
}

static void it_is_gone_at_its_expiry_and_leaves_no_key(void **ctx)
{
    (void)ctx;
    uint64_t before = count("s/");
    add_token(TOKEN_REGISTRY, NOW_MS + 10);
    assert_int_equal(count("s/ns/root/token-kind/registry/"), 1);
    assert_int_equal(count("s/ns/root/lease/"), 0);
    assert_status(load_as(TOKEN_REGISTRY, SECRET, NOW_MS + 9), ST_OK);
    assert_status(load_as(TOKEN_REGISTRY, SECRET, NOW_MS + 10), ST_DENIED);
    assert_status(expire_at(NOW_MS + 9), ST_NOT_FOUND);
    assert_status(expire_at(NOW_MS + 10), ST_OK);
    assert_int_equal(count("s/"), before);
}

static void bearers_and_accessors_are_one_space(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {ACCESSOR, SECRET};
    struct state_txn txn;
    add_token(TOKEN_REGISTRY, 0);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        bool used = false;
        assert_status(auth_token_is_used(&scope, bytes_str(texts[i]), &used), ST_OK);
        assert_true(used);
    }
    struct auth_token chosen = auth_token_root(NOW_MS);
    const char *bearer = SECRET;
    assert_status(auth_token_create(&scope, &world.worker.env, &chosen, &bearer), ST_EXISTS);
    state_end(&txn);
}

/* A list of the tokens of a kind waits for changes below one prefix. */
static void a_change_of_the_record_is_a_change_below_the_prefix_of_the_kind(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token token;
    uint64_t before = 0, after = 0;
    struct bytes prefix;
    add_token(TOKEN_REGISTRY, 0);
    sw_begin(&world, &txn);
    assert_status(token_store_kind_prefix(&world.arena, STATE_NS_ROOT, TOKEN_REGISTRY, &prefix),
                  ST_OK);
    assert_status(state_newest(&txn, prefix, &before), ST_OK);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_find_any(&scope, ACCESSOR, &token), ST_OK);
    token.part = BYTES("changed");
    assert_status(token_store_put(&scope, &token), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    sw_begin(&world, &txn);
    assert_status(state_newest(&txn, prefix, &after), ST_OK);
    assert_true(after > before);
    scope = scope_of(&txn);
    assert_status(auth_token_find_any(&scope, ACCESSOR, &token), ST_OK);
    assert_true(bytes_eq(token.part, BYTES("changed")));
    state_end(&txn);
}

static void the_index_of_leases_names_no_token_of_another_kind(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    const char *id;
    add_token(TOKEN_REGISTRY, NOW_MS + 10);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_id(&scope, BYTES(SECRET), &id), ST_OK);
    struct lease lease = {.id = arena_format(&world.arena, "/%s", id)};
    const struct lease_scope leases = {.txn = &txn, .ns = STATE_NS_ROOT, .now_ms = NOW_MS};
    assert_status(token_lease_kind.find(&leases, &lease), ST_NOT_FOUND);
    state_end(&txn);
}

static enum status make_change_end(struct state_txn *txn)
{
    struct auth_scope scope = scope_of(txn);
    struct auth_token token = of_kind(TOKEN_REGISTRY, NOW_MS + 10), out;
    bool used;
    scope.kind = TOKEN_REGISTRY;
    TRY(auth_token_is_used(&scope, BYTES(SECRET), &used));
    TRY(auth_token_add(&scope, BYTES(SECRET), &token));
    TRY(auth_token_load(&scope, BYTES(SECRET), &out));
    TRY(auth_token_find(&scope, ACCESSOR, &out));
    TRY(token_store_put(&scope, &out));
    return token_tree_end(&scope, &out, TOKEN_END_TREE);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    enum status st = ST_NOMEM;
    for (uint64_t n = 1; st != ST_OK; n++) {
        struct state_txn txn;
        struct arena arena = {0};
        assert_true(n < 1000);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = make_change_end(&txn);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_of_another_kind_holds_its_part),
        TEST(a_damaged_record_of_another_kind_is_refused),
        TEST(a_token_acts_in_its_own_api_alone),
        TEST(it_is_gone_at_its_expiry_and_leaves_no_key),
        TEST(bearers_and_accessors_are_one_space),
        TEST(a_change_of_the_record_is_a_change_below_the_prefix_of_the_kind),
        TEST(the_index_of_leases_names_no_token_of_another_kind),
        TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
