#include "http/wire.h"
#include "base/mem.h"
#include "crypto/tls.h"
#include "loop/loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
    IOV_BATCH = 48,
    TLS_BATCH = 64 * 1024, /* most plaintext encrypted at once */
    SPARE_MAX = 2 * TLS_BATCH,
    CLEAR_BATCH = 1 << 30,
    KEEPALIVE_S = 60,
};

static struct http_wire *wire_of(void *handle)
{
    return ((uv_handle_t *)handle)->data;
}

static void wire_ended(struct http_wire *w, enum status st)
{
    if (w->ended || w->closing)
        return;
    w->ended = true;
    w->ops->ended(w, st);
}

/* Fail the wire, because output failed: nothing is read or written any more, even if the peer had
 * ended its side before. */
static void wire_broken(struct http_wire *w)
{
    if (w->broken || w->closing)
        return;
    w->broken = w->ended = true;
    w->ops->ended(w, ST_IO);
}

/* Output */

void http_piece_frame(struct http_piece *piece, struct bytes body, bool chunked,
                      void (*sent)(struct http_out *out, enum status st))
{
    ASSERT(body.len != 0);
    piece->out = (struct http_out){.sent = sent, .parts = {[1] = body}};
    if (!chunked)
        return;
    /* the line has at most 18 bytes */
    int len = snprintf(piece->line, sizeof piece->line, "%zx\r\n", body.len);
    piece->out.parts[0] = bytes_of(piece->line, (size_t)len);
    piece->out.parts[2] = BYTES("\r\n");
}

static size_t out_len(const struct http_out *out)
{
    size_t len = 0;
    for (size_t i = 0; i < WIRE_PARTS; i++)
        len += out->parts[i].len;
    return len;
}

static struct http_out *out_first(const struct http_wire *w)
{
    return list_empty(&w->out) ? NULL : CONTAINER_OF(w->out.next, struct http_out, link);
}

/* `n` bytes of the queue were given to the socket: complete the outputs they cover. */
static void out_consume(struct http_wire *w, size_t n)
{
    w->bytes_out += n;
    for (struct http_out *out; !w->closing && (out = out_first(w)) != NULL;) {
        size_t left = out_len(out) - w->out_off;
        if (n < left) {
            w->out_off += n;
            return;
        }
        n -= left;
        w->out_off = 0;
        list_remove(&out->link);
        out->sent(out, ST_OK);
    }
}

/* Collect the first bytes of the queue, at most `max`, in up to IOV_BATCH parts. */
static unsigned out_gather(const struct http_wire *w, struct bytes *parts, size_t max)
{
    unsigned n = 0;
    size_t skip = w->out_off;
    LIST_FOR (item, &w->out) {
        const struct http_out *out = CONTAINER_OF(item, struct http_out, link);
        for (size_t i = 0; i < WIRE_PARTS; i++) {
            struct bytes part = out->parts[i];
            size_t gone = MIN(skip, part.len);
            skip -= gone;
            part = bytes_from(part, gone);
            part.len = MIN(part.len, max);
            if (part.len == 0)
                continue;
            parts[n++] = part;
            max -= part.len;
            if (n == IOV_BATCH || max == 0)
                return n;
        }
    }
    return n;
}

static void wire_on_wrote(uv_write_t *write, int err);

/* Write parts now, as many as the socket takes, and the rest later. *ret_n: the bytes that the
 * socket took at once. */
static enum status wire_write(struct http_wire *w, const struct bytes *parts, unsigned n_parts,
                              size_t *ret_n)
{
    uv_buf_t bufs[IOV_BATCH];
    size_t total = 0;
    ASSERT(n_parts <= IOV_BATCH && !w->writing);
    for (unsigned i = 0; i < n_parts; i++) {
        bufs[i] = uv_buf_init((char *)(uintptr_t)parts[i].data, (unsigned)parts[i].len);
        total += parts[i].len;
    }
    int wrote = uv_try_write((uv_stream_t *)&w->tcp, bufs, n_parts);
    if (wrote < 0 && wrote != UV_EAGAIN)
        return ST_IO;
    size_t gone = wrote > 0 ? (size_t)wrote : 0;
    *ret_n = gone;
    w->bytes_wrote += gone;
    if (gone == total)
        return ST_OK;

    unsigned first = 0;
    for (; gone >= bufs[first].len; first++)
        gone -= bufs[first].len;
    bufs[first] = uv_buf_init(bufs[first].base + gone, (unsigned)(bufs[first].len - gone));
    w->submitted = total - *ret_n;
    int err =
        uv_write(&w->write, (uv_stream_t *)&w->tcp, bufs + first, n_parts - first, wire_on_wrote);
    if (err != 0)
        return ST_IO;
    w->writing = true;
    w->bytes_wrote += w->submitted;
    return ST_OK;
}

/* Write one batch of plaintext. False: nothing to write, or the batch has to wait. */
static bool flush_plain(struct http_wire *w)
{
    struct bytes parts[IOV_BATCH];
    size_t gone = 0;
    if (list_empty(&w->out))
        return false;
    unsigned n = out_gather(w, parts, CLEAR_BATCH);
    enum status st = n != 0 ? wire_write(w, parts, n, &gone) : ST_OK;
    out_consume(w, gone);
    if (st != ST_OK)
        wire_broken(w);
    return st == ST_OK && !w->writing;
}

/* The encrypted output was written: give its memory back for the next output of any wire. */
static void cipher_done(struct http_wire *w)
{
    struct buf *spare = &w->scratch->spare;
    if (w->cipher.cap > SPARE_MAX || w->cipher.cap <= spare->cap) {
        buf_drop(&w->cipher);
        return;
    }
    buf_drop(spare);
    *spare = w->cipher;
    buf_clear(spare);
    w->cipher = (struct buf){0};
}

/* Encrypt a batch into `cipher`; messages of TLS itself come first. */
static enum status encrypt_batch(struct http_wire *w)
{
    struct bytes parts[IOV_BATCH];
    if (tls_out_len(w->tls) == 0 && w->secured && !list_empty(&w->out)) {
        size_t total = 0;
        unsigned n = out_gather(w, parts, TLS_BATCH);
        for (unsigned i = 0; i < n; i++)
            total += parts[i].len;
        tls_lend_out(w->tls, &w->scratch->spare);
        enum status st = n != 0 ? tls_write(w->tls, parts, n) : ST_OK;
        if (st == ST_BUSY)
            return ST_OK;
        TRY(st);
        out_consume(w, total);
    }
    tls_take_out(w->tls, &w->cipher);
    w->cipher_off = 0;
    return ST_OK;
}

static bool flush_tls(struct http_wire *w)
{
    size_t gone = 0;
    enum status st = w->cipher.len == 0 ? encrypt_batch(w) : ST_OK;
    if (w->cipher.len == 0)
        cipher_done(w);
    if (w->closing || (st == ST_OK && w->cipher.len == 0))
        return false;
    if (st == ST_OK) {
        struct bytes left = bytes_from(buf_bytes(&w->cipher), w->cipher_off);
        st = wire_write(w, &left, 1, &gone);
    }
    if (st != ST_OK) {
        wire_broken(w);
        return false;
    }
    if (w->writing)
        return false;
    cipher_done(w);
    return true;
}

static void wire_on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown, (void)status; /* the peer's end, or the owner's timer, closes the wire */
}

/* All output is written: end our side. */
static void wire_end_side(struct http_wire *w)
{
    if (w->finished || w->closing)
        return;
    w->finished = true;
    if (w->tls != NULL && w->secured) {
        tls_close_notify(w->tls);
        (void)flush_tls(w); /* a later write sends the rest */
    }
    if (!w->closing && uv_shutdown(&w->shutdown, (uv_stream_t *)&w->tcp, wire_on_shutdown) != 0)
        wire_broken(w);
}

void http_wire_flush(struct http_wire *wire)
{
    if (wire->flushing || wire->closing || wire->writing || wire->broken)
        return;
    wire->flushing = true;
    bool more = true;
    while (more && !wire->closing && !wire->writing && !wire->broken)
        more = wire->tls != NULL ? flush_tls(wire) : flush_plain(wire);
    wire->flushing = false;
    if (wire->finishing && !wire->broken && !http_wire_pending(wire))
        wire_end_side(wire);
}

static void wire_pump(struct http_wire *w);

static void wire_on_wrote(uv_write_t *write, int err)
{
    struct http_wire *w = CONTAINER_OF(write, struct http_wire, write);
    w->writing = false;
    if (w->closing)
        return;
    if (err != 0) {
        wire_broken(w);
        return;
    }
    if (w->tls != NULL)
        cipher_done(w);
    else
        out_consume(w, w->submitted);
    http_wire_flush(w);
    if (w->closing || http_wire_pending(w))
        return;
    w->ops->drained(w);
    if (!w->closing && w->tls != NULL)
        wire_pump(w); /* the pump may have waited for room in the output */
}

void http_wire_send(struct http_wire *wire, struct http_out *out)
{
    ASSERT(out->sent != NULL && !wire->finishing);
    list_push(&wire->out, &out->link);
}

bool http_wire_pending(const struct http_wire *wire)
{
    return wire->writing || !list_empty(&wire->out) || wire->cipher.len != 0 ||
           (wire->tls != NULL && tls_out_len(wire->tls) != 0);
}

uint64_t http_wire_progress(const struct http_wire *wire)
{
    return wire->bytes_wrote - uv_stream_get_write_queue_size((const uv_stream_t *)&wire->tcp);
}

void http_wire_rest(struct http_wire *wire)
{
    wire->rests = wire->pumping; /* the input that is being read needs the memory still */
    if (wire->tls != NULL && !wire->pumping)
        (void)tls_rest(wire->tls); /* a half-read record keeps its place */
}

void http_wire_finish(struct http_wire *wire)
{
    if (wire->finishing || wire->closing)
        return;
    wire->finishing = true;
    http_wire_flush(wire);
}

/* Input */

void http_scratch_init(struct http_scratch *scratch)
{
    list_init(&scratch->waiting);
    scratch->spare = (struct buf){0};
    scratch->busy = false;
}

void http_scratch_done(struct http_scratch *scratch)
{
    ASSERT(list_empty(&scratch->waiting) && !scratch->busy);
    buf_drop(&scratch->spare);
}

static struct http_room wire_room(struct http_wire *w)
{
    struct http_room room = w->ops->room(w);
    bool own = room.data != NULL;
    ASSERT(!w->scratch->busy);
    return own ? room : (struct http_room){w->scratch->plain, sizeof w->scratch->plain};
}

static void wire_data(struct http_wire *w, uint8_t *data, size_t n)
{
    bool scratch = data == w->scratch->plain;
    w->bytes_in += n;
    w->scratch->busy = scratch;
    w->ops->data(w, bytes_of(data, n));
    if (!scratch)
        return;
    mem_wipe(data, n);
    w->scratch->busy = false;
    for (struct list *item; (item = list_pop(&w->scratch->waiting)) != NULL;)
        wire_pump(CONTAINER_OF(item, struct http_wire, waiting));
}

static void wire_secured(struct http_wire *w)
{
    if (w->secured || w->tls == NULL || tls_conn_phase(w->tls) == TLS_HANDSHAKE)
        return;
    w->secured = tls_conn_phase(w->tls) != TLS_FAILED;
    if (w->secured)
        w->ops->secured(w);
}

/* Give the owner what TLS has decrypted, as long as the owner wants it. */
static void wire_pump(struct http_wire *w)
{
    if (w->pumping || w->closing)
        return;
    if (w->scratch->busy) {
        list_remove(&w->waiting);
        list_push(&w->scratch->waiting, &w->waiting);
        return;
    }
    w->pumping = true;
    while (w->want_read && !w->closing && !w->ended) {
        size_t n = 0;
        struct http_room room = wire_room(w);
        enum status st = tls_read(w->tls, room.data, room.len, &n);
        wire_secured(w);
        if (tls_out_len(w->tls) != 0)
            http_wire_flush(w);
        bool blocked = st == ST_BUSY && http_wire_pending(w);
        if (w->closing || (st == ST_OK && n == 0) || blocked)
            break;
        if (st == ST_BUSY)
            continue;
        if (st == ST_OK)
            wire_data(w, room.data, n);
        else
            wire_ended(w, st);
    }
    w->pumping = false;
}

/* Give libuv memory for the next read, or none. libuv reads from one socket up to 32 times, as long
 * as each read fills its buffer. No memory ends these reads; libuv reports the remaining bytes
 * again in the next turn. */
static void wire_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct http_wire *w = wire_of(handle);
    (void)suggested; /* our own buffer is as large as the suggestion */
    if (w->turn_bytes >= WIRE_TURN_BYTES) {
        *ret_buf = uv_buf_init(NULL, 0);
        return;
    }
    if (w->proxy != NULL) {
        struct proxy *p = w->proxy;
        *ret_buf = uv_buf_init((char *)p->bytes + p->len, (unsigned)proxy_want(p));
        return;
    }
    if (w->tls != NULL || w->discard) {
        *ret_buf = uv_buf_init((char *)w->scratch->cipher, sizeof w->scratch->cipher);
        return;
    }
    struct http_room room = wire_room(w);
    *ret_buf = uv_buf_init((char *)room.data, (unsigned)MIN(room.len, INT32_MAX));
}

/* A client that sends "GET " instead of a TLS handshake gets a reply in plain text, which it can
 * read. */
static bool looks_clear(struct http_wire *w, struct bytes in)
{
    bool first = !w->seen;
    w->seen = true;
    return first && w->server && !w->secured && in.data[0] >= 'A' && in.data[0] <= 'Z';
}

static void wire_on_cipher(struct http_wire *w, struct bytes cipher)
{
    if (looks_clear(w, cipher)) {
        tls_conn_free(w->tls);
        w->tls = NULL;
        w->ops->not_tls(w);
        return;
    }
    enum status st = tls_lend(w->tls, cipher);
    if (st == ST_OK) {
        wire_pump(w);
        /* copy an incomplete record: the next wire reads into the same memory */
        st = tls_keep(w->tls);
    }
    if (w->rests && !w->closing)
        http_wire_rest(w);
    if (st != ST_OK)
        wire_ended(w, st);
}

/* Pass on the bytes after the proxy's header: the client sent them. */
static void wire_on_proxy(struct http_wire *w, size_t n)
{
    struct proxy *p = w->proxy;
    enum proxy_result result = proxy_feed(p, n);
    if (result == PROXY_MORE)
        return;
    w->proxy = NULL;
    w->ops->preamble(w, p, result);
    struct bytes own = bytes_of(p->bytes, p->len);
    if (!w->closing && result == PROXY_ABSENT && w->tls != NULL) {
        wire_on_cipher(w, own);
    } else if (!w->closing && result == PROXY_ABSENT) {
        w->bytes_in += own.len;
        w->ops->data(w, own);
    }
    mem_wipe(p->bytes, p->len);
    mem_free(p);
}

static void wire_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_wire *w = wire_of(stream);
    bool full = n > 0 && (size_t)n == buf->len;
    w->turn_bytes = full ? w->turn_bytes + (size_t)n : 0; /* a short read ends the turn */
    if (n == UV_ENOBUFS)
        return;
    if (n == 0 || w->closing || (n > 0 && w->discard))
        return;
    if (n > 0 && w->proxy != NULL) {
        wire_on_proxy(w, (size_t)n);
    } else if (n > 0 && w->tls != NULL) {
        wire_on_cipher(w, bytes_of(buf->base, (size_t)n));
    } else if (n > 0) {
        wire_data(w, (uint8_t *)buf->base, (size_t)n);
    } else {
        (void)uv_read_stop(stream); /* cannot fail */
        w->reading = false;
        w->eof = true;
        bool through_tls = n == UV_EOF && w->tls != NULL && !w->discard;
        if (through_tls) {
            tls_feed_end(w->tls);
            wire_pump(w);
        } else {
            wire_ended(w, n == UV_EOF ? ST_CLOSED : ST_IO);
        }
    }
}

void http_wire_read(struct http_wire *wire, bool on)
{
    /* otherwise everything decrypted was already given to the owner */
    bool resumed = on && !wire->want_read;
    wire->want_read = on;
    if (wire->closing || wire->ended)
        return;
    if (on != wire->reading && !wire->eof) {
        if (on && uv_read_start((uv_stream_t *)&wire->tcp, wire_on_alloc, wire_on_read) != 0) {
            wire_ended(wire, ST_IO);
            return;
        }
        if (!on)
            (void)uv_read_stop((uv_stream_t *)&wire->tcp); /* cannot fail */
        wire->reading = on;
    }
    if (resumed && wire->tls != NULL)
        wire_pump(wire);
}

/* Opening and closing a wire */

enum status http_wire_init(struct http_wire *wire, uv_loop_t *loop, const struct http_wire_ops *ops,
                           struct http_scratch *scratch, bool server)
{
    *wire = (struct http_wire){.ops = ops, .scratch = scratch, .server = server};
    list_init(&wire->out);
    list_init(&wire->waiting);
    TRY(loop_status(uv_tcp_init(loop, &wire->tcp)));
    wire->tcp.data = wire;
    return ST_OK;
}

enum status http_wire_await_proxy(struct http_wire *wire)
{
    ASSERT(wire->proxy == NULL && !wire->reading && !wire->closing);
    wire->proxy = mem_zalloc(sizeof *wire->proxy);
    return wire->proxy != NULL ? ST_OK : ST_NOMEM;
}

/* Turn on keepalive, unless it is on: connections that the cluster port hands over have shorter
 * times, by which a node that is gone is noticed within 10 s. */
static void wire_keep_alive(struct http_wire *wire)
{
    int on = 0;
    socklen_t size = sizeof on;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&wire->tcp, &fd) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on != 0)
        return;
    /* keepalive only helps; the wire works without it */
    (void)uv_tcp_keepalive(&wire->tcp, 1, KEEPALIVE_S);
}

static void wire_limit_unsent(struct http_wire *wire)
{
    int fd = -1, bytes = WIRE_UNSENT_BYTES;
    /* without the limit the kernel's own bounds hold */
    if (uv_fileno((const uv_handle_t *)&wire->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

enum status http_wire_start(struct http_wire *wire, struct tls_conn *tls, bool secured)
{
    ASSERT(wire->tls == NULL && !wire->closing);
    wire->tls = tls;
    wire->secured = tls == NULL || secured;
    TRY(loop_status(uv_tcp_nodelay(&wire->tcp, 1)));
    wire_keep_alive(wire);
    if (wire->server)
        wire_limit_unsent(wire);
    if (tls != NULL)
        http_wire_flush(wire); /* the client side of TLS speaks first */
    http_wire_read(wire, true);
    return ST_OK;
}

static void wire_on_closed(uv_handle_t *handle)
{
    struct http_wire *w = wire_of(handle);
    for (struct list *item; (item = list_pop(&w->out)) != NULL;) {
        struct http_out *out = CONTAINER_OF(item, struct http_out, link);
        out->sent(out, ST_CLOSED);
    }
    list_remove(&w->waiting);
    tls_conn_free(w->tls);
    w->tls = NULL;
    mem_free(w->proxy);
    w->proxy = NULL;
    buf_drop(&w->cipher);
    w->ops->closed(w);
}

void http_wire_close(struct http_wire *wire)
{
    if (wire->closing)
        return;
    wire->closing = true;
    uv_close((uv_handle_t *)&wire->tcp, wire_on_closed);
}

void http_wire_reset(struct http_wire *wire)
{
    if (wire->closing)
        return;
    wire->closing = true;
    /* the reset fails if our side has already ended */
    if (uv_tcp_close_reset(&wire->tcp, wire_on_closed) != 0)
        uv_close((uv_handle_t *)&wire->tcp, wire_on_closed);
}
