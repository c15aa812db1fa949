/* Cluster time (R16) is the leader's time. It never falls: it begins at the last time of the leader
 * before, advances with the time since, and is slewed towards the median of the voters' wall
 * clocks. The time of a new cluster begins at that median, and its leader is not ready before. No
 * wall clock decides anything by itself, and apply reads no clock. */
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"
#include "text/time.h"

enum {
    WALL_FRESH_MS = 5000, /* a reply older than this does not count */
    STEP_MS = 60 * 1000,  /* a clock this far behind the median jumps to it: the cluster was down */
    HOP_MS = 1000,        /* a longer jump needs an entry in the log */
    SLEW_PART = 20,       /* a clock runs at most 1/20 faster or slower */
    ADVANCE_MS = 50,
    BEGIN_ALL_MS = 300,  /* how long a new cluster's leader waits for every voter's clock */
    BEGIN_ANY_MS = 5000, /* how long it waits for clocks of a majority, before it uses its own */
};

/* Clip a time to the range that other nodes accept: a node whose clock is very wrong must not be
 * cut off. */
static int64_t believable(int64_t time_ms)
{
    return MIN(MAX(time_ms, 0), TEXT_CLOCK_END - 1);
}

int64_t rlog_clock_own(struct rlog *r)
{
    return believable(env_wall_ms(r->env));
}

/* The base at the time `now`; 0 before a time is known. */
static int64_t base_now(const struct rlog_clock *c, uint64_t now_ms)
{
    return c->base_ms != 0 ? c->base_ms + (int64_t)(now_ms - c->base_mono) : 0;
}

void rlog_clock_start(struct rlog *r)
{
    r->clock.base_ms = r->clock.advertised_ms = r->machine.time_ms;
    r->clock.base_mono = rlog_now(r);
    r->clock.known = false;
}

void rlog_clock_heard(struct rlog *r, int64_t time_ms)
{
    struct rlog_clock *c = &r->clock;
    uint64_t now = rlog_now(r);
    if (time_ms <= 0)
        return; /* the sender does not know a time yet */
    ASSERT(c->base_mono <= now);
    /* The leader's question may come late and tell an old time: never go below our own estimate
     * less the greatest slew. */
    int64_t least = base_now(c, now) - (int64_t)((now - c->base_mono) / SLEW_PART);
    c->base_ms = MAX(time_ms, MAX(least, r->machine.time_ms));
    c->base_mono = now;
    c->known = true;
}

void rlog_clock_wall(struct rlog *r, uint64_t id, int64_t wall_ms)
{
    struct rlog_wall *at = NULL;
    for (unsigned i = 0; i < ARRAY_LEN(r->clock.walls); i++) {
        struct rlog_wall *w = &r->clock.walls[i];
        if (w->id == id) {
            at = w;
            break;
        }
        if (at == NULL && (w->id == 0 || rlog_conf_find(&r->core.conf, w->id) == NULL))
            at = w;
    }
    if (at != NULL)
        *at = (struct rlog_wall){id, rlog_now(r), wall_ms};
}

void rlog_clock_lead(struct rlog *r)
{
    struct rlog_clock *c = &r->clock;
    uint64_t now = rlog_now(r);
    c->base_ms = MAX(base_now(c, now), MAX(c->advertised_ms, r->machine.time_ms));
    c->base_mono = now;
    c->begin_ms = 0;
    c->step_ms = 0;
    c->stepping = 0;
    memset(c->walls, 0, sizeof c->walls);
}

/* The voters' wall clocks as they are now, sorted; at least a majority, or none. */
static unsigned walls_now(struct rlog *r, uint64_t now, int64_t *walls)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->core.conf.n; i++) {
        const struct rlog_member *m = &r->core.conf.members[i];
        int64_t wall = 0;
        if (m->role != RLOG_VOTER)
            continue;
        bool found = m->id == r->identity.id;
        if (found)
            wall = rlog_clock_own(r);
        for (unsigned k = 0; k < ARRAY_LEN(r->clock.walls) && !found; k++) {
            const struct rlog_wall *w = &r->clock.walls[k];
            found = w->id == m->id && now - w->at_ms < WALL_FRESH_MS;
            if (found)
                wall = w->wall_ms + (int64_t)(now - w->at_ms);
        }
        unsigned at = n;
        for (; found && at > 0 && walls[at - 1] > wall; at--)
            walls[at] = walls[at - 1];
        if (found) {
            walls[at] = wall;
            n++;
        }
    }
    ASSERT(n <= RLOG_MEMBERS_MAX);
    return n > rlog_conf_voters(&r->core.conf) / 2 ? n : 0;
}

bool rlog_clock_began(const struct rlog *r)
{
    return r->clock.base_ms > 0 || r->machine.time_ms > 0;
}

bool rlog_ready(const struct rlog *r)
{
    return rlog_core_ready(&r->core) && rlog_clock_began(r);
}

/* Begin the time of a cluster that has none: nothing was ever written, and no node sent a time. Of
 * an even number of clocks take the lower middle one: a time that is behind can be corrected later,
 * a time that is ahead cannot. */
static void begin(struct rlog *r)
{
    struct rlog_clock *c = &r->clock;
    uint64_t now = rlog_now(r);
    int64_t walls[RLOG_MEMBERS_MAX];

    ASSERT(!rlog_clock_began(r));
    if (!rlog_core_ready(&r->core))
        return; /* entries that carry a time may still come */
    if (c->begin_ms == 0)
        c->begin_ms = now;
    uint64_t waited = now - c->begin_ms;
    unsigned n = planted(PLANT_R16_OWN_CLOCK) ? 0 : walls_now(r, now, walls);
    bool enough = n == rlog_conf_voters(&r->core.conf) || (n > 0 && waited >= BEGIN_ALL_MS);
    if (!enough && waited < BEGIN_ANY_MS && !planted(PLANT_R16_OWN_CLOCK))
        return;
    int64_t time = n > 0 ? walls[(n - 1) / 2] : rlog_clock_own(r);
    c->base_ms = MAX(time, 1);
    c->base_mono = now;
    c->known = n > 0;
    ASSERT(rlog_clock_began(r));
}

/* Move `time` towards the median, by `slew` at most or by all of `gap` at once. An entry must carry
 * a great step: a later leader has the entry, and so is not behind the step. The leader may be this
 * node after its next start, when its wall clock may be behind the step. A sole voter that has just
 * started takes its first step without an entry: the voter has told no time yet, and a full disk
 * must not keep the time of the last entry. */
static int64_t approach(struct rlog_clock *c, int64_t time, int64_t gap, int64_t slew, bool alone)
{
    bool step = gap > (c->known ? STEP_MS : 0);
    c->step_ms = step && (c->known || !alone) && gap > HOP_MS ? gap : 0;
    if (c->step_ms != 0)
        return time;
    c->known = true;
    return time + (step ? gap : MAX(-slew, MIN(gap, slew)));
}

/* On a leader: move the base on to now, and towards the median. */
void rlog_clock_advance(struct rlog *r)
{
    struct rlog_clock *c = &r->clock;
    uint64_t now = rlog_now(r), passed = now - c->base_mono;
    int64_t walls[RLOG_MEMBERS_MAX];

    if (!rlog_core_leads(&r->core))
        return;
    if (!rlog_clock_began(r)) {
        begin(r);
        return;
    }
    ASSERT(c->base_mono <= now);
    if (passed < ADVANCE_MS && c->known)
        return;
    int64_t time = MAX(base_now(c, now), r->machine.time_ms);
    unsigned n = walls_now(r, now, walls);
    if (c->stepping != 0 && r->core.applied >= c->stepping) {
        c->stepping = 0;
        c->known = true;
    }
    if (n > 0 && c->stepping == 0)
        time = approach(c, time, walls[(n - 1) / 2] - time, (int64_t)(passed / SLEW_PART),
                        rlog_conf_voters(&r->core.conf) == 1);
    c->base_ms = time;
    c->base_mono = now;
}

/* The time that a leader tells binds later leaders. The estimate of another node binds none:
 * otherwise a node with a wrong clock, asked before it had heard of any leader, would decide the
 * time of the cluster. */
int64_t rlog_time_ms(struct rlog *r)
{
    struct rlog_clock *c = &r->clock;
    int64_t time = MAX(base_now(c, rlog_now(r)), r->machine.time_ms);
    if (!rlog_core_leads(&r->core))
        return believable(time);
    c->advertised_ms = MAX(c->advertised_ms, believable(time));
    return c->advertised_ms;
}

int64_t rlog_clock_entry_ms(struct rlog *r)
{
    return believable(rlog_time_ms(r) + r->clock.step_ms);
}

void rlog_clock_submitted(struct rlog *r, uint64_t index)
{
    struct rlog_clock *c = &r->clock;
    if (c->step_ms != 0)
        c->stepping = index;
    c->step_ms = 0;
}
