/* Newest versions, compared with the definition in store.h. The test computes them slowly: after
 * every change it finds all nodes again from all keys. */
#include "store/hand_env.h"

enum { TEXT_MAX = 8, KEYS_MAX = 24, NODES_MAX = 2 * KEYS_MAX, EVENTS_MAX = 200000 };

struct text {
    uint8_t data[TEXT_MAX];
    size_t len;
};

struct node {
    struct text at;
    uint64_t newest;
};

struct slow {
    struct text keys[KEYS_MAX];
    size_t n_keys;
    struct node nodes[NODES_MAX];
    size_t n_nodes;
    uint64_t newest;
};

struct event {
    struct text key;
    uint64_t version;
};

/* Everything that ever happened, for the one thing that must hold whatever the definition. */
static struct event events[EVENTS_MAX];
static size_t n_events;

static struct bytes text_bytes(const struct text *t)
{
    return bytes_of(t->data, t->len);
}

static bool begins(const struct text *t, const struct text *prefix)
{
    return bytes_has_prefix(text_bytes(t), text_bytes(prefix));
}

static bool same(const struct text *a, const struct text *b)
{
    return bytes_eq(text_bytes(a), text_bytes(b));
}

static void event_add(const struct text *key, uint64_t version)
{
    assert_true(n_events < EVENTS_MAX);
    events[n_events++] = (struct event){*key, version};
}

static struct node *node_find(struct slow *s, const struct text *at)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (same(&s->nodes[i].at, at))
            return &s->nodes[i];
    return NULL;
}

/* The shortest node that begins with `at`. */
static struct node *node_top(struct slow *s, const struct text *at)
{
    struct node *top = NULL;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (begins(&s->nodes[i].at, at) && (top == NULL || s->nodes[i].at.len < top->at.len))
            top = &s->nodes[i];
    return top;
}

static void node_add(struct slow *s, const struct text *at)
{
    if (node_find(s, at) != NULL)
        return;
    assert_true(s->n_nodes < NODES_MAX);
    s->nodes[s->n_nodes++] = (struct node){.at = *at};
}

/* Every key, and what every two keys have in common. */
static void nodes_make(struct slow *s)
{
    s->n_nodes = 0;
    for (size_t i = 0; i < s->n_keys; i++) {
        node_add(s, &s->keys[i]);
        for (size_t j = 0; j < i; j++) {
            struct text part = s->keys[i];
            part.len = 0;
            while (part.len < MIN(s->keys[i].len, s->keys[j].len) &&
                   s->keys[j].data[part.len] == part.data[part.len])
                part.len++;
            node_add(s, &part);
        }
    }
}

static uint64_t slow_newest(struct slow *s, const struct text *prefix)
{
    const struct node *found = node_top(s, prefix);
    if (found != NULL)
        return found->newest;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (begins(prefix, &s->nodes[i].at) &&
            (found == NULL || s->nodes[i].at.len > found->at.len))
            found = &s->nodes[i];
    return found != NULL ? found->newest : s->newest;
}

static void slow_put(struct slow *s, const struct text *key, uint64_t version)
{
    static struct slow old;
    old = *s;
    bool there = false;
    for (size_t i = 0; i < s->n_keys; i++)
        there |= same(&s->keys[i], key);
    if (!there)
        s->keys[s->n_keys++] = *key;
    nodes_make(s);
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];
        const struct node *was = node_top(&old, &n->at);
        n->newest = was != NULL ? was->newest : 0;
        if (begins(key, &n->at))
            n->newest = MAX(n->newest, version);
    }
    s->newest = MAX(s->newest, version);
}

/* Take away the keys below `prefix`, or only the key itself. */
static bool slow_remove(struct slow *s, const struct text *prefix, bool only, uint64_t version)
{
    static struct slow old;
    old = *s;
    s->n_keys = 0;
    for (size_t i = 0; i < old.n_keys; i++) {
        if (only ? same(&old.keys[i], prefix) : begins(&old.keys[i], prefix))
            event_add(&old.keys[i], version);
        else
            s->keys[s->n_keys++] = old.keys[i];
    }
    if (s->n_keys == old.n_keys)
        return false;
    nodes_make(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].newest = node_find(&old, &s->nodes[i].at)->newest;
    for (size_t i = 0; i < old.n_nodes; i++) {
        struct node *n = &old.nodes[i];
        if (!begins(prefix, &n->at) || (!only && n->at.len >= prefix->len))
            continue;
        n->newest = MAX(n->newest, version);
        struct node *heir = node_top(s, &n->at); /* itself, or its only child */
        if (heir != NULL)
            heir->newest = MAX(heir->newest, n->newest);
    }
    s->newest = MAX(s->newest, version);
    return true;
}

static struct text text_random(struct rng *rng, size_t len_max)
{
    struct text t = {.len = rng_below(rng, len_max + 1)};
    for (size_t i = 0; i < t.len; i++)
        t.data[i] = (uint8_t)("abc"[rng_below(rng, 3)]);
    return t;
}

/* The place of a prefix, reached in steps, tells what lookups of the prefix tell. */
static void check_place(const struct store_pin *pin, struct bytes prefix)
{
    struct store_place place = store_place_top(pin);
    struct store_item item;
    for (size_t at = 0, step = 1; at < prefix.len; at += step, step = step % 3 + 1) {
        struct bytes rest = bytes_from(prefix, at);
        place = store_place_below(&place, bytes_of(rest.data, MIN(step, rest.len)));
    }
    uint64_t modified = store_get(pin, prefix, &item) == ST_OK ? item.modified : 0;
    assert_int_equal(store_place_modified(&place), modified);
    assert_int_equal(place.node != NULL, store_count(pin, prefix) != 0);
    if (pin->floor == NULL)
        assert_int_equal(place.newest, store_newest(pin, prefix));
    else
        assert_true(place.newest <= store_newest(pin, prefix));
}

static uint64_t published_newest(struct store *store, struct bytes prefix)
{
    struct store_pin pin;
    assert_status(store_pin(store, "test", 0, &pin), ST_OK);
    uint64_t newest = store_newest(&pin, prefix);
    check_place(&pin, prefix);
    store_unpin(&pin);
    return newest;
}

static void check_one(struct slow *s, struct store *store, const struct text *t)
{
    uint64_t newest = store_writer_newest(store, text_bytes(t));
    assert_int_equal(newest, slow_newest(s, t));
    assert_int_equal(newest, published_newest(store, text_bytes(t)));
    for (size_t i = 0; i < n_events; i++)
        if (begins(&events[i].key, t))
            assert_true(events[i].version <= newest);
}

/* The store is published. */
static void check(struct slow *s, struct store *store, struct rng *rng)
{
    for (size_t i = 0; i < 6; i++) {
        struct text t = text_random(rng, TEXT_MAX);
        check_one(s, store, &t);
    }
    for (size_t i = 0; i < s->n_nodes; i++)
        check_one(s, store, &s->nodes[i].at);
}

/* Load what `from` holds into an empty store, as from a snapshot. */
static void restore(struct slow *s, struct store *from, struct store *to)
{
    store_load_reset(to);
    for (size_t i = 0; i < s->n_keys; i++) {
        struct store_item item;
        assert_status(store_writer_get(from, text_bytes(&s->keys[i]), &item), ST_OK);
        store_load_put(to, item.key, item.value, item.created, item.modified);
    }
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct bytes at = text_bytes(&s->nodes[i].at);
        store_raise_newest(to, at, store_writer_newest(from, at));
    }
}

/* Everything is replaced by one staged key, except below `keep`. */
static void swap(struct slow *s, struct store *stores[2], const struct text *keep,
                 const struct text *put, uint64_t version)
{
    static struct slow old;
    old = *s;
    s->n_keys = 0;
    for (size_t i = 0; i < old.n_keys; i++) {
        if (begins(&old.keys[i], keep))
            s->keys[s->n_keys++] = old.keys[i];
        else
            event_add(&old.keys[i], version);
    }
    s->keys[s->n_keys++] = *put;
    nodes_make(s);
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];
        const struct node *was = node_find(&old, &n->at);
        n->newest = begins(&n->at, keep) && was != NULL ? was->newest : version;
    }
    s->newest = MAX(s->newest, version);
    for (size_t i = 0; i < 2; i++) {
        store_stage_begin(stores[i]);
        store_stage_put(stores[i], text_bytes(put), BYTES("staged"), 1, 1);
        store_stage_swap(stores[i], text_bytes(keep), version);
    }
    event_add(put, version);
}

static void change(struct slow *s, struct store *stores[2], struct rng *rng, uint64_t version)
{
    static const struct text keep = {"b", 1};
    struct text t = text_random(rng, 5);
    struct bytes key = text_bytes(&t);
    size_t dice = rng_below(rng, 20);
    if (dice == 0 && t.len > 0 && t.data[0] != 'b') {
        swap(s, stores, &keep, &t, version);
    } else if (dice < 3) {
        bool removed = slow_remove(s, &t, false, version);
        for (size_t i = 0; i < 2; i++)
            store_delete_prefix(stores[i], key, version);
        (void)removed; /* the store says nothing about it */
    } else if (dice < 11 || s->n_keys + 1 == KEYS_MAX) {
        bool removed = slow_remove(s, &t, true, version);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(store_delete(stores[i], key, version), removed);
    } else {
        slow_put(s, &t, version);
        event_add(&t, version);
        for (size_t i = 0; i < 2; i++)
            store_put(stores[i], key, BYTES("v"), version);
    }
}

/* stores[0] sees every change; stores[1] is restored from it now and then, and goes on from there.
 * Both are compared with the definition. */
static void run(uint64_t seed, size_t steps, bool restoring)
{
    struct hand_env envs[2];
    struct store *stores[2];
    static struct slow slow;
    struct rng rng = {seed};
    slow = (struct slow){0};
    n_events = 0;
    for (size_t i = 0; i < 2; i++) {
        hand_env_init(&envs[i]);
        assert_status(store_new(&envs[i].env, &stores[i]), ST_OK);
    }
    for (size_t step = 1; step <= steps; step++) {
        change(&slow, stores, &rng, step);
        if (restoring && slow.n_keys > 0 && rng_below(&rng, 40) == 0)
            restore(&slow, stores[0], stores[1]);
        for (size_t i = 0; i < 2; i++) {
            if (i == 0 || rng_below(&rng, 3) == 0)
                store_publish(stores[i], step);
            hand_env_work(&envs[i]);
        }
        check(&slow, stores[0], &rng);
        store_publish(stores[1], step);
        check(&slow, stores[1], &rng);
    }
    for (size_t i = 0; i < 2; i++)
        store_close(stores[i], &envs[i]);
}

static void newest_follows_its_definition(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 1; seed <= 4; seed++)
        run(seed, rounds(800, 4000), false);
}

static void a_restored_tree_answers_like_the_original(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 51; seed <= 54; seed++)
        run(seed, rounds(800, 4000), true);
}

static void an_empty_tree_remembers_its_last_change(void **ctx)
{
    (void)ctx;
    struct hand_env env;
    struct store *store;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    assert_int_equal(published_newest(store, BYTES("")), 0);
    store_put(store, BYTES("k"), BYTES("v"), 3);
    assert_true(store_delete(store, BYTES("k"), 4));
    assert_int_equal(store_writer_newest(store, BYTES("k")), 4);
    assert_int_equal(published_newest(store, BYTES("k")), 0);
    store_publish(store, 4);
    assert_int_equal(published_newest(store, BYTES("")), 4);
    store_close(store, &env);
}

/* The keys "s/" and "l/" themselves hold what happened below them. */
static void segments_do_not_show_each_other(void **ctx)
{
    (void)ctx;
    struct hand_env env;
    struct store *store;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    store_put(store, BYTES("s/"), BYTES(""), 0);
    store_put(store, BYTES("l/"), BYTES(""), 0);
    store_put(store, BYTES("s/a"), BYTES(""), 700);
    assert_int_equal(store_writer_newest(store, BYTES("l/x/")), 0);
    store_put(store, BYTES("l/x/1"), BYTES(""), 5);
    assert_true(store_delete(store, BYTES("l/x/1"), 6));
    assert_true(store_delete(store, BYTES("s/a"), 701));
    assert_int_equal(store_writer_newest(store, BYTES("l/x/")), 6);
    assert_int_equal(store_writer_newest(store, BYTES("s/b")), 701);
    store_publish(store, 701);
    store_close(store, &env);
}

static void an_older_change_hides_nothing_newer(void **ctx)
{
    (void)ctx;
    struct hand_env env;
    struct store *store;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    store_put(store, BYTES("s/new"), BYTES(""), 700);
    store_put(store, BYTES("s/old"), BYTES(""), 5); /* another counter, or a load out of order */
    assert_int_equal(store_writer_newest(store, BYTES("s/")), 700);
    assert_int_equal(store_writer_newest(store, BYTES("s/n")), 700);
    assert_int_equal(store_writer_newest(store, BYTES("s/o")), 5);
    store_raise_newest(store, BYTES("s/o"), 6);
    assert_int_equal(store_writer_newest(store, BYTES("s/old")), 6);
    assert_int_equal(store_writer_newest(store, BYTES("")), 700);
    store_close(store, &env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_follows_its_definition),
        cmocka_unit_test(a_restored_tree_answers_like_the_original),
        cmocka_unit_test(an_empty_tree_remembers_its_last_change),
        cmocka_unit_test(segments_do_not_show_each_other),
        cmocka_unit_test(an_older_change_hides_nothing_newer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
