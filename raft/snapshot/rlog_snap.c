/* Writing, receiving, installing and reading snapshot files. LANE_BULK.
 *
 *   temporary name: written or received -> synced -> read back -> renamed -> directory synced
 *
 * An install is recorded in the file `install` before the rename. With that record the log may end
 * below the snapshot: the process died before the log was reset. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"
#include "raft/snapshot/rlog_snap_format.h"

struct rlog_snap_writer {
    struct rlog_disk *disk;
    struct fs_file *file;
    char path[DISK_PATH_MAX];
    struct rlog_snapshot_meta meta;
    uint64_t off;
    bool verified, failed;
    /* Members for writing: */
    uint8_t *pending, *chunk; /* SNAP_CHUNK_MAX bytes; a chunk with its header */
    size_t n_pending;
    struct snap_totals totals;
};

/* A disk that fails here is not trusted with the log either (PROTOCOL R12). A disk that is merely
 * full may still be trusted. */
static enum status judge(struct rlog_snap_writer *w, enum status st)
{
    if (st != ST_IO)
        return st;
    disk_lock(w->disk);
    tail_break(&w->disk->tail, "%s: cannot be written", w->path + strlen(w->disk->dir) + 1);
    disk_unlock(w->disk);
    return st;
}

void rlog_snap_abort(struct rlog_snap_writer *w)
{
    if (w == NULL)
        return;
    if (w->file != NULL) {
        fs_close(w->file);
        enum status st = fs_unlink(w->disk->fs, w->path);
        if (st != ST_OK) /* on failure the next start removes the file */
            trace(TRACE_WARN, "raft", "%s: cannot be removed: %s", w->path, status_text(st));
    }
    mem_free(w->pending);
    mem_free(w->chunk);
    mem_free(w);
}

static enum status writer_open(struct rlog_disk *disk, struct rlog_snap_writer **ret)
{
    struct rlog_snap_writer *w = mem_zalloc(sizeof *w);
    if (w == NULL)
        return ST_NOMEM;
    w->disk = disk;
    disk_path(disk, w->path, "snap/%llu.tmp",
              (unsigned long long)atomic_fetch_add(&disk->temp_number, 1));
    enum status st = fs_open(disk->fs, w->path, FS_READ | FS_WRITE | FS_CREATE, &w->file);
    if (st == ST_OK)
        st = fs_set_size(w->file, 0);
    if (st != ST_OK) {
        rlog_snap_abort(w);
        return st;
    }
    *ret = w;
    return ST_OK;
}

static enum status put(struct rlog_snap_writer *w, struct bytes data)
{
    enum status st = w->failed ? ST_IO : judge(w, fs_write_at(w->file, &data, 1, w->off));
    w->failed = st != ST_OK;
    w->off += data.len;
    return st;
}

static enum status writer_begin(struct rlog_snap_writer *w, const struct rlog_snapshot_meta *meta)
{
    uint8_t header[SNAP_HEADER];
    w->meta = *meta;
    w->pending = mem_alloc(SNAP_CHUNK_MAX);
    w->chunk = mem_alloc(SNAP_CHUNK_HEADER + SNAP_CHUNK_MAX);
    if (w->pending == NULL || w->chunk == NULL)
        return ST_NOMEM;
    snap_header_encode(meta, header);
    return put(w, bytes_of(header, sizeof header));
}

enum status rlog_snap_create(struct rlog_disk *disk, const struct rlog_snapshot_meta *meta,
                             struct rlog_snap_writer **ret_writer)
{
    struct rlog_snap_writer *w = NULL;
    ASSERT(meta->index > 0);
    ASSERT(meta->index <= disk->durable_last);
    ASSERT(meta->conf_len <= sizeof meta->conf);
    ASSERT(meta->conf_index <= meta->index);
    TRY(writer_open(disk, &w));
    enum status st = writer_begin(w, meta);
    if (st != ST_OK) {
        rlog_snap_abort(w);
        return st;
    }
    *ret_writer = w;
    return ST_OK;
}

static enum status flush(struct rlog_snap_writer *w)
{
    uint32_t crc = 0;
    ASSERT(w->n_pending <= SNAP_CHUNK_MAX);
    if (w->n_pending == 0)
        return ST_OK;
    size_t n =
        snap_chunk_encode(bytes_of(w->pending, w->n_pending), w->totals.chunks, w->chunk, &crc);
    TRY(put(w, bytes_of(w->chunk, n)));
    w->totals.chunks++;
    w->totals.content += w->n_pending;
    w->totals.chain = chain_next(w->totals.chain, crc);
    w->n_pending = 0;
    return ST_OK;
}

enum status rlog_snap_write(struct rlog_snap_writer *w, struct bytes content)
{
    ASSERT(w->pending != NULL);
    while (content.len != 0) {
        size_t n = MIN(content.len, SNAP_CHUNK_MAX - w->n_pending);
        memcpy(w->pending + w->n_pending, content.data, n);
        w->n_pending += n;
        content = bytes_from(content, n);
        if (w->n_pending == SNAP_CHUNK_MAX)
            TRY(flush(w));
    }
    return ST_OK;
}

static enum status verify(struct rlog_snap_writer *w, struct rlog_snapshot_meta *ret_meta)
{
    struct reason reason;
    enum status st = snap_verify(w->file, ret_meta, &reason);
    if (st != ST_OK)
        trace(TRACE_ERROR, "raft", "%s: %s", w->path, reason.text);
    return st;
}

/* Give the file its final name, durably. */
static enum status publish(struct rlog_snap_writer *w)
{
    char path[DISK_PATH_MAX];
    ASSERT(w->meta.index > 0);
    snapshot_path(w->disk, w->meta.index, w->meta.term, path);
    TRY(fs_rename(w->disk->fs, w->path, path));
    fs_close(w->file);
    w->file = NULL;
    return disk_sync_dir(w->disk, "snap");
}

static enum status commit(struct rlog_snap_writer *w)
{
    uint8_t trailer[SNAP_TRAILER];
    struct rlog_snapshot_meta back;
    TRY(flush(w));
    ASSERT(w->n_pending == 0);
    ASSERT(w->off >= SNAP_HEADER);
    w->totals.file_bytes = w->off + SNAP_TRAILER;
    snap_trailer_encode(&w->totals, trailer);
    TRY(put(w, bytes_of(trailer, sizeof trailer)));
    TRY(disk_sync(w->file));
    TRY(verify(w, &back));
    if (back.index != w->meta.index || back.term != w->meta.term)
        return ST_CORRUPT;
    TRY(publish(w));
    snapshot_verified(w->disk, w->meta.index, w->meta.term);
    return ST_OK;
}

enum status rlog_snap_commit(struct rlog_snap_writer *w, uint64_t *ret_bytes)
{
    ASSERT(w->pending != NULL);
    enum status st = judge(w, commit(w));
    if (st == ST_OK)
        *ret_bytes = w->totals.file_bytes;
    rlog_snap_abort(w);
    return st;
}

enum status rlog_snap_receive_create(struct rlog_disk *disk, struct rlog_snap_writer **ret_w)
{
    return writer_open(disk, ret_w);
}

enum status rlog_snap_receive_write(struct rlog_snap_writer *w, struct bytes raw)
{
    ASSERT(w->pending == NULL);
    ASSERT(!w->verified);
    return put(w, raw);
}

enum status rlog_snap_receive_verify(struct rlog_snap_writer *w,
                                     struct rlog_snapshot_meta *ret_meta)
{
    ASSERT(w->pending == NULL);
    if (w->failed)
        return ST_IO;
    TRY(verify(w, &w->meta));
    w->verified = true;
    *ret_meta = w->meta;
    return ST_OK;
}

static enum status reset_log(struct rlog_snap_writer *w)
{
    struct rlog_disk *disk = w->disk;
    struct reason reason;
    ASSERT(w->verified);
    disk_lock(disk);
    enum status st = tail_reset(disk, w->meta.index, w->meta.term, &reason);
    disk_unlock(disk);
    if (st != ST_OK)
        trace(TRACE_ERROR, "raft", "%s/%s: %s", disk->dir, reason.text, status_text(st));
    return st;
}

static enum status install(struct rlog_snap_writer *w)
{
    struct install_record record = {w->meta.index, w->meta.term};
    ASSERT(w->verified);
    ASSERT(!w->failed);
    TRY(disk_sync(w->file));
    TRY(install_begin(w->disk, &record));
    TRY(publish(w));
    snapshot_verified(w->disk, w->meta.index, w->meta.term);
    TRY(reset_log(w));
    return install_end(w->disk);
}

enum status rlog_snap_receive_install(struct rlog_snap_writer *w)
{
    ASSERT(w->verified && w->file != NULL);
    enum status st = install(w);
    if (st != ST_OK) { /* the core has dropped its log: there is no way back but a restart */
        disk_lock(w->disk);
        tail_break(&w->disk->tail, "snapshot %llu: its install failed",
                   (unsigned long long)w->meta.index);
        disk_unlock(w->disk);
    }
    rlog_snap_abort(w);
    return st;
}

struct rlog_snap_reader {
    struct snap_scan scan;
    struct fs_file *file;
    char path[DISK_PATH_MAX];
};

void rlog_snap_close(struct rlog_snap_reader *r)
{
    if (r == NULL)
        return;
    snap_scan_done(&r->scan);
    fs_close(r->file);
    mem_free(r);
}

static enum status reader_begin(struct rlog_snap_reader *r, struct rlog_disk *disk, uint64_t index,
                                uint64_t term)
{
    snapshot_path(disk, index, term, r->path);
    TRY(fs_open(disk->fs, r->path, FS_READ, &r->file));
    enum status st = snap_scan_init(&r->scan, r->file);
    if (st == ST_OK && (r->scan.meta.index != index || r->scan.meta.term != term)) {
        reason_set(&r->scan.reason, "the header belongs to another snapshot");
        st = ST_CORRUPT;
    }
    if (st == ST_CORRUPT)
        trace(TRACE_ERROR, "raft", "%s is corrupt: %s", r->path, r->scan.reason.text);
    return st;
}

enum status rlog_snap_open(struct rlog_disk *disk, uint64_t index, uint64_t term,
                           struct rlog_snap_reader **ret_reader,
                           struct rlog_snapshot_meta *ret_meta)
{
    struct rlog_snap_reader *r = mem_zalloc(sizeof *r);
    ASSERT(index > 0);
    if (r == NULL)
        return ST_NOMEM;
    enum status st = reader_begin(r, disk, index, term);
    if (st != ST_OK) {
        rlog_snap_close(r);
        return st;
    }
    *ret_meta = r->scan.meta;
    *ret_reader = r;
    return ST_OK;
}

enum status rlog_snap_read_raw(struct rlog_snap_reader *r, void *buf, size_t n, uint64_t off,
                               size_t *ret_n)
{
    return fs_read_at(r->file, buf, n, off, ret_n);
}

enum status rlog_snap_read(struct rlog_snap_reader *r, struct bytes *ret_content)
{
    enum status st = snap_scan_next(&r->scan, ret_content);
    if (st == ST_CORRUPT)
        trace(TRACE_ERROR, "raft", "%s is corrupt: %s", r->path, r->scan.reason.text);
    return st;
}
