/* Messages to peers. libraft names entries by number only and leaves the rest to us; two of its
 * replies need repair (F4, F6), and one entry has to wait (F12). */
#include "raft/core/rlog_core_internal.h"

static struct rlog_core_peer *peer_of(struct rlog_core *c, uint64_t id)
{
    struct rlog_core_peer *unused = NULL;
    for (unsigned i = 0; i < ARRAY_LEN(c->peers); i++) {
        if (c->peers[i].id == id)
            return &c->peers[i];
        if (unused == NULL &&
            (c->peers[i].id == 0 || rlog_conf_find(&c->conf, c->peers[i].id) == NULL))
            unused = &c->peers[i];
    }
    if (unused != NULL)
        *unused = (struct rlog_core_peer){.id = id};
    return unused;
}

static void send_one(struct rlog_core *c, const struct raft_message *m,
                     const struct rlog_entry *entries)
{
    struct rlog_message out = {.raft = *m, .entries = entries};
    rlog_core_check_reply(c, m);
    c->ops.send(c->ops.ctx, m->server_id, &out);
}

/* Choose the previous entry of an empty message. The message may overtake entries that were sent
 * before it, and would then be rejected because the peer lacks them. As long as such entries may
 * arrive, name the last entry that the peer acknowledged. */
static void heartbeat_anchor(struct rlog_core *c, const struct rlog_core_peer *peer,
                             struct raft_append_entries *ae)
{
    raft_index match;
    if (peer == NULL || c->now_ms - peer->sent_ms > c->election_ms / 2 || peer->sent_ms == 0 ||
        raft_match_index(&c->raft, peer->id, &match) != 0)
        return;
    if (match == 0 || match >= ae->prev_log_index || rlog_core_term_of(c, match) == 0)
        return;
    ae->prev_log_index = match;
    ae->prev_log_term = rlog_core_term_of(c, match);
}

static bool votes_in(const struct raft_configuration *conf, uint64_t id)
{
    for (unsigned i = 0; i < conf->n; i++)
        if (conf->servers[i].id == id)
            return conf->servers[i].role == RAFT_VOTER;
    return false;
}

/* The first of the entries index..end-1 that must not be sent to `to` yet; `end`: all may be sent
 * (F12). A CHANGE that takes the vote of `to` waits until the CHANGE is committed. A server stands
 * for election only if its newest configuration calls it a voter; if the CHANGE is never committed,
 * `to` may be the only server that can win. The reply of `to` does not count for this CHANGE. The
 * code compares with libraft's committed configuration: a restarted leader has it before the leader
 * knows what is committed. */
static uint64_t kept_back(const struct rlog_core *c, uint64_t to, uint64_t index, uint64_t end)
{
    uint64_t change = c->raft.configuration_uncommitted_index;
    if (change < index || change >= end || change <= c->commit || planted(PLANT_F12_VOTE_TAKEN))
        return end;
    bool loses_vote =
        votes_in(&c->raft.configuration_committed, to) && !votes_in(&c->raft.configuration, to);
    return loses_vote ? change : end;
}

/* Split a message of the core so that each frame stays small. Each piece names the last entry of
 * the piece before as its previous entry. */
static void send_append(struct rlog_core *c, const struct raft_message *m)
{
    struct raft_message piece = *m;
    struct raft_append_entries *ae = &piece.append_entries;
    uint64_t index = ae->prev_log_index + 1, end = index + ae->n_entries;
    struct rlog_core_peer *peer = peer_of(c, m->server_id);

    ae->entries = NULL;
    ASSERT(rlog_core_term_of(c, ae->prev_log_index) == ae->prev_log_term);
    c->sent_commit = MAX(c->sent_commit, ae->leader_commit);
    end = kept_back(c, m->server_id, index, end);
    if (index == end) {
        ae->n_entries = 0;
        heartbeat_anchor(c, peer, ae);
        send_one(c, &piece, NULL);
        return;
    }
    if (peer != NULL)
        peer->sent_ms = c->now_ms;
    while (index < end) {
        const struct rlog_entry *first = rlog_core_log_at(&c->log, index);
        size_t bytes = first->data.len;
        unsigned n = 1;
        while (index + n < end && bytes + first[n].data.len <= RLOG_APPEND_BYTES)
            bytes += first[n++].data.len;
        ASSERT(rlog_core_log_has(&c->log, index + n - 1));
        ae->prev_log_index = index - 1;
        ae->prev_log_term = rlog_core_term_of(c, index - 1);
        ae->n_entries = n;
        send_one(c, &piece, first);
        index += n;
    }
}

/* The reply to a request of an older term carries an index that libraft never set; a leader of the
 * new term would count it as an acknowledgement (F4). */
static void send_append_result(struct rlog_core *c, const struct raft_message *m)
{
    struct raft_message fixed = *m;
    if (c->stale_request && !planted(PLANT_F4_STALE_REPLY)) {
        fixed.append_entries_result.rejected = 0;
        fixed.append_entries_result.last_log_index = 0;
    }
    ASSERT(planted(PLANT_F4_STALE_REPLY) || fixed.append_entries_result.rejected != 0 ||
           /* acknowledge no more than the log has */
           fixed.append_entries_result.last_log_index <= rlog_core_last(c));
    send_one(c, &fixed, NULL);
}

/* A denied pre-vote repeats the asker's term, so an asker with an older term and a better log never
 * learns that it must catch up with ours (F6). */
static void send_vote_result(struct rlog_core *c, const struct raft_message *m)
{
    struct raft_message fixed = *m;
    struct raft_request_vote_result *vote = &fixed.request_vote_result;
    if (vote->pre_vote && !vote->vote_granted && !planted(PLANT_F6_PREVOTE_TERM))
        vote->term = MAX(vote->term, raft_current_term(&c->raft));
    send_one(c, &fixed, NULL);
}

static void send_message(struct rlog_core *c, const struct raft_message *m)
{
    if (m->server_id == c->id)
        return; /* drop libraft's reply to this node's own vote request (F2) */
    switch (m->type) {
    case RAFT_APPEND_ENTRIES: send_append(c, m); return;
    case RAFT_APPEND_ENTRIES_RESULT: send_append_result(c, m); return;
    case RAFT_REQUEST_VOTE_RESULT: send_vote_result(c, m); return;
    case RAFT_INSTALL_SNAPSHOT:
        ASSERT(m->install_snapshot.last_index == c->snap.index);
        c->ops.offer(c->ops.ctx, m->server_id);
        return;
    case RAFT_REQUEST_VOTE:
    case RAFT_TIMEOUT_NOW: send_one(c, m, NULL); return;
    }
    ASSERT(false); /* libraft 0.22.1 has no other type of message */
}

void rlog_core_send_all(struct rlog_core *c, const struct raft_update *up)
{
    if ((up->flags & (RAFT_UPDATE_MESSAGES)) == 0)
        return;
    for (unsigned i = 0; i < up->messages.n && !c->dead; i++)
        send_message(c, &up->messages.batch[i]);
}
