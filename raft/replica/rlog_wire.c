#include "raft/replica/rlog_wire.h"
#include "base/mem.h"
#include "text/time.h"

/* Versions that libraft 0.22.1 writes into its messages; carried by our version byte. */
enum { VERSION_VOTE = 2, VERSION_APPEND_RESULT = 2, VERSION_APPEND = 0, VERSION_TIMEOUT_NOW = 0 };
enum { FEATURE_CAPACITY = 1, CAPACITY_UNUSED = 0 };

static void append_encode(const struct rlog_message *m, struct buf *out)
{
    const struct raft_append_entries *ae = &m->raft.append_entries;
    ASSERT(ae->n_entries <= RLOG_INFLIGHT_ENTRIES);
    buf_add_u64(out, ae->term);
    buf_add_u64(out, ae->prev_log_index);
    buf_add_u64(out, ae->prev_log_term);
    buf_add_u64(out, ae->leader_commit);
    buf_add_u32(out, ae->n_entries);
    for (unsigned i = 0; i < ae->n_entries; i++) {
        buf_add_varint(out, m->entries[i].term);
        buf_add_u8(out, (uint8_t)m->entries[i].type);
        buf_add_varint(out, m->entries[i].data.len);
    }
}

static void vote_encode(const struct raft_request_vote *v, struct buf *out)
{
    buf_add_u64(out, v->term);
    buf_add_u64(out, v->candidate_id);
    buf_add_u64(out, v->last_log_index);
    buf_add_u64(out, v->last_log_term);
    buf_add_u8(out, v->disrupt_leader);
    buf_add_u8(out, v->pre_vote);
}

static void core_encode(const struct rlog_message *m, struct buf *out)
{
    const struct raft_append_entries_result *ar = &m->raft.append_entries_result;
    const struct raft_timeout_now *tn = &m->raft.timeout_now;

    buf_add_u8(out, (uint8_t)m->raft.type);
    switch (m->raft.type) {
    case RAFT_APPEND_ENTRIES: append_encode(m, out); return;
    case RAFT_APPEND_ENTRIES_RESULT:
        buf_add_u64(out, ar->term);
        buf_add_u64(out, ar->rejected);
        buf_add_u64(out, ar->last_log_index);
        return;
    case RAFT_REQUEST_VOTE: vote_encode(&m->raft.request_vote, out); return;
    case RAFT_REQUEST_VOTE_RESULT:
        buf_add_u64(out, m->raft.request_vote_result.term);
        buf_add_u8(out, m->raft.request_vote_result.vote_granted);
        buf_add_u8(out, m->raft.request_vote_result.pre_vote);
        return;
    case RAFT_TIMEOUT_NOW:
        buf_add_u64(out, tn->term);
        buf_add_u64(out, tn->last_log_index);
        buf_add_u64(out, tn->last_log_term);
        return;
    case RAFT_INSTALL_SNAPSHOT: break;
    }
    ASSERT(false); /* always fails: snapshots are sent as chunks */
}

void rlog_wire_encode(const struct rlog_frame *f, struct buf *out)
{
    buf_add_u8(out, RLOG_WIRE_VERSION);
    if (f->kind == RLOG_FRAME_CORE) {
        core_encode(&f->core, out);
        return;
    }
    buf_add_u8(out, (uint8_t)f->kind);
    switch (f->kind) {
    case RLOG_FRAME_ASK:
    case RLOG_FRAME_REPLY:
        buf_add_u64(out, f->ask.term);
        buf_add_u64(out, f->ask.round);
        if (f->kind == RLOG_FRAME_ASK)
            buf_add_u64(out, f->ask.commit);
        buf_add_u64(out, (uint64_t)f->ask.time_ms);
        return;
    case RLOG_FRAME_READ: buf_add_u64(out, f->read.number); return;
    case RLOG_FRAME_READ_INDEX:
        buf_add_u64(out, f->read.number);
        buf_add_u64(out, f->read.term);
        buf_add_u64(out, f->read.index);
        buf_add_u64(out, (uint64_t)f->read.time_ms);
        return;
    case RLOG_FRAME_CHUNK:
        ASSERT(f->chunk.data.len <= RLOG_CHUNK_MAX);
        buf_add_u64(out, f->chunk.term);
        buf_add_u64(out, f->chunk.transfer);
        buf_add_u64(out, f->chunk.index);
        buf_add_u64(out, f->chunk.snap_term);
        buf_add_u64(out, f->chunk.size);
        buf_add_u64(out, f->chunk.offset);
        return;
    case RLOG_FRAME_COMMIT:
        buf_add_u64(out, f->ask.term);
        buf_add_u64(out, f->ask.commit);
        return;
    case RLOG_FRAME_CHUNK_REPLY:
        buf_add_u64(out, f->chunk_reply.transfer);
        buf_add_u64(out, f->chunk_reply.offset);
        buf_add_u8(out, (uint8_t)f->chunk_reply.state);
        return;
    case RLOG_FRAME_CORE: break;
    }
    ASSERT(false);
}

static bool flag_read(struct reader *r)
{
    uint8_t v = reader_u8(r);
    if (v > 1)
        r->failed = true;
    return v == 1;
}

static int64_t time_read(struct reader *r)
{
    uint64_t v = reader_u64(r);
    if (v >= (uint64_t)TEXT_CLOCK_END)
        r->failed = true;
    return r->failed ? 0 : (int64_t)v;
}

/* Lengths first: nothing is allocated for a frame whose parts do not add up. */
static enum status entries_heads(struct reader *r, struct rlog_entry *entries, unsigned n,
                                 size_t *ret_total)
{
    size_t total = 0;
    for (unsigned i = 0; i < n; i++) {
        entries[i].term = reader_varint(r);
        uint8_t type = reader_u8(r);
        uint64_t len = reader_varint(r);
        if (r->failed || type < RLOG_COMMAND || type > RLOG_CHANGE || len > RLOG_ENTRY_MAX)
            return ST_INVALID;
        entries[i].type = (enum rlog_entry_type)type;
        entries[i].data.len = (size_t)len;
        total += (size_t)len;
    }
    if (total != reader_left(r))
        return ST_INVALID;
    *ret_total = total;
    return ST_OK;
}

static enum status entries_read(struct reader *r, unsigned n, struct rlog_entry **ret_entries)
{
    size_t total;
    struct rlog_entry *entries = mem_zalloc(n * sizeof *entries);
    if (entries == NULL)
        return ST_NOMEM;
    enum status st = entries_heads(r, entries, n, &total);
    struct rlog_block *block = st == ST_OK ? rlog_block_new(total) : NULL;
    if (block == NULL) {
        mem_free(entries);
        return st != ST_OK ? st : ST_NOMEM;
    }
    struct bytes payload = reader_take(r, total);
    uint8_t *at = rlog_block_data(block);
    if (total > 0)
        memcpy(at, payload.data, total);
    for (unsigned i = 0; i < n; i++) {
        entries[i].data.data = at;
        entries[i].block = block;
        at += entries[i].data.len;
    }
    *ret_entries = entries;
    return ST_OK;
}

static enum status append_decode(struct reader *r, struct rlog_frame *f)
{
    struct raft_append_entries *ae = &f->core.raft.append_entries;
    ae->version = VERSION_APPEND;
    ae->term = reader_u64(r);
    ae->prev_log_index = reader_u64(r);
    ae->prev_log_term = reader_u64(r);
    ae->leader_commit = reader_u64(r);
    ae->n_entries = reader_u32(r);
    if (r->failed || ae->n_entries > RLOG_INFLIGHT_ENTRIES)
        return ST_INVALID;
    if (ae->n_entries == 0)
        return reader_end(r);
    TRY(entries_read(r, ae->n_entries, &f->entries));
    f->core.entries = f->entries;
    return ST_OK;
}

static enum status vote_decode(struct reader *r, struct raft_request_vote *v)
{
    v->version = VERSION_VOTE;
    v->term = reader_u64(r);
    v->candidate_id = reader_u64(r);
    v->last_log_index = reader_u64(r);
    v->last_log_term = reader_u64(r);
    v->disrupt_leader = flag_read(r);
    v->pre_vote = flag_read(r);
    return reader_end(r);
}

static enum status append_result_decode(struct reader *r, struct raft_append_entries_result *ar)
{
    ar->version = VERSION_APPEND_RESULT;
    ar->features = FEATURE_CAPACITY;
    ar->capacity = CAPACITY_UNUSED;
    ar->term = reader_u64(r);
    ar->rejected = reader_u64(r);
    ar->last_log_index = reader_u64(r);
    return reader_end(r);
}

static enum status vote_result_decode(struct reader *r, struct raft_request_vote_result *vr)
{
    vr->version = VERSION_VOTE;
    vr->features = FEATURE_CAPACITY;
    vr->capacity = CAPACITY_UNUSED;
    vr->term = reader_u64(r);
    vr->vote_granted = flag_read(r);
    vr->pre_vote = flag_read(r);
    return reader_end(r);
}

static enum status timeout_now_decode(struct reader *r, struct raft_timeout_now *tn)
{
    tn->version = VERSION_TIMEOUT_NOW;
    tn->term = reader_u64(r);
    tn->last_log_index = reader_u64(r);
    tn->last_log_term = reader_u64(r);
    return reader_end(r);
}

static enum status core_decode(struct reader *r, uint8_t type, struct rlog_frame *f)
{
    struct raft_message *m = &f->core.raft;
    f->kind = RLOG_FRAME_CORE;
    m->type = (enum raft_message_type)type;
    switch (type) {
    case RAFT_APPEND_ENTRIES: return append_decode(r, f);
    case RAFT_APPEND_ENTRIES_RESULT: return append_result_decode(r, &m->append_entries_result);
    case RAFT_REQUEST_VOTE: return vote_decode(r, &m->request_vote);
    case RAFT_REQUEST_VOTE_RESULT: return vote_result_decode(r, &m->request_vote_result);
    case RAFT_TIMEOUT_NOW: return timeout_now_decode(r, &m->timeout_now);
    default: return ST_INVALID;
    }
}

static enum status chunk_decode(struct reader *r, struct rlog_frame *f)
{
    f->chunk.term = reader_u64(r);
    f->chunk.transfer = reader_u64(r);
    f->chunk.index = reader_u64(r);
    f->chunk.snap_term = reader_u64(r);
    f->chunk.size = reader_u64(r);
    f->chunk.offset = reader_u64(r);
    f->chunk.data = reader_take(r, reader_left(r));
    if (r->failed || f->chunk.data.len == 0 || f->chunk.data.len > RLOG_CHUNK_MAX)
        return ST_INVALID;
    if (f->chunk.term == 0 || f->chunk.index == 0 || f->chunk.snap_term == 0 ||
        f->chunk.snap_term > f->chunk.term)
        return ST_INVALID;
    if (f->chunk.offset > f->chunk.size || f->chunk.data.len > f->chunk.size - f->chunk.offset)
        return ST_INVALID;
    return ST_OK;
}

static enum status chunk_reply_decode(struct reader *r, struct rlog_frame *f)
{
    f->chunk_reply.transfer = reader_u64(r);
    f->chunk_reply.offset = reader_u64(r);
    uint8_t state = reader_u8(r);
    if (state > RLOG_CHUNK_REFUSED)
        return ST_INVALID;
    f->chunk_reply.state = (enum rlog_chunk_state)state;
    return reader_end(r);
}

static enum status own_decode(struct reader *r, uint8_t kind, struct rlog_frame *f)
{
    f->kind = (enum rlog_frame_kind)kind;
    switch (kind) {
    case RLOG_FRAME_ASK:
    case RLOG_FRAME_REPLY:
        f->ask.term = reader_u64(r);
        f->ask.round = reader_u64(r);
        if (kind == RLOG_FRAME_ASK)
            f->ask.commit = reader_u64(r);
        f->ask.time_ms = time_read(r);
        return reader_end(r);
    case RLOG_FRAME_READ: f->read.number = reader_u64(r); return reader_end(r);
    case RLOG_FRAME_READ_INDEX:
        f->read.number = reader_u64(r);
        f->read.term = reader_u64(r);
        f->read.index = reader_u64(r);
        f->read.time_ms = time_read(r);
        return reader_end(r);
    case RLOG_FRAME_CHUNK: return chunk_decode(r, f);
    case RLOG_FRAME_CHUNK_REPLY: return chunk_reply_decode(r, f);
    case RLOG_FRAME_COMMIT:
        f->ask.term = reader_u64(r);
        f->ask.commit = reader_u64(r);
        return reader_end(r);
    default: return ST_INVALID;
    }
}

enum status rlog_wire_decode(struct bytes bytes, struct rlog_frame *ret_frame)
{
    struct reader r = reader_of(bytes);
    struct rlog_frame f = {0};

    if (bytes.len < 2 || bytes.len > RLOG_FRAME_MAX || reader_u8(&r) != RLOG_WIRE_VERSION)
        return ST_INVALID;
    uint8_t kind = reader_u8(&r);
    if (kind < RLOG_FRAME_ASK)
        TRY(core_decode(&r, kind, &f));
    else
        TRY(own_decode(&r, kind, &f));
    *ret_frame = f;
    return ST_OK;
}

void rlog_frame_done(struct rlog_frame *f)
{
    if (f->entries == NULL)
        return;
    rlog_block_unref(f->entries[0].block);
    mem_free(f->entries);
    f->entries = NULL;
}
