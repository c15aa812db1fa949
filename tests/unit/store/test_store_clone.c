/* A clone as the staged tree: random changes of it beside the tree that it was made of. */
#include "store/model.h"

enum { KEY_MAX = 6, PINS = 4 };

struct world {
    struct hand_env env;
    struct store *store;
    struct rng rng;
    struct model live, staged;
    uint64_t version;
    struct {
        struct store_pin pin;
        struct model seen;
        bool held;
    } pins[PINS];
};

static void world_open(struct world *w, uint64_t seed)
{
    *w = (struct world){.rng = {seed}};
    hand_env_init(&w->env);
    assert_status(store_new(&w->env.env, &w->store), ST_OK);
    store_put(w->store, BYTES("l/"), BYTES(""), 0);
    store_put(w->store, BYTES("s/"), BYTES(""), 0);
    model_put(&w->live, BYTES("l/"), BYTES(""), 0, 0);
    model_put(&w->live, BYTES("s/"), BYTES(""), 0, 0);
}

static void assert_content(const struct store_pin *pin, const struct model *want)
{
    struct store_iter *iter = mem_must_alloc(sizeof *iter);
    size_t n = 0;
    store_iter_init(iter, pin, BYTES(""), BYTES(""));
    for (; store_iter_next(iter); n++) {
        assert_true(n < want->n);
        assert_item(&iter->item, &want->items[n]);
    }
    assert_int_equal(n, want->n);
    assert_int_equal(store_count(pin, BYTES("")), want->n);
    mem_free(iter);
}

static void pin_end(struct world *w, size_t i)
{
    if (!w->pins[i].held)
        return;
    assert_content(&w->pins[i].pin, &w->pins[i].seen);
    store_unpin(&w->pins[i].pin);
    model_done(&w->pins[i].seen);
    w->pins[i].held = false;
}

/* Hold the published tree, or the staged one. */
static void pin_begin(struct world *w, size_t i)
{
    bool staged = store_staging(w->store) && rng_below(&w->rng, 2) == 0;
    pin_end(w, i);
    if (staged) {
        assert_status(store_pin_staged(w->store, "test", 0, &w->pins[i].pin), ST_OK);
        model_copy(&w->pins[i].seen, &w->staged);
    } else {
        assert_status(store_pin(w->store, "test", 0, &w->pins[i].pin), ST_OK);
        model_copy(&w->pins[i].seen, &w->live);
    }
    w->pins[i].held = true;
}

static struct bytes draw_key(struct world *w, const char *segment, uint8_t room[KEY_MAX + 2])
{
    size_t len = 3 + rng_below(&w->rng, KEY_MAX - 1);
    memcpy(room, segment, 2);
    for (size_t i = 2; i < len; i++)
        room[i] = (uint8_t)('a' + rng_below(&w->rng, 3));
    return bytes_of(room, len);
}

static void change_live(struct world *w, const char *segment)
{
    uint8_t room[KEY_MAX + 2];
    struct bytes key = draw_key(w, segment, room);
    w->version++;
    if (rng_below(&w->rng, 3) == 0) {
        assert_int_equal(store_delete(w->store, key, w->version), model_delete(&w->live, key));
        return;
    }
    store_put(w->store, key, key, w->version);
    model_put(&w->live, key, key, 0, w->version);
}

static void change_staged(struct world *w)
{
    uint8_t room[KEY_MAX + 2];
    struct bytes key = draw_key(w, "s/", room);
    uint64_t version = w->version + rng_below(&w->rng, 20);
    switch (rng_below(&w->rng, 5)) {
    case 0:
    case 1:
        assert_int_equal(store_stage_delete(w->store, key), model_delete(&w->staged, key));
        return;
    case 2: store_stage_newest(w->store, key, version); return;
    default:
        store_stage_put(w->store, key, BYTES("staged"), version, version);
        model_put(&w->staged, key, BYTES("staged"), version, version);
    }
}

static void publish(struct world *w)
{
    store_publish(w->store, w->version);
    if (rng_below(&w->rng, 3) == 0)
        hand_env_work(&w->env);
    if (rng_below(&w->rng, 2) == 0)
        pin_begin(w, rng_below(&w->rng, PINS));
    else
        pin_end(w, rng_below(&w->rng, PINS));
}

static void clone_begin(struct world *w)
{
    size_t from, to;
    store_stage_clone(w->store, BYTES("s/"));
    model_done(&w->staged);
    model_range(&w->live, BYTES("s/"), &from, &to);
    for (size_t i = from; i < to; i++)
        model_put(&w->staged, w->live.items[i].key, w->live.items[i].value,
                  w->live.items[i].created, w->live.items[i].modified);
}

static void clone_swap(struct world *w)
{
    w->version += 20;
    store_stage_swap_clone(w->store, BYTES("l/"), rng_below(&w->rng, 2) == 0 ? w->version : 0);
    model_delete_prefix(&w->live, BYTES("s/"));
    model_copy(&w->live, &w->staged);
}

/* One clone: made, changed beside local keys, swapped in or dropped. Part of it may be one batch. */
static void clone_once(struct world *w)
{
    for (size_t n = rng_below(&w->rng, 12); n > 0; n--)
        change_live(w, "s/");
    if (rng_below(&w->rng, 2) == 0)
        publish(w);
    clone_begin(w);
    for (size_t n = rng_below(&w->rng, 16); n > 0; n--) {
        change_staged(w);
        if (rng_below(&w->rng, 3) == 0)
            change_live(w, "l/");
        if (rng_below(&w->rng, 3) == 0)
            publish(w);
    }
    if (rng_below(&w->rng, 3) == 0) {
        store_stage_drop(w->store);
    } else if (rng_below(&w->rng, 6) == 0) {
        clone_begin(w); /* anew, as another writer does */
        change_staged(w);
        clone_swap(w);
    } else {
        clone_swap(w);
    }
    publish(w);
}

static void world_close(struct world *w)
{
    struct store_stats stats;
    for (size_t i = 0; i < PINS; i++)
        pin_end(w, i);
    if (rng_below(&w->rng, 2) == 0)
        clone_begin(w); /* left over */
    store_load_reset(w->store);
    store_publish(w->store, 0);
    for (unsigned i = 0; i < 3; i++) {
        hand_env_work(&w->env);
        store_publish(w->store, 0);
    }
    store_stats(w->store, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.retained_bytes, 0);
    store_close(w->store, &w->env);
    model_done(&w->live);
    model_done(&w->staged);
}

static void a_clone_changes_apart_and_takes_the_place(void **state)
{
    (void)state;
    size_t n = rounds(400, 20000);
    for (size_t seed = 1; seed <= n; seed++) {
        struct world w;
        struct store_pin pin;
        world_open(&w, seed);
        for (size_t i = 0; i < 12; i++) {
            clone_once(&w);
            assert_status(store_pin(w.store, "test", 0, &pin), ST_OK);
            assert_content(&pin, &w.live);
            store_unpin(&pin);
        }
        world_close(&w);
    }
}

/* A store that is freed with a clone in it frees each node once. */
static void a_clone_may_be_left_over(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 1);
    change_live(&w, "s/");
    change_live(&w, "s/");
    clone_begin(&w);
    change_staged(&w);
    store_publish(w.store, w.version);
    assert_true(store_staging(w.store));
    store_close(w.store, &w.env);
    model_done(&w.live);
    model_done(&w.staged);
}

/* Newest versions: of the clone, and the bound. */
static void a_swap_of_a_clone_keeps_newest_versions(void **state)
{
    (void)state;
    struct world w;
    struct store_pin pin;
    world_open(&w, 1);
    store_put(w.store, BYTES("s/a/1"), BYTES("x"), 5);
    store_put(w.store, BYTES("s/b/1"), BYTES("x"), 6);
    store_put(w.store, BYTES("s/b/2"), BYTES("x"), 7);
    store_publish(w.store, 7);
    store_stage_clone(w.store, BYTES("s/"));
    assert_true(store_stage_delete(w.store, BYTES("s/b/2")));
    store_stage_newest(w.store, BYTES("s/b/"), 9);
    store_stage_swap_clone(w.store, BYTES("l/"), 0);
    store_publish(w.store, 9);
    assert_status(store_pin(w.store, "test", 0, &pin), ST_OK);
    assert_int_equal(store_newest(&pin, BYTES("s/a/")), 5);
    assert_int_equal(store_newest(&pin, BYTES("s/b/")), 9);
    assert_int_equal(store_newest(&pin, BYTES("s/")), 9);
    store_unpin(&pin);
    store_stage_clone(w.store, BYTES("s/"));
    store_stage_swap_clone(w.store, BYTES("l/"), 8);
    store_publish(w.store, 9);
    assert_status(store_pin(w.store, "test", 0, &pin), ST_OK);
    assert_int_equal(store_newest(&pin, BYTES("s/a/")), 8);
    assert_int_equal(store_newest(&pin, BYTES("s/b/")), 9);
    assert_int_equal(store_newest(&pin, BYTES("l/")), 0);
    store_unpin(&pin);
    store_close(w.store, &w.env);
    model_done(&w.live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clone_changes_apart_and_takes_the_place),
        cmocka_unit_test(a_clone_may_be_left_over),
        cmocka_unit_test(a_swap_of_a_clone_keeps_newest_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
