/* The test record of a device that is being enabled: a device of its own, with an env that runs the
 * result on the device's thread. */
#include "audit/device.h"

#include <pthread.h>
#include <time.h>

struct trial {
    struct audit_offer offer;
    struct env env;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    enum status st;
};

static void run_at_once(struct env *env, struct env_task *task)
{
    (void)env;
    task->run(task);
}

static void on_done(struct audit_offer *offer, enum status st)
{
    struct trial *t = CONTAINER_OF(offer, struct trial, offer);
    (void)pthread_mutex_lock(&t->lock); /* cannot fail: default mutex */
    t->done = true;
    t->st = st;
    (void)pthread_cond_signal(&t->changed); /* cannot fail: the variable is initialised */
    (void)pthread_mutex_unlock(&t->lock);   /* cannot fail: this thread holds the lock */
}

/* Wait for the result. False: not within the time. */
static bool await_result(struct trial *t, int64_t timeout_ms)
{
    struct timespec until;
    ASSERT(timeout_ms > 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail: the kernel has the clock */
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&t->lock); /* cannot fail: default mutex */
    while (!t->done && pthread_cond_timedwait(&t->changed, &t->lock, &until) == 0)
        continue;
    bool done = t->done;
    (void)pthread_mutex_unlock(&t->lock); /* cannot fail: this thread holds the lock */
    return done;
}

static void trial_init(struct trial *t, struct audit_record *record)
{
    static const struct env_ops ops = {.post = run_at_once};
    pthread_condattr_t attr;
    *t = (struct trial){.env.ops = &ops, .st = ST_TIMEOUT};
    t->offer = (struct audit_offer){.done = on_done, .env = &t->env, .record = record};
    ASSERT(pthread_condattr_init(&attr) == 0);
    ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    ASSERT(pthread_cond_init(&t->changed, &attr) == 0);
    (void)pthread_condattr_destroy(&attr); /* the variable has its own copy */
    ASSERT(pthread_mutex_init(&t->lock, NULL) == 0);
}

enum status audit_device_try(const struct audit_device_options *options,
                             struct audit_record *record, struct reason *why)
{
    struct audit_device *device = NULL;
    struct audit_device_state state;
    struct trial t;
    TRY(audit_device_new(options, &device));
    trial_init(&t, record);
    /* refused if the thread found at once that the device does not answer */
    bool offered = audit_device_offer(device, &t.offer) == ST_OK;
    audit_device_flush(device);
    bool answered = offered && await_result(&t, options->options.write_timeout_ms);
    audit_device_state(device, &state);
    if (!answered)
        audit_device_leave_out(device); /* the close then waits for no further write */
    audit_device_close(device);
    bool over = audit_device_join(device, answered ? options->options.write_timeout_ms : 0);
    (void)over; /* a thread that hangs is left behind */
    while (offered && !await_result(&t, 1000))
        continue; /* the thread has the result and is about to post it */
    audit_device_unref(device);
    (void)pthread_cond_destroy(&t.changed); /* no thread waits any more */
    (void)pthread_mutex_destroy(&t.lock);   /* no thread holds the lock any more */
    if (answered && t.st == ST_OK)
        return ST_OK;
    if (state.why.text[0] != '\0')
        *why = state.why;
    else
        reason_set(why, "%s: no answer within %lld ms",
                   options->options.file_path != NULL ? options->options.file_path : "device",
                   (long long)options->options.write_timeout_ms);
    return ST_INVALID;
}
