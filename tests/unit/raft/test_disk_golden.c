/* Golden files: the program still writes every file of a replica with the bytes of its first
 * release, and still reads them. */
#include "raft/disk_model.h"
#include "raft/golden.h"

#include "raft/disk/rlog_disk_format.h"

#define SEG1 "d/log/0000000000000001.seg"
#define SEG2 "d/log/0000000000000002.seg"
#define SNAP "d/snap/0000000000000003-0000000000000002.snap"

/* Two segments: a mark, appends, a truncation, and the end of a clean run. */
static struct world *world_golden(void)
{
    struct world *w = world_new();
    struct rlog_snapshot_meta meta = {.index = 3, .term = 2, .conf_index = 1, .conf_len = 4};
    struct rlog_snap_writer *s = NULL;
    uint64_t bytes = 0;
    memcpy(meta.conf, "conf", 4);
    w->segment_bytes = 4096;
    assert_status(world_create(w), ST_OK);
    world_open(w);
    assert_status(world_set_term(w, 1, 0), ST_OK);
    world_add(w, 3);
    world_run(w);
    assert_status(world_set_term(w, 2, 77), ST_OK);
    world_append(w, 3, 4);
    world_run(w);
    assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
    assert_status(rlog_snap_write(s, BYTES("a state")), ST_OK);
    assert_status(rlog_snap_commit(s, &bytes), ST_OK);
    world_close(w);
    return w;
}

static struct bytes content(struct world *w, const char *path)
{
    struct mem_inode *inode = memfs_inode(w->fs, path);
    assert_non_null(inode);
    return bytes_of(inode->now, inode->size);
}

static void put(struct memfs *m, const char *path, const char *golden)
{
    struct buf b = {0};
    golden_read(golden, &b);
    memfs_put(m, path, buf_bytes(&b));
    buf_done(&b);
}

static void files_are_written_as_ever(void **ctx)
{
    (void)ctx;
    struct world *w = world_golden();
    assert_golden("log-1.seg", content(w, SEG1));
    assert_golden("log-2.seg", content(w, SEG2));
    assert_golden("slot-1.bin", content(w, "d/slot"));
    assert_golden("identity-1.bin", content(w, "d/identity"));
    assert_golden("snapshot-1.snap", content(w, SNAP));
    world_free(w);
}

static void files_are_read_as_ever(void **ctx)
{
    (void)ctx;
    struct world *w = world_golden();
    memfs_free(w->fs);
    w->fs = memfs_new();
    w->env.fs = &w->fs->fs;
    assert_status(world_create(w), ST_OK);
    put(w->fs, SEG1, "log-1.seg");
    put(w->fs, SEG2, "log-2.seg");
    put(w->fs, "d/slot", "slot-1.bin");
    put(w->fs, "d/identity", "identity-1.bin");
    put(w->fs, SNAP, "snapshot-1.snap");
    world_open(w); /* compares with the model */
    assert_int_equal(w->loaded.n, 6);
    assert_int_equal(w->loaded.term, 2);
    assert_int_equal(w->loaded.vote, 77);
    assert_int_equal(w->loaded.snapshot.index, 3);
    assert_memory_equal(w->loaded.snapshot.conf, "conf", 4);
    world_free(w);
}

/* What LZ4 makes of content differs from release to release, so this one is only read. */
static void compressed_content_is_read_as_ever(void **ctx)
{
    struct rlog_snapshot_meta meta = {.index = 3, .term = 2, .conf_index = 1};
    struct rlog_snap_writer *s = NULL;
    struct rlog_snap_reader *r = NULL;
    struct bytes piece;
    uint64_t bytes = 0;
    (void)ctx;
    struct world *w = world_golden();
    world_open(w);
    assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
    for (unsigned i = 0; i < 100; i++)
        assert_status(rlog_snap_write(s, BYTES("again and ")), ST_OK);
    assert_status(rlog_snap_commit(s, &bytes), ST_OK);
    golden_make("snapshot-1-lz4.snap", content(w, SNAP));
    put(w->fs, SNAP, "snapshot-1-lz4.snap");
    assert_status(rlog_snap_open(w->disk, 3, 2, &r, &meta), ST_OK);
    assert_status(rlog_snap_read(r, &piece), ST_OK);
    assert_int_equal(piece.len, 1000);
    assert_memory_equal(piece.data + 990, "again and ", 10);
    assert_status(rlog_snap_read(r, &piece), ST_OK);
    assert_int_equal(piece.len, 0);
    rlog_snap_close(r);
    world_free(w);
}

static void the_record_of_an_install_is_as_ever(void **ctx)
{
    uint8_t block[SMALL_BLOCK];
    struct install_record r = {300, 7};
    struct buf b = {0};
    (void)ctx;
    install_encode(&r, 77, block);
    assert_golden("install-1.bin", bytes_of(block, sizeof block));
    golden_read("install-1.bin", &b);
    assert_true(install_decode(b.data, 77, &r));
    assert_int_equal(r.index, 300);
    assert_int_equal(r.term, 7);
    assert_false(install_decode(b.data, 78, &r));
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_written_as_ever),
        cmocka_unit_test(files_are_read_as_ever),
        cmocka_unit_test(compressed_content_is_read_as_ever),
        cmocka_unit_test(the_record_of_an_install_is_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
