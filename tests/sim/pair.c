/* A run of two clusters: faults on both and between them, then calm, in which one is the primary
 * and the other its secondary, and both become equal. */
#include "pair.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    SETTLED_MS = 60000,
    EQUAL_MS = 60000,
    RESTART_PERMILLE = 500,
    OPS_MIN = 200,
    EPOCHS_MIN = 2,
    FAULTS_S_MAX = 60
};

bool pair_role(struct node *n, struct dr_role *ret_role, uint64_t *ret_version)
{
    struct store_pin pin;
    if (store_pin(rlog_store(n->rlog), "pair", 0, &pin) != ST_OK)
        return false;
    enum status st = dr_role_at(&pin, ret_role);
    *ret_version = pin.version;
    store_unpin(&pin);
    return st == ST_OK;
}

static bool answers(const struct node *n)
{
    return n->state == NODE_UP && !n->stopping && !n->closing && !n->fatal && !n->fs.dead &&
           n->env.stalled_until_ns <= n->cluster->core->now_ns;
}

bool pair_look(struct cluster *site, struct pair_view *ret_view)
{
    struct node *n = cluster_leader(site);
    struct rlog_status s;
    struct store_pin pin;
    struct store_item item;
    if (n == NULL || !answers(n))
        return false;
    rlog_status(n->rlog, &s);
    if (!s.ready || store_pin(rlog_store(n->rlog), "pair", 0, &pin) != ST_OK)
        return false;
    *ret_view = (struct pair_view){.leader = n, .version = pin.version};
    enum status st = dr_role_at(&pin, &ret_view->role);
    if (store_get(&pin, BYTES(DR_ROLE), &item) == ST_OK)
        ret_view->role_at = item.modified;
    store_unpin(&pin);
    return st == ST_OK;
}

struct node *pair_any_node(struct cluster *site)
{
    struct node *up[SLOTS];
    unsigned n = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        if (answers(&site->nodes[i]))
            up[n++] = &site->nodes[i];
    return n != 0 ? up[rng_below(&site->pair->rng, n)] : NULL;
}

bool pair_serves(struct node *n)
{
    struct dr_role role;
    uint64_t version;
    if (n->cluster->pair == NULL)
        return true;
    if (!pair_role(n, &role, &version))
        return false;
    if (role.mode == DR_MODE_DISABLED && n->cluster->pair->epoch == 0)
        return true;
    return role.mode == DR_MODE_PRIMARY && role.phase == DR_PHASE_RUNNING &&
           role.epoch == DR_EPOCH_FIRST;
}

static void run_for(struct pair *p, uint64_t ms)
{
    cluster_run_for(&p->sites[0], ms * SIM_MS);
}

/* The second site has no clients: its values can be stored by the one that probes. */
static void initialize(struct pair *p)
{
    struct cluster *second = &p->sites[1];
    for (unsigned ms = 0; ms < 20000 && !clients_initialized(second); ms += 20) {
        struct pair_view view;
        clients_mark(second);
        if (pair_look(second, &view))
            (void)clients_probe(second, view.leader); /* again until it is */
        run_for(p, 20);
    }
}

static bool settled(struct pair *p, const char **ret_why)
{
    struct pair_view views[SITES];
    *ret_why = "a site has no leader that is ready";
    for (unsigned i = 0; i < SITES; i++)
        if (!pair_look(&p->sites[i], &views[i]))
            return false;
    const struct dr_role *primary = &views[p->newest].role, *secondary = &views[1 - p->newest].role;
    *ret_why = "the newest primary does not run";
    if (primary->mode != DR_MODE_PRIMARY || primary->phase != DR_PHASE_RUNNING)
        return false;
    *ret_why = "the other site does not follow";
    return secondary->mode == DR_MODE_SECONDARY && secondary->phase == DR_PHASE_STREAMING &&
           secondary->epoch == primary->epoch && pair_operator_rests(p);
}

static void await(struct pair *p, bool (*reached)(struct pair *, const char **), unsigned ms)
{
    const char *why = "";
    uint64_t limit = p->core->now_ns + ms * (uint64_t)SIM_MS;
    while (!reached(p, &why)) {
        if (p->core->now_ns > limit) {
            for (unsigned i = 0; i < SITES; i++)
                cluster_say_nodes(&p->sites[i]);
            core_fail(p->core, "the pair does not settle: %s", why);
        }
        run_for(p, 20);
    }
}

/* A site begins again from its disks: what it opens its keys with is all there. */
static void restart_some(struct pair *p)
{
    for (unsigned i = 0; i < SITES; i++)
        for (unsigned k = 0; k < SLOTS && rng_chance(&p->rng, RESTART_PERMILLE); k++)
            if (p->sites[i].nodes[k].process != 0)
                node_kill(&p->sites[i].nodes[k], SIM_MS);
}

static void end(struct pair *p)
{
    for (unsigned i = 0; i < SITES; i++)
        nemesis_stop(&p->sites[i]);
    p->calm = true;
    core_say(p->core, "the faults are over");
    restart_some(p);
    for (unsigned i = 0; i < SITES; i++)
        cluster_start_all(&p->sites[i]);
    await(p, settled, SETTLED_MS);
    run_for(p, 500);
    pair_load_stop(p);
    for (unsigned i = 0; i < SITES; i++)
        cluster_stop(&p->sites[i]);
    while (!pair_load_rests(p))
        run_for(p, 20);
    await(p, settled, SETTLED_MS);
    await(p, pair_equal, EQUAL_MS);
    for (unsigned i = 0; i < SITES; i++)
        cluster_await_converged(&p->sites[i]);
    await(p, pair_equal, EQUAL_MS);
    pair_load_check(p);
    clients_check(&p->sites[0]);
}

static void start(struct pair *p)
{
    p->genesis = rng_u64(&p->rng) >> 1 | 1;
    pair_link_start(p);
    pair_sync_start(p);
    pair_load_start(p);
    pair_operator_start(p);
}

/* A run that did not do enough proves nothing. */
static void run_faults(struct pair *p)
{
    struct tally *a = &p->sites[0].tally, *b = &p->sites[1].tally;
    unsigned s = p->sites[0].profile.faults_s;
    run_for(p, s * 1000);
    while ((a->ops_ok + b->ops_ok < OPS_MIN || p->epoch < EPOCHS_MIN) && s++ < FAULTS_S_MAX)
        run_for(p, 1000);
    if (a->ops_ok + b->ops_ok < OPS_MIN || p->epoch < EPOCHS_MIN)
        core_fail(p->core, "too little happened: %" PRIu64 " operations, %" PRIu64 " epochs",
                  a->ops_ok + b->ops_ok, p->epoch);
}

void pair_run(struct core *core, const struct profile *profile, struct outcome *ret_outcome)
{
    struct pair *p = sim_alloc(sizeof *p);
    p->core = core;
    p->rng = rng_make(core->seed, 0x9A17);
    list_init(&p->calls);
    for (unsigned i = 0; i < SITES; i++) {
        struct cluster *c = &p->sites[i];
        c->core = core;
        c->pair = p;
        c->site = i;
        c->profile = *profile;
        if (i != 0)
            c->profile.clients = 0;
        cluster_begin(c);
    }
    start(p);
    initialize(p);
    run_faults(p);
    end(p);
    tallies_add(&p->sites[0].tally, &p->sites[1].tally);
    p->sites[0].net.sent += p->sites[1].net.sent;
    cluster_result(&p->sites[0], ret_outcome);
}
