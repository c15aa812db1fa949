/* Audit: a record of every request before it has any effect, and of every reply before it is sent
 * (PROTOCOL R20).
 *
 * A worker makes each record once and offers it to every device of the request's set. At least one
 * device must accept the record, else the request fails.
 *
 *                  offers                       every device has answered, or was left out
 *   audit_offer ───────────▶ waiting for devices ─────────────────────────────────────────▶ done
 *                                  │                                                        │
 *                                  │ deadline of a device: audit_device_leave_out           ▼
 *                                  └────────────────────────▶ waiting for the last offer ─▶ freed
 *
 * 1. `done` of an operation is called once, never from inside audit_offer.
 * 2. A device that does not answer before its deadline is left out: no operation of this worker
 *    waits for it any more. A device that got further meanwhile, with large records before this
 * one, gets another deadline, up to AUDIT_DEADLINES_MAX. The device takes no offers until it has
 * answered for all it holds.
 * 3. Devices are flushed at the end of the round of the worker's loop, or earlier after
 * AUDIT_FLUSH_REQUESTS: each flush wakes the thread of a device and, when it answers, the worker.
 * 4. The records and the set of an operation live until its last offer came back, so an operation
 *    may outlive its request.
 *
 * An audit belongs to one worker; it is used on that worker's thread alone. */
#ifndef HOLDFAST_AUDIT_AUDIT_H
#define HOLDFAST_AUDIT_AUDIT_H

#include "audit/audit_set.h"
#include "audit/audit_spare.h"
#include "audit/record.h"
#include "base/env.h"

enum {
    AUDIT_TOGETHER = 2,       /* most records that one operation offers */
    AUDIT_DEADLINE_MS = 2000, /* deadline of a device that states none */
    AUDIT_DEADLINES_MAX = 5,  /* of one record, while its device gets further */
    /* requests whose records wait for each other, so that a device wakes once for them: few enough
     * that devices and worker work at the same time */
    AUDIT_FLUSH_REQUESTS = 16
};

struct audit {
    struct env *env;
    struct audit_set *set; /* the set found last; NULL: none was found yet */
    uint64_t view;         /* state_view of the transaction that found `set`; 0: none */
    struct list waiting;   /* flights whose requests wait, oldest first */
    struct env_timer timer;
    struct env_task round; /* flushes the devices that took offers in this round of the loop */
    struct audit_device *unflushed[AUDIT_SET_MAX]; /* with a reference each */
    unsigned n_unflushed, requests_unflushed;
    struct audit_spare spare;
    unsigned outstanding; /* flights that a device has not given back */
    bool failing;         /* no device accepted the newest record */
    uint64_t failures;    /* records that no device accepted */
};

/* The operation of one request. Embedded; zero-initialise and set `done`. */
struct audit_op {
    /* ST_OK: for each record, a device accepted it. ST_IO: no device accepted one of the records.
     * Last touch. */
    void (*done)(struct audit_op *op, enum status st);
};

/* Without an operation under way. */
void audit_init(struct audit *audit, struct env *env);
/* No operation may wait, and no offer may be outstanding. No record is left that has memory of
 * `audit->spare`. */
void audit_done(struct audit *audit);

/* The devices for a request whose transaction is `txn`; NULL: it has none. The set is borrowed: it
 * may change with the next call. Statuses as audit_table.get. */
NODISCARD enum status audit_find(struct audit *audit, struct audit_table *table,
                                 struct state_txn *txn, struct audit_set **ret_set);

/* The worker has no request under way: keep no set, so that devices that were disabled close. */
void audit_rest(struct audit *audit);

/* Offer `n` records, in this order, to every device of the set. ST_OK: op->done follows. ST_IO:
 * every device refused at once. ST_NOMEM. */
NODISCARD enum status audit_offer(struct audit *audit, struct audit_set *set,
                                  struct audit_record *const records[], unsigned n,
                                  struct audit_op *op);

#endif
