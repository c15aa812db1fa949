/* `holdfast dump` of directories and snapshot files, undamaged and damaged. */
#include "raft/disk_model.h"

#include "base/buf.h"
#include "base/mem.h"

#define SNAP "d/snap/0000000000000014-0000000000000001.snap"

static void gather(void *ctx, const char *text)
{
    buf_add_format(ctx, "%s\n", text);
}

static enum status dump(struct world *w, struct buf *out)
{
    buf_clear(out);
    enum status st = rlog_dump_log(&w->fs->fs, "d", gather, out);
    buf_add_u8(out, 0);
    return st;
}

static void assert_says(const struct buf *out, const char *text)
{
    if (strstr((const char *)out->data, text) == NULL)
        fail_msg("\"%s\" is not said in:\n%s", text, (const char *)out->data);
}

static struct world *world_full(void)
{
    struct world *w = world_begin();
    struct rlog_snapshot_meta meta = {.index = 20, .term = 1, .conf_index = 3};
    struct rlog_snap_writer *s = NULL;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < 10; i++) {
        world_add(w, 4);
        world_run(w);
    }
    assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
    assert_status(rlog_snap_write(s, BYTES("twenty")), ST_OK);
    assert_status(rlog_snap_commit(s, &bytes), ST_OK);
    assert_status(world_set_term(w, 2, 77), ST_OK);
    world_append(w, 38, 2);
    world_run(w);
    return w;
}

static void a_whole_directory_is_explained(void **ctx)
{
    struct buf out = {0};
    (void)ctx;
    struct world *w = world_full();
    assert_status(dump(w, &out), ST_OK); /* in use, which is no obstacle */
    assert_says(&out, "node n1, raft id 77, cluster 3031323334");
    assert_says(&out, "slot: copy 2: write 4, term 2, vote 77, log durable to batch");
    assert_says(&out, "log/0000000000000001.seg: 8192 bytes, begins at entry 1");
    assert_says(&out, "entries 1 to 4, term 1 to 1");
    assert_says(&out, "entries 38 to 39, term 2 to 2");
    assert_says(&out, "replaces what was there");
    assert_says(&out, "snap/0000000000000014-0000000000000001.snap: entries up to 20");
    assert_says(&out, "verdict: good: term 2, vote 77, snapshot to 20, log 1 to 39");
    world_close(w);
    uint64_t writes = w->fs->writes;
    assert_status(dump(w, &out), ST_OK);
    assert_says(&out, "mark of a clean end");
    assert_int_equal(w->fs->writes, writes);
    buf_done(&out);
    world_free(w);
}

static void damage_is_explained(void **ctx)
{
    struct buf out = {0};
    (void)ctx;
    struct world *w = world_full();
    world_close(w);
    memfs_flip(w->fs, "d/log/0000000000000002.seg", 2000, 1);
    memfs_flip(w->fs, "d/slot", 2000, 1);
    memfs_flip(w->fs, "d/identity", 5000, 1);
    memfs_flip(w->fs, SNAP, 4100, 1);
    assert_status(dump(w, &out), ST_CORRUPT);
    assert_says(&out, "identity: copy 2 is damaged");
    assert_says(&out, "slot: copy 1 is damaged");
    assert_says(&out, "0000000000000014-0000000000000001.snap: damaged: chunk 0 at offset 4096");
    assert_says(&out, "damage: log/0000000000000002.seg, offset 1536");
    assert_says(&out, "verdict: corrupt: log/0000000000000002.seg, offset 1536");
    memfs_drop(w->fs, "d/identity");
    memfs_drop(w->fs, "d/slot");
    assert_status(dump(w, &out), ST_CORRUPT);
    assert_says(&out, "says it is of raft id 77");
    assert_says(&out, "entries 1 to 4");
    assert_says(&out, "slot: not found");
    memfs_put(w->fs, "d/install", BYTES("?"));
    assert_status(dump(w, &out), ST_CORRUPT);
    assert_says(&out, "install: damaged");
    buf_done(&out);
    world_free(w);
}

static void a_torn_write_is_explained(void **ctx)
{
    struct buf out = {0};
    (void)ctx;
    struct world *w = world_full();
    for (uint64_t seed = 0;; seed++) {
        world_add(w, 4);
        w->fs->crash_at = w->fs->calls + 1;
        world_run(w);
        world_crash(w, seed);
        if (dump(w, &out) == ST_OK && strstr((char *)out.data, " torn: a torn write") != NULL)
            break;
        world_open(w);
    }
    assert_says(&out, "a torn write at the end will be cut");
    buf_done(&out);
    world_free(w);
}

static void a_place_without_a_replica_is_said_to_be_none(void **ctx)
{
    struct buf out = {0};
    (void)ctx;
    struct world *w = world_new();
    assert_status(dump(w, &out), ST_NOT_FOUND);
    assert_status(rlog_dump_log(&w->fs->fs, "", gather, &out), ST_INVALID);
    buf_done(&out);
    world_free(w);
}

static void a_snapshot_file_is_explained(void **ctx)
{
    struct buf out = {0};
    (void)ctx;
    struct world *w = world_full();
    assert_status(rlog_dump_snapshot(&w->fs->fs, SNAP, gather, &out), ST_OK);
    buf_add_u8(&out, 0);
    assert_says(&out, "snapshot of entries up to 20, term 1; configuration of entry 3");
    assert_says(&out, "chunk 0: 6 bytes of content");
    assert_says(&out, "whole: 1 chunks, 6 bytes of content");
    for (size_t off = 0; off < memfs_inode(w->fs, SNAP)->size; off += 50) {
        buf_clear(&out);
        memfs_flip(w->fs, SNAP, off, 1);
        assert_status(rlog_dump_snapshot(&w->fs->fs, SNAP, gather, &out), ST_CORRUPT);
        buf_add_u8(&out, 0);
        assert_says(&out, "damaged: ");
        memfs_flip(w->fs, SNAP, off, 1);
    }
    assert_status(rlog_dump_snapshot(&w->fs->fs, "d/snap/x", gather, &out), ST_NOT_FOUND);
    buf_done(&out);
    world_free(w);
}

static void explaining_without_memory_fails_cleanly(void **ctx)
{
    (void)ctx;
    struct world *w = world_full();
    for (uint64_t n = 1;; n++) {
        struct buf out = {0};
        (void)mem_fail_nth(n);
        enum status st = rlog_dump_log(&w->fs->fs, "d", gather, &out);
        if (st == ST_OK)
            st = rlog_dump_snapshot(&w->fs->fs, SNAP, gather, &out);
        bool used = mem_fail_nth(0);
        buf_done(&out);
        if (!used) {
            assert_status(st, ST_OK);
            break;
        }
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_directory_is_explained),
        cmocka_unit_test(damage_is_explained),
        cmocka_unit_test(a_torn_write_is_explained),
        cmocka_unit_test(a_place_without_a_replica_is_said_to_be_none),
        cmocka_unit_test(a_snapshot_file_is_explained),
        cmocka_unit_test(explaining_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
