#include "base/mem.h"
#include "router/world.h"
#include "state/ns_key.h"

#include "mount/mount_cache.h"

static struct world w;
static struct mount_cache *cache;
static struct arena arena;
static struct state_txn txn;

static int open_world(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    assert_status(mount_cache_new(&cache), ST_OK);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    state_end(&txn);
    mount_cache_free(cache);
    arena_done(&arena);
    world_close(&w);
    return 0;
}

static void renew(void)
{
    state_end(&txn);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
}

static struct mount_ref *find(const char *path)
{
    struct mount_ref *ref = NULL;
    assert_status(mount_cache_find(cache, &txn, STATE_NS_ROOT, bytes_str(path), &ref), ST_OK);
    return ref;
}

static void change(enum http_method method, const char *target, const char *body)
{
    int http = world_request(&w, method, target, body)->http;
    assert_true(http == 200 || http == 204);
}

static void what_did_not_change_is_parsed_once(void **ctx)
{
    (void)ctx;
    struct mount_ref *first = find("kv/a");
    renew();
    struct mount_ref *second = find("kv");
    assert_ptr_equal(first, second);
    assert_string_equal(mount_ref_get(second)->path, "kv/");
    assert_string_equal(mount_ref_get(second)->type, "kv");
    mount_ref_drop(first);
    mount_ref_drop(second);
}

static void a_change_counts_at_once_and_only_for_who_sees_it(void **ctx)
{
    (void)ctx;
    struct mount_ref *before = find("kv/a");
    change(METHOD_POST, "/v1/sys/mounts/kv/tune", "{\"default_lease_ttl\":\"77s\"}");

    struct mount_ref *pinned = find("kv/a"); /* a transaction sees the state it began with */
    assert_int_equal(mount_ref_get(pinned)->default_lease_ttl_s, 0);
    renew();
    struct mount_ref *after = find("kv/a");
    assert_int_equal(mount_ref_get(after)->default_lease_ttl_s, 77);
    assert_int_equal(mount_ref_get(before)->default_lease_ttl_s, 0); /* as long as it is held */
    mount_ref_drop(before);
    mount_ref_drop(pinned);
    mount_ref_drop(after);
}

static void a_mount_made_anew_at_a_path_is_another(void **ctx)
{
    (void)ctx;
    struct mount_ref *before = find("kv/a"), *none = NULL;
    change(METHOD_DELETE, "/v1/sys/mounts/kv", NULL);
    renew();
    assert_status(mount_cache_find(cache, &txn, STATE_NS_ROOT, BYTES("kv/a"), &none), ST_NOT_FOUND);
    change(METHOD_PUT, "/v1/sys/mounts/kv", "{\"type\":\"kv-v2\"}");
    renew();
    struct mount_ref *after = find("kv/a");
    assert_string_not_equal(mount_ref_get(after)->uuid, mount_ref_get(before)->uuid);
    assert_string_equal(mount_option(mount_ref_get(after), "version"), "2");
    mount_ref_drop(before);
    mount_ref_drop(after);
}

static void a_mount_is_got_by_its_exact_path(void **ctx)
{
    (void)ctx;
    struct mount_ref *found = find("kv/a"), *got = NULL, *none = NULL;
    uint64_t keys = txn.keys.n;
    assert_status(mount_cache_get(cache, &txn, STATE_NS_ROOT, "auth/token/", &got), ST_OK);
    assert_string_equal(mount_ref_get(got)->path, "auth/token/");
    assert_int_equal(txn.keys.n, keys + 1); /* the folders above it are not read */
    mount_ref_drop(got);
    assert_status(mount_cache_get(cache, &txn, STATE_NS_ROOT, "kv/", &got), ST_OK);
    assert_ptr_equal(got, found);
    mount_ref_drop(got);
    mount_ref_drop(found);
    assert_status(mount_cache_get(cache, &txn, STATE_NS_ROOT, "kv/a/", &none), ST_NOT_FOUND);
    assert_status(mount_cache_get(cache, &txn, "other", "kv/", &none), ST_NOT_FOUND);
    assert_null(none);
}

static void what_is_staged_is_kept_for_nobody(void **ctx)
{
    (void)ctx;
    struct mount mount;
    struct mount_ref *stored = find("kv/a");
    assert_status(mount_get(&txn, STATE_NS_ROOT, "kv/", &mount), ST_OK);
    mount.description = "staged";
    assert_status(mount_update(&txn, STATE_NS_ROOT, &mount), ST_OK);
    struct mount_ref *staged = find("kv/a");
    assert_string_equal(mount_ref_get(staged)->description, "staged");
    renew(); /* it was not committed */
    struct mount_ref *again = find("kv/a");
    assert_ptr_equal(again, stored);
    assert_string_equal(mount_ref_get(again)->description, "");
    mount_ref_drop(stored);
    mount_ref_drop(staged);
    mount_ref_drop(again);
}

static void what_is_found_in_the_cache_is_a_precondition_too(void **ctx)
{
    (void)ctx;
    struct bytes key;
    assert_status(state_ns_key(&arena, STATE_NS_ROOT, "mount", BYTES("kv/"), NULL, &key), ST_OK);
    for (int i = 0; i < 2; i++) {
        renew();
        assert_null(set_find(&txn.keys, key));
        mount_ref_drop(find("kv/a"));
        assert_non_null(set_find(&txn.keys, key));
    }
}

static void renew_looking(void)
{
    const struct state_read read = {.confirmed = true};
    state_end(&txn);
    assert_status(state_begin(w.state, &arena, &read, &txn), ST_OK);
    state_set_read_only(&txn);
}

static void who_only_looks_sees_every_change(void **ctx)
{
    (void)ctx;
    struct mount_ref *none = NULL;
    for (int i = 0; i < 2; i++) {
        renew_looking();
        struct mount_ref *first = find("kv/a"), *second = find("kv");
        assert_ptr_equal(first, second);
        mount_ref_drop(first);
        mount_ref_drop(second);
    }
    assert_status(mount_cache_find(cache, &txn, STATE_NS_ROOT, BYTES("kvx/a"), &none),
                  ST_NOT_FOUND);
    assert_status(mount_cache_find(cache, &txn, "other", BYTES("kv/a"), &none), ST_NOT_FOUND);
    change(METHOD_POST, "/v1/sys/mounts/kv/tune", "{\"default_lease_ttl\":\"77s\"}");
    renew_looking();
    struct mount_ref *tuned = find("kv/a");
    assert_int_equal(mount_ref_get(tuned)->default_lease_ttl_s, 77);
    mount_ref_drop(tuned);
    change(METHOD_DELETE, "/v1/sys/mounts/kv", NULL);
    renew_looking();
    assert_status(mount_cache_find(cache, &txn, STATE_NS_ROOT, BYTES("kv/a"), &none), ST_NOT_FOUND);
}

static void what_is_cleared_lives_while_it_is_held(void **ctx)
{
    (void)ctx;
    struct mount_ref *held = find("kv/a");
    mount_cache_clear(cache);
    assert_string_equal(mount_ref_get(held)->path, "kv/");
    mount_ref_drop(held);
}

static void a_lack_of_memory_is_told_and_keeps_nothing_half_made(void **ctx)
{
    (void)ctx;
    struct mount_ref *ref = NULL;
    enum status st = ST_NOMEM;
    for (uint64_t n = 1; st != ST_OK; n++) {
        assert_true(st == ST_NOMEM && n < 200);
        renew();
        mem_fail_nth(n);
        st = mount_cache_find(cache, &txn, STATE_NS_ROOT, BYTES("kv/a"), &ref);
        mem_fail_nth(0);
    }
    assert_string_equal(mount_ref_get(ref)->path, "kv/");
    mount_ref_drop(ref);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_did_not_change_is_parsed_once),
        TEST(a_change_counts_at_once_and_only_for_who_sees_it),
        TEST(a_mount_made_anew_at_a_path_is_another),
        TEST(a_mount_is_got_by_its_exact_path),
        TEST(what_is_staged_is_kept_for_nobody),
        TEST(what_is_found_in_the_cache_is_a_precondition_too),
        TEST(who_only_looks_sees_every_change),
        TEST(what_is_cleared_lives_while_it_is_held),
        TEST(a_lack_of_memory_is_told_and_keeps_nothing_half_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
