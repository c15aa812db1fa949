/* The index of a key and of a prefix, as clients that wait for a change see it. */
#include "state/state_world.h"

static struct state_world w;

static int setup(void **ctx)
{
    (void)ctx;
    sw_open(&w);
    sw_init(&w);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx;
    sw_close(&w);
    return 0;
}

static uint64_t index_of(const char *key)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    uint64_t index = state_index_of(&txn, bytes_str(key)).version;
    state_end(&txn);
    return index;
}

static uint64_t index_below(const char *prefix)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    uint64_t index = state_index_below(&txn, bytes_str(prefix)).version;
    state_end(&txn);
    return index;
}

static void an_unrelated_write_does_not_move_the_index_of_an_object(void **ctx)
{
    (void)ctx;
    sw_put(&w, "s/p/a", "1");
    uint64_t index = index_of("s/p/a");
    assert_int_equal(index, w.m.version);
    sw_put(&w, "s/p/b", "1");
    sw_put(&w, "s/p/ab", "1");
    assert_int_equal(index_of("s/p/a"), index);
    sw_put(&w, "s/p/a", "1"); /* the same value again */
    assert_int_equal(index_of("s/p/a"), w.m.version);
}

static void every_change_below_a_prefix_moves_its_index(void **ctx)
{
    (void)ctx;
    sw_put(&w, "s/p/a", "1");
    sw_put(&w, "s/p/b", "1");
    assert_int_equal(index_below("s/p/"), w.m.version);
    sw_delete(&w, "s/p/a");
    assert_int_equal(index_below("s/p/"), w.m.version);
    uint64_t index = index_below("s/p/");
    sw_put(&w, "s/q/a", "1");
    assert_int_equal(index_below("s/p/"), index);
}

static void the_index_of_an_absent_key_is_that_of_its_nearest_ancestor(void **ctx)
{
    (void)ctx;
    sw_put(&w, "s/p/a", "1");
    sw_put(&w, "s/p/b", "1");
    assert_int_equal(index_of("s/p/c"), w.m.version);
    uint64_t index = index_of("s/p/c");
    sw_put(&w, "s/q/a", "1");
    assert_int_equal(index_of("s/p/c"), index);
    sw_put(&w, "s/p/a", "2"); /* a sibling */
    assert_true(index_of("s/p/c") > index);
}

static void an_index_never_falls(void **ctx)
{
    static const char *const keys[] = {"s/p/a", "s/p/ab", "s/p/b", "s/q/a"};
    uint64_t of[ARRAY_LEN(keys)] = {0}, below = 0, seed = 7;
    (void)ctx;
    for (int i = 0; i < 400; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const char *key = keys[(seed >> 33) % ARRAY_LEN(keys)];
        bool put = (seed >> 60 & 1) != 0;
        (put ? sw_put(&w, key, "x") : sw_delete(&w, key));
        for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
            assert_true(index_of(keys[k]) >= of[k]);
            of[k] = index_of(keys[k]);
        }
        assert_true(index_below("s/p/") >= below);
        below = index_below("s/p/");
        if (put) { /* above the index of its absence */
            assert_int_equal(index_of(key), w.m.version);
        }
    }
}

/* A restore brings the older versions of keys back. */
static void no_index_falls_over_a_restore(void **ctx)
{
    struct state_txn restore;
    (void)ctx;
    sw_put(&w, "s/p/a", "1");
    uint64_t before = index_of("s/p/a");
    sw_begin(&w, &restore);
    assert_status(state_put_raw(&restore, BYTES(STATE_RESTORED), BYTES("mark")), ST_OK);
    assert_status(sw_commit(&w, &restore), ST_OK);
    assert_true(index_of("s/p/a") > before);
    assert_int_equal(index_of("s/p/a"), w.m.version);
    assert_int_equal(index_of("s/absent"), w.m.version);
    assert_int_equal(index_below("s/p/"), w.m.version);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_unrelated_write_does_not_move_the_index_of_an_object),
        T(every_change_below_a_prefix_moves_its_index),
        T(the_index_of_an_absent_key_is_that_of_its_nearest_ancestor),
        T(an_index_never_falls),
        T(no_index_falls_over_a_restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
