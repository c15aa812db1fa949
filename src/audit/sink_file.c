/* A file, a FIFO, standard output, standard error, or nothing.
 *
 * Happy path: `ready` finds the file open and still at its path; `write` appends all lines with one
 * call of the system.
 *
 * Failure modes
 *   a write ends early        the file is cut back to its last whole line; the rest is not written
 *   the file cannot be cut,   the next write begins with a newline
 *   or others append to it
 *   deleted or renamed away   `ready` opens a new file
 *   a torn line at open       a newline ends it
 *   two devices, one chain    `ready` of the second fails until the first is closed
 *   no reader of a FIFO       `ready` fails until there is one
 *   a reader does not read    ST_TIMEOUT
 *   a rotation fails          the file grows on; tried again with the next batch, logged once
 *   the path leads to what    `ready` fails: outside of the directories of the configuration, a
 *   no device may write       link, a file that no audit device made (sink_path.h) */
#include "audit/rotate.h"
#include "audit/sink.h"
#include "audit/sink_path.h"
#include "base/mem.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { DISCARD, REGULAR, STREAM };

struct file {
    struct sink sink;
    enum kind kind;
    struct sink_stream stream; /* the descriptor serves every kind */
    struct sink_place place;   /* of a file that is open */
    int standard;              /* STDOUT_FILENO or STDERR_FILENO; -1: a path */
    bool torn;                 /* the last line has no end */
    bool failed;               /* the last write failed */
    bool chain_known, rotate_failed;
    struct stat at_open;
    uint64_t size;    /* of a regular file */
    int64_t first_ms; /* the time of the file's first record; 0: no record */
};

static enum status fail(const struct file *f, const char *what, int err, struct reason *why)
{
    reason_set(why, "%s: %s%s", f->sink.options->file_path, what, strerror(err));
    return ST_IO;
}

static void place_drop(struct sink_place *place)
{
    if (place->dir >= 0)
        (void)close(place->dir); /* a descriptor of O_PATH holds no data */
    *place = (struct sink_place){.dir = -1};
}

static void file_drop(struct sink *sink)
{
    struct file *f = CONTAINER_OF(sink, struct file, sink);
    if (f->stream.fd >= 0 && f->standard < 0)
        (void)close(f->stream.fd); /* every write was checked */
    place_drop(&f->place);
    f->torn |= f->stream.partial != 0;
    f->stream.partial = 0;
    f->stream.fd = -1;
}

/* The end of the newest rotated file; ST_NOT_FOUND. */
static enum status older_tail(const struct file *f, struct sink_tail *ret_tail, struct reason *why)
{
    char older[NAME_MAX + 1];
    struct stat info;
    ASSERT(f->place.dir >= 0 && f->place.name != NULL);
    if (rotate_newest(f->place.dir, f->place.name, older) != ST_OK)
        return ST_NOT_FOUND;
    int fd = openat(f->place.dir, older, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return fail(f, "the newest rotated file: ", errno, why);
    enum status st = ST_NOT_FOUND;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        st = sink_path_tail(fd, older, ret_tail, why);
    (void)close(fd); /* was only read */
    return st;
}

/* Find out how an earlier process left the file: a torn line, the end of the chain, the age. `tail`
 * is the end of the file. */
static enum status take_over(struct file *f, struct sink_tail tail, struct reason *why)
{
    ASSERT(f->kind == REGULAR && f->stream.fd >= 0);
    f->torn |= f->size != 0 && !tail.ended;
    f->first_ms = f->size == 0 ? 0 : tail.first_ms != 0 ? tail.first_ms : sink_wall_us() / 1000;
    if (!f->sink.options->hash_chain || f->chain_known)
        return ST_OK;
    if (!tail.chained) {
        enum status st = older_tail(f, &tail, why);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
    }
    if (tail.chained)
        *f->sink.chain = tail.chain;
    f->chain_known = true;
    return ST_OK;
}

/* Two devices would write two chains into one file. The lock ends with the descriptor. A file
 * system without locks has no such check. */
static enum status lock_chain(const struct file *f, struct reason *why)
{
    if (!f->sink.options->hash_chain || flock(f->stream.fd, LOCK_EX | LOCK_NB) == 0 ||
        errno != EWOULDBLOCK)
        return ST_OK;
    reason_set(why, "%s: another device writes this chain", f->sink.options->file_path);
    return ST_IO;
}

static enum status open_standard(struct file *f, struct reason *why)
{
    if (fstat(f->standard, &f->at_open) != 0)
        return fail(f, "", errno, why);
    f->stream = (struct sink_stream){.fd = f->standard, .shared = true};
    f->stream.socket = S_ISSOCK(f->at_open.st_mode);
    f->kind = STREAM;
    return ST_OK;
}

/* Open the file of a path, and read its end into *tail if it is a regular file. */
static enum status open_path(struct file *f, struct sink_tail *tail, struct reason *why)
{
    const struct audit_options *o = f->sink.options;
    struct sink_opened opened;
    ASSERT(f->stream.fd < 0 && f->place.dir < 0);
    TRY(sink_place_open(f->sink.places, o->file_path, o->mode, &f->place, why));
    enum status st = sink_path_open(&f->place, o->file_path, o->mode, &opened, why);
    if (st != ST_OK) {
        place_drop(&f->place);
        return st;
    }
    f->at_open = opened.info;
    f->kind = S_ISREG(opened.info.st_mode) ? REGULAR : STREAM;
    f->stream = (struct sink_stream){.fd = opened.fd};
    f->size = (uint64_t)opened.info.st_size;
    *tail = (struct sink_tail){.ended = true};
    if (f->kind != REGULAR)
        return ST_OK;
    st = lock_chain(f, why);
    if (st == ST_OK && f->size != 0)
        st = sink_path_tail(f->stream.fd, o->file_path, tail, why);
    if (st != ST_OK)
        file_drop(&f->sink);
    ASSERT((st == ST_OK) == (f->stream.fd >= 0));
    return st;
}

/* Lines without a link stay in a file of their own. */
static bool must_part(const struct file *f, const struct sink_tail *tail)
{
    return f->kind == REGULAR && f->sink.options->hash_chain && !f->chain_known && f->size != 0 &&
           tail->plain;
}

static enum status file_open(struct file *f, struct reason *why)
{
    struct sink_tail tail;
    ASSERT(f->stream.fd < 0);
    if (f->standard >= 0)
        return open_standard(f, why);
    ASSERT(f->stream.partial == 0);
    TRY(open_path(f, &tail, why));
    enum status st = ST_OK;
    if (must_part(f, &tail)) {
        st = rotate_rename(f->place.dir, f->place.name, sink_wall_us(), why);
        file_drop(&f->sink);
        if (st == ST_OK)
            TRY(open_path(f, &tail, why));
    }
    if (st == ST_OK && f->kind == REGULAR)
        st = take_over(f, tail, why);
    if (st != ST_OK)
        file_drop(&f->sink);
    return st;
}

/* Whether the path leads to the open file still. */
static bool in_place(const struct file *f)
{
    struct stat info;
    return f->standard >= 0 ||
           (stat(f->sink.options->file_path, &info) == 0 && info.st_ino == f->at_open.st_ino &&
            info.st_dev == f->at_open.st_dev);
}

/* End a torn line, so that the next record has a line of its own. */
static enum status end_torn(struct file *f, struct reason *why)
{
    if (!f->torn)
        return ST_OK;
    int64_t until_ms = sink_now_ms() + f->sink.options->write_timeout_ms;
    ASSERT(f->stream.fd >= 0);
    for (;;) {
        if (f->kind == STREAM)
            TRY(sink_wait(&f->sink, f->stream.fd, POLLOUT, until_ms));
        if (write(f->stream.fd, "\n", 1) == 1)
            break;
        if (errno != EINTR && errno != EAGAIN)
            return fail(f, "", errno, why);
    }
    f->torn = false;
    f->size++;
    return ST_OK;
}

static enum status file_ready(struct sink *sink, struct reason *why)
{
    struct file *f = CONTAINER_OF(sink, struct file, sink);
    struct stat info;
    if (f->kind == DISCARD)
        return ST_OK;
    if (f->stream.fd >= 0 && !in_place(f)) {
        file_drop(sink);
        f->torn = false; /* the torn line stays in the other file */
    }
    if (f->stream.fd < 0)
        TRY(file_open(f, why));
    ASSERT(f->stream.fd >= 0);
    if (f->kind != REGULAR)
        return ST_OK;
    if (fstat(f->stream.fd, &info) != 0)
        return fail(f, "", errno, why);
    f->size = (uint64_t)info.st_size; /* another program may have cut the file */
    return ST_OK;
}

static void rotate(struct file *f)
{
    const struct audit_options *o = f->sink.options;
    struct reason why = {{0}};
    enum status st = rotate_rename(f->place.dir, f->place.name, sink_wall_us(), &why);
    ASSERT(f->kind == REGULAR && f->size != 0);
    bool renamed = st == ST_OK;
    if (renamed && o->rotate_files != 0)
        st = rotate_prune(f->place.dir, f->place.name, o->rotate_files, &why);
    if (renamed) {
        f->sink.rotations++;
        file_drop(&f->sink);
        f->torn = false;
    }
    if (st != ST_OK && !f->rotate_failed)
        trace(TRACE_WARN, "audit", "%s", why.text[0] != '\0' ? why.text : status_text(st));
    f->rotate_failed = st != ST_OK;
}

static bool too_old(const struct file *f)
{
    int64_t age = f->sink.options->rotate_ms;
    return age != 0 && f->first_ms != 0 && sink_wall_us() / 1000 - f->first_ms >= age;
}

/* How many lines, counted from 0, fit into the file: at least the next one if the file is empty. */
static size_t lines_that_fit(const struct file *f, const struct sink_batch *batch)
{
    uint64_t max = f->sink.options->rotate_bytes;
    size_t end = batch->done, start = sink_start(batch, end);
    if (f->kind != REGULAR || max == 0)
        return batch->n;
    while (end < batch->n && f->size + (batch->ends[end] - start) <= max)
        end++;
    return end == batch->done && f->size == 0 ? end + 1 : end;
}

/* Take back the torn end of a write that wrote `n` bytes, if they are the file's last: unless the
 * file has exactly these bytes more than before, another program appended lines, too. */
static void cut_back(struct file *f, struct sink_batch *batch, size_t n)
{
    size_t from = sink_start(batch, batch->done), end = batch->done;
    struct stat info;
    ASSERT(from + n < batch->ends[batch->n - 1]);
    while (end < batch->n && batch->ends[end] <= from + n)
        end++;
    sink_decide(batch, end, ST_OK);
    size_t excess = from + n - sink_start(batch, end);
    if (excess == 0)
        return;
    if (fstat(f->stream.fd, &info) != 0 || (uint64_t)info.st_size != f->size + n ||
        ftruncate(f->stream.fd, info.st_size - (off_t)excess) != 0)
        f->torn = true;
}

/* One write of a usual batch; a record that is larger shows that the disk gets on. */
enum { APPEND_BYTES = 4 * SINK_BATCH_BYTES };

/* Append the lines up to `end`, excluded, to a regular file. */
static enum status append(struct file *f, struct sink_batch *batch, size_t end, struct reason *why)
{
    size_t from = sink_start(batch, batch->done), len = batch->ends[end - 1] - from, at = 0;
    ASSERT(end > batch->done && end <= batch->n);
    while (at < len) {
        size_t some = MIN(len - at, (size_t)APPEND_BYTES);
        ssize_t n = write(f->stream.fd, batch->data + from + at, some);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int err = n < 0 ? errno : EIO;
            cut_back(f, batch, at);
            return fail(f, "", err, why);
        }
        at += (size_t)n;
        sink_got_on(&f->sink);
    }
    ASSERT(at == len);
    f->size += len;
    if (f->first_ms == 0)
        f->first_ms = sink_wall_us() / 1000;
    sink_decide(batch, end, ST_OK);
    return ST_OK;
}

static enum status write_stream(struct file *f, struct sink_batch *batch, struct reason *why)
{
    int err = 0;
    enum status st = sink_stream_write(&f->sink, &f->stream, batch, batch->n, &err);
    if (st == ST_TIMEOUT)
        reason_set(why, "%s: the reader took no byte for %lld ms", f->sink.options->file_path,
                   (long long)f->sink.options->write_timeout_ms);
    if (st != ST_IO)
        return st;
    file_drop(&f->sink);
    return fail(f, "", err, why);
}

static enum status write_regular(struct file *f, struct sink_batch *batch, struct reason *why)
{
    ASSERT(f->kind == REGULAR);
    while (batch->done < batch->n) {
        if (f->stream.fd < 0)
            TRY(file_ready(&f->sink, why));
        if (f->kind != REGULAR)
            return write_stream(f, batch, why);
        size_t end = lines_that_fit(f, batch);
        if (f->size != 0 && (end == batch->done || too_old(f))) {
            rotate(f);
            if (!f->rotate_failed || f->stream.fd < 0)
                continue;
            end = batch->n;
        }
        TRY(append(f, batch, end, why));
    }
    return ST_OK;
}

static enum status file_write(struct sink *sink, struct sink_batch *batch, struct reason *why)
{
    struct file *f = CONTAINER_OF(sink, struct file, sink);
    if (f->kind == DISCARD) {
        sink_decide(batch, batch->n, ST_OK);
        ASSERT(f->stream.fd < 0);
        return ST_OK;
    }
    ASSERT(f->stream.fd >= 0);
    enum status st = end_torn(f, why);
    if (st == ST_OK)
        st = f->kind == REGULAR ? write_regular(f, batch, why) : write_stream(f, batch, why);
    f->failed = st == ST_IO;
    return st;
}

/* A file that could not be written to must have room for a block, on the disk and below the limit
 * of the process. */
static enum status file_probe(struct sink *sink, struct reason *why)
{
    enum { BLOCK = 4096 };
    struct file *f = CONTAINER_OF(sink, struct file, sink);
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    TRY(file_ready(sink, why));
    if (!f->failed || f->kind != REGULAR)
        return ST_OK;
    (void)getrlimit(RLIMIT_FSIZE, &limit); /* a failure counts as no limit */
    if (limit.rlim_cur != RLIM_INFINITY && f->size + BLOCK > limit.rlim_cur)
        return fail(f, "", EFBIG, why);
    if (fallocate(f->stream.fd, FALLOC_FL_KEEP_SIZE, (off_t)f->size, BLOCK) == 0 ||
        errno == EOPNOTSUPP)
        return ST_OK;
    return fail(f, "", errno, why);
}

static void file_free(struct sink *sink)
{
    file_drop(sink);
    mem_free(CONTAINER_OF(sink, struct file, sink));
}

enum status sink_file_new(const struct audit_options *options, struct sink **ret_sink)
{
    static const struct sink_ops ops = {file_ready, file_write, file_probe, file_drop, file_free};
    struct file *f = mem_zalloc(sizeof *f);
    ASSERT(options->file_path != NULL);
    if (f == NULL)
        return ST_NOMEM;
    f->sink = (struct sink){.ops = &ops, .options = options};
    f->stream.fd = -1;
    f->place.dir = -1;
    f->standard = strcmp(options->file_path, "stdout") == 0   ? STDOUT_FILENO
                  : strcmp(options->file_path, "stderr") == 0 ? STDERR_FILENO
                                                              : -1;
    f->kind = strcmp(options->file_path, "discard") == 0 ? DISCARD : STREAM;
    *ret_sink = &f->sink;
    return ST_OK;
}
