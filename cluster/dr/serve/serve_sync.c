/* A sync: the replicated state at one version, as the content of a snapshot (raft/FORMAT.md). A
 * thread of its own writes the state into a file without a name. The state is pinned only that
 * long. Meanwhile the session sends what is in the file, at the secondary's pace. */
#include "cluster/dr/serve/serve_internal.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/membership/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE_BYTES = 256 * 1024, SYNC_CREDIT_MS = 500, RESERVE_BYTES = 128 * 1024 * 1024 };

static void pin_on_raft(struct env_task *task)
{
    struct dr_outgoing *y = CONTAINER_OF(task, struct dr_outgoing, task);
    struct part_host *host = y->s->dr->host;
    bool closed = host->stopping || host->replica_closed;
    wait_end(&y->wait, closed ? ST_CLOSED : rlog_dump_begin(host->rlog, &y->dump));
}

/* Guards the fields that the session and the writer share. */
static void lock(struct dr_outgoing *y)
{
    (void)pthread_mutex_lock(&y->lock); /* cannot fail: default mutex, never held twice */
}

static void unlock(struct dr_outgoing *y)
{
    (void)pthread_cond_signal(&y->more);  /* cannot fail */
    (void)pthread_mutex_unlock(&y->lock); /* cannot fail: this thread holds the lock */
}

static enum status write_piece(void *ctx, struct bytes piece)
{
    struct dr_outgoing *y = ctx;
    uint64_t have = 0;
    TRY(fs_free_bytes(y->s->dr->host->fs, &have));
    if (have < RESERVE_BYTES)
        return ST_NO_SPACE;
    if (y->s->stop || atomic_load(&y->given_up))
        return ST_CLOSED;
    TRY(fs_write_at(y->file, &piece, 1, y->bytes));
    y->crc = crc32c(y->crc, piece);
    lock(y);
    y->bytes += piece.len;
    unlock(y);
    return ST_OK;
}

static void *writer_main(void *arg)
{
    struct dr_outgoing *y = arg;
    ASSERT(y->pinned && y->bytes == 0);
    enum status st = rlog_machine_dump_run(&y->dump, write_piece, y);
    if (st == ST_OK)
        store_hash(&y->dump.pin, BYTES(RLOG_REPLICATED), y->root);
    dr_outgoing_unpin(y);
    lock(y);
    y->st = st;
    y->written = true;
    unlock(y);
    return NULL;
}

/* Bytes of the file that can be sent: at least one piece, or all that there is after `at`. */
static enum status await_written(struct dr_outgoing *y, uint64_t at, size_t piece, uint64_t *ret_n)
{
    lock(y);
    while (!y->written && y->bytes - at < piece)
        (void)pthread_cond_wait(&y->more, &y->lock); /* cannot fail */
    enum status st = y->written ? y->st : ST_OK;
    *ret_n = MIN(y->bytes - at, (uint64_t)piece);
    unlock(y);
    return st;
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

enum status dr_outgoing_init(struct dr_outgoing *y, struct dr_session *s)
{
    *y = (struct dr_outgoing){.s = s};
    if (pthread_mutex_init(&y->lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&y->more, NULL) == 0)
        return ST_OK;
    (void)pthread_mutex_destroy(&y->lock); /* no thread holds the lock */
    return ST_NOMEM;
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

void dr_outgoing_done(struct dr_outgoing *y)
{
    dr_outgoing_unpin(y);
    fs_close(y->file);
    (void)pthread_cond_destroy(&y->more);  /* no thread waits */
    (void)pthread_mutex_destroy(&y->lock); /* no thread holds the lock */
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
    uint64_t at = 0, n;
    for (;;) {
        size_t piece = dr_session_piece(y->s, PIECE_BYTES), got = 0;
        TRY(await_written(y, at, piece, &n));
        if (n == 0)
            return ST_OK;
        TRY(await_credit(y));
        TRY(fs_read_at(y->file, room, (size_t)n, at, &got));
        if (got != n)
            return ST_IO;
        TRY(dr_conn_send_data(y->s->conn, at, bytes_of(room, got), dr_conn_now_ms() + DR_SEND_MS));
        y->credit -= MIN(y->credit, n);
        at += n;
    }
}

/* Send the file while it is written. Afterwards no thread writes it. */
static enum status send_file(struct dr_outgoing *y)
{
    uint8_t *room = mem_alloc(PIECE_BYTES);
    pthread_t writer;
    if (room == NULL || pthread_create(&writer, NULL, writer_main, y) != 0) {
        mem_free(room);
        return ST_NOMEM;
    }
    enum status st = send_pieces(y, room);
    mem_free(room);
    atomic_store(&y->given_up, st != ST_OK);
    if (pthread_join(writer, NULL) != 0)
        abort(); /* the thread was started and is joined once */
    ASSERT(y->written && !y->pinned);
    return st;
}

static enum status send_whole(struct dr_outgoing *y)
{
    struct dr_frame begin = {
        .type = DR_SYNC_BEGIN,
        .sync_begin = {.version = y->dump.version, .keys = y->keys, .time_ms = y->dump.time_ms}};
    struct dr_frame end = {.type = DR_SYNC_END};
    TRY(dr_conn_send(y->s->conn, &begin, dr_conn_now_ms() + DR_SEND_MS));
    TRY(send_file(y));
    end.sync_end.bytes = y->bytes;
    end.sync_end.crc = y->crc;
    memcpy(end.sync_end.root, y->root, sizeof y->root);
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
    TRY(send_whole(y));
    trace(TRACE_INFO, "dr", "secondary %s at %s got version %" PRIu64 ": %" PRIu64 " bytes",
          y->s->peer.name.id, dr_conn_address(y->s->conn), y->dump.version, y->bytes);
    return await_end(y);
}

enum status dr_session_sync(struct dr_session *s)
{
    struct dr_outgoing y;
    TRY(dr_outgoing_init(&y, s));
    enum status st = dr_outgoing_pin(&y);
    if (st == ST_OK) {
        trace(TRACE_INFO, "dr", "secondary %s at %s syncs to version %" PRIu64 ": %" PRIu64 " keys",
              s->peer.name.id, dr_conn_address(s->conn), y.dump.version, y.keys);
        st = dr_outgoing_send(&y);
    }
    dr_outgoing_done(&y);
    return st;
}
