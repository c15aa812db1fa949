/* The longest keys, the deepest trees, the largest values. */
#include "store/hand_env.h"

#include "store/node.h"

struct fixture {
    struct hand_env env;
    struct store *store;
    struct store_iter iter;
    uint8_t key[STORE_KEY_MAX];
};

static int open_store(void **ctx)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    assert_non_null(f);
    hand_env_init(&f->env);
    assert_status(store_new(&f->env.env, &f->store), ST_OK);
    memset(f->key, 'k', sizeof f->key);
    *ctx = f;
    return 0;
}

static int close_store(void **ctx)
{
    struct fixture *f = *ctx;
    store_close(f->store, &f->env);
    mem_free(f);
    return 0;
}

static struct store_pin publish_and_pin(struct fixture *f, uint64_t version)
{
    struct store_pin pin;
    store_publish(f->store, version);
    assert_status(store_pin(f->store, "test", 0, &pin), ST_OK);
    return pin;
}

static void the_iterator_is_small_enough_to_embed(void **ctx)
{
    (void)ctx;
    assert_true(sizeof(struct store_iter) <= 8192);
}

static void the_longest_key_and_the_largest_value_fit(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_item item;
    uint8_t *value = mem_must_alloc(STORE_VALUE_MAX);
    memset(value, 'v', STORE_VALUE_MAX);
    struct bytes key = bytes_of(f->key, sizeof f->key);
    store_put(f->store, key, bytes_of(value, STORE_VALUE_MAX), 1);
    struct store_pin pin = publish_and_pin(f, 1);
    assert_status(store_get(&pin, key, &item), ST_OK);
    assert_bytes(item.value, bytes_of(value, STORE_VALUE_MAX));
    store_iter_init(&f->iter, &pin, bytes_of(f->key, sizeof f->key), BYTES(""));
    assert_true(store_iter_next(&f->iter));
    assert_int_equal(f->iter.item.key.len, STORE_KEY_MAX);
    assert_false(store_iter_next(&f->iter));
    store_unpin(&pin);
    mem_free(value);
}

static void questions_longer_than_any_key_find_nothing(void **ctx)
{
    struct fixture *f = *ctx;
    static uint8_t longer[STORE_KEY_MAX + 100];
    struct store_item item;
    uint8_t hash[STORE_HASH_BYTES];
    memset(longer, 'k', sizeof longer);
    store_put(f->store, bytes_of(f->key, sizeof f->key), BYTES(""), 4);
    store_put(f->store, bytes_of(f->key, 10), BYTES(""), 5);
    struct store_pin pin = publish_and_pin(f, 5);
    struct bytes question = bytes_of(longer, sizeof longer);
    assert_status(store_get(&pin, question, &item), ST_NOT_FOUND);
    assert_int_equal(store_newest(&pin, question), 4);
    store_hash(&pin, question, hash);
    assert_int_equal(hash[0] | hash[31], 0);
    store_iter_init(&f->iter, &pin, question, BYTES(""));
    assert_false(store_iter_next(&f->iter));
    store_iter_init(&f->iter, &pin, BYTES(""), question);
    assert_false(store_iter_next(&f->iter));
    assert_false(store_delete(f->store, question, 6));
    store_delete_prefix(f->store, question, 6);
    assert_int_equal(store_writer_newest(f->store, BYTES("")), 5);
    store_unpin(&pin);
}

/* k, kk, kkk, ...: one inner node a key. */
static void put_nested(struct fixture *f)
{
    for (size_t len = 0; len <= STORE_KEY_MAX; len++)
        store_put(f->store, bytes_of(f->key, len), BYTES("v"), len + 1);
}

static void keys_may_nest_as_deep_as_they_are_long(void **ctx)
{
    struct fixture *f = *ctx;
    uint8_t hash[STORE_HASH_BYTES], again[STORE_HASH_BYTES];
    size_t n = 0;
    put_nested(f);
    struct store_pin pin = publish_and_pin(f, STORE_KEY_MAX + 1);
    store_iter_init(&f->iter, &pin, BYTES(""), BYTES(""));
    for (; store_iter_next(&f->iter); n++)
        assert_int_equal(f->iter.item.key.len, n);
    assert_int_equal(n, STORE_KEY_MAX + 1);
    store_hash(&pin, BYTES(""), hash);
    store_delete(f->store, bytes_of(f->key, 2000), 9000);
    store_put(f->store, bytes_of(f->key, 2000), BYTES("v"), 9001);
    struct store_pin later = publish_and_pin(f, 9001);
    store_hash(&later, BYTES(""), again);
    assert_memory_equal(hash, again, sizeof hash);
    assert_int_equal(store_newest(&later, bytes_of(f->key, 2000)), 9001);
    assert_int_equal(store_newest(&later, bytes_of(f->key, 2001)), 9000); /* the heir */
    assert_int_equal(store_newest(&later, bytes_of(f->key, 2002)), STORE_KEY_MAX + 1);
    store_unpin(&pin);
    store_unpin(&later);
    for (size_t len = 0; len <= STORE_KEY_MAX; len += 2)
        assert_true(store_delete(f->store, bytes_of(f->key, len), 9002));
    store_delete_prefix(f->store, bytes_of(f->key, 3), 9003);
    struct store_stats stats;
    store_publish(f->store, 9003);
    hand_env_work(&f->env);
    store_stats(f->store, &stats);
    assert_int_equal(stats.keys, 1);
}

/* The walk must find the way back that its short memory lost. */
static void side_branches_of_a_deep_tree_are_walked_in_order(void **ctx)
{
    struct fixture *f = *ctx;
    size_t n = 0, last_len = STORE_KEY_MAX;
    put_nested(f);
    for (size_t len = 1; len < STORE_KEY_MAX; len += 50) {
        f->key[len] = 'z'; /* sorts behind everything deeper */
        store_put(f->store, bytes_of(f->key, len + 1), BYTES("side"), 1);
        f->key[len] = 'k';
    }
    struct store_pin pin = publish_and_pin(f, 1);
    store_iter_init(&f->iter, &pin, BYTES("k"), bytes_of(f->key, 4090));
    while (store_iter_next(&f->iter)) {
        if (f->iter.item.value.len == 1)
            continue;
        assert_true(f->iter.item.key.len < last_len);
        last_len = f->iter.item.key.len;
        n++;
    }
    assert_int_equal(n, 82);
    store_iter_init(&f->iter, &pin, BYTES(""), bytes_of(f->key, 4090));
    assert_true(store_iter_next(&f->iter));
    store_iter_skip(&f->iter, bytes_of(f->key, 1002));
    assert_true(store_iter_next(&f->iter));
    assert_int_equal(f->iter.item.key.len, 1002);
    assert_int_equal(f->iter.item.key.data[1001], 'z');
    store_unpin(&pin);
}

static void the_empty_key_is_a_key(void **ctx)
{
    struct fixture *f = *ctx;
    struct bytes none = {NULL, 0};
    struct store_item item;
    store_put(f->store, none, none, 1);
    store_put(f->store, BYTES("a"), BYTES("1"), 2);
    assert_status(store_writer_get(f->store, none, &item), ST_OK);
    assert_int_equal(item.modified, 1);
    struct store_pin pin = publish_and_pin(f, 2);
    store_iter_init(&f->iter, &pin, none, none);
    assert_true(store_iter_next(&f->iter));
    assert_int_equal(f->iter.item.key.len, 0);
    assert_true(store_iter_next(&f->iter));
    assert_false(store_iter_next(&f->iter));
    assert_true(store_delete(f->store, none, 3));
    assert_false(store_delete(f->store, none, 3));
    store_unpin(&pin);
}

/* A node grows and shrinks through all its capacities, in one batch and over many. */
static void nodes_fit_their_children(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_stats full, empty;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 256; i++) {
            f->key[1] = (uint8_t)(i * 7);
            store_put(f->store, bytes_of(f->key, 2), BYTES(""), 1);
            if (round == 1)
                store_publish(f->store, 1);
        }
        store_publish(f->store, 1);
        store_stats(f->store, &full);
        assert_int_equal(full.keys, 256);
        for (unsigned i = 0; i < 254; i++) {
            f->key[1] = (uint8_t)(i * 7);
            assert_true(store_delete(f->store, bytes_of(f->key, 2), 2));
            if (round == 1)
                store_publish(f->store, 1);
        }
        store_publish(f->store, 1);
        store_put(f->store, bytes_of(f->key, 2), BYTES(""), 3); /* copies the node once more */
        store_publish(f->store, 1);
        store_stats(f->store, &empty);
        assert_int_equal(empty.nodes, 4);
        assert_true(empty.bytes < 500);
        store_delete_prefix(f->store, BYTES(""), 4);
        store_publish(f->store, 4);
        hand_env_work(&f->env);
    }
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_iterator_is_small_enough_to_embed),
        WITH_STORE(the_longest_key_and_the_largest_value_fit),
        WITH_STORE(questions_longer_than_any_key_find_nothing),
        WITH_STORE(keys_may_nest_as_deep_as_they_are_long),
        WITH_STORE(side_branches_of_a_deep_tree_are_walked_in_order),
        WITH_STORE(the_empty_key_is_a_key),
        WITH_STORE(nodes_fit_their_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
