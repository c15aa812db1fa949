/* The part: files without a name, and staged trees whose restore has ended. */
#include "snapshot/snapshot_internal.h"

#include "base/fs.h"
#include "base/trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define FILE_NAME "snapshot-"
#define PROOF_LABEL "snapshot 1\n"

enum { PROOF_VERSION = 1, RESERVE_BYTES = 128 * 1024 * 1024 };

enum status snapshot_begin(struct snapshot *s, struct reason *reason)
{
    if (!atomic_exchange(&s->busy, true))
        return ST_OK;
    reason_set(reason, "another snapshot is being saved or restored");
    return ST_BUSY;
}

void snapshot_end(struct snapshot *s)
{
    bool was_busy = atomic_exchange(&s->busy, false);
    ASSERT(was_busy);
}

enum status snapshot_file(struct snapshot *s, struct fs_file **ret_file)
{
    char name[40];
    unsigned long long number = atomic_fetch_add(&s->files, 1U);
    struct fs_file *file = NULL;
    int len = snprintf(name, sizeof name, FILE_NAME "%llu", number);
    ASSERT(len > 0 && (size_t)len < sizeof name);
    enum status st =
        fs_unlink(s->host->fs, name); /* left by a process that ended before its own unlink below */
    if (st == ST_OK || st == ST_NOT_FOUND)
        st = fs_open(s->host->fs, name, FS_READ | FS_WRITE | FS_CREATE | FS_EXCL, &file);
    if (st == ST_OK)
        st = fs_unlink(s->host->fs, name); /* the open file disappears with its last user */
    if (st != ST_OK) {
        fs_close(file);
        return st;
    }
    *ret_file = file;
    return ST_OK;
}

bool snapshot_room(struct snapshot *s)
{
    uint64_t have = 0;
    uint64_t keep = s->reserve_bytes != 0 ? s->reserve_bytes : RESERVE_BYTES;
    return fs_free_bytes(s->host->fs, &have) == ST_OK && have > keep + SNAPSHOT_ROOM_EVERY_BYTES;
}

enum status snapshot_prove(struct snapshot *s, struct bytes sums,
                           uint8_t ret_proof[SNAPSHOT_PROOF_BYTES])
{
    CLEANUP(buf_done) struct buf message = {0};
    buf_add(&message, BYTES(PROOF_LABEL));
    buf_add(&message, sums);
    TRY(buf_status(&message));
    ret_proof[0] = PROOF_VERSION;
    return barrier_prove(s->host->barrier, buf_bytes(&message), ret_proof + 1);
}

/* Drop a staged tree whose restore has ended: the tree keeps the log from being compacted. The
 * transaction names the tree, so a tree that began meanwhile stays. */
static void drop_stage(void *self, const struct rlog_status *raft)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    struct snapshot *s = self;
    ASSERT(part_on_thread(s->host));
    if (s->host->active_term == 0 || raft->stage == 0 || raft->stage == s->dropped_stage ||
        !raft->ready || atomic_load(&s->busy) || atomic_load(&s->host->staging))
        return;
    trace(TRACE_INFO, "node", "dropping the staged tree %" PRIu64 ": its owner has gone",
          raft->stage);
    rlog_txn_need_stage(&txn, raft->stage);
    rlog_txn_stage_drop(&txn);
    s->dropped_stage = raft->stage;
    s->host->calls->write(s->host, &txn, &s->dropped_stage);
}

static enum status snapshot_start(void *self, struct part_host *host)
{
    struct snapshot *s = self;
    ASSERT(s->host == NULL && !s->busy);
    s->host = host;
    return ST_OK;
}

const struct part snapshot_part = {
    .name = "snapshot", .start = snapshot_start, .changed = drop_stage};
