/* The ordered set, compared with a sorted array. */
#include "state/fake_env.h"
#include "support.h"

#include "base/mem.h"
#include "state/set.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 400 };

struct model {
    char keys[KEYS][16];
    bool in[KEYS];
};

/* All strings of 1 to 4 letters of "ab", and some more, in order. */
static void model_init(struct model *m)
{
    int n = 0;
    for (int a = 0; a < 3; a++)
        for (int b = -1; b < 3; b++)
            for (int c = -1; c < 3 && (b >= 0 || c < 0); c++)
                for (int d = -1; d < 3 && (c >= 0 || d < 0); d++) {
                    int parts[] = {a, b, c, d};
                    int len = 0;
                    for (int i = 0; i < 4 && parts[i] >= 0; i++)
                        m->keys[n][len++] = (char)('a' + parts[i]);
                    m->keys[n++][len] = '\0';
                }
    assert_true(n <= KEYS);
    for (; n < KEYS; n++)
        (void)snprintf(m->keys[n], sizeof m->keys[n], "d%03d", n);
}

static bool starts(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

static void assert_equal_sets(const struct model *m, const struct state_set *set)
{
    unsigned n = 0;
    struct state_item *at = set_after(set, BYTES(""), true);
    for (int i = 0; i < KEYS; i++) {
        struct bytes key = bytes_str(m->keys[i]);
        assert_int_equal(set_find(set, key) != NULL, m->in[i]);
        if (!m->in[i])
            continue;
        n++;
        assert_non_null(at);
        assert_bytes(at->key, key);
        at = at->next[0];
    }
    assert_null(at);
    assert_int_equal(set->n, n);
}

static void random_changes_give_the_sorted_array(void **state)
{
    (void)state;
    static struct model m;
    struct arena arena = {0};
    struct state_set set = {0};
    struct state_item *item;
    uint64_t seed = 5;
    model_init(&m);
    for (int step = 0; step < 3000; step++) {
        int i = (int)(fake_next(&seed) % KEYS);
        struct bytes key = bytes_str(m.keys[i]);
        if (fake_next(&seed) % 8 == 0) {
            set_remove_prefix(&set, key);
            for (int j = 0; j < KEYS; j++)
                m.in[j] = m.in[j] && !starts(m.keys[j], m.keys[i]);
        } else {
            assert_status(set_add(&set, &arena, fake_next(&seed), key, &item), ST_OK);
            assert_bytes(item->key, key);
            m.in[i] = true;
        }
        if (step % 50 == 0)
            assert_equal_sets(&m, &set);
        item = set_after(&set, key, false);
        int next = i + 1;
        while (next < KEYS && !m.in[next])
            next++;
        assert_int_equal(item != NULL, next < KEYS);
        if (item != NULL)
            assert_bytes(item->key, bytes_str(m.keys[next]));
    }
    arena_done(&arena);
}

static void a_set_of_prefixes_keeps_the_shortest(void **state)
{
    (void)state;
    static struct model m;
    uint64_t seed = 6;
    model_init(&m);
    for (int round = 0; round < 100; round++) {
        struct arena arena = {0};
        struct state_set set = {0};
        struct state_item *item;
        memset(m.in, 0, sizeof m.in);
        for (int step = 0; step < 30; step++) {
            int i = (int)(fake_next(&seed) % 120);
            m.in[i] = true;
            assert_status(
                set_add_prefix(&set, &arena, fake_next(&seed), bytes_str(m.keys[i]), &item), ST_OK);
            assert_true(bytes_has_prefix(bytes_str(m.keys[i]), item->key));
        }
        SET_FOR (one, &set)
            SET_FOR (other, &set)
                assert_true(one == other || !bytes_has_prefix(one->key, other->key));
        for (int i = 0; i < KEYS; i++) {
            bool covered = false;
            for (int j = 0; j < KEYS; j++)
                covered |= m.in[j] && starts(m.keys[i], m.keys[j]);
            item = set_covering(&set, bytes_str(m.keys[i]));
            assert_int_equal(item != NULL, covered);
            assert_true(item == NULL || bytes_has_prefix(bytes_str(m.keys[i]), item->key));
        }
        arena_done(&arena);
    }
}

static void running_out_of_memory_leaves_the_set_as_it_was(void **state)
{
    (void)state;
    struct arena arena = {.bytes_max = 2000};
    struct state_set set = {0};
    struct state_item *item = NULL;
    char key[16];
    unsigned n = 0;
    enum status st = ST_OK;
    for (; st == ST_OK; n++) {
        (void)snprintf(key, sizeof key, "%06u", n);
        st = set_add_prefix(&set, &arena, n, bytes_str(key), &item);
    }
    assert_status(st, ST_NOMEM);
    assert_true(n > 5);
    assert_int_equal(set.n, n - 1);
    assert_null(set_find(&set, bytes_str(key)));
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_give_the_sorted_array),
        cmocka_unit_test(a_set_of_prefixes_keeps_the_shortest),
        cmocka_unit_test(running_out_of_memory_leaves_the_set_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
