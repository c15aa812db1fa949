/* Audit devices on virtual time, one or two for each machine. A device writes what it was offered
 * in batches that take a random time; it may hang, fail and recover. */
#include "trail.h"

#include "audit/audit.h"
#include "audit/device.h"
#include "base/buf.h"
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEADLINE_MS_MIN = 20, DEADLINE_MS_MAX = 400, LINES_AT_ONCE = 64 };

enum mode { WORKS, FAILS, HANGS };

/* An offer, and the line that it becomes. */
struct held {
    struct audit_offer *offer;
    uint64_t number;
    struct trail_line line;
};

struct device {
    struct audit_device head;
    struct node *node;
    unsigned index;
    enum mode mode;
    bool late, closed;
    struct held *held; /* oldest first */
    size_t n_held, n_writing;
    struct event written; /* the end of a batch */
    struct rng rng;
};

struct trail_devices {
    struct audit_table table;
    struct audit_set set;
    struct audit_use uses[TRAIL_DEVICES];
    struct device devices[TRAIL_DEVICES];
};

static struct device *device_of(struct audit_device *device)
{
    return CONTAINER_OF(device, struct device, head);
}

/* Copy the text that follows `name` in a record. */
static void take_member(const char *record, const char *name, char *ret_text, size_t size)
{
    const char *at = strstr(record, name);
    ASSERT(at != NULL);
    at += strlen(name);
    (void)snprintf(ret_text, size, "%.*s", (int)strcspn(at, "\""), at); /* cut: it is no id */
}

/* What the judge needs of a record. */
static void read_record(struct device *d, const struct audit_record *record, struct held *held)
{
    const struct audit_render how = {.raw = true};
    struct buf text = {0};
    char path[64];
    if (audit_record_render(record, &how, &text) != ST_OK)
        core_fail(d->node->cluster->core, "%s: a record cannot be rendered", d->node->name);
    buf_add_u8(&text, 0);
    const char *json = (const char *)text.data;
    take_member(json, "\"id\":\"", held->line.id, sizeof held->line.id);
    take_member(json, "\"path\":\"sim/", path, sizeof path);
    const char *number = strchr(path, '/');
    ASSERT(number != NULL);
    held->number = strtoull(number + 1, NULL, 10);
    held->line.reply = strstr(json, "\"type\":\"response\"") != NULL;
    ASSERT(held->line.reply || strstr(json, "\"type\":\"request\"") != NULL);
    held->line.slot = d->node->slot;
    held->line.process = d->node->process;
    held->line.device = d->index;
    buf_done(&text);
}

static void answer(struct env_task *task)
{
    struct audit_offer *offer = CONTAINER_OF(task, struct audit_offer, task);
    offer->done(offer, offer->st);
}

/* Write the first `n` lines of the batch. */
static void write_lines(struct device *d, size_t n)
{
    struct cluster *c = d->node->cluster;
    for (size_t i = 0; i < n; i++) {
        d->held[i].line.at_ns = c->core->now_ns;
        core_note(c->core, hash_mix(d->held[i].number, d->node->slot));
        trail_add_line(trails_log(c), d->held[i].number, &d->held[i].line);
    }
}

static void answer_later(struct audit_offer *offer, enum status st)
{
    offer->st = st;
    offer->task.run = answer;
    env_post(offer->env, &offer->task);
}

/* Give the first `n` offers back, of which `written` are written. */
static void give_back(struct device *d, size_t n, size_t written, enum status st)
{
    for (size_t i = 0; i < n; i++)
        answer_later(d->held[i].offer, i < written ? ST_OK : st);
    d->n_held -= n;
    if (d->n_held != 0)
        memmove(d->held, d->held + n, d->n_held * sizeof *d->held);
    d->late = d->late && d->n_held != 0;
}

static void begin_batch(struct device *d)
{
    d->n_writing = MIN(d->n_held, (size_t)LINES_AT_ONCE);
    uint64_t slow = rng_chance(&d->rng, 50) ? 100 * (uint64_t)SIM_MS : 2 * (uint64_t)SIM_MS;
    if (d->n_writing != 0)
        core_after(d->node->cluster->core, &d->written, rng_between(&d->rng, 20 * SIM_US, slow));
}

static enum status device_offer(struct audit_device *device, struct audit_offer *offer)
{
    struct device *d = device_of(device);
    if (d->closed)
        return ST_CLOSED;
    if (d->late)
        return ST_BUSY;
    struct held held = {.offer = offer};
    read_record(d, offer->record, &held);
    d->held = sim_grow(d->held, (d->n_held + 1) * sizeof *d->held);
    d->held[d->n_held++] = held;
    if (d->n_writing == 0)
        begin_batch(d);
    return ST_OK;
}

/* A device that is late may drop the newest offers: it keeps what its queue holds. */
static void device_leave_out(struct audit_device *device)
{
    struct device *d = device_of(device);
    d->late = d->n_held != 0;
    d->node->cluster->tally.reached[REACH_AUDIT_LATE] += d->late;
    bool full = rng_chance(&d->rng, 300);
    while (full && d->n_held > d->n_writing)
        answer_later(d->held[--d->n_held].offer, ST_BUSY);
}

static void device_state(struct audit_device *device, struct audit_device_state *ret_state)
{
    const struct device *d = device_of(device);
    *ret_state = (struct audit_device_state){.standing = d->late            ? AUDIT_LATE
                                                         : d->mode == FAILS ? AUDIT_FAILING
                                                                            : AUDIT_OK};
}

static void device_free(struct audit_device *device)
{
    (void)device;
    abort(); /* the machine holds a reference */
}

static const struct audit_device_ops device_ops = {.offer = device_offer,
                                                   .leave_out = device_leave_out,
                                                   .state = device_state,
                                                   .free = device_free};

static void on_written(struct event *event)
{
    struct device *d = CONTAINER_OF(event, struct device, written);
    size_t n = d->n_writing, written = d->mode == WORKS ? n : rng_below(&d->rng, n + 1);
    if (d->mode == HANGS) /* until the mode changes */
        return;
    d->n_writing = 0;
    write_lines(d, written);
    give_back(d, n, written, ST_IO);
    begin_batch(d);
}

void trail_devices_drop(struct trail_devices *devices)
{
    for (unsigned i = 0; devices != NULL && i < devices->set.n; i++) {
        struct device *d = &devices->devices[i];
        core_cancel(d->node->cluster->core, &d->written);
        if (d->mode != FAILS)
            write_lines(d, rng_below(&d->rng, d->n_writing + 1));
        d->n_held = d->n_writing = 0;
    }
}

void trail_devices_open(struct trail_devices *devices)
{
    devices->set.refs = 1; /* an earlier process took its references along */
    for (unsigned i = 0; i < devices->set.n; i++) {
        struct device *d = &devices->devices[i];
        ASSERT(d->n_held == 0 && d->written.slot == 0);
        d->late = d->closed = false;
    }
}

void trail_devices_close(struct trail_devices *devices)
{
    for (unsigned i = 0; i < devices->set.n; i++) {
        struct device *d = &devices->devices[i];
        d->closed = true;
        core_cancel(d->node->cluster->core, &d->written);
        size_t written = d->mode == WORKS ? d->n_writing : 0;
        d->n_writing = 0;
        write_lines(d, written);
        give_back(d, d->n_held, written, ST_CLOSED);
    }
}

static void set_mode(struct device *d, enum mode mode)
{
    bool hung = d->mode == HANGS && mode != HANGS;
    if (d->mode != mode)
        core_say(d->node->cluster->core, "%s: audit device %u %s", d->node->name, d->index,
                 mode == WORKS   ? "works"
                 : mode == FAILS ? "fails"
                                 : "hangs");
    d->mode = mode;
    if (hung && d->n_writing != 0 && d->written.slot == 0)
        core_after(d->node->cluster->core, &d->written, rng_between(&d->rng, 1, SIM_MS));
}

void trail_devices_mute(struct trail_devices *devices)
{
    for (unsigned i = 0; i < devices->set.n; i++)
        set_mode(&devices->devices[i], FAILS);
}

bool trail_devices_are_mute(struct trail_devices *devices)
{
    for (unsigned i = 0; i < devices->set.n; i++) {
        struct audit_device_state state;
        audit_device_state(&devices->devices[i].head, &state);
        if (state.standing == AUDIT_OPENING || state.standing == AUDIT_OK)
            return false;
    }
    return true;
}

void trail_devices_fault(struct trail_devices *devices, struct rng *r, bool faults)
{
    bool all = rng_chance(r, 300);
    enum mode mode = !faults ? WORKS : rng_chance(r, 500) ? FAILS : HANGS;
    unsigned one = (unsigned)rng_below(r, devices->set.n);
    for (unsigned i = 0; i < devices->set.n; i++)
        if (!faults || all || i == one)
            set_mode(&devices->devices[i], mode);
}

static enum status table_get(struct audit_table *table, struct state_txn *txn,
                             struct audit_set **ret_set)
{
    (void)txn; /* the devices of the configuration file are in every version */
    *ret_set = audit_set_ref(&CONTAINER_OF(table, struct trail_devices, table)->set);
    return ST_OK;
}

static void set_release(struct audit_set *set)
{
    (void)set;
    abort(); /* the machine holds a reference */
}

struct audit_table *trail_devices_table(struct trail_devices *devices)
{
    return &devices->table;
}

struct trail_devices *trail_devices_new(struct node *n)
{
    struct trail_devices *devices = sim_alloc(sizeof *devices);
    struct rng all = rng_make(n->cluster->core->seed, 0xA0D16); /* the same for every node */
    unsigned n_devices = rng_chance(&all, 300) ? 1 : TRAIL_DEVICES;
    *devices = (struct trail_devices){.table = {.get = table_get}};
    devices->set =
        (struct audit_set){.refs = 1, .release = set_release, .n_uses = n_devices, .n = n_devices};
    for (unsigned i = 0; i < devices->set.n; i++) {
        struct device *d = &devices->devices[i];
        *d = (struct device){
            .head = {.ops = &device_ops, .refs = 1},
            .node = n,
            .index = i,
            .written = {.fire = on_written},
            .rng = rng_make(n->cluster->core->seed, 0xA0D17 + n->slot * TRAIL_DEVICES + i)};
        d->head.deadline_ms = (uint32_t)rng_between(&d->rng, DEADLINE_MS_MIN, DEADLINE_MS_MAX);
        devices->uses[i] = (struct audit_use){.device = &d->head, .path = "sim/", .type = "sim"};
        devices->set.uses[i] = &devices->uses[i];
        devices->set.devices[i] = &d->head;
    }
    return devices;
}
