/* A majority is lost for good, and a cluster is made again of what is left (PROTOCOL R21).
 *
 * Of five voters two stand aside, so every acknowledged write is on the three others. Two of these
 * three and one of the two are lost. The operator tries the survivor that stood aside first; then
 * the other one, which loses its power in the middle a few times. The lost ones come back once with
 * their data: by their own logs they are a majority. No client asks them any more, and nothing of
 * theirs may reach the recovered cluster. At last all machines but the recovered one join as new
 * ones. */
#include "cluster.h"

#include "raft/replica/rlog_recover.h"

enum { FORMER = 5, ATTEMPTS_MAX = 12 };

struct cast {
    struct node *behind, *best; /* the survivors */
    struct node *lost[FORMER - 2];
};

static void off(struct node *n)
{
    if (n->process != 0)
        node_power_off(n, SIM_MS);
    core_cancel(n->cluster->core, &n->restart);
}

/* The transaction that marks the recovery; the program's names the former members. */
static void mark(struct buf *out)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_put(&b, BYTES("l/recovered"), BYTES("yes"));
    ASSERT(rlog_txn_encode(&b, out) == ST_OK); /* the simulator has memory */
    rlog_txn_done(&b);
}

static enum status attempt(struct node *n, uint64_t id, const struct rlog_position *other,
                           struct reason *reason)
{
    struct rlog_survivor *survivor;
    struct rlog_survey survey;
    struct rlog_position last;
    struct buf txn = {0};
    enum status st = rlog_survivor_open(&n->fs.fs, n->dir, &survivor, &survey, reason);
    if (st != ST_OK)
        return st;
    mark(&txn);
    struct rlog_recover_plan plan = {
        .dir = "recovered", .id = id, .others = other, .n_others = 1, .txn = buf_bytes(&txn)};
    st = rlog_survivor_recover(survivor, &plan, &last, reason);
    if (st == ST_OK)
        core_say(n->cluster->core, "%s is recovered with %llu entries", n->name,
                 (unsigned long long)survey.last.index);
    rlog_survivor_close(survivor);
    buf_done(&txn);
    return st;
}

static void survey_of(struct node *n, struct rlog_survey *ret)
{
    struct rlog_survivor *survivor;
    struct reason reason = {{0}};
    if (rlog_survivor_open(&n->fs.fs, n->dir, &survivor, ret, &reason) != ST_OK)
        core_fail(n->cluster->core, "%s cannot be read: %s", n->name, reason.text);
    rlog_survivor_close(survivor);
}

/* The command, again after each power loss. False: it refused. */
static bool recover(struct node *n, const struct rlog_position *other)
{
    struct cluster *c = n->cluster;
    struct reason reason = {{0}};
    struct rlog_survey survey;
    uint64_t id = cluster_fresh_id(c);
    enum status st = ST_IO;
    for (unsigned i = 0; st != ST_OK; i++) {
        n->fs.faults.crash_after = i < ATTEMPTS_MAX / 2 ? rng_between(&c->rng, 1, 90) : 0;
        st = attempt(n, id, other, &reason);
        n->fs.faults.crash_after = 0;
        if (st == ST_CONFLICT) {
            sim_fs_exit(&n->fs);
            return false;
        }
        if (st != ST_OK && !n->fs.dead)
            core_fail(c->core, "%s is not recovered: %s: %s", n->name, status_name(st),
                      reason.text);
        if (n->fs.dead || (st == ST_OK && rng_chance(&c->rng, 500)))
            sim_fs_crash(&n->fs);
        else
            sim_fs_exit(&n->fs);
        ASSERT(i <= ATTEMPTS_MAX);
    }
    n->dir = "recovered"; /* the rename of the file that names the folder */
    survey_of(n, &survey);
    n->id = survey.identity.id;
    n->initial = false;
    n->seen.stored = n->seen.stored_term = 0;
    return true;
}

/* The former members run and elect a leader among themselves. */
static void haunt(struct cluster *c, const struct cast *cast)
{
    for (unsigned i = 0; i < ARRAY_LEN(cast->lost); i++) {
        cast->lost[i]->ghost = true;
        node_boot(cast->lost[i]);
    }
    cluster_run_for(c, 20 * c->profile.election_ms * (uint64_t)SIM_MS);
    for (unsigned i = 0; i < ARRAY_LEN(cast->lost); i++) {
        off(cast->lost[i]);
        cast->lost[i]->ghost = false;
    }
}

/* Every machine but one is new. */
static void join_all(struct cluster *c, const struct node *recovered)
{
    for (unsigned i = 0; i < FORMER; i++) {
        struct node *n = &c->nodes[i];
        if (n == recovered)
            continue;
        node_blank(n);
        node_boot(n);
        cluster_await_service(c, "after the recovery");
        for (unsigned tries = 0; tries < 20; tries++) {
            struct node *leader = cluster_leader(c);
            if (leader == NULL || n->state != NODE_UP)
                break;
            admin_ask_add(c, leader, n, RLOG_VOTER);
            for (unsigned ms = 0; ms < 40 * c->profile.election_ms && c->admin.busy; ms++)
                cluster_run_for(c, 1 * SIM_MS);
            if (c->admin.last == ST_OK)
                break;
        }
    }
}

/* Every acknowledged write needs leader, best and one more, while two stand aside. */
static bool lose_majority(struct cluster *c, struct node *const *voters, struct cast *cast)
{
    struct node *leader = cluster_leader(c), *others[FORMER - 1];
    unsigned n = 0;
    for (unsigned i = 0; i < FORMER; i++)
        if (voters[i] != leader && n < ARRAY_LEN(others))
            others[n++] = voters[i];
    if (leader == NULL || n != ARRAY_LEN(others))
        return false;
    *cast = (struct cast){others[0], others[1], {leader, others[2], others[3]}};
    off(cast->behind);
    off(cast->lost[1]);
    cluster_run_for(c, 3 * c->profile.election_ms * (uint64_t)SIM_MS);
    struct node *const three[] = {leader, cast->best, cast->lost[2]};
    bool well = true;
    for (unsigned i = 0; i < ARRAY_LEN(three); i++)
        well = well && three[i]->state == NODE_UP && !three[i]->stopping;
    for (unsigned i = 0; i < ARRAY_LEN(three); i++)
        off(three[i]);
    return well;
}

void recover_majority(struct cluster *c, struct node *const *voters)
{
    struct cast cast;
    struct rlog_survey best, behind;
    struct node *recovered;
    if (!lose_majority(c, voters, &cast))
        return;
    survey_of(cast.best, &best);
    survey_of(cast.behind, &behind);
    recovered = recover(cast.behind, &best.last) ? cast.behind : cast.best;
    if (recovered == cast.best && !recover(cast.best, &behind.last))
        core_fail(c->core, "each of two survivors is outdated by the other");
    node_boot(recovered);
    cluster_await_service(c, "after the recovery");
    haunt(c, &cast);
    cluster_await_service(c, "beside the former members");
    join_all(c, recovered);
    c->tally.reached[REACH_RECOVERED]++;
}
