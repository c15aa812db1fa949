#include "profile.h"

#include <stdio.h>

#define RECORDED \
    "+audit" /* behind the name of a profile: with clients whose requests are recorded */

enum { RECORDERS = 6 };

static uint64_t pick(struct rng *r, const uint64_t *from, size_t n)
{
    return from[rng_below(r, n)];
}
#define PICK(r, ...) \
    pick(r, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static void draw_network(struct profile *p, struct rng *r)
{
    p->ordered = rng_chance(r, 500);
    p->lose_permille = (unsigned)PICK(r, 0, 0, 2, 10, 40);
    p->repeat_permille = (unsigned)PICK(r, 0, 0, 10, 40);
    p->late_permille = (unsigned)PICK(r, 0, 5, 30, 100);
    p->delay_ms_max = (unsigned)PICK(r, 1, 1, 3, 10);
    p->late_ms_max = (unsigned)PICK(r, 50, 300, 1000);
    p->lose_reply_permille = (unsigned)PICK(r, 0, 10, 50, 150);
}

/* Each kind of fault is left out of some runs: rare combinations come about that way. */
static void draw_faults(struct profile *p, struct rng *r)
{
    static const unsigned usual[FAULTS] = {
        [FAULT_POWER] = 10,    [FAULT_KILL] = 8,     [FAULT_STOP] = 4,  [FAULT_ALL_POWER] = 2,
        [FAULT_PAUSE] = 6,     [FAULT_CUT] = 12,     [FAULT_NET] = 4,   [FAULT_EIO] = 3,
        [FAULT_SYNC] = 3,      [FAULT_NO_SPACE] = 2, [FAULT_FULL] = 2,  [FAULT_SLOW] = 4,
        [FAULT_NTH_CALL] = 10, [FAULT_CLOCK] = 4,    [FAULT_DAMAGE] = 4};
    for (unsigned i = 0; i < FAULT_STRAY; i++)
        p->fault_weight[i] = rng_chance(r, 650) ? usual[i] * (unsigned)PICK(r, 1, 1, 2, 4) : 0;
    p->fault_weight[rng_below(r, 2) != 0 ? FAULT_POWER : FAULT_CUT] += 5;
    p->fault_every_ms = (unsigned)PICK(r, 150, 300, 600, 1000);
    p->down_ms_max = (unsigned)PICK(r, 200, 600, 3000);
    p->cut_ms_max = (unsigned)PICK(r, 500, 2500);
    p->leader_permille = (unsigned)PICK(r, 0, 300, 600);
    p->refuse_permille = 300;
}

static void draw_admin(struct profile *p, struct rng *r)
{
    static const unsigned usual[ADMINS] = {
        [ADMIN_ADD] = 10,    [ADMIN_PROMOTE] = 8,  [ADMIN_REMOVE] = 6,
        [ADMIN_REPLACE] = 3, [ADMIN_TRANSFER] = 8, [ADMIN_SNAPSHOT] = 5};
    for (unsigned i = 0; i < ADMIN_DEMOTE; i++)
        p->admin_weight[i] = rng_chance(r, 750) ? usual[i] : 0;
    p->admin_every_ms = (unsigned)PICK(r, 100, 300, 600, 1500);
}

static void draw_load(struct profile *p, struct rng *r)
{
    p->clients = (unsigned)rng_between(r, 4, 8);
    p->think_ms_max = (unsigned)PICK(r, 10, 30, 60);
    p->keys = (unsigned)rng_between(r, 2, 8);
    p->value_bytes_max = (unsigned)PICK(r, 16, 200, 2000, 20000);
    p->drift_ppm_max = (unsigned)PICK(r, 0, 50, 500);
}

/* What not every run has. */
static void draw_extra(struct profile *p, struct rng *r)
{
    p->exchange_every_ms = (unsigned)PICK(r, 0, 0, 400, 1500);
    p->lie_every_ms = (unsigned)PICK(r, 0, 20, 200);
    p->state_bytes_max = PICK(r, 0, 0, 0, 0, 100, 400) * 1024;
}

/* A stream of its own each: the other runs stay as they are. */
static void draw_more(struct profile *p, struct rng *extra, struct rng *front, struct rng *votes,
                      struct rng *levels, struct rng *leases, struct rng *audit)
{
    p->leases = rng_chance(leases, 500);
    if (rng_chance(audit, 150))
        p->recorders = (unsigned)rng_between(audit, 2, 4);
    draw_extra(p, extra);
    p->older_permille = (unsigned)PICK(levels, 0, 0, 0, 500);
    if (rng_chance(votes, 250)) {
        p->admin_weight[ADMIN_DEMOTE] = 8;
        if (rng_chance(votes, 300))
            p->ending = ENDING_DEMOTE;
    }
    if (rng_chance(front, 150))
        p->fronts = (unsigned)rng_between(front, 2, 5);
}

static void draw(struct profile *p, struct rng *r)
{
    p->n_initial_members = (unsigned)PICK(r, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5);
    p->members_max = 6;
    p->faults_s = (unsigned)rng_between(r, 10, 14);
    p->election_ms = (unsigned)PICK(r, 150, 300, 300, 1000);
    p->heartbeat_ms = p->election_ms / 10;
    p->snapshot_log_bytes = PICK(r, 20, 64, 256, 2048) * 1024;
    p->snapshot_trailing = (unsigned)PICK(r, 20, 100, 1024);
    p->segment_bytes = PICK(r, 32, 64, 256) * 1024;
    p->sync_ns_max = PICK(r, 100, 1000, 5000, 40000) * SIM_US;
    p->keep_permille = (unsigned)PICK(r, 0, 300, 500, 900);
    p->ending = (enum ending)PICK(r, ENDING_ALL, ENDING_ALL, ENDING_MINORITY, ENDING_MINORITY,
                                  ENDING_USURPER, ENDING_CHANGE);
    draw_network(p, r);
    if (p->ordered) { /* a late message holds up those behind it: not for most of the time */
        p->late_permille = MIN(p->late_permille, 5u);
        p->late_ms_max = MIN(p->late_ms_max, 2 * p->election_ms);
    }
    draw_faults(p, r);
    draw_admin(p, r);
    draw_load(p, r);
}

/* One voter to begin with, often alone. */
static void pin_sole(struct profile *p)
{
    p->n_initial_members = 1;
    p->members_max = 3;
    p->fault_every_ms = 150;
    p->admin_every_ms = 150;
    p->fault_weight[FAULT_POWER] = 20;
    p->admin_weight[ADMIN_ADD] = p->admin_weight[ADMIN_REMOVE] = 10;
    p->admin_weight[ADMIN_TRANSFER] = p->admin_weight[ADMIN_PROMOTE] = 10;
}

/* Members come and go while nodes crash. */
static void pin_churn(struct profile *p)
{
    p->admin_every_ms = 70;
    p->fault_every_ms = 150;
    p->election_ms = 150;
    p->heartbeat_ms = 30;
    p->down_ms_max = 500;
    p->fault_weight[FAULT_POWER] = 20;
    p->fault_weight[FAULT_CUT] = 20;
    p->admin_weight[ADMIN_ADD] = p->admin_weight[ADMIN_PROMOTE] = 10;
    p->admin_weight[ADMIN_REMOVE] = 8;
    p->admin_weight[ADMIN_TRANSFER] = 8;
    p->ending = ENDING_CHANGE;
}

/* Voters lose their vote and get it back, while leaders are cut off with some of the others. */
static void pin_roles(struct profile *p)
{
    p->n_initial_members = 5;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->admin_every_ms = 100;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->admin_weight[ADMIN_DEMOTE] = 12;
    p->admin_weight[ADMIN_PROMOTE] = 8;
    p->admin_weight[ADMIN_TRANSFER] = 6;
    p->fault_every_ms = 200;
    memset(p->fault_weight, 0, sizeof p->fault_weight);
    p->fault_weight[FAULT_CUT] = 40;
    p->fault_weight[FAULT_POWER] = 4;
    p->leader_permille = 700;
    p->refuse_permille = 1000;
    p->clients = 12;
    p->keys = 2;
    p->think_ms_max = 5;
}

/* Few voters, who lose their vote and get it back while leaders die. */
static void pin_demote(struct profile *p)
{
    p->n_initial_members = MIN(MAX(p->n_initial_members, 2u), 3u);
    p->members_max = 4;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->admin_every_ms = 100;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->admin_weight[ADMIN_DEMOTE] = 8;
    p->admin_weight[ADMIN_PROMOTE] = 16;
    p->admin_weight[ADMIN_REMOVE] = p->admin_weight[ADMIN_ADD] = 2;
    p->fault_every_ms = 300;
    p->fault_weight[FAULT_POWER] = 20;
    p->fault_weight[FAULT_CUT] = 10;
    p->fault_weight[FAULT_DAMAGE] = 0;
    p->leader_permille = 700;
    p->ending = ENDING_DEMOTE;
}

/* Messages arrive seconds late. */
static void pin_late(struct profile *p)
{
    p->ordered = false;
    p->late_permille = 150;
    p->late_ms_max = 4000;
    p->repeat_permille = 40;
    p->lose_permille = 20;
    p->election_ms = 150;
    p->heartbeat_ms = 30;
    p->fault_weight[FAULT_CUT] = 20;
    p->fault_weight[FAULT_POWER] = 10;
    p->fault_every_ms = 300;
}

/* Snapshots all the time. */
static void pin_snapshots(struct profile *p)
{
    p->snapshot_log_bytes = 8 * 1024;
    p->snapshot_trailing = 10;
    p->segment_bytes = 32 * 1024;
    p->admin_weight[ADMIN_SNAPSHOT] = 20;
    p->admin_every_ms = 100;
    p->fault_weight[FAULT_CUT] = p->fault_weight[FAULT_POWER] = 10;
    p->fault_every_ms = 300;
}

/* Leadership goes to and fro while messages are seconds late. */
static void pin_flip(struct profile *p)
{
    pin_late(p);
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->admin_weight[ADMIN_TRANSFER] = 20;
    p->admin_every_ms = 100;
    p->fault_every_ms = 600;
    p->late_ms_max = 3000;
    p->down_ms_max = 200;
}

/* Members change while messages are seconds late. */
static void pin_late_churn(struct profile *p)
{
    pin_churn(p);
    p->ordered = false;
    p->late_permille = 60;
    p->late_ms_max = 4000;
    p->fault_every_ms = 300;
}

/* Leaders die young, and at the end some voters stay away. */
static void pin_vote(struct profile *p)
{
    p->n_initial_members = 3;
    p->election_ms = 150;
    p->heartbeat_ms = 15;
    p->fault_every_ms = 100;
    p->down_ms_max = 400;
    p->ending = ENDING_USURPER;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    memset(p->fault_weight, 0, sizeof p->fault_weight);
    p->fault_weight[FAULT_POWER] = 20;
    p->fault_weight[FAULT_CUT] = 20;
    p->fault_weight[FAULT_KILL] = 10;
}

/* Many entries under way at once, out of order. */
static void pin_pipeline(struct profile *p)
{
    p->ordered = false;
    p->delay_ms_max = 20;
    p->late_permille = 50;
    p->late_ms_max = 300;
    p->lose_permille = 30;
    p->repeat_permille = 60;
    p->sync_ns_max = 100 * SIM_US;
    p->clients = 24;
    p->think_ms_max = 3;
    p->value_bytes_max = 100;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->fault_every_ms = 400;
    p->fault_weight[FAULT_CUT] = 20;
}

/* Slow disks and quick changes of leaders: writes under way are replaced. */
static void pin_truncate(struct profile *p)
{
    p->ordered = false;
    p->sync_ns_max = 200 * SIM_MS;
    p->cut_ms_max = 250;
    p->leader_permille = 700;
    p->refuse_permille = 1000;
    p->keep_permille = 100;
    p->clients = 24;
    p->think_ms_max = 5;
    p->value_bytes_max = 100;
    p->election_ms = 150;
    p->heartbeat_ms = 15;
    p->down_ms_max = 60;
    p->fault_every_ms = 60;
    memset(p->fault_weight, 0, sizeof p->fault_weight);
    p->fault_weight[FAULT_CUT] = 30;
    p->fault_weight[FAULT_POWER] = 40;
    p->admin_weight[ADMIN_TRANSFER] = 10;
}

/* New members get the whole log, then compact it, while copies of it are still on the way. */
static void pin_join(struct profile *p)
{
    pin_snapshots(p);
    p->n_initial_members = 3;
    p->ordered = false;
    p->late_permille = 100;
    p->late_ms_max = 4000;
    p->repeat_permille = 200;
    p->snapshot_trailing = 4;
    p->admin_weight[ADMIN_ADD] = 40;
    p->admin_weight[ADMIN_REMOVE] = 20;
    p->admin_weight[ADMIN_TRANSFER] = 30;
    p->think_ms_max = 10;
    p->value_bytes_max = 2000;
}

/* New members get the log from its first entry, and the term changes while it is on the way. */
static void pin_whole(struct profile *p)
{
    pin_join(p);
    p->snapshot_log_bytes = 8192 * 1024;
    p->segment_bytes = 256 * 1024;
    p->admin_weight[ADMIN_SNAPSHOT] = 0;
    p->late_permille = 200;
    p->leader_permille = 500;
    p->fault_every_ms = 200;
}

/* Disks lose, tear, refuse and rot. */
static void pin_disk(struct profile *p)
{
    p->fault_every_ms = 150;
    p->down_ms_max = 300;
    p->fault_weight[FAULT_POWER] = p->fault_weight[FAULT_NTH_CALL] = 20;
    p->fault_weight[FAULT_SYNC] = p->fault_weight[FAULT_EIO] = 10;
    p->fault_weight[FAULT_DAMAGE] = 10;
    p->fault_weight[FAULT_ALL_POWER] = 6;
}

/* Disks confirm writes and lose them, or put them elsewhere. */
static void pin_stray(struct profile *p)
{
    p->n_initial_members = MAX(p->n_initial_members, 3u);
    p->fault_every_ms = 150;
    p->down_ms_max = 300;
    p->fault_weight[FAULT_STRAY] = 20;
    p->fault_weight[FAULT_DAMAGE] = 0;
    p->fault_weight[FAULT_POWER] = p->fault_weight[FAULT_KILL] = 10;
    p->admin_weight[ADMIN_SNAPSHOT] = 8;
}

/* Leaders are cut off, paused and deposed while clients read everywhere. */
static void pin_leaders(struct profile *p)
{
    p->election_ms = 150;
    p->heartbeat_ms = 15;
    p->fault_every_ms = 200;
    p->fault_weight[FAULT_CUT] = 40;
    p->fault_weight[FAULT_PAUSE] = 20;
    p->leader_permille = 700;
    p->refuse_permille = 700;
    p->admin_weight[ADMIN_TRANSFER] = 20;
    p->lose_reply_permille = 100;
    p->clients = 8;
    p->think_ms_max = 10;
    p->keys = 2;
}

/* One leader, and a network that loses, repeats and mixes up. */
static void pin_reject(struct profile *p)
{
    p->n_initial_members = 3;
    p->ordered = false;
    p->election_ms = 1000;
    p->heartbeat_ms = 100;
    p->delay_ms_max = 10;
    p->late_permille = 150;
    p->late_ms_max = 400;
    p->lose_permille = 60;
    p->repeat_permille = 100;
    p->sync_ns_max = 100 * SIM_US;
    p->clients = 6;
    p->think_ms_max = 60;
    p->value_bytes_max = 100;
    p->drift_ppm_max = 0;
    p->ending = ENDING_ALL;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    memset(p->fault_weight, 0, sizeof p->fault_weight);
    p->fault_weight[FAULT_CLOCK] = 10;
    p->fault_weight[FAULT_NET] = 1;
}

/* Four voters of which two leaders make different clusters. */
static void pin_rivals(struct profile *p)
{
    p->n_initial_members = 4;
    p->members_max = 6;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->sync_ns_max = MIN(p->sync_ns_max, 5 * (uint64_t)SIM_MS);
    p->fault_every_ms = 1000;
    p->fault_weight[FAULT_DAMAGE] = 0;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->ending = ENDING_RIVALS;
}

/* Leadership moves under load. */
static void pin_handover(struct profile *p)
{
    p->n_initial_members = 3;
    p->clients = 24;
    p->think_ms_max = 3;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->sync_ns_max = 5 * (uint64_t)SIM_MS;
    p->fault_every_ms = 1000;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->ending = ENDING_HANDOVER;
}

/* Trees are exchanged while snapshots are created. */
static void pin_exchange(struct profile *p)
{
    p->exchange_every_ms = 100;
    p->snapshot_log_bytes = 20 * 1024;
    p->snapshot_trailing = 20;
    p->admin_weight[ADMIN_SNAPSHOT] = 10;
    p->admin_every_ms = 100;
    p->fault_every_ms = 300;
    p->fault_weight[FAULT_POWER] = 20;
}

/* There is no room for more. */
static void pin_full(struct profile *p)
{
    p->state_bytes_max = 60 * 1024;
    p->exchange_every_ms = 1000;
}

/* Somebody lies to every node, all the time. */
static void pin_lies(struct profile *p)
{
    p->lie_every_ms = 5;
}

/* A voter's log is damaged while it is off. */
static void pin_amnesia(struct profile *p)
{
    p->n_initial_members = 3;
    p->snapshot_log_bytes = 8192 * 1024;
    p->segment_bytes = 256 * 1024;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->fault_every_ms = 1000;
    p->fault_weight[FAULT_DAMAGE] = 0;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->ending = ENDING_AMNESIA;
}

/* Three of five voters are lost for good, and one of the others is recovered. */
static void pin_recover(struct profile *p)
{
    p->n_initial_members = 5;
    p->snapshot_log_bytes = 128 * 1024;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->fault_every_ms = 1000;
    p->fault_weight[FAULT_DAMAGE] = 0;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->ending = ENDING_RECOVER;
}

/* Tokens on every node, with clocks that are wrong and leaders that come and go. */
static void pin_tokens(struct profile *p)
{
    p->fronts = 8;
    p->clients = 4;
    p->value_bytes_max = 200;
    p->think_ms_max = 30;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->fault_every_ms = 300;
    p->leader_permille = 500;
    p->fault_weight[FAULT_CUT] = 20;
    p->fault_weight[FAULT_CLOCK] = 10;
    p->fault_weight[FAULT_POWER] = 10;
    p->admin_weight[ADMIN_TRANSFER] = 10;
}

/* Leases of tokens that end. The time of a sole voter may fall when the voter starts again with a
 * full disk and a clock that went back. */
static void pin_leases(struct profile *p)
{
    pin_tokens(p);
    p->n_initial_members = MAX(p->n_initial_members, 3u);
    p->leases = true;
}

/* Batch tokens and wrapped replies; at some time the feature level rises. */
static void pin_wraps(struct profile *p)
{
    pin_leases(p);
    p->wraps = true;
    p->older_permille = 100;
}

/* Tokens and ACL policies of the registry, which needs a level above the first. */
static void pin_registry(struct profile *p)
{
    pin_leases(p);
    p->registry = true;
    p->older_permille = 100;
}

/* Every request is recorded, by audit devices that hang and fail. */
static void pin_audit(struct profile *p)
{
    p->recorders = RECORDERS;
    p->clients = 4;
    p->value_bytes_max = 200;
    p->think_ms_max = 30;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->fault_every_ms = 300;
    p->leader_permille = 500;
    p->fault_weight[FAULT_CUT] = 20;
    p->fault_weight[FAULT_KILL] = 20;
    p->fault_weight[FAULT_POWER] = 10;
    p->admin_weight[ADMIN_TRANSFER] = 10;
}

/* Watchers on every node, while leaders come and go and the state is replaced. */
static void pin_watch(struct profile *p)
{
    p->watchers = true;
    p->clients = 8;
    p->keys = 2;
    p->value_bytes_max = 200;
    p->think_ms_max = 60;
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->exchange_every_ms = 1000;
    p->fault_every_ms = 300;
    p->leader_permille = 500;
    p->fault_weight[FAULT_CUT] = 20;
    p->fault_weight[FAULT_KILL] = 20;
    p->fault_weight[FAULT_POWER] = 10;
    p->admin_weight[ADMIN_TRANSFER] = 10;
}

/* Members of an older build, with and without a vote, are upgraded while leaders come and go and
 * tokens are made, renewed and ended. */
static void pin_upgrade(struct profile *p)
{
    p->n_initial_members = 5;
    p->older_permille = 500;
    p->fronts = 4;
    p->admin_every_ms = 200;
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->admin_weight[ADMIN_DEMOTE] = 12;
    p->admin_weight[ADMIN_PROMOTE] = 4;
    p->admin_weight[ADMIN_TRANSFER] = 6;
    p->admin_weight[ADMIN_ADD] = 4;
    p->fault_every_ms = 300;
    p->fault_weight[FAULT_STOP] = 20;
    p->fault_weight[FAULT_POWER] = 10;
    p->leader_permille = 200;
}

/* Two clusters, of which one follows the other and takes its place. A disk that rots is left to the
 * runs of one cluster. */
static void pin_pair(struct profile *p)
{
    p->pair = true;
    p->n_initial_members = 3;
    p->clients = 3;
    p->think_ms_max = 60;
    p->value_bytes_max = MIN(p->value_bytes_max, 2000u);
    p->election_ms = 300;
    p->heartbeat_ms = 30;
    p->sync_ns_max = MIN(p->sync_ns_max, 5 * (uint64_t)SIM_MS);
    p->fault_every_ms = 600;
    p->down_ms_max = MIN(p->down_ms_max, 600u);
    p->admin_every_ms = 600;
    p->fault_weight[FAULT_CLOCK] = p->fault_weight[FAULT_DAMAGE] = 0;
    p->fault_weight[FAULT_POWER] += 10;
    p->fault_weight[FAULT_KILL] += 10;
    p->leader_permille = MAX(p->leader_permille, 300u);
    p->ending = ENDING_ALL;
}

/* Nothing goes wrong: to look at a run. */
static void pin_calm(struct profile *p)
{
    memset(p->fault_weight, 0, sizeof p->fault_weight);
    memset(p->admin_weight, 0, sizeof p->admin_weight);
    p->lose_permille = p->repeat_permille = p->late_permille = p->lose_reply_permille = 0;
    p->ending = ENDING_ALL;
}

static const struct {
    const char *name;
    void (*pin)(struct profile *p);
} pins[] = {{"any", NULL},
            {"sole", pin_sole},
            {"churn", pin_churn},
            {"roles", pin_roles},
            {"demote", pin_demote},
            {"late", pin_late},
            {"snapshots", pin_snapshots},
            {"disk", pin_disk},
            {"stray", pin_stray},
            {"flip", pin_flip},
            {"late-churn", pin_late_churn},
            {"pipeline", pin_pipeline},
            {"truncate", pin_truncate},
            {"vote", pin_vote},
            {"join", pin_join},
            {"whole", pin_whole},
            {"leaders", pin_leaders},
            {"reject", pin_reject},
            {"rivals", pin_rivals},
            {"handover", pin_handover},
            {"amnesia", pin_amnesia},
            {"recover", pin_recover},
            {"exchange", pin_exchange},
            {"full", pin_full},
            {"lies", pin_lies},
            {"tokens", pin_tokens},
            {"leases", pin_leases},
            {"wraps", pin_wraps},
            {"registry", pin_registry},
            {"audit", pin_audit},
            {"watch", pin_watch},
            {"upgrade", pin_upgrade},
            {"pair", pin_pair},
            {"calm", pin_calm}};

const char *profile_name(unsigned i)
{
    return i < ARRAY_LEN(pins) ? pins[i].name : NULL;
}

bool profile_make(struct profile *p, const char *name, uint64_t seed)
{
    if (name[0] == '\0')
        name = "any";
    struct rng r = rng_make(seed, 0x9201F11E);
    *p = (struct profile){0};
    struct rng extra = rng_make(seed, 0xE7712A), front = rng_make(seed, 0xF2017),
               votes = rng_make(seed, 0x707E5), levels = rng_make(seed, 0x1E7E1),
               leases = rng_make(seed, 0x1EA5E), audit = rng_make(seed, 0xA0D17),
               watch = rng_make(seed, 0x3A7C4), wraps = rng_make(seed, 0x33A95),
               strays = rng_make(seed, 0x574A1);
    size_t len = strcspn(name, "+");
    bool recorded = strcmp(name + len, RECORDED) == 0;
    if (name[len] != '\0' && !recorded)
        return false;
    draw(p, &r);
    for (unsigned i = 0; i < ARRAY_LEN(pins); i++) {
        if (strlen(pins[i].name) != len || memcmp(pins[i].name, name, len) != 0)
            continue;
        if (pins[i].pin == NULL)
            draw_more(p, &extra, &front, &votes, &levels, &leases, &audit);
        else
            pins[i].pin(p);
        if (recorded)
            p->recorders = RECORDERS;
        if (pins[i].pin == NULL) {
            p->watchers = rng_chance(&watch, 150);
            p->wraps = p->fronts != 0 && rng_chance(&wraps, 500);
            p->leases = p->leases || p->wraps;
            p->registry = p->fronts != 0 && rng_chance(&wraps, 300);
            if (p->registry)
                p->older_permille = MAX(p->older_permille, 1u);
            if (rng_chance(&strays, 250))
                p->fault_weight[FAULT_STRAY] = 6;
        }
        snprintf(p->name, sizeof p->name, "%s", name);
        return true;
    }
    return false;
}
