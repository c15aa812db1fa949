/* A receiver behind a TCP, UDP or unix socket.
 *
 * Failure modes
 *   refused            stated at once; the next attempt comes after a pause that grows to 5 s
 *   closed             noticed before a write where possible; connected anew once within the write,
 *                      beginning with a whole line
 *   does not read      ST_TIMEOUT; the connection stays, and the line goes on where it stopped once
 *                      the peer reads again
 *   silent or lost     the kernel gives the connection up (sink_peer_lost_ms); the next attempt
 *                      comes after a pause of that length, which doubles up to 15 minutes: each
 *                      connection takes some bytes before requests wait for it again
 *   datagram too large ST_TOO_BIG for its record alone, logged once */
#include "audit/sink_peer.h"
#include "base/mem.h"
#include "base/trace.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 5000, SILENT_MAX_MS = 15 * 60 * 1000 };

/* More than the buffers of a connection: a peer that took so many bytes reads. */
enum { READ_BYTES = 16 << 20 };

struct peer {
    struct sink sink;
    bool datagrams, told_too_big;
    struct sink_stream stream; /* the descriptor serves every type */
    int64_t pause_ms, next_ms; /* no attempt to connect before next_ms */
    int64_t silent_ms;         /* the pause after the last connection that was given up; 0: none */
    size_t taken;              /* bytes of decided lines since the connection began */
    struct reason refused;     /* why the last attempt failed */
};

static struct peer *peer_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct peer, sink);
}

static void peer_drop(struct sink *sink)
{
    struct peer *p = peer_of(sink);
    if (p->stream.fd >= 0)
        (void)close(p->stream.fd); /* every send was checked */
    p->stream.fd = -1;
    p->stream.partial = 0; /* the next connection begins with a whole line */
}

static enum status peer_connect(struct peer *p, struct reason *why)
{
    const struct audit_options *o = p->sink.options;
    int fd = -1;
    enum status st = sink_peer_connect(&p->sink, o->socket_type, o->address, &fd, why);
    ASSERT(p->stream.fd < 0 && p->stream.partial == 0);
    ASSERT((st == ST_OK) == (fd >= 0));
    if (st == ST_IO) {
        p->pause_ms = MIN(MAX(2 * p->pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS);
        p->next_ms = sink_now_ms() + p->pause_ms;
        p->refused = *why;
    }
    TRY(st);
    p->stream.fd = fd;
    p->pause_ms = 0;
    p->taken = 0;
    return ST_OK;
}

/* The connection has ended for that reason. */
static void peer_ended(struct peer *p, int err)
{
    peer_drop(&p->sink);
    ASSERT(p->pause_ms == 0);
    if (err != ETIMEDOUT)
        return;
    int64_t lost_ms = sink_peer_lost_ms(&p->sink);
    p->silent_ms = MIN(MAX(2 * p->silent_ms, lost_ms), (int64_t)SILENT_MAX_MS);
    p->pause_ms = p->silent_ms;
    p->next_ms = sink_now_ms() + p->pause_ms;
    reason_set(&p->refused,
               "%s: the receiver took no byte for %lld ms; connecting again %lld ms later",
               p->sink.options->address, (long long)lost_ms, (long long)p->pause_ms);
}

static enum status peer_ready(struct sink *sink, struct reason *why)
{
    struct peer *p = peer_of(sink);
    int err = 0;
    if (p->stream.fd >= 0 && !p->datagrams && sink_peer_gone(p->stream.fd, &err))
        peer_ended(p, err);
    if (p->stream.fd >= 0)
        return ST_OK;
    if (p->pause_ms != 0 && sink_now_ms() < p->next_ms) {
        *why = p->refused;
        return ST_IO;
    }
    return peer_connect(p, why);
}

/* An error that came back for datagrams sent before; a local receiver's comes at once. */
static int pending_error(int fd)
{
    int err = 0;
    socklen_t len = sizeof err;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 ? err : 0;
}

static void tell_too_big(struct peer *p, const struct sink_batch *batch)
{
    for (size_t i = 0; i < batch->done && !p->told_too_big; i++)
        if (batch->st[i] == ST_TOO_BIG) {
            trace(TRACE_ERROR, "audit", "%s: a record is larger than a datagram",
                  p->sink.options->address);
            p->told_too_big = true;
        }
}

static enum status write_once(struct peer *p, struct sink_batch *batch, int *ret_errno)
{
    ASSERT(p->stream.fd >= 0);
    if (!p->datagrams)
        return sink_stream_write(&p->sink, &p->stream, batch, batch->n, ret_errno);
    struct sink_datagrams to = {.fd = p->stream.fd};
    size_t before = batch->done;
    enum status st = sink_peer_send(&p->sink, &to, batch, ret_errno);
    tell_too_big(p, batch);
    if (st == ST_OK && (*ret_errno = pending_error(p->stream.fd)) != 0) {
        batch->done = before; /* nothing says which of the datagrams were lost */
        st = ST_IO;
    }
    return st;
}

static enum status peer_write(struct sink *sink, struct sink_batch *batch, struct reason *why)
{
    struct peer *p = peer_of(sink);
    size_t before = sink_start(batch, batch->done);
    int err = 0;
    enum status st = write_once(p, batch, &err);
    bool again = st == ST_IO && sink->options->socket_type != AUDIT_UDP && err != ETIMEDOUT;
    ASSERT(p->stream.fd >= 0);
    if (st == ST_IO)
        peer_ended(p, err);
    if (again) { /* the receiver may have been started anew */
        TRY(peer_connect(p, why));
        st = write_once(p, batch, &err);
        if (st == ST_IO)
            peer_drop(sink);
    }
    p->taken += sink_start(batch, batch->done) - before;
    if (p->taken >= READ_BYTES)
        p->silent_ms = 0;
    if (st == ST_TIMEOUT)
        reason_set(why, "%s: the receiver took no byte for %lld ms", sink->options->address,
                   (long long)sink->options->write_timeout_ms);
    if (st == ST_IO)
        reason_set(why, "%s: %s", sink->options->address, strerror(err));
    return st;
}

static void peer_free(struct sink *sink)
{
    peer_drop(sink);
    mem_free(peer_of(sink));
}

enum status sink_socket_new(const struct audit_options *options, struct sink **ret_sink)
{
    static const struct sink_ops ops = {peer_ready, peer_write, peer_ready, peer_drop, peer_free};
    struct peer *p = mem_zalloc(sizeof *p);
    if (p == NULL)
        return ST_NOMEM;
    ASSERT(options->address != NULL);
    p->sink = (struct sink){.ops = &ops, .options = options};
    p->datagrams = options->socket_type == AUDIT_UDP || options->socket_type == AUDIT_UNIXGRAM;
    p->stream = (struct sink_stream){.fd = -1, .socket = true};
    *ret_sink = &p->sink;
    return ST_OK;
}
