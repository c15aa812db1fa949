/* Snapshot files: written, kept, received, installed, damaged. */
#include "raft/disk_model.h"

#include "base/buf.h"
#include "base/mem.h"

enum { BIG = 700000 };

static int setup(void **ctx)
{
    struct world *w = world_begin();
    for (unsigned i = 0; i < 10; i++) {
        world_add(w, 4);
        world_run(w);
    }
    *ctx = w;
    return 0;
}

static int teardown(void **ctx)
{
    world_free(*ctx);
    return 0;
}

static unsigned count_names(struct memfs *m, const char *part)
{
    unsigned n = 0;
    for (unsigned i = 0; i < m->now.n; i++)
        n += strstr(m->now.all[i].path, part) != NULL;
    return n;
}

static struct rlog_snapshot_meta meta_at(struct world *w, uint64_t index)
{
    struct rlog_snapshot_meta meta = {.index = index,
                                      .term = w->states[w->issued].entries[index].term,
                                      .conf_index = 1,
                                      .conf_len = 5};
    memcpy(meta.conf, "conf!", 5);
    return meta;
}

static enum status take(struct world *w, uint64_t index, struct bytes content)
{
    struct rlog_snap_writer *s = NULL;
    struct rlog_snapshot_meta meta = meta_at(w, index);
    uint64_t bytes = 0;
    TRY(rlog_snap_create(w->disk, &meta, &s));
    enum status st = rlog_snap_write(s, content);
    if (st != ST_OK) {
        rlog_snap_abort(s);
        return st;
    }
    return rlog_snap_commit(s, &bytes);
}

/* All content of a snapshot. */
static enum status read_all(struct world *w, uint64_t index, uint64_t term, struct buf *out)
{
    struct rlog_snap_reader *r = NULL;
    struct rlog_snapshot_meta meta;
    struct bytes piece = {0};
    enum status st = rlog_snap_open(w->disk, index, term, &r, &meta);
    if (st != ST_OK)
        return st;
    do {
        st = rlog_snap_read(r, &piece);
        if (st == ST_OK)
            buf_add(out, piece);
    } while (st == ST_OK && piece.len != 0);
    rlog_snap_close(r);
    return st;
}

static void fill(uint8_t *data, size_t n, bool random)
{
    struct rng rng = {n};
    for (size_t i = 0; i < n; i++)
        data[i] = random ? (uint8_t)rng_next(&rng) : (uint8_t)(i / 1000);
}

static void content_comes_back(void **ctx)
{
    static const size_t sizes[] = {0, 1, 262144, 262145, BIG};
    static uint8_t data[BIG];
    struct world *w = *ctx;
    for (unsigned i = 0; i < 2 * ARRAY_LEN(sizes); i++) {
        struct buf back = {0};
        size_t n = sizes[i / 2];
        fill(data, n, i % 2 != 0);
        assert_status(take(w, 3 + i, bytes_of(data, n)), ST_OK);
        assert_status(read_all(w, 3 + i, 1, &back), ST_OK);
        assert_bytes(buf_bytes(&back), bytes_of(data, n));
        buf_done(&back);
    }
}

static void the_newest_one_is_found_at_the_next_start(void **ctx)
{
    struct world *w = *ctx;
    assert_status(take(w, 7, BYTES("seven")), ST_OK);
    assert_status(take(w, 9, BYTES("nine")), ST_OK);
    world_reopen(w);
    const struct rlog_snapshot_meta *m = &w->loaded.snapshot;
    assert_int_equal(m->index, 9);
    assert_int_equal(m->term, 1);
    assert_int_equal(m->conf_index, 1);
    assert_int_equal(m->conf_len, 5);
    assert_memory_equal(m->conf, "conf!", 5);
    assert_int_equal(m->bytes,
                     memfs_inode(w->fs, "d/snap/0000000000000009-0000000000000001.snap")->size);
    assert_false(w->loaded.snapshot_fell_back);
}

static void only_the_newest_are_kept(void **ctx)
{
    struct world *w = *ctx;
    for (uint64_t i = 4; i < 8; i++)
        assert_status(take(w, i, BYTES("x")), ST_OK);
    assert_status(rlog_snap_prune(w->disk), ST_OK);
    assert_int_equal(count_names(w->fs, ".snap"), 2);
    world_reopen(w);
    assert_int_equal(w->loaded.snapshot.index, 7);
}

static void a_damaged_one_does_not_count_as_kept(void **ctx)
{
    struct world *w = *ctx;
    for (uint64_t i = 4; i < 7; i++)
        assert_status(take(w, i, BYTES("x")), ST_OK);
    memfs_flip(w->fs, "d/snap/0000000000000005-0000000000000001.snap", 4100, 2);
    world_reopen(w); /* forgets what this process has verified */
    assert_status(rlog_snap_prune(w->disk), ST_OK);
    assert_int_equal(count_names(w->fs, ".snap"), 2);
    assert_int_equal(count_names(w->fs, "snap/0000000000000004"), 1);
    assert_int_equal(count_names(w->fs, "snap/0000000000000006"), 1);
}

static void the_last_good_one_is_never_removed(void **ctx)
{
    struct world *w = *ctx;
    assert_status(take(w, 4, BYTES("x")), ST_OK);
    assert_status(take(w, 5, BYTES("x")), ST_OK);
    assert_status(take(w, 6, BYTES("x")), ST_OK);
    memfs_flip(w->fs, "d/snap/0000000000000005-0000000000000001.snap", 4100, 2);
    memfs_flip(w->fs, "d/snap/0000000000000006-0000000000000001.snap", 4100, 2);
    world_reopen(w);
    assert_status(rlog_snap_prune(w->disk), ST_OK);
    assert_int_equal(count_names(w->fs, ".snap"), 3); /* what nothing replaces stays as a sign */
    assert_int_equal(count_names(w->fs, "snap/0000000000000004"), 1);
    world_reopen(w);
    assert_int_equal(w->loaded.snapshot.index, 4);
}

static void compaction_keeps_what_the_older_snapshot_needs(void **ctx)
{
    struct world *w = *ctx;
    uint64_t before = rlog_disk_log_bytes(w->disk);
    assert_status(take(w, 20, BYTES("x")), ST_OK);
    rlog_disk_compact(w->disk, 20);
    world_run(w);
    assert_true(rlog_disk_log_bytes(w->disk) < before); /* as if it were gone */
    assert_status(take(w, 38, BYTES("x")), ST_OK);
    rlog_disk_compact(w->disk, 38);
    world_run(w);
    world_reopen(w);
    assert_true(w->loaded.first > 1 && w->loaded.first <= 21);
    memfs_flip(w->fs, "d/snap/0000000000000026-0000000000000001.snap", 4100, 2);
    world_reopen(w);
    assert_true(w->loaded.snapshot_fell_back);
    assert_int_equal(w->loaded.snapshot.index, 20);
}

static void segments_are_used_again(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 4; i++)
            world_add(w, 4);
        world_run(w);
        uint64_t at = w->states[w->written].last;
        assert_status(take(w, at, BYTES("x")), ST_OK);
        assert_status(rlog_snap_prune(w->disk), ST_OK);
        rlog_disk_compact(w->disk, at);
        world_run(w);
        assert_true(round == 0 || count_names(w->fs, ".seg") < 6);
        assert_true(count_names(w->fs, "spare-") <= 8);
        if (round % 10 == 9)
            world_reopen(w);
    }
}

static void a_flip_anywhere_is_found(void **ctx)
{
    static const char path[] = "d/snap/0000000000000009-0000000000000001.snap";
    struct world *w = *ctx;
    assert_status(take(w, 5, BYTES("five")), ST_OK);
    assert_status(take(w, 9, BYTES("nine nine nine")), ST_OK);
    size_t size = memfs_inode(w->fs, path)->size;
    for (size_t off = 0; off < size; off += 3) {
        struct buf back = {0};
        memfs_flip(w->fs, path, off, (unsigned)(off % 8));
        assert_status(read_all(w, 9, 1, &back), ST_CORRUPT);
        if (off % 64 == 0) {
            world_reopen(w);
            assert_true(w->loaded.snapshot_fell_back);
            assert_int_equal(w->loaded.snapshot.index, 5);
        }
        memfs_flip(w->fs, path, off, (unsigned)(off % 8));
        buf_done(&back);
    }
}

static void a_shortened_or_longer_file_is_found(void **ctx)
{
    static const char path[] = "d/snap/0000000000000009-0000000000000001.snap";
    struct world *w = *ctx;
    assert_status(take(w, 9, BYTES("nine nine nine")), ST_OK);
    struct mem_inode *inode = memfs_inode(w->fs, path);
    size_t size = inode->size;
    for (size_t n = 0; n <= size + 1; n += n < 4000 ? 97 : 1) {
        struct buf back = {0};
        inode->size = n;
        assert_status(read_all(w, 9, 1, &back), n == size ? ST_OK : ST_CORRUPT);
        buf_done(&back);
    }
    inode->size = size;
}

static void a_snapshot_under_anothers_name_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct buf back = {0};
    assert_status(take(w, 9, BYTES("nine")), ST_OK);
    struct mem_inode *inode = memfs_inode(w->fs, "d/snap/0000000000000009-0000000000000001.snap");
    memfs_put(w->fs, "d/snap/000000000000000a-0000000000000001.snap",
              bytes_of(inode->now, inode->size));
    assert_status(read_all(w, 10, 1, &back), ST_CORRUPT);
    world_reopen(w);
    assert_true(w->loaded.snapshot_fell_back);
    assert_int_equal(w->loaded.snapshot.index, 9);
}

/* Rot in old segments does not matter once a snapshot covers them. */
static void damage_below_the_snapshot_is_no_loss(void **ctx)
{
    struct world *w = *ctx;
    assert_status(take(w, 39, BYTES("x")), ST_OK);
    memfs_flip(w->fs, "d/log/0000000000000001.seg", 1600, 1);
    world_reopen(w);
    assert_true(w->loaded.first > 1 && w->loaded.first <= 40);
    memfs_drop(w->fs, "d/log/0000000000000001.seg");
    world_reopen(w);
    world_add(w, 3);
    world_run(w);
    world_reopen(w);
}

static void without_any_good_snapshot_a_compacted_log_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_status(take(w, 20, BYTES("x")), ST_OK);
    assert_status(take(w, 38, BYTES("x")), ST_OK);
    rlog_disk_compact(w->disk, 38);
    world_run(w);
    world_close(w);
    memfs_flip(w->fs, "d/snap/0000000000000014-0000000000000001.snap", 4100, 2);
    memfs_flip(w->fs, "d/snap/0000000000000026-0000000000000001.snap", 4100, 2);
    assert_status(world_try_open(w), ST_OK);
    assert_true(w->loaded.corrupt);
    assert_non_null(strstr(w->loaded.reason.text, "snap/0000000000000026-0000000000000001.snap"));
}

static void a_log_that_ends_below_the_snapshot_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct world *small = world_begin();
    assert_status(take(w, 30, BYTES("x")), ST_OK);
    struct mem_inode *inode = memfs_inode(w->fs, "d/snap/000000000000001e-0000000000000001.snap");
    memfs_put(small->fs, "d/snap/000000000000001e-0000000000000001.snap",
              bytes_of(inode->now, inode->size));
    world_close(small);
    assert_status(world_try_open(small), ST_OK);
    assert_true(small->loaded.corrupt);
    assert_non_null(strstr(small->loaded.reason.text, "below the snapshot"));
    world_free(small);
}

static void leftovers_are_removed_at_the_next_start(void **ctx)
{
    struct world *w = *ctx;
    struct rlog_snapshot_meta meta = meta_at(w, 9);
    struct rlog_snap_writer *s = NULL;
    assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
    assert_int_equal(count_names(w->fs, ".tmp"), 1);
    memfs_put(w->fs, "d/snap/77.tmp", BYTES("rest"));
    rlog_snap_abort(s);
    assert_int_equal(count_names(w->fs, ".tmp"), 1);
    world_reopen(w);
    assert_int_equal(count_names(w->fs, ".tmp"), 0);
}

static void a_full_disk_leaves_nothing_behind(void **ctx)
{
    static uint8_t data[BIG];
    struct world *w = *ctx;
    fill(data, BIG, true);
    for (uint64_t room = 0; room < BIG; room += 100000) {
        w->fs->room = room;
        assert_status(take(w, 9, bytes_of(data, BIG)), ST_NO_SPACE);
        assert_int_equal(count_names(w->fs, "/snap/"), 0);
    }
    w->fs->room = UINT64_MAX;
    world_add(w, 1);
    world_run(w);
    world_reopen(w);
}

static void a_snapshot_may_fail_at_any_call(void **ctx)
{
    struct world *w = *ctx;
    for (uint64_t n = 1;; n++) {
        w->fs->calls = 0;
        w->fs->fail_at = n;
        enum status st = take(w, 9, BYTES("nine"));
        bool ended = w->fs->calls < n;
        w->fs->fail_at = 0;
        world_reopen(w);
        assert_int_equal(count_names(w->fs, ".tmp"), 0);
        if (ended) {
            assert_status(st, ST_OK);
            break;
        }
    }
}

static void a_snapshot_without_memory_fails_cleanly(void **ctx)
{
    struct world *w = *ctx;
    for (uint64_t n = 1;; n++) {
        struct buf back = {0};
        (void)mem_fail_nth(n);
        enum status st = take(w, 9, BYTES("nine"));
        if (st == ST_OK)
            st = rlog_snap_prune(w->disk);
        if (st == ST_OK)
            st = read_all(w, 9, 1, &back);
        bool used = mem_fail_nth(0);
        buf_done(&back);
        if (!used) {
            assert_status(st, ST_OK);
            break;
        }
        assert_int_equal(count_names(w->fs, ".tmp"), 0);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(content_comes_back),
        TEST(the_newest_one_is_found_at_the_next_start),
        TEST(only_the_newest_are_kept),
        TEST(a_damaged_one_does_not_count_as_kept),
        TEST(the_last_good_one_is_never_removed),
        TEST(compaction_keeps_what_the_older_snapshot_needs),
        TEST(segments_are_used_again),
        TEST(a_flip_anywhere_is_found),
        TEST(a_shortened_or_longer_file_is_found),
        TEST(a_snapshot_under_anothers_name_is_refused),
        TEST(damage_below_the_snapshot_is_no_loss),
        TEST(without_any_good_snapshot_a_compacted_log_is_refused),
        TEST(a_log_that_ends_below_the_snapshot_is_refused),
        TEST(leftovers_are_removed_at_the_next_start),
        TEST(a_full_disk_leaves_nothing_behind),
        TEST(a_snapshot_may_fail_at_any_call),
        TEST(a_snapshot_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
