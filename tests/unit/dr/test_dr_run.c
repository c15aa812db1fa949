#include "cluster/dr/link/dr_run.h"

#include "base/mem.h"
#include "crypto/crypto.h"
#include "support.h"

static uint8_t room[DR_RAW_MAX];
static uint8_t records[3 * DR_RAW_MAX + 5];

/* Content that compresses well, or not at all. */
static void fill(bool packs)
{
    if (packs)
        memset(records, 'x', sizeof records);
    else
        assert_status(crypto_random(records, sizeof records), ST_OK);
}

/* Cut a run of `len` bytes and join it again; the number of frames. */
static unsigned carry_run(struct dr_run *run, size_t len)
{
    struct bytes got = {0};
    enum status st = ST_NOT_FOUND;
    unsigned n = 0;
    for (size_t at = 0; at < len; n++) {
        struct dr_wal wal = {.first = 5, .last = 9};
        assert_status(st, ST_NOT_FOUND);
        dr_run_cut(bytes_of(records, len), at, room, &wal);
        assert_true(dr_block_valid(&wal.block));
        at += wal.block.raw_bytes;
        st = dr_run_add(run, &wal, &got);
    }
    assert_status(st, ST_OK);
    assert_bytes(got, bytes_of(records, len));
    return n;
}

static void runs_of_any_length_are_joined_as_they_were(void **ctx)
{
    static const size_t lengths[] = {
        1, 2, 100, DR_RAW_MAX - 1, DR_RAW_MAX, DR_RAW_MAX + 1, 2 * DR_RAW_MAX, sizeof records};
    CLEANUP(dr_run_done) struct dr_run run = {0};
    (void)ctx;
    for (int packs = 0; packs < 2; packs++) {
        fill(packs == 1);
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
            assert_int_equal(carry_run(&run, lengths[i]),
                             (lengths[i] + DR_RAW_MAX - 1) / DR_RAW_MAX);
    }
    assert_true(run.raw.cap > DR_RAW_MAX);
    fill(true);
    assert_int_equal(carry_run(&run, 1000), 1);
    assert_true(run.raw.cap < DR_RAW_MAX); /* the memory of a long run is not kept */
}

static void a_block_is_packed_only_where_that_saves_bytes(void **ctx)
{
    struct dr_block block;
    (void)ctx;
    fill(true);
    dr_block_pack(bytes_of(records, 1000), room, &block);
    assert_true(block.packed);
    assert_true(block.data.len < 100);
    fill(false);
    dr_block_pack(bytes_of(records, 1000), room, &block);
    assert_false(block.packed);
    assert_ptr_equal(block.data.data, records);
    dr_block_pack(bytes_of(records, 1), room, &block);
    assert_false(block.packed);
}

/* The length of the content is the sender's word: more and less than that are refused, and no byte
 * is written behind the room. */
static void a_block_that_lies_about_its_length_is_refused(void **ctx)
{
    static uint8_t to[DR_RAW_MAX];
    struct dr_block block;
    (void)ctx;
    fill(true);
    dr_block_pack(bytes_of(records, DR_RAW_MAX), room, &block);
    assert_true(block.data.len < 5000);
    for (uint32_t raw = (uint32_t)block.data.len + 1; raw < DR_RAW_MAX; raw = raw * 2 + 1) {
        struct dr_block lie = {raw, true, block.data};
        to[raw] = 0xA5;
        assert_true(dr_block_valid(&lie));
        assert_status(dr_block_unpack(&lie, to), ST_INVALID);
        assert_int_equal(to[raw], 0xA5);
    }
    dr_block_pack(bytes_of(records, 1000), room, &block);
    struct dr_block more = {1001, true, block.data};
    assert_status(dr_block_unpack(&more, to), ST_INVALID);
    struct dr_block cut = {1000, true, bytes_of(block.data.data, block.data.len - 1)};
    assert_status(dr_block_unpack(&cut, to), ST_INVALID);
    assert_status(dr_block_unpack(&block, to), ST_OK);
}

static void a_frame_that_does_not_continue_the_run_is_refused(void **ctx)
{
    static uint8_t other[DR_RAW_MAX];
    struct bytes got;
    (void)ctx;
    fill(false);
    for (int i = 0; i < 6; i++) {
        CLEANUP(dr_run_done) struct dr_run run = {0};
        struct dr_wal begun = {.first = 5, .last = 9}, next = begun;
        dr_run_cut(bytes_of(records, sizeof records), 0, room, &begun);
        dr_run_cut(bytes_of(records, sizeof records), DR_RAW_MAX, other, &next);
        assert_status(dr_run_add(&run, &begun, &got), ST_NOT_FOUND);
        next.first -= i == 1;
        next.last += i == 2;
        next.run_bytes += i == 3;
        next.offset += i == 4;
        enum status st = dr_run_add(&run, i == 5 ? &begun : &next, &got);
        assert_status(st, i == 0 ? ST_NOT_FOUND : ST_INVALID);
    }
}

static void a_run_that_begins_in_the_middle_is_refused(void **ctx)
{
    CLEANUP(dr_run_done) struct dr_run run = {0};
    struct dr_wal wal = {.first = 5, .last = 9};
    struct bytes got;
    (void)ctx;
    fill(false);
    dr_run_cut(bytes_of(records, sizeof records), DR_RAW_MAX, room, &wal);
    assert_status(dr_run_add(&run, &wal, &got), ST_INVALID);
}

static void a_run_that_fits_no_memory_is_reported(void **ctx)
{
    CLEANUP(dr_run_done) struct dr_run run = {0};
    struct dr_wal wal = {.first = 5, .last = 9};
    struct bytes got;
    (void)ctx;
    fill(true);
    dr_run_cut(bytes_of(records, 1000), 0, room, &wal);
    (void)mem_fail_nth(1); /* nothing was requested before */
    assert_status(dr_run_add(&run, &wal, &got), ST_NOMEM);
    assert_true(mem_fail_nth(0));
}

static int start(void **ctx)
{
    (void)ctx;
    return crypto_init(NULL) == ST_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_any_length_are_joined_as_they_were),
        cmocka_unit_test(a_block_is_packed_only_where_that_saves_bytes),
        cmocka_unit_test(a_block_that_lies_about_its_length_is_refused),
        cmocka_unit_test(a_frame_that_does_not_continue_the_run_is_refused),
        cmocka_unit_test(a_run_that_begins_in_the_middle_is_refused),
        cmocka_unit_test(a_run_that_fits_no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
