/* The faults of a run, and when they happen. */
#include "cluster.h"

#include <stdlib.h>

static const char *const names[FAULTS] = {
    [FAULT_POWER] = "power",       [FAULT_KILL] = "kill",   [FAULT_STOP] = "stop",
    [FAULT_ALL_POWER] = "all",     [FAULT_PAUSE] = "pause", [FAULT_CUT] = "cut",
    [FAULT_NET] = "net",           [FAULT_EIO] = "eio",     [FAULT_SYNC] = "sync",
    [FAULT_NO_SPACE] = "enospc",   [FAULT_FULL] = "full",   [FAULT_SLOW] = "slow",
    [FAULT_NTH_CALL] = "nth call", [FAULT_CLOCK] = "clock", [FAULT_DAMAGE] = "damage",
    [FAULT_STRAY] = "stray"};

static uint64_t down_ns(struct cluster *c)
{
    return rng_between(&c->rng, 5, c->profile.down_ms_max) * SIM_MS;
}

/* A running node, the leader more often than chance has it; NULL when none runs. */
static struct node *victim(struct cluster *c)
{
    struct node *up[SLOTS],
        *leader = rng_chance(&c->rng, c->profile.leader_permille) ? cluster_leader(c) : NULL;
    unsigned n = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].state == NODE_UP && !c->nodes[i].stopping)
            up[n++] = &c->nodes[i];
    if (leader != NULL)
        return leader;
    return n != 0 ? up[rng_below(&c->rng, n)] : NULL;
}

/* Links. */

static void cut_style(struct cluster *c)
{
    bool(*cut)[SLOTS] = c->net.cut;
    uint64_t style = rng_below(&c->rng, 6);
    const struct node *v = victim(c);
    unsigned one = v != NULL ? v->slot : (unsigned)rng_below(&c->rng, SLOTS), bridge;
    uint64_t half = rng_u64(&c->rng);
    bridge = (unsigned)rng_below(&c->rng, c->profile.n_initial_members);
    for (unsigned a = 0; a < SLOTS; a++)
        for (unsigned b = 0; b < SLOTS; b++) {
            bool across = (half >> a & 1) != (half >> b & 1);
            bool hit = style == 0   ? (a == one) != (b == one)             /* one is alone */
                       : style == 1 ? a == one                             /* nobody hears it */
                       : style == 2 ? b == one                             /* it hears nobody */
                       : style == 3 ? across                               /* two halves */
                       : style == 4 ? across && a != bridge && b != bridge /* one sees both */
                                    : rng_chance(&c->rng, 250);
            cut[a][b] = cut[a][b] || (hit && a != b);
        }
    core_say(c->core, "links are cut, style %u", (unsigned)style);
}

static void net_usual(struct cluster *c)
{
    const struct profile *p = &c->profile;
    c->net.ordered = p->ordered;
    c->net.lose_permille = p->lose_permille;
    c->net.repeat_permille = p->repeat_permille;
    c->net.late_permille = p->late_permille;
    c->net.delay_ns_max = p->delay_ms_max * (uint64_t)SIM_MS;
    c->net.late_ns_max = p->late_ms_max * (uint64_t)SIM_MS;
}

static void on_net_calm(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, net_calm);
    core_say(c->core, "the network is well again");
    sim_net_heal(&c->net);
    if (!c->calm)
        net_usual(c);
}

static void fault_cut(struct cluster *c)
{
    bool flapping = rng_chance(&c->rng, 200),
         refuses = rng_chance(&c->rng, c->profile.refuse_permille);
    cut_style(c);
    for (unsigned a = 0; a < SLOTS && refuses; a++) /* what cuts may also answer in their name */
        for (unsigned b = 0; b < SLOTS; b++)
            if (c->net.cut[a][b] && c->net.cut[b][a])
                node_refused(&c->nodes[a], &c->nodes[b]);
    core_after(c->core, &c->net_calm,
               rng_between(&c->rng, 50, flapping ? 250 : c->profile.cut_ms_max) * SIM_MS);
}

static void fault_net(struct cluster *c)
{
    c->net.lose_permille = (unsigned)rng_between(&c->rng, 0, 300);
    c->net.late_permille = (unsigned)rng_between(&c->rng, 0, 400);
    c->net.repeat_permille = (unsigned)rng_between(&c->rng, 0, 100);
    c->net.late_ns_max = rng_between(&c->rng, 10, 2000) * SIM_MS;
    c->net.ordered = c->net.ordered && rng_chance(&c->rng, 300);
    core_say(c->core, "the network is bad");
    core_after(c->core, &c->net_calm, rng_between(&c->rng, 200, 2000) * SIM_MS);
}

/* Disks. */

struct repair {
    struct event event;
    struct node *node;
};

static void on_disk_repaired(struct event *event)
{
    struct repair *repair = CONTAINER_OF(event, struct repair, event);
    repair->node->fs.faults.full = false;
    repair->node->fs.faults.slow = 0;
    core_say(repair->node->cluster->core, "%s has a good disk again", repair->node->name);
    free(repair);
}

static void disk_for_a_while(struct node *n)
{
    struct cluster *c = n->cluster;
    struct repair *repair = sim_alloc(sizeof *repair);
    *repair = (struct repair){.event = {.fire = on_disk_repaired}, .node = n};
    core_after(c->core, &repair->event, rng_between(&c->rng, 100, 3000) * SIM_MS);
}

static void fault_disk(struct node *n, enum fault fault)
{
    struct cluster *c = n->cluster;
    struct fs_faults *f = &n->fs.faults;
    uint64_t after = rng_between(&c->rng, 1, 40);
    switch (fault) {
    case FAULT_EIO:
        f->fail_after[rng_below(&c->rng, FS_CALLS)] = after;
        f->fail_with = ST_IO;
        break;
    case FAULT_SYNC:
        f->fail_after[FS_CALL_SYNC] = after;
        f->fail_with = ST_IO;
        break;
    case FAULT_NO_SPACE:
        f->fail_after[FS_CALL_WRITE] = after;
        f->fail_with = ST_NO_SPACE;
        break;
    case FAULT_FULL:
        f->full = true;
        disk_for_a_while(n);
        break;
    case FAULT_SLOW:
        f->slow = (unsigned)rng_between(&c->rng, 3, 3 + 300 * (uint64_t)SIM_MS / n->fs.sync_ns_max);
        disk_for_a_while(n);
        break;
    default: f->crash_after = rng_between(&c->rng, 1, 60); break;
    }
}

/* Bits flip, a sector is lost or written to the wrong place. */
static bool damage_file(struct node *n, uint8_t *data, size_t size)
{
    struct rng *r = &n->cluster->rng;
    size_t sectors = size / FS_SECTOR, at;
    if (size == 0)
        return false;
    switch (rng_below(r, sectors >= 2 ? 4 : 2)) {
    case 0:
    case 1:
        for (unsigned bits = 1 + (unsigned)rng_below(r, 3); bits > 0; bits--)
            data[rng_below(r, size)] ^= (uint8_t)(1u << rng_below(r, 8));
        break;
    case 2: memset(data + rng_below(r, sectors) * FS_SECTOR, 0, FS_SECTOR); break;
    default:
        at = rng_below(r, sectors) * FS_SECTOR;
        memmove(data + rng_below(r, sectors) * FS_SECTOR, data + at, FS_SECTOR);
        break;
    }
    return true;
}

static bool fault_damage(struct node *n)
{
    struct cluster *c = n->cluster;
    size_t size = 0;
    if (!node_may_be_damaged(n) || n->fs.visible.n == 0)
        return false;
    node_power_off(n, down_ns(c));
    const struct fs_name *name = &n->fs.visible.all[rng_below(&c->rng, n->fs.visible.n)];
    uint8_t *data = sim_fs_data(&n->fs, name->path, &size);
    if (data == NULL || !damage_file(n, data, size))
        return false;
    core_say(c->core, "%s: damage in %s", n->name, name->path);
    n->damaged = true;
    return true;
}

/* A write that is confirmed never reaches the disk, or lands elsewhere. */
static bool fault_stray(struct node *n)
{
    if (!node_may_be_damaged(n) || n->fs.faults.stray_after != 0)
        return false;
    n->fs.faults.stray_after = rng_between(&n->cluster->rng, 1, 40);
    n->damaged = n->strays = true;
    return true;
}

/* Clocks: a minority's. */
static bool fault_clock(struct node *n)
{
    struct cluster *c = n->cluster;
    if (c->check.acked_version == 0 || (c->check.clock_moved != NULL && c->check.clock_moved != n))
        return false;
    c->check.clock_moved = n;
    n->clock.wall_offset_ms = (int64_t)rng_between(&c->rng, 0, 7200000) - 3600000;
    return true;
}

static void fault_all_power(struct cluster *c)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].process != 0)
            node_power_off(&c->nodes[i], down_ns(c));
}

static bool fault_node(struct cluster *c, struct node *n, enum fault fault)
{
    switch (fault) {
    case FAULT_POWER: node_power_off(n, down_ns(c)); return true;
    case FAULT_KILL: node_kill(n, down_ns(c)); return true;
    case FAULT_STOP: node_halt(n, down_ns(c)); return true;
    case FAULT_PAUSE:
        sim_env_stall(&n->env, c->core->now_ns + rng_between(&c->rng, 20, 3000) * SIM_MS);
        return true;
    case FAULT_CLOCK: return fault_clock(n);
    case FAULT_DAMAGE: return fault_damage(n);
    case FAULT_STRAY: return fault_stray(n);
    default: fault_disk(n, fault); return true;
    }
}

/* Most of the time a majority runs: a cluster that is never whole commits nothing and shows
 * nothing.
 */
static bool enough_run(struct cluster *c)
{
    unsigned up = 0, known = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct node *n = &c->nodes[i];
        bool well = n->state == NODE_UP && n->env.stalled_until_ns <= c->core->now_ns + 50 * SIM_MS;
        known += n->state == NODE_UP || n->state == NODE_DOWN;
        up += well;
    }
    return up > known / 2 + 1 || up == known || rng_chance(&c->rng, 150);
}

static bool strike(struct cluster *c, enum fault fault)
{
    struct node *n = victim(c);
    if (!enough_run(c) && fault != FAULT_CLOCK)
        return false;
    core_say(c->core, "fault: %s %s", names[fault], n != NULL ? n->name : "");
    switch (fault) {
    case FAULT_CUT:
    case FAULT_NET:
        if (c->net_calm.slot != 0) /* one at a time, or it would never end */
            return false;
        (fault == FAULT_CUT ? fault_cut : fault_net)(c);
        return true;
    case FAULT_ALL_POWER: fault_all_power(c); return true;
    default: return n != NULL && fault_node(c, n, fault);
    }
}

static void on_nemesis(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, nemesis);
    unsigned total = 0, i = 0;
    if (c->calm)
        return;
    for (unsigned k = 0; k < FAULTS; k++)
        total += c->profile.fault_weight[k];
    uint64_t wait_ms = rng_between(&c->rng, 20, 2 * c->profile.fault_every_ms);
    if (rng_chance(&c->rng, 120)) /* now and then it stops, so that there is something to break */
        wait_ms += rng_between(&c->rng, 1, 6) * c->profile.election_ms;
    core_after(c->core, event, wait_ms * SIM_MS);
    if (total == 0)
        return;
    uint64_t at = rng_below(&c->rng, total);
    while (at >= c->profile.fault_weight[i])
        at -= c->profile.fault_weight[i++];
    if (strike(c, (enum fault)i))
        c->tally.faults[i]++;
}

static void on_death(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, death);
    if (c->dying->process == 0 || c->dying->stopping)
        return;
    node_power_off(c->dying, SIM_MS);
    core_cancel(c->core, &c->dying->restart);
}

void nemesis_kill_soon(struct cluster *c, struct node *n)
{
    c->leader_dies = c->change_kills = false;
    c->dying = n;
    c->death.fire = on_death;
    core_after(c->core, &c->death, rng_between(&c->rng, 1, 800) * SIM_US);
}

void nemesis_isolate(struct cluster *c, const struct node *n)
{
    for (unsigned i = 0; i < SLOTS; i++)
        c->net.cut[n->slot][i] = c->net.cut[i][n->slot] = i != n->slot;
}

void nemesis_start(struct cluster *c)
{
    c->nemesis.fire = on_nemesis;
    c->net_calm.fire = on_net_calm;
    net_usual(c);
    core_after(c->core, &c->nemesis, 700 * SIM_MS);
}

void nemesis_stop(struct cluster *c)
{
    c->calm = true;
    sim_net_heal(&c->net);
    c->net.lose_permille = c->net.late_permille = c->net.repeat_permille = 0;
    c->net.delay_ns_max = 1 * SIM_MS;
    for (unsigned i = 0; i < SLOTS; i++) {
        c->nodes[i].fs.faults = (struct fs_faults){0};
        c->nodes[i].fs.sync_ns_max = MIN(c->nodes[i].fs.sync_ns_max, (uint64_t)5 * SIM_MS);
    }
}
