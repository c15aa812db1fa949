/* The next segment, made before it is needed.
 *
 *   look -> piece -> pause -> piece -> ... -> named
 *
 * It is zeroed on LANE_POOL, one durable piece after the other with pauses between: 8 MiB at once
 * would keep every write of the log waiting behind them for tens of milliseconds. There are no
 * pauses while the log fills its segment faster than the next segment grows. */
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"

enum { PIECES = 32, PIECE_MAX = 256 * 1024, PAUSE_MS = 10 };

static uint64_t piece_size(const struct rlog_disk *disk)
{
    uint64_t size = disk->segment_bytes / PIECES / FS_BLOCK * FS_BLOCK;
    size = MIN(MAX(size, (uint64_t)FS_BLOCK), (uint64_t)PIECE_MAX);
    return MIN(size, disk->segment_bytes - disk->making.off);
}

/* Whether less is zeroed than twice what the log uses: the log may become faster. */
static bool behind(const struct rlog_disk *disk)
{
    return disk->making.off < 2 * disk->active_bytes;
}

static enum status making_end(struct rlog_disk *disk)
{
    fs_close(disk->making.file);
    disk->making.file = NULL;
    disk_lock(disk);
    enum status st = disk->tail.broken ? ST_OK : tail_prepare(disk, disk->making.spare);
    disk_unlock(disk);
    return st;
}

/* Give up if the disk is full: no write fails before the log needs the segment. */
static enum status making_gives_up(struct rlog_disk *disk, enum status why)
{
    char path[DISK_PATH_MAX];
    fs_close(disk->making.file);
    disk->making.file = NULL;
    if (why != ST_NO_SPACE)
        return why;
    disk->full = true;
    spare_path(disk, disk->making.spare, path);
    enum status st = fs_unlink(disk->fs, path);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Zero a file that compaction left, or a new file. */
static enum status making_begin(struct rlog_disk *disk)
{
    char path[DISK_PATH_MAX];
    disk->want_next = false; /* clear first: a segment that begins later sets the flag again */
    disk_free_check(disk);
    disk_lock(disk);
    bool needed = disk->tail.prepared == 0;
    uint64_t spare = needed ? tail_take_spare(disk) : 0;
    disk_unlock(disk);
    if (!needed)
        return ST_OK;
    disk->making.spare = spare;
    disk->making.off = 0;
    spare_path(disk, spare, path);
    return fs_open(disk->fs, path, segment_flags(disk->segment_bytes) | FS_CREATE | FS_DSYNC,
                   &disk->making.file);
}

static enum status make_piece(struct rlog_disk *disk)
{
    struct disk_making *m = &disk->making;
    if (m->file == NULL) {
        enum status st = making_begin(disk);
        if (st == ST_NO_SPACE) {
            disk->full = true;
            return ST_OK;
        }
        if (st != ST_OK || m->file == NULL)
            return st;
    }
    uint64_t size = piece_size(disk);
    enum status st = disk_zero_piece(m->file, m->off, size);
    if (st != ST_OK)
        return making_gives_up(disk, st);
    m->off += size;
    return m->off == disk->segment_bytes ? making_end(disk) : ST_OK;
}

static void prep_run(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    reason_set(&w->reason, "log: the next segment cannot be prepared");
    w->st = make_piece(w->disk);
}

static void prep_done(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    struct rlog_disk *disk = w->disk;
    disk_work_take(w);
    if (!disk->failed && disk->making.file != NULL && !behind(disk))
        env_timer_set(disk->env, &disk->making.pause, env_mono_ms(disk->env) + PAUSE_MS);
    disk_go_on(disk);
}

void disk_prep_kick(struct rlog_disk *disk)
{
    if (disk->failed || disk->prep.running)
        return;
    if (disk->making.file != NULL ? disk->making.pause.slot != 0 && !behind(disk)
                                  : !disk->want_next)
        return;
    env_timer_stop(disk->env, &disk->making.pause);
    disk_work_submit(&disk->prep);
}

static void on_pause_over(struct env_timer *timer)
{
    disk_prep_kick(CONTAINER_OF(timer, struct rlog_disk, making.pause));
}

void disk_prep_init(struct rlog_disk *disk)
{
    disk->prep.work = (struct env_work){.run = prep_run, .done = prep_done, .lane = LANE_POOL};
    disk->prep.disk = disk;
    disk->making.pause.fire = on_pause_over;
    disk->want_next = true;
}

void disk_prep_close(struct rlog_disk *disk)
{
    ASSERT(!disk->prep.running);
    env_timer_stop(disk->env, &disk->making.pause);
    if (disk->making.file != NULL)
        fs_close(disk->making.file);
    disk->making.file = NULL;
}
