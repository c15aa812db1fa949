#include "selftest.h"
#include "sim_fs.h"
#include "sim_mem.h"

enum { TRIALS = 300, SECTORS = 8 };

struct bench {
    struct core core;
    struct sim_fs sim;
    struct fs *fs;
};

static void setup(struct bench *b, uint64_t seed)
{
    core_init(&b->core, seed, false);
    sim_fs_init(&b->sim, &b->core, 1);
    b->fs = &b->sim.fs;
    sim_mem_owner(1);
}

static void teardown(struct bench *b)
{
    sim_fs_done(&b->sim);
    core_done(&b->core);
    sim_mem_drop(1);
    sim_mem_owner(0);
}

static struct fs_file *open_file(struct bench *b, const char *path, unsigned flags)
{
    struct fs_file *file = NULL;
    return fs_open(b->fs, path, flags | FS_READ | FS_WRITE, &file) == ST_OK ? file : NULL;
}

static enum status write_fill(struct fs_file *file, uint64_t off, size_t n, uint8_t fill)
{
    uint8_t data[FS_SECTOR * SECTORS];
    memset(data, fill, sizeof data);
    struct bytes part = {data, n};
    return fs_write_at(file, &part, 1, off);
}

static size_t read_all(struct bench *b, const char *path, uint8_t *out, size_t n)
{
    size_t got = 0;
    struct fs_file *file = open_file(b, path, 0);
    if (file == NULL)
        return SIZE_MAX;
    CHECK(fs_read_at(file, out, n, 0, &got) == ST_OK);
    fs_close(file);
    return got;
}

/* How the bytes of a file stand: all of one value, or mixed. */
static int fill_of(const uint8_t *data, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (data[i] != data[0])
            return -1;
    return n != 0 ? data[0] : -1;
}

static void synced_bytes_survive_and_others_may(void)
{
    unsigned kept = 0, lost = 0, torn = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[4096];
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(write_fill(file, 0, 2048, 1) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(fs_sync_dir(b.fs, ".") == ST_OK);
        CHECK(write_fill(file, 0, 2048, 2) == ST_OK);
        CHECK(read_all(&b, "a", data, sizeof data) == 2048 && fill_of(data, 2048) == 2);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "a", data, sizeof data) == 2048);
        int fill = fill_of(data, 2048);
        kept += fill == 2;
        lost += fill == 1;
        torn += fill == -1;
        for (size_t i = 0; i < 2048; i++)
            CHECK((data[i] == 1 || data[i] == 2) && data[i] == data[i / 512 * 512]);
        teardown(&b);
    }
    CHECK(kept > 20 && lost > 20 && torn > 20);
}

static void names_need_a_sync_of_their_directory(void)
{
    unsigned kept = 0, lost = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[64];
        setup(&b, seed);
        CHECK(fs_mkdir(b.fs, "d") == ST_OK && fs_sync_dir(b.fs, "") == ST_OK);
        struct fs_file *file = open_file(&b, "d/old", FS_CREATE);
        CHECK(write_fill(file, 0, 32, 1) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(fs_sync_dir(b.fs, "d") == ST_OK);
        file = open_file(&b, "d/tmp", FS_CREATE | FS_EXCL);
        CHECK(write_fill(file, 0, 32, 2) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(fs_rename(b.fs, "d/tmp", "d/old") == ST_OK);
        bool synced = seed % 2 == 0;
        CHECK(!synced || fs_sync_dir(b.fs, "d/") == ST_OK);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "./d//old", data, sizeof data) == 32);
        kept += data[0] == 2;
        lost += data[0] == 1;
        CHECK(!synced || data[0] == 2);
        teardown(&b);
    }
    CHECK(kept > TRIALS / 2 + 20 && lost > 20);
}

static void a_lost_directory_takes_its_files_along(void)
{
    unsigned lost = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[64];
        setup(&b, seed);
        CHECK(fs_mkdir(b.fs, "d") == ST_OK);
        struct fs_file *file = open_file(&b, "d/a", FS_CREATE);
        CHECK(write_fill(file, 0, 32, 1) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(fs_sync_dir(b.fs, "d") == ST_OK);
        sim_fs_crash(&b.sim);
        lost += read_all(&b, "d/a", data, sizeof data) == SIZE_MAX;
        teardown(&b);
    }
    CHECK(lost > 20);
}

/* In one job: write 1, sync, write 2. Any trace of 2 proves that all of 1 is there. */
static void a_job_is_cut_at_one_call(void)
{
    unsigned nothing = 0, torn_first = 0, torn_second = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        struct fs_job job = {0};
        uint8_t data[8192] = {0};
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(fs_sync_dir(b.fs, "") == ST_OK);
        sim_fs_job_run(&b.sim, &job);
        CHECK(write_fill(file, 0, 2048, 1) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(write_fill(file, 2048, 2048, 2) == ST_OK);
        sim_fs_job_pause(&b.sim);
        CHECK(job.calls == 3);
        sim_fs_crash(&b.sim);
        size_t n = read_all(&b, "a", data, sizeof data);
        bool first = n >= 2048 && fill_of(data, 2048) == 1, second = false;
        for (size_t i = 2048; i < n; i++)
            second = second || data[i] == 2;
        CHECK(first || !second);
        nothing += n == 0;
        torn_first += !first && n != 0;
        torn_second += second && (n < 4096 || fill_of(data + 2048, 2048) != 2);
        teardown(&b);
    }
    CHECK(nothing > 10 && torn_first > 10 && torn_second > 10);
}

static void an_ended_job_keeps_what_it_synced(void)
{
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        struct fs_job job = {0};
        uint8_t data[4096];
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(fs_sync_dir(b.fs, "") == ST_OK);
        sim_fs_job_run(&b.sim, &job);
        CHECK(write_fill(file, 0, 1024, 1) == ST_OK && fs_sync(file) == ST_OK);
        sim_fs_job_pause(&b.sim);
        sim_fs_job_end(&b.sim, &job);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "a", data, sizeof data) == 1024 && fill_of(data, 1024) == 1);
        teardown(&b);
    }
}

/* A job that was there first renames into a directory, and another one after it. */
static void a_synced_directory_has_what_was_done_before(void)
{
    unsigned second = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        struct fs_job jobs[2] = {{0}, {0}};
        uint8_t data[64];
        setup(&b, seed);
        CHECK(fs_mkdir(b.fs, "d") == ST_OK);
        fs_close(open_file(&b, "d/a", FS_CREATE));
        fs_close(open_file(&b, "d/b", FS_CREATE));
        CHECK(fs_sync_dir(b.fs, "d") == ST_OK && fs_sync_dir(b.fs, "") == ST_OK);
        for (unsigned i = 0; i < 2; i++) {
            sim_fs_job_run(&b.sim, &jobs[i]);
            CHECK(fs_rename(b.fs, i == 0 ? "d/a" : "d/b", i == 0 ? "d/1" : "d/2") == ST_OK);
            CHECK(fs_sync_dir(b.fs, "d") == ST_OK);
            sim_fs_job_pause(&b.sim);
        }
        if (seed % 2 == 0)
            sim_fs_job_end(&b.sim, &jobs[1]);
        if (seed % 4 < 2)
            sim_fs_crash(&b.sim);
        else
            sim_fs_exit(&b.sim);
        bool first = read_all(&b, "d/1", data, sizeof data) != SIZE_MAX;
        bool has_second = read_all(&b, "d/2", data, sizeof data) != SIZE_MAX;
        CHECK(has_second || seed % 2 != 0);
        if (seed % 2 == 0)
            CHECK(first);
        second += has_second && seed % 2 != 0;
        teardown(&b);
    }
    CHECK(second > 10);
}

static void what_a_failed_sync_covered_stays_lost(void)
{
    unsigned lost = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[4096];
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(fs_sync_dir(b.fs, "") == ST_OK);
        CHECK(write_fill(file, 0, 512, 1) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(write_fill(file, 0, 512, 2) == ST_OK);
        b.sim.faults.fail_after[FS_CALL_SYNC] = 1;
        b.sim.faults.fail_with = ST_IO;
        CHECK(fs_sync(file) == ST_IO && fs_sync(file) == ST_OK);
        CHECK(read_all(&b, "a", data, sizeof data) == 512 && data[0] == 2);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "a", data, sizeof data) == 512);
        lost += data[0] == 1;
        teardown(&b);
    }
    CHECK(lost > TRIALS / 2);
}

static void a_later_sync_covers_later_writes_over_lost_ones(void)
{
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[4096];
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(fs_sync_dir(b.fs, "") == ST_OK);
        CHECK(write_fill(file, 0, 1024, 1) == ST_OK);
        b.sim.faults.fail_after[FS_CALL_SYNC] = 1;
        b.sim.faults.fail_with = ST_IO;
        CHECK(fs_sync(file) == ST_IO);
        CHECK(write_fill(file, 512, 1024, 2) == ST_OK && fs_sync(file) == ST_OK);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "a", data, sizeof data) == 1536 && fill_of(data + 512, 1024) == 2);
        teardown(&b);
    }
}

/* A sector in the middle of a file of three is written anew, confirmed and lost. The last one then
 * is written too if `followed`; its fill is 3. */
static void lose_middle(struct bench *b, bool followed, uint8_t data[3 * FS_SECTOR])
{
    struct fs_file *file = open_file(b, "a", FS_CREATE);
    CHECK(fs_sync_dir(b->fs, "") == ST_OK);
    CHECK(write_fill(file, 0, sizeof(uint8_t[3 * FS_SECTOR]), 1) == ST_OK &&
          fs_sync(file) == ST_OK);
    b->sim.faults.stray_after = 1;
    CHECK(write_fill(file, FS_SECTOR, FS_SECTOR, 2) == ST_OK && fs_sync(file) == ST_OK);
    if (followed)
        CHECK(write_fill(file, 2 * FS_SECTOR, FS_SECTOR, 3) == ST_OK && fs_sync(file) == ST_OK);
    CHECK(b->sim.strays == followed);
    (b->sim.core->seed % 2 == 0 ? sim_fs_crash : sim_fs_exit)(&b->sim);
    CHECK(read_all(b, "a", data, 3 * FS_SECTOR) == 3 * FS_SECTOR);
}

static void a_write_that_goes_astray_is_lost_once_others_follow(void)
{
    unsigned lost = 0, elsewhere = 0;
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[3 * FS_SECTOR];
        setup(&b, seed);
        lose_middle(&b, false, data);
        CHECK(fill_of(data + FS_SECTOR, FS_SECTOR) == 2);
        teardown(&b);
        setup(&b, seed);
        lose_middle(&b, true, data);
        lost += fill_of(data + FS_SECTOR, FS_SECTOR) == 1;
        elsewhere += fill_of(data, FS_SECTOR) == 2;
        CHECK(fill_of(data + 2 * FS_SECTOR, FS_SECTOR) == 3);
        teardown(&b);
    }
    CHECK(lost > TRIALS / 2 && elsewhere > TRIALS / 20);
}

static void a_process_that_ends_leaves_what_it_wrote(void)
{
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        uint8_t data[4096];
        struct fs_file *lock;
        setup(&b, seed);
        CHECK(fs_lock(b.fs, "lock", &lock) == ST_OK && fs_lock(b.fs, "lock", &lock) == ST_BUSY);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(write_fill(file, 0, 700, 1) == ST_OK);
        sim_fs_exit(&b.sim);
        CHECK(fs_lock(b.fs, "lock", &lock) == ST_OK);
        CHECK(read_all(&b, "a", data, sizeof data) == 700 && fill_of(data, 700) == 1);
        teardown(&b);
    }
}

static void errors_come_when_asked(void)
{
    struct bench b;
    setup(&b, 1);
    struct fs_file *file = open_file(&b, "a", FS_CREATE);
    b.sim.faults.fail_after[FS_CALL_WRITE] = 2;
    b.sim.faults.fail_with = ST_IO;
    CHECK(write_fill(file, 0, 10, 1) == ST_OK && write_fill(file, 0, 10, 1) == ST_IO);
    b.sim.faults.full = true;
    uint64_t left = 1;
    CHECK(fs_free_bytes(b.fs, &left) == ST_OK && left == 0);
    CHECK(write_fill(file, 0, 10, 1) == ST_OK && write_fill(file, 600, 10, 1) == ST_NO_SPACE);
    b.sim.faults.full = false;
    b.sim.faults.crash_after = 2;
    CHECK(write_fill(file, 0, 10, 1) == ST_OK && write_fill(file, 0, 10, 1) == ST_IO);
    CHECK(b.sim.dead && fs_sync(file) == ST_IO);
    sim_fs_crash(&b.sim);
    CHECK(!b.sim.dead);
    teardown(&b);
}

/* What a sector may hold after a crash: what was durable, or anything written there since. */
struct model {
    uint64_t may[SECTORS]; /* bit per fill value */
};

static void model_step(struct bench *b, struct fs_file *file, struct model *m, struct rng *r)
{
    uint64_t from = rng_below(r, SECTORS), n = rng_between(r, 1, SECTORS - from);
    uint8_t fill = (uint8_t)rng_between(r, 1, 63), data[FS_SECTOR * SECTORS];
    if (rng_chance(r, 200)) {
        CHECK(fs_sync(file) == ST_OK);
        CHECK(read_all(b, "a", data, sizeof data) == sizeof data);
        for (unsigned i = 0; i < SECTORS; i++)
            m->may[i] = 1ull << data[i * FS_SECTOR];
        return;
    }
    CHECK(write_fill(file, from * FS_SECTOR, n * FS_SECTOR, fill) == ST_OK);
    for (uint64_t i = from; i < from + n; i++)
        m->may[i] |= 1ull << fill;
}

static void random_writes_leave_only_possible_sectors(void)
{
    for (unsigned seed = 0; seed < TRIALS; seed++) {
        struct bench b;
        struct rng r = rng_make(seed, 77);
        struct model m;
        uint8_t data[FS_SECTOR * SECTORS];
        setup(&b, seed);
        struct fs_file *file = open_file(&b, "a", FS_CREATE);
        CHECK(write_fill(file, 0, sizeof data, 0) == ST_OK && fs_sync(file) == ST_OK);
        CHECK(fs_sync_dir(b.fs, "") == ST_OK);
        for (unsigned i = 0; i < SECTORS; i++)
            m.may[i] = 1;
        for (unsigned step = 0; step < 12; step++)
            model_step(&b, file, &m, &r);
        sim_fs_crash(&b.sim);
        CHECK(read_all(&b, "a", data, sizeof data) == sizeof data);
        for (unsigned i = 0; i < SECTORS; i++) {
            int fill = fill_of(data + i * FS_SECTOR, FS_SECTOR);
            CHECK(fill >= 0 && (m.may[i] >> fill & 1) != 0);
        }
        teardown(&b);
    }
}

unsigned selftest_fs(void)
{
    synced_bytes_survive_and_others_may();
    names_need_a_sync_of_their_directory();
    a_lost_directory_takes_its_files_along();
    a_job_is_cut_at_one_call();
    an_ended_job_keeps_what_it_synced();
    a_synced_directory_has_what_was_done_before();
    what_a_failed_sync_covered_stays_lost();
    a_later_sync_covers_later_writes_over_lost_ones();
    a_write_that_goes_astray_is_lost_once_others_follow();
    a_process_that_ends_leaves_what_it_wrote();
    errors_come_when_asked();
    random_writes_leave_only_possible_sectors();
    return 12;
}
