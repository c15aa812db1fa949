/* Checking the hashes of a tree, with bits flipped in its memory. */
#include "store/model.h"
#include "store/read.h"
#include "store/shape.h"

struct found {
    char text[256];
    size_t n;
};

static void on_bad(void *ctx, struct bytes at)
{
    struct found *f = ctx;
    int len = snprintf(f->text + f->n, sizeof f->text - f->n, "%.*s;", (int)at.len,
                       (const char *)at.data);
    assert_true(len > 0 && (size_t)len < sizeof f->text - f->n);
    f->n += (size_t)len;
}

struct fixture {
    struct hand_env env;
    struct store *store;
    struct store_pin pin;
};

static int open_store(void **ctx)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    assert_non_null(f);
    hand_env_init(&f->env);
    assert_status(store_new(&f->env.env, &f->store), ST_OK);
    store_put(f->store, BYTES("s/"), BYTES(""), 0);
    store_put(f->store, BYTES("s/a/1"), BYTES("one"), 1);
    store_put(f->store, BYTES("s/a/2"), BYTES("two"), 2);
    store_put(f->store, BYTES("s/a"), BYTES("own"), 3);
    store_put(f->store, BYTES("s/b"), BYTES("three"), 4);
    store_put(f->store, BYTES("l/x"), BYTES("local"), 4);
    store_publish(f->store, 4);
    assert_status(store_pin(f->store, "test", 0, &f->pin), ST_OK);
    *ctx = f;
    return 0;
}

static int close_store(void **ctx)
{
    struct fixture *f = *ctx;
    store_unpin(&f->pin);
    store_close(f->store, &f->env);
    mem_free(f);
    return 0;
}

static const char *check(struct fixture *f, bool mend)
{
    static struct found found;
    const struct store_check by = {.mend = mend, .bad = on_bad, .ctx = &found};
    found = (struct found){.n = 0};
    assert_status(store_check_run(&f->pin, BYTES("s/"), &by), ST_OK);
    return found.text;
}

/* As a fault of the memory does. */
static void flip_value(struct fixture *f, const char *key)
{
    const struct store_leaf *leaf = store_read_leaf(f->pin.root, bytes_str(key));
    assert_non_null(leaf);
    ((uint8_t *)(uintptr_t)store_leaf_value(leaf).data)[0] ^= 4;
}

static void a_whole_tree_has_its_hashes(void **ctx)
{
    struct fixture *f = *ctx;
    assert_string_equal(check(f, false), ""); /* which computes them */
    assert_string_equal(check(f, false), "");
}

static void a_flipped_bit_is_found_and_named(void **ctx)
{
    struct fixture *f = *ctx;
    uint8_t before[STORE_HASH_BYTES], after[STORE_HASH_BYTES];
    store_hash(&f->pin, BYTES("s/"), before);
    assert_string_equal(check(f, false), "");
    flip_value(f, "s/a/2");
    store_hash(&f->pin, BYTES("s/"), after);
    assert_memory_equal(before, after, sizeof before); /* a stored hash hides the damage */
    assert_string_equal(check(f, false), "s/a/2;");
}

static void mending_shows_the_damage_in_the_root(void **ctx)
{
    struct fixture *f = *ctx;
    uint8_t before[STORE_HASH_BYTES], after[STORE_HASH_BYTES];
    store_hash(&f->pin, BYTES("s/"), before);
    assert_string_equal(check(f, false), "");
    flip_value(f, "s/a/1");
    flip_value(f, "s/a");
    const char *named = check(f, true);
    assert_non_null(strstr(named, "s/a/1;"));
    assert_non_null(strstr(named, "s/a;"));
    assert_non_null(strstr(named, "s/;"));
    assert_string_equal(check(f, false), "");
    store_hash(&f->pin, BYTES("s/"), after);
    assert_memory_not_equal(before, after, sizeof before);
    flip_value(f, "s/a/1");
    flip_value(f, "s/a");
    (void)check(f, true); /* as it was */
    store_hash(&f->pin, BYTES("s/"), after);
    assert_memory_equal(before, after, sizeof before);
}

static bool never(void *ctx, uint64_t keys)
{
    (void)ctx;
    (void)keys;
    return false;
}

static void a_check_ends_when_it_is_told_to(void **ctx)
{
    struct fixture *f = *ctx;
    char key[16];
    const struct store_check by = {.goes_on = never};
    for (unsigned i = 0; i < 5000; i++) {
        int len = snprintf(key, sizeof key, "s/c/%u", i);
        store_put(f->store, bytes_of(key, (size_t)len), BYTES("x"), 5);
    }
    store_publish(f->store, 5);
    assert_status(store_check_run(&f->pin, BYTES("s/"), &by), ST_OK); /* too few keys to ask */
    store_unpin(&f->pin);
    assert_status(store_pin(f->store, "test", 0, &f->pin), ST_OK);
    assert_status(store_check_run(&f->pin, BYTES("s/"), &by), ST_CLOSED);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_whole_tree_has_its_hashes),
        WITH_STORE(a_flipped_bit_is_found_and_named),
        WITH_STORE(mending_shows_the_damage_in_the_root),
        WITH_STORE(a_check_ends_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
