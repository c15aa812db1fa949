/* The calls of workers for a device and its queue; how a device begins and ends. */
#include "audit/device_internal.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SYSLOG_PATH "/dev/log"

/* Wake the thread, also out of a wait of its sink. The lock is held. */
static void wake(struct device *d)
{
    uint64_t one = 1;
    (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
    ssize_t n = write(d->sink->wake_fd, &one, sizeof one);
    ASSERT(n == (ssize_t)sizeof one || errno == EAGAIN);
}

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

void device_post(struct list *offers)
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
    device_lock(&d->lock);
    if (d->closing)
        st = ST_CLOSED;
    else if (d->late || device_refuses(d, offer))
        st = ST_BUSY;
    d->dropped += st == ST_BUSY;
    if (st == ST_OK)
        enqueue(d, offer);
    device_unlock(&d->lock);
    return st;
}

static void device_flush(struct audit_device *device)
{
    struct device *d = device_of(device);
    device_lock(&d->lock);
    d->flushed = !list_empty(&d->queue);
    bool asleep = d->flushed && d->sleeping;
    if (asleep)
        d->sleeping = false; /* one signal is enough until it sleeps again */
    device_unlock(&d->lock);
    if (asleep)
        (void)pthread_cond_broadcast(&d->changed); /* cannot fail: the variable is initialised */
}

static void device_leave_out(struct audit_device *device)
{
    struct device *d = device_of(device);
    struct device_news news = {.text = ""};
    struct list dropped;
    struct reason why;
    list_init(&dropped);
    device_no_answer(d, &why);
    device_lock(&d->lock);
    if (!list_empty(&d->queue) || !list_empty(&d->held))
        device_be_late(d, &why, &news, &dropped);
    device_unlock(&d->lock);
    device_tell(&news);
    device_post(&dropped);
}

static void device_state(struct audit_device *device, struct audit_device_state *ret_state)
{
    struct device *d = device_of(device);
    device_lock(&d->lock);
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
    device_unlock(&d->lock);
}

void audit_device_reopen(struct audit_device *device)
{
    struct device *d = device_of(device);
    device_lock(&d->lock);
    d->reopen = !d->closing;
    wake(d);
    device_unlock(&d->lock);
}

void audit_device_close(struct audit_device *device)
{
    struct device *d = device_of(device);
    device_lock(&d->lock);
    if (!d->closing) {
        d->closing = true;
        d->reopen = false;
        d->closing_ms = sink_now_ms();
        atomic_store(&d->sink->ends_ms, d->closing_ms + d->options.write_timeout_ms);
        wake(d);
    }
    device_unlock(&d->lock);
}

bool audit_device_is_over(struct audit_device *device)
{
    struct device *d = device_of(device);
    device_lock(&d->lock);
    ASSERT(d->closing);
    bool over = d->over;
    device_unlock(&d->lock);
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
    device_lock(&d->lock);
    ASSERT(d->closing);
    bool over = await_end(d, timeout_ms);
    device_unlock(&d->lock);
    if (over)
        return true;
    device_lock(&d->render_lock); /* not while it renders */
    device_lock(&d->lock);
    list_splice(&offers, &d->held);
    list_splice(&offers, &d->queue);
    d->queued_bytes = d->held_bytes = 0;
    set_all(&offers, ST_CLOSED);
    over = d->over;
    device_unlock(&d->lock);
    device_unlock(&d->render_lock);
    device_post(&offers);
    return over;
}

enum status audit_device_salt(struct audit_device *device, const uint8_t *salt)
{
    struct device *d = device_of(device);
    struct salt *new = NULL;
    enum status st = salt != NULL ? salt_new(salt, &new) : ST_OK;
    device_lock(&d->lock);
    struct salt *old = d->salt;
    ASSERT((new != NULL) == (st == ST_OK && salt != NULL));
    d->salt = new;
    device_unlock(&d->lock);
    salt_unref(old);
    return st;
}

enum status audit_device_hash(struct audit_device *device, struct bytes input,
                              char ret_text[AUDIT_HMAC_LEN + 1])
{
    struct salt *salt = device_take_salt(device_of(device));
    enum status st = salt_hash(salt, input, ret_text);
    salt_unref(salt);
    return st;
}

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
    mem_free(d->places);
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
    const char *path = options->path;
    const char *syslog_path = options->syslog_path != NULL ? options->syslog_path : SYSLOG_PATH;
    struct audit_options *o = &d->options;
    *o = options->options;
    ASSERT(o->prefix != NULL && o->write_timeout_ms > 0);
    TRY(keep(&path, &d->path));
    TRY(audit_places_dup(options->places, &d->places));
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
    d->sink->places = d->places;
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
