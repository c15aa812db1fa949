#include "audit/sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void sink_decide(struct sink_batch *batch, size_t end, enum status st)
{
    ASSERT(end <= batch->n);
    while (batch->done < end)
        batch->st[batch->done++] = st;
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t); /* cannot fail: the kernel has these clocks */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t sink_now_ms(void)
{
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

int64_t sink_wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

enum status sink_wait(const struct sink *sink, int fd, short events, int64_t until_ms)
{
    int64_t ends_ms = atomic_load(&sink->ends_ms);
    ASSERT(fd >= 0 && sink->wake_fd >= 0);
    if (ends_ms != 0)
        until_ms = MIN(until_ms, ends_ms);
    for (;;) {
        struct pollfd fds[2] = {{.fd = fd, .events = events},
                                {.fd = sink->wake_fd, .events = POLLIN}};
        int64_t left = until_ms - sink_now_ms();
        int n = poll(fds, 2, (int)MIN(MAX(left, 0), INT_MAX));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ST_IO;
        if (fds[0].revents != 0)
            return ST_OK;
        if (fds[1].revents != 0)
            return ST_BUSY;
        if (left <= 0)
            return ST_TIMEOUT;
    }
}

struct sink_patience sink_patience(const struct sink *sink)
{
    int64_t now_ms = sink_now_ms();
    ASSERT(sink->options->write_timeout_ms > 0);
    return (struct sink_patience){now_ms, now_ms + sink->options->write_timeout_ms};
}

enum status sink_moved(const struct sink *sink, struct sink_patience *patience)
{
    int64_t now_ms = sink_now_ms();
    ASSERT(now_ms >= patience->begun_ms);
    sink_got_on(sink);
    patience->until_ms = now_ms + sink->options->write_timeout_ms;
    return now_ms - patience->begun_ms < sink->options->write_timeout_ms ? ST_OK : ST_BUSY;
}

/* One write that does not block. A shared pipe that poll calls writable takes PIPE_BUF bytes. */
static ssize_t put_some(const struct sink_stream *stream, const uint8_t *data, size_t len)
{
    if (stream->socket)
        return send(stream->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(stream->fd, data, stream->shared ? MIN(len, (size_t)PIPE_BUF) : len);
}

/* Account for bytes that were written. */
static void advance(struct sink_stream *stream, struct sink_batch *batch, size_t n)
{
    size_t at = sink_start(batch, batch->done) + stream->partial + n;
    while (batch->done < batch->n && at >= batch->ends[batch->done])
        sink_decide(batch, batch->done + 1, ST_OK);
    ASSERT(batch->done == batch->n || at < batch->ends[batch->done]);
    stream->partial = at - sink_start(batch, batch->done);
}

enum status sink_stream_write(const struct sink *sink, struct sink_stream *stream,
                              struct sink_batch *batch, size_t end, int *ret_errno)
{
    struct sink_patience patience = sink_patience(sink);
    ASSERT(stream->fd >= 0 && end <= batch->n);
    bool wait = stream->shared;
    while (batch->done < end) {
        size_t at = sink_start(batch, batch->done) + stream->partial;
        ASSERT(at < batch->ends[batch->done]);
        if (wait)
            TRY(sink_wait(sink, stream->fd, POLLOUT, patience.until_ms));
        ssize_t n = put_some(stream, batch->data + at, batch->ends[end - 1] - at);
        wait = stream->shared;
        if (n >= 0) {
            advance(stream, batch, (size_t)n);
            if (batch->done < end)
                TRY(sink_moved(sink, &patience));
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            wait = true;
        else if (errno != EINTR) {
            *ret_errno = errno;
            return ST_IO;
        }
    }
    return ST_OK;
}
