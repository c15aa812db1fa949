/* Audit devices for tests: they hold what they are offered until the test lets them answer. A table
 * gives every request one set of them. */
#ifndef HOLDFAST_TESTS_UNIT_AUDIT_FAKE_DEVICES_H
#define HOLDFAST_TESTS_UNIT_AUDIT_FAKE_DEVICES_H

#include "support.h"

#include "audit/audit.h"
#include "audit/device.h"
#include "base/mem.h"

enum { FAKE_DEVICES = 4, FAKE_LINES = 64 };

struct fake_device {
    struct audit_device device;
    struct audit_offer *held[FAKE_LINES]; /* not answered yet, oldest first */
    unsigned n_held;
    char *lines[FAKE_LINES]; /* rendered in clear, with accessors and tokens */
    unsigned n_lines;
    bool blind; /* keep no lines: the test lets allocations fail */
    unsigned dropped, left_out, flushed;
    bool late;
    bool holds;                      /* the test answers; else an answer is posted at once */
    enum status results[FAKE_LINES]; /* of the answers that are posted, in order */
    unsigned n_answers;
    void (*on_offer)(struct fake_device *d); /* NULL: nothing */
    struct hmac *salt;                       /* NULL: lines are in clear */
    struct env_task task;
};

struct fake_devices {
    struct audit_table table;
    struct audit_set set;
    struct audit_use uses[FAKE_DEVICES];
    struct fake_device devices[FAKE_DEVICES];
    enum status get_status;
    unsigned gets;
};

static inline void fake_answer(struct fake_device *d, enum status st)
{
    struct audit_offer *offer = d->held[0];
    assert_true(d->n_held > 0);
    memmove(d->held, d->held + 1, --d->n_held * sizeof d->held[0]);
    if (d->n_held == 0)
        d->late = false;
    offer->done(offer, st);
}

static inline void fake_answer_all(struct env_task *task)
{
    struct fake_device *d = CONTAINER_OF(task, struct fake_device, task);
    while (d->n_held > 0)
        fake_answer(d, d->results[d->n_answers++ % FAKE_LINES]);
}

static inline enum status fake_offer(struct audit_device *device, struct audit_offer *offer)
{
    struct fake_device *d = CONTAINER_OF(device, struct fake_device, device);
    struct audit_render how = {.raw = d->salt == NULL, .salt = d->salt, .hmac_accessor = true};
    struct buf line = {0};
    if (d->late || (device->rests && !offer->needed)) {
        d->dropped++;
        return ST_BUSY;
    }
    assert_true(d->n_lines < FAKE_LINES && d->n_held < FAKE_LINES);
    if (!d->blind) {
        assert_status(audit_record_render(offer->record, &how, &line), ST_OK);
        buf_add_u8(&line, 0);
    }
    d->lines[d->n_lines++] = (char *)line.data;
    d->held[d->n_held++] = offer;
    if (d->on_offer != NULL)
        d->on_offer(d);
    if (!d->holds && d->n_held == 1) {
        d->task.run = fake_answer_all;
        env_post(offer->env, &d->task);
    }
    return ST_OK;
}

static inline void fake_leave_out(struct audit_device *device)
{
    struct fake_device *d = CONTAINER_OF(device, struct fake_device, device);
    d->left_out++;
    d->late = d->n_held > 0;
}

/* For a test that sets it: without it, no device is flushed. */
static inline void fake_flush(struct audit_device *device)
{
    CONTAINER_OF(device, struct fake_device, device)->flushed++;
}

static inline enum status fake_get(struct audit_table *table, struct state_txn *txn,
                                   struct audit_set **ret_set)
{
    struct fake_devices *f = CONTAINER_OF(table, struct fake_devices, table);
    (void)txn;
    f->gets++;
    if (f->get_status != ST_OK)
        return f->get_status;
    *ret_set = audit_set_ref(&f->set);
    return ST_OK;
}

static inline void fake_released(struct audit_set *set)
{
    (void)set;
    fail_msg("the test still holds the set");
}

/* `n` devices that accept everything. */
static inline void fake_devices_init(struct fake_devices *f, unsigned n)
{
    static const struct audit_device_ops ops = {.offer = fake_offer, .leave_out = fake_leave_out};
    *f = (struct fake_devices){.table = {.get = fake_get}};
    f->set = (struct audit_set){.refs = 1, .release = fake_released, .n_uses = n, .n = n};
    for (unsigned i = 0; i < n; i++) {
        f->devices[i].device = (struct audit_device){.ops = &ops, .refs = 1};
        f->set.devices[i] = &f->devices[i].device;
        f->set.uses[i] = &f->uses[i];
    }
}

static inline void fake_forget_lines(struct fake_device *d)
{
    for (unsigned i = 0; i < d->n_lines; i++)
        mem_free(d->lines[i]);
    d->n_lines = 0;
}

/* Everything was answered and released. */
static inline void fake_devices_done(struct fake_devices *f)
{
    for (unsigned i = 0; i < f->set.n; i++) {
        fake_forget_lines(&f->devices[i]);
        assert_int_equal(f->devices[i].n_held, 0);
        hmac_free(f->devices[i].salt);
    }
    assert_int_equal(f->set.refs, 1);
}

#endif
