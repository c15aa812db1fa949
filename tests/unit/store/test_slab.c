/* Memory for nodes. */
#include "support.h"

#include "store/slab.h"

#include <pthread.h>

enum { REGION = 2 * 1024 * 1024, SMALL = 24, LARGE = STORE_SLAB_SIZE_MAX };

static struct store_slab *slab;

static int set_up(void **ctx)
{
    (void)ctx;
    slab = store_slab_new();
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    store_slab_free(slab);
    return 0;
}

struct held {
    uint8_t *piece;
    size_t size;
    uint8_t fill;
};

static void take(struct held *h, size_t size, uint8_t fill)
{
    *h = (struct held){(uint8_t *)store_slab_take(slab, size, 1), size, fill};
    assert_int_equal((uintptr_t)h->piece % STORE_SLAB_UNIT, 0);
    memset(h->piece, fill, size);
}

static void give(struct held *h)
{
    for (size_t i = 0; i < h->size; i++)
        assert_int_equal(h->piece[i], h->fill);
    struct store_piece *piece = (struct store_piece *)(void *)h->piece;
    piece->next = NULL;
    store_slab_give(piece);
    *h = (struct held){NULL, 0, 0};
}

static void pieces_of_all_sizes_do_not_overlap(void **ctx)
{
    enum { HELD = 20000, STEPS = 400000 };
    static struct held held[HELD];
    uint32_t rng = 1;
    (void)ctx;
    for (unsigned i = 0; i < STEPS; i++) {
        rng = rng * 1664525 + 1013904223;
        struct held *h = &held[(rng >> 8) % HELD];
        if (h->piece != NULL)
            give(h);
        else
            take(h, SMALL + i % ((LARGE - SMALL) / STORE_SLAB_UNIT + 1) * STORE_SLAB_UNIT,
                 (uint8_t)i);
    }
    assert_true(store_slab_bytes(slab) > 2 * (size_t)REGION);
    for (unsigned i = 0; i < HELD; i++) {
        if (held[i].piece != NULL)
            give(&held[i]);
    }
    assert_int_equal(store_slab_bytes(slab), REGION);
}

static void a_chain_has_as_many_pieces_as_were_asked_for(void **ctx)
{
    (void)ctx;
    struct store_piece *chain = store_slab_take(slab, SMALL, 5000);
    unsigned n = 0;
    for (struct store_piece *piece = chain; piece != NULL; piece = piece->next)
        n++;
    assert_int_equal(n, 5000);
    store_slab_give(chain);
    store_slab_give(NULL);
}

static void memory_of_one_size_serves_another(void **ctx)
{
    (void)ctx;
    unsigned small = 20 * REGION / SMALL, large = 19 * REGION / LARGE;
    store_slab_give(store_slab_take(slab, SMALL, small));
    assert_int_equal(store_slab_bytes(slab), REGION); /* one is kept */
    struct store_piece *keeps = store_slab_take(slab, SMALL, small);
    size_t bytes = store_slab_bytes(slab);
    struct store_piece *last = keeps;
    while (last->next->next != NULL)
        last = last->next;
    struct store_piece *rest = keeps->next; /* all but two, at the ends of what was taken */
    keeps->next = last->next;
    last->next = NULL;
    store_slab_give(rest);
    assert_true(store_slab_bytes(slab) <= 3 * (size_t)REGION);
    struct store_piece *other = store_slab_take(slab, LARGE, large);
    assert_true(store_slab_bytes(slab) <= bytes);
    store_slab_give(other);
    store_slab_give(keeps);
    assert_int_equal(store_slab_bytes(slab), REGION);
}

static void *give_all(void *chain)
{
    for (struct store_piece *piece = chain, *next; piece != NULL; piece = next) {
        next = piece->next;
        piece->next = NULL;
        store_slab_give(piece);
    }
    return NULL;
}

static void another_thread_gives_pieces_back(void **ctx)
{
    enum { ROUNDS = 50, N = 20000 };
    pthread_t thread;
    (void)ctx;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct store_piece *theirs = store_slab_take(slab, SMALL, N);
        assert_int_equal(pthread_create(&thread, NULL, give_all, theirs), 0);
        struct store_piece *mine = store_slab_take(slab, SMALL, N);
        store_slab_give(mine);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(store_slab_bytes(slab), REGION);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_of_all_sizes_do_not_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_has_as_many_pieces_as_were_asked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(memory_of_one_size_serves_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_thread_gives_pieces_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
