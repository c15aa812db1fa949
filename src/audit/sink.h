/* Where the lines of a device go: a file, a socket or syslog. Private to src/audit.
 *
 * A sink belongs to the thread of its device. A sink blocks for one write_timeout at most after the
 * last byte that moved, and not beyond `ends_ms`, except in calls of the system that cannot be
 * bounded (a hung file system, the resolver). */
#ifndef HOLDFAST_AUDIT_SINK_H
#define HOLDFAST_AUDIT_SINK_H

#include "audit/chain.h"
#include "audit/places.h"

#include <stdatomic.h>

enum { SINK_LINES_MAX = 256, SINK_BATCH_BYTES = 1 << 20 };

/* Lines to write. The lines before `done` are decided: st[i] is the result of line i. */
struct sink_batch {
    const uint8_t *data;
    size_t n, done;
    size_t ends[SINK_LINES_MAX]; /* the offset behind each line, its newline included */
    enum status st[SINK_LINES_MAX];
};

struct sink;

/* The statuses of `ready`, `write` and `probe`:
 *   ST_OK       open; every line of the batch is decided
 *   ST_IO       failed, with a reason that names the sink and the cause. The lines not decided are
 *               not written. The next call tries again.
 *   ST_TIMEOUT  nothing moved for one write_timeout. Calling again goes on at the same place.
 *   ST_BUSY     wake_fd became readable, or the write takes longer than one write_timeout although
 *               bytes move. Calling again goes on at the same place.
 *   ST_NOMEM, ST_CRYPTO */
struct sink_ops {
    /* Open the sink unless it is open; find out whether it must be opened anew. */
    enum status (*ready)(struct sink *sink, struct reason *why);
    enum status (*write)(struct sink *sink, struct sink_batch *batch, struct reason *why);
    /* Without a line to write: whether the next write has a chance after one that failed. */
    enum status (*probe)(struct sink *sink, struct reason *why);
    void (*drop)(struct sink *sink); /* close the descriptor: the next `ready` opens it anew */
    void (*free)(struct sink *sink);
};

struct sink {
    const struct sink_ops *ops;
    const struct audit_options *options; /* borrowed, as the strings in it */
    const struct audit_places *places;   /* borrowed; where a file may lie */
    struct chain *chain;                 /* set by a file that is opened for the first time */
    int wake_fd;
    _Atomic int64_t ends_ms;    /* when a closed device stops waiting; 0: not closed */
    _Atomic uint64_t *progress; /* raised when bytes moved; NULL: not counted */
    uint64_t rotations;
};

static inline void sink_got_on(const struct sink *sink)
{
    if (sink->progress != NULL)
        (void)atomic_fetch_add_explicit(sink->progress, 1, memory_order_relaxed);
}

/* `options` are borrowed. ST_NOMEM. */
NODISCARD enum status sink_file_new(const struct audit_options *options, struct sink **ret_sink);
NODISCARD enum status sink_socket_new(const struct audit_options *options, struct sink **ret_sink);
/* `path` of the syslog socket is borrowed. ST_NOMEM. */
NODISCARD enum status sink_syslog_new(const struct audit_options *options, const char *path,
                                      struct sink **ret_sink);

/* sink.c */

static inline size_t sink_start(const struct sink_batch *batch, size_t line)
{
    return line == 0 ? 0 : batch->ends[line - 1];
}

/* The lines up to `end`, excluded, are decided with `st`. */
void sink_decide(struct sink_batch *batch, size_t end, enum status st);

/* Milliseconds of the monotonic clock, and of the wall clock in microseconds. */
int64_t sink_now_ms(void);
int64_t sink_wall_us(void);

/* Wait until `fd` has one of `events`, an error or an end. ST_OK; ST_TIMEOUT: `until_ms` has
 * passed; ST_BUSY: wake_fd is readable; ST_IO. */
NODISCARD enum status sink_wait(const struct sink *sink, int fd, short events, int64_t until_ms);

/* A stream of lines over a descriptor that does not block. */
struct sink_stream {
    int fd;         /* -1: closed */
    size_t partial; /* bytes of the first undecided line that are written */
    bool shared;    /* the descriptor may block: it is shared with other processes */
    bool socket;
};

/* How long a write may wait: one write_timeout after the last byte that moved. */
struct sink_patience {
    int64_t begun_ms, until_ms;
};
struct sink_patience sink_patience(const struct sink *sink);
/* Bytes moved. ST_BUSY: it is time to look for a close or a reopen. */
NODISCARD enum status sink_moved(const struct sink *sink, struct sink_patience *patience);

/* Write the undecided lines before `end` to a stream. *ret_errno is set with ST_IO. */
NODISCARD enum status sink_stream_write(const struct sink *sink, struct sink_stream *stream,
                                        struct sink_batch *batch, size_t end, int *ret_errno);

#endif
