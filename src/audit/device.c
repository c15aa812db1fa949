/* The thread of a device, and what workers do with its queue.
 *
 *   IDLE -> OPENING -> RENDERING -> WRITING -> IDLE
 *
 *   IDLE       next_work     waits for offers, a reopen, the close, or the time of a probe
 *   OPENING    serve         sink->ready
 *   RENDERING  render_held   all records of the batch into one buffer
 *   WRITING    serve         sink->write, then answer_held
 *
 * Locks: `render_lock` before `lock`. The thread calls the system with neither. While it renders it
 * reads the held offers under render_lock; audit_device_join takes them away with both locks. No
 * function that a worker calls takes render_lock. */
#include "audit/device.h"
#include "audit/salt.h"
#include "audit/sink.h"
#include "base/mem.h"
#include "base/trace.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_MS = 1000 };

#define SYSLOG_PATH "/dev/log"

struct device {
    struct audit_device head;
    char *path, *data_dir, *syslog_path, *texts[4]; /* copies of the options' strings */
    struct audit_options options;
    uint64_t queue_max;

    pthread_mutex_t render_lock, lock;
    pthread_cond_t changed; /* for the thread: work; for audit_device_join: the end */
    struct list queue;      /* offers that wait; `lock` guards this and all members of this part */
    struct list held;       /* offers of the batch in work */
    uint64_t queued_bytes, held_bytes;
    bool sleeping, closing, reopen, over;
    bool flushed; /* the thread may take the queue */
    bool late, failing, opened;
    int64_t closing_ms;    /* when it was closed */
    unsigned lates;        /* how often it was late in a row */
    int64_t back_ms;       /* when it was late no more; 0: it was never late */
    int64_t rest_until_ms; /* 0: it does not rest */
    bool rested;           /* the rest has ended, and nothing was written since */
    struct reason why;
    uint64_t records, bytes, writes, failures, dropped, rotations;
    uint64_t missed;   /* failures and dropped, when the device was last good */
    struct salt *salt; /* NULL: no salt */

    /* The thread's own. */
    struct sink *sink;
    bool closed_sink; /* the sink must be made ready before a write goes on */
    bool given_up;    /* the device is closed, and its last write took too long */
    struct crypto_sha256 *hash;
    struct chain chain;
    struct chain after[SINK_LINES_MAX]; /* the chain behind each line of the batch */
    struct buf text;
    struct sink_batch batch;
};

static struct device *device_of(struct audit_device *device)
{
    return CONTAINER_OF(device, struct device, head);
}

static void lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex); /* cannot fail: default mutex, never held twice */
}

static void unlock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex); /* cannot fail: this thread holds the lock */
}

/* Wake the thread, also out of a wait of its sink. The lock is held. */
static void wake(struct device *d)
{
    uint64_t one = 1;
    (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
    ssize_t n = write(d->sink->wake_fd, &one, sizeof one);
    ASSERT(n == (ssize_t)sizeof one || errno == EAGAIN);
}

/* Answers. */

/* The task of the first offer runs the results of all in its ring. */
static void run_ring(struct env_task *task)
{
    struct audit_offer *first = CONTAINER_OF(task, struct audit_offer, task);
    struct list rest;
    list_init(&rest);
    list_splice(&rest, &first->link);
    first->done(first, first->st);
    for (struct list *link; (link = list_pop(&rest)) != NULL;) {
        struct audit_offer *offer = CONTAINER_OF(link, struct audit_offer, link);
        offer->done(offer, offer->st);
    }
}

/* Post the results: one task for each loop. */
static void post_all(struct list *offers)
{
    for (struct list *link; (link = list_pop(offers)) != NULL;) {
        struct audit_offer *first = CONTAINER_OF(link, struct audit_offer, link);
        struct env *env = first->env; /* `first` may be gone once it was posted */
        ASSERT(first->done != NULL && env != NULL);
        LIST_FOR_SAFE (item, next, offers) {
            struct audit_offer *other = CONTAINER_OF(item, struct audit_offer, link);
            if (other->env == env) {
                list_remove(item);
                list_push(&first->link, item);
            }
        }
        first->task.run = run_ring;
        env_post(env, &first->task);
    }
}

/* Set one result for all. */
static void set_all(struct list *offers, enum status st)
{
    LIST_FOR (link, offers)
        CONTAINER_OF(link, struct audit_offer, link)->st = st;
}

/* Standing. The functions return a text to log without the lock, or leave it empty. */

struct news {
    enum trace_level level;
    char text[512];
};

static void tell(const struct news *news)
{
    if (news->text[0] != '\0')
        trace(news->level, "audit", "%s", news->text);
}

static void no_answer(const struct device *d, struct reason *ret_why)
{
    reason_set(ret_why, "no answer within %lld ms", (long long)d->options.write_timeout_ms);
}

/* Take the newest offers that a late device does not keep. The lock is held; the caller posts
 * `dropped` without the lock. */
static void drop_beyond(struct device *d, struct list *dropped)
{
    while (!list_empty(&d->queue) && d->queued_bytes + d->held_bytes > d->queue_max) {
        struct audit_offer *offer = CONTAINER_OF(d->queue.prev, struct audit_offer, link);
        ASSERT(d->queued_bytes >= offer->bytes);
        d->queued_bytes -= offer->bytes;
        list_remove(&offer->link);
        list_insert_before(dropped->next, &offer->link);
        offer->st = ST_BUSY;
        d->dropped++;
    }
}

/* The lock is held; the caller posts `dropped` without the lock. */
static void be_late(struct device *d, const struct reason *why, struct news *news,
                    struct list *dropped)
{
    if (d->late)
        return;
    ASSERT(list_empty(dropped));
    d->late = true;
    bool in_row = d->back_ms != 0 && sink_now_ms() - d->back_ms < AUDIT_REST_MAX_MS;
    d->lates = in_row ? d->lates + 1 : 1;
    d->rest_until_ms = 0;
    atomic_store_explicit(&d->head.rests, false, memory_order_relaxed);
    drop_beyond(d, dropped);
    d->why = *why;
    news->level = TRACE_WARN;
    (void)snprintf(news->text, sizeof news->text, "device %s is left out until it answers: %s",
                   d->path, why->text); /* cut: the reason is long */
}

/* How long a device rests that is late no more. The lock is held. */
static int64_t rest_ms(const struct device *d)
{
    enum { DOUBLINGS_MAX = 16 };
    ASSERT(d->options.write_timeout_ms > 0);
    if (d->lates <= AUDIT_LATES_MAX)
        return 0;
    unsigned doublings = MIN(d->lates - AUDIT_LATES_MAX, (unsigned)DOUBLINGS_MAX);
    return MIN(MIN(d->options.write_timeout_ms, (int64_t)AUDIT_REST_MAX_MS) << doublings,
               (int64_t)AUDIT_REST_MAX_MS);
}

/* The thread has an answer for all that a late device held. The lock is held. */
static void end_lateness(struct device *d, struct news *news)
{
    int64_t rest = rest_ms(d);
    ASSERT(d->late && d->rest_until_ms == 0);
    d->late = false;
    d->back_ms = sink_now_ms();
    if (rest == 0 || d->closing)
        return;
    d->rest_until_ms = d->back_ms + rest;
    atomic_store_explicit(&d->head.rests, true, memory_order_relaxed);
    if (news->text[0] != '\0')
        return;
    news->level = TRACE_WARN;
    (void)snprintf(news->text, sizeof news->text,
                   "device %s was late %u times in a row: it takes no records that another device "
                   "takes for %lld ms",
                   d->path, d->lates, (long long)rest); /* cut: the path is long */
}

/* Whether the device rests and does not take this offer. The first offer that it takes ends the
 * rest. The lock is held. */
static bool refuses_at_rest(struct device *d, const struct audit_offer *offer)
{
    if (d->rest_until_ms == 0)
        return false;
    ASSERT(!d->late);
    int64_t now_ms = sink_now_ms();
    if (!offer->needed && now_ms < d->rest_until_ms)
        return true;
    d->rest_until_ms = 0;
    d->back_ms = now_ms;
    d->rested = true;
    atomic_store_explicit(&d->head.rests, false, memory_order_relaxed);
    return false;
}

/* The thread has an answer. The lock is held. */
static void take_result(struct device *d, enum status st, const struct reason *why,
                        struct news *news)
{
    bool failed = st != ST_OK && st != ST_CLOSED;
    bool emptied = d->late && list_empty(&d->queue);
    bool back = d->rested || (emptied && rest_ms(d) == 0);
    ASSERT(list_empty(&d->held));
    ASSERT(st != ST_TIMEOUT && st != ST_BUSY);
    if (failed)
        d->why = *why;
    if (failed && why->text[0] == '\0')
        reason_set(&d->why, "%s", status_text(st));
    if (failed && !d->failing) {
        news->level = TRACE_ERROR;
        (void)snprintf(news->text, sizeof news->text, "device %s fails: %s", d->path,
                       d->why.text); /* cut if too long */
    } else if (st == ST_OK && (d->failing || back)) {
        news->level = TRACE_INFO;
        (void)snprintf(news->text, sizeof news->text,
                       "device %s works again; it missed %llu records", d->path,
                       (unsigned long long)(d->failures + d->dropped - d->missed)); /* fits */
    }
    if (st != ST_CLOSED)
        d->failing = failed;
    d->opened |= st == ST_OK;
    if (emptied)
        end_lateness(d, news);
    if (st == ST_OK && !d->late && d->rest_until_ms == 0) {
        d->missed = d->failures + d->dropped;
        d->rested = false;
    }
}

/* The thread. */

/* Whether to go on after a step that came to no end. */
static bool goes_on(struct device *d, enum status st, const struct reason *why)
{
    struct news news = {.text = ""};
    struct reason cause = *why;
    struct list dropped;
    uint64_t count = 0;
    ASSERT(st == ST_TIMEOUT || st == ST_BUSY);
    list_init(&dropped);
    if (cause.text[0] == '\0')
        no_answer(d, &cause);
    ssize_t n = read(d->sink->wake_fd, &count, sizeof count);
    ASSERT(n == (ssize_t)sizeof count || errno == EAGAIN);
    lock(&d->lock);
    bool reopen = d->reopen;
    d->reopen = false;
    bool ends =
        d->closing && (d->late || sink_now_ms() - d->closing_ms >= d->options.write_timeout_ms);
    if (st == ST_TIMEOUT && !ends)
        be_late(d, &cause, &news, &dropped);
    unlock(&d->lock);
    tell(&news);
    post_all(&dropped);
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

static struct salt *take_salt(struct device *d)
{
    lock(&d->lock);
    struct salt *salt = salt_ref(d->salt);
    unlock(&d->lock);
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
    struct salt *salt = take_salt(d);
    struct audit_recent recent = {.next = 0};
    struct audit_render how = {salt != NULL ? salt->hmac : NULL, d->options.log_raw,
                               d->options.hmac_accessor, d->options.elide_list_responses, &recent};
    lock(&d->render_lock);
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
    unlock(&d->render_lock);
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
    struct news news = {.text = ""};
    struct list offers;
    size_t i = 0, written = 0, failed = 0;
    ASSERT(d->batch.done <= d->batch.n);
    ASSERT(st != ST_TIMEOUT && st != ST_BUSY);
    list_init(&offers);
    lock(&d->lock);
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
    take_result(d, st, why, &news);
    unlock(&d->lock);
    tell(&news);
    post_all(&offers);
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
    struct news news = {.text = ""};
    struct reason why = {{0}};
    enum status st = insist(d, STEP_PROBE, &why);
    lock(&d->lock);
    take_result(d, st, &why, &news);
    unlock(&d->lock);
    tell(&news);
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
    lock(&d->lock);
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
    unlock(&d->lock);
    return work;
}

static void *device_main(void *arg)
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
    lock(&d->lock);
    ASSERT(list_empty(&d->queue) && list_empty(&d->held));
    d->over = true;
    (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
    unlock(&d->lock);
    audit_device_unref(&d->head);
    return NULL;
}

/* Calls of workers. */

/* Put an offer behind the others. The part that the two records of a request share is counted
 * once: such offers follow each other. The lock is held. */
static void enqueue(struct device *d, struct audit_offer *offer)
{
    const struct audit_record *before = NULL;
    if (!list_empty(&d->queue))
        before = CONTAINER_OF(d->queue.prev, struct audit_offer, link)->record;
    offer->bytes = audit_record_bytes(offer->record, before);
    ASSERT(offer->bytes > 0);
    list_push(&d->queue, &offer->link);
    d->queued_bytes += offer->bytes;
}

static enum status device_offer(struct audit_device *device, struct audit_offer *offer)
{
    struct device *d = device_of(device);
    enum status st = ST_OK;
    ASSERT(offer->done != NULL && offer->env != NULL);
    lock(&d->lock);
    if (d->closing)
        st = ST_CLOSED;
    else if (d->late || refuses_at_rest(d, offer))
        st = ST_BUSY;
    d->dropped += st == ST_BUSY;
    if (st == ST_OK)
        enqueue(d, offer);
    unlock(&d->lock);
    return st;
}

static void device_flush(struct audit_device *device)
{
    struct device *d = device_of(device);
    lock(&d->lock);
    d->flushed = !list_empty(&d->queue);
    bool asleep = d->flushed && d->sleeping;
    if (asleep)
        d->sleeping = false; /* one signal is enough until it sleeps again */
    unlock(&d->lock);
    if (asleep)
        (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
}

static void device_leave_out(struct audit_device *device)
{
    struct device *d = device_of(device);
    struct news news = {.text = ""};
    struct list dropped;
    struct reason why;
    list_init(&dropped);
    no_answer(d, &why);
    lock(&d->lock);
    if (!list_empty(&d->queue) || !list_empty(&d->held))
        be_late(d, &why, &news, &dropped);
    unlock(&d->lock);
    tell(&news);
    post_all(&dropped);
}

static void device_state(struct audit_device *device, struct audit_device_state *ret_state)
{
    struct device *d = device_of(device);
    lock(&d->lock);
    ASSERT(ret_state != NULL);
    ASSERT(!d->late || d->why.text[0] != '\0');
    bool rests = d->rest_until_ms != 0 && sink_now_ms() < d->rest_until_ms;
    *ret_state = (struct audit_device_state){
        .standing = d->late      ? AUDIT_LATE
                    : d->failing ? AUDIT_FAILING
                    : rests      ? AUDIT_RESTING
                    : d->opened  ? AUDIT_OK
                                 : AUDIT_OPENING,
        .why = d->why,
        .records = d->records,
        .bytes = d->bytes,
        .writes = d->writes,
        .failures = d->failures,
        .dropped = d->dropped,
        .rotations = d->rotations,
        .queued_bytes = d->queued_bytes + d->held_bytes,
    };
    if (!d->late && !d->failing && !rests)
        ret_state->why = (struct reason){{0}};
    unlock(&d->lock);
}

void audit_device_reopen(struct audit_device *device)
{
    struct device *d = device_of(device);
    lock(&d->lock);
    d->reopen = !d->closing;
    wake(d);
    unlock(&d->lock);
}

void audit_device_close(struct audit_device *device)
{
    struct device *d = device_of(device);
    lock(&d->lock);
    if (!d->closing) {
        d->closing = true;
        d->reopen = false;
        d->closing_ms = sink_now_ms();
        atomic_store(&d->sink->ends_ms, d->closing_ms + d->options.write_timeout_ms);
        wake(d);
    }
    unlock(&d->lock);
}

bool audit_device_is_over(struct audit_device *device)
{
    struct device *d = device_of(device);
    lock(&d->lock);
    ASSERT(d->closing);
    bool over = d->over;
    unlock(&d->lock);
    return over;
}

/* Wait until the thread has ended. The lock is held. False: not before the time. */
static bool await_end(struct device *d, int64_t timeout_ms)
{
    struct timespec until;
    ASSERT(timeout_ms >= 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail: the kernel has the clock */
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!d->over)
        if (pthread_cond_timedwait(&d->changed, &d->lock, &until) == ETIMEDOUT)
            return d->over;
    return true;
}

bool audit_device_join(struct audit_device *device, int64_t timeout_ms)
{
    struct device *d = device_of(device);
    struct list offers;
    list_init(&offers);
    lock(&d->lock);
    ASSERT(d->closing);
    bool over = await_end(d, timeout_ms);
    unlock(&d->lock);
    if (over)
        return true;
    lock(&d->render_lock); /* not while it renders */
    lock(&d->lock);
    list_splice(&offers, &d->held);
    list_splice(&offers, &d->queue);
    d->queued_bytes = d->held_bytes = 0;
    set_all(&offers, ST_CLOSED);
    over = d->over;
    unlock(&d->lock);
    unlock(&d->render_lock);
    post_all(&offers);
    return over;
}

enum status audit_device_salt(struct audit_device *device, const uint8_t *salt)
{
    struct device *d = device_of(device);
    struct salt *new = NULL;
    enum status st = salt != NULL ? salt_new(salt, &new) : ST_OK;
    lock(&d->lock);
    struct salt *old = d->salt;
    ASSERT((new != NULL) == (st == ST_OK && salt != NULL));
    d->salt = new;
    unlock(&d->lock);
    salt_unref(old);
    return st;
}

enum status audit_device_hash(struct audit_device *device, struct bytes input,
                              char ret_text[AUDIT_HMAC_LEN + 1])
{
    struct salt *salt = take_salt(device_of(device));
    enum status st = salt_hash(salt, input, ret_text);
    salt_unref(salt);
    return st;
}

/* Life. */

static void device_free(struct audit_device *device)
{
    struct device *d = device_of(device);
    ASSERT(list_empty(&d->queue) && list_empty(&d->held));
    if (d->sink != NULL) {
        if (d->sink->wake_fd >= 0)
            (void)close(d->sink->wake_fd); /* nothing is buffered in it */
        d->sink->ops->free(d->sink);
    }
    for (size_t i = 0; i < ARRAY_LEN(d->texts); i++)
        mem_free(d->texts[i]);
    mem_free(d->path);
    mem_free(d->data_dir);
    mem_free(d->syslog_path);
    salt_unref(d->salt);
    crypto_sha256_free(d->hash);
    buf_done(&d->text);
    (void)pthread_cond_destroy(&d->changed);      /* no thread waits any more */
    (void)pthread_mutex_destroy(&d->lock);        /* no thread holds the lock any more */
    (void)pthread_mutex_destroy(&d->render_lock); /* no thread holds the lock any more */
    mem_free(d);
}

/* Copy a string that the options borrow; NULL stays NULL. */
static enum status keep(const char **text, char **ret_copy)
{
    if (*text == NULL)
        return ST_OK;
    *ret_copy = mem_strdup(*text);
    if (*ret_copy == NULL)
        return ST_NOMEM;
    *text = *ret_copy;
    return ST_OK;
}

static enum status keep_options(struct device *d, const struct audit_device_options *options)
{
    const char *path = options->path, *data_dir = options->data_dir;
    const char *syslog_path = options->syslog_path != NULL ? options->syslog_path : SYSLOG_PATH;
    struct audit_options *o = &d->options;
    *o = options->options;
    ASSERT(o->prefix != NULL && o->write_timeout_ms > 0);
    TRY(keep(&path, &d->path));
    TRY(keep(&data_dir, &d->data_dir));
    TRY(keep(&syslog_path, &d->syslog_path));
    TRY(keep(&o->file_path, &d->texts[0]));
    TRY(keep(&o->address, &d->texts[1]));
    TRY(keep(&o->tag, &d->texts[2]));
    return keep(&o->prefix, &d->texts[3]);
}

static enum status make_sink(struct device *d)
{
    const struct audit_options *o = &d->options;
    switch (o->type) {
    case AUDIT_FILE: TRY(sink_file_new(o, &d->sink)); break;
    case AUDIT_SOCKET: TRY(sink_socket_new(o, &d->sink)); break;
    case AUDIT_SYSLOG: TRY(sink_syslog_new(o, d->syslog_path, &d->sink)); break;
    }
    ASSERT(d->sink->options == o && d->sink->ops != NULL);
    d->sink->progress = &d->head.progress;
    d->sink->data_dir = d->data_dir;
    d->sink->chain = &d->chain;
    d->sink->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return d->sink->wake_fd >= 0 ? ST_OK : ST_NOMEM;
}

static enum status start_thread(struct device *d)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    ASSERT(d->sink != NULL && d->sink->wake_fd >= 0);
    (void)sigfillset(&all); /* cannot fail: valid pointer */
    if (pthread_attr_init(&attr) != 0)
        return ST_NOMEM;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* cannot fail: valid */
    /* only threads of loops handle signals; a file that reaches a limit of the process sends one */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* cannot fail: valid arguments */
    audit_device_ref(&d->head);                        /* the thread's reference */
    bool started = pthread_create(&thread, &attr, device_main, d) == 0;
    if (started)
        (void)pthread_setname_np(thread, "hf-audit"); /* the name of a thread is only a label */
    /* cannot fail: `before` came from the same function */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr); /* the thread has its own copy */
    if (!started)
        (void)atomic_fetch_sub(&d->head.refs, 1); /* the caller has the last one */
    return started ? ST_OK : ST_NOMEM;
}

static void init_locks(struct device *d)
{
    pthread_condattr_t attr;
    ASSERT(pthread_condattr_init(&attr) == 0);
    ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    ASSERT(pthread_cond_init(&d->changed, &attr) == 0);
    (void)pthread_condattr_destroy(&attr); /* the variable has its own copy */
    ASSERT(pthread_mutex_init(&d->lock, NULL) == 0);
    ASSERT(pthread_mutex_init(&d->render_lock, NULL) == 0);
}

enum status audit_device_new(const struct audit_device_options *options,
                             struct audit_device **ret_device)
{
    static const struct audit_device_ops ops = {.offer = device_offer,
                                                .flush = device_flush,
                                                .leave_out = device_leave_out,
                                                .state = device_state,
                                                .free = device_free};
    struct device *d = mem_zalloc(sizeof *d);
    ASSERT(options->path != NULL);
    if (d == NULL)
        return ST_NOMEM;
    d->head = (struct audit_device){
        .ops = &ops,
        .refs = 1,
        .deadline_ms = (uint32_t)MIN(options->options.write_timeout_ms, (int64_t)UINT32_MAX)};
    d->queue_max = options->queue_bytes_max != 0 ? options->queue_bytes_max : AUDIT_QUEUE_BYTES;
    list_init(&d->queue);
    list_init(&d->held);
    init_locks(d);
    d->head.deadline_ms = (uint32_t)options->options.write_timeout_ms;
    enum status st = keep_options(d, options);
    if (st == ST_OK)
        st = make_sink(d);
    if (st == ST_OK && d->options.hash_chain)
        st = crypto_sha256_new(&d->hash);
    if (st == ST_OK && options->salt != NULL)
        st = audit_device_salt(&d->head, options->salt);
    if (st == ST_OK)
        st = start_thread(d);
    if (st == ST_OK)
        *ret_device = &d->head;
    else
        audit_device_unref(&d->head);
    return st;
}
