/* A folder of kept snapshots. */
#include "snapshot/snapshot_world.h"

#include "snapshot/snapshot_folder.h"

static struct memfs *folder_disk;

static struct snapshot_folder folder_of(uint64_t retain)
{
    return (struct snapshot_folder){
        .fs = &folder_disk->fs, .prefix = "kept", .retain = retain, .bytes_max = 1 << 20};
}

static enum status keep(const struct snapshot_folder *folder, int64_t ms)
{
    char name[SNAPSHOT_NAME_MAX + 1];
    why = (struct reason){{0}};
    return snapshot_folder_save(&part, folder, ms, name, &why);
}

static void the_newest_snapshots_are_kept(void **ctx)
{
    (void)ctx;
    folder_disk = memfs_new();
    folder_disk->room = UINT64_MAX;
    struct snapshot_folder folder = folder_of(2);
    for (int64_t ms = 1000; ms <= 4000; ms += 1000)
        assert_status(keep(&folder, ms), ST_OK);
    assert_status(keep(&folder, 4000), ST_EXISTS);
    assert_status(snapshot_folder_prune(&folder), ST_OK);
    assert_int_equal(folder_disk->now.n, 2);
    assert_non_null(mem_find(&folder_disk->now, "kept-0000000003000000000.snap"));
    assert_non_null(mem_find(&folder_disk->now, "kept-0000000004000000000.snap"));
    assert_status(snapshot_folder_drop(&folder, 4000), ST_OK);
    assert_status(snapshot_folder_drop(&folder, 4000), ST_NOT_FOUND);
    assert_int_equal(folder_disk->now.n, 1);
    folder.bytes_max = mem_find(&folder_disk->now, "kept-0000000003000000000.snap")->inode->size;
    assert_status(keep(&folder, 5000), ST_TOO_BIG);
    assert_non_null(strstr(why.text, "local_max_space"));
    folder.same_disk = true;
    folder.bytes_max *= 3;
    disk->room = 0; /* of the data directory */
    assert_status(keep(&folder, 5000), ST_NO_SPACE);
    assert_int_equal(folder_disk->now.n, 1);
    memfs_free(folder_disk);
}

static void a_snapshot_that_fails_leaves_no_file(void **ctx)
{
    (void)ctx;
    folder_disk = memfs_new();
    folder_disk->room = UINT64_MAX;
    const struct snapshot_folder folder = folder_of(9);
    enum status st = ST_IO;
    folder_disk->fail_with = ST_IO;
    uint64_t k = 0;
    while (st != ST_OK) {
        folder_disk->fail_at = folder_disk->calls + ++k;
        st = keep(&folder, (int64_t)k);
        if (st == ST_OK)
            break;
        assert_status(st, ST_IO);
        assert_string_not_equal(why.text, "");
        assert_false(part.busy);
        assert_int_equal(folder_disk->now.n, 0);
    }
    assert_true(k > 8);
    assert_int_equal(folder_disk->now.n, 1);
    memfs_free(folder_disk);
}

/* A disk that confirms a write and has something else. */
static enum status flip_and_sync(struct fs_file *file)
{
    struct mem_inode *inode = mem_file_of(file)->inode;
    assert_true(inode->size > 64);
    inode->now[inode->size / 2] ^= 1;
    return ST_OK;
}

static bool give_up(void *ctx)
{
    return --*(int *)ctx < 0;
}

static void what_the_disk_changed_is_no_snapshot(void **ctx)
{
    (void)ctx;
    struct fs_ops ops;
    folder_disk = memfs_new();
    folder_disk->room = UINT64_MAX;
    struct snapshot_folder folder = folder_of(9);
    const struct fs_ops *own = folder_disk->fs.ops;
    ops = *own;
    ops.sync = flip_and_sync;
    folder_disk->fs.ops = &ops;
    assert_status(keep(&folder, 1), ST_CORRUPT);
    assert_non_null(strstr(why.text, "another file than was written"));
    assert_int_equal(folder_disk->now.n, 0);
    folder_disk->fs.ops = own;
    for (int pieces = 0; pieces < 3; pieces++) {
        int left = pieces;
        folder.stop = give_up;
        folder.ctx = &left;
        assert_status(keep(&folder, 2), ST_CLOSED);
        assert_int_equal(folder_disk->now.n, 0);
    }
    part.busy = true;
    folder.stop = NULL;
    assert_status(keep(&folder, 3), ST_BUSY);
    part.busy = false;
    assert_int_equal(folder_disk->now.n, 0);
    memfs_free(folder_disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_snapshots_are_kept),
        TEST(a_snapshot_that_fails_leaves_no_file),
        TEST(what_the_disk_changed_is_no_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
