/* Random operations on the store and on a sorted array, side by side. */
#include "store/model.h"

enum { PINS = 6, VALUE_MAX = 40 };

struct pinned {
    bool held;
    struct store_pin pin;
    struct model content;
};

struct pair {
    struct hand_env env;
    struct store *store;
    struct model model;  /* what the writer sees */
    struct model public; /* what was published last */
    struct model staged;
    struct pinned pins[PINS];
    struct rng rng;
    enum keys keys;
    uint64_t version;
};

static void pair_open(struct pair *p, uint64_t seed, enum keys keys)
{
    *p = (struct pair){.rng.state = seed, .keys = keys, .version = 1};
    hand_env_init(&p->env);
    assert_int_equal(store_new(&p->env.env, &p->store), ST_OK);
}

static void unpin(struct pair *p, struct pinned *slot)
{
    (void)p;
    assert_same(&slot->pin, &slot->content);
    store_unpin(&slot->pin);
    model_done(&slot->content);
    slot->held = false;
}

static void pair_close(struct pair *p)
{
    for (size_t i = 0; i < PINS; i++)
        if (p->pins[i].held)
            unpin(p, &p->pins[i]);
    store_close(p->store, &p->env);
    model_done(&p->model);
    model_done(&p->public);
    model_done(&p->staged);
}

static struct bytes value_random(struct rng *rng, uint8_t *room)
{
    size_t len = rng_below(rng, VALUE_MAX + 1);
    for (size_t i = 0; i < len; i++)
        room[i] = (uint8_t)rng_next(rng);
    return bytes_of(room, len);
}

static void publish(struct pair *p)
{
    store_publish(p->store, p->version);
    model_done(&p->public);
    model_copy(&p->public, &p->model);
    p->env.now_ms++;
    if (rng_below(&p->rng, 2) == 0)
        hand_env_work(&p->env);
    if (rng_below(&p->rng, 4) == 0)
        hand_env_pass(&p->env, 300);
}

static void pin_or_unpin(struct pair *p)
{
    struct pinned *slot = &p->pins[rng_below(&p->rng, PINS)];
    if (slot->held) {
        unpin(p, slot);
        return;
    }
    assert_int_equal(store_pin(p->store, "test", 0, &slot->pin), ST_OK);
    slot->held = true;
    model_copy(&slot->content, &p->public);
    assert_same(&slot->pin, &slot->content);
}

static void check_get(struct pair *p, struct bytes key)
{
    struct store_item item;
    const struct model_item *want = model_get(&p->model, key);
    enum status st = store_writer_get(p->store, key, &item);
    assert_int_equal(st, want != NULL ? ST_OK : ST_NOT_FOUND);
    if (want != NULL)
        assert_item(&item, want);
}

/* A listing from a random place, folding at random. */
static void check_walk(struct pair *p, struct bytes prefix, struct bytes from)
{
    static struct store_iter iter;
    struct store_pin pin;
    size_t i, end;
    assert_int_equal(store_pin(p->store, "walk", 0, &pin), ST_OK);
    model_range(&p->public, prefix, &i, &end);
    while (i < end && bytes_cmp(p->public.items[i].key, from) < 0)
        i++;
    store_iter_init(&iter, &pin, prefix, from);
    while (store_iter_next(&iter)) {
        assert_true(i < end);
        assert_item(&iter.item, &p->public.items[i]);
        if (rng_below(&p->rng, 4) != 0) {
            i++;
            continue;
        }
        struct bytes skip = bytes_of(iter.item.key.data, rng_below(&p->rng, iter.item.key.len + 1));
        struct bytes last = p->public.items[i].key;
        while (i < end && bytes_has_prefix(p->public.items[i].key, bytes_of(last.data, skip.len)))
            i++;
        store_iter_skip(&iter, skip);
    }
    assert_int_equal(i, end);
    store_unpin(&pin);
}

/* What lies below "l/" stays. */
static void swap(struct pair *p)
{
    struct bytes keep = BYTES("l/");
    size_t from, to;
    store_stage_swap(p->store, keep, p->version);
    model_delete_prefix(&p->staged, keep);
    model_range(&p->model, keep, &from, &to);
    for (size_t i = from; i < to; i++)
        model_put(&p->staged, p->model.items[i].key, p->model.items[i].value,
                  p->model.items[i].created, p->model.items[i].modified);
    model_done(&p->model);
    p->model = p->staged;
    p->staged = (struct model){0};
}

static void stage(struct pair *p)
{
    struct model_key key;
    uint8_t room[VALUE_MAX];
    size_t dice = rng_below(&p->rng, 60);
    if (!store_staging(p->store) || dice == 0) {
        store_stage_begin(p->store);
        model_done(&p->staged);
    } else if (dice == 1) {
        swap(p);
    } else if (dice == 2) {
        store_stage_drop(p->store);
        model_done(&p->staged);
    } else {
        key_random(&p->rng, p->keys, &key);
        struct bytes value = value_random(&p->rng, room);
        uint64_t created = 1 + rng_below(&p->rng, p->version);
        store_stage_put(p->store, key_bytes(&key), value, created, p->version);
        model_put(&p->staged, key_bytes(&key), value, created, p->version);
    }
}

static void step(struct pair *p)
{
    struct model_key key, other;
    uint8_t room[VALUE_MAX];
    key_random(&p->rng, p->keys, &key);
    struct bytes k = key_bytes(&key);
    size_t dice = rng_below(&p->rng, 100);
    p->version += rng_below(&p->rng, 2);
    if (dice < 50) {
        struct bytes value = value_random(&p->rng, room);
        store_put(p->store, k, value, p->version);
        model_put(&p->model, k, value, 0, p->version);
    } else if (dice < 72) {
        assert_int_equal(store_delete(p->store, k, p->version), model_delete(&p->model, k));
    } else if (dice < 73) {
        k.len = rng_below(&p->rng, k.len + 1);
        store_delete_prefix(p->store, k, p->version);
        model_delete_prefix(&p->model, k);
    } else if (dice < 80) {
        publish(p);
    } else if (dice < 92) {
        check_get(p, k);
    } else if (dice < 97) {
        stage(p);
    } else if (dice < 99) {
        key_random(&p->rng, p->keys, &other);
        k.len = rng_below(&p->rng, k.len + 1);
        check_walk(p, k, key_bytes(&other));
    } else {
        pin_or_unpin(p);
    }
}

static void run(uint64_t seed, enum keys keys, size_t steps)
{
    static struct pair pair;
    pair_open(&pair, seed, keys);
    for (size_t i = 0; i < steps; i++)
        step(&pair);
    publish(&pair);
    struct store_pin pin;
    assert_int_equal(store_pin(pair.store, "end", 0, &pin), ST_OK);
    assert_same(&pin, &pair.model);
    store_unpin(&pin);
    pair_close(&pair);
}

static void nested_keys_behave_as_a_sorted_array(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 1; seed <= 4; seed++)
        run(seed, KEYS_NESTED, rounds(12000, 400000));
}

static void wide_nodes_behave_as_a_sorted_array(void **ctx)
{
    (void)ctx;
    run(11, KEYS_WIDE, rounds(12000, 200000));
    run(12, KEYS_WIDE, rounds(12000, 200000));
}

/* One change for each publication: each copies the node that tells the keys apart. Children come
 * and go below it while it grows beyond an array of bytes and shrinks to one again. */
static void a_node_changes_its_kind_below_a_way(void **ctx)
{
    (void)ctx;
    enum { WIDE = 60 };
    static struct pair pair;
    char key[16];
    pair_open(&pair, 41, KEYS_WIDE);
    for (unsigned round = 0; round < 2 * WIDE; round++) {
        unsigned n = round < WIDE ? round : 2 * WIDE - 1 - round;
        for (unsigned part = 0; part < 2; part++) {
            (void)snprintf(key, sizeof key, "s/%c/%u", (char)('A' + n), part);
            struct bytes k = bytes_str(key);
            pair.version++;
            if (round < WIDE) {
                store_put(pair.store, k, BYTES("1"), pair.version);
                model_put(&pair.model, k, BYTES("1"), 0, pair.version);
            } else {
                assert_true(store_delete(pair.store, k, pair.version));
                assert_true(model_delete(&pair.model, k));
                assert_false(store_delete(pair.store, k, pair.version));
            }
            publish(&pair);
            /* the last child of all: its place differs between the kinds of node */
            (void)snprintf(key, sizeof key, "s/~/%u", round % 3);
            store_put(pair.store, bytes_str(key), BYTES("2"), pair.version);
            model_put(&pair.model, bytes_str(key), BYTES("2"), 0, pair.version);
            publish(&pair);
            (void)snprintf(key, sizeof key, "s/~/%u", (round + 1) % 3);
            assert_int_equal(store_delete(pair.store, bytes_str(key), pair.version),
                             model_delete(&pair.model, bytes_str(key)));
            publish(&pair);
        }
        struct store_pin pin;
        assert_int_equal(store_pin(pair.store, "round", 0, &pin), ST_OK);
        assert_same(&pin, &pair.model);
        store_unpin(&pin);
    }
    pair_close(&pair);
}

static void paths_behave_as_a_sorted_array(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 21; seed <= 24; seed++)
        run(seed, KEYS_PATHS, rounds(12000, 400000));
}

static void deep_keys_behave_as_a_sorted_array(void **ctx)
{
    (void)ctx;
    run(31, KEYS_DEEP, rounds(8000, 200000));
    run(32, KEYS_DEEP, rounds(8000, 200000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_keys_behave_as_a_sorted_array),
        cmocka_unit_test(wide_nodes_behave_as_a_sorted_array),
        cmocka_unit_test(a_node_changes_its_kind_below_a_way),
        cmocka_unit_test(paths_behave_as_a_sorted_array),
        cmocka_unit_test(deep_keys_behave_as_a_sorted_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
