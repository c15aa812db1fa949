#include "state/state_world.h"

#include "state/watch.h"

static struct state_world w;
static struct state_watches *ws;

struct waiter {
    struct state_watcher watcher;
    unsigned told;
};

static int setup(void **ctx)
{
    (void)ctx;
    sw_open(&w);
    sw_init(&w);
    assert_status(state_watches_new(w.state, &ws), ST_OK);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx;
    sw_run(&w);
    state_watches_free(ws);
    sw_close(&w);
    return 0;
}

static void on_changed(struct state_watcher *watcher)
{
    CONTAINER_OF(watcher, struct waiter, watcher)->told++;
}

static struct state_watched watched_of(const struct state_txn *txn, const char *key, bool prefix)
{
    struct bytes bytes = bytes_str(key);
    struct state_index found = prefix ? state_index_below(txn, bytes) : state_index_of(txn, bytes);
    return (struct state_watched){bytes, prefix, found.present};
}

static void watch_in(const struct state_txn *txn, struct waiter *waiter, const char *key,
                     bool prefix)
{
    struct state_watched watched = watched_of(txn, key, prefix);
    *waiter = (struct waiter){.watcher = {.changed = on_changed}};
    w.worker.later_ms += WATCH_PAUSE_MS;
    assert_status(state_watch_begin(ws, &waiter->watcher, txn, &watched, 1), ST_OK);
}

static void watch(struct waiter *waiter, const char *key, bool prefix)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    watch_in(&txn, waiter, key, prefix);
    state_end(&txn);
}

/* As the raft thread does after a batch. */
static void publish(void)
{
    w.worker.later_ms += WATCH_PAUSE_MS;
    state_watches_published(ws);
    sw_run(&w);
}

static void put(const char *key)
{
    sw_put(&w, key, "x");
    publish();
}

static void drop(const char *key)
{
    sw_delete(&w, key);
    publish();
}

static void a_watcher_of_a_key_is_told_of_its_changes_alone(void **ctx)
{
    struct waiter a, none, deleted;
    (void)ctx;
    put("s/p/a");
    put("s/p/c");
    watch(&a, "s/p/a", false);
    watch(&none, "s/p/b", false);
    watch(&deleted, "s/p/c", false);
    put("s/p/ab");
    put("s/p");
    put("s/q/a");
    assert_int_equal(a.told + none.told + deleted.told, 0);
    put("s/p/a");
    assert_int_equal(a.told, 1);
    drop("s/p/c");
    assert_int_equal(deleted.told, 1);
    put("s/p/b");
    assert_int_equal(none.told, 1);
    put("s/p/a"); /* a told watcher has ended */
    assert_int_equal(a.told, 1);
}

static void a_watcher_of_a_prefix_is_told_of_every_change_below(void **ctx)
{
    static const char *const changes[] = {"s/p/a", "s/p/b", "s/p/a/deep"};
    struct waiter list, empty;
    (void)ctx;
    put("s/p/a");
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        watch(&list, "s/p/", true);
        put("s/q/a");
        assert_int_equal(list.told, 0);
        put(changes[i]);
        assert_int_equal(list.told, 1);
        watch(&list, "s/p/", true);
        drop(changes[i]);
        assert_int_equal(list.told, 1);
    }
    watch(&empty, "s/p/", true);
    put("s/q/b"); /* moves the nearest ancestor */
    assert_int_equal(empty.told, 0);
    put("s/p/z");
    assert_int_equal(empty.told, 1);
}

static void a_change_before_the_watch_is_found(void **ctx)
{
    struct waiter key, prefix, other;
    struct state_txn txn;
    (void)ctx;
    put("s/p/a");
    sw_begin(&w, &txn);
    sw_put(&w, "s/p/a", "y");
    watch_in(&txn, &key, "s/p/a", false);
    watch_in(&txn, &prefix, "s/p/", true);
    watch_in(&txn, &other, "s/q/", true);
    assert_int_equal(key.told, 0); /* never from inside */
    state_end(&txn);
    sw_run(&w);
    assert_int_equal(key.told, 1);
    assert_int_equal(prefix.told, 1);
    assert_int_equal(other.told, 0);
    state_watch_end(ws, &other.watcher);
}

/* A key that was there in the transaction, and is not there any more. */
static void a_deletion_before_the_watch_is_found(void **ctx)
{
    struct waiter key;
    struct state_txn txn;
    (void)ctx;
    put("s/p/a");
    sw_begin(&w, &txn);
    sw_delete(&w, "s/p/a");
    watch_in(&txn, &key, "s/p/a", false);
    state_end(&txn);
    sw_run(&w);
    assert_int_equal(key.told, 1);
}

static void a_restore_tells_every_watcher(void **ctx)
{
    struct waiter key, prefix;
    struct state_txn txn;
    (void)ctx;
    put("s/p/a");
    watch(&key, "s/p/a", false);
    watch(&prefix, "s/q/", true);
    sw_begin(&w, &txn);
    assert_status(state_put_raw(&txn, BYTES(STATE_RESTORED), BYTES("mark")), ST_OK);
    assert_status(sw_commit(&w, &txn), ST_OK);
    publish();
    assert_int_equal(key.told, 1);
    assert_int_equal(prefix.told, 1);
}

static void an_ended_watcher_is_not_told(void **ctx)
{
    struct waiter a, b;
    (void)ctx;
    watch(&a, "s/p/a", false);
    watch(&b, "s/p/a", false);
    state_watch_end(ws, &a.watcher);
    state_watch_end(ws, &a.watcher);
    put("s/p/a");
    assert_int_equal(a.told, 0);
    assert_int_equal(b.told, 1);
}

static void ending_another(struct state_watcher *watcher)
{
    struct waiter *waiter = CONTAINER_OF(watcher, struct waiter, watcher);
    waiter->told++;
    state_watch_end(ws, &waiter[1].watcher);
}

static void a_told_watcher_may_end_another(void **ctx)
{
    struct waiter both[2];
    (void)ctx;
    watch(&both[0], "s/p/a", false);
    watch(&both[1], "s/p/a", false);
    both[0].watcher.changed = ending_another;
    put("s/p/a");
    assert_int_equal(both[0].told, 1);
    assert_int_equal(both[1].told, 0);
}

static void without_watchers_a_publication_costs_nothing(void **ctx)
{
    struct state_watch_counters counters;
    struct waiter a;
    (void)ctx;
    put("s/p/a");
    state_watches_counters(ws, &counters);
    assert_int_equal(counters.walks, 0);
    watch(&a, "s/p/a", false);
    put("s/p/a");
    put("s/p/a");
    state_watches_counters(ws, &counters);
    assert_int_equal(counters.walks, 1);
    assert_int_equal(counters.told, 1);
    assert_int_equal(counters.watchers, 0);
}

/* The walk leaves out what has not changed. */
static void the_cost_is_that_of_watched_changes(void **ctx)
{
    enum { N = 500 };
    static struct waiter waiters[N];
    struct state_watch_counters before, after;
    char key[40];
    (void)ctx;
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "s/p/%08x", (unsigned)i * 2654435761u);
        if (i % 2 == 0)
            sw_put(&w, key, "x");
        watch(&waiters[i], key, false);
    }
    publish();
    state_watches_counters(ws, &before);
    put("s/q/other");
    state_watches_counters(ws, &after);
    assert_int_equal(after.walks, before.walks + 1);
    assert_true(after.visited - before.visited <= 3);
    put("s/p/00000000");
    assert_int_equal(waiters[0].told, 1);
    state_watches_counters(ws, &before);
    assert_true(before.visited - after.visited <= 12);
    for (int i = 1; i < N; i++)
        assert_int_equal(waiters[i].told, 0);
    for (int i = 0; i < N; i++)
        state_watch_end(ws, &waiters[i].watcher);
}

/* Random changes and watchers, against a model that knows every version of every key. */

enum { MODEL_KEYS = 40, MODEL_WAITERS = 24 };

static const char *const stems[] = {"s/p/", "s/p/a", "s/p/ab/", "s/q/"};

struct model_key {
    char name[32];
    uint64_t changed; /* version of its last change, deletions included */
    bool there;
};

struct model_waiter {
    struct waiter waiter;
    bool waits, prefix, present;
    char key[32];
    uint64_t since;
};

static struct model_key model_keys[MODEL_KEYS];
static struct model_waiter model_waiters[MODEL_WAITERS];
static uint64_t model_seed;

static unsigned pick(unsigned n)
{
    return (unsigned)(fake_next(&model_seed) % n);
}

static void model_change(void)
{
    struct model_key *k = &model_keys[pick(MODEL_KEYS)];
    bool put_it = pick(3) != 0;
    if (!put_it && !k->there)
        return;
    if (put_it)
        sw_put(&w, k->name, "x");
    else
        sw_delete(&w, k->name);
    k->there = put_it;
    k->changed = w.m.version;
}

static bool is_below(const struct model_key *k, const struct model_waiter *m)
{
    return m->prefix ? strncmp(k->name, m->key, strlen(m->key)) == 0 : strcmp(k->name, m->key) == 0;
}

/* Whether the model knows a change that the waiter must be told of. A watcher of a prefix may also
 * be told of a change of another key, which left its version to the prefix. */
static bool must_tell(const struct model_waiter *m)
{
    bool changed = false, there = false;
    for (int i = 0; i < MODEL_KEYS; i++) {
        changed = changed || (is_below(&model_keys[i], m) && model_keys[i].changed > m->since);
        there = there || (is_below(&model_keys[i], m) && model_keys[i].there);
    }
    return changed && (there || m->present);
}

static void model_watch(struct model_waiter *m)
{
    struct state_txn txn;
    m->prefix = pick(2) == 0;
    (void)snprintf(m->key, sizeof m->key, "%s",
                   m->prefix ? stems[pick(ARRAY_LEN(stems))] : model_keys[pick(MODEL_KEYS)].name);
    sw_begin(&w, &txn);
    m->since = w.m.version;
    m->present = watched_of(&txn, m->key, m->prefix).present;
    if (pick(3) == 0)
        model_change();
    watch_in(&txn, &m->waiter, m->key, m->prefix);
    state_end(&txn);
    m->waits = true;
}

static void model_check(void)
{
    for (int i = 0; i < MODEL_WAITERS; i++) {
        struct model_waiter *m = &model_waiters[i];
        if (!m->waits)
            continue;
        bool must = must_tell(m);
        if (must)
            assert_int_equal(m->waiter.told, 1);
        else if (!m->prefix)
            assert_int_equal(m->waiter.told, 0);
        m->waits = m->waiter.told == 0;
    }
}

static void random_watchers_agree_with_a_model(void **ctx)
{
    (void)ctx;
    model_seed = 4711;
    for (int i = 0; i < MODEL_KEYS; i++)
        (void)snprintf(model_keys[i].name, sizeof model_keys[i].name, "%s%c%d",
                       stems[pick(ARRAY_LEN(stems))], 'a' + (char)pick(3), i % 7);
    for (int i = 1; i < MODEL_KEYS; i++) /* the names must differ */
        for (int j = 0; j < i; j++)
            if (strcmp(model_keys[i].name, model_keys[j].name) == 0)
                (void)snprintf(model_keys[i].name, sizeof model_keys[i].name, "s/r/%d", i);
    for (int round = 0; round < 3000; round++) {
        struct model_waiter *m = &model_waiters[pick(MODEL_WAITERS)];
        if (!m->waits)
            model_watch(m);
        else if (pick(10) == 0)
            state_watch_end(ws, &m->waiter.watcher);
        m->waits = m->waits && m->waiter.watcher.begun;
        for (unsigned n = pick(4); n > 0; n--)
            model_change();
        publish();
        model_check();
    }
    for (int i = 0; i < MODEL_WAITERS; i++)
        state_watch_end(ws, &model_waiters[i].waiter.watcher);
}

static void a_failed_allocation_watches_nothing(void **ctx)
{
    struct waiter base, late = {0};
    struct state_txn txn;
    (void)ctx;
    put("s/p/abc");
    watch(&base, "s/p/abc", false);
    sw_begin(&w, &txn);
    const struct state_watched keys[] = {watched_of(&txn, "s/p/abd", false),
                                         watched_of(&txn, "s/p/", true)};
    unsigned n = 0;
    for (enum status st = ST_NOMEM; st != ST_OK;) {
        late = (struct waiter){.watcher = {.changed = on_changed}};
        (void)mem_fail_nth(++n);
        st = state_watch_begin(ws, &late.watcher, &txn, keys, ARRAY_LEN(keys));
        bool failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
    }
    assert_true(n > 4);
    state_end(&txn);
    put("s/p/abc");
    assert_int_equal(base.told, 1);
    assert_int_equal(late.told, 1);
    struct state_watches *other;
    for (n = 1; n <= 2; n++) {
        (void)mem_fail_nth(n);
        assert_status(state_watches_new(w.state, &other), ST_NOMEM);
        assert_true(mem_fail_nth(0));
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_watcher_of_a_key_is_told_of_its_changes_alone),
        T(a_watcher_of_a_prefix_is_told_of_every_change_below),
        T(a_change_before_the_watch_is_found),
        T(a_deletion_before_the_watch_is_found),
        T(a_restore_tells_every_watcher),
        T(an_ended_watcher_is_not_told),
        T(a_told_watcher_may_end_another),
        T(without_watchers_a_publication_costs_nothing),
        T(the_cost_is_that_of_watched_changes),
        T(random_watchers_agree_with_a_model),
        T(a_failed_allocation_watches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
