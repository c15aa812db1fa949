/* The disk on real threads and real files: log, snapshots and compaction at the same time. Under
 * the thread sanitizer this test shows that the lanes do not race. */
#include "support.h"

#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"
#include "raft/disk/rlog_disk.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCHES = 1500, BATCH = 4, IN_FLIGHT = 16, SNAPSHOT_EACH = 400 };

struct run {
    struct env *env;
    struct fs *fs;
    struct rlog_disk *disk;
    struct rlog_loaded loaded;
    struct rlog_identity identity;
    uint64_t next, written, snapshot_at;
    struct env_work work; /* of the snapshot */
    bool busy;
    enum status st;
    unsigned snapshots;
};

static void add(struct run *r)
{
    struct rlog_entry entries[BATCH];
    struct rlog_block *block = rlog_block_new(BATCH * 8);
    assert_non_null(block);
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *at = rlog_block_data(block) + 8 * i;
        le64_put(at, r->next + i);
        entries[i] = (struct rlog_entry){
            .term = 1, .type = RLOG_COMMAND, .data = bytes_of(at, 8), .block = block};
    }
    (void)rlog_disk_append(r->disk, r->next, entries, BATCH);
    rlog_disk_write(r->disk);
    rlog_block_unref(block);
    r->next += BATCH;
}

/* The last third waits for a snapshot under way, so that there are several however slow they are.
 */
static void add_more(struct run *r)
{
    while (r->next <= BATCHES * BATCH && r->next / BATCH < r->written + IN_FLIGHT &&
           !(r->busy && r->next > BATCHES * BATCH * 2 / 3))
        add(r);
}

static void stop_when_done(struct run *r)
{
    if (r->written == BATCHES && !r->busy && rlog_disk_idle(r->disk))
        loop_stop(r->env);
}

static void snapshot_run(struct env_work *work)
{
    struct run *r = CONTAINER_OF(work, struct run, work);
    struct rlog_snapshot_meta meta = {.index = r->snapshot_at, .term = 1};
    struct rlog_snap_writer *w = NULL;
    uint64_t bytes = 0;
    r->st = rlog_snap_create(r->disk, &meta, &w);
    for (unsigned i = 0; i < 1000 && r->st == ST_OK; i++)
        r->st = rlog_snap_write(w, BYTES("some of the content of the state machine"));
    if (r->st == ST_OK)
        r->st = rlog_snap_commit(w, &bytes);
    if (r->st == ST_OK)
        r->st = rlog_snap_prune(r->disk);
}

static void snapshot_done(struct env_work *work)
{
    struct run *r = CONTAINER_OF(work, struct run, work);
    assert_status(r->st, ST_OK);
    rlog_disk_compact(r->disk, r->snapshot_at);
    r->busy = false;
    r->snapshots++;
    add_more(r);
    stop_when_done(r);
}

static void on_written(void *ctx, uint64_t seq)
{
    struct run *r = ctx;
    r->written = seq;
    add_more(r);
    if (r->busy || seq * BATCH < r->snapshot_at + SNAPSHOT_EACH)
        return;
    r->busy = true;
    r->snapshot_at = seq * BATCH;
    r->work = (struct env_work){.run = snapshot_run, .done = snapshot_done, .lane = LANE_BULK};
    env_work(r->env, &r->work);
    assert_status(rlog_disk_set_term(r->disk, 1, 0), ST_OK);
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    (void)why;
    (void)ctx;
    fail_msg("%s", reason->text);
}

static void on_idle(void *ctx)
{
    stop_when_done(ctx);
}

static void open_disk(struct run *r)
{
    struct reason reason = {{0}};
    struct rlog_disk_options o = {.env = r->env,
                                  .dir = "node",
                                  .ops = {on_written, on_fatal, r},
                                  .segment_bytes = 64 * 1024,
                                  .reserve_bytes = 1,
                                  .idle = on_idle};
    enum status st = rlog_disk_open(&o, &r->identity, &r->disk, &r->identity, &r->loaded, &reason);
    if (st != ST_OK || r->loaded.corrupt)
        fail_msg("%s: %s", status_name(st), reason.text);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static void lanes_work_side_by_side(void **ctx)
{
    char root[] = "/tmp/disk-XXXXXX";
    struct run r = {.identity = {.name = "n1", .id = 5}, .next = 1};
    (void)ctx;
    trace_set_level(TRACE_ERROR);
    assert_non_null(mkdtemp(root));
    assert_status(loop_fs_new(root, &r.fs, NULL), ST_OK);
    assert_status(loop_new(r.fs, &r.env), ST_OK);
    assert_status(rlog_disk_create(r.env, "node", &r.identity, NULL), ST_OK);
    open_disk(&r);
    assert_status(rlog_disk_set_term(r.disk, 1, 0), ST_OK);
    add(&r);
    loop_run(r.env);
    assert_int_equal(r.written, BATCHES);
    assert_true(r.snapshots > 1);
    rlog_disk_close(r.disk);
    rlog_loaded_done(&r.loaded);

    open_disk(&r);
    assert_int_equal(r.loaded.first + r.loaded.n, BATCHES * BATCH + 1);
    assert_true(r.loaded.first <= r.loaded.snapshot.index + 1);
    for (uint64_t i = 0; i < r.loaded.n; i++)
        assert_int_equal(le64_get(r.loaded.entries[i].data.data), r.loaded.first + i);
    rlog_disk_close(r.disk);
    rlog_loaded_done(&r.loaded);
    loop_free(r.env);
    loop_fs_free(r.fs);
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_work_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
