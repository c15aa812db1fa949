/* Reclamation: which nodes are kept for pins, and which are released. */
#include "store/model.h"

#include "store/node.h"

enum { VALUE_BYTES = 64 };

static struct store *open_store(struct hand_env *env)
{
    struct store *store;
    hand_env_init(env);
    assert_status(store_new(&env->env, &store), ST_OK);
    return store;
}

static struct store_pin pin(struct store *store)
{
    struct store_pin p;
    assert_status(store_pin(store, "test", 600 * 1000, &p), ST_OK);
    return p;
}

static struct store_stats stats(struct store *store)
{
    struct store_stats s;
    store_stats(store, &s);
    return s;
}

static void put(struct store *store, size_t i, uint64_t version)
{
    char key[32];
    uint8_t value[VALUE_BYTES];
    int n = snprintf(key, sizeof key, "s/%03zu/%zu", i % 100, i);
    memset(value, (int)version, sizeof value);
    store_put(store, bytes_of(key, (size_t)n), bytes_of(value, sizeof value), version);
}

static void put_all(struct store *store, size_t n, uint64_t version)
{
    for (size_t i = 0; i < n; i++)
        put(store, i, version);
    store_publish(store, version);
}

/* Run everything that waits. */
static void settle(struct store *store, struct hand_env *env)
{
    for (unsigned i = 0; i < 200; i++) {
        hand_env_work(env);
        hand_env_pass(env, 300);
    }
    assert_true(store_idle(store));
}

static void assert_all(const struct store_pin *p, size_t n, uint64_t version)
{
    static struct store_iter iter;
    size_t found = 0;
    store_iter_init(&iter, p, BYTES(""), BYTES(""));
    for (; store_iter_next(&iter); found++) {
        assert_int_equal(iter.item.modified, version);
        assert_int_equal(iter.item.value.data[VALUE_BYTES - 1], (uint8_t)version);
    }
    assert_int_equal(found, n);
}

/* Ten minutes of writes, a background that never gets its turn, and readers coming and going. */
static void a_long_pin_keeps_memory_bounded(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    struct store_pin brief[4] = {{0}};
    size_t n = 500, batches = rounds(3000, 60000), batch_puts = 20;
    struct rng rng = {1};
    (void)ctx;
    put_all(store, n, 1);
    struct store_pin held = pin(store);
    uint64_t state_bytes = stats(store).bytes, most = 0;
    for (size_t i = 0; i < batches; i++) {
        struct store_pin *reader = &brief[i % ARRAY_LEN(brief)];
        if (reader->store != NULL)
            store_unpin(reader);
        *reader = pin(store);
        for (size_t j = 0; j < batch_puts; j++)
            put(store, rng_below(&rng, n), i + 2);
        store_publish(store, i + 2);
        hand_env_pass(&env, 600 * 1000 / batches);
        most = MAX(most, stats(store).retained_bytes);
    }
    assert_all(&held, n, 1);
    /* The pinned state, and for each brief pin what a few batches replaced. */
    assert_true(most >= state_bytes / 2);
    assert_true(most <= state_bytes + ARRAY_LEN(brief) * state_bytes / 4);
    for (size_t i = 0; i < ARRAY_LEN(brief); i++)
        store_unpin(&brief[i]);
    store_unpin(&held);
    settle(store, &env);
    assert_int_equal(stats(store).retained_bytes, 0);
    assert_in_range(stats(store).bytes, state_bytes - 100, state_bytes + 100);
    store_close(store, &env);
}

static void an_older_pin_does_not_keep_what_a_newer_one_held(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 300, 1);
    struct store_pin oldest = pin(store);
    put_all(store, 300, 2);
    struct store_pin middle = pin(store);
    put_all(store, 300, 3);
    uint64_t both = stats(store).retained_bytes;
    store_unpin(&middle);
    store_publish(store, 3);
    uint64_t one = stats(store).retained_bytes;
    assert_in_range(one, both / 2 - 2000, both / 2 + 2000);
    assert_all(&oldest, 300, 1);
    store_unpin(&oldest);
    store_publish(store, 3);
    assert_int_equal(stats(store).retained_bytes, 0);
    store_close(store, &env);
}

static void a_quiet_store_lets_go_without_a_publication(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 300, 1);
    struct store_pin p = pin(store);
    put_all(store, 300, 2);
    assert_true(stats(store).retained_bytes > 0);
    store_unpin(&p);
    hand_env_pass(&env, 1000);
    assert_int_equal(stats(store).retained_bytes, 0);
    store_close(store, &env);
}

static void a_dropped_subtree_is_released_in_the_background(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    struct store_item item;
    (void)ctx;
    put_all(store, 1000, 1);
    store_put(store, BYTES("l/"), BYTES(""), 1);
    store_publish(store, 1);
    store_delete_prefix(store, BYTES("s/"), 2);
    assert_status(store_writer_get(store, BYTES("s/001/1"), &item), ST_NOT_FOUND);
    store_publish(store, 2);
    assert_false(store_idle(store));
    hand_env_work(&env);
    assert_true(store_idle(store));
    assert_int_equal(stats(store).keys, 1);
    assert_int_equal(stats(store).retained_bytes, 0);
    store_close(store, &env);
}

static void a_dropped_subtree_outlives_its_pins(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 1000, 1);
    uint64_t state_bytes = stats(store).bytes;
    struct store_pin p = pin(store);
    store_delete_prefix(store, BYTES(""), 2);
    store_publish(store, 2);
    put_all(store, 10, 3);
    hand_env_work(&env);
    assert_all(&p, 1000, 1);
    assert_int_equal(stats(store).keys, 10);
    assert_int_equal(stats(store).retained_bytes, state_bytes);
    store_unpin(&p);
    settle(store, &env);
    assert_int_equal(stats(store).retained_bytes, 0);
    store_close(store, &env);
}

/* Until a batch is published, readers can still pin what it took away. */
static void an_unpublished_batch_releases_nothing(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 1000, 1);
    struct store_pin early = pin(store);
    put_all(store, 10, 2);
    hand_env_work(&env);
    put(store, 5, 3);
    store_delete_prefix(store, BYTES("s/00"), 3);
    store_load_reset(store);
    store_unpin(&early);
    hand_env_pass(&env, 10000);
    hand_env_work(&env);
    struct store_pin late = pin(store);
    static struct store_iter iter;
    size_t found = 0;
    store_iter_init(&iter, &late, BYTES(""), BYTES(""));
    for (; store_iter_next(&iter); found++)
        assert_int_equal(iter.item.value.data[0], (uint8_t)iter.item.modified);
    assert_int_equal(found, 1000);
    store_unpin(&late);
    store_publish(store, 3);
    settle(store, &env);
    assert_int_equal(stats(store).nodes, 0);
    store_close(store, &env);
}

static void a_drop_waits_for_the_one_before(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 1000, 1);
    store_delete_prefix(store, BYTES("s/00"), 2);
    store_publish(store, 2);
    store_delete_prefix(store, BYTES("s/01"), 3);
    store_publish(store, 3);
    hand_env_work(&env);
    assert_true(store_idle(store));
    assert_int_equal(stats(store).keys, 800);
    store_close(store, &env);
}

static void much_that_came_loose_goes_to_the_background(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    (void)ctx;
    put_all(store, 25000, 1);
    struct store_pin p = pin(store);
    put_all(store, 25000, 2);
    hand_env_work(&env);
    assert_true(store_idle(store));
    store_unpin(&p);
    store_publish(store, 2);
    assert_false(store_idle(store));
    hand_env_work(&env);
    assert_int_equal(stats(store).retained_bytes, 0);
    store_close(store, &env);
}

static void without_an_env_a_publication_releases_all(void **ctx)
{
    struct store *store;
    (void)ctx;
    assert_status(store_new(NULL, &store), ST_OK);
    put_all(store, 1000, 1);
    store_delete_prefix(store, BYTES("s/0"), 2);
    store_publish(store, 2);
    assert_true(store_idle(store));
    assert_int_equal(stats(store).keys, 0);
    assert_int_equal(stats(store).bytes, 0);
    store_free(store);
}

/* A set of nodes. */
struct nodes {
    const struct store_node **items;
    size_t n, cap;
};

static void nodes_add(struct nodes *set, const struct store_node *node)
{
    if (node == NULL)
        return;
    if (set->n == set->cap) {
        set->cap = set->cap != 0 ? set->cap * 2 : 256;
        set->items = mem_must_realloc(set->items, set->cap * sizeof(const struct store_node *));
    }
    set->items[set->n++] = node;
    if (node->kind == STORE_LEAF)
        return;
    const struct store_inner *inner = store_inner_of(node);
    unsigned at = 0;
    uint8_t byte;
    nodes_add(set, inner->own);
    for (const struct store_node *child; (child = store_inner_next(inner, &at, &byte)) != NULL;)
        nodes_add(set, child);
}

static int by_address(const void *a, const void *b)
{
    const struct store_node *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t nodes_bytes(struct nodes *set)
{
    uint64_t bytes = 0;
    if (set->n != 0)
        qsort(set->items, set->n, sizeof(const struct store_node *), by_address);
    for (size_t i = 0; i < set->n; i++)
        if (i == 0 || set->items[i] != set->items[i - 1])
            bytes += store_node_bytes(set->items[i]);
    mem_free(set->items);
    return bytes;
}

/* Kept is exactly what the pins can reach. */
static void check_kept(struct store *store, struct hand_env *env, const struct store_pin *pins,
                       size_t n)
{
    struct nodes live = {0}, all = {0};
    settle(store, env);
    struct store_pin now = pin(store);
    nodes_add(&live, now.root);
    nodes_add(&all, now.root);
    for (size_t i = 0; i < n; i++)
        nodes_add(&all, pins[i].root);
    uint64_t live_bytes = nodes_bytes(&live), all_bytes = nodes_bytes(&all);
    assert_int_equal(stats(store).bytes, live_bytes);
    assert_int_equal(stats(store).retained_bytes, all_bytes - live_bytes);
    store_unpin(&now);
}

static void random_batch(struct store *store, struct rng *rng, uint64_t version)
{
    for (size_t i = 0, n = rng_below(rng, 40); i < n; i++) {
        struct model_key key;
        key_random(rng, KEYS_PATHS, &key);
        struct bytes k = key_bytes(&key);
        size_t dice = rng_below(rng, 60);
        if (dice == 0)
            store_delete_prefix(store, bytes_of(k.data, rng_below(rng, k.len + 1)), version);
        else if (dice < 20)
            store_delete(store, k, version);
        else
            store_put(store, k, BYTES("some value"), version);
    }
    store_publish(store, version);
}

static void exactly_what_pins_reach_is_kept(void **ctx)
{
    struct hand_env env;
    struct store *store = open_store(&env);
    struct store_pin pins[8] = {{0}};
    struct rng rng = {3};
    size_t n = 0;
    (void)ctx;
    for (size_t i = 1; i <= rounds(1000, 50000); i++) {
        random_batch(store, &rng, i);
        if (rng_below(&rng, 3) == 0)
            hand_env_work(&env);
        if (n < ARRAY_LEN(pins) && rng_below(&rng, 3) == 0)
            pins[n++] = pin(store);
        if (n > 0 && rng_below(&rng, 3) == 0) {
            size_t gone = rng_below(&rng, n);
            store_unpin(&pins[gone]);
            pins[gone] = pins[--n];
        }
        if (i % 20 == 0)
            check_kept(store, &env, pins, n);
    }
    while (n > 0)
        store_unpin(&pins[--n]);
    check_kept(store, &env, pins, 0);
    store_close(store, &env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_pin_keeps_memory_bounded),
        cmocka_unit_test(an_older_pin_does_not_keep_what_a_newer_one_held),
        cmocka_unit_test(a_quiet_store_lets_go_without_a_publication),
        cmocka_unit_test(a_dropped_subtree_is_released_in_the_background),
        cmocka_unit_test(a_dropped_subtree_outlives_its_pins),
        cmocka_unit_test(an_unpublished_batch_releases_nothing),
        cmocka_unit_test(a_drop_waits_for_the_one_before),
        cmocka_unit_test(much_that_came_loose_goes_to_the_background),
        cmocka_unit_test(without_an_env_a_publication_releases_all),
        cmocka_unit_test(exactly_what_pins_reach_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
