/* Large values: whole with their manifest, absent without it, and swept when they stay open. */
#include "state/state_world.h"

#include "state/blob.h"

enum { CHUNKS = BLOB_TURN_CHUNKS + 2, BYTES_ALL = CHUNKS * BLOB_CHUNK_BYTES - 17 };

static const char id[] = "aaaaaaaaaaaaaaaaaaaaaaaa";
static struct state_world w;
static uint8_t content[BYTES_ALL];

static int setup(void **ctx)
{
    (void)ctx;
    sw_open(&w);
    sw_init(&w);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * 31 + i / 4096);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx;
    sw_close(&w);
    return 0;
}

static void put_turns(unsigned turns)
{
    for (unsigned turn = 0; turn < turns; turn++) {
        struct state_txn txn;
        bool more;
        sw_begin(&w, &txn);
        assert_status(blob_put(&txn, id, bytes_of(content, sizeof content), turn, 1000, &more),
                      ST_OK);
        assert_int_equal(more, turn == 0);
        assert_status(sw_commit(&w, &txn), ST_OK);
    }
}

static void close_blob(void)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    assert_status(blob_close(&txn, id, bytes_of(content, sizeof content), 1000), ST_OK);
    assert_status(sw_commit(&w, &txn), ST_OK);
}

static enum status read_blob(void)
{
    struct state_txn txn;
    struct bytes got = {0};
    sw_begin(&w, &txn);
    enum status st = blob_read(&txn, id, &got);
    if (st == ST_OK)
        assert_true(bytes_eq(got, bytes_of(content, sizeof content)));
    state_end(&txn);
    return st;
}

static uint64_t total(void)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    uint64_t bytes = blob_total(&txn);
    state_end(&txn);
    return bytes;
}

static void sweep_at(int64_t now_ms)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    assert_status(blob_sweep(&txn, now_ms), ST_OK);
    if (state_staged(&txn))
        assert_status(sw_commit(&w, &txn), ST_OK);
    else
        state_end(&txn);
}

static void a_blob_exists_when_its_manifest_is_stored(void **ctx)
{
    (void)ctx;
    put_turns(2);
    assert_status(read_blob(), ST_NOT_FOUND);
    close_blob();
    assert_status(read_blob(), ST_OK);
    assert_int_equal(total(), (uint64_t)CHUNKS * BLOB_CHUNK_BYTES);
    sweep_at(1000 + 2 * (int64_t)BLOB_OPEN_MS);
    assert_status(read_blob(), ST_OK);
}

static void a_manifest_before_its_chunks_gives_no_value(void **ctx)
{
    (void)ctx;
    put_turns(1);
    close_blob();
    assert_status(read_blob(), ST_CORRUPT);
}

static void another_content_of_the_same_length_is_corrupt(void **ctx)
{
    (void)ctx;
    put_turns(2);
    content[5] ^= 1;
    close_blob();
    assert_status(read_blob(), ST_CORRUPT);
}

static void a_blob_that_stays_open_is_swept_after_its_time(void **ctx)
{
    (void)ctx;
    put_turns(1);
    sweep_at(1000 + (int64_t)BLOB_OPEN_MS - 1);
    assert_int_equal(total(), (uint64_t)BLOB_TURN_CHUNKS * BLOB_CHUNK_BYTES);
    sweep_at(1000 + (int64_t)BLOB_OPEN_MS + 1);
    assert_int_equal(total(), 0);
    sweep_at(1000 + 2 * (int64_t)BLOB_OPEN_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_blob_exists_when_its_manifest_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manifest_before_its_chunks_gives_no_value, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_content_of_the_same_length_is_corrupt, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_blob_that_stays_open_is_swept_after_its_time, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
