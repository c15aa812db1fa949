/* The log of a job: what the processes write waits in memory and goes to the servers in pieces, by
 * offset, so that a repeated piece does no harm. The servers bound the length of a log; the worker
 * keeps no more than one piece beyond the bound, which lets the server say that the log was cut. */
#include "worker/worker_internal.h"

#include "text/encode.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { PIECE_MS = 200, STX = 2, ETX = 3 };

static void log_lock(struct job_log *log)
{
    (void)pthread_mutex_lock(&log->lock); /* a plain mutex, not held by this thread */
}

static void log_unlock(struct job_log *log)
{
    (void)pthread_mutex_unlock(&log->lock);
}

/* Wait for a full piece, the end, or PIECE_MS. The lock is held. */
static void await_piece(struct job_log *log)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* the clock exists */
    until.tv_nsec += PIECE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (log->text.len < WORKER_PIECE_BYTES && !log->closing)
        (void)pthread_cond_timedwait(&log->more, &log->lock, &until); /* the caller looks again */
}

static enum status put_piece(const struct job *job, uint64_t offset, struct bytes piece,
                             struct buf *body)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = body};
    char *room = (char *)buf_extend(&text, TEXT_BASE64_LEN(WORKER_PIECE_BYTES) + 1);
    if (room == NULL)
        return ST_NOMEM;
    size_t len = text_base64_put(piece, TEXT_BASE64, room);
    job_body_begin(job, &w);
    text_key(&w, "offset");
    text_put_uint(&w, offset);
    text_key(&w, "data");
    text_put_bytes(&w, bytes_of(room, len));
    text_close(&w);
    return buf_status(body);
}

/* Send the first bytes. False: the log is given up. */
static bool send_piece(struct job *job, uint64_t offset, struct bytes piece)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    struct reason why = {{0}};
    enum status st = put_piece(job, offset, piece, &body);
    if (st == ST_OK)
        st = job_ask(job, "POST", "log", NULL, buf_bytes(&body), &reply, &why);
    if (st == ST_NOMEM) {
        client_sleep_ms(PIECE_MS); /* memory may come back */
        return !job_is_lost(job, 0);
    }
    if (st != ST_OK && st != ST_CLOSED)
        worker_say("job %s: its log was refused: %s", job->id, why.text);
    if (st != ST_OK)
        return false;
    log_lock(&job->log);
    buf_consume(&job->log.text, piece.len);
    job->log.offset += piece.len;
    log_unlock(&job->log);
    return true;
}

static void *job_log_run(void *ctx)
{
    struct job *job = ctx;
    struct job_log *log = &job->log;
    uint8_t piece[WORKER_PIECE_BYTES];
    for (;;) {
        log_lock(log);
        await_piece(log);
        size_t n = MIN(log->text.len, sizeof piece);
        bool over = log->closing && n == 0;
        uint64_t offset = log->offset;
        if (n != 0)
            memcpy(piece, log->text.data, n);
        log_unlock(log);
        if (over)
            return NULL;
        if (n != 0 && !send_piece(job, offset, bytes_of(piece, n)))
            break;
    }
    log_lock(log);
    log->broken = true;
    buf_drop(&log->text);
    log_unlock(log);
    return NULL;
}

bool job_log_start(struct job *job)
{
    job->log.begun = worker_thread(&job->log.thread, job_log_run, job);
    return job->log.begun;
}

void job_log_add(struct job *job, struct bytes text)
{
    struct job_log *log = &job->log;
    if (!log->begun || text.len == 0)
        return;
    log_lock(log);
    uint64_t end = log->offset + log->text.len;
    uint64_t max = (uint64_t)worker.log_bytes_max + WORKER_PIECE_BYTES;
    size_t n = end < max ? (size_t)MIN((uint64_t)text.len, max - end) : 0;
    uint8_t *to = n != 0 && !log->broken ? buf_extend(&log->text, n) : NULL;
    for (size_t i = 0; i < n && to != NULL; i++)
        to[i] = text.data[i] == STX || text.data[i] == ETX ? '?' : text.data[i];
    log->text.failed = false; /* text without memory is left out; later text may fit */
    log->in_line = text.data[text.len - 1] != '\n';
    if (log->text.len >= WORKER_PIECE_BYTES)
        (void)pthread_cond_signal(&log->more);
    log_unlock(log);
}

void job_log_line(struct job *job, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args); /* a longer line is cut */
    va_end(args);
    size_t len = n < 0 ? 0 : MIN((size_t)n, sizeof line - 2);
    line[len++] = '\n';
    if (job->log.in_line)
        job_log_add(job, BYTES("\n"));
    job_log_add(job, bytes_of(line, len));
}

void job_log_end(struct job *job)
{
    struct job_log *log = &job->log;
    if (!log->begun)
        return;
    if (log->in_line)
        job_log_add(job, BYTES("\n"));
    log_lock(log);
    log->closing = true;
    (void)pthread_cond_signal(&log->more);
    log_unlock(log);
    (void)pthread_join(log->thread, NULL); /* a thread of ours */
    log->begun = false;
    buf_done(&log->text);
}
