/* Snapshot content: a restored state machine equals the one that was dumped, and applies later
 * entries with the same result. */
#include "golden.h"
#include "machine_world.h"

#include "raft/txn/rlog_machine_content.h"
#include "text/time.h"

static struct world first, second;

static int setup(void **state)
{
    (void)state;
    world_open(&first);
    world_open(&second);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&first);
    world_close(&second);
    return 0;
}

/* Few keys, so that they meet; some are prefixes of others. */
static struct bytes random_key(uint64_t *seed, char room[16], bool prefix)
{
    static const char *const parts[] = {"a", "b", "ab", "abc", "/"};
    size_t n = 2;
    uint64_t r = fake_next(seed);
    memcpy(room, r % 4 == 0 ? "l/" : "s/", 2);
    r /= 4;
    for (unsigned depth = 1 + (unsigned)(r % 3); depth > 0; depth--) {
        const char *part = parts[fake_next(seed) % ARRAY_LEN(parts)];
        memcpy(room + n, part, strlen(part));
        n += strlen(part);
    }
    if (prefix)
        n -= MIN(n - 3, (size_t)(r / 4 % 3));
    return bytes_of(room, n);
}

/* What a worker that read `w` just now, or a while ago, might commit. */
static void random_needs(struct world *w, uint64_t *seed, struct rlog_txn_builder *b)
{
    struct store_pin pin;
    struct store_item item;
    char room[16];
    unsigned n = (unsigned)(fake_next(seed) % 3);
    world_pin(w, &pin);
    for (unsigned i = 0; i < n; i++) {
        bool prefix = fake_next(seed) % 2 == 0;
        struct bytes key = random_key(seed, room, prefix);
        uint64_t version = prefix                                 ? store_newest(&pin, key)
                           : store_get(&pin, key, &item) == ST_OK ? item.modified
                                                                  : 0;
        if (fake_next(seed) % 4 == 0) /* stale, or from nowhere */
            version = version == 0 ? 1 : version - 1 - fake_next(seed) % version;
        if (prefix)
            rlog_txn_need_prefix(b, key, version);
        else
            rlog_txn_need_key(b, key, version);
    }
    store_unpin(&pin);
}

static void random_ops(struct world *w, uint64_t *seed, struct rlog_txn_builder *b)
{
    char room[16];
    for (unsigned i = (unsigned)(fake_next(seed) % 4); i > 0; i--) {
        uint64_t r = fake_next(seed) % 16;
        struct bytes key = random_key(seed, room, r == 0);
        if (r == 0)
            rlog_txn_delete_prefix(b, key);
        else if (r < 6)
            rlog_txn_delete(b, key);
        else
            rlog_txn_put(b, key, bytes_of(seed, fake_next(seed) % 8));
    }
    if (fake_next(seed) % 8 == 0) {
        struct rlog_request_id id = {{3, (uint8_t)(fake_next(seed) % 16)}, w->m.version};
        rlog_txn_id(b, &id, bytes_of("response", fake_next(seed) % 9));
    }
    if (fake_next(seed) % 64 == 0) {
        rlog_txn_stage_begin(b);
        for (unsigned i = (unsigned)(fake_next(seed) % 5); i > 0; i--) {
            struct bytes key = random_key(seed, room, false);
            uint64_t modified = 1 + fake_next(seed) % (w->m.version + 1);
            if (room[0] == 's')
                rlog_txn_stage_put(b, key, BYTES("staged"), 1, modified);
        }
        rlog_txn_stage_swap(b);
    }
}

static void random_txn(struct world *w, uint64_t *seed, struct buf *out)
{
    struct rlog_txn_builder b = {0};
    random_needs(w, seed, &b);
    random_ops(w, seed, &b);
    assert_status(rlog_txn_encode(&b, out), ST_OK);
    rlog_txn_done(&b);
}

static void assert_same(struct world *a, struct world *b)
{
    struct buf x = {0}, y = {0};
    world_dump(a, &x);
    world_dump(b, &y);
    assert_bytes(buf_bytes(&x), buf_bytes(&y));
    buf_done(&x);
    buf_done(&y);
}

static void assert_same_newest(struct world *a, struct world *b, uint64_t seed)
{
    char room[16];
    for (int i = 0; i < 100; i++) {
        struct bytes prefix = random_key(&seed, room, true);
        room[prefix.len] = '\0';
        assert_int_equal(world_newest(a, room), world_newest(b, room));
    }
}

/* Two machines apply the same log; one of them is restarted from the other's snapshot again and
 * again. All outcomes and all versions must stay the same. */
static void run_pair(uint64_t seed, unsigned steps)
{
    uint64_t s = seed;
    for (unsigned i = 0; i < steps; i++) {
        struct buf txn = {0};
        random_txn(&first, &s, &txn);
        world_apply_all(&first, &(struct bytes){txn.data, txn.len}, 1);
        world_apply_all(&second, &(struct bytes){txn.data, txn.len}, 1);
        buf_done(&txn);
        if (first.applied.outcome != second.applied.outcome ||
            first.applied.version != second.applied.version)
            fail_msg("seed %lu step %u: %d at %lu and %d at %lu", (unsigned long)seed, i,
                     first.applied.outcome, (unsigned long)first.applied.version,
                     second.applied.outcome, (unsigned long)second.applied.version);
        if (fake_next(&s) % 16 == 0) {
            struct buf content = {0};
            world_dump(&first, &content);
            assert_status(world_load(&second, buf_bytes(&content), 1 + fake_next(&s) % 50), ST_OK);
            buf_done(&content);
            fake_env_run(&second.env);
            assert_memory_equal(&first.m.version, &second.m.version,
                                sizeof first.m - offsetof(struct rlog_machine, version));
            assert_same_newest(&first, &second, s);
        }
    }
    assert_same(&first, &second);
}

static void a_restored_machine_decides_as_the_one_that_never_stopped(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        run_pair(seed, 150);
        (void)teardown(state);
        (void)setup(state);
    }
}

/* A state with all that content can hold. */
static void fill(struct world *w)
{
    struct rlog_txn_builder b = {0};
    struct rlog_request_id id = {{4}, 0};
    world_put(w, "s/a", "1");
    world_put(w, "s/ab", "2");
    world_put(w, "s/abc", "3");
    world_put(w, "l/x", "4");
    world_put(w, "s/gone/1", "5");
    world_put(w, "s/gone/2", "6");
    world_delete(w, "s/gone/1");
    rlog_txn_id(&b, &id, BYTES("response"));
    rlog_txn_put(&b, BYTES("s/a"), BYTES(""));
    world_apply(w, &b);
}

static void content_restores_into_a_machine_that_held_something_else(void **state)
{
    (void)state;
    struct buf content = {0};
    fill(&first);
    world_put(&second, "s/other", "x");
    world_dump(&first, &content);
    assert_status(world_load(&second, buf_bytes(&content), SIZE_MAX / 2), ST_OK);
    assert_absent(&second, "s/other");
    assert_value(&second, "s/abc", "3");
    assert_int_equal(second.m.time_ms, first.m.time_ms);
    assert_same(&first, &second);
    buf_done(&content);
}

static void content_cut_anywhere_is_corrupt(void **state)
{
    (void)state;
    struct buf content = {0};
    fill(&first);
    world_dump(&first, &content);
    for (size_t n = 0; n < content.len; n++) {
        assert_status(world_load(&second, bytes_of(content.data, n), 7), ST_CORRUPT);
        assert_int_equal(second.m.version, 0);
    }
    buf_add_u8(&content, 0);
    assert_status(world_load(&second, buf_bytes(&content), 7), ST_CORRUPT);
    assert_status(world_load(&second, buf_bytes(&content), 10000), ST_CORRUPT);
    content.len--;
    assert_status(world_load(&second, buf_bytes(&content), 7), ST_OK); /* it recovers */
    assert_same(&first, &second);
    buf_done(&content);
}

static void flipped_content_never_crashes(void **state)
{
    (void)state;
    struct buf content = {0};
    fill(&first);
    world_dump(&first, &content);
    for (size_t bit = 0; bit < content.len * 8; bit++) {
        content.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum status st = world_load(&second, buf_bytes(&content), 64);
        assert_true(st == ST_OK || st == ST_CORRUPT || st == ST_UNSUPPORTED);
        content.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_done(&content);
}

static void a_later_format_is_refused_by_name(void **state)
{
    (void)state;
    struct buf content = {0};
    fill(&first);
    world_dump(&first, &content);
    content.data[7] = 2;
    assert_status(world_load(&second, buf_bytes(&content), 64), ST_UNSUPPORTED);
    content.data[7] = 1;
    content.data[8] = RLOG_FEATURE + 1;
    assert_status(world_load(&second, buf_bytes(&content), 64), ST_UNSUPPORTED);
    content.data[8] = RLOG_FEATURE;
    content.data[0] = 'x';
    assert_status(world_load(&second, buf_bytes(&content), 64), ST_CORRUPT);
    buf_done(&content);
}

/* Content with the header of a state at versions 9 and 9, of this time, and these records. */
static uint64_t made_ms = 1000;

static enum status load_made(struct bytes records)
{
    struct buf content = {0};
    buf_add(&content, BYTES(RLOG_CONTENT_MAGIC));
    buf_add_u8(&content, RLOG_CONTENT_FORMAT);
    buf_add_u16(&content, 1);
    buf_add_u64(&content, 9);
    buf_add_u64(&content, 9);
    buf_add_u64(&content, made_ms);
    buf_add_u64(&content, 0);
    buf_add_u64(&content, 0);
    assert_int_equal(content.len, RLOG_CONTENT_HEADER_BYTES);
    buf_add(&content, records);
    enum status st = world_load(&second, buf_bytes(&content), 5);
    buf_done(&content);
    return st;
}

static void records_out_of_order_or_range_are_corrupt(void **state)
{
    (void)state;
    assert_status(load_made(BYTES("\1\0\3s/a\1\2\1v\1\2\1b\3\3\0\2\2\5\0\2")), ST_OK);
    static const struct bytes bad[] = {
        BYTES("\1\0\3s/a\1\2\1v\0\2"),              /* one key, not two */
        BYTES("\1\0\3s/a\2\1\1v\0\1"),              /* changed before created */
        BYTES("\1\0\3s/a\1\xa\1v\0\1"),             /* from the future */
        BYTES("\1\0\3l/a\1\xa\1v\0\1"),             /* of the other counter */
        BYTES("\1\0\3t/a\1\1\1v\0\1"),              /* outside the segments */
        BYTES("\1\1\3s/a\1\1\1v\0\1"),              /* shares with nothing */
        BYTES("\1\0\3s/b\1\1\1v\1\2\1a\1\1\0\0\2"), /* descending */
        BYTES("\1\0\3s/b\1\1\1v\1\2\1b\1\1\0\0\2"), /* twice */
        BYTES("\1\0\3s/b\1\1\1v\1\3\0\1\1\0\0\2"),  /* twice, otherwise */
        BYTES("\2\0\1\0\0"),                        /* newest of no key */
        BYTES("\1\0\3s/a\1\2\1v\2\4\5\0\1"),        /* of more than the key */
        BYTES("\1\0\3s/a\1\2\1v\2\3\xa\0\1"),       /* from the future */
        BYTES("\1\0\3s/a\1\2\1v\2\3\0\0\1"),        /* of no version */
        BYTES("\3"),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(load_made(bad[i]), ST_CORRUPT);
}

static void content_of_a_time_after_the_year_9998_is_corrupt(void **state)
{
    (void)state;
    static const struct bytes records = BYTES("\1\0\3s/a\1\2\1v\1\2\1b\3\3\0\2\2\5\0\2");
    static const uint64_t late[] = {TEXT_CLOCK_END, INT64_MAX, UINT64_MAX};
    made_ms = TEXT_CLOCK_END - 1;
    assert_status(load_made(records), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(late); i++) {
        made_ms = late[i];
        assert_status(load_made(records), ST_CORRUPT);
    }
    made_ms = 1000;
}

static void an_empty_state_travels_too(void **state)
{
    (void)state;
    struct buf content = {0};
    world_dump(&first, &content);
    assert_status(world_load(&second, buf_bytes(&content), 1), ST_OK);
    assert_int_equal(world_put(&second, "s/a", "x"), RLOG_APPLIED);
    assert_versions(&second, 1, 0);
    buf_done(&content);
}

static void large_values_and_long_keys_travel_in_small_pieces(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf content = {0};
    uint8_t *big = mem_zalloc(STORE_VALUE_MAX);
    assert_non_null(big);
    memset(big, 'k', STORE_KEY_MAX);
    memcpy(big, "s/", 2);
    rlog_txn_put(&b, bytes_of(big, STORE_KEY_MAX), BYTES("long"));
    rlog_txn_put(&b, BYTES("s/big"), bytes_of(big, STORE_VALUE_MAX));
    for (size_t n = 3; n < 300; n++) /* keys nested as deep as can be */
        rlog_txn_put(&b, bytes_of(big, n), BYTES("x"));
    world_apply(&first, &b);
    world_dump(&first, &content);
    assert_status(world_load(&second, buf_bytes(&content), 100000), ST_OK);
    assert_same(&first, &second);
    buf_done(&content);
    mem_free(big);
}

static void no_snapshot_is_created_of_a_half_built_tree(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct rlog_machine_dump dump;
    rlog_txn_stage_begin(&b);
    world_apply(&first, &b);
    assert_status(rlog_machine_dump_begin(&first.m, &dump), ST_BUSY);
    rlog_txn_need_stage(&b, first.m.stage);
    rlog_txn_stage_drop(&b);
    world_apply(&first, &b);
    assert_status(rlog_machine_dump_begin(&first.m, &dump), ST_OK);
    rlog_machine_dump_end(&dump);
}

static void a_dump_shows_the_state_it_was_begun_on(void **state)
{
    (void)state;
    struct rlog_machine_dump dump;
    struct buf before = {0}, after = {0};
    fill(&first);
    world_dump(&first, &before);
    assert_status(rlog_machine_dump_begin(&first.m, &dump), ST_OK);
    world_put(&first, "s/later", "x");
    world_delete(&first, "s/a");
    assert_status(rlog_machine_dump_run(&dump, world_collect, &after), ST_OK);
    rlog_machine_dump_end(&dump);
    assert_bytes(buf_bytes(&after), buf_bytes(&before));
    buf_done(&before);
    buf_done(&after);
}

static enum status refuse(void *ctx, struct bytes content)
{
    (void)content;
    return *(enum status *)ctx;
}

static void what_the_receiver_of_a_dump_says_ends_it(void **state)
{
    (void)state;
    struct rlog_machine_dump dump;
    enum status st = ST_NO_SPACE;
    fill(&first);
    assert_status(rlog_machine_dump_begin(&first.m, &dump), ST_OK);
    assert_status(rlog_machine_dump_run(&dump, refuse, &st), ST_NO_SPACE);
    rlog_machine_dump_end(&dump);
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    struct rlog_machine_dump dump;
    struct buf content = {0}, again = {0};
    fill(&first);
    world_dump(&first, &content);
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        assert_status(rlog_machine_dump_begin(&first.m, &dump), ST_OK);
        (void)mem_fail_nth(n); /* arms it */
        enum status st = rlog_machine_dump_run(&dump, world_collect, &again);
        if (st == ST_OK)
            st = world_load(&second, buf_bytes(&content), 3);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        rlog_machine_dump_end(&dump);
        buf_done(&again);
    }
    buf_done(&content);
}

static void the_content_format_has_not_changed(void **state)
{
    (void)state;
    struct buf content = {0}, golden = {0};
    fill(&first);
    world_dump(&first, &content);
    assert_golden("content-1.bin", buf_bytes(&content));
    golden_read("content-1.bin", &golden);
    assert_status(world_load(&second, buf_bytes(&golden), 10), ST_OK);
    assert_value(&second, "s/gone/2", "6");
    assert_int_equal(world_newest(&second, "s/gone/"), 6);
    buf_done(&content);
    buf_done(&golden);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_restored_machine_decides_as_the_one_that_never_stopped),
        T(content_restores_into_a_machine_that_held_something_else),
        T(content_cut_anywhere_is_corrupt),
        T(flipped_content_never_crashes),
        T(a_later_format_is_refused_by_name),
        T(records_out_of_order_or_range_are_corrupt),
        T(content_of_a_time_after_the_year_9998_is_corrupt),
        T(an_empty_state_travels_too),
        T(large_values_and_long_keys_travel_in_small_pieces),
        T(no_snapshot_is_created_of_a_half_built_tree),
        T(a_dump_shows_the_state_it_was_begun_on),
        T(what_the_receiver_of_a_dump_says_ends_it),
        T(running_out_of_memory_is_reported),
        T(the_content_format_has_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
