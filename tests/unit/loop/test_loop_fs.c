#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static char root[64];

static int setup(void **ctx)
{
    (void)snprintf(root, sizeof root, "%s", "/tmp/hf-fs-XXXXXX"); /* fits */
    if (mkdtemp(root) == NULL)
        return -1;
    return loop_fs_new(root, (struct fs **)ctx, NULL) == ST_OK ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where; /* everything goes */
    return remove(path);
}

static int teardown(void **ctx)
{
    loop_fs_free(*ctx);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static mode_t mode_of(const char *name)
{
    char path[256];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/%s", root, name); /* fits */
    assert_int_equal(stat(path, &about), 0);
    return about.st_mode & 07777;
}

static struct fs_file *make(struct fs *fs, const char *path)
{
    struct fs_file *file = NULL;
    assert_int_equal(fs_open(fs, path, FS_READ | FS_WRITE | FS_CREATE, &file), ST_OK);
    return file;
}

static void what_is_written_in_parts_is_read_back(void **ctx)
{
    enum { PARTS = 150 };
    struct bytes parts[PARTS];
    CLEANUP(buf_done) struct buf want = {0};
    uint8_t got[4096];
    size_t n = 0;
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = bytes_of("0123456789abcdefghij", i % 21);
        buf_add(&want, parts[i]);
    }
    struct fs_file *file = make(*ctx, "f");
    assert_int_equal(fs_write_at(file, parts, PARTS, 7), ST_OK);
    assert_int_equal(fs_write_at(file, parts, 0, 9000), ST_OK);
    assert_int_equal(fs_sync(file), ST_OK);
    assert_int_equal(fs_read_at(file, got, sizeof got, 7, &n), ST_OK);
    assert_true(bytes_eq(bytes_of(got, n), buf_bytes(&want)));
    uint64_t size = 0;
    assert_int_equal(fs_size(file, &size), ST_OK);
    assert_int_equal(size, want.len + 7);
    fs_close(file);
}

static void reading_past_the_end_is_short_not_an_error(void **ctx)
{
    struct bytes part = BYTES("abc");
    uint8_t got[8];
    size_t n = 9;
    struct fs_file *file = make(*ctx, "f");
    assert_int_equal(fs_write_at(file, &part, 1, 0), ST_OK);
    assert_int_equal(fs_read_at(file, got, sizeof got, 2, &n), ST_OK);
    assert_int_equal(n, 1);
    assert_int_equal(fs_read_at(file, got, sizeof got, 100, &n), ST_OK);
    assert_int_equal(n, 0);
    fs_close(file);
}

static void set_size_cuts_and_extends_with_zeroes(void **ctx)
{
    struct bytes part = BYTES("abc");
    uint8_t got[4] = {9, 9, 9, 9};
    size_t n = 0;
    struct fs_file *file = make(*ctx, "f");
    assert_int_equal(fs_write_at(file, &part, 1, 0), ST_OK);
    assert_int_equal(fs_set_size(file, 1), ST_OK);
    assert_int_equal(fs_set_size(file, 4), ST_OK);
    assert_int_equal(fs_read_at(file, got, sizeof got, 0, &n), ST_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(got, "a\0\0\0", 4);
    fs_close(file);
}

static void files_and_directories_are_private(void **ctx)
{
    struct fs *fs = *ctx;
    assert_int_equal(fs_mkdir(fs, "d"), ST_OK);
    fs_close(make(fs, "d/f"));
    assert_int_equal(mode_of("d"), 0700);
    assert_int_equal(mode_of("d/f"), 0600);
}

static void making_a_directory_twice_is_fine_but_not_over_a_file(void **ctx)
{
    struct fs *fs = *ctx;
    assert_int_equal(fs_mkdir(fs, "d"), ST_OK);
    assert_int_equal(fs_mkdir(fs, "d"), ST_OK);
    fs_close(make(fs, "f"));
    assert_int_equal(fs_mkdir(fs, "f"), ST_EXISTS);
}

static void absent_and_existing_files_have_their_own_status(void **ctx)
{
    struct fs_file *file = NULL;
    assert_int_equal(fs_open(*ctx, "none", FS_READ, &file), ST_NOT_FOUND);
    assert_int_equal(fs_unlink(*ctx, "none"), ST_NOT_FOUND);
    fs_close(make(*ctx, "f"));
    assert_int_equal(fs_open(*ctx, "f", FS_WRITE | FS_CREATE | FS_EXCL, &file), ST_EXISTS);
    assert_null(file);
}

static void paths_cannot_leave_the_root(void **ctx)
{
    static const char *const bad[] = {"/etc/passwd", "..", "../x", "a/../../x", "a/..", "/"};
    struct fs_file *file = NULL;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(fs_open(*ctx, bad[i], FS_READ, &file), ST_INVALID);
        assert_int_equal(fs_mkdir(*ctx, bad[i]), ST_INVALID);
        assert_int_equal(fs_unlink(*ctx, bad[i]), ST_INVALID);
        assert_int_equal(fs_rename(*ctx, "x", bad[i]), ST_INVALID);
        assert_int_equal(fs_sync_dir(*ctx, bad[i]), ST_INVALID);
    }
    fs_close(make(*ctx, "..dots.."));
}

static void a_symbolic_link_is_not_followed(void **ctx)
{
    char path[256];
    struct fs_file *file = NULL;
    fs_close(make(*ctx, "f"));
    (void)snprintf(path, sizeof path, "%s/link", root); /* fits */
    assert_int_equal(symlink("f", path), 0);
    assert_int_not_equal(fs_open(*ctx, "link", FS_READ, &file), ST_OK);
    assert_int_not_equal(fs_lock(*ctx, "link", &file), ST_OK);
}

static void rename_replaces_and_unlink_removes(void **ctx)
{
    struct fs *fs = *ctx;
    struct fs_file *file = NULL;
    fs_close(make(fs, "a"));
    fs_close(make(fs, "b"));
    assert_int_equal(fs_rename(fs, "a", "b"), ST_OK);
    assert_int_equal(fs_sync_dir(fs, ""), ST_OK);
    assert_int_equal(fs_open(fs, "a", FS_READ, &file), ST_NOT_FOUND);
    assert_int_equal(fs_unlink(fs, "b"), ST_OK);
    assert_int_equal(fs_open(fs, "b", FS_READ, &file), ST_NOT_FOUND);
}

struct seen {
    char text[64];
    size_t n, stop_at;
};

static enum status see(void *ctx, const char *name)
{
    struct seen *s = ctx;
    (void)strncat(s->text, name, sizeof s->text - strlen(s->text) - 1); /* bounded */
    return ++s->n == s->stop_at ? ST_CONFLICT : ST_OK;
}

static void a_listing_is_sorted_and_stops_when_told(void **ctx)
{
    struct seen all = {0}, some = {.stop_at = 2};
    assert_int_equal(fs_mkdir(*ctx, "d"), ST_OK);
    for (const char *const *name = (const char *const[]){"d/c", "d/a", "d/b", NULL}; *name; name++)
        fs_close(make(*ctx, *name));
    assert_int_equal(fs_list(*ctx, "d", see, &all), ST_OK);
    assert_string_equal(all.text, "abc");
    assert_int_equal(fs_list(*ctx, "d", see, &some), ST_CONFLICT);
    assert_string_equal(some.text, "ab");
    assert_int_equal(fs_list(*ctx, "none", see, &all), ST_NOT_FOUND);
}

static void a_lock_excludes_until_it_is_closed(void **ctx)
{
    struct fs_file *first = NULL, *second = NULL;
    assert_int_equal(fs_lock(*ctx, "LOCK", &first), ST_OK);
    assert_int_equal(fs_lock(*ctx, "LOCK", &second), ST_BUSY);
    fs_close(first);
    assert_int_equal(fs_lock(*ctx, "LOCK", &second), ST_OK);
    fs_close(second);
}

static void a_durable_file_is_written_and_space_is_known(void **ctx)
{
    struct fs_file *file = NULL;
    struct bytes part = BYTES("abc");
    uint64_t space = 0;
    assert_int_equal(fs_open(*ctx, "f", FS_WRITE | FS_CREATE | FS_DSYNC, &file), ST_OK);
    assert_int_equal(fs_write_at(file, &part, 1, 0), ST_OK);
    fs_close(file);
    assert_int_equal(fs_free_bytes(*ctx, &space), ST_OK);
    assert_true(space > 0);
}

/* Of a file's pages in the cache. ENOSYS where the kernel does not tell. */
struct cache_state {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static bool cache_state(const char *name, struct cache_state *ret)
{
    enum { CACHESTAT = 451 };
    uint64_t all[2] = {0, 0};
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    long err = syscall(CACHESTAT, fd, all, ret, 0);
    (void)close(fd);
    return err == 0;
}

static void a_long_file_does_not_wait_for_its_sync(void **ctx)
{
    static uint8_t megabyte[1024 * 1024];
    struct bytes part = bytes_of(megabyte, sizeof megabyte);
    struct cache_state state;
    struct statfs about;
    if (statfs(root, &about) != 0 || about.f_type == TMPFS_MAGIC)
        skip(); /* memory alone */
    struct fs_file *file = make(*ctx, "f");
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(fs_write_at(file, &part, 1, i * sizeof megabyte), ST_OK);
    bool told = cache_state("f", &state);
    fs_close(file);
    if (told)
        assert_true((state.dirty + state.writeback) * 4096 < sizeof megabyte);
    if (!told)
        skip();
}

/* Written directly as far as the file system does; read through the page cache, as it was before.
 */
static void what_is_written_directly_is_read_by_others(void **ctx)
{
    static _Alignas(FS_BLOCK) uint8_t blocks[4 * FS_BLOCK];
    struct fs_file *direct = NULL, *other = make(*ctx, "f");
    struct bytes parts[] = {bytes_of(blocks, FS_BLOCK), bytes_of(blocks, 2 * FS_BLOCK)};
    uint8_t got[sizeof blocks];
    size_t n = 0;
    assert_int_equal(fs_open(*ctx, "f", FS_WRITE | FS_DSYNC | FS_DIRECT, &direct), ST_OK);
    for (unsigned i = 1; i < 4; i++) {
        memset(blocks, (int)i, sizeof blocks);
        assert_true(fs_parts_in_blocks(parts, 2, FS_BLOCK));
        assert_int_equal(fs_write_at(direct, parts, 2, FS_BLOCK), ST_OK);
        assert_int_equal(fs_read_at(other, got, sizeof got, 0, &n), ST_OK);
        assert_int_equal(n, 4 * FS_BLOCK);
        assert_memory_equal(got + FS_BLOCK, blocks, 3 * FS_BLOCK);
    }
    fs_close(direct);
    fs_close(other);
}

static void what_is_no_block_is_known(void **ctx)
{
    static _Alignas(FS_BLOCK) uint8_t blocks[2 * FS_BLOCK];
    struct bytes whole = bytes_of(blocks, FS_BLOCK), part = bytes_of(blocks, FS_BLOCK - 512);
    struct bytes askew = bytes_of(blocks + 512, FS_BLOCK);
    (void)ctx; /* needs no file */
    assert_true(fs_parts_in_blocks(&whole, 1, 8 * FS_BLOCK));
    assert_false(fs_parts_in_blocks(&whole, 1, 512));
    assert_false(fs_parts_in_blocks(&part, 1, 0));
    assert_false(fs_parts_in_blocks(&askew, 1, 0));
}

/* As after a write that ended within a block. */
static void what_cannot_be_written_directly_goes_through_the_page_cache(void **ctx)
{
    struct fs_file *file = NULL;
    struct bytes part = BYTES("abc");
    uint8_t got[8];
    size_t n = 0;
    fs_close(make(*ctx, "f"));
    assert_int_equal(fs_open(*ctx, "f", FS_READ | FS_WRITE | FS_DSYNC | FS_DIRECT, &file), ST_OK);
    assert_int_equal(fs_write_at(file, &part, 1, 5), ST_OK);
    assert_int_equal(fs_read_at(file, got, sizeof got, 5, &n), ST_OK);
    assert_true(bytes_eq(bytes_of(got, n), part));
    fs_close(file);
}

static unsigned told;

static void count_told(enum trace_level level, const char *module, const char *text)
{
    (void)level, (void)module; /* one line is expected */
    told += strstr(text, "direct writes are refused") != NULL;
}

static void where_direct_writes_are_refused_it_is_said_once(void **ctx)
{
    struct fs *fs = NULL;
    (void)ctx; /* has its own root */
    told = 0;
    trace_set_sink(count_told);
    assert_int_equal(loop_fs_new("/dev", &fs, NULL), ST_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct fs_file *file = NULL;
        struct bytes part = BYTES("abc");
        assert_int_equal(fs_open(fs, "null", FS_WRITE | FS_DIRECT, &file), ST_OK);
        assert_int_equal(fs_write_at(file, &part, 1, 0), ST_OK);
        fs_close(file);
    }
    trace_set_sink(NULL);
    loop_fs_free(fs);
    assert_int_equal(told, 1);
}

static void writing_where_the_disk_is_full_is_told(void **ctx)
{
    struct fs *fs = NULL;
    struct fs_file *file = NULL;
    struct bytes part = BYTES("abc");
    (void)ctx; /* has its own root */
    assert_int_equal(loop_fs_new("/dev", &fs, NULL), ST_OK);
    assert_int_equal(fs_open(fs, "full", FS_WRITE, &file), ST_OK);
    assert_int_equal(fs_write_at(file, &part, 1, 0), ST_NO_SPACE);
    fs_close(file);
    loop_fs_free(fs);
}

static void a_root_that_is_not_there_is_named(void **ctx)
{
    struct fs *fs = NULL;
    struct reason reason = {0};
    (void)ctx; /* has its own root */
    assert_int_equal(loop_fs_new("/nonexistent/root", &fs, &reason), ST_NOT_FOUND);
    assert_non_null(strstr(reason.text, "/nonexistent/root"));
    loop_fs_free(NULL);
    fs_close(NULL);
}

static void every_allocation_may_fail(void **ctx)
{
    struct seen all = {0};
    struct fs_file *file = NULL;
    fs_close(make(*ctx, "f"));
    mem_fail_nth(1);
    assert_int_equal(fs_open(*ctx, "f", FS_READ, &file), ST_NOMEM);
    for (uint64_t i = 1; i <= 2; i++) {
        mem_fail_nth(i);
        assert_int_equal(fs_list(*ctx, "", see, &all), ST_NOMEM);
    }
    assert_true(mem_fail_nth(0));
}

/* Symbolic links on the way to the root change nothing. */
static void the_place_of_a_root_is_known(void **ctx)
{
    struct loop_fs_place place;
    struct fs *below = NULL;
    char path[256];
    assert_int_equal(loop_fs_place(*ctx, root, &place), ST_OK);
    assert_true(place.inside && place.same_disk);
    assert_int_equal(loop_fs_place(*ctx, "/tmp", &place), ST_OK);
    assert_true(place.inside && place.same_disk);
    assert_int_equal(fs_mkdir(*ctx, "a"), ST_OK);
    assert_int_equal(fs_mkdir(*ctx, "a/b"), ST_OK);
    (void)snprintf(path, sizeof path, "%s/link", root); /* fits */
    assert_int_equal(symlink("a", path), 0);
    (void)snprintf(path, sizeof path, "%s/link/b", root); /* fits */
    assert_int_equal(loop_fs_new(path, &below, NULL), ST_OK);
    (void)snprintf(path, sizeof path, "%s/a", root); /* fits */
    assert_int_equal(loop_fs_place(below, path, &place), ST_OK);
    assert_true(place.inside);
    assert_int_equal(loop_fs_place(*ctx, path, &place), ST_OK);
    assert_false(place.inside);
    assert_true(place.same_disk);
    assert_int_equal(loop_fs_place(*ctx, "/proc", &place), ST_OK);
    assert_false(place.inside || place.same_disk);
    assert_int_equal(loop_fs_place(*ctx, "/none/at/all", &place), ST_NOT_FOUND);
    loop_fs_free(below);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_in_parts_is_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_past_the_end_is_short_not_an_error, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(set_size_cuts_and_extends_with_zeroes, setup, teardown),
        cmocka_unit_test_setup_teardown(files_and_directories_are_private, setup, teardown),
        cmocka_unit_test_setup_teardown(making_a_directory_twice_is_fine_but_not_over_a_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(absent_and_existing_files_have_their_own_status, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(paths_cannot_leave_the_root, setup, teardown),
        cmocka_unit_test_setup_teardown(a_symbolic_link_is_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(rename_replaces_and_unlink_removes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listing_is_sorted_and_stops_when_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_excludes_until_it_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_durable_file_is_written_and_space_is_known, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_long_file_does_not_wait_for_its_sync, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_written_directly_is_read_by_others, setup,
                                        teardown),
        cmocka_unit_test(what_is_no_block_is_known),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_directly_goes_through_the_page_cache,
                                        setup, teardown),
        cmocka_unit_test(where_direct_writes_are_refused_it_is_said_once),
        cmocka_unit_test(writing_where_the_disk_is_full_is_told),
        cmocka_unit_test(a_root_that_is_not_there_is_named),
        cmocka_unit_test_setup_teardown(the_place_of_a_root_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
