/* Power loss, or a failed call, at every single call of a run of the disk. After each restart,
 * everything that was reported as written is there, and nothing that was never written. */
#include "raft/disk_model.h"

#include "base/mem.h"

static void snapshot_at(struct world *w, uint64_t index, enum status *ret_st)
{
    struct rlog_snap_writer *s = NULL;
    struct rlog_snapshot_meta meta = {
        .index = index, .term = w->states[w->issued].entries[index].term, .conf_index = 1};
    uint64_t bytes = 0;
    enum status st = rlog_snap_create(w->disk, &meta, &s);
    if (st == ST_OK) {
        st = rlog_snap_write(s, BYTES("everything so far"));
        if (st == ST_OK)
            st = rlog_snap_commit(s, &bytes);
        else
            rlog_snap_abort(s);
    }
    if (st == ST_OK)
        st = rlog_snap_prune(w->disk);
    *ret_st = st;
}

/* A bit of everything that the log does; ends early when a call has failed. */
static void play(struct world *w)
{
    enum status st = ST_OK;
    for (unsigned i = 0; i < 24 && st == ST_OK && w->fatals == 0; i++) {
        world_add(w, 1 + i % 5);
        world_add(w, 1);
        if (i % 4 == 1) {
            uint64_t term = w->term + 1;
            st = world_set_term(w, term, i % 8 == 1 ? 77 : 0);
            world_append(w, w->states[w->issued].last - 1, 3);
        }
        if (i % 3 == 0)
            (void)world_run_one(w, LANE_LOG);
        else
            world_run(w);
        if (st == ST_OK && i % 5 == 4) {
            world_run(w);
            snapshot_at(w, w->states[w->written].last - 2, &st);
            rlog_disk_compact(w->disk, w->states[w->written].last - 2);
        }
        if (i == 7)
            world_sleep(w, 4000);
    }
    world_run(w);
}

static struct world *world_ready(void)
{
    struct world *w = world_begin();
    world_add(w, 3);
    world_run(w);
    w->fs->calls = 0;
    return w;
}

static uint64_t calls_of_play(void)
{
    struct world *w = world_ready();
    play(w);
    assert_int_equal(w->fatals, 0);
    uint64_t calls = w->fs->calls;
    world_free(w);
    return calls;
}

static void a_crash_at_any_call_loses_nothing_written(void **ctx)
{
    (void)ctx;
    uint64_t calls = calls_of_play(), torn = 0, fell_back = 0;
    assert_true(calls > 150);
    for (uint64_t n = 1; n <= calls; n++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct world *w = world_ready();
            w->fs->crash_at = n;
            play(w);
            world_crash(w, n * 1000 + seed);
            world_open(w);
            torn += w->loaded.torn;
            fell_back += w->loaded.vote_file_fell_back;
            world_add(w, 2);
            world_run(w);
            world_reopen(w);
            world_free(w);
        }
    assert_true(torn > 0);
    assert_true(fell_back > 0);
}

/* Crash in the run, then at every call of the reopening, then open for good. */
static void a_write_cut_at_any_byte_is_a_torn_one(void **ctx)
{
    (void)ctx;
    struct world *w = world_begin();
    world_add(w, 3);
    world_run(w);
    struct mem_inode *seg = memfs_inode(w->fs, "d/log/0000000000000001.seg");
    size_t from = seg->size, to = seg->size;
    while (seg->now[from - 1] == 0)
        from--;
    world_add(w, 5);
    world_run(w);
    while (seg->now[to - 1] == 0)
        to--;
    assert_true(to > from + 1024);
    w->fs->dead = true;
    world_close(w);
    memfs_exit(w->fs);
    struct memfs *whole = w->fs;
    for (size_t cut = from; cut < to; cut++) {
        w->fs = memfs_copy(whole);
        w->env.fs = &w->fs->fs;
        seg = memfs_inode(w->fs, "d/log/0000000000000001.seg");
        memset(seg->now + cut, 0, to - cut);
        assert_status(world_try_open(w), ST_OK);
        assert_false(w->loaded.corrupt);
        assert_true(w->loaded.torn || cut < from + 6);
        assert_true(model_matches(&w->loaded, &w->states[1]));
        world_close(w);
        memfs_free(w->fs);
    }
    w->fs = whole;
    w->env.fs = &whole->fs;
    world_free(w);
}

static void a_crash_while_opening_loses_nothing_written(void **ctx)
{
    (void)ctx;
    uint64_t calls = calls_of_play();
    for (uint64_t n = 5; n <= calls; n += 7)
        for (uint64_t m = 1;; m++) {
            struct world *w = world_ready();
            w->fs->crash_at = n;
            play(w);
            world_crash(w, n);
            w->fs->crash_at = m;
            enum status st = world_try_open(w);
            bool ended = !w->fs->dead;
            if (st == ST_OK)
                world_check(w);
            else
                assert_null(w->disk);
            if (ended) {
                world_free(w);
                break;
            }
            world_crash(w, m);
            world_open(w);
            world_free(w);
        }
}

static void a_failed_call_stops_the_disk(void **ctx)
{
    (void)ctx;
    uint64_t calls = calls_of_play(), fatals = 0;
    for (uint64_t n = 1; n <= calls; n++)
        for (unsigned power = 0; power < 2; power++) {
            struct world *w = world_ready();
            w->fs->fail_at = n;
            play(w);
            assert_true(w->fatals <= 1);
            fatals += w->fatals;
            uint64_t written = w->written;
            world_add(w, 1);
            world_run(w);
            assert_true(w->fatals == 0 || w->written == written);
            assert_true(w->fatals == 0 || strlen(w->fatal_reason.text) > 10);
            world_close(w);
            if (power != 0)
                memfs_crash(w->fs, n);
            else
                memfs_exit(w->fs);
            world_open(w);
            world_free(w);
        }
    assert_true(fatals > calls / 2);
}

/* The pages of a failed sync look fine until the machine goes down: they must not be believed. */
static void what_was_read_after_a_failed_sync_survives_the_power(void **ctx)
{
    (void)ctx;
    uint64_t calls = calls_of_play();
    for (uint64_t n = 1; n <= calls; n += 3) {
        struct world *w = world_ready();
        w->fs->fail_at = n;
        play(w);
        world_close(w);
        memfs_exit(w->fs);
        world_open(w); /* from here on other nodes may know everything loaded */
        world_crash(w, n);
        world_open(w);
        world_free(w);
    }
}

static void running_out_of_memory_stops_the_disk(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct world *w = world_ready();
        (void)mem_fail_nth(n);
        for (unsigned i = 0; i < 30; i++) {
            world_append(w, 1, 0);
            (void)mem_fail_nth(0);
            world_add(w, 5);
            (void)mem_fail_nth(n);
            world_run(w);
        }
        bool unused = !mem_fail_nth(0);
        assert_true(unused || w->fatals == 1 || w->written == w->issued);
        world_close(w);
        world_open(w);
        world_free(w);
        if (n > 40)
            break;
    }
}

static void opening_without_memory_fails_cleanly(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct world *w = world_ready();
        play(w);
        world_close(w);
        (void)mem_fail_nth(n);
        enum status st = world_try_open(w);
        bool used = mem_fail_nth(0);
        if (st == ST_OK) {
            world_check(w);
            world_free(w);
            assert_false(used);
            break;
        }
        assert_status(st, ST_NOMEM);
        world_open(w);
        world_free(w);
    }
}

static void making_a_replica_may_stop_anywhere(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct world *w = world_new();
        w->fs->crash_at = n;
        enum status st = world_create(w);
        bool ended = !w->fs->dead;
        assert_true(ended == (st == ST_OK));
        memfs_crash(w->fs, n);
        enum status opened = world_try_open(w);
        if (opened == ST_NOT_FOUND)
            assert_status(world_create(w), ST_OK);
        else
            assert_status(opened, ST_OK);
        if (opened == ST_NOT_FOUND)
            assert_status(world_try_open(w), ST_OK);
        world_check(w);
        world_free(w);
        if (ended)
            break;
    }
}

/* Random runs of many crashes on one directory. */
static void a_long_life_of_crashes_loses_nothing_written(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rng rng = {seed};
        struct world *w = world_ready();
        for (unsigned life = 0; life < 12; life++) {
            w->fs->calls = 0;
            w->fs->crash_at = 1 + rng_below(&rng, 120);
            if (rng_below(&rng, 4) == 0) {
                w->fs->fail_at = w->fs->crash_at;
                w->fs->crash_at = 0;
            }
            if (w->states[0].last < 700)
                play(w);
            if (rng_below(&rng, 3) == 0) {
                world_close(w);
                memfs_exit(w->fs);
            } else {
                world_crash(w, rng_next(&rng));
            }
            world_open(w);
        }
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_at_any_call_loses_nothing_written),
        cmocka_unit_test(a_write_cut_at_any_byte_is_a_torn_one),
        cmocka_unit_test(a_crash_while_opening_loses_nothing_written),
        cmocka_unit_test(a_failed_call_stops_the_disk),
        cmocka_unit_test(what_was_read_after_a_failed_sync_survives_the_power),
        cmocka_unit_test(running_out_of_memory_stops_the_disk),
        cmocka_unit_test(opening_without_memory_fails_cleanly),
        cmocka_unit_test(making_a_replica_may_stop_anywhere),
        cmocka_unit_test(a_long_life_of_crashes_loses_nothing_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
