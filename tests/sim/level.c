/* Nodes of an older build, which are upgraded one by one, and the leader that raises the feature
 * level when every member understands it. The decision is the program's own
 * (cluster/membership/members/feature_level.h); what members report is what their builds
 * understand.
 *
 * A node that is no member while the level rises may be of the older build: it stops at the entry,
 * and its operator upgrades it. A member that stops so was forgotten. */
#include "cluster.h"

#include "base/mem.h"
#include "cluster/membership/members/feature_level.h"
#include "state/feature.h"

#include <stdio.h>

enum { LOOK_EVERY_MS = 50, UPGRADE_PERMILLE = 200 };

/* The raising proposal of one process. */
struct raise {
    struct rlog_propose propose;
    struct buf txn;
    struct cluster *cluster;
};

void level_choose(struct node *n)
{
    struct cluster *c = n->cluster;
    bool fresh = !n->started, settled = c->level_proposed > RLOG_FEATURE_FIRST;
    if (c->profile.older_permille == 0 || n->late || c->calm || (fresh && settled))
        n->feature = RLOG_FEATURE;
    else if (n->feature == 0 || (fresh && n->feature == RLOG_FEATURE))
        n->feature =
            rng_chance(&c->levels, c->profile.older_permille) ? RLOG_FEATURE_FIRST : RLOG_FEATURE;
    else if (rng_chance(&c->levels, UPGRADE_PERMILLE))
        n->feature = RLOG_FEATURE;
}

/* What a member that runs has reported. */
static uint16_t reported(void *ctx, const struct rlog_member *member)
{
    const struct node *n = node_by_id(ctx, member->id);
    return n != NULL && n->state == NODE_UP ? n->feature : RLOG_FEATURE_FIRST;
}

static void on_raised(struct rlog_propose *p, enum status st)
{
    struct raise *raise = CONTAINER_OF(p, struct raise, propose);
    if (st == ST_OK)
        raise->cluster->tally.reached[REACH_LEVEL_RAISED]++;
    raise->cluster->raising = 0;
    buf_done(&raise->txn);
    mem_free(raise);
}

/* Nodes that are no members now may have to be upgraded before they can join. */
static void mark_late(struct cluster *c, const struct rlog_status *s)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        bool member = false;
        for (unsigned j = 0; j < s->n_members; j++)
            member = member || s->members[j].id == c->nodes[i].id;
        if (!member && c->nodes[i].feature < RLOG_FEATURE)
            c->nodes[i].late = true;
    }
}

static void raise_level(struct node *n, const struct rlog_status *s, uint16_t level)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    struct cluster *c = n->cluster;
    struct raise *raise = mem_zalloc(sizeof *raise);
    char text[8];
    int len;
    if (raise == NULL)
        core_fail(c->core, "out of memory");
    len = snprintf(text, sizeof text, "%u", level);
    rlog_txn_put(&txn, BYTES(STATE_FEATURE_RAISED), bytes_of(text, (size_t)len));
    if (rlog_txn_encode(&txn, &raise->txn) != ST_OK)
        core_fail(c->core, "out of memory");
    raise->cluster = c;
    raise->propose = (struct rlog_propose){.txn = buf_bytes(&raise->txn),
                                           .upkeep = true,
                                           .term = s->term,
                                           .feature = level,
                                           .done = on_raised};
    c->raising = n->process;
    c->level_proposed = level;
    mark_late(c, s);
    core_say(c->core, "%s raises the feature level to %u", n->name, level);
    rlog_propose(n->rlog, &raise->propose);
}

static void look(struct cluster *c, struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    if (!s.is_leader || !s.ready || !s.members_committed || s.feature >= n->feature)
        return;
    uint16_t common = feature_common(&s, n->feature, reported, c);
    if (common > s.feature)
        raise_level(n, &s, common);
}

static void on_look(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, level);
    struct node *n = cluster_leader(c);
    core_after(c->core, event, LOOK_EVERY_MS * SIM_MS);
    if (n == NULL || n->closing || n->fatal || n->env.stalled_until_ns > c->core->now_ns ||
        c->raising == n->process)
        return;
    sim_env_enter(&n->env);
    look(c, n);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

void level_start(struct cluster *c)
{
    c->level = (struct event){.fire = on_look};
    if (c->profile.older_permille != 0 || c->pair != NULL)
        core_after(c->core, &c->level, LOOK_EVERY_MS * SIM_MS);
}

void level_check(struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    if (s.feature > n->feature && !n->late)
        core_fail(n->cluster->core, "%s has applied feature level %u and understands %u", n->name,
                  s.feature, n->feature);
}
