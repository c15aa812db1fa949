/* The operations of a worker: records on their way to the devices. */
#include "audit/audit.h"
#include "audit/device.h"
#include "base/mem.h"
#include "base/trace.h"

/* One record offered to one device. */
struct slot {
    struct audit_offer offer;
    struct flight *flight;
    struct audit_device *device;
    unsigned record;   /* index of the record in the flight */
    unsigned renewed;  /* further deadlines that the device got */
    uint64_t until_ms; /* the deadline */
    uint64_t progress; /* of the device, when it got the deadline */
    bool settled;      /* the device has answered, refused, or was left out */
};

/* Records on their way. */
struct flight {
    struct audit *audit;
    struct audit_op *op;   /* NULL: the request does not wait any more */
    struct audit_set *set; /* NULL when `op` is NULL */
    struct list link;      /* in audit.waiting while `op` is set */
    struct audit_record *records[AUDIT_TOGETHER];
    unsigned accepted[AUDIT_TOGETHER]; /* devices that accepted each record */
    unsigned n_records;
    unsigned unsettled;   /* slots that the request waits for */
    unsigned outstanding; /* offers that devices hold */
    unsigned n;
    struct slot slots[];
};

static void on_deadline(struct env_timer *timer);
static void on_round_end(struct env_task *task);

void audit_init(struct audit *audit, struct env *env)
{
    *audit =
        (struct audit){.env = env, .timer = {.fire = on_deadline}, .round = {.run = on_round_end}};
    list_init(&audit->round.link);
    list_init(&audit->waiting);
}

/* Let the devices serve what they were offered. */
static void flush_all(struct audit *audit)
{
    audit->requests_unflushed = 0;
    while (audit->n_unflushed > 0) {
        struct audit_device *device = audit->unflushed[--audit->n_unflushed];
        audit_device_flush(device);
        audit_device_unref(device);
    }
}

static void on_round_end(struct env_task *task)
{
    flush_all(CONTAINER_OF(task, struct audit, round));
}

/* The device has an offer: flush the device at the end of the round at the latest. The reference
 * keeps the device if its offers are answered and its set is gone before. */
static void flush_later(struct audit *audit, struct audit_device *device)
{
    if (device->ops->flush == NULL)
        return;
    for (unsigned i = 0; i < audit->n_unflushed; i++)
        if (audit->unflushed[i] == device)
            return;
    if (audit->n_unflushed == AUDIT_SET_MAX)
        flush_all(audit); /* devices of several sets */
    if (list_empty(&audit->round.link))
        env_defer(audit->env, &audit->round);
    ASSERT(audit->n_unflushed < AUDIT_SET_MAX);
    audit_device_ref(device);
    audit->unflushed[audit->n_unflushed++] = device;
}

static void forget_set(struct audit *audit)
{
    audit_set_unref(audit->set);
    audit->set = NULL;
    audit->view = 0;
}

void audit_done(struct audit *audit)
{
    ASSERT(audit->outstanding == 0);
    ASSERT(list_empty(&audit->waiting));
    env_defer_cancel(&audit->round);
    flush_all(audit);
    env_timer_stop(audit->env, &audit->timer);
    forget_set(audit);
    audit_spare_done(&audit->spare);
}

/* A set without devices holds nothing open. It is kept: most nodes have no other. */
void audit_rest(struct audit *audit)
{
    if (audit->set != NULL && audit->set->n_uses != 0)
        forget_set(audit);
}

enum status audit_find(struct audit *audit, struct audit_table *table, struct state_txn *txn,
                       struct audit_set **ret_set)
{
    struct audit_set *set;
    uint64_t view = txn != NULL ? state_view(txn) : 0;
    if (view == 0 || view != audit->view) {
        TRY(table->get(table, txn, &set));
        ASSERT(set->n <= set->n_uses && set->n <= AUDIT_SET_MAX);
        audit_set_unref(audit->set);
        audit->set = set;
        audit->view = view;
    }
    ASSERT(audit->set != NULL);
    *ret_set = audit->set;
    return ST_OK;
}

static size_t flight_size(unsigned slots)
{
    return sizeof(struct flight) + slots * sizeof(struct slot);
}

static void flight_free(struct flight *f)
{
    ASSERT(f->op == NULL && f->outstanding == 0);
    f->audit->outstanding--;
    for (unsigned i = 0; i < f->n_records; i++)
        audit_record_unref(f->records[i]);
    audit_set_unref(f->set);
    audit_spare_give(&f->audit->spare, f, flight_size(f->n));
}

/* Log when recording begins to fail and when it works again. */
static void note_result(struct audit *audit, bool accepted)
{
    audit->failures += !accepted;
    if (audit->failing == !accepted)
        return;
    audit->failing = !accepted;
    if (accepted)
        trace(TRACE_WARN, "audit", "a device accepts records again");
    else
        trace(TRACE_ERROR, "audit", "no device accepts records: requests fail");
}

static bool all_accepted(const struct flight *f)
{
    for (unsigned i = 0; i < f->n_records; i++)
        if (f->accepted[i] == 0)
            return false;
    return true;
}

/* The request need not wait any more. May free the flight. A device that was left out may hold its
 * offer until it is closed, and it is closed when no set has it any more: so the flight drops its
 * set now. */
static void flight_end(struct flight *f)
{
    struct audit_op *op = f->op;
    bool accepted = all_accepted(f);
    ASSERT(op != NULL && f->unsettled == 0);
    ASSERT(f->n_records > 0 && f->n_records <= AUDIT_TOGETHER);
    f->op = NULL;
    list_remove(&f->link);
    audit_set_unref(f->set);
    f->set = NULL;
    note_result(f->audit, accepted);
    if (f->outstanding == 0)
        flight_free(f);
    op->done(op, accepted ? ST_OK : ST_IO);
}

static void on_offered(struct audit_offer *offer, enum status st)
{
    struct slot *slot = CONTAINER_OF(offer, struct slot, offer);
    struct flight *f = slot->flight;
    ASSERT(f->outstanding > 0);
    ASSERT(slot >= f->slots && slot < f->slots + f->n);
    f->outstanding--;
    if (!slot->settled) {
        ASSERT(f->op != NULL && f->unsettled > 0);
        slot->settled = true;
        f->unsettled--;
        f->accepted[slot->record] += st == ST_OK;
        if (f->unsettled == 0) {
            flight_end(f);
            return;
        }
    }
    if (f->outstanding == 0 && f->op == NULL)
        flight_free(f);
}

static void give_deadline(struct slot *slot, uint64_t now_ms)
{
    const struct audit_device *device = slot->device;
    slot->until_ms = now_ms + (device->deadline_ms != 0 ? device->deadline_ms : AUDIT_DEADLINE_MS);
    slot->progress = atomic_load_explicit(&device->progress, memory_order_relaxed);
}

/* A device that got further, with large records before this one, gets another deadline. */
static bool renew(struct slot *slot, uint64_t now_ms)
{
    uint64_t progress = atomic_load_explicit(&slot->device->progress, memory_order_relaxed);
    ASSERT(!slot->settled && slot->renewed < AUDIT_DEADLINES_MAX);
    if (progress == slot->progress || slot->renewed + 1 == AUDIT_DEADLINES_MAX)
        return false;
    slot->renewed++;
    give_deadline(slot, now_ms);
    return true;
}

/* Devices that were left out at one time. */
struct late {
    struct audit_device *devices[AUDIT_SET_MAX];
    unsigned n;
};

static bool is_late(const struct late *late, const struct audit_device *device)
{
    for (unsigned i = 0; i < late->n; i++)
        if (late->devices[i] == device)
            return true;
    return false;
}

/* Leave out the devices whose deadline for this flight has passed. */
static void find_late(struct flight *f, uint64_t now_ms, struct late *late)
{
    for (unsigned i = 0; i < f->n; i++) {
        struct slot *slot = &f->slots[i];
        struct audit_device *device = slot->device;
        if (slot->settled || now_ms < slot->until_ms || is_late(late, device) ||
            renew(slot, now_ms))
            continue;
        if (late->n == AUDIT_SET_MAX) /* devices of another set: the timer fires again for them */
            return;
        late->devices[late->n++] = device;
        audit_device_leave_out(device);
    }
}

/* Settle the slots of late devices. Returns when the flight has its next deadline. */
static uint64_t settle_late(struct flight *f, const struct late *late)
{
    uint64_t next_ms = UINT64_MAX;
    for (unsigned i = 0; i < f->n; i++) {
        struct slot *slot = &f->slots[i];
        if (slot->settled)
            continue;
        ASSERT(f->op != NULL);
        if (!is_late(late, slot->device)) {
            next_ms = MIN(next_ms, slot->until_ms);
            continue;
        }
        slot->settled = true;
        ASSERT(f->unsettled > 0);
        f->unsettled--;
    }
    return next_ms;
}

static void set_timer(struct audit *audit, uint64_t at_ms)
{
    if (audit->timer.slot == 0 || at_ms < audit->timer.at_ms)
        env_timer_set(audit->env, &audit->timer, at_ms);
}

/* A deadline may have passed. A device that is late for one operation is late for all: the others
 * of this worker do not wait for deadlines of their own. */
static void on_deadline(struct env_timer *timer)
{
    struct audit *audit = CONTAINER_OF(timer, struct audit, timer);
    uint64_t now_ms = env_mono_ms(audit->env), next_ms = UINT64_MAX;
    struct late late = {.n = 0};
    struct list ended, rest, *item;

    ASSERT(audit->timer.slot == 0);
    LIST_FOR (link, &audit->waiting)
        find_late(CONTAINER_OF(link, struct flight, link), now_ms, &late);
    list_init(&ended);
    list_init(&rest);
    while ((item = list_pop(&audit->waiting)) != NULL) {
        struct flight *f = CONTAINER_OF(item, struct flight, link);
        next_ms = MIN(next_ms, settle_late(f, &late));
        list_push(f->unsettled == 0 ? &ended : &rest, item);
    }
    list_splice(&audit->waiting, &rest);
    if (next_ms != UINT64_MAX)
        set_timer(audit, MAX(next_ms, now_ms + 1));
    while (!list_empty(&ended)) /* flight_end removes the first and may begin other flights */
        flight_end(CONTAINER_OF(ended.next, struct flight, link));
}

/* Offer one record to one device. */
static void offer_one(struct flight *f, struct slot *slot, bool needed, uint64_t now_ms)
{
    give_deadline(slot, now_ms);
    slot->offer = (struct audit_offer){.done = on_offered,
                                       .env = f->audit->env,
                                       .record = f->records[slot->record],
                                       .needed = needed};
    slot->settled = audit_device_offer(slot->device, &slot->offer) != ST_OK;
    f->outstanding += !slot->settled;
    f->unsettled += !slot->settled;
    if (!slot->settled)
        flush_later(f->audit, slot->device);
}

/* Offer each record to each device; first to those that do not rest. Returns the first deadline. */
static uint64_t offer_all(struct flight *f)
{
    uint64_t now_ms = env_mono_ms(f->audit->env), next_ms = UINT64_MAX;
    bool rests[AUDIT_SET_MAX] = {false}, any = false;
    ASSERT(f->n <= AUDIT_SET_MAX * f->n_records);
    for (unsigned i = 0; i < f->n; i += f->n_records) {
        const struct audit_device *device = f->slots[i].device;
        rests[i / f->n_records] = atomic_load_explicit(&device->rests, memory_order_relaxed);
        any = any || rests[i / f->n_records];
    }
    for (unsigned round = 0; round < 1u + any; round++) {
        bool needed = round == 1 && f->unsettled == 0;
        for (unsigned i = 0; i < f->n; i++) {
            if (rests[i / f->n_records] != (round == 1))
                continue;
            offer_one(f, &f->slots[i], needed, now_ms);
            if (!f->slots[i].settled)
                next_ms = MIN(next_ms, f->slots[i].until_ms);
        }
    }
    return next_ms;
}

static struct flight *flight_new(struct audit *audit, struct audit_set *set,
                                 struct audit_record *const records[], unsigned n)
{
    ASSERT(set->n <= AUDIT_SET_MAX && n <= AUDIT_TOGETHER);
    struct flight *f = audit_spare_take(&audit->spare, flight_size(set->n * n));
    if (f == NULL)
        return NULL;
    *f = (struct flight){.audit = audit, .n_records = n, .n = set->n * n};
    f->set = audit_set_ref(set);
    for (unsigned i = 0; i < n; i++)
        f->records[i] = audit_record_ref(records[i]);
    for (unsigned i = 0; i < f->n; i++)
        f->slots[i] = (struct slot){.flight = f, .device = set->devices[i / n], .record = i % n};
    audit->outstanding++;
    return f;
}

enum status audit_offer(struct audit *audit, struct audit_set *set,
                        struct audit_record *const records[], unsigned n, struct audit_op *op)
{
    ASSERT(n > 0 && n <= AUDIT_TOGETHER && op->done != NULL);
    ASSERT(set->n_uses != 0);
    struct flight *f = flight_new(audit, set, records, n);
    if (f == NULL)
        return ST_NOMEM;
    uint64_t next_ms = offer_all(f);
    if (f->unsettled == 0) {
        note_result(audit, false);
        flight_free(f);
        return ST_IO;
    }
    ASSERT(f->outstanding == f->unsettled);
    f->op = op;
    list_push(&audit->waiting, &f->link);
    if (++audit->requests_unflushed >= AUDIT_FLUSH_REQUESTS)
        flush_all(audit);
    set_timer(audit, next_ms);
    return ST_OK;
}
