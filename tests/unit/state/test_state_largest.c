#include "state_world.h"

#include "state/largest.h"
#include "text/value.h"

#include <stdio.h>

enum { MAX = 3, LOOKS = 1000 };

static int setup(void **state)
{
    static struct state_world world;
    sw_open(&world);
    sw_init(&world);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    sw_close(*state);
    return 0;
}

struct found {
    struct state_folder items[MAX];
    size_t n;
    bool exact;
};

static struct found largest(struct state_world *w, unsigned looks)
{
    static struct state_txn txn;
    struct found f;
    sw_begin(w, &txn);
    assert_status(state_largest(&txn, BYTES("s/d/"), MAX, looks, f.items, &f.n, &f.exact), ST_OK);
    state_end(&txn);
    return f;
}

static void put(struct state_world *w, const char *folder, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "s/d/%s/some/%u", folder, i);
        sw_put(w, key, "x");
    }
}

static void assert_found(const struct found *f, size_t i, const char *name, unsigned keys)
{
    assert_true(i < f->n);
    assert_true(text_is(f->items[i].name, name));
    assert_int_equal(f->items[i].keys, keys);
}

static void the_largest_folders_come_first(void **state)
{
    struct state_world *w = *state;
    struct found f = largest(w, LOOKS);
    assert_true(f.n == 0 && f.exact);
    put(w, "ab", 3);
    put(w, "abc", 7);
    put(w, "abcd", 1);
    put(w, "b", 5);
    put(w, "zzzzzzzzzzzzzzzzz", 2);
    sw_put(w, "s/d/in-no-folder", "x");
    sw_put(w, "s/d/", "x");
    sw_put(w, "s/e/f/g", "x");
    f = largest(w, LOOKS);
    assert_true(f.n == 3 && f.exact);
    assert_found(&f, 0, "abc", 7);
    assert_found(&f, 1, "b", 5);
    assert_found(&f, 2, "ab", 3);
}

/* The two large folders lie among many small ones; the search does not look at most of these. */
static void a_large_folder_takes_few_looks(void **state)
{
    struct state_world *w = *state;
    for (unsigned i = 0; i < 400; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%c%c%u", 'a' + (int)(i % 26), 'a' + (int)(i / 26), i);
        put(w, name, 1);
    }
    put(w, "mm", 60);
    put(w, "mn", 50);
    put(w, "qq", 40);
    size_t before = w->arena.bytes;
    struct found f = largest(w, 120);
    assert_true(w->arena.bytes - before < 16 * 1024);
    assert_true(f.n == 3 && f.exact);
    assert_found(&f, 0, "mm", 60);
    assert_found(&f, 1, "mn", 50);
    assert_found(&f, 2, "qq", 40);
}

static void too_few_looks_are_told(void **state)
{
    struct state_world *w = *state;
    put(w, "a", 1);
    put(w, "b", 2);
    put(w, "c", 3);
    struct found f = largest(w, 2);
    assert_true(f.n == 2 && !f.exact);
    assert_found(&f, 0, "b", 2);
    assert_found(&f, 1, "a", 1);
    f = largest(w, 3);
    assert_true(f.n == 3 && f.exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_largest_folders_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_folder_takes_few_looks, setup, teardown),
        cmocka_unit_test_setup_teardown(too_few_looks_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
