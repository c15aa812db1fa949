/* Invariants around each step (PROTOCOL.md, "The core"). libraft's release build has no assertions,
 * so a broken one would otherwise show as lost data much later. */
#include "raft/rlog_core_parts.h"

void rlog_core_check_before(struct rlog_core *c, const struct raft_event *event)
{
    ASSERT(c->raft.update == NULL);
    ASSERT(event->time >= c->raft.now);
    switch (event->type) {
    case RAFT_PERSISTED_ENTRIES:
        ASSERT(c->raft.state != RAFT_CANDIDATE);
        ASSERT(event->persisted_entries.index > c->raft.last_stored ||
               planted(PLANT_R10_PERSISTED));
        ASSERT(event->persisted_entries.index <= raft_last_index(&c->raft));
        return;
    case RAFT_PERSISTED_SNAPSHOT:
        ASSERT(rlog_core_installing(c) && c->raft.state == RAFT_FOLLOWER);
        return;
    case RAFT_SNAPSHOT: ASSERT(!rlog_core_installing(c)); return;
    case RAFT_CATCH_UP: ASSERT(c->raft.state == RAFT_LEADER); return;
    case RAFT_CONFIGURATION: ASSERT(event->configuration.index > 0); return;
    case RAFT_START:
    case RAFT_RECEIVE:
    case RAFT_TIMEOUT:
    case RAFT_SUBMIT:
    case RAFT_TRANSFER: return;
    }
}

void rlog_core_check_term(const struct rlog_core *c, uint64_t term, uint64_t vote)
{
    ASSERT(term >= c->term);
    ASSERT(term > c->term || c->vote == 0 || vote == c->vote); /* no second vote in a term */
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
    ASSERT(pending == 0 || pending == newest || planted(PLANT_F1_SPLIT));
    ASSERT(have->n == c->conf.n || planted(PLANT_F1_SPLIT));
    for (unsigned i = 0; i < have->n && !planted(PLANT_F1_SPLIT); i++) {
        const struct rlog_member *m = &c->conf.members[i];
        ASSERT(have->servers[i].id == m->id);
        ASSERT((have->servers[i].role == RAFT_VOTER) == (m->role == RLOG_VOTER));
        ASSERT((have->servers[i].role == RAFT_SPARE) == (m->role == RLOG_SPARE));
    }
}

/* What a peer is known to have only grows within a term. */
static void check_peers(struct rlog_core *c)
{
    if (!rlog_core_leads(c))
        return;
    for (unsigned i = 0; i < ARRAY_LEN(c->peers); i++) {
        struct rlog_core_peer *p = &c->peers[i];
        if (p->id == 0 || rlog_conf_find(&c->conf, p->id) == NULL)
            continue;
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
    ASSERT(rlog_core_installing(c) || r->last_stored == c->stored || planted(PLANT_R10_PERSISTED));
    ASSERT(raft_current_term(r) == c->term && raft_voted_for(r) == c->vote);
    ASSERT(c->applied <= c->commit);
    check_configuration(c);
    check_peers(c);
}
