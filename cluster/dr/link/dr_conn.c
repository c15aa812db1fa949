/* Sending and receiving frames over TLS on a socket that does not block: every wait is a poll with
 * a deadline that an eventfd can end.
 *
 * socket ─read_socket─▶ TLS ─read_plain─▶ in.payload ─dr_conn_receive─▶ given
 * socket ◀─write_some─ out ◀─ TLS ◀─send_slice─ dr_conn_send */
#include "base/mem.h"
#include "cluster/dr/link/dr_conn_internal.h"
#include "cluster/dr/link/dr_run.h"
#include "cluster/mesh/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* most reads of the socket without a look at the deadline: a peer may send records without
     * content */
    READS_MAX = 64,
    /* Values are encrypted, so compression may save next to nothing. After a piece of which it saved
     * less than one byte in WORTH, N_PLAIN pieces go as they are. */
    WORTH = 16,
    N_PLAIN = 15,
};

enum status dr_conn_note(struct dr_conn *conn, enum status st, const char *why)
{
    ASSERT(st != ST_OK);
    if (conn->error.text[0] == '\0')
        reason_set(&conn->error, "%s", why);
    return st;
}

enum status dr_conn_new(enum dr_side side, unsigned frame_ms, struct dr_conn **ret_conn)
{
    struct dr_conn *conn = mem_zalloc(sizeof *conn);
    if (conn == NULL)
        return ST_NOMEM;
    conn->side = side;
    conn->frame_ms = frame_ms != 0 ? frame_ms : DR_CONN_FRAME_MS;
    conn->fd = -1;
    conn->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->wake_fd < 0) {
        mem_free(conn);
        return ST_IO;
    }
    *ret_conn = conn;
    return ST_OK;
}

/* Close, and release the memory of the connection; the reason of a failure stays. */
static void let_go(struct dr_conn *conn)
{
    if (conn->fd >= 0)
        (void)close(conn->fd); /* the kernel still sends its data; other data is lost anyway */
    tls_conn_free(conn->tls);
    buf_done(&conn->early);
    buf_drop(&conn->out); /* ciphertext needs no wiping */
    buf_done(&conn->in.payload);
    buf_done(&conn->given);
    buf_done(&conn->head);
    conn->fd = -1;
    conn->tls = NULL;
    conn->early_at = conn->out_at = 0;
    conn->in = (struct dr_incoming){0};
    conn->in_status = conn->out_status = ST_OK;
}

void dr_conn_free(struct dr_conn *conn)
{
    if (conn == NULL)
        return;
    dr_conn_close(conn);
    (void)close(conn->wake_fd); /* closing an eventfd loses nothing */
    if (conn->room != NULL)
        mem_wipe(conn->room, DR_RAW_MAX);
    mem_free(conn->room);
    mem_free(conn);
}

static void wake(struct dr_conn *conn)
{
    const uint64_t one = 1;
    ssize_t n = write(conn->wake_fd, &one, sizeof one);
    ASSERT(n == (ssize_t)sizeof one || errno == EAGAIN); /* EAGAIN: it is readable anyway */
}

void dr_conn_wake(struct dr_conn *conn)
{
    wake(conn);
}

void dr_conn_cancel(struct dr_conn *conn)
{
    atomic_store(&conn->cancelled, true);
    wake(conn);
}

const char *dr_conn_error(const struct dr_conn *conn)
{
    return conn->error.text;
}

const char *dr_conn_address(const struct dr_conn *conn)
{
    return conn->address;
}

enum status dr_conn_peer(const struct dr_conn *conn, struct dr_cert_peer *ret_peer)
{
    ASSERT(conn->fd >= 0);
    return dr_cert_read_peer(conn->tls, ret_peer);
}

void dr_conn_stats(const struct dr_conn *conn, struct dr_conn_stats *ret_stats)
{
    *ret_stats = conn->stats;
}

/* Receiving */

/* Give TLS what the socket has. ST_NOT_FOUND: nothing now. The end of the socket is TLS's to judge.
 */
static enum status read_socket(struct dr_conn *conn)
{
    ssize_t n;
    TRY(tls_keep(conn->tls)); /* TLS has read everything: nothing is copied as a rule */
    do
        n = recv(conn->fd, conn->cipher, sizeof conn->cipher, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return ST_NOT_FOUND;
    if (n <= 0) {
        tls_feed_end(conn->tls);
        return ST_OK;
    }
    conn->stats.wire_received += (uint64_t)n;
    return tls_lend(conn->tls, bytes_of(conn->cipher, (size_t)n));
}

static enum status read_plain(struct dr_conn *conn, uint8_t *to, size_t room, size_t *ret_n)
{
    struct bytes early = bytes_from(buf_bytes(&conn->early), conn->early_at);
    if (early.len == 0)
        return tls_read(conn->tls, to, room, ret_n);
    *ret_n = MIN(early.len, room);
    memcpy(to, early.data, *ret_n);
    conn->early_at += *ret_n;
    return ST_OK;
}

/* Note why reading ended. */
static enum status read_failed(struct dr_conn *conn, enum status st)
{
    const char *why = st == ST_CRYPTO  ? tls_error(conn->tls)
                      : st == ST_NOMEM ? "out of memory"
                      : st == ST_IO    ? "the connection was cut"
                                       : "the peer closed the connection";
    if (st == ST_CLOSED && conn->in.got != 0) {
        st = ST_IO;
        why = "the peer closed within a frame";
    }
    conn->in_status = st;
    return dr_conn_note(conn, st, why);
}

/* Check the header that came, and make room for its payload. */
static enum status begin_payload(struct dr_conn *conn)
{
    struct dr_incoming *in = &conn->in;
    enum dr_side peer = conn->side == DR_PRIMARY ? DR_SECONDARY : DR_PRIMARY;
    ASSERT(in->got == DR_HEADER_BYTES && in->payload.len == 0);
    enum status st = dr_frame_header(in->header, peer, &in->type, &in->bytes);
    if (st == ST_OK && buf_extend(&in->payload, in->bytes) == NULL)
        st = ST_NOMEM;
    if (st == ST_OK)
        return ST_OK;
    conn->in_status = st;
    return dr_conn_note(conn, st,
                        st == ST_NOMEM     ? "out of memory"
                        : st == ST_TOO_BIG ? "the peer sent a frame that is too long"
                                           : "the peer sent what is no frame");
}

/* The next place and the number of bytes that belong there. */
static uint8_t *next_place(struct dr_incoming *in, size_t *ret_room)
{
    if (in->got < DR_HEADER_BYTES) {
        *ret_room = DR_HEADER_BYTES - in->got;
        return in->header + in->got;
    }
    size_t at = in->got - DR_HEADER_BYTES;
    ASSERT(at < in->bytes && in->payload.len == in->bytes);
    *ret_room = in->bytes - at;
    return in->payload.data + at;
}

/* Take what the peer sent until one frame is whole, without waiting. ST_OK: it is. ST_NOT_FOUND:
 * more must come. Else the direction has failed. */
static enum status assemble(struct dr_conn *conn)
{
    struct dr_incoming *in = &conn->in;
    unsigned reads = 0;
    while (!in->whole) {
        size_t room, n = 0;
        TRY(conn->in_status);
        uint8_t *to = next_place(in, &room);
        enum status st = read_plain(conn, to, room, &n);
        if (st == ST_BUSY || (st == ST_OK && n == 0 && ++reads > READS_MAX))
            return ST_NOT_FOUND; /* output must leave first; or look at the deadline */
        if (st == ST_OK && n == 0)
            st = read_socket(conn);
        if (st == ST_NOT_FOUND)
            return st;
        if (st != ST_OK)
            return read_failed(conn, st);
        ASSERT(n <= room);
        in->got += n;
        if (n != 0 && in->got == DR_HEADER_BYTES)
            TRY(begin_payload(conn));
        in->whole = in->got >= DR_HEADER_BYTES && in->got == DR_HEADER_BYTES + in->bytes;
    }
    return ST_OK;
}

/* Writing */

/* Write ciphertext until none is left. ST_NOT_FOUND: the socket is full. ST_IO. */
static enum status write_some(struct dr_conn *conn)
{
    for (;;) {
        ASSERT(conn->out_at <= conn->out.len);
        if (conn->out_at == conn->out.len) {
            buf_clear(&conn->out);
            conn->out_at = 0;
            if (tls_out_len(conn->tls) == 0) {
                tls_lend_out(conn->tls, &conn->out); /* the memory serves again */
                return ST_OK;
            }
            buf_drop(&conn->out);
            tls_take_out(conn->tls, &conn->out);
        }
        ssize_t n = send(conn->fd, conn->out.data + conn->out_at, conn->out.len - conn->out_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            conn->out_at += (size_t)n;
            conn->stats.wire_sent += (uint64_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return ST_NOT_FOUND;
        } else if (errno != EINTR) {
            return ST_IO;
        }
    }
}

/* The events to wait for. Input waits while a whole frame does, or while too much output does. */
static short events_of(const struct dr_conn *conn, bool writes)
{
    bool reads =
        !conn->in.whole && conn->in_status == ST_OK && tls_out_len(conn->tls) < TLS_OUTPUT_MAX;
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

/* Wait for the socket. A frame that began has its own limit. */
static enum status wait_for(struct dr_conn *conn, bool writes, int64_t until_ms)
{
    struct dr_incoming *in = &conn->in;
    bool begun = in->got != 0 && !in->whole;
    int64_t began_ms = dr_conn_now_ms();
    int64_t limit_ms = began_ms + conn->frame_ms - in->waited_ms;
    enum status st =
        dr_socket_wait(conn, events_of(conn, writes), begun ? MIN(until_ms, limit_ms) : until_ms);
    if (!begun)
        return st;
    int64_t now_ms = dr_conn_now_ms();
    ASSERT(now_ms >= began_ms);
    in->waited_ms += now_ms - began_ms;
    if (st == ST_TIMEOUT && in->waited_ms >= conn->frame_ms) {
        conn->in_status = ST_IO;
        return dr_conn_note(conn, ST_IO, "the peer stopped within a frame");
    }
    return st;
}

/* A write failed. If the peer is gone, what it sent before may say why. */
static enum status write_failed(struct dr_conn *conn, enum status st)
{
    ASSERT(st != ST_OK && st != ST_NOT_FOUND);
    if (st == ST_IO && conn->in_status == ST_OK && assemble(conn) != ST_OK &&
        conn->in_status != ST_OK)
        st = conn->in_status;
    /* A receive that returned ST_TIMEOUT would promise that the connection is fine. */
    conn->out_status = st == ST_TIMEOUT ? ST_IO : st;
    return dr_conn_note(conn, st,
                        st == ST_TIMEOUT ? "the peer does not read" : "the connection was cut");
}

/* Write all ciphertext, and take what comes meanwhile. */
static enum status write_out_all(struct dr_conn *conn, int64_t until_ms)
{
    for (;;) {
        enum status st = write_some(conn);
        if (st == ST_OK)
            return ST_OK;
        if (st == ST_NOT_FOUND)
            st = wait_for(conn, true, until_ms);
        if (st == ST_OK && !conn->in.whole)
            (void)assemble(conn); /* in_status has its failure */
        if (st == ST_OK && conn->in_status != ST_OK)
            st = conn->in_status;
        if (st != ST_OK)
            return write_failed(conn, st);
    }
}

/* Opening and closing */

static enum status shake_hands(struct dr_conn *conn, int64_t until_ms)
{
    for (;;) {
        enum status st = assemble(conn);
        enum status sent = write_some(conn);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        if (sent == ST_OK && tls_conn_phase(conn->tls) != TLS_HANDSHAKE)
            break;
        st = sent == ST_IO ? write_failed(conn, ST_IO)
                           : wait_for(conn, sent == ST_NOT_FOUND, until_ms);
        if (st == ST_TIMEOUT)
            st = dr_conn_note(conn, st, "the TLS handshake timed out");
        TRY(st);
    }
    return strcmp(tls_alpn(conn->tls), DR_ALPN) == 0
               ? ST_OK
               : dr_conn_note(conn, ST_CRYPTO, "the peer agreed on another protocol (ALPN)");
}

enum status dr_conn_dial(struct dr_conn *conn, const char *address, struct tls_ctx *tls,
                         int64_t until_ms)
{
    const struct tls_target any = {0}; /* the context judges the name */
    ASSERT(conn->fd < 0 && conn->tls == NULL);
    ASSERT(conn->side == DR_SECONDARY);
    conn->error.text[0] = '\0';
    (void)snprintf(conn->address, sizeof conn->address, "%s", address); /* only for messages */
    enum status st = dr_socket_connect(conn, address, until_ms);
    if (st == ST_OK)
        st = tls_conn_new(tls, &any, &conn->tls);
    if (st == ST_OK)
        st = shake_hands(conn, until_ms);
    if (st == ST_OK) {
        conn->error.text[0] = '\0'; /* of an address that was tried before */
        return ST_OK;
    }
    (void)dr_conn_note(conn, st, status_text(st));
    let_go(conn);
    return st;
}

void dr_conn_adopt(struct dr_conn *conn, struct mesh_http *http)
{
    ASSERT(conn->fd < 0 && conn->tls == NULL);
    ASSERT(http->fd >= 0 && tls_conn_phase(http->tls) != TLS_HANDSHAKE);
    conn->error.text[0] = '\0';
    conn->fd = http->fd;
    conn->tls = http->tls;
    conn->early = http->early;
    (void)snprintf(conn->address, sizeof conn->address, "%s", http->peer_address); /* fits */
    *http = (struct mesh_http){.fd = -1};
    /* A socket that the peer has closed again may refuse; the first read tells. */
    (void)mesh_tune_socket(conn->fd, DR_CONN_STUCK_MS);
}

void dr_conn_close(struct dr_conn *conn)
{
    if (conn->tls != NULL && conn->out_status == ST_OK) {
        tls_close_notify(conn->tls);
        (void)write_some(conn); /* nothing depends on the goodbye */
    }
    let_go(conn);
}

/* Frames */

static enum status send_slice(struct dr_conn *conn, const struct bytes *parts, unsigned n,
                              int64_t until_ms)
{
    enum status st = tls_write(conn->tls, parts, n);
    ASSERT(st != ST_BUSY); /* the output left before */
    if (st == ST_OK)
        return write_out_all(conn, until_ms);
    conn->out_status = st;
    return dr_conn_note(conn, st, "encryption failed");
}

enum status dr_conn_send(struct dr_conn *conn, const struct dr_frame *frame, int64_t until_ms)
{
    struct bytes data;
    ASSERT(conn->fd >= 0);
    ASSERT(dr_frame_side(frame->type) == conn->side);
    TRY(conn->out_status);
    if (atomic_load(&conn->cancelled))
        return dr_conn_note(conn, ST_CLOSED, "cancelled");
    buf_clear(&conn->head);
    dr_frame_encode(frame, &conn->head, &data);
    TRY(buf_status(&conn->head));
    TRY(write_out_all(conn, until_ms)); /* output of TLS itself, such as an alert */
    ASSERT(conn->head.len < DR_SLICE_BYTES);
    size_t first = MIN(data.len, DR_SLICE_BYTES - conn->head.len);
    const struct bytes parts[] = {buf_bytes(&conn->head), bytes_of(data.data, first)};
    TRY(send_slice(conn, parts, data.len != 0 ? 2 : 1, until_ms));
    for (size_t at = first; at < data.len; at += DR_SLICE_BYTES) {
        const struct bytes slice = {data.data + at, MIN(data.len - at, (size_t)DR_SLICE_BYTES)};
        TRY(send_slice(conn, &slice, 1, until_ms));
    }
    conn->stats.frames_sent++;
    conn->stats.data_sent += data.len;
    return ST_OK;
}

static enum status make_room(struct dr_conn *conn)
{
    if (conn->room == NULL)
        conn->room = mem_alloc(DR_RAW_MAX);
    return conn->room != NULL ? ST_OK : ST_NOMEM;
}

enum status dr_conn_send_run(struct dr_conn *conn, const struct dr_wal *versions,
                             struct bytes records, int64_t until_ms)
{
    struct dr_frame frame = {.type = DR_WAL,
                             .wal = {.first = versions->first, .last = versions->last}};
    ASSERT(records.len != 0);
    TRY(make_room(conn));
    for (size_t at = 0; at < records.len; at += frame.wal.block.raw_bytes) {
        dr_run_cut(records, at, conn->room, &frame.wal);
        TRY(dr_conn_send(conn, &frame, until_ms));
    }
    return ST_OK;
}

enum status dr_conn_send_data(struct dr_conn *conn, uint64_t offset, struct bytes raw,
                              int64_t until_ms)
{
    struct dr_frame frame = {.type = DR_SYNC_DATA, .sync_data = {.offset = offset}};
    TRY(make_room(conn));
    if (conn->n_plain > 0) {
        conn->n_plain--;
        dr_block_plain(raw, &frame.sync_data.block);
    } else {
        dr_block_pack(raw, conn->room, &frame.sync_data.block);
        if (raw.len - frame.sync_data.block.data.len < raw.len / WORTH)
            conn->n_plain = N_PLAIN;
    }
    return dr_conn_send(conn, &frame, until_ms);
}

enum status dr_conn_send_list(struct dr_conn *conn, enum dr_type type, struct bytes raw, bool flag,
                              int64_t until_ms)
{
    struct dr_frame frame = {.type = type, .diff_list = {.flag = flag}};
    TRY(make_room(conn));
    dr_block_pack(raw, conn->room, &frame.diff_list.block);
    return dr_conn_send(conn, &frame, until_ms);
}

/* Hand the whole frame out; its buffer changes place with the one handed out before. */
static enum status hand_out(struct dr_conn *conn, struct dr_frame *ret_frame)
{
    struct dr_incoming *in = &conn->in;
    struct buf payload = in->payload;
    ASSERT(in->whole && payload.len == in->bytes);
    enum status st = dr_frame_decode(in->type, buf_bytes(&payload), ret_frame);
    *in = (struct dr_incoming){.payload = conn->given};
    conn->given = payload;
    buf_clear(&in->payload);
    if (st != ST_OK) {
        conn->in_status = st;
        return dr_conn_note(conn, st, "the peer sent a malformed frame");
    }
    conn->stats.frames_received++;
    if (ret_frame->type == DR_WAL)
        conn->stats.data_received += ret_frame->wal.block.data.len;
    else if (ret_frame->type == DR_SYNC_DATA)
        conn->stats.data_received += ret_frame->sync_data.block.data.len;
    else if (ret_frame->type == DR_DIFF_ASK || ret_frame->type == DR_DIFF_WANT ||
             ret_frame->type == DR_DIFF_NODES)
        conn->stats.data_received += ret_frame->diff_list.block.data.len;
    return ST_OK;
}

enum status dr_conn_receive(struct dr_conn *conn, int64_t until_ms, struct dr_frame *ret_frame)
{
    ASSERT(conn->fd >= 0);
    for (;;) {
        if (atomic_load(&conn->cancelled))
            return dr_conn_note(conn, ST_CLOSED, "cancelled");
        enum status st = assemble(conn);
        if (st == ST_OK)
            return hand_out(conn, ret_frame);
        if (st != ST_NOT_FOUND)
            return st;
        TRY(conn->out_status);
        if (conn->woken) {
            conn->woken = false;
            return ST_TIMEOUT;
        }
        enum status sent = write_some(conn);
        st = sent == ST_IO ? write_failed(conn, ST_IO)
                           : wait_for(conn, sent == ST_NOT_FOUND, until_ms);
        TRY(st);
    }
}
