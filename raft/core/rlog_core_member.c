/* Operations of a leader: entries, configurations, catch-up, transfer. libraft checks few of their
 * arguments, so this file checks them. */
#include "raft/core/rlog_core_internal.h"

static int submit(struct rlog_core *c, const struct rlog_entry *entry, enum rlog_entry_type type)
{
    struct rlog_entry copy = *entry;
    struct raft_event event = {.type = RAFT_SUBMIT};
    copy.term = c->term;
    copy.type = type;
    struct raft_entry raw = {copy.term,
                             (enum raft_entry_type)type,
                             {(void *)(uintptr_t)copy.data.data, copy.data.len},
                             &raw}; /* libraft only checks that the batch is not NULL */
    event.submit.entries = &raw;
    event.submit.n = 1;
    c->feed_array = &raw;
    c->feed = &copy;
    c->feed_n = 1;
    int rv = rlog_core_step(c, &event);
    c->feed_array = NULL;
    c->feed = NULL;
    c->feed_n = 0;
    return rv;
}

enum status rlog_core_submit(struct rlog_core *c, enum rlog_entry_type type,
                             const struct rlog_entry *entry, uint64_t now_ms, uint64_t *ret_index)
{
    ASSERT(type == RLOG_COMMAND || type == RLOG_BARRIER);
    ASSERT(entry->block != NULL && entry->data.len > 0);
    c->now_ms = MAX(now_ms, c->now_ms);
    if (!rlog_core_leads(c) || rlog_core_transferring(c))
        return ST_NOT_LEADER;
    uint64_t index = rlog_core_last(c) + 1;
    int rv = submit(c, entry, type);
    if (rv == RAFT_NOTLEADER)
        return ST_NOT_LEADER;
    if (rv != 0) {
        rlog_core_fatal(c, ST_INTERNAL, "raft core: submit: %s", raft_strerror(rv));
        return ST_CLOSED;
    }
    *ret_index = index;
    return ST_OK;
}

/* The number of members added, removed or changed; 2 for anything that is not exactly one, and for
 * a changed order, which mixes up libraft's records of its peers. */
static unsigned conf_differences(const struct rlog_conf *now, const struct rlog_conf *next)
{
    unsigned differences = 0, at = 0;
    for (unsigned i = 0; i < now->n; i++) {
        const struct rlog_member *m = &now->members[i];
        if (rlog_conf_find(next, m->id) == NULL) {
            differences++;
            continue;
        }
        if (at >= next->n || next->members[at].id != m->id)
            return 2;
        differences += memcmp(&next->members[at], m, sizeof *m) != 0;
        at++;
    }
    return differences + (next->n - at);
}

/* While nothing of this term is committed, a configuration of an older leader may still become
 * committed. Its majority and the majority of a new configuration may share no member (F3). */
static bool term_settled(const struct rlog_core *c)
{
    return planted(PLANT_F3_CHANGE_READY) || rlog_core_term_of(c, c->commit) == c->term;
}

static void submit_barrier(struct rlog_core *c)
{
    uint64_t index;
    struct rlog_block *block = rlog_block_new(8);
    if (block == NULL)
        return; /* out of memory: the caller tries again */
    memset(rlog_block_data(block), 0, 8);
    struct rlog_entry entry = {.data = bytes_of(rlog_block_data(block), 8), .block = block};
    if (rlog_core_term_of(c, rlog_core_last(c)) != c->term) {
        enum status st = rlog_core_submit(c, RLOG_BARRIER, &entry, c->now_ms, &index);
        (void)st; /* on failure the caller tries again */
    }
    rlog_block_unref(block);
}

enum status rlog_core_change(struct rlog_core *c, const struct rlog_conf *next, uint64_t now_ms,
                             uint64_t *ret_index)
{
    struct rlog_conf_bytes encoded;
    c->now_ms = MAX(now_ms, c->now_ms);
    if (!rlog_core_leads(c) || rlog_core_transferring(c))
        return ST_NOT_LEADER;
    if (c->raft.configuration_uncommitted_index != 0 || c->raft.leader_state.promotee_id != 0)
        return ST_BUSY;
    if (!term_settled(c)) {
        submit_barrier(c);
        return ST_BUSY;
    }
    TRY(rlog_conf_encode(next, &encoded));
    const struct rlog_member *self = rlog_conf_find(next, c->id);
    bool loses_vote = self == NULL || self->role != RLOG_VOTER;
    if (conf_differences(&c->conf, next) != 1 || (loses_vote && rlog_conf_voters(&c->conf) <= 2))
        return ST_INVALID;
    struct rlog_block *block = rlog_block_new(encoded.len);
    if (block == NULL)
        return ST_NOMEM;
    memcpy(rlog_block_data(block), encoded.bytes, encoded.len);
    struct rlog_entry entry = {.data = bytes_of(rlog_block_data(block), encoded.len),
                               .block = block};
    uint64_t index = rlog_core_last(c) + 1;
    int rv = submit(c, &entry, RLOG_CHANGE);
    rlog_block_unref(block);
    if (rv == RAFT_NOTLEADER || rv == RAFT_CANTCHANGE)
        return rv == RAFT_NOTLEADER ? ST_NOT_LEADER : ST_BUSY;
    if (rv != 0) {
        rlog_core_fatal(c, ST_INTERNAL, "raft core: change: %s", raft_strerror(rv));
        return ST_CLOSED;
    }
    *ret_index = index;
    return ST_OK;
}

enum rlog_core_progress rlog_core_progress(struct rlog_core *c, uint64_t id)
{
    int status = RAFT_CATCH_UP_NONE;
    uint64_t match = rlog_core_match(c, id);
    if (!rlog_core_leads(c) || raft_catch_up(&c->raft, id, &status) != 0)
        return RLOG_CORE_BEHIND;
    if (c->raft.leader_state.promotee_id != 0)
        return RLOG_CORE_RUNNING;
    bool knows_itself = match >= c->committed.index && match >= c->ready_index;
    bool complete = match != 0 && match == rlog_core_last(c);
    if (knows_itself && (status == RAFT_CATCH_UP_FINISHED || complete))
        return RLOG_CORE_CAUGHT_UP;
    return RLOG_CORE_BEHIND;
}

enum status rlog_core_catch_up(struct rlog_core *c, uint64_t id, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_CATCH_UP};
    const struct rlog_member *m = rlog_conf_find(&c->conf, id);
    c->now_ms = MAX(now_ms, c->now_ms);
    if (!rlog_core_leads(c))
        return ST_NOT_LEADER;
    if (m == NULL || id == c->id || m->role == RLOG_VOTER)
        return ST_INVALID;
    if (c->raft.leader_state.promotee_id != 0)
        return ST_BUSY;
    event.catch_up.server_id = id;
    rlog_core_must_step(c, &event, "catch up");
    return c->dead ? ST_CLOSED : ST_OK;
}

enum status rlog_core_transfer(struct rlog_core *c, uint64_t id, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_TRANSFER};
    const struct rlog_member *m = rlog_conf_find(&c->conf, id);
    c->now_ms = MAX(now_ms, c->now_ms);
    if (!rlog_core_leads(c))
        return ST_NOT_LEADER;
    if (m == NULL || id == c->id || m->role != RLOG_VOTER)
        return ST_INVALID;
    if (rlog_core_match(c, id) != rlog_core_last(c) && !planted(PLANT_TRANSFER_EARLY))
        return ST_BUSY;
    event.transfer.server_id = id;
    int rv = rlog_core_step(c, &event);
    if (rv == 0)
        return ST_OK;
    if (rv == RAFT_NOTLEADER || rv == RAFT_NOTFOUND || rv == RAFT_BADID)
        return ST_BUSY;
    rlog_core_fatal(c, ST_INTERNAL, "raft core: transfer: %s", raft_strerror(rv));
    return ST_CLOSED;
}
