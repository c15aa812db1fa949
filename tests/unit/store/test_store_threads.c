/* One writer, readers on other threads, release on a third thread: for the thread sanitizer; the
 * readers also check the values that they read. */
#include "store/model.h"

#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 3, COUNTERS = 40, CHURN = 400 };

/* An env whose LANE_BULK is a thread; `done` is called by env_turn on the writer's thread. */
struct bulk_env {
    struct env env;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct env_work *todo, *finished;
    bool stop;
    struct timer_heap timers;
    uint64_t now_ms;
};

static uint64_t bulk_mono_ns(struct env *env)
{
    return CONTAINER_OF(env, struct bulk_env, env)->now_ms * 1000000;
}

static void bulk_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    timer_heap_set(&CONTAINER_OF(env, struct bulk_env, env)->timers, timer, at_ms);
}

static void bulk_timer_stop(struct env *env, struct env_timer *timer)
{
    timer_heap_stop(&CONTAINER_OF(env, struct bulk_env, env)->timers, timer);
}

static void bulk_work(struct env *env, struct env_work *work)
{
    struct bulk_env *b = CONTAINER_OF(env, struct bulk_env, env);
    pthread_mutex_lock(&b->lock);
    assert_null(b->todo); /* the store submits one at a time */
    b->todo = work;
    pthread_cond_signal(&b->more);
    pthread_mutex_unlock(&b->lock);
}

static void *bulk_main(void *arg)
{
    struct bulk_env *b = arg;
    pthread_mutex_lock(&b->lock);
    while (!b->stop) {
        struct env_work *work = b->todo;
        if (work == NULL) {
            pthread_cond_wait(&b->more, &b->lock);
            continue;
        }
        b->todo = NULL;
        pthread_mutex_unlock(&b->lock);
        work->run(work);
        pthread_mutex_lock(&b->lock);
        b->finished = work;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void env_turn(struct bulk_env *b)
{
    pthread_mutex_lock(&b->lock);
    struct env_work *work = b->finished;
    b->finished = NULL;
    pthread_mutex_unlock(&b->lock);
    if (work != NULL)
        work->done(work);
    b->now_ms++;
    struct env_timer *timer = timer_heap_first(&b->timers);
    if (timer != NULL && timer->at_ms <= b->now_ms) {
        timer_heap_stop(&b->timers, timer);
        timer->fire(timer);
    }
}

static void env_open(struct bulk_env *b)
{
    static const struct env_ops ops = {
        .mono_ns = bulk_mono_ns,
        .timer_set = bulk_timer_set,
        .timer_stop = bulk_timer_stop,
        .work = bulk_work,
    };
    *b = (struct bulk_env){.env.ops = &ops, .now_ms = 1};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->more, NULL);
    assert_int_equal(pthread_create(&b->thread, NULL, bulk_main, b), 0);
}

static void env_close(struct bulk_env *b)
{
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_signal(&b->more);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    timer_heap_done(&b->timers);
    pthread_cond_destroy(&b->more);
    pthread_mutex_destroy(&b->lock);
}

struct run {
    struct store *store;
    atomic_bool stop;
    atomic_size_t pins;
    _Atomic uint64_t
        version; /* relaxed: readers learn of progress, and synchronise by pins alone */
};

struct read_thread {
    pthread_t thread;
    struct run *run;
    struct rng rng;
    struct store_iter iter;
};

static void *reader_fail(const char *what)
{
    (void)fprintf(stderr, "a reader saw %s\n", what);
    abort(); /* cmocka's checks belong to the main thread */
}

/* Stay away for a publication or two, so that the writer looks at the slot while it is free. */
static void stay_away(const struct run *run)
{
    uint64_t now = atomic_load_explicit(&run->version, memory_order_relaxed);
    for (unsigned i = 0; i < 1000; i++)
        if (atomic_load_explicit(&run->version, memory_order_relaxed) > now + 1)
            break;
}

/* All counters of a batch have one value, which is its version. */
static void check_counters(struct read_thread *r, const struct store_pin *pin)
{
    size_t n = 0;
    store_iter_init(&r->iter, pin, BYTES("s/count/"), BYTES(""));
    for (; store_iter_next(&r->iter); n++)
        if (r->iter.item.value.len != 8 || le64_get(r->iter.item.value.data) != pin->version)
            reader_fail("a counter of another version");
    if (n != (pin->version == 0 ? 0 : COUNTERS))
        reader_fail("a wrong number of counters");
    if (pin->version != 0 && store_newest(pin, BYTES("s/count/")) != pin->version)
        reader_fail("an old newest version");
}

static void check_churn(struct read_thread *r, const struct store_pin *pin)
{
    store_iter_init(&r->iter, pin, BYTES("s/churn/"), BYTES(""));
    while (store_iter_next(&r->iter)) {
        struct store_item item;
        if (store_get(pin, r->iter.item.key, &item) != ST_OK ||
            item.modified != r->iter.item.modified || item.modified > pin->version)
            reader_fail("a key that comes and goes");
        if (item.value.len != 3 || memcmp(item.value.data, "abc", 3) != 0)
            reader_fail("a broken value");
    }
}

static void *reader_main(void *arg)
{
    struct read_thread *r = arg;
    struct store_pin held = {0};
    uint8_t before[STORE_HASH_BYTES], after[STORE_HASH_BYTES];
    while (!atomic_load_explicit(&r->run->stop, memory_order_relaxed)) {
        struct store_pin pin;
        if (store_pin(r->run->store, "reader", 0, &pin) != ST_OK)
            return reader_fail("no free pin");
        check_counters(r, &pin);
        size_t dice = rng_below(&r->rng, 8);
        if (dice == 0)
            store_hash(&pin, BYTES(""), before);
        check_churn(r, &pin);
        if (dice == 0) {
            store_hash(&pin, BYTES(""), after);
            if (memcmp(before, after, sizeof after) != 0)
                return reader_fail("a hash that changed");
        }
        if (dice == 1 && held.store != NULL) {
            check_counters(r, &held);
            store_unpin(&held);
        }
        if (held.store == NULL)
            held = pin; /* across many publications */
        else
            store_unpin(&pin);
        stay_away(r->run);
        atomic_fetch_add_explicit(&r->run->pins, 1, memory_order_relaxed);
    }
    if (held.store != NULL)
        store_unpin(&held);
    return NULL;
}

static void churn(struct store *store, struct rng *rng, uint64_t version)
{
    char text[64];
    for (size_t i = 0; i < 20; i++) {
        int n = snprintf(text, sizeof text, "s/churn/%zu/%zu", rng_below(rng, 20),
                         rng_below(rng, CHURN));
        struct bytes key = bytes_of(text, (size_t)n);
        if (rng_below(rng, 3) == 0)
            store_delete(store, key, version);
        else
            store_put(store, key, BYTES("abc"), version);
    }
    if (rng_below(rng, 10) == 0) {
        int n = snprintf(text, sizeof text, "s/churn/%zu/", rng_below(rng, 20));
        store_delete_prefix(store, bytes_of(text, (size_t)n), version);
    }
}

static void batch(struct store *store, struct rng *rng, uint64_t version)
{
    uint8_t value[8];
    le64_put(value, version);
    for (size_t i = 0; i < COUNTERS; i++) {
        uint8_t key[9] = "s/count/";
        key[8] = (uint8_t)(i * 6);
        store_put(store, bytes_of(key, sizeof key), bytes_of(value, 8), version);
    }
    churn(store, rng, version);
    store_publish(store, version);
}

static void readers_see_whole_batches(void **ctx)
{
    static struct read_thread readers[READERS];
    struct bulk_env env;
    struct run run = {0};
    struct rng rng = {1};
    uint64_t version = 0;
    (void)ctx;
    env_open(&env);
    assert_status(store_new(&env.env, &run.store), ST_OK);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct read_thread){.run = &run, .rng.state = i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]), 0);
    }
    /* Enough of both, whoever gets the processor. */
    while (version < rounds(2000, 100000) ||
           atomic_load_explicit(&run.pins, memory_order_relaxed) < rounds(300, 20000)) {
        batch(run.store, &rng, ++version);
        atomic_store_explicit(&run.version, version, memory_order_relaxed);
        env_turn(&env);
    }
    atomic_store(&run.stop, true);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    store_publish(run.store, version);
    while (!store_idle(run.store))
        env_turn(&env);
    struct store_stats stats;
    store_stats(run.store, &stats);
    assert_int_equal(stats.pins, 0);
    store_free(run.store);
    env_close(&env);
}

/* Pins and nothing else, as fast as they go, while generations pass. */
static void *pinner_main(void *arg)
{
    struct read_thread *r = arg;
    uint64_t last = 0;
    while (!atomic_load_explicit(&r->run->stop, memory_order_relaxed)) {
        struct store_pin pin;
        if (store_pin(r->run->store, "pinner", 0, &pin) != ST_OK)
            return reader_fail("no free pin");
        if (pin.generation < last)
            return reader_fail("time run backwards");
        if (pin.root != NULL && pin.newest != pin.version)
            return reader_fail("the fields of two publications");
        struct store_item item;
        if (pin.root != NULL &&
            (store_get(&pin, BYTES("k"), &item) != ST_OK || item.modified != pin.version))
            return reader_fail("a value of another publication");
        last = pin.generation;
        store_unpin(&pin);
        atomic_fetch_add_explicit(&r->run->pins, 1, memory_order_relaxed);
    }
    return NULL;
}

static void pins_belong_to_one_publication(void **ctx)
{
    static struct read_thread readers[READERS];
    struct run run = {0};
    uint64_t version = 0;
    (void)ctx;
    assert_status(store_new(NULL, &run.store), ST_OK);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct read_thread){.run = &run};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, pinner_main, &readers[i]), 0);
    }
    while (version < rounds(20000, 2000000) ||
           atomic_load_explicit(&run.pins, memory_order_relaxed) < rounds(5000, 500000)) {
        store_put(run.store, BYTES("k"), BYTES("v"), ++version);
        store_publish(run.store, version);
    }
    atomic_store(&run.stop, true);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    store_free(run.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_whole_batches),
        cmocka_unit_test(pins_belong_to_one_publication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
