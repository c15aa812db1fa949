/* One run: faults for some time, then calm, in which the cluster must recover fully. */
#include "base/trace.h"
#include "cluster.h"
#include "pair.h"
#include "sim_mem.h"
#include "trail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    OPS_MIN = 200,
    FAULTS_MIN = 3,
    FAULTS_S_MAX = 90,
    SERVICE_ELECTIONS = 40, /* election timeouts within which a leader must have written */
    SERVED_MS = 15000,      /* and every client: those that wait in vain give up after seconds */
    REPAIRED_MS = 130000,   /* one request to the administrator may hold up the next for 60 s */
    WHOLE_MS = 60000,
};

static void run_until(struct cluster *c, uint64_t until_ns)
{
    const struct event *next;
    while ((next = core_next(c->core)) != NULL && next->at_ns <= until_ns)
        core_fire(c->core);
    c->core->now_ns = MAX(c->core->now_ns, until_ns);
}

void cluster_run_for(struct cluster *c, uint64_t ns)
{
    run_until(c, c->core->now_ns + ns);
}

static void run_for(struct cluster *c, uint64_t ms)
{
    cluster_run_for(c, ms * SIM_MS);
}

uint64_t cluster_faults(const struct cluster *c)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < FAULTS; i++)
        n += c->tally.faults[i];
    return n;
}

static bool profile_is_calm(const struct profile *p)
{
    unsigned total = 0;
    for (unsigned i = 0; i < FAULTS; i++)
        total += p->fault_weight[i];
    return total == 0;
}

/* The trace of a run that fails ends with the state of each node. */
void cluster_say_nodes(struct cluster *c)
{
    static const char *const states[] = {"absent", "down", "up", "gone"};
    static const char *const roles[] = {"spare", "standby", "voter"};
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct node *n = &c->nodes[i];
        char members[20 * RLOG_MEMBERS_MAX] = "";
        struct rlog_status s = {0};
        size_t len = 0;
        if (n->state == NODE_ABSENT)
            continue;
        if (n->rlog != NULL && !n->closing)
            rlog_status(n->rlog, &s);
        for (unsigned k = 0; k < s.n_members; k++)
            len += (size_t)snprintf(members + len, sizeof members - len, " %.8s %s",
                                    s.members[k].name, roles[s.members[k].role]);
        core_say(c->core,
                 "%s (%" PRIx64 ") %s%s: term %" PRIu64 " leader %" PRIx64 "%s, last %" PRIu64
                 " commit %" PRIu64 " applied %" PRIu64 ", members%s",
                 n->name, n->id, states[n->state], n->damaged ? " damaged" : "", s.term, s.leader,
                 s.ready ? " ready" : "", s.last_index, s.commit_index, s.applied_index, members);
    }
}

/* A run that did not do enough proves nothing. */
static void run_faults(struct cluster *c)
{
    uint64_t least = profile_is_calm(&c->profile) ? 0 : FAULTS_MIN;
    run_for(c, c->profile.faults_s * 1000);
    for (unsigned s = c->profile.faults_s;
         (c->tally.ops_ok < OPS_MIN || cluster_faults(c) < least) && s < FAULTS_S_MAX; s++) {
        c->slow = true;
        run_for(c, 1000);
        c->profile.fault_every_ms += c->profile.fault_every_ms / 16 + 1; /* too much, it seems */
        c->profile.admin_every_ms += c->profile.admin_every_ms / 16 + 1;
    }
    if (c->tally.ops_ok >= OPS_MIN && cluster_faults(c) >= least)
        return;
    cluster_say_nodes(c);
    core_fail(c->core, "too little happened: %" PRIu64 " operations, %" PRIu64 " faults",
              c->tally.ops_ok, cluster_faults(c));
}

void cluster_start_all(struct cluster *c)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].state == NODE_DOWN)
            node_boot(&c->nodes[i]);
}

/* A leader is ready and has a write acknowledged. */
static bool leader_writes(struct cluster *c)
{
    struct rlog_status s;
    struct node *leader = cluster_leader(c);
    if (leader == NULL)
        return false;
    rlog_status(leader->rlog, &s);
    return s.ready && clients_probe(c, leader);
}

void cluster_await_service(struct cluster *c, const char *when)
{
    uint64_t step = MAX(c->profile.election_ms / 10, 10u);
    uint64_t limit =
        c->core->now_ns + SERVICE_ELECTIONS * c->profile.election_ms * (uint64_t)SIM_MS;
    clients_mark(c);
    while (!leader_writes(c)) {
        if (c->core->now_ns > limit) {
            cluster_say_nodes(c);
            core_fail(c->core, "%s: there is no leader that writes", when);
        }
        run_for(c, step);
    }
    limit = c->core->now_ns + SERVED_MS * (uint64_t)SIM_MS;
    while (!clients_served(c)) {
        if (c->core->now_ns > limit) {
            cluster_say_nodes(c);
            core_fail(c->core, "%s: writes do not succeed", when);
        }
        run_for(c, 50);
    }
}

void cluster_stop(struct cluster *c)
{
    uint64_t limit = c->core->now_ns + REPAIRED_MS * (uint64_t)SIM_MS;
    while (admin_repair(c)) {
        if (c->core->now_ns > limit) {
            cluster_say_nodes(c);
            core_fail(c->core, "a node that lost its data did not become a member again");
        }
        run_for(c, 100);
    }
    clients_stop(c);
    front_stop(c);
    trails_stop(c);
    while (!clients_idle(c) || !front_idle(c) || !trails_idle(c))
        run_for(c, 100);
}

void cluster_await_converged(struct cluster *c)
{
    const char *why = "";
    uint64_t limit = c->core->now_ns + WHOLE_MS * (uint64_t)SIM_MS;
    while (!check_converged(c, &why)) {
        if (c->core->now_ns > limit) {
            cluster_say_nodes(c);
            core_fail(c->core, "members do not become equal: %s", why);
        }
        run_for(c, 100);
    }
}

/* In some runs the wall clock of an initial member is wrong from the beginning. */
static void bootstrap_with_wrong_clock(struct cluster *c)
{
    struct rng r = rng_make(c->core->seed, 0xC10C);
    if (!rng_chance(&r, 400) || c->pair != NULL)
        return;
    struct node *n = &c->nodes[rng_below(&r, c->profile.n_initial_members)];
    int64_t off_ms = (int64_t)rng_between(&r, 600, 3600) * 1000;
    n->clock.wall_offset_ms = rng_chance(&r, 500) ? off_ms : -off_ms;
    c->check.clock_moved = n;
    core_say(c->core, "%s has a clock %" PRId64 " ms off", n->name, n->clock.wall_offset_ms);
}

static void cluster_init(struct cluster *c)
{
    uint64_t seed = c->core->seed;
    c->rng = rng_make(seed, cluster_stream(c, 0x5CE0));
    c->levels = rng_make(seed, cluster_stream(c, 0x1E7E2));
    c->level_proposed = RLOG_FEATURE_FIRST;
    le64_put(c->id, rng_u64(&c->rng));
    le64_put(c->id + 8, rng_u64(&c->rng));
    seals_init(c);
    sim_net_init(&c->net, c->core, cluster_stream(c, 0x0E7));
    check_init(c);
    for (unsigned i = 0; i < SLOTS; i++)
        node_init(c, i);
    for (unsigned i = 0; i < c->profile.n_initial_members; i++) {
        c->nodes[i].id = cluster_fresh_id(c);
        c->nodes[i].initial = true;
        c->nodes[i].state = NODE_DOWN;
    }
    bootstrap_with_wrong_clock(c);
    for (unsigned i = 0; i < c->profile.n_initial_members; i++)
        node_boot(&c->nodes[i]);
}

static const struct cluster *traced[2]; /* by site */

/* Lines that the program writes for operators belong to the node whose memory is in use. */
static void on_trace(enum trace_level level, const char *module, const char *text)
{
    unsigned owner = sim_mem_owner(0);
    sim_mem_owner(owner);
    const struct cluster *c = owner > 0 ? traced[(owner - 1) / SLOTS] : NULL;
    if (c != NULL)
        core_say(c->core, "%s: %s: %s", c->nodes[(owner - 1) % SLOTS].name, module, text);
    (void)level;
}

static void describe(const struct cluster *c)
{
    const struct profile *p = &c->profile;
    core_say(c->core,
             "profile %s: %u initial members, election %u ms, log %" PRIu64
             " KiB, net %s lose %u late %u "
             "up to %u ms, sync up to %" PRIu64 " us, fault each %u ms, change each %u ms",
             p->name, p->n_initial_members, p->election_ms, p->snapshot_log_bytes / 1024,
             p->ordered ? "ordered" : "unordered", p->lose_permille, p->late_permille,
             p->late_ms_max, p->sync_ns_max / 1000, p->fault_every_ms, p->admin_every_ms);
}

void cluster_begin(struct cluster *c)
{
    ASSERT(c->site < ARRAY_LEN(traced));
    traced[c->site] = c;
    cluster_init(c);
    describe(c);
    clients_start(c);
    front_start(c);
    trails_start(c);
    admin_start(c);
    nemesis_start(c);
    exchange_begin(c);
    hostile_start(c);
    level_start(c);
}

void cluster_result(struct cluster *c, struct outcome *ret_outcome)
{
    c->tally.runs = 1;
    c->tally.frames = c->net.sent;
    c->tally.virtual_ms = c->core->now_ns / SIM_MS;
    c->tally.events = c->core->fired;
    for (unsigned i = 0; i < SLOTS; i++)
        c->tally.reached[REACH_STRAY] += c->nodes[i].fs.strays;
    ret_outcome->tally = c->tally;
    ret_outcome->hash = c->core->hash;
}

static void run_alone(struct core *core, const struct profile *profile, struct outcome *ret_outcome)
{
    struct cluster *c = sim_alloc(sizeof *c);
    c->core = core;
    c->profile = *profile;
    cluster_begin(c);
    run_faults(c);
    nemesis_stop(c);
    core_say(core, "the faults are over");
    ending_run(c);
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    cluster_stop(c);
    cluster_await_converged(c);
    clients_check(c);
    front_check(c);
    trails_check(c);
    cluster_result(c, ret_outcome);
}

void cluster_run(uint64_t seed, const char *profile, bool verbose, struct outcome *ret_outcome)
{
    struct core *core = sim_alloc(sizeof *core);
    struct profile p;
    if (!profile_make(&p, profile, seed)) {
        fprintf(stderr, "sim: no profile %s\n", profile);
        exit(2);
    }
    core_init(core, seed, verbose);
    trace_set_sink(on_trace);
    trace_set_level(verbose ? TRACE_DEBUG : TRACE_OFF);
    if (p.pair)
        pair_run(core, &p, ret_outcome);
    else
        run_alone(core, &p, ret_outcome);
}
