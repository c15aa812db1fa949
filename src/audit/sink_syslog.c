/* The syslog daemon of this machine: one datagram a record in the form of RFC 3164,
 * "<PRI>Mmm dd hh:mm:ss tag[pid]: line", with the time of this machine's zone. A daemon that was
 * started anew is connected to anew within the write. */
#include "audit/sink_peer.h"
#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { SEVERITY_INFO = 6, HEAD_MAX = 128 };

struct logger {
    struct sink sink;
    const char *path;
    int fd;
    bool told_too_big;
};

static struct logger *logger_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct logger, sink);
}

static void logger_drop(struct sink *sink)
{
    struct logger *l = logger_of(sink);
    if (l->fd >= 0)
        (void)close(l->fd); /* every send was checked */
    l->fd = -1;
}

static enum status logger_ready(struct sink *sink, struct reason *why)
{
    struct logger *l = logger_of(sink);
    if (l->fd >= 0)
        return ST_OK;
    return sink_peer_connect(sink, AUDIT_UNIXGRAM, l->path, &l->fd, why);
}

static size_t put_head(const struct audit_options *o, char ret_head[HEAD_MAX])
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm t = {0};
    time_t now = time(NULL);
    (void)localtime_r(&now, &t); /* a clock out of range shows as January */
    ASSERT(t.tm_mon >= 0 && t.tm_mon < 12);
    int n = snprintf(
        ret_head, HEAD_MAX, "<%u>%s %2d %02d:%02d:%02d %s[%d]: ", o->facility * 8 + SEVERITY_INFO,
        months[t.tm_mon], t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, o->tag, (int)getpid());
    ASSERT(n > 0 && n < HEAD_MAX); /* the tag is bounded */
    return (size_t)n;
}

static enum status send_all(struct logger *l, struct sink_batch *batch, int *ret_errno)
{
    char head[HEAD_MAX];
    struct sink_datagrams to = {.fd = l->fd, .trim = true};
    ASSERT(l->fd >= 0);
    to.head = bytes_of(head, put_head(l->sink.options, head));
    enum status st = sink_peer_send(&l->sink, &to, batch, ret_errno);
    for (size_t i = 0; i < batch->done && !l->told_too_big; i++)
        if (batch->st[i] == ST_TOO_BIG) {
            trace(TRACE_ERROR, "audit", "%s: a record is larger than a datagram", l->path);
            l->told_too_big = true;
        }
    return st;
}

static enum status logger_write(struct sink *sink, struct sink_batch *batch, struct reason *why)
{
    struct logger *l = logger_of(sink);
    int err = 0;
    enum status st = send_all(l, batch, &err);
    if (st == ST_IO) {
        logger_drop(sink);
        TRY(logger_ready(sink, why));
        st = send_all(l, batch, &err);
    }
    if (st == ST_TIMEOUT)
        reason_set(why, "%s: the daemon took no record for %lld ms", l->path,
                   (long long)sink->options->write_timeout_ms);
    if (st == ST_IO) {
        logger_drop(sink);
        reason_set(why, "%s: %s", l->path, strerror(err));
    }
    ASSERT(st != ST_OK || batch->done == batch->n);
    return st;
}

static void logger_free(struct sink *sink)
{
    logger_drop(sink);
    mem_free(logger_of(sink));
}

enum status sink_syslog_new(const struct audit_options *options, const char *path,
                            struct sink **ret_sink)
{
    static const struct sink_ops ops = {logger_ready, logger_write, logger_ready, logger_drop,
                                        logger_free};
    struct logger *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    ASSERT(options->tag != NULL);
    l->sink = (struct sink){.ops = &ops, .options = options};
    l->path = path;
    l->fd = -1;
    *ret_sink = &l->sink;
    return ST_OK;
}
