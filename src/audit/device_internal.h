/* A device within its own files:
 *
 *   device_calls.c   calls of workers; how a device begins and ends
 *   device_late.c    the standing of a device: late, resting, failing
 *   device_thread.c  the thread of a device
 *
 * Locks: `render_lock` before `lock`. The thread calls the system with neither. While it renders it
 * reads the held offers under render_lock; audit_device_join takes them away with both locks. No
 * function that a worker calls takes render_lock. */
#ifndef HOLDFAST_AUDIT_DEVICE_INTERNAL_H
#define HOLDFAST_AUDIT_DEVICE_INTERNAL_H

#include "audit/device.h"
#include "audit/salt.h"
#include "audit/sink.h"
#include "base/trace.h"

#include <pthread.h>

struct device {
    struct audit_device head;
    char *path, *syslog_path, *texts[4]; /* copies of the options' strings */
    struct audit_places *places;
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

static inline struct device *device_of(struct audit_device *device)
{
    return CONTAINER_OF(device, struct device, head);
}

static inline void device_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex); /* cannot fail: default mutex, never held twice */
}

static inline void device_unlock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex); /* cannot fail: this thread holds the lock */
}

/* Post the results of offers, one task for each loop. No lock is held. */
void device_post(struct list *offers);

/* News of a change of standing: the functions below fill it while the lock is held, and
 * device_tell logs it without the lock. An empty text says nothing. */
struct device_news {
    enum trace_level level;
    char text[512];
};
void device_tell(const struct device_news *news);
void device_no_answer(const struct device *d, struct reason *ret_why);
/* The device is late from now on. The lock is held; the caller posts `dropped` without it. */
void device_be_late(struct device *d, const struct reason *why, struct device_news *news,
                    struct list *dropped);
/* Whether the device rests and does not take this offer. The first offer that it takes ends the
 * rest. The lock is held. */
bool device_refuses(struct device *d, const struct audit_offer *offer);
/* The thread has an answer. The lock is held. */
void device_take_result(struct device *d, enum status st, const struct reason *why,
                        struct device_news *news);

/* The salt with a reference for the caller; NULL: none. No lock is held. */
struct salt *device_take_salt(struct device *d);
/* The thread of the device at `arg`; it has a reference of its own. */
void *device_main(void *arg);

#endif
