/* Elections: the sole voter (F2), who votes (F10), stray results (F9), the timer (F11). */
#include "raft/core/rlog_core_internal.h"

static bool request_stale(const struct rlog_core *c, const struct raft_event *event)
{
    if (event->type != RAFT_RECEIVE)
        return false;
    const struct raft_message *m = event->receive.message;
    uint64_t term = raft_current_term(&c->raft);
    return (m->type == RAFT_APPEND_ENTRIES && m->append_entries.term < term) ||
           (m->type == RAFT_INSTALL_SNAPSHOT && m->install_snapshot.term < term);
}

/* Two rules of libraft can leave a cluster without a leader for good (F10). A server votes only if
 * its own newest configuration, which may be old or uncommitted, calls it a voter. And a non-voter
 * never forgets a silent leader. Term and log alone make a vote safe, because a candidate counts
 * only the votes of its own voters. */
static bool vote_needs_role(struct rlog_core *c, const struct raft_event *event)
{
    return !planted(PLANT_F10_VOTE_ROLE) && event->type == RAFT_RECEIVE &&
           event->receive.message->type == RAFT_REQUEST_VOTE && c->raft.state == RAFT_FOLLOWER &&
           raft_role(&c->raft) != RAFT_VOTER && raft_last_index(&c->raft) > 0;
}

static int step_as_voter(struct rlog_core *c, struct raft_event *event, struct raft_update *up)
{
    char address[] = "-";
    struct raft_server self = {c->id, address, RAFT_VOTER};
    struct raft_configuration real = c->raft.configuration;

    if (c->now_ms - c->heard_ms >= c->election_ms)
        event->receive.message->request_vote.disrupt_leader = true;
    c->raft.configuration = (struct raft_configuration){&self, 1};
    rlog_core_check_voter(c, event);
    int rv = raft_step(&c->raft, event, up);
    ASSERT(c->raft.configuration.servers == &self);
    c->raft.configuration = real;
    return rv;
}

int rlog_core_raft_step(struct rlog_core *c, struct raft_event *event, struct raft_update *up)
{
    c->stale_request = request_stale(c, event);
    if (vote_needs_role(c, event))
        return step_as_voter(c, event, up);
    rlog_core_check_voter(c, event);
    return raft_step(&c->raft, event, up);
}

/* libraft reads fields of a candidate before it checks that it is one (F9). */
bool rlog_core_vote_result_wanted(const struct rlog_core *c)
{
    return c->raft.state == RAFT_CANDIDATE || planted(PLANT_F9_VOTE_STATE);
}

void rlog_core_heard(struct rlog_core *c, const struct raft_message *m)
{
    uint64_t term = m->type == RAFT_APPEND_ENTRIES     ? m->append_entries.term
                    : m->type == RAFT_INSTALL_SNAPSHOT ? m->install_snapshot.term
                                                       : 0;
    if (term != 0 && term >= c->term)
        c->heard_ms = c->now_ms;
}

/* A spare that was sent entries once keeps an old send time: the timer would fire again and again
 * (F11). */
void rlog_core_timer_update(struct rlog_core *c)
{
    uint64_t at = raft_timeout(&c->raft);
    c->timeout_ms = MAX(at, c->not_before_ms);
}

/* libraft lets a sole voter lead without a new term, although the term may have had a leader. Make
 * it vote for itself in a fresh term first. A vote for itself in an old term proves nothing: the
 * node may have lost that election (F2). */
static bool sole_voter_needs_vote(const struct rlog_core *c)
{
    return !planted(PLANT_F2_SOLE_VOTER) && c->raft.state == RAFT_FOLLOWER &&
           !rlog_core_installing(c) && rlog_conf_sole_voter(&c->conf, c->id) &&
           c->sole_term != c->term && rlog_core_last(c) > 0 && c->stored == rlog_core_last(c);
}

static void sole_voter_vote(struct rlog_core *c)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE, .server_id = c->id};
    m.request_vote =
        (struct raft_request_vote){.version = 2,
                                   .term = c->term + 1,
                                   .candidate_id = c->id,
                                   .last_log_index = rlog_core_last(c),
                                   .last_log_term = rlog_core_term_of(c, rlog_core_last(c)),
                                   .disrupt_leader = true};
    rlog_core_feed(c, &m, NULL);
    c->sole_term = c->term;
}

void rlog_core_timeout(struct rlog_core *c, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    c->now_ms = MAX(now_ms, c->now_ms);
    if (c->dead || c->now_ms < c->timeout_ms)
        return;
    if (!planted(PLANT_F11_TIMER))
        c->not_before_ms = c->now_ms + MAX(c->heartbeat_ms / 2, 1u);
    if (sole_voter_needs_vote(c))
        sole_voter_vote(c);
    rlog_core_must_step(c, &event, "timeout");
}

/* Servers that lose a leader at one moment must not all stand at one moment. */
void rlog_core_set_election(struct rlog_core *c, unsigned election_ms, uint64_t now_ms)
{
    ASSERT(election_ms > 0);
    c->now_ms = MAX(now_ms, c->now_ms);
    if (c->dead || c->raft.election_timeout == election_ms)
        return;
    raft_set_election_timeout(&c->raft, election_ms);
    c->not_before_ms = c->now_ms + raft_random(&c->random, 1, 1 + election_ms / 4);
    rlog_core_timer_update(c);
}
