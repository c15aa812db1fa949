/* Short writes of the log, which come one at a time while there is little to do. The raft thread
 * encodes the batch and hands it to the env, which may write it without a thread. The end of the
 * log in memory has the same form, and changes at the same moment, as with long writes.
 *
 *   begin -> (write, durable) -> end, if the lock is free; else LANE_LOG ends it
 *        \-> the write needs a thread: LANE_LOG does all of it
 *
 * The raft thread holds the lock only while it copies bytes, and never waits for the lock: another
 * thread may hold it during a system call. */
#include "base/mem.h"
#include "raft/disk/rlog_disk_internal.h"

enum { SHORT_BYTES = 16 * 1024 };

static bool lock_if_free(struct rlog_disk *disk)
{
    return pthread_mutex_trylock(&disk->lock) == 0;
}

bool disk_short_begin(struct rlog_disk *disk, uint64_t bytes)
{
    struct disk_short *s = &disk->short_write;
    bool changes = false;
    ASSERT(!s->running && !disk->write.running);
    if (s->refused || bytes > SHORT_BYTES || !lock_if_free(disk))
        return false;
    s->plan = (struct batch_plan){0};
    bool staged = disk_group_plan(disk, &s->plan, &changes) == ST_OK && changes &&
                  tail_stage(disk, &s->plan, &s->staged);
    s->write.data = bytes_of(disk->tail.stage, s->staged.all);
    s->write.file = s->staged.file;
    s->write.off = s->staged.off;
    disk_unlock(disk);
    s->refused = staged && !env_write(disk->env, &s->write);
    if (!staged || s->refused) {
        mem_free(s->plan.entries);
        return false;
    }
    s->running = disk->write.running = true;
    disk->write.st = ST_OK;
    return true;
}

enum status disk_short_end(struct rlog_disk *disk, struct reason *reason)
{
    struct disk_short *s = &disk->short_write;
    enum status st = disk_final(s->write.st);
    ASSERT(s->running);
    st = tail_staged(disk, &s->plan, &s->staged, st, reason);
    mem_free(s->plan.entries);
    return st;
}

static void on_written(struct env_write *write)
{
    struct rlog_disk *disk = CONTAINER_OF(write, struct rlog_disk, short_write.write);
    if (!lock_if_free(disk)) {
        env_work(disk->env, &disk->write.work);
        return;
    }
    disk->write.st = disk_short_end(disk, &disk->write.reason);
    disk_unlock(disk);
    disk_write_over(disk);
}

void disk_short_init(struct rlog_disk *disk)
{
    disk->short_write.write.done = on_written;
}
