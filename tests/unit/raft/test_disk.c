/* The log, term and vote of one replica without faults: everything that was written is read back.
 * */
#include "raft/disk_model.h"

#include "base/mem.h"
#include "raft/disk/rlog_disk_internal.h"

static int setup(void **ctx)
{
    *ctx = world_begin();
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

static void a_new_replica_is_empty(void **ctx)
{
    struct world *w = *ctx;
    assert_true(rlog_disk_idle(w->disk));
    assert_int_equal(w->loaded.first, 1);
    assert_int_equal(w->loaded.n, 0);
    assert_int_equal(w->loaded.term, 0);
    assert_int_equal(w->loaded.vote, 0);
    assert_int_equal(w->loaded.snapshot.index, 0);
    world_reopen(w);
    assert_int_equal(w->loaded.first, 1);
}

static void entries_of_all_sizes_come_back(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned i = 0; i < 30; i++) {
        world_add(w, 1 + i % 9);
        world_run(w);
    }
    assert_int_equal(w->written, 30);
    assert_int_equal(rlog_disk_queued_bytes(w->disk), 0);
    world_reopen(w);
    assert_true(w->loaded.n > 100);
    world_reopen(w);
}

static void an_entry_larger_than_a_segment_comes_back(void **ctx)
{
    struct world *w = *ctx;
    struct rlog_block *block = rlog_block_new(300000);
    assert_non_null(block);
    memset(rlog_block_data(block), 'x', 300000);
    struct rlog_entry e = {.term = 1,
                           .type = RLOG_COMMAND,
                           .data = bytes_of(rlog_block_data(block), 300000),
                           .block = block};
    w->issued = 2;
    (void)rlog_disk_append(w->disk, 1, &e, 1);
    (void)rlog_disk_append(w->disk, 2, &e, 1);
    rlog_disk_write(w->disk);
    world_run(w);
    assert_int_equal(w->written, 2);
    world_close(w);
    assert_status(world_try_open(w), ST_OK);
    assert_int_equal(w->loaded.n, 2);
    assert_bytes(w->loaded.entries[1].data, e.data);
    rlog_block_unref(block);
}

static void the_log_is_written_past_the_page_cache(void **ctx)
{
    struct world *w = *ctx;
    uint64_t before = w->fs->writes - w->fs->direct;
    for (unsigned i = 0; i < 30; i++) {
        world_add(w, 1 + i % 3);
        world_run(w);
    }
    assert_true(count_names(w->fs, ".seg") > 2); /* so some were zeroed meanwhile */
    assert_int_equal(w->fs->writes - w->fs->direct, before);
}

static void the_last_block_is_written_again_with_what_it_held(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned i = 0; i < 2; i++) {
        struct mem_inode *seg = memfs_inode(w->fs, "d/log/0000000000000001.seg");
        uint8_t held[MEM_SECTOR];
        memcpy(held, seg->now, sizeof held);
        memset(seg->now, 0, sizeof held); /* so it shows who writes it */
        uint64_t direct = w->fs->direct;
        world_add(w, 1);
        assert_true(world_run_one(w, LANE_LOG));
        assert_int_equal(w->fs->direct, direct + 1);
        assert_memory_equal(seg->now, held, sizeof held);
        world_free(w);
        w = *ctx = world_begin();
        world_reopen(w);
    }
}

static unsigned works(struct world *w, enum env_lane lane)
{
    unsigned n = 0;
    LIST_FOR (link, &w->works)
        n += CONTAINER_OF(link, struct env_work, link)->lane == lane;
    return n;
}

/* Another thread has the end of the log when a short write begins, or when it is done. */
static void a_short_write_does_not_wait_for_the_lock(void **ctx)
{
    struct world *w = *ctx;
    world_run(w);
    disk_lock(w->disk);
    world_add(w, 1);
    assert_false(w->disk->short_write.running);
    disk_unlock(w->disk);
    world_run(w);
    assert_int_equal(w->written, 1);

    world_add(w, 1);
    assert_true(w->disk->short_write.running);
    disk_lock(w->disk);
    assert_true(world_run_one(w, LANE_LOG));
    assert_int_equal(w->written, 1);
    assert_false(rlog_disk_idle(w->disk));
    disk_unlock(w->disk);
    world_run(w);
    assert_int_equal(w->written, 2);
    world_reopen(w);
}

static unsigned refusals;

static bool refuse(struct env *env, struct env_write *write)
{
    (void)env, (void)write; /* as an env would that has only threads */
    refusals++;
    return false;
}

static void where_a_write_takes_a_thread_the_log_has_its_own(void **ctx)
{
    struct world *w = *ctx;
    struct env_ops ops = *w->env.ops;
    const struct env_ops *before = w->env.ops;
    ops.write = refuse;
    w->env.ops = &ops;
    refusals = 0;
    for (unsigned i = 0; i < 5; i++) {
        world_add(w, 1);
        assert_false(w->disk->short_write.running);
        world_run(w);
        assert_int_equal(w->written, i + 1);
    }
    assert_int_equal(refusals, 1);
    world_reopen(w);
    w->env.ops = before;
}

static void what_else_the_log_needs_waits_for_a_short_write(void **ctx)
{
    struct world *w = *ctx;
    world_run(w);
    world_add(w, 1);
    w->now_ms += DISK_TICK_MS;
    struct env_timer *tick = timer_heap_first(&w->timers);
    timer_heap_stop(&w->timers, tick);
    tick->fire(tick);
    rlog_disk_compact(w->disk, 1);
    assert_int_equal(works(w, LANE_LOG), 1);
    world_add(w, 1); /* comes behind them */
    assert_true(world_run_one(w, LANE_LOG));
    assert_int_equal(w->written, 1);
    assert_false(w->disk->short_write.running);
    assert_int_equal(works(w, LANE_LOG), 3);
    world_run(w);
    assert_int_equal(w->written, 2);
    assert_false(w->disk->tend_due);
    world_reopen(w);
}

static void a_long_write_is_not_put_together_on_the_raft_thread(void **ctx)
{
    struct world *w = *ctx;
    world_run(w);
    world_add(w, 1);
    assert_true(w->disk->short_write.running);
    for (unsigned i = 0; i < 12; i++)
        world_add(w, 9);
    assert_true(world_run_one(w, LANE_LOG));
    assert_true(w->disk->write.running && !w->disk->short_write.running);
    world_run(w);
    assert_int_equal(w->written, 13);
    world_reopen(w);
}

static void a_segment_of_odd_size_is_written_in_sectors(void **ctx)
{
    struct world *w = *ctx;
    world_free(w);
    w = *ctx = world_new();
    w->segment_bytes = 5 * 512;
    assert_status(world_create(w), ST_OK);
    world_open(w);
    assert_status(world_set_term(w, 1, 0), ST_OK);
    for (unsigned i = 0; i < 12; i++) {
        world_add(w, 1);
        assert_true(world_run_one(w, LANE_LOG));
        assert_true(i > 0 || w->fs->direct == 0);
        world_reopen(w);
    }
    assert_true(w->fs->direct > 0); /* a larger segment, in the blocks that its batch needs */
}

static void appends_that_queue_up_become_one_write(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 1);
    for (unsigned i = 0; i < 20; i++)
        world_append(w, w->states[w->issued].last + 1, 0);
    for (unsigned i = 0; i < 5; i++)
        world_add(w, 1);
    assert_true(world_run_one(w, LANE_LOG));
    assert_int_equal(w->written, 1);
    uint64_t writes = w->fs->writes;
    assert_true(world_run_one(w, LANE_LOG));
    assert_int_equal(w->written, 26);
    assert_int_equal(w->fs->writes, writes + 1);
    world_reopen(w);
}

static void a_truncation_and_its_replacement_are_one_write(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 8);
    world_run(w);
    assert_status(world_set_term(w, 2, 0), ST_OK);
    uint64_t writes = w->fs->writes;
    world_append(w, 3, 2);
    assert_true(world_run_one(w, LANE_LOG));
    assert_int_equal(w->written, 2);
    assert_int_equal(w->fs->writes, writes + 1);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 4);
    assert_int_equal(w->loaded.entries[2].term, 2);
}

static void appends_that_replace_each_other_merge(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 8);
    world_run(w);
    world_add(w, 1); /* runs; what follows queues up */
    world_add(w, 5);
    assert_status(world_set_term(w, 2, 0), ST_OK);
    world_append(w, 11, 1);
    world_append(w, 7, 3);
    assert_status(world_set_term(w, 3, 0), ST_OK);
    world_append(w, 9, 4);
    world_run(w);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 12);
}

static void a_truncation_alone_is_remembered(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 8);
    world_append(w, 4, 0);
    world_run(w);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 3);
    world_append(w, 4, 0);
    world_run(w);
    assert_int_equal(w->written, 1);
}

static void the_whole_log_may_be_replaced(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned i = 0; i < 12; i++) {
        world_add(w, 6);
        world_run(w);
    }
    assert_status(world_set_term(w, 5, 0), ST_OK);
    world_append(w, 1, 1);
    world_run(w);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 1);
}

static void term_and_vote_come_back(void **ctx)
{
    struct world *w = *ctx;
    assert_status(world_set_term(w, 7, 0), ST_OK);
    assert_status(world_set_term(w, 7, 77), ST_OK);
    world_reopen(w);
    assert_int_equal(w->loaded.term, 7);
    assert_int_equal(w->loaded.vote, 77);
    assert_false(w->loaded.vote_file_fell_back);
}

static void a_quiet_log_gets_a_mark(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 1);
    world_run(w);
    uint64_t writes = w->fs->writes;
    world_sleep(w, 2000);
    world_sleep(w, 2000);
    assert_int_equal(w->fs->writes, writes + 1);
    world_sleep(w, 2000);
    world_sleep(w, 2000);
    assert_int_equal(w->fs->writes, writes + 1);
    world_reopen(w);
}

static void the_next_segment_is_made_before_it_is_needed(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 1);
    world_run(w);
    assert_int_equal(count_names(w->fs, ".seg"), 2);
    while (count_names(w->fs, ".seg") < 5) {
        world_add(w, 4);
        uint64_t syncs = w->fs->syncs;
        assert_true(world_run_one(w, LANE_LOG));
        assert_int_equal(w->fs->syncs, syncs); /* the log itself never zeroes */
        (void)world_run_one(w, LANE_POOL);
    }
    assert_int_equal(count_names(w->fs, "spare-"), 0);
}

static uint64_t spare_size(struct world *w)
{
    uint64_t size = 0;
    for (unsigned i = 0; i < w->fs->now.n; i++)
        if (strstr(w->fs->now.all[i].path, "spare-") != NULL)
            size += w->fs->now.all[i].inode->size;
    return size;
}

static void the_next_segment_grows_with_pauses(void **ctx)
{
    enum { SIZE = 1024 * 1024, PIECE = SIZE / 32 };
    struct world *w = *ctx;
    world_close(w);
    w->segment_bytes = SIZE;
    world_open(w);
    world_add(w, 1);
    world_run(w);
    for (unsigned i = 1; i < SIZE / PIECE; i++) {
        assert_int_equal(spare_size(w), i * PIECE);
        world_run(w); /* nothing before the pause is over */
        assert_int_equal(spare_size(w), i * PIECE);
        world_sleep(w, 10);
    }
    assert_int_equal(count_names(w->fs, "spare-"), 0);
    assert_int_equal(count_names(w->fs, ".seg"), 2);
}

static void a_log_that_grows_fast_waits_for_no_pause(void **ctx)
{
    struct world *w = *ctx;
    world_close(w);
    w->segment_bytes = 64 * 1024;
    world_open(w);
    for (unsigned i = 0; i < 100 && count_names(w->fs, ".seg") < 2; i++) {
        world_add(w, 1);
        world_run(w);
    }
    assert_int_equal(count_names(w->fs, ".seg"), 2);
}

static void a_log_closed_while_the_next_segment_is_made_opens_again(void **ctx)
{
    struct world *w = *ctx;
    world_close(w);
    w->segment_bytes = 1024 * 1024;
    world_open(w);
    world_add(w, 1);
    world_run(w);
    assert_int_equal(count_names(w->fs, "spare-"), 1);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 1);
}

static void a_slow_pool_does_not_stop_the_log(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned i = 0; i < 60; i++) {
        world_add(w, 3);
        assert_true(world_run_one(w, LANE_LOG));
    }
    assert_int_equal(w->written, 60);
    world_reopen(w);
}

static void idle_is_reported(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 1);
    assert_false(rlog_disk_idle(w->disk));
    world_run(w);
    assert_true(rlog_disk_idle(w->disk));
    assert_true(w->idles > 0);
}

static void queued_bytes_count_what_waits(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 9);
    uint64_t one = rlog_disk_queued_bytes(w->disk);
    assert_true(one > 1000);
    world_add(w, 9);
    assert_true(rlog_disk_queued_bytes(w->disk) > one);
    world_run(w);
    assert_int_equal(rlog_disk_queued_bytes(w->disk), 0);
}

static void a_directory_is_made_once(void **ctx)
{
    struct world *w = *ctx;
    assert_status(world_create(w), ST_BUSY);
    world_close(w);
    assert_status(world_create(w), ST_EXISTS);
    assert_non_null(strstr(w->reason.text, "n1"));
}

static void a_directory_is_opened_once(void **ctx)
{
    struct world *w = *ctx;
    struct rlog_disk *first = w->disk;
    assert_status(world_try_open(w), ST_BUSY);
    assert_non_null(strstr(w->reason.text, "in use"));
    w->disk = first;
}

static void anothers_directory_is_refused(void **ctx)
{
    struct world *w = *ctx;
    world_close(w);
    w->identity.name[1] = '2';
    assert_status(world_try_open(w), ST_INVALID);
    assert_non_null(strstr(w->reason.text, "belongs to node n1"));
    w->identity.name[1] = '1';
    w->identity.cluster[0] ^= 1;
    assert_status(world_try_open(w), ST_INVALID);
    assert_non_null(strstr(w->reason.text, "another cluster"));
}

static void an_empty_place_is_not_a_replica(void **ctx)
{
    (void)ctx;
    struct world *w = world_new();
    assert_status(world_try_open(w), ST_NOT_FOUND);
    assert_int_equal(memfs_of(&w->fs->fs)->now.n, 0);
    assert_status(rlog_disk_wipe(&w->env, "d", &w->reason), ST_OK);
    world_free(w);
}

static void a_wiped_replica_is_gone(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 9);
    world_run(w);
    assert_status(rlog_disk_wipe(&w->env, "d", &w->reason), ST_BUSY);
    world_close(w);
    assert_status(rlog_disk_wipe(&w->env, "d", &w->reason), ST_OK);
    assert_status(world_try_open(w), ST_NOT_FOUND);
    w->identity.id = 78;
    w->states[0].last = w->written = w->issued = 0;
    assert_status(world_create(w), ST_OK);
    assert_status(world_try_open(w), ST_OK);
    assert_int_equal(w->loaded.n, 0);
}

static void a_reset_log_begins_at_the_given_index(void **ctx)
{
    struct world *w = *ctx;
    world_add(w, 9);
    world_run(w);
    world_close(w);
    assert_status(world_try_open(w), ST_OK);
    assert_status(rlog_disk_reset(w->disk, 1, 0), ST_OK);
    w->states[0].last = w->written = w->issued = 0;
    world_reopen(w);
    assert_int_equal(w->loaded.n, 0);
}

static void a_segment_size_out_of_range_is_bounded(void **ctx)
{
    struct world *w = *ctx;
    world_close(w);
    w->segment_bytes = 1;
    world_open(w);
    world_add(w, 16);
    world_run(w);
    world_reopen(w);
    assert_int_equal(w->loaded.n, 16);
}

static void a_disk_that_fills_up_is_reported_in_time(void **ctx)
{
    struct world *w = *ctx;
    world_close(w);
    w->reserve_bytes = 100000;
    world_open(w);
    world_sleep(w, 2000); /* the next segment has its room */
    assert_false(rlog_disk_full(w->disk));
    w->fs->room = 99999;
    world_sleep(w, 2000);
    assert_true(rlog_disk_full(w->disk));
    w->fs->room = 100000;
    world_sleep(w, 2000);
    assert_false(rlog_disk_full(w->disk));
    assert_int_equal(w->fatals, 0);
}

static void a_segment_that_cannot_be_prepared_is_no_failure_yet(void **ctx)
{
    struct world *w = *ctx;
    w->fs->room = 5000;
    world_add(w, 1);
    world_run(w);
    assert_int_equal(w->written, 1);
    assert_int_equal(w->fatals, 0);
    assert_true(rlog_disk_full(w->disk));
    assert_int_equal(count_names(w->fs, "log/"), 1);
    w->fs->room = 1000000;
    world_sleep(w, 2000);
    assert_false(rlog_disk_full(w->disk));
    assert_int_equal(count_names(w->fs, ".seg"), 2);
}

static void a_full_disk_stops_the_log_when_a_segment_is_needed(void **ctx)
{
    struct world *w = *ctx;
    w->fs->room = 5000;
    while (w->fatals == 0 && w->issued < 50) {
        world_add(w, 4);
        world_run(w);
    }
    assert_int_equal(w->fatals, 1);
    assert_non_null(strstr(w->fatal_reason.text, "no space"));
    assert_status(w->fatal_why, ST_NO_SPACE);
    assert_true(w->written > 0 && w->written < w->issued);
    world_close(w);
    w->fs->room = UINT64_MAX;
    world_open(w);
    world_add(w, 4);
    world_run(w);
    world_reopen(w);
}

/* `room` never grows again in memfs: all that new files take shows. */
static void recycled_segments_take_no_new_space(void **ctx)
{
    struct world *w = *ctx;
    enum { ROOM = 1000000, SNAPSHOTS = 7, SNAPSHOT_BYTES = 4200 };
    for (unsigned i = 0; i < 60; i++) {
        if (i == 23)
            w->fs->room = ROOM;
        world_add(w, 3);
        world_run(w);
        if (i % 6 != 5)
            continue;
        struct rlog_snapshot_meta meta = {.index = w->states[w->written].last - 1, .term = 1};
        struct rlog_snap_writer *s = NULL;
        uint64_t bytes = 0;
        assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
        assert_status(rlog_snap_commit(s, &bytes), ST_OK);
        assert_status(rlog_snap_prune(w->disk), ST_OK);
        rlog_disk_compact(w->disk, meta.index);
        world_run(w);
    }
    assert_true(ROOM - w->fs->room < SNAPSHOTS * SNAPSHOT_BYTES + WORLD_SEGMENT);
}

static void entries_are_kept_alive_until_written(void **ctx)
{
    struct world *w = *ctx;
    struct rlog_entry e =
        model_make(3, 1); /* the memory checker sees a use after free, or a leak */
    w->issued = 1;
    (void)rlog_disk_append(w->disk, 1, &e, 1);
    rlog_disk_write(w->disk);
    rlog_block_unref(e.block);
    world_run(w);
    assert_int_equal(w->written, 1);
    w->written = w->issued = 0;
    w->states[0].last = 1;
    w->states[0].entries[1] = (struct model_entry){1, 3};
    world_reopen(w);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_new_replica_is_empty),
        TEST(entries_of_all_sizes_come_back),
        TEST(an_entry_larger_than_a_segment_comes_back),
        TEST(the_log_is_written_past_the_page_cache),
        TEST(the_last_block_is_written_again_with_what_it_held),
        TEST(a_segment_of_odd_size_is_written_in_sectors),
        TEST(a_short_write_does_not_wait_for_the_lock),
        TEST(where_a_write_takes_a_thread_the_log_has_its_own),
        TEST(what_else_the_log_needs_waits_for_a_short_write),
        TEST(a_long_write_is_not_put_together_on_the_raft_thread),
        TEST(appends_that_queue_up_become_one_write),
        TEST(a_truncation_and_its_replacement_are_one_write),
        TEST(appends_that_replace_each_other_merge),
        TEST(a_truncation_alone_is_remembered),
        TEST(the_whole_log_may_be_replaced),
        TEST(term_and_vote_come_back),
        TEST(a_quiet_log_gets_a_mark),
        TEST(the_next_segment_is_made_before_it_is_needed),
        TEST(the_next_segment_grows_with_pauses),
        TEST(a_log_that_grows_fast_waits_for_no_pause),
        TEST(a_log_closed_while_the_next_segment_is_made_opens_again),
        TEST(a_slow_pool_does_not_stop_the_log),
        TEST(idle_is_reported),
        TEST(queued_bytes_count_what_waits),
        TEST(a_directory_is_made_once),
        TEST(a_directory_is_opened_once),
        TEST(anothers_directory_is_refused),
        cmocka_unit_test(an_empty_place_is_not_a_replica),
        TEST(a_wiped_replica_is_gone),
        TEST(a_reset_log_begins_at_the_given_index),
        TEST(a_segment_size_out_of_range_is_bounded),
        TEST(a_disk_that_fills_up_is_reported_in_time),
        TEST(a_segment_that_cannot_be_prepared_is_no_failure_yet),
        TEST(a_full_disk_stops_the_log_when_a_segment_is_needed),
        TEST(recycled_segments_take_no_new_space),
        TEST(entries_are_kept_alive_until_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
