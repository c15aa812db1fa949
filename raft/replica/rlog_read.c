/* Linearizable reads without disk (R15).
 *
 *   fresh -> in a round -> awaiting its index -> done
 *
 * On a leader, a round notes the commit index and then asks voters whether the leader's term is
 * still theirs. The round succeeds when a majority of the voters of the newest configuration has
 * said yes. It asks the voters that were quickest the last time. It asks the other voters too if
 * those keep silent, and once a second. A round serves reads that arrived before the round began,
 * and no later read. On another node, a round is one question to the leader, which treats the
 * question as a read of its own. If a frame is lost, the round is given up and its reads go into a
 * new round: an old question proves nothing about a later moment. */
#include "base/mem.h"
#include "raft/replica/rlog_internal.h"

enum {
    ROUND_MS = 150, /* a round that takes longer has lost a frame */
    DEADLINE_MS = 10000,
    ROUND_GAP_NS = 200000, /* reads gather for this time before a second round opens */
    ALL_MS = 1000,         /* a leader asks all members at least this often, for the clocks */
    REST_MS = 10, /* ask the remaining members when the first ones are silent for so long */
    CHECK_MS = 10,
};

static void on_timer(struct env_timer *timer);

void rlog_reads_init(struct rlog *r)
{
    struct rlog_reads *rs = &r->reads;
    list_init(&rs->fresh);
    list_init(&rs->awaiting);
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++)
        list_init(&rs->rounds[i].reads);
    rs->timer.fire = on_timer;
    /* A reply to a request from before a restart must not fit a request after it. */
    env_random(r->env, &rs->number, sizeof rs->number);
}

static void finish(struct rlog *r, struct rlog_read *read, enum status st)
{
    read->status = st;
    list_push(&r->done_reads, &read->link);
}

static void join_open_round(struct rlog *r, struct rlog_read *read)
{
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++) {
        if (!r->reads.rounds[i].open)
            continue;
        list_push(&r->reads.rounds[i].reads, &read->link);
        return;
    }
    list_push(&r->reads.fresh, &read->link);
}

void rlog_read(struct rlog *r, struct rlog_read *read)
{
    ASSERT(read->done != NULL);
    rlog_enter(r);
    list_init(&read->link);
    read->index = 0;
    if (read->deadline_ms == 0)
        read->deadline_ms = rlog_now(r) + DEADLINE_MS;
    if (r->failed || r->closing)
        finish(r, read, ST_CLOSED);
    else if (planted(PLANT_R15_ROUND_REUSED))
        join_open_round(r, read);
    else
        list_push(&r->reads.fresh, &read->link);
    rlog_leave_soon(r);
}

static void await_index(struct rlog *r, struct rlog_read *read, uint64_t index, int64_t time_ms)
{
    struct list *at = &r->reads.awaiting;
    read->index = index;
    read->time_ms = time_ms;
    while (at->prev != &r->reads.awaiting &&
           CONTAINER_OF(at->prev, struct rlog_read, link)->index > index)
        at = at->prev;
    list_insert_before(at, &read->link);
    r->reads_confirmed++;
}

static void reply_remote(struct rlog *r, const struct rlog_remote_read *remote, uint64_t index)
{
    struct rlog_frame frame = {.kind = RLOG_FRAME_READ_INDEX,
                               .read = {.number = remote->number,
                                        .term = r->core.term,
                                        .index = index,
                                        .time_ms = rlog_time_ms(r)}};
    rlog_send_frame(r, remote->from, &frame, false);
}

static void round_confirm(struct rlog *r, struct rlog_round *round, uint64_t index, int64_t time_ms)
{
    struct list *link;
    ASSERT(round->open);
    while ((link = list_pop(&round->reads)) != NULL)
        await_index(r, CONTAINER_OF(link, struct rlog_read, link), index, time_ms);
    for (unsigned i = 0; i < round->n_remote; i++)
        reply_remote(r, &round->remote[i], index);
    round->open = false;
    round->n_remote = 0;
}

/* Give a round up: its reads wait for a new one. */
static void round_give_up(struct rlog *r, struct rlog_round *round)
{
    struct rlog_reads *rs = &r->reads;
    ASSERT(round->open);
    list_splice(&rs->fresh, &round->reads);
    for (unsigned i = 0; i < round->n_remote && rs->n_remote < RLOG_REMOTE_READS_MAX; i++)
        rs->remote[rs->n_remote++] = round->remote[i];
    round->open = false;
    round->n_remote = 0;
}

static void give_up_all(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++)
        if (r->reads.rounds[i].open)
            round_give_up(r, &r->reads.rounds[i]);
}

static bool round_has_majority(const struct rlog *r, const struct rlog_round *round)
{
    const struct rlog_conf *conf = &r->core.conf;
    unsigned yes = 0;
    for (unsigned i = 0; i < conf->n; i++)
        if ((conf->members[i].role == RLOG_VOTER || planted(PLANT_R15_ANYBODY)) &&
            (conf->members[i].id == r->identity.id || (round->yes >> i & 1) != 0))
            yes++;
    return yes > rlog_conf_voters(conf) / 2 || planted(PLANT_R15_NO_ROUND);
}

static void round_check(struct rlog *r, struct rlog_round *round)
{
    ASSERT(round->open);
    ASSERT(!round->asks_leader);
    if (!rlog_core_ready(&r->core) || r->core.term != round->term ||
        r->conf_generation != round->conf_generation) {
        round_give_up(r, round);
        return;
    }
    if (!round_has_majority(r, round) || round->untimed)
        return;
    r->reads.quick = round->yes;
    r->reads.quick_generation = r->conf_generation;
    round_confirm(r, round, round->index, rlog_time_ms(r));
}

static uint32_t everybody(const struct rlog *r)
{
    return (uint32_t)((1ull << r->core.conf.n) - 1);
}

static void round_ask(struct rlog *r, struct rlog_round *round, uint32_t whom, uint64_t now_ms)
{
    const struct rlog_conf *conf = &r->core.conf;
    struct rlog_frame frame = {.kind = RLOG_FRAME_ASK,
                               .ask = {.term = round->term,
                                       .round = round->number,
                                       .commit = round->index,
                                       .time_ms = rlog_time_ms(r)}};
    ASSERT(round->open);
    ASSERT(!round->asks_leader);
    for (unsigned i = 0; i < conf->n; i++)
        if (conf->members[i].id != r->identity.id && (whom >> i & 1) != 0)
            rlog_send_frame(r, conf->members[i].id, &frame, false);
    round->asked |= whom;
    if (round->asked == everybody(r))
        r->reads.all_ms = now_ms;
}

/* A frame of the round was lost, or a follower is down: ask the members that were not asked yet. */
static void round_ask_rest(struct rlog *r, struct rlog_round *round, uint64_t now_ms)
{
    if (!round->open || round->asks_leader || now_ms - round->started_ms < REST_MS ||
        round->conf_generation != r->conf_generation)
        return;
    uint32_t rest = everybody(r) & ~round->asked;
    if (rest != 0)
        round_ask(r, round, rest, now_ms);
}

static bool all_are_due(const struct rlog *r, uint64_t now_ms)
{
    return now_ms - r->reads.all_ms >= ALL_MS;
}

static void round_begin(struct rlog *r, struct rlog_round *round, uint64_t now_ns)
{
    struct rlog_reads *rs = &r->reads;
    uint64_t now_ms = now_ns / 1000000;
    ASSERT(!round->open);
    ASSERT(list_empty(&round->reads));
    ASSERT(round->n_remote == 0);
    round->open = true;
    round->number = ++rs->number;
    round->term = r->core.term;
    round->leader = rlog_core_leader(&r->core);
    round->conf_generation = r->conf_generation;
    round->started_ms = now_ms;
    round->yes = round->asked = 0;
    round->asks_leader = !rlog_core_leads(&r->core);
    round->untimed = !round->asks_leader && !rlog_clock_began(r);
    rs->started_ns = now_ns;
    list_splice(&round->reads, &rs->fresh);
    if (round->asks_leader && planted(PLANT_STANDBY_STALE)) {
        round_confirm(r, round, r->core.applied, rlog_time_ms(r));
        return;
    }
    if (round->asks_leader) {
        struct rlog_frame frame = {.kind = RLOG_FRAME_READ, .read.number = round->number};
        rlog_send_frame(r, round->leader, &frame, false);
        return;
    }
    round->index = r->core.commit; /* the index must be noted before the question is sent */
    memcpy(round->remote, rs->remote, rs->n_remote * sizeof rs->remote[0]);
    round->n_remote = rs->n_remote;
    rs->n_remote = 0;
    r->read_rounds++;
    bool quick =
        rs->quick_generation == r->conf_generation && rs->quick != 0 && !all_are_due(r, now_ms);
    if (r->core.conf.n == 1)
        rs->all_ms = now_ms;
    else
        round_ask(r, round, quick ? rs->quick : everybody(r), now_ms);
    round_check(r, round);
}

static struct rlog_round *round_free(struct rlog *r, unsigned *ret_open)
{
    struct rlog_round *unused = NULL;
    *ret_open = 0;
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++) {
        if (r->reads.rounds[i].open)
            ++*ret_open;
        else if (unused == NULL)
            unused = &r->reads.rounds[i];
    }
    return unused;
}

/* Whether a round may be opened now, and has reads to serve. */
static bool round_wanted(struct rlog *r, uint64_t now_ms)
{
    const struct rlog_reads *rs = &r->reads;
    bool waiting = !list_empty(&rs->fresh);
    if (!rlog_core_leads(&r->core))
        return waiting && rlog_core_leader(&r->core) != 0;
    if (!rlog_core_ready(&r->core))
        return false;
    return waiting || rs->n_remote > 0 || all_are_due(r, now_ms);
}

/* Give up the rounds that began before a new cluster had a time: the reply to a read must carry a
 * time that a majority has received. */
static void give_up_untimed(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX && rlog_clock_began(r); i++)
        if (r->reads.rounds[i].open && r->reads.rounds[i].untimed)
            round_give_up(r, &r->reads.rounds[i]);
}

static void fire_awaiting(struct rlog *r)
{
    while (!list_empty(&r->reads.awaiting)) {
        struct rlog_read *read = CONTAINER_OF(r->reads.awaiting.next, struct rlog_read, link);
        if (read->index > r->core.applied || rlog_core_installing(&r->core))
            return;
        list_remove(&read->link);
        finish(r, read, ST_OK);
    }
}

static void arm(struct rlog *r, uint64_t now_ms)
{
    struct rlog_reads *rs = &r->reads;
    bool pending = !list_empty(&rs->fresh) || !list_empty(&rs->awaiting);
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++)
        pending = pending || rs->rounds[i].open;
    if (!pending)
        env_timer_stop(r->env, &rs->timer);
    else if (rs->timer.slot == 0)
        env_timer_set(r->env, &rs->timer, now_ms + CHECK_MS);
}

/* Read the clock once: this function runs for every read. */
void rlog_reads_pump(struct rlog *r)
{
    unsigned open;
    uint64_t now_ns = env_mono_ns(r->env), now_ms = now_ns / 1000000;
    give_up_untimed(r);
    struct rlog_round *round = round_free(r, &open);
    bool first = open == 0 && rlog_core_ready(&r->core) && !rlog_clock_began(r);
    if (round != NULL && (first || round_wanted(r, now_ms)) &&
        (open == 0 || now_ns - r->reads.started_ns >= ROUND_GAP_NS))
        round_begin(r, round, now_ns);
    fire_awaiting(r);
    arm(r, now_ms);
}

static void expire(struct rlog *r, struct list *reads, uint64_t now)
{
    enum status st = rlog_core_leader(&r->core) == 0 ? ST_NO_LEADER : ST_TIMEOUT;
    LIST_FOR_SAFE (link, after, reads) {
        struct rlog_read *read = CONTAINER_OF(link, struct rlog_read, link);
        if (now < read->deadline_ms)
            continue;
        list_remove(&read->link);
        finish(r, read, st);
    }
}

static void on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, reads.timer);
    struct rlog_reads *rs = &r->reads;
    uint64_t now = rlog_now(r);
    rlog_enter(r);
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++) {
        struct rlog_round *round = &rs->rounds[i];
        expire(r, &round->reads, now);
        round_ask_rest(r, round, now);
        if (round->open && now - round->started_ms >= ROUND_MS)
            round_give_up(r, round);
    }
    expire(r, &rs->fresh, now);
    expire(r, &rs->awaiting, now);
    rlog_leave(r);
}

void rlog_reads_leadership(struct rlog *r)
{
    give_up_all(r);
    if (!rlog_core_leads(&r->core))
        r->reads.n_remote = 0; /* standbys ask the next leader */
}

void rlog_reads_close(struct rlog *r)
{
    struct list *link;
    give_up_all(r);
    list_splice(&r->reads.fresh, &r->reads.awaiting);
    while ((link = list_pop(&r->reads.fresh)) != NULL)
        finish(r, CONTAINER_OF(link, struct rlog_read, link), ST_CLOSED);
    env_timer_stop(r->env, &r->reads.timer);
}

void rlog_reads_fire(struct rlog *r)
{
    struct list *link;
    while ((link = list_pop(&r->done_reads)) != NULL) {
        struct rlog_read *read = CONTAINER_OF(link, struct rlog_read, link);
        read->done(read, read->status); /* the last touch of *read */
    }
}

static struct rlog_round *round_find(struct rlog *r, uint64_t number, bool asks_leader)
{
    for (unsigned i = 0; i < RLOG_ROUNDS_MAX; i++) {
        struct rlog_round *round = &r->reads.rounds[i];
        if (round->open && round->number == number && round->asks_leader == asks_leader)
            return round;
    }
    return NULL;
}

/* Our term is durable, so a yes needs no write: a later vote would have raised the term. */
static void on_ask(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_frame frame = {
        .kind = RLOG_FRAME_REPLY,
        .ask = {.term = f->ask.term, .round = f->ask.round, .time_ms = rlog_clock_own(r)}};
    if (f->ask.term != r->core.term || rlog_core_leads(&r->core))
        return;
    rlog_clock_heard(r, f->ask.time_ms);
    rlog_core_notified(&r->core, from, f->ask.term, f->ask.commit, rlog_now(r));
    rlog_send_frame(r, from, &frame, false);
}

static void on_ask_reply(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_round *round = round_find(r, f->ask.round, false);
    const struct rlog_conf *conf = &r->core.conf;
    if (f->ask.term != r->core.term || !rlog_core_leads(&r->core))
        return;
    rlog_clock_wall(r, from, f->ask.time_ms);
    if (round == NULL || round->term != f->ask.term || round->conf_generation != r->conf_generation)
        return;
    for (unsigned i = 0; i < conf->n; i++)
        if (conf->members[i].id == from)
            round->yes |= 1u << i;
    round_check(r, round);
}

static void on_read(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_reads *rs = &r->reads;
    if (!rlog_core_leads(&r->core) || rs->n_remote == RLOG_REMOTE_READS_MAX)
        return; /* drop the request: the standby asks again */
    rs->remote[rs->n_remote++] = (struct rlog_remote_read){from, f->read.number};
}

static void on_read_index(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_round *round = round_find(r, f->read.number, true);
    if (round == NULL || round->leader != from)
        return;
    rlog_clock_heard(r, f->read.time_ms);
    rlog_core_notified(&r->core, from, f->read.term, f->read.index, rlog_now(r));
    if (round->open) /* the notice above may have ended the round with its leader */
        round_confirm(r, round, f->read.index, f->read.time_ms);
}

void rlog_reads_receive(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    switch (f->kind) {
    case RLOG_FRAME_ASK: on_ask(r, from, f); return;
    case RLOG_FRAME_REPLY: on_ask_reply(r, from, f); return;
    case RLOG_FRAME_READ: on_read(r, from, f); return;
    case RLOG_FRAME_READ_INDEX: on_read_index(r, from, f); return;
    case RLOG_FRAME_CORE:
    case RLOG_FRAME_COMMIT:
        rlog_core_notified(&r->core, from, f->ask.term, f->ask.commit, rlog_now(r));
        return;
    case RLOG_FRAME_CHUNK:
    case RLOG_FRAME_CHUNK_REPLY: return;
    }
}
