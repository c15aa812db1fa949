/* Tokens that a worker keeps: which version of a record they stand for, and what a transaction
 * reads all the same. */
#include "auth/token_world.h"

#include "auth/token_cache.h"
#include "auth/token_tree.h"

/* Kept in the cache: a token of that name. */
static void keep(struct token_cache *cache, struct bytes key, struct state_stamp stamp,
                 const char *display_name)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token token = sample();
    struct token_ref *ref;
    token.display_name = display_name;
    token_record_put(&token, &record);
    assert_status(token_ref_new(key, stamp, buf_bytes(&record), &ref), ST_OK);
    assert_bytes(token_ref_record(ref), buf_bytes(&record));
    token_cache_put(cache, ref);
    token_ref_drop(ref);
}

static void assert_kept(const struct token_cache *cache, struct bytes key, struct state_stamp stamp,
                        const char *display_name)
{
    struct token_ref *ref = token_cache_get(cache, key, stamp);
    if (display_name == NULL) {
        assert_null(ref);
        return;
    }
    assert_string_equal(token_ref_get(ref)->display_name, display_name);
    token_ref_drop(ref);
}

static void the_cache_is_asked_for_one_version(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    const struct state_stamp one = {1, 7}, two = {2, 7}, other = {2, 8};
    const struct bytes k = BYTES("t/k");
    assert_status(token_cache_new(&cache), ST_OK);
    assert_kept(cache, k, one, NULL);
    keep(cache, k, one, "one");
    assert_kept(cache, k, one, "one");
    assert_kept(cache, k, two, NULL);
    assert_kept(cache, BYTES("t/j"), one, NULL);
    keep(cache, k, two, "two");
    assert_kept(cache, k, two, "two");
    assert_kept(cache, k, one, NULL);
    assert_kept(cache, k, other, NULL);
    for (unsigned i = 0; i < 3 * TOKEN_CACHE_SLOTS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "t/%u", i);
        keep(cache, bytes_str(key), one, "x");
    }
    token_cache_clear(cache);
    assert_kept(cache, k, two, NULL);
    token_cache_free(cache);
}

/* Few tokens have long records, and these take a bounded part of the memory. */
static void long_records_are_kept_up_to_their_bytes(void **ctx)
{
    (void)ctx;
    static char name[TOKEN_CACHE_RECORD_MAX + 1];
    enum { LONG = 2 * TOKEN_CACHE_SHORT_MAX, N = TOKEN_CACHE_LONG_BYTES / LONG + 20 };
    const struct state_stamp stamp = {1, 7};
    struct token_cache *cache;
    char key[16];
    size_t kept = 0;
    assert_status(token_cache_new(&cache), ST_OK);
    keep(cache, BYTES("t/short"), stamp, "short");
    memset(name, 'x', sizeof name - 1);
    keep(cache, BYTES("t/k"), stamp, name);
    assert_false(token_cache_has(cache, BYTES("t/k")));
    name[LONG] = '\0';
    for (unsigned i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "t/%u", i);
        keep(cache, bytes_str(key), stamp, name);
        assert_true(token_cache_has(cache, bytes_str(key)));
    }
    for (unsigned i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "t/%u", i);
        kept += token_cache_has(cache, bytes_str(key));
    }
    assert_true(kept >= 1 && kept * LONG <= TOKEN_CACHE_LONG_BYTES);
    token_cache_clear(cache);
    keep(cache, BYTES("t/k"), stamp, name);
    assert_kept(cache, BYTES("t/k"), stamp, name);
    token_cache_free(cache);
}

static void what_is_no_record_is_not_kept(void **ctx)
{
    (void)ctx;
    struct token_ref *ref;
    assert_status(token_ref_new(BYTES("t/k"), (struct state_stamp){1, 7}, BYTES("x"), &ref),
                  ST_CORRUPT);
}

/* A reference keeps a token readable after the token has ended and the cache is freed. */
static void a_token_that_is_held_stays_as_it_was(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    struct token_ref *refs[2];
    struct state_txn txn;
    struct auth_token token = child_of("", NOW_MS + 500);
    const struct auth_token *held;
    const char *id, *bearer = created(&token, &id);
    assert_status(token_cache_new(&cache), ST_OK);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    scope.cache = cache;
    assert_status(auth_token_hold(&scope, bytes_str(bearer), &held, &refs[0]), ST_OK);
    assert_status(auth_token_hold(&scope, bytes_str(bearer), &held, &refs[1]), ST_OK);
    assert_ptr_equal(refs[0], refs[1]); /* decoded once */
    assert_status(token_tree_end(&scope, held, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    token_cache_free(cache);
    token_ref_drop(refs[0]);
    assert_string_equal(held->id, id);
    assert_string_equal(held->display_name, token.display_name);
    assert_int_equal(strlen(held->accessor), AUTH_ACCESSOR_LEN);
    token_ref_drop(refs[1]);
}

/* Hold a token within a transaction, and end both. */
static enum status hold_in(struct state_txn *txn, const char *bearer, int64_t now_ms,
                           struct token_cache *cache)
{
    const struct auth_token *token;
    struct token_ref *ref = NULL;
    struct auth_scope scope = scope_of(txn);
    scope.now_ms = now_ms;
    scope.cache = cache;
    enum status st = auth_token_hold(&scope, bytes_str(bearer), &token, &ref);
    token_ref_drop(ref);
    state_end(txn);
    return st;
}

static enum status hold(const char *bearer, int64_t now_ms, struct token_cache *cache)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    return hold_in(&txn, bearer, now_ms, cache);
}

static void what_is_kept_is_refused_when_it_has_ended(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    struct state_txn txn;
    const char *top_id;
    struct auth_token top = child_of("", NOW_MS + 500), loaded;
    const char *top_bearer = created(&top, &top_id);
    struct auth_token below = child_of(top_id, 0);
    const char *bearer = created(&below, NULL);
    assert_status(token_cache_new(&cache), ST_OK);
    assert_status(hold(bearer, NOW_MS + 499, cache), ST_OK);
    assert_status(hold(bearer, NOW_MS + 500, cache), ST_DENIED); /* its parent has expired */
    assert_status(hold(top_bearer, NOW_MS + 500, cache), ST_DENIED);
    assert_status(hold("", NOW_MS, cache), ST_DENIED);
    assert_status(hold("of no token", NOW_MS, cache), ST_DENIED);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load(&scope, bytes_str(top_bearer), &loaded), ST_OK);
    assert_status(token_tree_end(&scope, &loaded, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(hold(bearer, NOW_MS, cache), ST_DENIED);
    assert_status(hold(top_bearer, NOW_MS, cache), ST_DENIED);
    token_cache_free(cache);
}

static void what_is_kept_is_read_by_the_transaction_all_the_same(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    struct state_txn txn, other;
    struct auth_token token = child_of("", 0), out;
    const char *id, *bearer = created(&token, &id);
    assert_status(token_cache_new(&cache), ST_OK);
    assert_status(hold(bearer, NOW_MS, cache), ST_OK);
    sw_begin(&world, &txn);
    struct auth_scope in_txn = scope_of(&txn);
    in_txn.cache = cache;
    assert_status(auth_token_load(&in_txn, bytes_str(bearer), &out), ST_OK);
    assert_string_equal(out.id, id);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("1")), ST_OK);
    sw_begin(&world, &other);
    struct auth_scope scope = scope_of(&other);
    assert_status(token_tree_end(&scope, &out, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &other), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_CONFLICT);
    token_cache_free(cache);
}

static enum status hold_looking(const char *bearer, int64_t now_ms, struct token_cache *cache)
{
    struct state_txn txn;
    sw_begin_looking(&world, &txn);
    return hold_in(&txn, bearer, now_ms, cache);
}

static void who_only_looks_sees_what_ended(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    struct state_txn txn;
    const char *top_id;
    struct auth_token top = child_of("", NOW_MS + 500), loaded;
    const char *top_bearer = created(&top, &top_id);
    struct auth_token below = child_of(top_id, 0);
    const char *bearer = created(&below, NULL);
    assert_status(token_cache_new(&cache), ST_OK);
    for (int i = 0; i < 2; i++) {
        assert_status(hold_looking(bearer, NOW_MS + 499, cache), ST_OK);
        assert_status(hold_looking(top_bearer, NOW_MS + 499, cache), ST_OK);
        assert_status(hold_looking(bearer, NOW_MS + 500, cache), ST_DENIED);
    }
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load(&scope, bytes_str(top_bearer), &loaded), ST_OK);
    assert_status(token_tree_end(&scope, &loaded, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(hold_looking(bearer, NOW_MS, cache), ST_DENIED);
    assert_status(hold_looking(top_bearer, NOW_MS, cache), ST_DENIED);
    token_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_cache_is_asked_for_one_version),
        TEST(long_records_are_kept_up_to_their_bytes),
        TEST(what_is_no_record_is_not_kept),
        TEST(a_token_that_is_held_stays_as_it_was),
        TEST(what_is_kept_is_refused_when_it_has_ended),
        TEST(what_is_kept_is_read_by_the_transaction_all_the_same),
        TEST(who_only_looks_sees_what_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
