/* Saving: pin the state on the raft thread, write the archive on the caller's. */
#include "snapshot/snapshot_internal.h"

#include "base/fs.h"
#include "raft/snapshot/rlog_archive.h"

#include <assert.h>

struct saving {
    struct snapshot *snapshot;
    const struct snapshot_target *target;
    uint8_t *proof; /* output: SNAPSHOT_PROOF_BYTES */
    /* Task for the raft thread, which makes the pin. */
    struct env_task task;
    struct wait wait;
    struct rlog_machine_dump dump;
    struct rlog_archive_facts facts;
};

static void pin_on_raft(struct env_task *task)
{
    struct saving *s = CONTAINER_OF(task, struct saving, task);
    struct rlog *rlog = s->snapshot->host->rlog;
    struct rlog_status raft;
    ASSERT(part_on_thread(s->snapshot->host));
    if (snapshot_closed(s->snapshot)) {
        wait_end(&s->wait, ST_CLOSED);
        return;
    }
    rlog_status(rlog, &raft);
    s->facts.index = raft.applied_index;
    s->facts.term = raft.term;
    wait_end(&s->wait, rlog_dump_begin(rlog, &s->dump));
}

static enum status save_piece(void *ctx, struct bytes piece)
{
    struct saving *s = ctx;
    ASSERT(s->snapshot->busy);
    return s->target->write(s->target->ctx, piece);
}

static enum status save_seal(void *ctx, struct bytes sums, struct buf *out)
{
    struct saving *s = ctx;
    TRY(snapshot_prove(s->snapshot, sums, s->proof));
    buf_add(out, bytes_of(s->proof, SNAPSHOT_PROOF_BYTES));
    return ST_OK;
}

static enum status save_all(struct saving *s)
{
    struct part_host *host = s->snapshot->host;
    const struct rlog_archive_out out = {save_piece, save_seal, s};
    ASSERT(s->target->write != NULL);
    ASSERT(s->snapshot->busy);

    static_assert(sizeof s->facts.cluster >= sizeof host->cluster_id, "a UUID fits");
    /* the id of the cluster never changes */
    memcpy(s->facts.cluster, host->cluster_id, sizeof host->cluster_id);
    s->task.run = pin_on_raft;
    TRY(wait_for(&s->wait, host->env, &s->task));
    s->dump.replicated_only = true;
    enum status st = rlog_archive_write(&s->dump, &s->facts, &out);
    rlog_machine_dump_end(&s->dump);
    return st;
}

enum status snapshot_write(struct snapshot *snapshot, const struct snapshot_target *target,
                           uint8_t ret_proof[SNAPSHOT_PROOF_BYTES], struct reason *reason)
{
    struct saving s = {.snapshot = snapshot, .target = target, .proof = ret_proof};
    ASSERT(part_off_thread(snapshot->host));
    TRY(snapshot_begin(snapshot, reason));
    enum status st = save_all(&s);
    snapshot_end(snapshot);
    if (st == ST_BUSY)
        reason_set(reason, "a snapshot is being restored");
    return st;
}

/* A file without a name that is written from its start. */
struct own_file {
    struct snapshot *snapshot;
    struct fs_file *file;
    /* bytes written; number of bytes at which to check the free space again */
    uint64_t at, checked;
};

static enum status write_own(void *ctx, struct bytes piece)
{
    struct own_file *f = ctx;
    ASSERT(f->file != NULL);
    if (f->at >= f->checked) {
        if (!snapshot_room(f->snapshot))
            return ST_NO_SPACE;
        f->checked = f->at + SNAPSHOT_ROOM_EVERY_BYTES;
    }
    TRY(fs_write_at(f->file, &piece, 1, f->at));
    f->at += piece.len;
    return ST_OK;
}

enum status snapshot_save(struct snapshot *snapshot, struct fs_file **ret_file, uint64_t *ret_bytes,
                          struct reason *reason)
{
    struct own_file own = {.snapshot = snapshot};
    const struct snapshot_target target = {write_own, &own};
    uint8_t proof[SNAPSHOT_PROOF_BYTES];
    ASSERT(part_off_thread(snapshot->host));
    TRY(snapshot_file(snapshot, &own.file));
    enum status st = snapshot_write(snapshot, &target, proof, reason);
    if (st != ST_OK) {
        fs_close(own.file);
        return st;
    }
    ASSERT(own.at > 0);
    *ret_file = own.file;
    *ret_bytes = own.at;
    return ST_OK;
}
