/* The filter around libraft: a cluster of cores under faults, and single guards. */
#include "core_cluster.h"
#include "support.h"

static void admin_act(struct cluster *c, struct cnode *leader)
{
    struct rlog_conf conf = leader->core.conf;
    uint64_t index, dice = rnd(c, 100), pick = rnd(c, conf.n);
    struct rlog_member *m = &conf.members[pick];
    if (dice < 15 && conf.n < 6 && c->n_nodes < NODES_MAX) {
        struct cnode *n = node_create(c);
        node_start(n);
        conf.members[conf.n++] = member_make(n->id, RLOG_SPARE);
    } else if (m->role != RLOG_VOTER && dice < 70) {
        if (rlog_core_progress(&leader->core, m->id) != RLOG_CORE_CAUGHT_UP) {
            enum status st = rlog_core_catch_up(&leader->core, m->id, c->now);
            (void)st;
            return;
        }
        m->role = rnd(c, 2) == 0 && m->role == RLOG_SPARE ? RLOG_STANDBY : RLOG_VOTER;
    } else if (m->role == RLOG_VOTER && dice >= 85 && m->id != leader->id) {
        c->transfers += rlog_core_transfer(&leader->core, m->id, c->now) == ST_OK;
        return;
    } else if (dice >= 60 && dice < 72 && rlog_conf_voters(&conf) > 2) {
        memmove(m, m + 1, (conf.n - pick - 1) * sizeof *m);
        conf.n--;
        memset(&conf.members[conf.n], 0, sizeof conf.members[0]);
    } else {
        return;
    }
    c->changes += rlog_core_change(&leader->core, &conf, c->now, &index) == ST_OK;
}

static void disturb(struct cluster *c)
{
    if (rnd(c, 100) < 2) {
        struct cnode *n = &c->nodes[rnd(c, c->n_nodes)];
        node_crash(n);
        event_push(c, event_new(EV_RESTART, n), c->now + 20 + rnd(c, 600));
    }
    if (rnd(c, 100) < 1) {
        uint64_t victim = rnd(c, c->n_nodes), style = rnd(c, 3);
        for (unsigned a = 0; a < c->n_nodes; a++)
            for (unsigned b = 0; b < c->n_nodes; b++)
                c->cut[a][b] = style == 0   ? (a == victim) != (b == victim)
                               : style == 1 ? a == victim
                                            : rnd(c, 5) == 0;
    }
    if (rnd(c, 100) < 3)
        memset(c->cut, 0, sizeof c->cut);
}

/* `seconds` of faults, then calm; every member must come to the same state. */
static void storm(uint64_t seed, unsigned seconds)
{
    struct cluster *c = cluster_new(seed, 1 + (unsigned)(seed % 5));
    uint64_t value = 0, end = c->now + seconds * 1000;
    c->loss = 4;
    c->duplicates = 3;
    c->slow_ms = 300;
    while (c->now < end) {
        cluster_run(c, c->now + 12);
        struct cnode *leader = cluster_leader(c);
        if (leader != NULL && rlog_core_last(&leader->core) - leader->core.commit < 100 &&
            rlog_core_last(&leader->core) - leader->core.stored < 100) {
            enum status st = cluster_submit(leader, ++value);
            assert_true(st == ST_OK || st == ST_NOT_LEADER);
        }
        if (leader != NULL && rnd(c, 25) == 0)
            admin_act(c, leader);
        if (leader != NULL)
            cluster_tell(leader, &c->nodes[rnd(c, c->n_nodes)]);
        disturb(c);
        struct cnode *n = &c->nodes[rnd(c, c->n_nodes)];
        if (rnd(c, 20) == 0)
            snapshot_create(n);
    }
    memset(c->cut, 0, sizeof c->cut);
    c->loss = c->duplicates = c->slow_ms = 0;
    for (unsigned i = 0; i < c->n_nodes; i++)
        node_start(&c->nodes[i]);
    cluster_run(c, c->now + 8000);
    struct cnode *leader = cluster_leader(c);
    assert_non_null(leader);
    uint64_t before = c->committed;
    assert_status(cluster_submit(leader, ++value), ST_OK);
    cluster_run(c, c->now + 2000);
    assert_true(c->committed > before);
    for (unsigned i = 0; i < leader->core.conf.n; i++) {
        const struct rlog_member *m = &leader->core.conf.members[i];
        if (m->role != RLOG_SPARE)
            assert_int_equal(node_of(c, m->id)->core.applied, leader->core.applied);
    }
    if (getenv("STORM_VERBOSE") != NULL)
        (void)printf("seed %" PRIu64 ": committed %" PRIu64 " crashes %" PRIu64 " torn %" PRIu64
                     " installs %" PRIu64 " changes %" PRIu64 " transfers %" PRIu64
                     " elections %" PRIu64 " truncations %" PRIu64 " rollbacks %" PRIu64 "\n",
                     seed, c->committed, c->crashes, c->torn, c->installs, c->changes, c->transfers,
                     c->elections, c->truncations, c->rollbacks);
    cluster_free(c);
}

static void cores_agree_under_faults(void **ctx)
{
    const char *first = getenv("STORM_SEED"), *count = getenv("STORM_COUNT");
    uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : 1;
    uint64_t n = count != NULL ? strtoull(count, NULL, 10) : 6;
    (void)ctx;
#ifdef HOLDFAST_PLANT
    const char *plant = getenv("STORM_PLANT"); /* which bug to look for, by number */
    plant_number = plant != NULL ? 1 + (unsigned)strtoul(plant, NULL, 10) : 0;
#endif
    for (uint64_t i = 0; i < n; i++)
        storm(seed + i, 20);
}

static uint64_t set_role(struct cnode *leader, const struct cnode *node, enum rlog_role role)
{
    struct rlog_conf conf = leader->core.conf;
    uint64_t index = 0;
    for (unsigned i = 0; i < conf.n; i++)
        if (conf.members[i].id == node->id)
            conf.members[i].role = role;
    assert_status(rlog_core_change(&leader->core, &conf, leader->cluster->now, &index), ST_OK);
    return index;
}

static void cut_off(struct cluster *c, unsigned node, bool off)
{
    for (unsigned i = 0; i < c->n_nodes; i++)
        c->cut[i][node] = c->cut[node][i] = off;
}

/* The leader of three nodes, which all have one entry. */
static struct cnode *leader_with_an_entry(struct cluster *c)
{
    cluster_run(c, c->now + 3000);
    struct cnode *leader = cluster_leader(c);
    assert_non_null(leader);
    assert_status(cluster_submit(leader, 1), ST_OK);
    cluster_run(c, c->now + 1000);
    return leader;
}

/* The leader takes a vote, and dies before another node heard of it but, perhaps, the node that
 * loses it. */
static void a_vote_that_was_not_yet_taken_elects(void **ctx)
{
    struct cluster *c = cluster_new(1, 3);
    struct cnode *leader = leader_with_an_entry(c);
    (void)ctx;
    unsigned at = (unsigned)(leader - c->nodes), loser = (at + 1) % 3, other = (at + 2) % 3;
    cut_off(c, other, true);
    uint64_t index = set_role(leader, &c->nodes[loser], RLOG_STANDBY);
    cluster_run(c, c->now + ELECTION / 2);
    assert_true(leader->core.stored >= index);
    assert_true(leader->core.commit < index);

    node_crash(leader);
    memset(c->cut, 0, sizeof c->cut);
    cluster_run(c, c->now + 5000);
    struct cnode *next = cluster_leader(c);
    assert_non_null(next);
    assert_status(cluster_submit(next, 2), ST_OK);
    cluster_run(c, c->now + 1000);
    assert_true(next->core.commit >= index);

    /* Where nothing stands in its way, the loser hears of it. */
    node_start(leader);
    cluster_run(c, c->now + 3000);
    next = cluster_leader(c);
    assert_non_null(next);
    loser = next == &c->nodes[loser] ? other : loser;
    index = set_role(next, &c->nodes[loser], RLOG_STANDBY);
    cluster_run(c, c->now + 1000);
    assert_true(c->nodes[loser].core.applied >= index);
    const struct rlog_member *self = rlog_conf_find(&c->nodes[loser].core.conf, c->nodes[loser].id);
    assert_int_equal(self->role, RLOG_STANDBY);
    cluster_free(c);
}

/* The same where the leader started anew meanwhile: it knows neither what is committed, nor that
 * the vote it takes was given after its snapshot. */
static void a_restarted_leader_takes_no_vote_early(void **ctx)
{
    struct cluster *c = cluster_new(1, 3);
    struct cnode *leader = leader_with_an_entry(c);
    (void)ctx;
    unsigned at = (unsigned)(leader - c->nodes), loser = (at + 1) % 3, other = (at + 2) % 3;
    (void)set_role(leader, &c->nodes[loser], RLOG_STANDBY);
    cluster_run(c, c->now + 1000);
    snapshot_create(leader);
    (void)set_role(leader, &c->nodes[loser], RLOG_VOTER);
    cluster_run(c, c->now + 1000);
    cut_off(c, at, true);
    uint64_t index = set_role(leader, &c->nodes[loser], RLOG_STANDBY);
    cut_off(c, loser, true);
    cluster_run(c, c->now + ELECTION / 2);
    assert_true(leader->core.stored >= index);
    node_crash(leader);
    node_start(leader);

    c->cut[at][other] = c->cut[other][at] = false;
    for (unsigned ms = 0; ms < 5000 && !rlog_core_leads(&leader->core); ms++)
        cluster_run(c, c->now + 1);
    assert_true(rlog_core_leads(&leader->core));
    cut_off(c, other, true);
    c->cut[at][loser] = c->cut[loser][at] = false;
    cluster_run(c, c->now + ELECTION / 2);
    assert_true(leader->core.commit < index);
    assert_int_equal(rlog_core_last(&c->nodes[loser].core), index - 1);

    node_crash(leader);
    cut_off(c, other, false);
    cluster_run(c, c->now + 5000);
    struct cnode *next = cluster_leader(c);
    assert_non_null(next);
    assert_status(cluster_submit(next, 2), ST_OK);
    cluster_run(c, c->now + 1000);
    assert_true(next->core.commit >= index);
    cluster_free(c);
}

/* A late request to join comes from a member that was removed: its raft id is added again in the
 * same term, and the leader knows nothing of what the member has. */
static void a_removed_member_is_added_again(void **ctx)
{
    struct cluster *c = cluster_new(1, 3);
    struct cnode *leader = leader_with_an_entry(c);
    (void)ctx;
    struct rlog_conf conf = leader->core.conf;
    unsigned at = conf.members[0].id == leader->id ? 1 : 0;
    struct rlog_member gone = conf.members[at];
    uint64_t index, term = leader->core.term;
    memmove(&conf.members[at], &conf.members[at + 1], (conf.n - at - 1) * sizeof gone);
    memset(&conf.members[--conf.n], 0, sizeof gone);
    assert_status(rlog_core_change(&leader->core, &conf, c->now, &index), ST_OK);
    cluster_run(c, c->now + 1000);
    assert_true(leader->core.commit >= index);

    gone.role = RLOG_SPARE;
    conf.members[conf.n++] = gone;
    assert_status(rlog_core_change(&leader->core, &conf, c->now, &index), ST_OK);
    cluster_run(c, c->now + 1000);
    assert_true(leader->core.commit >= index);
    assert_int_equal(leader->core.term, term);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_agree_under_faults),
        cmocka_unit_test(a_vote_that_was_not_yet_taken_elects),
        cmocka_unit_test(a_restarted_leader_takes_no_vote_early),
        cmocka_unit_test(a_removed_member_is_added_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
