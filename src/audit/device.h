/* An audit device: a thread with a queue before a file, a socket or syslog.
 *
 * Workers offer records, and flush at the end of a round of their loop; the thread takes all that
 * waits, renders each record with the device's own salt, writes all with one write, and posts each
 * result to the loop of its worker. A device that
 * hangs holds up no other device: a worker waits for its deadline, and then leaves the device out.
 *
 * A device is
 *   AUDIT_OPENING  the thread opens the sink for the first time
 *   AUDIT_OK       the sink is open, and the last write succeeded
 *   AUDIT_FAILING  the last write or open failed. Each batch tries again, and is answered at once;
 *                  without records the thread tries to open the sink every second.
 *   AUDIT_LATE     left out: the thread holds records that it could not write in time. The device
 *                  takes no offers until its thread has an answer for all it holds, and keeps
 *                  queue_bytes_max at most: the newest offers beyond are answered with ST_BUSY.
 *   AUDIT_RESTING  the thread has an answer for all it held, but the device was late more than
 *                  AUDIT_LATES_MAX times in a row, each time less than AUDIT_REST_MAX_MS after it
 *                  had come back: with every return a request would wait for it. It takes offers
 *                  that no other device takes, which ends the rest. The first rest has twice the
 *                  write_timeout, each further one twice the one before, AUDIT_REST_MAX_MS at most.
 *
 * A device that is not late takes every offer. The memory belongs to requests that wait for their
 * answers, and the number of requests is bounded.
 *
 * Each change is logged once.
 *
 * 1. `done` of an accepted offer is called once, on the loop of offer->env, never from inside
 *    audit_device_offer. The record and the offer stay valid until then.
 * 2. A line is written as a whole or not at all, as far as the receiver allows: a file is cut back
 * to its last whole line, a stream that ended within a line is not continued.
 * 3. Records of one worker are written in the order of the offers.
 *
 * A device is reference counted. Tests and the simulator may bring devices of their own: a struct
 * that begins with struct audit_device. */
#ifndef HOLDFAST_AUDIT_DEVICE_H
#define HOLDFAST_AUDIT_DEVICE_H

#include "audit/places.h"
#include "audit/record.h"
#include "base/env.h"

#include <stdatomic.h>

struct audit_device;

/* A record offered to one device. Embedded in the operation of its worker; set the members
 * before those that are private. */
struct audit_offer {
    void (*done)(struct audit_offer *offer, enum status st); /* ST_OK: the record is written */
    struct env *env;
    struct audit_record *record;
    bool needed; /* no other device takes the record: a device that rests takes it */
    /* Private to the device until `done`. */
    struct env_task task;
    struct list link;
    enum status st;
    size_t bytes; /* counted for the record */
};

enum audit_standing { AUDIT_OPENING, AUDIT_OK, AUDIT_FAILING, AUDIT_LATE, AUDIT_RESTING };

enum { AUDIT_LATES_MAX = 2, AUDIT_REST_MAX_MS = 60000 };

struct audit_device_state {
    enum audit_standing standing;
    struct reason why; /* of AUDIT_FAILING, AUDIT_LATE and AUDIT_RESTING */
    uint64_t records, bytes, writes, failures, dropped, rotations; /* since the device began */
    uint64_t queued_bytes;                                         /* of records that wait */
};

struct audit_device_ops {
    enum status (*offer)(struct audit_device *device, struct audit_offer *offer);
    void (*leave_out)(struct audit_device *device);
    void (*flush)(struct audit_device *device); /* NULL: no offer waits for it */
    void (*state)(struct audit_device *device, struct audit_device_state *ret_state);
    void (*free)(struct audit_device *device); /* the last reference is gone */
};

struct audit_device {
    const struct audit_device_ops *ops;
    _Atomic unsigned refs;
    /* How long a worker waits for the answer to an offer before it leaves the device out. 0:
     * AUDIT_DEADLINE_MS. */
    uint32_t deadline_ms;
    /* Moves whenever the device got further: a worker that sees it move waits for longer. */
    _Atomic uint64_t progress;
    /* The device may be at rest: a worker offers it a record last, when it knows whether the record
     * is needed. */
    _Atomic bool rests;
};

static inline void audit_device_ref(struct audit_device *device)
{
    (void)atomic_fetch_add(&device->refs, 1); /* the earlier count does not matter */
}

/* A device of audit_device_new must be closed before its last reference goes. NULL is allowed. */
static inline void audit_device_unref(struct audit_device *device)
{
    if (device != NULL && atomic_fetch_sub(&device->refs, 1) == 1)
        device->ops->free(device);
}

/* Any thread. ST_OK: `done` follows, after audit_device_flush. ST_BUSY: the device is late or
 * rests; the record is counted as dropped. ST_CLOSED. After either, `done` is not called. */
NODISCARD static inline enum status audit_device_offer(struct audit_device *device,
                                                       struct audit_offer *offer)
{
    return device->ops->offer(device, offer);
}

/* Serve the offers that were accepted. An offer may wait for this call, so that the thread wakes
 * once for many. Any thread. */
static inline void audit_device_flush(struct audit_device *device)
{
    if (device->ops->flush != NULL)
        device->ops->flush(device);
}

/* Take no further offers until the thread has an answer for all it holds. A device that holds
 * nothing stays as it is. Any thread. */
static inline void audit_device_leave_out(struct audit_device *device)
{
    device->ops->leave_out(device);
}

/* Any thread. */
static inline void audit_device_state(struct audit_device *device,
                                      struct audit_device_state *ret_state)
{
    device->ops->state(device, ret_state);
}

enum { AUDIT_QUEUE_BYTES = 64 << 20, AUDIT_SALT_BYTES = 32 };

struct audit_device_options {
    const char *path; /* the device's path in the API, "file/" */
    struct audit_options options;
    const uint8_t *salt;               /* AUDIT_SALT_BYTES; NULL: see audit_device_salt */
    const struct audit_places *places; /* where a file may lie; NULL: no file */
    uint64_t queue_bytes_max;          /* of a device that is late; 0: AUDIT_QUEUE_BYTES */
    const char *syslog_path;           /* NULL: /dev/log */
};

/* Start a device: its thread opens the sink. Strings are copied. The caller
 * has one reference. ST_NOMEM, also when the system has no thread; ST_CRYPTO. */
NODISCARD enum status audit_device_new(const struct audit_device_options *options,
                                       struct audit_device **ret_device);

/* The functions below are for devices of audit_device_new alone. */

/* Set the salt for batches that are rendered from now on; NULL: the device has none, and what needs
 * an HMAC is written as "". The earlier salt is wiped behind the batch in work. ST_NOMEM,
 * ST_CRYPTO: the device has no salt. Any thread; waits for no batch. */
NODISCARD enum status audit_device_salt(struct audit_device *device, const uint8_t *salt);

/* Open the file or connection anew before the next write, as after SIGHUP. Any thread. */
void audit_device_reopen(struct audit_device *device);

/* Take no more offers. The thread writes what is queued, within one write_timeout where the system
 * allows, answers the rest with ST_CLOSED, and ends. Returns at once. Any thread; repeatable. */
void audit_device_close(struct audit_device *device);

/* Whether the thread of a closed device has ended. Any thread. */
bool audit_device_is_over(struct audit_device *device);
/* Wait for the thread of a closed device, for the end of the process. False: the thread still hangs
 * in a call of the system; then every offer it holds is answered with ST_CLOSED here, and the
 * thread is left behind. */
bool audit_device_join(struct audit_device *device, int64_t timeout_ms);

/* The text that stands for `input` in this device's lines. Any thread; waits for no batch.
 * ST_NOT_FOUND: the device has no salt; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status audit_device_hash(struct audit_device *device, struct bytes input,
                                        char ret_text[AUDIT_HMAC_LEN + 1]);

/* Open the sink and write one record, for the enabling of a device. Blocks up to write_timeout:
 * never on a loop. ST_INVALID with a reason that names the sink and the cause; ST_NOMEM,
 * ST_CRYPTO. */
NODISCARD enum status audit_device_try(const struct audit_device_options *options,
                                       struct audit_record *record, struct reason *why);

#endif
