/* What the sites do by themselves: writes on every primary, and the duties of each active node. The
 * rule for duties is the program's own (src/node/duty.h). */
#include "pair.h"

#include "node/duty.h"
#include "state/following.h"
#include "state/state_core.h"
#include "state/state_dr.h"

#include <inttypes.h>
#include <stdio.h>

enum { OPS_MAX = 5, KEYS = 30, VALUE_MAX = 300, WRITE_MS_MAX = 40, DUTY_MS_MAX = 300 };

struct acked {
    uint64_t epoch, number, version;
};

/* The load of one site. */
struct load {
    struct event write_tick, duty_tick;
    struct pair_call write, duty;
    struct cluster *site;
    struct rng rng;
    uint64_t seed;   /* of the write under way */
    uint64_t number; /* of the write under way */
    uint64_t epoch;  /* of the write under way */
    unsigned duty_next;
    bool settled;        /* the keys need no renewal */
    uint64_t settled_at; /* version at which the secondary had renewed its keys */
};

struct pair_load {
    struct load sites[SITES];
    struct acked *acked;
    size_t n, cap;
    uint64_t numbers;
    bool stopped;
};

/* Writes. */

static struct bytes ledger_key(char room[64], uint64_t epoch, uint64_t number)
{
    int len = snprintf(room, 64, "s/ledger/%06" PRIu64 "/%08" PRIu64, epoch, number);
    return bytes_of(room, (size_t)len);
}

static enum status stage_one(struct state_txn *txn, struct rng *r)
{
    uint8_t value[VALUE_MAX];
    char room[64];
    uint64_t folder = rng_below(r, 3), key = rng_below(r, KEYS), what = rng_below(r, 100);
    size_t n = rng_between(r, 1, sizeof value);
    int len = snprintf(room, sizeof room, "s/load/%" PRIu64 "/%" PRIu64 "/%" PRIu64, folder,
                       key / 6, key);
    if (what < 4)
        return state_delete_prefix(txn, bytes_of(room, sizeof "s/load/0/" - 1));
    if (what < 12)
        return state_delete_prefix(txn, bytes_of(room, sizeof "s/load/0/0/" - 1));
    if (what < 40)
        return state_delete(txn, bytes_of(room, (size_t)len));
    memset(value, (int)rng_below(r, 256), n);
    return state_put(txn, bytes_of(room, (size_t)len), bytes_of(value, n));
}

static enum status stage_write(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct load *l = CONTAINER_OF(call, struct load, write);
    struct rng r = rng_make(l->seed, 0x3017E);
    struct dr_role role;
    char room[64];
    (void)now_ms;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_PRIMARY || role.phase != DR_PHASE_RUNNING)
        return ST_INVALID;
    l->epoch = role.epoch;
    for (uint64_t ops = rng_below(&r, OPS_MAX); ops > 0; ops--)
        TRY(stage_one(txn, &r));
    return state_put_raw(txn, ledger_key(room, l->epoch, l->number), BYTES("written"));
}

static void on_written(struct pair_call *call, enum status st)
{
    struct load *l = CONTAINER_OF(call, struct load, write);
    struct pair_load *all = l->site->pair->load;
    if (st != ST_OK)
        return;
    l->site->tally.ops_ok++;
    if (all->n == all->cap) {
        all->cap = all->cap != 0 ? all->cap * 2 : 256;
        all->acked = sim_grow(all->acked, all->cap * sizeof *all->acked);
    }
    all->acked[all->n++] = (struct acked){l->epoch, l->number, call->version};
}

static void on_write_tick(struct event *event)
{
    struct load *l = CONTAINER_OF(event, struct load, write_tick);
    struct pair *p = l->site->pair;
    struct pair_view view;
    core_after(p->core, event, rng_between(&l->rng, 1, WRITE_MS_MAX) * SIM_MS);
    if (p->load->stopped || l->write.process != 0 || !pair_look(l->site, &view) ||
        view.role.mode != DR_MODE_PRIMARY)
        return;
    l->seed = rng_u64(&l->rng);
    l->number = ++p->load->numbers;
    l->site->tally.ops++;
    l->write = (struct pair_call){.stage = stage_write, .done = on_written};
    pair_call_begin(p, &l->write, view.leader);
}

/* Duties, each as its part of the program stages it. */

static enum status keys_run(const void *with, struct state_txn *txn, int64_t now_ms, unsigned steps)
{
    struct load *l = *(struct load *const *)with;
    const struct seal *own = &l->site->seals[0];
    struct reason why = {{0}};
    bool following = false;
    (void)steps;
    TRY(state_is_following(txn, &following));
    if (!following) {
        enum status st = state_dr_promote(txn, own, now_ms, &why);
        if (st == ST_INVALID)
            core_fail(l->site->core, "the seal of a promoted site is not made: %s", why.text);
        return st;
    }
    struct state_dr_keys keys;
    TRY(state_dr_upkeep(txn, own, now_ms, &keys));
    if (keys.why.text[0] != '\0')
        core_fail(l->site->core, "the keys of a secondary are not renewed: %s", keys.why.text);
    l->settled = keys.settled;
    if (keys.settled)
        l->settled_at = state_version(txn);
    return ST_OK;
}

static enum status links_run(const void *with, struct state_txn *txn, int64_t now_ms,
                             unsigned steps)
{
    struct load *l = *(struct load *const *)with;
    (void)steps;
    return state_superseded_upkeep(txn, now_ms,
                                   l->site->pair->load->sites[1 - l->site->site].settled_at);
}

static enum status sweep_run(const void *with, struct state_txn *txn, int64_t now_ms,
                             unsigned steps)
{
    char text[24];
    (void)with;
    (void)steps;
    (void)snprintf(text, sizeof text, "%" PRId64, now_ms); /* fits */
    return state_put_raw(txn, BYTES("s/duty/swept"), bytes_str(text));
}

static const struct node_duty duties[] = {
    {.name = "keys", .run_with = keys_run, .secondary = true},
    {.name = "superseded root keys", .run_with = links_run},
    {.name = "sweep", .run_with = sweep_run},
};

static enum status stage_duty(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct load *l = CONTAINER_OF(call, struct load, duty);
    return duties[l->duty_next].run_with(&l, txn, now_ms, 1);
}

static void on_duty(struct pair_call *call, enum status st)
{
    struct load *l = CONTAINER_OF(call, struct load, duty);
    bool keys = duties[l->duty_next].run_with == keys_run;
    l->site->tally.reached[REACH_PAIR_KEYS_RENEWED] += st == ST_OK && keys && !l->settled;
    l->duty_next = (l->duty_next + 1) % ARRAY_LEN(duties);
}

static void on_duty_tick(struct event *event)
{
    struct load *l = CONTAINER_OF(event, struct load, duty_tick);
    struct pair *p = l->site->pair;
    struct pair_view view;
    core_after(p->core, event, rng_between(&l->rng, 5, DUTY_MS_MAX) * SIM_MS);
    if (p->load->stopped || l->duty.process != 0 || p->epoch == 0 || !pair_look(l->site, &view) ||
        !clients_initialized(l->site))
        return;
    if (!duty_may_run(&duties[l->duty_next], dr_stands_still(&view.role))) {
        l->duty_next = (l->duty_next + 1) % ARRAY_LEN(duties);
        return;
    }
    l->duty = (struct pair_call){.stage = stage_duty, .done = on_duty};
    pair_call_begin(p, &l->duty, view.leader);
}

void pair_load_start(struct pair *p)
{
    p->load = sim_alloc(sizeof *p->load);
    for (unsigned i = 0; i < SITES; i++) {
        struct load *l = &p->load->sites[i];
        *l = (struct load){.write_tick = {.fire = on_write_tick},
                           .duty_tick = {.fire = on_duty_tick},
                           .site = &p->sites[i],
                           .rng = rng_make(p->core->seed, hash_mix(0x10AD, i))};
        core_after(p->core, &l->write_tick, 600 * SIM_MS);
        core_after(p->core, &l->duty_tick, 600 * SIM_MS);
    }
}

void pair_load_stop(struct pair *p)
{
    p->load->stopped = true;
}

bool pair_load_rests(const struct pair *p)
{
    for (unsigned i = 0; i < SITES; i++)
        if (p->load->sites[i].write.process != 0 || p->load->sites[i].duty.process != 0)
            return false;
    return true;
}

void pair_load_check(struct pair *p)
{
    struct store_pin pin;
    struct pair_view view;
    struct store_item item;
    char room[64];
    if (!pair_look(&p->sites[p->newest], &view) ||
        store_pin(rlog_store(view.leader->rlog), "check", 0, &pin) != ST_OK)
        core_fail(p->core, "the primary cannot be read at the end");
    for (size_t i = 0; i < p->load->n; i++) {
        const struct acked *a = &p->load->acked[i];
        bool has = store_get(&pin, ledger_key(room, a->epoch, a->number), &item) == ST_OK;
        bool keeps = pair_keeps(p, a->epoch, a->version);
        if (has != keeps)
            core_fail(p->core,
                      "write %" PRIu64 " of epoch %" PRIu64 ", acknowledged at version %" PRIu64
                      ", %s at the end",
                      a->number, a->epoch, a->version, has ? "is there" : "is gone");
        view.leader->cluster->tally.reached[REACH_PAIR_LOST] += !keeps;
    }
    store_unpin(&pin);
}
