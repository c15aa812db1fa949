/* Durable writes that do not hold up the loop: by the kernel alone where it can, else by a thread.
 */
#include "base/fs.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "loop/loop_aio.h"
#include "loop/loop_fs.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BLOCKS = 4 };

struct place {
    char root[64];
    struct fs *fs;
    struct env *env;
};

static _Alignas(FS_BLOCK) uint8_t blocks[BLOCKS * FS_BLOCK];

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where; /* everything goes */
    return remove(path);
}

static int setup(void **ctx)
{
    struct place *p = mem_zalloc(sizeof *p);
    if (p == NULL)
        return -1;
    (void)snprintf(p->root, sizeof p->root, "%s", "/tmp/hf-aio-XXXXXX"); /* fits */
    *ctx = p;
    return mkdtemp(p->root) != NULL && loop_fs_new(p->root, &p->fs, NULL) == ST_OK &&
                   loop_new(p->fs, &p->env) == ST_OK
               ? 0
               : -1;
}

static int teardown(void **ctx)
{
    struct place *p = *ctx;
    loop_free(p->env);
    loop_fs_free(p->fs);
    int err = nftw(p->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    mem_free(p);
    return err;
}

static unsigned threads(void)
{
    unsigned n = 0;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* see open_descriptors */
    DIR *dir = fdopendir(fd);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    assert_int_equal(closedir(dir), 0);
    return n;
}

/* A file of zeros, open for durable writes. */
static struct fs_file *ready(struct place *p, unsigned flags)
{
    struct fs_file *file = NULL;
    struct bytes all = bytes_of(blocks, sizeof blocks);
    memset(blocks, 0, sizeof blocks);
    assert_int_equal(fs_open(p->fs, "f", FS_WRITE | FS_CREATE, &file), ST_OK);
    assert_int_equal(fs_write_at(file, &all, 1, 0), ST_OK);
    assert_int_equal(fs_sync(file), ST_OK);
    fs_close(file);
    assert_int_equal(fs_open(p->fs, "f", FS_WRITE | FS_DSYNC | flags, &file), ST_OK);
    return file;
}

struct trial {
    struct env_write write;
    struct env *env;
    unsigned done;
};

static void on_done(struct env_write *write)
{
    struct trial *t = CONTAINER_OF(write, struct trial, write);
    t->done++;
    loop_stop(t->env);
}

static struct trial trial_of(struct place *p, struct fs_file *file, struct bytes data, uint64_t off)
{
    return (struct trial){.write = {.file = file, .data = data, .off = off, .done = on_done},
                          .env = p->env};
}

static enum status write_one(struct place *p, struct fs_file *file, struct bytes data, uint64_t off)
{
    struct trial t = trial_of(p, file, data, off);
    if (!env_write(p->env, &t.write))
        env_write_work(p->env, &t.write);
    assert_int_equal(t.done, 0);
    loop_run(p->env);
    assert_int_equal(t.done, 1);
    return t.write.st;
}

static void assert_written(struct place *p, uint64_t off, size_t n, uint8_t fill)
{
    struct fs_file *file = NULL;
    uint8_t got[BLOCKS * FS_BLOCK];
    size_t size = 0;
    assert_int_equal(fs_open(p->fs, "f", FS_READ, &file), ST_OK);
    assert_int_equal(fs_read_at(file, got, sizeof got, 0, &size), ST_OK);
    fs_close(file);
    assert_int_equal(size, sizeof got);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(got[i], i >= off && i < off + n ? fill : 0);
}

/* Whether the kernel writes to it without waiting; /tmp may lie anywhere. */
static bool at_once(struct fs_file *file)
{
    struct iovec zeros = {blocks, FS_BLOCK};
    int fd = loop_fs_direct(file);
    memset(blocks, 0, sizeof blocks);
    return fd >= 0 && pwritev2(fd, &zeros, 1, 0, RWF_NOWAIT) == FS_BLOCK;
}

static void a_direct_write_needs_no_thread(void **ctx)
{
    struct place *p = *ctx;
    struct fs_file *file = ready(p, FS_DIRECT);
    unsigned before = threads();
    bool able = at_once(file);
    for (unsigned i = 1; i < 20; i++) {
        memset(blocks, (int)i, sizeof blocks);
        assert_int_equal(write_one(p, file, bytes_of(blocks, 2 * FS_BLOCK), FS_BLOCK), ST_OK);
        assert_written(p, FS_BLOCK, (size_t)2 * FS_BLOCK, (uint8_t)i);
    }
    if (able)
        assert_int_equal(threads(), before);
    fs_close(file);
}

static void a_write_through_the_page_cache_takes_a_thread(void **ctx)
{
    struct place *p = *ctx;
    struct fs_file *file = ready(p, 0);
    unsigned before = threads();
    struct trial t = trial_of(p, file, BYTES("abc"), 5);
    assert_int_equal(loop_fs_direct(file), -1);
    assert_false(env_write(p->env, &t.write));
    assert_int_equal(write_one(p, file, BYTES("abc"), 5), ST_OK);
    assert_int_equal(threads(), before + 1);
    fs_close(file);
}

/* Not in blocks: whatever the kernel answers, it is written. */
static void what_the_kernel_does_not_take_is_written_all_the_same(void **ctx)
{
    struct place *p = *ctx;
    struct fs_file *file = ready(p, FS_DIRECT);
    memset(blocks, 7, sizeof blocks);
    assert_int_equal(write_one(p, file, bytes_of(blocks + 1, 100), 77), ST_OK);
    assert_written(p, 77, 100, 7);
    fs_close(file);
}

static void a_failure_is_told(void **ctx)
{
    struct place *p = *ctx;
    struct fs *dev = NULL;
    struct fs_file *full = NULL;
    assert_int_equal(loop_fs_new("/dev", &dev, NULL), ST_OK);
    assert_int_equal(fs_open(dev, "full", FS_WRITE | FS_DSYNC, &full), ST_OK);
    assert_int_equal(write_one(p, full, BYTES("abc"), 0), ST_NO_SPACE);
    fs_close(full);
    loop_fs_free(dev);
}

static void an_error_of_the_kernels_write_is_no_success(void **ctx)
{
    struct place *p = *ctx;
    struct fs_file *file = ready(p, FS_DIRECT);
    enum status st = write_one(p, file, bytes_of(blocks, FS_BLOCK), UINT64_MAX / 4 * FS_BLOCK);
    assert_int_not_equal(st, ST_OK);
    fs_close(file);
}

static void the_loop_ends_after_writes_under_way(void **ctx)
{
    struct place *p = *ctx;
    struct fs_file *file = ready(p, FS_DIRECT);
    struct trial t[3];
    memset(blocks, 9, sizeof blocks);
    for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
        t[i] = trial_of(p, file, bytes_of(blocks, FS_BLOCK), (uint64_t)i * FS_BLOCK);
        if (!env_write(p->env, &t[i].write))
            env_write_work(p->env, &t[i].write);
    }
    loop_free(p->env);
    p->env = NULL;
    for (unsigned i = 0; i < ARRAY_LEN(t); i++)
        assert_true(t[i].done == 1 && t[i].write.st == ST_OK);
    assert_written(p, 0, (size_t)3 * FS_BLOCK, 9);
    fs_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(a_direct_write_needs_no_thread),
        TEST(a_write_through_the_page_cache_takes_a_thread),
        TEST(what_the_kernel_does_not_take_is_written_all_the_same),
        TEST(a_failure_is_told),
        TEST(an_error_of_the_kernels_write_is_no_success),
        TEST(the_loop_ends_after_writes_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
