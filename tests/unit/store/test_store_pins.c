#include "store/hand_env.h"

#include "base/trace.h"

struct fixture {
    struct hand_env env;
    struct store *store;
};

static int open_store(void **ctx)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    assert_non_null(f);
    hand_env_init(&f->env);
    assert_status(store_new(&f->env.env, &f->store), ST_OK);
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

static void put(struct fixture *f, const char *key, const char *value, uint64_t version)
{
    store_put(f->store, bytes_str(key), bytes_str(value), version);
    store_publish(f->store, version);
}

static struct store_pin pin(struct fixture *f)
{
    struct store_pin p;
    assert_status(store_pin(f->store, "test", 0, &p), ST_OK);
    return p;
}

static void a_reader_keeps_its_snapshot(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_item item;
    struct store_pin before = pin(f);
    put(f, "a", "1", 1);
    struct store_pin first = pin(f);
    put(f, "a", "2", 2);
    assert_status(store_get(&before, BYTES("a"), &item), ST_NOT_FOUND);
    assert_status(store_get(&first, BYTES("a"), &item), ST_OK);
    assert_bytes(item.value, BYTES("1"));
    assert_int_equal(first.version, 1);
    assert_int_equal(before.version, 0);
    assert_null(before.root);
    store_unpin(&before);
    store_unpin(&first);
}

static void changes_show_to_readers_only_when_published(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_item item;
    store_put(f->store, BYTES("a"), BYTES("1"), 1);
    struct store_pin p = pin(f);
    assert_status(store_get(&p, BYTES("a"), &item), ST_NOT_FOUND);
    assert_status(store_writer_get(f->store, BYTES("a"), &item), ST_OK);
    store_unpin(&p);
    store_publish(f->store, 1);
    p = pin(f);
    assert_status(store_get(&p, BYTES("a"), &item), ST_OK);
    store_unpin(&p);
}

static void a_value_the_writer_read_lasts_until_publish(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_item old, fresh;
    put(f, "a", "old", 1);
    assert_status(store_writer_get(f->store, BYTES("a"), &old), ST_OK);
    store_put(f->store, BYTES("a"), BYTES("new"), 2);
    assert_status(store_writer_get(f->store, BYTES("a"), &fresh), ST_OK);
    store_put(f->store, BYTES("a"), BYTES("newer"), 2);
    store_put(f->store, BYTES("ab"), BYTES(""), 2);
    store_delete_prefix(f->store, BYTES("a"), 2);
    assert_bytes(old.value, BYTES("old"));
    assert_bytes(fresh.value, BYTES("new"));
    store_publish(f->store, 2);
}

static void one_pin_too_many_is_refused(void **ctx)
{
    struct fixture *f = *ctx;
    static struct store_pin pins[STORE_PINS_MAX];
    struct store_pin more;
    struct store_stats stats;
    for (size_t i = 0; i < STORE_PINS_MAX; i++) {
        if (i % 100 == 0)
            put(f, "k", "v", i + 1);
        pins[i] = pin(f);
    }
    assert_status(store_pin(f->store, "more", 0, &more), ST_BUSY);
    store_stats(f->store, &stats);
    assert_int_equal(stats.pins, STORE_PINS_MAX);
    put(f, "k", "w", 2000);
    store_unpin(&pins[500]);
    assert_status(store_pin(f->store, "more", 0, &more), ST_OK);
    assert_int_equal(more.version, 2000);
    assert_status(store_pin(f->store, "more", 0, &pins[500]), ST_BUSY);
    pins[500] = more;
    for (size_t i = 0; i < STORE_PINS_MAX; i++)
        store_unpin(&pins[i]);
    store_stats(f->store, &stats);
    assert_int_equal(stats.pins, 0);
}

static unsigned reports;
static char last_report[256];

static void count_report(enum trace_level level, const char *module, const char *text)
{
    assert_int_equal(level, TRACE_WARN);
    assert_string_equal(module, "store");
    (void)snprintf(last_report, sizeof last_report, "%s", text);
    reports++;
}

static void a_pin_beyond_its_deadline_is_reported_once(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_pin late, fine;
    reports = 0;
    hand_env_pass(&f->env, 3600 * 1000); /* idle time is nobody's fault */
    assert_status(store_pin(f->store, "a listing", 5000, &late), ST_OK);
    assert_status(store_pin(f->store, "a snapshot", 0, &fine), ST_OK);
    trace_set_sink(count_report);
    put(f, "k", "v", 1);
    hand_env_pass(&f->env, 4000);
    assert_int_equal(reports, 0);
    hand_env_pass(&f->env, 3000);
    assert_int_equal(reports, 1);
    assert_non_null(strstr(last_report, "a listing"));
    hand_env_pass(&f->env, 50000);
    assert_int_equal(reports, 1);
    hand_env_pass(&f->env, 5000);
    assert_int_equal(reports, 2);
    assert_non_null(strstr(last_report, "a snapshot"));
    trace_set_sink(NULL);
    store_unpin(&late);
    store_unpin(&fine);
}

static void the_oldest_pin_shows_its_age(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_stats stats;
    struct store_pin p = pin(f);
    put(f, "k", "v", 1);
    hand_env_pass(&f->env, 10000);
    store_stats(f->store, &stats);
    assert_in_range(stats.oldest_pin_age_ms, 9000, 10000);
    store_unpin(&p);
    hand_env_pass(&f->env, 1000);
    store_stats(f->store, &stats);
    assert_int_equal(stats.oldest_pin_age_ms, 0);
}

static void time_stops_for_a_store_at_rest(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_pin p = pin(f);
    put(f, "k", "v", 1);
    assert_int_equal(f->env.timers.n, 1);
    store_unpin(&p);
    hand_env_pass(&f->env, 1000);
    assert_int_equal(f->env.timers.n, 0);
}

static void a_store_is_freed_while_its_timer_runs(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_pin p = pin(f);
    put(f, "k", "v", 1);
    put(f, "k", "w", 2);
    store_unpin(&p);
    assert_int_equal(f->env.timers.n, 1);
}

static void generations_count_publications(void **ctx)
{
    struct fixture *f = *ctx;
    struct store_stats before, after;
    store_stats(f->store, &before);
    for (unsigned i = 0; i < 200; i++)
        store_publish(f->store, 7);
    store_stats(f->store, &after);
    assert_int_equal(after.generation - before.generation, 200);
    struct store_pin p = pin(f);
    assert_int_equal(p.generation, after.generation);
    assert_int_equal(p.version, 7);
    store_unpin(&p);
}

static void a_failed_allocation_makes_no_store(void **ctx)
{
    struct hand_env env;
    struct store *store = NULL;
    unsigned failures = 0;
    (void)ctx;
    hand_env_init(&env);
    for (uint64_t nth = 1;; nth++) {
        (void)mem_fail_nth(nth); /* arms */
        enum status st = store_new(&env.env, &store);
        bool failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        if (!failed)
            break;
        assert_null(store);
        failures++;
    }
    assert_int_equal(failures, 2);
    store_close(store, &env);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_reader_keeps_its_snapshot),
        WITH_STORE(changes_show_to_readers_only_when_published),
        WITH_STORE(a_value_the_writer_read_lasts_until_publish),
        WITH_STORE(one_pin_too_many_is_refused),
        WITH_STORE(a_pin_beyond_its_deadline_is_reported_once),
        WITH_STORE(the_oldest_pin_shows_its_age),
        WITH_STORE(time_stops_for_a_store_at_rest),
        WITH_STORE(a_store_is_freed_while_its_timer_runs),
        WITH_STORE(generations_count_publications),
        cmocka_unit_test(a_failed_allocation_makes_no_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
