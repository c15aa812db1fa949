/* The thread of a device.
 *
 *   IDLE -> OPENING -> RENDERING -> WRITING -> IDLE
 *
 *   IDLE       next_work     waits for offers, a reopen, the close, or the time of a probe
 *   OPENING    serve         sink->ready
 *   RENDERING  render_held   all records of the batch into one buffer
 *   WRITING    serve         sink->write, then answer_held */
#include "audit/device_internal.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_MS = 1000 };

/* Whether to go on after a step that came to no end. */
static bool goes_on(struct device *d, enum status st, const struct reason *why)
{
    struct device_news news = {.text = ""};
    struct reason cause = *why;
    struct list dropped;
    uint64_t count = 0;
    ASSERT(st == ST_TIMEOUT || st == ST_BUSY);
    list_init(&dropped);
    if (cause.text[0] == '\0')
        device_no_answer(d, &cause);
    ssize_t n = read(d->sink->wake_fd, &count, sizeof count);
    ASSERT(n == (ssize_t)sizeof count || errno == EAGAIN);
    device_lock(&d->lock);
    bool reopen = d->reopen;
    d->reopen = false;
    bool ends =
        d->closing && (d->late || sink_now_ms() - d->closing_ms >= d->options.write_timeout_ms);
    if (st == ST_TIMEOUT && !ends)
        device_be_late(d, &cause, &news, &dropped);
    device_unlock(&d->lock);
    device_tell(&news);
    device_post(&dropped);
    if (reopen)
        d->sink->ops->drop(d->sink);
    d->closed_sink |= reopen;
    d->given_up = ends;
    return !ends;
}

enum step { STEP_READY, STEP_WRITE, STEP_PROBE };

static enum status run_step(struct device *d, enum step step, struct reason *why)
{
    const struct sink_ops *ops = d->sink->ops;
    if (step == STEP_PROBE)
        return ops->probe(d->sink, why);
    if (step == STEP_READY || d->closed_sink)
        TRY(ops->ready(d->sink, why));
    d->closed_sink = false;
    return step == STEP_WRITE ? ops->write(d->sink, &d->batch, why) : ST_OK;
}

/* Repeat a step until it has a result. ST_CLOSED: the device was closed meanwhile. */
static enum status insist(struct device *d, enum step step, struct reason *why)
{
    for (;;) {
        enum status st = run_step(d, step, why);
        if (st != ST_TIMEOUT && st != ST_BUSY)
            return st;
        if (!goes_on(d, st, why))
            return ST_CLOSED;
    }
}

struct salt *device_take_salt(struct device *d)
{
    device_lock(&d->lock);
    struct salt *salt = salt_ref(d->salt);
    device_unlock(&d->lock);
    return salt;
}

/* Render one record as a line at the end of the text. */
static enum status render_line(struct device *d, const struct audit_offer *offer,
                               const struct audit_render *how)
{
    size_t from = d->text.len;
    buf_add(&d->text, bytes_str(d->options.prefix));
    TRY(audit_record_render(offer->record, how, &d->text));
    if (d->options.hash_chain)
        chain_link(&d->chain, d->hash, &d->text, from);
    buf_add_u8(&d->text, '\n');
    return buf_status(&d->text);
}

/* Render the held records. A record that cannot be rendered ends the batch: it and those behind it
 * fail. */
static enum status render_held(struct device *d)
{
    enum status st = ST_OK;
    struct sink_batch *b = &d->batch;
    buf_clear(&d->text);
    b->n = b->done = 0;
    struct salt *salt = device_take_salt(d);
    struct audit_recent recent = {.next = 0};
    struct audit_render how = {salt != NULL ? salt->hmac : NULL, d->options.log_raw,
                               d->options.hmac_accessor, d->options.elide_list_responses, &recent};
    device_lock(&d->render_lock);
    struct chain before = d->chain;
    LIST_FOR (link, &d->held) {
        ASSERT(b->n < SINK_LINES_MAX);
        ASSERT(d->text.len == sink_start(b, b->n));
        before = d->chain;
        st = render_line(d, CONTAINER_OF(link, struct audit_offer, link), &how);
        if (st != ST_OK)
            break;
        d->after[b->n] = d->chain;
        b->ends[b->n++] = d->text.len;
    }
    device_unlock(&d->render_lock);
    salt_unref(salt);
    sink_got_on(d->sink);
    if (st != ST_OK) {
        d->chain = before;
        d->text.failed = false;
    }
    b->data = d->text.data;
    return st;
}

/* Write the rendered lines; the chain goes on behind the last line that is written. */
static enum status write_batch(struct device *d, const struct chain *before, struct reason *why)
{
    struct sink_batch *b = &d->batch;
    enum status st = insist(d, STEP_WRITE, why);
    ASSERT(st != ST_OK || b->done == b->n);
    if (b->done < b->n)
        d->chain = b->done == 0 ? *before : d->after[b->done - 1];
    return st;
}

/* Count the results of the batch and give its offers back. `st` is the result of the lines that are
 * not decided. */
static void answer_held(struct device *d, enum status st, const struct reason *why)
{
    struct device_news news = {.text = ""};
    struct list offers;
    size_t i = 0, written = 0, failed = 0;
    ASSERT(d->batch.done <= d->batch.n);
    ASSERT(st != ST_TIMEOUT && st != ST_BUSY);
    list_init(&offers);
    device_lock(&d->lock);
    list_splice(&offers, &d->held);
    LIST_FOR (link, &offers) {
        struct audit_offer *offer = CONTAINER_OF(link, struct audit_offer, link);
        offer->st = i < d->batch.done ? d->batch.st[i] : st;
        written += offer->st == ST_OK;
        failed += offer->st != ST_OK;
        i++;
    }
    if (written > 0) {
        d->records += written;
        d->bytes += d->batch.ends[d->batch.done - 1];
        d->writes++;
    }
    sink_got_on(d->sink);
    d->failures += failed;
    d->rotations = d->sink->rotations;
    d->held_bytes = 0;
    device_take_result(d, st, why, &news);
    device_unlock(&d->lock);
    device_tell(&news);
    device_post(&offers);
}

/* Answer the batch that was taken from the queue. */
static void serve(struct device *d)
{
    struct reason why = {{0}};
    d->batch.n = d->batch.done = 0;
    enum status st = d->given_up ? ST_CLOSED : insist(d, STEP_READY, &why);
    if (st == ST_OK) {
        struct chain before = d->chain;
        enum status rendered = render_held(d);
        st = write_batch(d, &before, &why);
        st = st != ST_OK ? st : rendered;
    }
    ASSERT(st != ST_OK || d->batch.done == d->batch.n);
    answer_held(d, st, &why);
    if (d->text.cap > 4 * SINK_BATCH_BYTES)
        buf_done(&d->text);
}

static void probe(struct device *d)
{
    struct device_news news = {.text = ""};
    struct reason why = {{0}};
    enum status st = insist(d, STEP_PROBE, &why);
    device_lock(&d->lock);
    device_take_result(d, st, &why, &news);
    device_unlock(&d->lock);
    device_tell(&news);
}

/* Take a batch from the queue. The lock is held. */
static void take_batch(struct device *d)
{
    unsigned n = 0;
    ASSERT(list_empty(&d->held));
    ASSERT(d->held_bytes == 0);
    while (n < SINK_LINES_MAX && !list_empty(&d->queue)) {
        struct audit_offer *offer = CONTAINER_OF(d->queue.next, struct audit_offer, link);
        if (n > 0 && d->held_bytes + offer->bytes > SINK_BATCH_BYTES)
            break;
        list_remove(&offer->link);
        list_push(&d->held, &offer->link);
        d->held_bytes += offer->bytes;
        ASSERT(d->queued_bytes >= offer->bytes);
        d->queued_bytes -= offer->bytes;
        n++;
    }
    d->flushed &= !list_empty(&d->queue);
}

enum work { WORK_BATCH, WORK_REOPEN, WORK_PROBE, WORK_END };

static void sleep_until_probe(struct device *d)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail: the kernel has the clock */
    until.tv_sec += PROBE_MS / 1000;
    (void)pthread_cond_timedwait(&d->changed, &d->lock, &until); /* the caller reads the clock */
}

/* The lock is held. */
static bool has_batch(const struct device *d)
{
    return !list_empty(&d->queue) && (d->flushed || d->closing);
}

/* Wait for something to do. */
static enum work next_work(struct device *d)
{
    int64_t begin_ms = sink_now_ms();
    enum work work = WORK_END;
    device_lock(&d->lock);
    for (;;) {
        if (d->reopen || has_batch(d) || d->closing)
            break;
        if (d->failing && sink_now_ms() - begin_ms >= PROBE_MS)
            break;
        d->sleeping = true;
        if (d->failing)
            sleep_until_probe(d);
        else
            (void)pthread_cond_wait(&d->changed, &d->lock); /* cannot fail: valid arguments */
        d->sleeping = false;
    }
    if (d->reopen)
        work = WORK_REOPEN;
    else if (has_batch(d))
        work = WORK_BATCH;
    else if (!d->closing)
        work = WORK_PROBE;
    ASSERT(list_empty(&d->held));
    if (work == WORK_BATCH)
        take_batch(d);
    d->reopen = false;
    device_unlock(&d->lock);
    return work;
}

void *device_main(void *arg)
{
    struct device *d = arg;
    probe(d);
    for (;;) {
        enum work work = next_work(d);
        if (work == WORK_END)
            break;
        if (work == WORK_REOPEN)
            d->sink->ops->drop(d->sink);
        if (work == WORK_BATCH)
            serve(d);
        else
            probe(d);
    }
    d->sink->ops->drop(d->sink); /* for a device that takes the file over after the join */
    device_lock(&d->lock);
    ASSERT(list_empty(&d->queue) && list_empty(&d->held));
    d->over = true;
    (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
    device_unlock(&d->lock);
    audit_device_unref(&d->head);
    return NULL;
}
