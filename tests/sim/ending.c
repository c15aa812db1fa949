/* Situations that are arranged when the faults have ended, because chance produces them too rarely.
 * */
#include "cluster.h"

/* Voters of the newest leader that have their data; 0 when there is none, or its voters change. */
static unsigned sound_voters(struct cluster *c, struct node **ret)
{
    struct rlog_status s;
    struct node *leader = cluster_leader(c);
    unsigned n = 0;
    if (leader == NULL || c->admin.busy)
        return 0;
    rlog_status(leader->rlog, &s);
    for (unsigned i = 0; i < s.n_members; i++) {
        struct node *m = node_by_id(c, s.members[i].id);
        if (s.members[i].role != RLOG_VOTER)
            continue;
        if (m == NULL || m->damaged || m->removed)
            return 0;
        ret[n++] = m;
    }
    return n;
}

/* Some voters, fewer than half, stay switched off. */
static void ending_minority(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX];
    unsigned n = sound_voters(c, voters), n_off = 0;
    bool off[SLOTS] = {0};
    for (unsigned i = 0; i < n && n_off < (n - 1) / 2; i++)
        if (voters[i]->state == NODE_DOWN || rng_chance(&c->rng, 500)) {
            off[voters[i]->slot] = true;
            n_off++;
        }
    for (unsigned i = 0; i < SLOTS; i++) {
        struct node *m = &c->nodes[i];
        if (off[i] && m->process != 0)
            node_power_off(m, SIM_MS);
        if (off[i])
            core_cancel(c->core, &m->restart);
        else if (m->state == NODE_DOWN)
            node_boot(m);
    }
}

static void ending_usurper(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX];
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    if (sound_voters(c, voters) < 3)
        return;
    nemesis_isolate(c, cluster_leader(c));
    c->leader_dies = true;
    for (unsigned ms = 0; ms < 10 * c->profile.election_ms && c->leader_dies; ms++)
        cluster_run_for(c, 1 * SIM_MS);
    c->leader_dies = false;
    cluster_run_for(c, 1 * SIM_MS);
    sim_net_heal(&c->net);
}

static void ending_change(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX];
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    if (sound_voters(c, voters) < 2)
        return;
    c->change_kills = true;
    c->net.lose_permille = 300;
    admin_add_voter(c);
    for (unsigned ms = 0; ms < 10 * c->profile.election_ms && c->admin.busy; ms++)
        cluster_run_for(c, 1 * SIM_MS);
    c->change_kills = false;
    cluster_run_for(c, 1 * SIM_MS);
    c->net.lose_permille = 0;
}

/* Links, both ways, between nodes of different sides. Sides are sets of slots. */
static void split(struct cluster *c, unsigned side)
{
    for (unsigned a = 0; a < SLOTS; a++)
        for (unsigned b = 0; b < SLOTS; b++)
            c->net.cut[a][b] = (side >> a & 1) != (side >> b & 1);
}

static unsigned side_of(const struct node *n)
{
    return 1u << n->slot;
}

static void await_admin(struct cluster *c, unsigned elections)
{
    for (unsigned ms = 0; ms < elections * c->profile.election_ms && c->admin.busy; ms++)
        cluster_run_for(c, 1 * SIM_MS);
}

/* Whether everyone stands. The endings below give up when a part they cast has fallen. */
static bool all_up(struct node *const *nodes, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (nodes[i]->state != NODE_UP || nodes[i]->stopping)
            return false;
    return true;
}

static uint64_t term_of(const struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s.term;
}

static bool leads(const struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s.is_leader;
}

/* The other three elect one of them. The last to vote is cut off before it hears from the winner:
 * that one knows of the term and of nothing in it. Both are NULL when it did not come about. */
static void elect_other(struct cluster *c, struct node *const *three, struct node **ret_winner,
                        struct node **ret_deaf)
{
    uint64_t limit = c->core->now_ns + 20 * c->profile.election_ms * (uint64_t)SIM_MS;
    uint64_t before = 0;
    struct node *first = NULL, *last = NULL;
    for (unsigned i = 0; i < 3; i++)
        before = MAX(before, term_of(three[i]));
    while (last == NULL && c->core->now_ns < limit && all_up(three, 3)) {
        unsigned risen = 0;
        cluster_run_for(c, 20 * SIM_US);
        for (unsigned i = 0; i < 3 && all_up(three, 3); i++)
            risen += term_of(three[i]) > before;
        for (unsigned i = 0; i < 3 && risen == 1 && first == NULL; i++)
            first = term_of(three[i]) > before ? three[i] : NULL;
        for (unsigned i = 0; i < 3 && risen == 2 && first != NULL; i++)
            last = term_of(three[i]) > before ? last : three[i];
    }
    for (unsigned us = 0; last != NULL && us < 200000 && term_of(last) <= before; us += 20) {
        cluster_run_for(c, 20 * SIM_US);
        if (!all_up(three, 3))
            last = NULL;
    }
    for (unsigned i = 0; last != NULL && i < SLOTS; i++)
        c->net.cut[i][last->slot] = i != last->slot;
    for (unsigned ms = 0; last != NULL && ms < 50 && all_up(three, 3) && !leads(first); ms++)
        cluster_run_for(c, 1 * SIM_MS);
    bool well = last != NULL && all_up(three, 3) && leads(first);
    *ret_winner = well ? first : NULL;
    *ret_deaf = well ? last : NULL;
}

/* The leader of four adds a voter that alone hears of it; the next leader removes that leader
 * before anything of its own term is committed. By their own lists both then have a majority, and
 * no node in common (F3). */
static void rivals_meet(struct cluster *c, struct node *old, struct node *added,
                        struct node *const *three)
{
    struct node *winner, *deaf;
    split(c, side_of(old) | side_of(added));
    admin_ask_add(c, old, added, RLOG_VOTER);
    elect_other(c, three, &winner, &deaf);
    if (winner == NULL || !all_up(&old, 1))
        return;
    c->admin.busy = false; /* the first question is given up */
    admin_ask_remove(c, winner, old);
    await_admin(c, 3);
    cluster_run_for(c, 3 * c->profile.election_ms * (uint64_t)SIM_MS);
    split(c, side_of(old) | side_of(added) | side_of(deaf));
    cluster_run_for(c, 20 * c->profile.election_ms * (uint64_t)SIM_MS);
}

static void ending_rivals(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX], *three[3], *old;
    unsigned n = 0;
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    struct node *added = admin_newcomer(c);
    if (added == NULL || sound_voters(c, voters) != 4)
        return;
    admin_ask_add(c, cluster_leader(c), added, RLOG_STANDBY);
    await_admin(c, 40);
    cluster_run_for(c, 2 * c->profile.election_ms * (uint64_t)SIM_MS);
    if (c->admin.busy || sound_voters(c, voters) != 4 || !all_up(voters, 4))
        return;
    old = cluster_leader(c);
    for (unsigned i = 0; i < 4; i++)
        if (voters[i] != old && n < 3)
            three[n++] = voters[i];
    c->admin.deaf = true; /* or it would switch off what was removed */
    if (n == 3)
        rivals_meet(c, old, added, three);
    sim_net_heal(&c->net);
    await_admin(c, 100);
    c->admin.deaf = false;
}

/* The newest segment of a log that holds anything; its length without the zeroes at its end. */
static uint8_t *newest_segment(struct node *n, size_t *ret_len)
{
    const char *best = "";
    uint8_t *found = NULL;
    for (size_t i = 0; i < n->fs.visible.n; i++) {
        const char *path = n->fs.visible.all[i].path;
        size_t name = strlen(path), len = 0;
        if (name < 4 || strcmp(path + name - 4, ".seg") != 0 || strcmp(path, best) < 0)
            continue;
        uint8_t *data = sim_fs_data(&n->fs, path, &len);
        while (data != NULL && len > 0 && data[len - 1] == 0)
            len--;
        if (len == 0)
            continue;
        best = path;
        found = data;
        *ret_len = len;
    }
    return found;
}

/* A sector that was written after `from`, and not the last: that one might be a torn write. */
static bool damage_behind(struct cluster *c, struct node *n, size_t from)
{
    size_t len = 0, first = from / FS_SECTOR + 1;
    uint8_t *data = newest_segment(n, &len);
    if (data == NULL || len / FS_SECTOR < first + 4)
        return false;
    uint64_t sector = rng_between(&c->rng, first, MIN(first + 2, len / FS_SECTOR - 4));
    data[sector * FS_SECTOR + rng_below(&c->rng, FS_SECTOR)] ^= 0x10;
    core_say(c->core, "%s: damage in its newest segment", n->name);
    n->damaged = true;
    return true;
}

/* What two of three acknowledged one of them loses, and the other is away: the third, which never
 * had it, must not lead with the forgetful one's vote (R13). */
static void ending_amnesia(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX], *leader, *others[2];
    unsigned n = 0;
    size_t before = 0;
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    cluster_run_for(c, 2 * c->profile.election_ms * (uint64_t)SIM_MS);
    if (sound_voters(c, voters) != 3 || !all_up(voters, 3))
        return;
    leader = cluster_leader(c);
    for (unsigned i = 0; i < 3; i++)
        if (voters[i] != leader && n < 2)
            others[n++] = voters[i];
    if (n != 2)
        return;
    nemesis_isolate(c, others[1]);
    (void)newest_segment(others[0], &before); /* nothing found: the damage says so */
    cluster_run_for(c, 3 * c->profile.election_ms * (uint64_t)SIM_MS);
    if (all_up(voters, 3) && cluster_leader(c) == leader) {
        node_power_off(others[0], SIM_MS);
        core_cancel(c->core, &others[0]->restart);
        (void)damage_behind(c, others[0], before); /* else it only lost its power */
        node_power_off(leader, SIM_MS);
        core_cancel(c->core, &leader->restart);
        sim_net_heal(&c->net);
        node_boot(others[0]);
        cluster_run_for(c, 20 * c->profile.election_ms * (uint64_t)SIM_MS);
    }
    sim_net_heal(&c->net);
    cluster_start_all(c);
}

/* The leader takes a vote and dies at once: of two, before that is on its own disk; of more, before
 * the others hear of it, and it stays away. If the voter that loses its vote has heard of it,
 * that voter has the longest log, and no other server can win without its vote (F12). */
static void ending_demote(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX], *leader, *loser;
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    cluster_run_for(c, 2 * c->profile.election_ms * (uint64_t)SIM_MS);
    unsigned n = sound_voters(c, voters);
    if (n < 2 || n > 4 || !all_up(voters, n))
        return;
    leader = cluster_leader(c);
    do {
        loser = voters[rng_below(&c->rng, n)];
    } while (loser == leader);
    split(c, side_of(leader) | side_of(loser));
    admin_ask_demote(c, leader, loser);
    nemesis_kill_soon(c, leader);
    cluster_run_for(c, 3 * SIM_MS);
    sim_net_heal(&c->net);
    if (n == 2)
        cluster_start_all(c);
}

/* Where nothing is wrong, leadership moves when it is asked to, and writes go on. */
static void ending_handover(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX];
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    unsigned n = sound_voters(c, voters), failed = 0;
    for (unsigned i = 0; i < 12 && n >= 2 && failed < 2; i++) {
        cluster_run_for(c, 2 * c->profile.election_ms * (uint64_t)SIM_MS);
        struct node *leader = cluster_leader(c);
        if (leader == NULL || c->admin.busy || !all_up(voters, n))
            return;
        admin_ask_transfer(c, leader);
        await_admin(c, 10);
        failed = c->admin.last == ST_OK ? 0 : failed + 1;
    }
    if (failed == 2)
        core_fail(c->core, "leadership does not move: %s, %s", status_name(c->admin.last),
                  c->admin.call.reason.text);
}

static void ending_recover(struct cluster *c)
{
    struct node *voters[RLOG_MEMBERS_MAX];
    cluster_start_all(c);
    cluster_await_service(c, "after the faults");
    cluster_run_for(c, 2 * c->profile.election_ms * (uint64_t)SIM_MS);
    if (sound_voters(c, voters) == 5 && all_up(voters, 5))
        recover_majority(c, voters);
}

void ending_run(struct cluster *c)
{
    switch (c->profile.ending) {
    case ENDING_MINORITY: ending_minority(c); break;
    case ENDING_USURPER: ending_usurper(c); break;
    case ENDING_CHANGE: ending_change(c); break;
    case ENDING_DEMOTE: ending_demote(c); break;
    case ENDING_RIVALS: ending_rivals(c); break;
    case ENDING_AMNESIA: ending_amnesia(c); break;
    case ENDING_HANDOVER: ending_handover(c); break;
    case ENDING_RECOVER: ending_recover(c); break;
    case ENDING_ALL:
    case ENDINGS: return;
    }
    cluster_await_service(c, "with a minority switched off");
}
