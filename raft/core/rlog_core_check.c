/* Invariants around each step (PROTOCOL.md, "The core"). libraft's release build has no assertions,
 * so a broken invariant would show as lost data much later. */
#include "raft/core/rlog_core_internal.h"

/* Check messages again where they enter libraft: a message that a guard should have changed or
 * dropped must not pass. A planted bug that switches off a guard switches off its check here too,
 * because the bug must show by its effects. */
static void check_receive(const struct rlog_core *c, const struct raft_message *m)
{
    const struct raft_append_entries_result *ar = &m->append_entries_result;
    const struct raft_append_entries *ae = &m->append_entries;
    bool leads = c->raft.state == RAFT_LEADER;
    raft_index match;

    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        ASSERT(!leads || ae->term != c->term);
        for (unsigned i = 1; i < ae->n_entries; i++)
            ASSERT(planted(PLANT_F1_SPLIT) || ae->entries[i].type != RAFT_CHANGE);
        ASSERT(planted(PLANT_F7_TRIM) || ae->term < c->term || rlog_core_installing(c) ||
               ae->prev_log_index >= c->snap.index);
        return;
    case RAFT_APPEND_ENTRIES_RESULT:
        if (leads && ar->term == c->term && raft_match_index(&c->raft, m->server_id, &match) == 0)
            ASSERT(planted(PLANT_F5_REJECT) || ar->rejected == 0 || ar->rejected > match);
        return;
    case RAFT_REQUEST_VOTE_RESULT:
        ASSERT(planted(PLANT_F9_VOTE_STATE) || c->raft.state == RAFT_CANDIDATE);
        return;
    case RAFT_INSTALL_SNAPSHOT:
        ASSERT(!rlog_core_installing(c) && !(leads && m->install_snapshot.term == c->term));
        return;
    case RAFT_REQUEST_VOTE:
    case RAFT_TIMEOUT_NOW: return;
    }
}

static void check_submit(const struct rlog_core *c, const struct raft_entry *e)
{
    ASSERT(c->raft.state == RAFT_LEADER && e->term == c->term);
    if (e->type != RAFT_CHANGE)
        return;
    ASSERT(planted(PLANT_F3_CHANGE_READY) || rlog_core_term_of(c, c->commit) == c->term);
    ASSERT(c->raft.configuration_uncommitted_index == 0);
}

/* R10: a finished write makes durable the entries that it wrote, not entries that replaced them. */
static void check_persisted(const struct rlog_core *c, uint64_t index)
{
    ASSERT(c->raft.state != RAFT_CANDIDATE);
    ASSERT(index > c->raft.last_stored);
    ASSERT(index <= rlog_core_last(c));
    ASSERT(planted(PLANT_R10_PERSISTED) || c->written_term == 0 ||
           rlog_core_term_of(c, index) == c->written_term);
}

void rlog_core_check_before(struct rlog_core *c, const struct raft_event *event)
{
    ASSERT(c->raft.update == NULL);
    ASSERT(event->time >= c->raft.now);
    switch (event->type) {
    case RAFT_RECEIVE: check_receive(c, event->receive.message); return;
    case RAFT_PERSISTED_ENTRIES: check_persisted(c, event->persisted_entries.index); return;
    case RAFT_PERSISTED_SNAPSHOT:
        ASSERT(rlog_core_installing(c) && c->raft.state == RAFT_FOLLOWER);
        return;
    case RAFT_SNAPSHOT: ASSERT(!rlog_core_installing(c)); return;
    case RAFT_CATCH_UP: ASSERT(c->raft.state == RAFT_LEADER); return;
    case RAFT_CONFIGURATION: ASSERT(event->configuration.index > 0); return;
    case RAFT_SUBMIT: check_submit(c, &event->submit.entries[0]); return;
    case RAFT_TRANSFER:
        ASSERT(planted(PLANT_TRANSFER_EARLY) ||
               rlog_core_match(c, event->transfer.server_id) == rlog_core_last(c));
        return;
    case RAFT_START:
    case RAFT_TIMEOUT: return;
    }
}

/* When a vote request enters libraft, libraft must see this node as a voter, whatever the
 * configuration of the node says (F10). */
void rlog_core_check_voter(struct rlog_core *c, const struct raft_event *event)
{
    if (event->type != RAFT_RECEIVE || event->receive.message->type != RAFT_REQUEST_VOTE)
        return;
    ASSERT(planted(PLANT_F10_VOTE_ROLE) || c->raft.state != RAFT_FOLLOWER ||
           raft_last_index(&c->raft) == 0 || raft_role(&c->raft) == RAFT_VOTER);
}

/* The numbers in a reply must be set, and must be true (F4, F6). */
void rlog_core_check_reply(const struct rlog_core *c, const struct raft_message *m)
{
    const struct raft_append_entries_result *ar = &m->append_entries_result;
    const struct raft_request_vote_result *vote = &m->request_vote_result;
    if (m->type == RAFT_APPEND_ENTRIES_RESULT && !planted(PLANT_F4_STALE_REPLY))
        ASSERT(ar->rejected != 0 ? ar->last_log_index < ar->rejected
                                 : ar->last_log_index <= c->raft.last_stored);
    if (m->type == RAFT_REQUEST_VOTE_RESULT)
        ASSERT(planted(PLANT_F6_PREVOTE_TERM) || vote->vote_granted || vote->term >= c->term);
}

void rlog_core_check_term(const struct rlog_core *c, uint64_t term, uint64_t vote)
{
    ASSERT(term >= c->term);
    ASSERT(term > c->term || c->vote == 0 || vote == c->vote); /* a node votes once in a term */
}

void rlog_core_check_entries(const struct rlog_core *c, const struct raft_update *up)
{
    uint64_t index = up->entries.index, term = rlog_core_term_of(c, index - 1);
    ASSERT(up->entries.n > 0);
    ASSERT(index > 0 && index <= rlog_core_log_last(&c->log) + 1);
    ASSERT(index > c->applied);
    for (unsigned i = 0; i < up->entries.n; i++) {
        ASSERT(up->entries.batch[i].term >= term);
        term = up->entries.batch[i].term;
    }
}

/* libraft must use the newest configuration of the log and know where it stands. */
static void check_configuration(const struct rlog_core *c)
{
    const struct raft_configuration *have = &c->raft.configuration;
    uint64_t pending = c->raft.configuration_uncommitted_index;
    uint64_t newest = c->log.n_changes > 0 ? c->log.changes[c->log.n_changes - 1] : 0;

    if (rlog_core_installing(c))
        return;
    ASSERT(planted(PLANT_F1_SPLIT) || pending == 0 || pending == newest);
    ASSERT(have->n == c->conf.n);
    for (unsigned i = 0; i < have->n; i++) {
        const struct rlog_member *m = &c->conf.members[i];
        ASSERT(have->servers[i].id == m->id);
        ASSERT((have->servers[i].role == RAFT_VOTER) == (m->role == RLOG_VOTER));
        ASSERT((have->servers[i].role == RAFT_SPARE) == (m->role == RLOG_SPARE));
    }
}

/* The part of the log that a peer is known to have only grows within a term. */
static void check_peers(struct rlog_core *c)
{
    if (!rlog_core_leads(c))
        return;
    for (unsigned i = 0; i < ARRAY_LEN(c->peers); i++) {
        struct rlog_core_peer *p = &c->peers[i];
        if (p->id == 0)
            continue;
        if (rlog_conf_find(&c->conf, p->id) == NULL) { /* removed; added again, it begins anew */
            *p = (struct rlog_core_peer){0};
            continue;
        }
        uint64_t match = rlog_core_match(c, p->id);
        ASSERT(match >= p->match);
        ASSERT(match <= rlog_core_last(c));
        p->match = match;
    }
}

void rlog_core_check_after(struct rlog_core *c)
{
    const struct raft *r = &c->raft;
    ASSERT(raft_last_index(&c->raft) == rlog_core_last(c));
    ASSERT(r->trail.offset + 1 == c->log.first);
    ASSERT(rlog_core_installing(c) || r->last_stored == c->stored);
    ASSERT(raft_current_term(r) == c->term && raft_voted_for(r) == c->vote);
    ASSERT(c->applied <= c->commit);
    check_configuration(c);
    check_peers(c);
}
