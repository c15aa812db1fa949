/* The ring of the WAL, and the form of its records. */
#include "golden.h"
#include "machine_world.h"

#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"
#include "text/time.h"

#include <pthread.h>
#include <stdio.h>

enum { RING_BYTES = 64 * 1024 };

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_open(&w);
    assert_status(rlog_wal_new(RING_BYTES, &w.m.wal), ST_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct rlog_wal *wal = w.m.wal;
    world_close(&w);
    rlog_wal_free(wal);
    return 0;
}

static enum status read_wal(uint64_t after, size_t bytes_max, struct buf *out, uint64_t *ret_last)
{
    buf_clear(out);
    return rlog_wal_read(w.m.wal, after, bytes_max, out, ret_last);
}

/* The records behind `after` as text: each version with its operations. */
static void assert_wal(uint64_t after, const char *wanted)
{
    struct buf run = {0}, text = {0};
    struct rlog_wal_record record;
    struct rlog_wal_span span;
    struct rlog_op op;
    uint64_t last;

    assert_status(read_wal(after, SIZE_MAX, &run, &last), ST_OK);
    struct bytes rest = buf_bytes(&run);
    assert_status(rlog_wal_check(rest, &span), ST_OK);
    assert_int_equal(span.before, after);
    assert_int_equal(span.last, last);
    while (rlog_wal_next(&rest, &record) == ST_OK) {
        bool jump = record.kind == RLOG_WAL_JUMP;
        buf_add_format(&text, jump ? "%lu<%lu" : "%lu", (unsigned long)record.version,
                       (unsigned long)record.before);
        while (rlog_op_next(&record.ops, &op) == ST_OK)
            buf_add_format(&text, " %d:%.*s=%.*s", (int)op.kind, (int)op.key.len, op.key.data,
                           (int)op.value.len, op.value.data);
        buf_add_str(&text, ";");
    }
    assert_bytes(buf_bytes(&text), bytes_str(wanted));
    buf_done(&run);
    buf_done(&text);
}

static void each_version_has_a_record(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct rlog_request_id id = {{7}, 0};
    world_put(&w, "s/a", "1");
    world_put(&w, "l/a", "local");
    rlog_txn_put(&b, BYTES("s/b"), BYTES("2"));
    rlog_txn_put(&b, BYTES("l/b"), BYTES("local"));
    rlog_txn_delete(&b, BYTES("s/a"));
    rlog_txn_delete_prefix(&b, BYTES("s/c"));
    world_apply(&w, &b);
    rlog_txn_id(&b, &id, BYTES("response"));
    world_apply(&w, &b);
    rlog_txn_need_key(&b, BYTES("s/b"), 77);
    rlog_txn_put(&b, BYTES("s/b"), BYTES("conflicts"));
    world_apply(&w, &b);
    world_put(&w, "s/d", "4");
    assert_wal(0, "1 1:s/a=1;2 1:s/b=2 2:s/a= 3:s/c=;3;4 1:s/d=4;");
    assert_wal(3, "4 1:s/d=4;");
}

static void references_are_resolved_and_retained_ranges_stay(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf txns[2] = {0};
    world_put(&w, "s/keys/1", "one");
    world_put(&w, "s/keys/2", "two");
    for (int i = 0; i < 2; i++) {
        struct bytes key = bytes_str(i == 0 ? "s/keys/1" : "s/keys/2");
        struct store_retain retain = {.from = 1, .len = 2};
        rlog_txn_need_key(&b, key, (uint64_t)i + 1);
        *rlog_txn_put_retain_room(&b, key, 1, retain) = 'x';
        for (int n = 0; n < 20; n++) /* more than apply keeps */
            rlog_txn_put(&b, key, BYTES("y"));
        assert_status(rlog_txn_encode(&b, &txns[i]), ST_OK);
        rlog_txn_done(&b);
    }
    world_apply_all(&w, (struct bytes[]){buf_bytes(&txns[0]), buf_bytes(&txns[1])}, 2);
    struct buf run = {0};
    struct rlog_wal_record record;
    struct rlog_op op;
    uint64_t last;
    assert_status(read_wal(3, SIZE_MAX, &run, &last), ST_OK);
    struct bytes rest = buf_bytes(&run);
    assert_status(rlog_wal_next(&rest, &record), ST_OK);
    assert_status(rlog_op_next(&record.ops, &op), ST_OK);
    assert_int_equal(op.kind, RLOG_OP_PUT_RETAIN);
    assert_bytes(op.key, BYTES("s/keys/2"));
    assert_int_equal(op.retain.from, 1);
    assert_int_equal(op.retain.len, 2);
    for (int n = 0; n < 20; n++)
        assert_status(rlog_op_next(&record.ops, &op), ST_OK);
    assert_int_equal(record.ops.len, 0);
    buf_done(&run);
    buf_done(&txns[0]);
    buf_done(&txns[1]);
}

static void a_record_has_the_cluster_time(void **state)
{
    (void)state;
    struct buf run = {0};
    struct rlog_wal_record record;
    uint64_t last;
    w.time_ms = 5000;
    world_put(&w, "s/a", "1");
    w.time_ms = 4000; /* cluster time never falls */
    world_put(&w, "s/a", "2");
    assert_status(read_wal(1, SIZE_MAX, &run, &last), ST_OK);
    struct bytes rest = buf_bytes(&run);
    assert_status(rlog_wal_next(&rest, &record), ST_OK);
    assert_int_equal(record.time_ms, 5000);
    buf_done(&run);
}

static void a_raised_version_is_a_jump(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    uint64_t last;
    world_put(&w, "s/a", "1");
    rlog_txn_raise(&b, 9);
    world_apply(&w, &b);
    assert_versions(&w, 9, 0);
    rlog_txn_raise(&b, 9); /* as high: nothing */
    world_apply(&w, &b);
    assert_versions(&w, 9, 0);
    rlog_txn_raise(&b, 20);
    rlog_txn_put(&b, BYTES("s/b"), BYTES("2"));
    world_apply(&w, &b);
    assert_versions(&w, 21, 0);
    assert_int_equal(world_get(&w, "s/b", NULL), 21);
    assert_wal(0, "1 1:s/a=1;9<1;20<9;21 1:s/b=2;");
    assert_wal(9, "20<9;21 1:s/b=2;");
    assert_status(read_wal(5, SIZE_MAX, &run, &last), ST_CONFLICT); /* there was no version 5 */
    assert_status(read_wal(19, SIZE_MAX, &run, &last), ST_CONFLICT);
    buf_done(&run);
}

static void assert_place(uint64_t version, enum status st, int64_t time_ms, uint64_t behind)
{
    struct rlog_wal_place place;
    assert_status(rlog_wal_find(w.m.wal, version, &place), st);
    assert_int_equal(place.time_ms, time_ms);
    assert_int_equal(place.behind, behind);
}

/* A primary compares the record of a secondary's version with its own. */
static void the_ring_tells_the_record_of_a_version(void **state)
{
    (void)state;
    struct rlog_wal_record record;
    struct buf run = {0};
    uint64_t last;
    for (int i = 0; i < 3; i++)
        world_put(&w, "s/a", "1");
    assert_status(read_wal(0, SIZE_MAX, &run, &last), ST_OK);
    struct bytes rest = buf_bytes(&run);
    assert_place(0, ST_OK, 0, run.len); /* from before the ring: its time is not known */
    while (rlog_wal_next(&rest, &record) == ST_OK) {
        assert_true(record.time_ms > 0);
        assert_place(record.version, ST_OK, record.time_ms, rest.len);
    }
    assert_place(4, ST_NOT_FOUND, 0, 0);

    struct rlog_txn_builder b = {0};
    rlog_txn_raise(&b, 50);
    world_apply(&w, &b);
    assert_place(20, ST_CONFLICT, 0, RLOG_WAL_HEADER_BYTES + 8); /* within a jump */
    char value[3000] = "";
    memset(value, 'x', sizeof value - 1);
    for (int i = 0; i < 40; i++)
        world_put(&w, "s/a", value); /* the ring forgets the first records */
    struct rlog_wal_stats stats;
    rlog_wal_stats(w.m.wal, &stats);
    assert_true(stats.base > 50);
    struct rlog_wal_place place;
    assert_status(rlog_wal_find(w.m.wal, stats.base, &place), ST_OK);
    assert_true(place.time_ms > 0); /* of the newest record that was forgotten */
    uint64_t all = place.behind;
    assert_place(stats.base - 1, ST_CONFLICT, 0, all);
    rlog_wal_switch(w.m.wal, false);
    assert_place(stats.last, ST_CLOSED, 0, 0);
    buf_done(&run);
}

static void a_replaced_state_empties_the_ring(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0}, content = {0};
    uint64_t last;
    world_put(&w, "s/a", "1");
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/b"), BYTES("x"), 3, 7);
    rlog_txn_stage_swap(&b);
    rlog_txn_put(&b, BYTES("s/c"), BYTES("with the swap"));
    world_apply(&w, &b);
    assert_int_equal(w.m.version, 8);
    assert_status(read_wal(0, SIZE_MAX, &run, &last), ST_CONFLICT);
    assert_status(read_wal(7, SIZE_MAX, &run, &last), ST_CONFLICT);
    assert_status(read_wal(8, SIZE_MAX, &run, &last), ST_NOT_FOUND);
    world_put(&w, "s/d", "1");
    assert_wal(8, "9 1:s/d=1;");
    world_dump(&w, &content);
    assert_status(world_load(&w, buf_bytes(&content), 100), ST_OK);
    assert_status(read_wal(8, SIZE_MAX, &run, &last), ST_CONFLICT);
    assert_status(read_wal(9, SIZE_MAX, &run, &last), ST_NOT_FOUND);
    world_put(&w, "s/d", "2");
    assert_wal(9, "10 1:s/d=2;");
    content.data[0] = 'x';
    assert_status(world_load(&w, buf_bytes(&content), 100), ST_CORRUPT);
    assert_status(read_wal(9, SIZE_MAX, &run, &last), ST_NOT_FOUND);
    buf_done(&run);
    buf_done(&content);
}

static void a_reader_gets_whole_records_and_at_least_one(void **state)
{
    (void)state;
    struct buf run = {0};
    struct rlog_wal_span span;
    uint64_t last = 0, after = 0;
    size_t one = RLOG_WAL_HEADER_BYTES + 1 + 1 + 3 + 1 + 5;
    for (int i = 0; i < 10; i++)
        world_put(&w, "s/a", "value");
    assert_status(read_wal(0, 0, &run, &last), ST_OK);
    assert_int_equal(last, 1);
    assert_int_equal(run.len, one);
    assert_status(read_wal(1, 3 * one + one / 2, &run, &last), ST_OK);
    assert_int_equal(last, 4);
    assert_int_equal(run.len, 3 * one);
    buf_clear(&run);
    while (rlog_wal_read(w.m.wal, after, 4 * one, &run, &last) == ST_OK) /* appends */
        after = last;
    assert_int_equal(after, 10);
    assert_status(rlog_wal_check(buf_bytes(&run), &span), ST_OK);
    assert_int_equal(span.n, 10);
    assert_status(read_wal(11, 100, &run, &last), ST_NOT_FOUND);
    buf_done(&run);
}

static void the_oldest_records_are_forgotten(void **state)
{
    (void)state;
    char value[600];
    struct buf run = {0};
    struct rlog_wal_stats stats;
    struct rlog_wal_span span;
    uint64_t last;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 1000; i++) {
        world_put(&w, "s/a", value);
        rlog_wal_stats(w.m.wal, &stats);
        assert_true(stats.bytes <= RING_BYTES);
        assert_int_equal(stats.last, w.m.version);
    }
    assert_int_equal(stats.bytes_max, RING_BYTES);
    assert_true(stats.on && stats.base > 800 && stats.base < 950);
    assert_status(read_wal(stats.base - 1, 100, &run, &last), ST_CONFLICT);
    assert_status(read_wal(stats.base, SIZE_MAX, &run, &last), ST_OK);
    assert_int_equal(last, 1000);
    assert_status(rlog_wal_check(buf_bytes(&run), &span), ST_OK);
    assert_int_equal(span.before, stats.base);
    buf_done(&run);
}

static void a_record_beyond_the_bound_empties_the_ring(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    uint64_t last;
    uint8_t *big = mem_zalloc(RING_BYTES);
    assert_non_null(big);
    world_put(&w, "s/a", "1");
    rlog_txn_put(&b, BYTES("s/big"), bytes_of(big, RING_BYTES / 2));
    world_apply(&w, &b);
    assert_status(read_wal(1, 10, &run, &last), ST_OK); /* longer than a block */
    assert_true(run.len > RING_BYTES / 2);
    rlog_txn_put(&b, BYTES("s/big"), bytes_of(big, RING_BYTES));
    world_apply(&w, &b);
    assert_status(read_wal(2, 10, &run, &last), ST_CONFLICT);
    assert_status(read_wal(3, 10, &run, &last), ST_NOT_FOUND);
    world_put(&w, "s/a", "2");
    assert_wal(3, "4 1:s/a=2;");
    mem_free(big);
    buf_done(&run);
}

static void a_lack_of_memory_empties_the_ring(void **state)
{
    (void)state;
    struct buf run = {0};
    uint64_t last;
    world_put(&w, "s/a", "1");
    rlog_wal_switch(w.m.wal, false);
    rlog_wal_switch(w.m.wal, true); /* without a block */
    struct rlog_op op = {.kind = RLOG_OP_PUT, .key = BYTES("s/a"), .value = BYTES("2")};
    (void)mem_fail_nth(1); /* arms it */
    rlog_wal_begin(w.m.wal, rlog_op_bytes_max(&op), 2, 1000);
    assert_true(mem_fail_nth(0));
    rlog_wal_op(w.m.wal, &op);
    rlog_wal_end(w.m.wal);
    rlog_wal_publish(w.m.wal, 2);
    assert_status(read_wal(1, 10, &run, &last), ST_CONFLICT);
    assert_status(read_wal(2, 10, &run, &last), ST_NOT_FOUND);
    (void)mem_fail_nth(1); /* arms it */
    rlog_wal_jump(w.m.wal, 5, 1000);
    assert_true(mem_fail_nth(0));
    assert_status(read_wal(2, 10, &run, &last), ST_CONFLICT);
    rlog_wal_jump(w.m.wal, 6, 1000);
    rlog_wal_publish(w.m.wal, 6);
    buf_done(&run);
    (void)mem_fail_nth(1); /* arms it */
    assert_status(read_wal(5, 10, &run, &last), ST_NOMEM);
    assert_true(mem_fail_nth(0));
    assert_int_equal(run.len, 0);
    run.failed = false;
    assert_status(read_wal(5, 10, &run, &last), ST_OK);
    assert_int_equal(last, 6);
    buf_done(&run);
}

static void making_a_ring_reports_a_lack_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct rlog_wal *wal = NULL;
        (void)mem_fail_nth(n); /* arms it */
        enum status st = rlog_wal_new(1, &wal);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        rlog_wal_free(wal);
    }
}

static void a_ring_that_is_off_costs_nothing_and_begins_anew(void **state)
{
    (void)state;
    struct buf run = {0};
    struct rlog_wal_stats stats;
    uint64_t last;
    world_put(&w, "s/a", "1");
    rlog_wal_switch(w.m.wal, false);
    world_put(&w, "s/a", "2");
    struct rlog_txn_builder b = {0};
    rlog_txn_raise(&b, 7);
    world_apply(&w, &b);
    rlog_wal_stats(w.m.wal, &stats);
    assert_true(!stats.on && stats.bytes == 0);
    assert_status(read_wal(1, 100, &run, &last), ST_CLOSED);
    rlog_wal_switch(w.m.wal, true);
    rlog_wal_switch(w.m.wal, true); /* it is on */
    assert_status(read_wal(6, 100, &run, &last), ST_CONFLICT);
    assert_status(read_wal(7, 100, &run, &last), ST_NOT_FOUND);
    world_put(&w, "s/a", "3");
    assert_wal(7, "8 1:s/a=3;");
    buf_done(&run);
}

/* A sender thread: it reads until it has version `until`, or is told to stop. */
struct sender {
    pthread_t thread;
    uint64_t after, until;
    atomic_bool stop, waits;
    unsigned n;
};

static void *sender_main(void *arg)
{
    struct sender *s = arg;
    struct buf run = {0};
    struct rlog_wal_span span;
    while (s->after < s->until && !atomic_load(&s->stop)) {
        buf_clear(&run);
        enum status st = rlog_wal_read(w.m.wal, s->after, 1000, &run, &s->after);
        atomic_store(&s->waits, st == ST_NOT_FOUND);
        if (st == ST_NOT_FOUND)
            rlog_wal_wait(w.m.wal, s->after, 60000, &s->stop);
        else if (st != ST_OK || rlog_wal_check(buf_bytes(&run), &span) != ST_OK)
            break;
        else
            s->n += span.n;
    }
    buf_done(&run);
    return NULL;
}

static void senders_wait_for_what_apply_adds(void **state)
{
    (void)state;
    enum { SENDERS = 3, WRITES = 3000 };
    static struct sender senders[SENDERS];
    rlog_wal_free(w.m.wal);
    assert_status(rlog_wal_new(8 * 1024 * 1024, &w.m.wal), ST_OK);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.until = WRITES};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, sender_main, &senders[i]), 0);
    }
    for (int i = 0; i < WRITES; i++)
        world_put(&w, "s/a", "value");
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
        assert_int_equal(senders[i].n, WRITES);
    }
}

static void a_waiting_sender_is_woken_to_stop(void **state)
{
    (void)state;
    static struct sender s;
    s = (struct sender){.until = 10};
    assert_int_equal(pthread_create(&s.thread, NULL, sender_main, &s), 0);
    while (!atomic_load(&s.waits))
        continue;
    atomic_store(&s.stop, true);
    rlog_wal_wake(w.m.wal);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    assert_int_equal(s.n, 0);
    atomic_store(&s.stop, false);
    rlog_wal_wait(w.m.wal, 0, 1, &s.stop); /* ends by time */
    rlog_wal_switch(w.m.wal, false);
    rlog_wal_wait(w.m.wal, 0, 60000, &s.stop); /* nothing to wait for */
}

static void add_record(struct buf *out, uint8_t kind, uint64_t version, int64_t time_ms,
                       struct bytes rest)
{
    buf_add_u8(out, kind);
    buf_add_u64(out, version);
    buf_add_u64(out, (uint64_t)time_ms);
    buf_add_u32(out, (uint32_t)rest.len);
    buf_add(out, rest);
}

static enum status check_record(uint8_t kind, uint64_t version, int64_t time_ms, struct bytes rest)
{
    struct buf run = {0};
    struct rlog_wal_span span;
    add_record(&run, kind, version, time_ms, rest);
    enum status st = rlog_wal_check(buf_bytes(&run), &span);
    buf_done(&run);
    return st;
}

static void a_record_is_checked_strictly(void **state)
{
    (void)state;
    static const struct bytes good[] = {BYTES(""), BYTES("\1\3s/a\1x"), BYTES("\2\3s/a"),
                                        BYTES("\3\3s/a\2\3s/b"), BYTES("\x9\3s/a\1\1\1x")};
    static const struct bytes bad[] = {
        BYTES("\1\3l/a\1x"), BYTES("\1\3s/a\2x"),     BYTES("\2\2s/"),
        BYTES("\4"),         BYTES("\5\3s/a\1\1\1x"), BYTES("\6"),
        BYTES("\7"),         BYTES("\x8\0\1x"),       BYTES("\xB\1x"),
        BYTES("\xC\3s/a\1"), BYTES("\xD\1\1"),        BYTES("\xE\1"),
        BYTES("\0"),         BYTES("\3\2s/")};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_status(check_record(RLOG_WAL_OPS, 1, 0, good[i]), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(check_record(RLOG_WAL_OPS, 1, 0, bad[i]), ST_INVALID);
    assert_status(check_record(0, 1, 0, BYTES("")), ST_INVALID);
    assert_status(check_record(3, 1, 0, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_OPS, 0, 0, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_OPS, RLOG_VERSION_MAX, 0, BYTES("")), ST_OK);
    assert_status(check_record(RLOG_WAL_OPS, RLOG_VERSION_MAX + 1, 0, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_OPS, 1, TEXT_CLOCK_END, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_OPS, 1, -1, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_JUMP, 9, 0, BYTES("\x8\0\0\0\0\0\0\0")), ST_OK);
    assert_status(check_record(RLOG_WAL_JUMP, 8, 0, BYTES("\x8\0\0\0\0\0\0\0")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_JUMP, 9, 0, BYTES("")), ST_INVALID);
    assert_status(check_record(RLOG_WAL_JUMP, 9, 0, BYTES("\x8\0\0\0\0\0\0\0\0")), ST_INVALID);
}

static void a_run_has_no_gap_and_no_repeat(void **state)
{
    (void)state;
    struct buf run = {0};
    struct rlog_wal_span span;
    assert_status(rlog_wal_check(BYTES(""), &span), ST_INVALID);
    add_record(&run, RLOG_WAL_OPS, 5, 0, BYTES(""));
    add_record(&run, RLOG_WAL_OPS, 6, 0, BYTES(""));
    add_record(&run, RLOG_WAL_JUMP, 20, 0, BYTES("\6\0\0\0\0\0\0\0"));
    add_record(&run, RLOG_WAL_OPS, 21, 0, BYTES(""));
    struct bytes whole = buf_bytes(&run);
    size_t first = RLOG_WAL_HEADER_BYTES;
    assert_status(rlog_wal_check(whole, &span), ST_OK);
    assert_int_equal(span.before, 4);
    assert_int_equal(span.last, 21);
    assert_int_equal(span.n, 4);
    for (size_t n = 1; n < whole.len; n++) {
        bool between = n == first || n == 2 * first || n == 3 * first + 8;
        enum status st = rlog_wal_check(bytes_of(whole.data, n), &span);
        assert_status(st, between ? ST_OK : ST_INVALID);
    }
    run.data[first + 1] = 7; /* the version of the second record */
    assert_status(rlog_wal_check(whole, &span), ST_INVALID);
    run.data[first + 1] = 5;
    assert_status(rlog_wal_check(whole, &span), ST_INVALID);
    run.data[first + 1] = 6;
    run.data[2 * first + RLOG_WAL_HEADER_BYTES] = 5; /* the version before the jump */
    assert_status(rlog_wal_check(whole, &span), ST_INVALID);
    buf_done(&run);
}

/* The largest transaction makes a record that one transaction of the other cluster carries. */
static void the_largest_transaction_fits_into_one_run(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0}, txn = {0};
    struct rlog_wal_span span;
    uint64_t last;
    uint8_t *big = mem_zalloc(STORE_VALUE_MAX);
    size_t rest = RLOG_TXN_MAX - STORE_VALUE_MAX - 32;
    assert_non_null(big);
    rlog_wal_free(w.m.wal);
    assert_status(rlog_wal_new(RLOG_WAL_BYTES, &w.m.wal), ST_OK);
    do {
        rlog_txn_done(&b);
        buf_clear(&txn);
        rlog_txn_put(&b, BYTES("s/a"), bytes_of(big, STORE_VALUE_MAX));
        rlog_txn_put(&b, BYTES("s/b"), bytes_of(big, rest++));
    } while (rlog_txn_encode(&b, &txn) == ST_OK);
    rlog_txn_done(&b);
    rlog_txn_put(&b, BYTES("s/a"), bytes_of(big, STORE_VALUE_MAX));
    rlog_txn_put(&b, BYTES("s/b"), bytes_of(big, rest - 2));
    world_apply(&w, &b);
    assert_status(read_wal(0, 10, &run, &last), ST_OK);
    assert_true(run.len > RLOG_TXN_MAX);
    assert_status(rlog_wal_check(buf_bytes(&run), &span), ST_OK);
    rlog_txn_need_key(&b, BYTES("l/dr/role"), RLOG_VERSION_MAX);
    rlog_txn_wal(&b, buf_bytes(&run));
    buf_clear(&txn);
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_status(rlog_txn_check(buf_bytes(&txn)), ST_OK);
    rlog_txn_done(&b);
    assert_status(buf_reserve(&run, RLOG_TXN_WAL_MORE), ST_OK);
    run.len = RLOG_WAL_RECORD_MAX + 1;
    assert_status(rlog_wal_check(buf_bytes(&run), &span), ST_TOO_BIG);
    rlog_txn_wal(&b, buf_bytes(&run));
    assert_status(rlog_txn_encode(&b, &txn), ST_TOO_BIG);
    rlog_txn_done(&b);
    mem_free(big);
    buf_done(&run);
    buf_done(&txn);
}

static void the_form_of_records_has_not_changed(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct rlog_request_id id = {{7}, 0};
    struct buf run = {0};
    struct rlog_wal_span span;
    uint64_t last;
    w.time_ms = 1700000000123;
    rlog_txn_put(&b, BYTES("s/a"), BYTES("value"));
    rlog_txn_delete(&b, BYTES("s/b"));
    rlog_txn_delete_prefix(&b, BYTES("s/dir/"));
    *rlog_txn_put_retain_room(&b, BYTES("s/c"), 1, (struct store_retain){.from = 5, .len = 300}) =
        'x';
    world_apply(&w, &b);
    rlog_txn_id(&b, &id, BYTES("response"));
    world_apply(&w, &b);
    rlog_txn_raise(&b, 1000);
    rlog_txn_put(&b, BYTES("s/d"), BYTES(""));
    world_apply(&w, &b);
    assert_status(read_wal(0, SIZE_MAX, &run, &last), ST_OK);
    assert_golden("wal-1.bin", buf_bytes(&run));
    assert_status(rlog_wal_check(buf_bytes(&run), &span), ST_OK);
    assert_int_equal(span.n, 4);
    assert_int_equal(span.last, 1001);
    buf_done(&run);
}

#define WAL_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WAL_TEST(each_version_has_a_record),
        WAL_TEST(references_are_resolved_and_retained_ranges_stay),
        WAL_TEST(a_record_has_the_cluster_time),
        WAL_TEST(a_raised_version_is_a_jump),
        WAL_TEST(the_ring_tells_the_record_of_a_version),
        WAL_TEST(a_replaced_state_empties_the_ring),
        WAL_TEST(a_reader_gets_whole_records_and_at_least_one),
        WAL_TEST(the_oldest_records_are_forgotten),
        WAL_TEST(a_record_beyond_the_bound_empties_the_ring),
        WAL_TEST(a_lack_of_memory_empties_the_ring),
        WAL_TEST(making_a_ring_reports_a_lack_of_memory),
        WAL_TEST(a_ring_that_is_off_costs_nothing_and_begins_anew),
        WAL_TEST(senders_wait_for_what_apply_adds),
        WAL_TEST(a_waiting_sender_is_woken_to_stop),
        WAL_TEST(a_record_is_checked_strictly),
        WAL_TEST(a_run_has_no_gap_and_no_repeat),
        WAL_TEST(the_largest_transaction_fits_into_one_run),
        WAL_TEST(the_form_of_records_has_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
