/* The staged tree, the swap, and loading. */
#include "store/hand_env.h"

struct fixture {
    struct hand_env env;
    struct store *store;
};

static int open_store(void **ctx)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    assert_non_null(f);
    hand_env_init(&f->env);
    assert_status(store_new(&f->env.env, &f->store), ST_OK);
    store_put(f->store, BYTES("l/"), BYTES(""), 0);
    store_put(f->store, BYTES("l/node"), BYTES("mine"), 3);
    store_put(f->store, BYTES("s/"), BYTES(""), 0);
    store_put(f->store, BYTES("s/a"), BYTES("old"), 10);
    store_put(f->store, BYTES("s/b"), BYTES("old"), 11);
    store_publish(f->store, 11);
    *ctx = f;
    return 0;
}

/* Whatever a test did, nothing is left over. */
static int close_store(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_stats stats;
    store_load_reset(f->store);
    store_publish(f->store, 0);
    hand_env_work(&f->env);
    store_stats(f->store, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.retained_bytes, 0);
    store_close(f->store, &f->env);
    mem_free(f);
    return 0;
}

/* "key=value key=value" of what is published. */
static const char *content(struct fixture *f)
{
    static char text[512];
    static struct store_iter iter;
    struct store_pin pin;
    size_t n = 0;
    assert_status(store_pin(f->store, "test", 0, &pin), ST_OK);
    text[0] = '\0';
    store_iter_init(&iter, &pin, BYTES(""), BYTES(""));
    while (store_iter_next(&iter))
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=%.*s", n > 0 ? " " : "",
                              (int)iter.item.key.len, (const char *)iter.item.key.data,
                              (int)iter.item.value.len, (const char *)iter.item.value.data);
    store_unpin(&pin);
    return text;
}

static void stage(struct fixture *f, const char *key, const char *value)
{
    store_stage_put(f->store, bytes_str(key), bytes_str(value), 5, 7);
}

static void swap(struct fixture *f, uint64_t version)
{
    store_stage_swap(f->store, BYTES("l/"), version);
    store_publish(f->store, version);
}

static void staged_keys_stay_out_of_sight(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    stage(f, "s/c", "new");
    store_publish(f->store, 12);
    assert_string_equal(content(f), "l/= l/node=mine s/= s/a=old s/b=old");
    assert_true(store_staging(f->store));
    store_stage_drop(f->store);
    assert_false(store_staging(f->store));
    store_publish(f->store, 12);
}

static void a_swap_replaces_everything_but_what_it_keeps(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_pin before;
    struct store_item item;
    store_stage_begin(f->store);
    stage(f, "s/", "");
    stage(f, "s/b", "new");
    stage(f, "s/c", "new");
    store_publish(f->store, 11);
    assert_status(store_pin(f->store, "test", 0, &before), ST_OK);
    swap(f, 20);
    assert_string_equal(content(f), "l/= l/node=mine s/= s/b=new s/c=new");
    assert_false(store_staging(f->store));
    assert_status(store_get(&before, BYTES("s/a"), &item), ST_OK);
    assert_status(store_writer_get(f->store, BYTES("s/b"), &item), ST_OK);
    assert_int_equal(item.created, 5);
    assert_int_equal(item.modified, 7);
    assert_status(store_writer_get(f->store, BYTES("l/node"), &item), ST_OK);
    assert_int_equal(item.modified, 3);
    store_unpin(&before);
}

static void a_swap_is_a_change_of_all_it_replaces(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    stage(f, "s/", "");
    stage(f, "s/b", "new");
    swap(f, 20);
    assert_int_equal(store_writer_newest(f->store, BYTES("s/b")), 20);
    assert_int_equal(store_writer_newest(f->store, BYTES("s/gone/")), 20);
    assert_int_equal(store_writer_newest(f->store, BYTES("")), 20);
    assert_int_equal(store_writer_newest(f->store, BYTES("l/")), 3);
    assert_int_equal(store_writer_newest(f->store, BYTES("l/other")), 3);
    store_put(f->store, BYTES("s/d"), BYTES(""), 21);
    assert_int_equal(store_writer_newest(f->store, BYTES("s/d")), 21);
    assert_int_equal(store_writer_newest(f->store, BYTES("s/b")), 20);
    store_put(f->store, BYTES("l/node"), BYTES(""), 4);
    assert_int_equal(store_writer_newest(f->store, BYTES("l/")), 4);
}

static void staged_keys_below_what_is_kept_are_dropped(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    stage(f, "l/node", "theirs");
    stage(f, "l/more", "theirs");
    stage(f, "s/c", "new");
    swap(f, 20);
    assert_string_equal(content(f), "l/= l/node=mine s/c=new");
}

static void a_swap_may_keep_nothing(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    stage(f, "x", "new");
    store_stage_swap(f->store, BYTES(""), 20);
    store_publish(f->store, 20);
    assert_string_equal(content(f), "x=new");
    assert_int_equal(store_writer_newest(f->store, BYTES("l/")), 20);
}

static void a_swap_may_have_nothing_to_keep(void **ctx)
{
    struct fixture *f = *ctx;
    store_delete_prefix(f->store, BYTES("l/"), 12);
    store_stage_begin(f->store);
    stage(f, "l/x", "theirs");
    stage(f, "s/c", "new");
    swap(f, 20);
    assert_string_equal(content(f), "s/c=new");
}

static void an_empty_staged_tree_leaves_what_is_kept(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    swap(f, 20);
    assert_string_equal(content(f), "l/= l/node=mine");
    store_stage_begin(f->store);
    stage(f, "s/x", "new");
    swap(f, 21);
    assert_string_equal(content(f), "l/= l/node=mine s/x=new");
    assert_int_equal(store_writer_newest(f->store, BYTES("s/")), 21);
}

static void beginning_again_drops_what_was_staged(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    stage(f, "s/c", "first");
    store_publish(f->store, 12);
    store_stage_begin(f->store);
    stage(f, "s/d", "second");
    swap(f, 20);
    assert_string_equal(content(f), "l/= l/node=mine s/d=second");
}

static void a_reset_keeps_pinned_readers_whole(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_pin before;
    struct store_item item;
    store_stage_begin(f->store);
    stage(f, "s/c", "staged");
    assert_status(store_pin(f->store, "test", 0, &before), ST_OK);
    store_load_reset(f->store);
    assert_false(store_staging(f->store));
    assert_status(store_writer_get(f->store, BYTES("s/a"), &item), ST_NOT_FOUND);
    assert_int_equal(store_writer_newest(f->store, BYTES("")), 0);
    store_load_put(f->store, BYTES("s/n"), BYTES("loaded"), 4, 9);
    assert_string_equal(content(f), "l/= l/node=mine s/= s/a=old s/b=old");
    store_publish(f->store, 9);
    hand_env_work(&f->env);
    assert_string_equal(content(f), "s/n=loaded");
    assert_status(store_get(&before, BYTES("s/b"), &item), ST_OK);
    assert_bytes(item.value, BYTES("old"));
    assert_status(store_writer_get(f->store, BYTES("s/n"), &item), ST_OK);
    assert_int_equal(item.created, 4);
    assert_int_equal(item.modified, 9);
    store_unpin(&before);
}

/* Versions begin at 0, which is a version like any other. */
static void restored_keys_have_the_versions_given(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_item item;
    store_put(f->store, BYTES("s/"), BYTES("changed"), 12);
    assert_status(store_writer_get(f->store, BYTES("s/"), &item), ST_OK);
    assert_int_equal(item.created, 0);
    assert_int_equal(item.modified, 12);
    store_load_reset(f->store);
    store_load_put(f->store, BYTES("s/"), BYTES("changed"), 0, 12);
    assert_status(store_writer_get(f->store, BYTES("s/"), &item), ST_OK);
    assert_int_equal(item.created, 0);
    assert_int_equal(item.modified, 12);
    store_publish(f->store, 12);
}

static uint64_t count(struct fixture *f, const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(f->store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

static uint64_t newest(struct fixture *f, const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(f->store, "test", 0, &pin), ST_OK);
    uint64_t version = store_newest(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return version;
}

static void a_tree_may_be_swapped_in_with_its_own_newest_versions(void **ctx)
{
    struct fixture *f = *ctx;
    store_stage_begin(f->store);
    swap(f, 50); /* what it sets ends with the next swap */
    assert_int_equal(newest(f, "s/x"), 50);
    store_stage_begin(f->store);
    store_stage_put(f->store, BYTES("s/"), BYTES(""), 0, 0);
    stage(f, "s/a/1", "x");
    stage(f, "s/a/2", "x");
    store_stage_newest(f->store, BYTES("s/a/"), 9);
    stage(f, "s/b", "x");
    store_stage_newest(f->store, BYTES("s/"), 12);
    store_stage_swap_as_is(f->store, BYTES("l/"));
    store_publish(f->store, 60);
    assert_string_equal(content(f), "l/= l/node=mine s/= s/a/1=x s/a/2=x s/b=x");
    assert_int_equal(newest(f, "s/"), 12);
    assert_int_equal(newest(f, "s/c"), 12);
    assert_int_equal(newest(f, "s/a/"), 9);
    assert_int_equal(newest(f, "s/a/3"), 9);
    assert_int_equal(newest(f, "s/a/1"), 7);
    assert_int_equal(newest(f, "s/b"), 7);
    assert_int_equal(newest(f, "l/"), 3);
}

static void counts_follow_the_swap(void **ctx)
{
    struct fixture *f = *ctx;
    assert_int_equal(count(f, ""), 5);
    store_stage_begin(f->store);
    stage(f, "l/dropped", "new");
    stage(f, "s/", "");
    stage(f, "s/abc/1", "new");
    stage(f, "s/abc/2", "new");
    stage(f, "s/abc/2", "newer");
    store_publish(f->store, 12);
    assert_int_equal(count(f, "s/"), 3);
    swap(f, 20);
    assert_int_equal(count(f, ""), 5);
    assert_int_equal(count(f, "l/"), 2);
    assert_int_equal(count(f, "s/"), 3);
    assert_int_equal(count(f, "s/a"), 2);
    assert_int_equal(count(f, "s/abc/1"), 1);
    assert_int_equal(count(f, "s/b"), 0);
}

static void counts_follow_a_load(void **ctx)
{
    struct fixture *f = *ctx;
    store_load_reset(f->store);
    store_publish(f->store, 0);
    assert_int_equal(count(f, ""), 0);
    store_load_put(f->store, BYTES("s/"), BYTES(""), 0, 0);
    store_load_put(f->store, BYTES("s/team-1"), BYTES("loaded"), 4, 9);
    store_load_put(f->store, BYTES("s/team-2"), BYTES("loaded"), 4, 9);
    store_raise_newest(f->store, BYTES("s/team-2"), 12);
    store_publish(f->store, 12);
    assert_int_equal(count(f, ""), 3);
    assert_int_equal(count(f, "s/t"), 2);
    assert_int_equal(count(f, "s/team-"), 2);
    assert_int_equal(count(f, "s/team-2"), 1);
    assert_int_equal(count(f, "s/team-22"), 0);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(staged_keys_stay_out_of_sight),
        WITH_STORE(a_swap_replaces_everything_but_what_it_keeps),
        WITH_STORE(a_swap_is_a_change_of_all_it_replaces),
        WITH_STORE(staged_keys_below_what_is_kept_are_dropped),
        WITH_STORE(a_swap_may_keep_nothing),
        WITH_STORE(a_swap_may_have_nothing_to_keep),
        WITH_STORE(an_empty_staged_tree_leaves_what_is_kept),
        WITH_STORE(beginning_again_drops_what_was_staged),
        WITH_STORE(restored_keys_have_the_versions_given),
        WITH_STORE(a_reset_keeps_pinned_readers_whole),
        WITH_STORE(a_tree_may_be_swapped_in_with_its_own_newest_versions),
        WITH_STORE(counts_follow_the_swap),
        WITH_STORE(counts_follow_a_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
