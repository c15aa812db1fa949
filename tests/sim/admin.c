/* The administrator: adds, promotes, demotes, removes and replaces members, moves leadership, and
 * has snapshots created. One request at a time, like a person. */
#include "cluster.h"

#include <inttypes.h>
#include <stdio.h>

enum { SWITCH_OFF_MS = 500 };

static const char *const names[ADMINS] = {
    [ADMIN_ADD] = "add",         [ADMIN_PROMOTE] = "promote",   [ADMIN_REMOVE] = "remove",
    [ADMIN_REPLACE] = "replace", [ADMIN_TRANSFER] = "transfer", [ADMIN_SNAPSHOT] = "snapshot",
    [ADMIN_DEMOTE] = "demote"};

static unsigned voters_of(const struct rlog_status *status)
{
    unsigned n = 0;
    for (unsigned i = 0; i < status->n_members; i++)
        n += status->members[i].role == RLOG_VOTER;
    return n;
}

static bool is_member(const struct rlog_status *status, uint64_t id)
{
    for (unsigned i = 0; i < status->n_members; i++)
        if (status->members[i].id == id)
            return true;
    return false;
}

/* Members that answer: voters that are neither lost nor waiting to be replaced. */
static unsigned healthy_voters(struct cluster *c, const struct rlog_status *status)
{
    unsigned n = 0;
    for (unsigned i = 0; i < status->n_members; i++) {
        const struct node *m = node_by_id(c, status->members[i].id);
        n += status->members[i].role == RLOG_VOTER && m != NULL && !m->damaged &&
             m->state != NODE_GONE;
    }
    return n;
}

static void on_switch_off(struct event *event)
{
    struct node *n = CONTAINER_OF(event, struct node, switch_off);
    if (n->process != 0)
        node_kill(n, 0);
    core_cancel(n->cluster->core, &n->restart);
    n->state = NODE_GONE;
}

/* A node that was removed is switched off, until it is used as a new machine. */
static void removed(struct cluster *c, uint64_t id)
{
    struct node *n = node_by_id(c, id);
    if (n == NULL || n->removed)
        return;
    n->removed = true;
    n->switch_off.fire = on_switch_off;
    core_after(c->core, &n->switch_off, rng_between(&c->rng, 1, SWITCH_OFF_MS) * SIM_MS);
}

static void finished(struct cluster *c, enum status st)
{
    struct administrator *a = &c->admin;
    struct rlog_admin *call = &a->call;
    core_say(c->core, "admin: %s of %s: %s %s", names[a->what], call->member.name, status_name(st),
             call->reason.text);
    a->busy = false;
    a->last = st;
    if (st != ST_OK || a->deaf)
        return;
    if (c->change_kills)
        nemesis_kill_soon(c, cluster_leader(c));
    c->tally.admins[a->what]++;
    struct node *n = &c->nodes[a->slot];
    if (a->what == ADMIN_REPLACE && n->id == call->member.id) {
        c->tally.replaced_ok++;
        removed(c, call->replaces);
        n->replaces = 0;
    }
    if (a->what == ADMIN_REMOVE)
        removed(c, call->member.id);
}

static void on_admin_done(struct rlog_admin *call, enum status st)
{
    struct cluster *c = CONTAINER_OF(call, struct cluster, admin.call);
    finished(c, st);
}

void admin_forget(struct cluster *c, uint64_t process)
{
    if (!c->admin.busy || c->admin.process != process)
        return;
    c->admin.busy = false;
    c->admin.last = ST_UNKNOWN_OUTCOME;
}

static void ask(struct cluster *c, struct node *leader, enum admin_act what)
{
    struct administrator *a = &c->admin;
    core_say(c->core, "admin: %s asked to %s %s (%" PRIx64 ")", leader->name, names[what],
             a->call.member.name, a->call.member.id);
    a->what = what;
    a->busy = true;
    a->process = leader->process;
    a->started_ns = c->core->now_ns;
    a->call.done = on_admin_done;
    sim_env_enter(&leader->env);
    if (what == ADMIN_REMOVE)
        rlog_member_remove(leader->rlog, &a->call);
    else if (what == ADMIN_DEMOTE)
        rlog_member_demote(leader->rlog, &a->call);
    else if (what == ADMIN_TRANSFER)
        rlog_transfer(leader->rlog, &a->call);
    else
        rlog_member_add(leader->rlog, &a->call);
    (void)sim_env_leave(&leader->env); /* nothing is touched after it */
}

static void prepare(struct cluster *c, struct node *n, enum rlog_role role, uint64_t replaces)
{
    struct rlog_admin *call = &c->admin.call;
    *call = (struct rlog_admin){.replaces = replaces};
    call->member = (struct rlog_member){.id = n->id, .role = role};
    snprintf(call->member.name, sizeof call->member.name, "%s", n->name);
    snprintf(call->member.address, sizeof call->member.address, "%s:1", n->name);
    c->admin.slot = n->slot;
}

static struct node *blank_machine(struct cluster *c)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].state == NODE_ABSENT || c->nodes[i].state == NODE_GONE)
            return &c->nodes[i];
    return NULL;
}

/* One that runs and is no member yet, else a new machine. */
static struct node *newcomer(struct cluster *c, const struct rlog_status *status)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct node *n = &c->nodes[i];
        if (n->state == NODE_UP && n->replaces == 0 && !n->removed && !is_member(status, n->id))
            return n;
    }
    struct node *n = blank_machine(c);
    if (n != NULL) {
        node_blank(n);
        node_boot(n);
    }
    return n;
}

static void do_add(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    if (status->n_members >= c->profile.members_max)
        return;
    uint64_t process = leader->process;
    struct node *n = newcomer(c, status);
    if (n == NULL || n->state != NODE_UP || leader->process != process)
        return;
    prepare(c, n, rng_chance(&c->rng, 250) ? RLOG_STANDBY : RLOG_VOTER, 0);
    ask(c, leader, ADMIN_ADD);
}

static void do_promote(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    for (unsigned i = 0; i < status->n_members; i++) {
        struct node *n = node_by_id(c, status->members[i].id);
        if (status->members[i].role == RLOG_VOTER || n == NULL || n->state == NODE_GONE)
            continue;
        prepare(c, n, RLOG_VOTER, 0);
        ask(c, leader, ADMIN_PROMOTE);
        return;
    }
}

/* A cluster may shrink to one voter, but not to one that has lost its data. */
static bool may_lose(struct cluster *c, const struct node *n, const struct rlog_status *status)
{
    if (voters_of(status) < (c->profile.n_initial_members > 1 ? 3U : 2U))
        return false;
    return n->damaged || healthy_voters(c, status) == voters_of(status);
}

static void do_remove(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    const struct rlog_member *m = &status->members[rng_below(&c->rng, status->n_members)];
    struct node *n = node_by_id(c, m->id);
    if (n == NULL || (m->role == RLOG_VOTER && !may_lose(c, n, status)))
        return;
    prepare(c, n, m->role, 0);
    ask(c, leader, ADMIN_REMOVE);
}

static void do_demote(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    const struct rlog_member *m = &status->members[rng_below(&c->rng, status->n_members)];
    struct node *n = node_by_id(c, m->id);
    if (n == NULL || m->role != RLOG_VOTER || !may_lose(c, n, status))
        return;
    prepare(c, n, RLOG_STANDBY, 0);
    ask(c, leader, ADMIN_DEMOTE);
}

/* A sound member's machine is exchanged for another. */
static void do_replace(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    const struct rlog_member *m = &status->members[rng_below(&c->rng, status->n_members)];
    uint64_t process = leader->process;
    if (status->n_members >= c->profile.members_max || m->role != RLOG_VOTER ||
        healthy_voters(c, status) != voters_of(status))
        return;
    struct node *n = newcomer(c, status);
    if (n == NULL || n->state != NODE_UP || leader->process != process)
        return;
    prepare(c, n, RLOG_VOTER, m->id);
    ask(c, leader, ADMIN_REPLACE);
}

static void do_transfer(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    const struct rlog_member *m = &status->members[rng_below(&c->rng, status->n_members)];
    c->admin.call = (struct rlog_admin){.member = {.id = rng_chance(&c->rng, 300) ? 0 : m->id}};
    if (m->id == leader->id || m->role != RLOG_VOTER)
        c->admin.call.member.id = 0;
    ask(c, leader, ADMIN_TRANSFER);
}

static void do_snapshot(struct cluster *c)
{
    struct node *n = &c->nodes[rng_below(&c->rng, SLOTS)];
    if (n->state != NODE_UP || n->stopping)
        return;
    core_say(c->core, "admin: snapshot of %s", n->name);
    c->tally.admins[ADMIN_SNAPSHOT]++;
    sim_env_enter(&n->env);
    rlog_snapshot_now(n->rlog);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

/* A node that rejoined under a new id takes the place of its old one. */
static bool repair_one(struct cluster *c, struct node *leader, const struct rlog_status *status)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct node *n = &c->nodes[i];
        if (n->replaces == 0 || n->removed)
            continue;
        if (n->state == NODE_UP && !n->stopping) {
            bool old_is_member = is_member(status, n->replaces);
            prepare(c, n, RLOG_VOTER, old_is_member ? n->replaces : 0);
            ask(c, leader, ADMIN_REPLACE);
        }
        return true;
    }
    return false;
}

bool admin_repair(struct cluster *c)
{
    struct rlog_status status;
    struct node *leader = cluster_leader(c);
    if (c->admin.busy)
        return true;
    if (leader == NULL || leader->stopping)
        return true;
    rlog_status(leader->rlog, &status);
    return repair_one(c, leader, &status);
}

static enum admin_act choose(struct cluster *c)
{
    unsigned total = 0, i = 0;
    for (unsigned k = 0; k < ADMINS; k++)
        total += c->profile.admin_weight[k];
    if (total == 0)
        return ADMINS;
    uint64_t at = rng_below(&c->rng, total);
    while (at >= c->profile.admin_weight[i])
        at -= c->profile.admin_weight[i++];
    return (enum admin_act)i;
}

static void act(struct cluster *c)
{
    struct rlog_status status;
    struct node *leader = cluster_leader(c);
    enum admin_act what = choose(c);
    if (what == ADMIN_SNAPSHOT) {
        do_snapshot(c);
        return;
    }
    if (leader == NULL || c->admin.busy || leader->env.stalled_until_ns > c->core->now_ns)
        return;
    rlog_status(leader->rlog, &status);
    if (repair_one(c, leader, &status))
        return;
    switch (what) {
    case ADMIN_ADD: do_add(c, leader, &status); break;
    case ADMIN_PROMOTE: do_promote(c, leader, &status); break;
    case ADMIN_REMOVE: do_remove(c, leader, &status); break;
    case ADMIN_REPLACE: do_replace(c, leader, &status); break;
    case ADMIN_TRANSFER: do_transfer(c, leader, &status); break;
    case ADMIN_DEMOTE: do_demote(c, leader, &status); break;
    case ADMIN_SNAPSHOT:
    case ADMINS: break;
    }
}

static void on_tick(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, admin.tick);
    if (c->calm)
        return;
    core_after(c->core, event, rng_between(&c->rng, 20, c->profile.admin_every_ms) * SIM_MS);
    act(c);
}

struct node *admin_newcomer(struct cluster *c)
{
    struct rlog_status status;
    struct node *leader = cluster_leader(c);
    if (leader == NULL || leader->stopping)
        return NULL;
    rlog_status(leader->rlog, &status);
    uint64_t process = leader->process;
    struct node *n = newcomer(c, &status);
    return n != NULL && n->state == NODE_UP && leader->process == process ? n : NULL;
}

void admin_ask_add(struct cluster *c, struct node *asked, struct node *member, enum rlog_role role)
{
    prepare(c, member, role, 0);
    ask(c, asked, ADMIN_ADD);
}

void admin_ask_transfer(struct cluster *c, struct node *asked)
{
    c->admin.call = (struct rlog_admin){0};
    ask(c, asked, ADMIN_TRANSFER);
}

void admin_ask_remove(struct cluster *c, struct node *asked, struct node *member)
{
    prepare(c, member, RLOG_VOTER, 0);
    ask(c, asked, ADMIN_REMOVE);
}

void admin_ask_demote(struct cluster *c, struct node *asked, struct node *member)
{
    prepare(c, member, RLOG_STANDBY, 0);
    ask(c, asked, ADMIN_DEMOTE);
}

void admin_add_voter(struct cluster *c)
{
    struct node *n = admin_newcomer(c);
    if (n != NULL)
        admin_ask_add(c, cluster_leader(c), n, RLOG_VOTER);
}

void admin_start(struct cluster *c)
{
    c->admin.tick.fire = on_tick;
    core_after(c->core, &c->admin.tick, 600 * SIM_MS);
}
