/* A sync: the replicated state at one version, as the content of a snapshot (raft/FORMAT.md). The
 * state is pinned only while it is written into a file without a name; the file is sent at the
 * secondary's pace. */
#include "cluster/dr/serve/serve_internal.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/membership/wait.h"

#include <inttypes.h>
#include <stdio.h>

enum { PIECE_BYTES = 256 * 1024, SYNC_CREDIT_MS = 500, RESERVE_BYTES = 128 * 1024 * 1024 };

static void pin_on_raft(struct env_task *task)
{
    struct dr_outgoing *y = CONTAINER_OF(task, struct dr_outgoing, task);
    struct part_host *host = y->s->dr->host;
    bool closed = host->stopping || host->replica_closed;
    wait_end(&y->wait, closed ? ST_CLOSED : rlog_dump_begin(host->rlog, &y->dump));
}

static enum status write_piece(void *ctx, struct bytes piece)
{
    struct dr_outgoing *y = ctx;
    uint64_t have = 0;
    TRY(fs_free_bytes(y->s->dr->host->fs, &have));
    if (have < RESERVE_BYTES)
        return ST_NO_SPACE;
    if (y->s->stop)
        return ST_CLOSED;
    TRY(fs_write_at(y->file, &piece, 1, y->bytes));
    y->crc = crc32c(y->crc, piece);
    y->bytes += piece.len;
    return ST_OK;
}

/* Open a file that disappears with its last user. */
static enum status open_file(struct dr_outgoing *y)
{
    char name[40];
    struct fs *fs = y->s->dr->host->fs;
    unsigned long long number = atomic_fetch_add(&y->s->dr->files, 1U);
    int len = snprintf(name, sizeof name, "dr-sync-%llu", number);
    ASSERT(len > 0 && (size_t)len < sizeof name);
    enum status st = fs_unlink(fs, name); /* left by a process that ended before the unlink below */
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    TRY(fs_open(fs, name, FS_READ | FS_WRITE | FS_CREATE | FS_EXCL, &y->file));
    return fs_unlink(fs, name);
}

enum status dr_outgoing_pin(struct dr_outgoing *y)
{
    y->task.run = pin_on_raft;
    TRY(open_file(y));
    TRY(wait_for(&y->wait, y->s->dr->host->env, &y->task));
    y->dump.replicated_only = true;
    y->keys = store_count(&y->dump.pin, BYTES(RLOG_REPLICATED));
    y->pinned = true;
    return ST_OK;
}

void dr_outgoing_unpin(struct dr_outgoing *y)
{
    if (y->pinned)
        rlog_machine_dump_end(&y->dump);
    y->pinned = false;
}

enum status dr_outgoing_write(struct dr_outgoing *y)
{
    ASSERT(y->pinned);
    enum status st = rlog_machine_dump_run(&y->dump, write_piece, y);
    if (st == ST_OK)
        store_hash(&y->dump.pin, BYTES(RLOG_REPLICATED), y->root);
    dr_outgoing_unpin(y);
    return st;
}

void dr_outgoing_done(struct dr_outgoing *y)
{
    dr_outgoing_unpin(y);
    fs_close(y->file);
}

/* Wait until the secondary takes more, and the bandwidth allows more. */
static enum status await_credit(struct dr_outgoing *y)
{
    struct dr_frame frame;
    unsigned pause_ms;
    while ((pause_ms = dr_session_pause_ms(y->s)) != 0 || y->credit == 0) {
        int64_t until_ms = dr_conn_now_ms() + (pause_ms != 0 ? pause_ms : SYNC_CREDIT_MS);
        TRY(dr_session_check(y->s));
        enum status st = dr_conn_receive(y->s->conn, until_ms, &frame);
        if (st == ST_TIMEOUT)
            continue;
        TRY(st);
        if (frame.type != DR_CREDIT)
            return ST_INVALID;
        y->credit += MIN(frame.credit.bytes, (uint64_t)DR_RUN_MAX * 64 - y->credit);
    }
    return ST_OK;
}

static enum status send_pieces(struct dr_outgoing *y, uint8_t *room)
{
    for (uint64_t at = 0; at < y->bytes;) {
        size_t piece = dr_session_piece(y->s, PIECE_BYTES), got = 0;
        size_t n = (size_t)MIN(y->bytes - at, (uint64_t)piece);
        TRY(await_credit(y));
        TRY(fs_read_at(y->file, room, n, at, &got));
        if (got != n)
            return ST_IO;
        TRY(dr_conn_send_data(y->s->conn, at, bytes_of(room, n), dr_conn_now_ms() + DR_SEND_MS));
        y->credit -= MIN(y->credit, n);
        at += n;
    }
    return ST_OK;
}

static enum status send_file(struct dr_outgoing *y)
{
    int64_t until_ms = dr_conn_now_ms() + DR_SEND_MS;
    struct dr_frame begin = {.type = DR_SYNC_BEGIN,
                             .sync_begin = {.version = y->dump.version,
                                            .bytes = y->bytes,
                                            .keys = y->keys,
                                            .time_ms = y->dump.time_ms}};
    struct dr_frame end = {.type = DR_SYNC_END, .sync_end = {.bytes = y->bytes, .crc = y->crc}};
    memcpy(end.sync_end.root, y->root, sizeof y->root);
    TRY(dr_conn_send(y->s->conn, &begin, until_ms));
    uint8_t *room = mem_alloc(PIECE_BYTES);
    if (room == NULL)
        return ST_NOMEM;
    enum status st = send_pieces(y, room);
    mem_free(room);
    TRY(st);
    return dr_conn_send(y->s->conn, &end, dr_conn_now_ms() + DR_SEND_MS);
}

/* The secondary closes the connection when it has everything. */
static enum status await_end(struct dr_outgoing *y)
{
    struct dr_frame frame;
    enum status st;
    do {
        TRY(dr_session_check(y->s));
        st = dr_conn_receive(y->s->conn, dr_conn_now_ms() + SYNC_CREDIT_MS, &frame);
    } while (st == ST_TIMEOUT || (st == ST_OK && frame.type == DR_CREDIT));
    return st == ST_OK ? ST_INVALID : st;
}

enum status dr_outgoing_send(struct dr_outgoing *y)
{
    TRY(send_file(y));
    return await_end(y);
}

enum status dr_session_sync(struct dr_session *s)
{
    struct dr_outgoing y = {.s = s};
    enum status st = dr_outgoing_pin(&y);
    if (st == ST_OK)
        st = dr_outgoing_write(&y);
    if (st == ST_OK) {
        trace(TRACE_INFO, "dr",
              "secondary %s at %s syncs to version %" PRIu64 ": %" PRIu64 " keys, %" PRIu64
              " bytes",
              s->peer.name.id, dr_conn_address(s->conn), y.dump.version, y.keys, y.bytes);
        st = dr_outgoing_send(&y);
    }
    dr_outgoing_done(&y);
    return st;
}
