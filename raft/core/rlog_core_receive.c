/* The gate between peers and libraft. Frames were decoded within bounds by rlog_wire; here each
 * message is checked against the state of this node, trimmed (F7) and split (F1). */
#include "base/mem.h"
#include "raft/core/rlog_core_internal.h"

static bool entry_valid(const struct rlog_entry *e, uint64_t prev_term, uint64_t term)
{
    struct rlog_conf conf;
    if (e->term == 0 || e->term < prev_term || e->term > term)
        return false;
    if (e->data.len == 0 || e->data.len > RLOG_ENTRY_MAX)
        return false;
    if (e->type != RLOG_COMMAND && e->type != RLOG_BARRIER && e->type != RLOG_CHANGE)
        return false;
    return e->type != RLOG_CHANGE || rlog_conf_decode(e->data, &conf) == ST_OK;
}

static const char *append_wrong(const struct rlog_core *c, const struct raft_append_entries *ae,
                                const struct rlog_entry *entries)
{
    uint64_t term = ae->prev_log_term;
    if (ae->term == 0 || (ae->prev_log_index == 0) != (ae->prev_log_term == 0))
        return "append: term or previous entry";
    if (ae->prev_log_term > ae->term || ae->prev_log_index > UINT64_MAX / 2)
        return "append: previous entry out of range";
    if (ae->n_entries > RLOG_INFLIGHT_ENTRIES)
        return "append: too many entries";
    for (unsigned i = 0; i < ae->n_entries; i++) {
        if (!entry_valid(&entries[i], term, ae->term))
            return "append: invalid entry";
        term = entries[i].term;
    }
    if (rlog_core_leads(c) && ae->term == c->term)
        return "append: this node leads that term";
    return NULL;
}

static const char *vote_wrong(const struct raft_request_vote *v, uint64_t from)
{
    if (v->term == 0 || v->candidate_id != from)
        return "vote: term or candidate";
    if ((v->last_log_index == 0) != (v->last_log_term == 0) || v->last_log_term > v->term)
        return "vote: last entry";
    return NULL;
}

/* The fault of a message that a correct peer never sends, as text; NULL: no fault. */
static const char *message_wrong(const struct rlog_core *c, uint64_t from,
                                 const struct rlog_message *m)
{
    if (from == 0 || from == c->id)
        return "own or no id";
    switch (m->raft.type) {
    case RAFT_APPEND_ENTRIES: return append_wrong(c, &m->raft.append_entries, m->entries);
    case RAFT_REQUEST_VOTE: return vote_wrong(&m->raft.request_vote, from);
    case RAFT_APPEND_ENTRIES_RESULT:
        return m->raft.append_entries_result.term == 0 ? "append result: term" : NULL;
    case RAFT_REQUEST_VOTE_RESULT:
        return m->raft.request_vote_result.term == 0 ? "vote result: term" : NULL;
    case RAFT_TIMEOUT_NOW: return m->raft.timeout_now.term == 0 ? "timeout now: term" : NULL;
    case RAFT_INSTALL_SNAPSHOT: return "install snapshot: comes by another way";
    }
    return "unknown type";
}

/* A late or repeated rejection must not push a peer's next index to or below its match (F5). */
static bool append_result_wanted(const struct rlog_core *c, uint64_t from,
                                 struct raft_append_entries_result *r)
{
    raft_index match;
    if (planted(PLANT_F5_REJECT) || !rlog_core_leads(c) || r->rejected == 0 || r->term != c->term)
        return true;
    if (raft_match_index(&c->raft, from, &match) != 0)
        return true;
    if (r->last_log_index < match)
        r->last_log_index = match; /* the follower has proved since that it has these entries */
    return r->rejected > match;
}

/* In pre-vote a granted result may only be for our term or the next. */
static bool vote_result_wanted(const struct rlog_core *c, const struct raft_request_vote_result *r)
{
    if (!rlog_core_vote_result_wanted(c))
        return false;
    bool pre_vote = c->raft.state == RAFT_CANDIDATE && c->raft.candidate_state.in_pre_vote;
    return !(pre_vote && r->vote_granted && r->term > c->term + 1);
}

/* Feed one message to libraft. `entries` are the entries of an AppendEntries message. libraft gets
 * an array whose payloads point into our blocks. The array's batch is a token that libraft either
 * frees or leaves to us. */
void rlog_core_feed(struct rlog_core *c, struct raft_message *m, const struct rlog_entry *entries)
{
    struct raft_event event = {.type = RAFT_RECEIVE};
    struct raft_entry *array = NULL;
    void *batch = NULL;
    unsigned n = m->type == RAFT_APPEND_ENTRIES ? m->append_entries.n_entries : 0;

    m->server_address = "-";
    if (n > 0) {
        array = mem_alloc(n * sizeof *array);
        batch = mem_alloc(1);
        if (array == NULL || batch == NULL) {
            mem_free(array);
            mem_free(batch);
            return; /* drop the message: the network may lose any message */
        }
        for (unsigned i = 0; i < n; i++)
            array[i] =
                (struct raft_entry){entries[i].term,
                                    (enum raft_entry_type)entries[i].type,
                                    {(void *)(uintptr_t)entries[i].data.data, entries[i].data.len},
                                    batch};
    }
    if (m->type == RAFT_APPEND_ENTRIES)
        m->append_entries.entries = array;
    c->feed_array = array;
    c->feed = entries;
    c->feed_n = n;
    c->feed_taken = false;
    event.receive.message = m;
    rlog_core_must_step(c, &event, "receive");
    if (n > 0 && c->feed_taken)
        mem_free(batch);
    mem_free(array);
    c->feed_array = NULL;
    c->feed = NULL;
    c->feed_n = 0;
}

/* Whether our log agrees with a message up to and including its previous entry. */
static bool log_matches(const struct rlog_core *c, uint64_t prev_index, uint64_t prev_term)
{
    return prev_index == 0 || rlog_core_term_of(c, prev_index) == prev_term;
}

/* A leader appends a second CHANGE only after the first is committed. So if our log agrees with the
 * leader's log up to a new CHANGE, an earlier CHANGE that is pending here is committed too (F1). */
static void settle_pending(struct rlog_core *c, const struct raft_append_entries *piece)
{
    uint64_t pending = c->raft.configuration_uncommitted_index, index = piece->prev_log_index + 1;
    if (pending == 0 || pending >= index || !rlog_core_log_has(&c->log, pending))
        return;
    if (piece->term < c->term || !log_matches(c, piece->prev_log_index, piece->prev_log_term))
        return;
    rlog_core_commit_change(c, pending);
}

/* Entries our snapshot covers are committed: libraft cannot check them any more and would append
 * entry 1 at the end of its log (F7). */
static const struct rlog_entry *append_trim(const struct rlog_core *c,
                                            struct raft_append_entries *ae,
                                            const struct rlog_entry *entries)
{
    uint64_t snap = c->snap.index;
    if (planted(PLANT_F7_TRIM) || ae->term < c->term || rlog_core_installing(c) ||
        ae->prev_log_index >= snap)
        return entries;
    uint64_t covered = MIN((uint64_t)ae->n_entries, snap - ae->prev_log_index);
    ae->n_entries -= (unsigned)covered;
    ae->prev_log_index = snap;
    ae->prev_log_term = c->snap.term;
    return entries + covered;
}

/* A leader of our term or a later one has every committed entry. If its log contradicts a committed
 * entry of ours, one of the two nodes is damaged. libraft would stop too, but checks only up to its
 * own, smaller commit index. */
static bool append_contradicts(struct rlog_core *c, const struct raft_append_entries *ae,
                               const struct rlog_entry *entries)
{
    uint64_t index = ae->prev_log_index, term = ae->prev_log_term;
    if (ae->term < c->term || rlog_core_installing(c))
        return false;
    for (unsigned i = 0; index <= c->applied; i++, index++) {
        uint64_t have = index != 0 ? rlog_core_term_of(c, index) : 0;
        if (have != 0 && have != term) {
            rlog_core_fatal(c, ST_CORRUPT,
                            "a leader contradicts the committed entry %llu of term %llu",
                            (unsigned long long)index, (unsigned long long)have);
            return true;
        }
        if (i == ae->n_entries)
            break;
        term = entries[i].term;
    }
    return false;
}

/* Cut a message so that every CHANGE is the first entry of its piece (F1): libraft records a CHANGE
 * at the index of the first new entry of a message. */
static void receive_append(struct rlog_core *c, const struct rlog_message *m)
{
    struct raft_message piece = m->raft;
    struct raft_append_entries *ae = &piece.append_entries;
    const struct rlog_entry *entries = append_trim(c, ae, m->entries);
    unsigned left = ae->n_entries;

    if (append_contradicts(c, ae, entries))
        return;
    do {
        unsigned n = left > 0 ? 1 : 0;
        while (n < left && (planted(PLANT_F1_SPLIT) || entries[n].type != RLOG_CHANGE))
            n++;
        ae->n_entries = n;
        if (n > 0 && entries[0].type == RLOG_CHANGE && !planted(PLANT_F1_SPLIT))
            settle_pending(c, ae);
        rlog_core_feed(c, &piece, entries);
        if (n == 0)
            return;
        ae->prev_log_index += n;
        ae->prev_log_term = entries[n - 1].term;
        entries += n;
        left -= n;
        /* If libraft refused a piece, drop the rest of the message. */
    } while (left > 0 && !c->dead && log_matches(c, ae->prev_log_index, ae->prev_log_term));
}

bool rlog_core_credible(const struct rlog_core *c, uint64_t from, const struct rlog_message *m)
{
    bool late = m->raft.type == RAFT_APPEND_ENTRIES && m->raft.append_entries.term < c->term;
    return !late && (message_wrong(c, from, m) == NULL || planted(PLANT_LIES));
}

void rlog_core_receive(struct rlog_core *c, uint64_t from, const struct rlog_message *m,
                       uint64_t now_ms)
{
    struct rlog_message copy = *m;
    if (c->dead)
        return;
    c->now_ms = MAX(now_ms, c->now_ms);
    const char *wrong = message_wrong(c, from, m);
    if (wrong != NULL && !planted(PLANT_LIES)) {
        rlog_core_alarm(c, from, wrong);
        return;
    }
    copy.raft.server_id = from;
    rlog_core_heard(c, &copy.raft);
    switch (copy.raft.type) {
    case RAFT_APPEND_ENTRIES: receive_append(c, &copy); return;
    case RAFT_APPEND_ENTRIES_RESULT:
        if (!append_result_wanted(c, from, &copy.raft.append_entries_result))
            return;
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        if (!vote_result_wanted(c, &copy.raft.request_vote_result))
            return;
        break;
    case RAFT_TIMEOUT_NOW:
        if (rlog_conf_sole_voter(&c->conf, c->id))
            return;
        break;
    default: break;
    }
    rlog_core_feed(c, &copy.raft, NULL);
}

bool rlog_core_offer(struct rlog_core *c, uint64_t from, uint64_t term,
                     const struct rlog_core_snapshot *snap, uint64_t now_ms)
{
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = from};
    struct raft_install_snapshot *is = &m.install_snapshot;

    c->now_ms = MAX(now_ms, c->now_ms);
    if (c->dead || rlog_core_installing(c) || from == 0 || from == c->id || term == 0)
        return false;
    if (snap->index == 0 || snap->term == 0 || snap->conf.index == 0 ||
        snap->conf.index > snap->index || snap->term > term)
        return false;
    uint64_t known = rlog_core_term_of(c, snap->index);
    if ((rlog_core_leads(c) && term == c->term) ||
        (snap->index <= c->commit && known != 0 && known != snap->term)) {
        rlog_core_alarm(c, from, "snapshot: not of this history");
        return false;
    }
    *is = (struct raft_install_snapshot){.term = term,
                                         .last_index = snap->index,
                                         .last_term = snap->term,
                                         .conf_index = snap->conf.index};
    if (rlog_core_raft_conf(bytes_of(snap->conf.bytes, snap->conf.len), &is->conf) != ST_OK)
        return false;
    c->incoming = *snap;
    rlog_core_heard(c, &m);
    rlog_core_feed(c, &m, NULL);
    if (!rlog_core_installing(c))
        c->incoming.index = 0;
    return rlog_core_installing(c) && c->incoming.index != 0;
}
