/* Streaming: runs of the WAL are gathered while they come and applied one transaction at a time. */
#include "cluster/dr/follow/follow_internal.h"

#include "base/trace.h"
#include "cluster/dr/link/dr_run.h"
#include "raft/txn/rlog_wal.h"

#include <inttypes.h>

enum {
    BATCH_BYTES = 2 * 1024 * 1024, /* a batch of runs takes no further run from here on */
    STREAM_SILENCE_MS = 2000,      /* look at the role when nothing comes for so long */
};

struct stream {
    struct dr_follow *f;
    struct dr_run run;
    struct buf batch; /* records that were received and not applied */
    struct rlog_wal_span span;
    uint64_t version;    /* of the state */
    uint64_t checkpoint; /* version whose root the primary asks for; 0: none */
    int64_t time_ms;     /* time in the newest record of the batch */
    int64_t came_ms;     /* when the batch began */
    uint64_t granted;    /* bytes of credit that were used and not granted again */
};

/* The transaction that applies the batch. */
struct apply {
    struct state_more more;
    struct stream *s;
};

static void add_wal(const struct state_more *more, struct rlog_txn_builder *b)
{
    const struct apply *a = CONTAINER_OF(more, struct apply, more);
    rlog_txn_wal(b, buf_bytes(&a->s->batch));
}

static enum status stage_run(struct state_txn *txn, void *arg, int64_t now_ms)
{
    struct apply *a = arg;
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (!follow_unchanged(a->s->f, &now))
        return ST_DENIED;
    const struct dr_applied applied = {a->s->span.last, a->s->time_ms};
    TRY(dr_applied_put(txn, &applied));
    state_stage_more(txn, &a->more);
    return ST_OK;
}

static void note_applied(struct stream *s)
{
    struct dr_facts *facts = dr_live_begin(&s->f->dr->live);
    facts->wal_bytes += s->batch.len;
    facts->received = s->version;
    dr_live_end(&s->f->dr->live);
}

static enum status acknowledge(struct stream *s)
{
    int64_t until_ms = dr_conn_now_ms() + FOLLOW_SEND_MS;
    struct dr_frame ack = {.type = DR_ACK,
                           .ack = {.version = s->version,
                                   .commit_us = (uint64_t)(dr_conn_now_ms() - s->came_ms) * 1000}};
    pulses_confirm(s->f->pulses, s->version);
    TRY(dr_conn_send(s->f->conn, &ack, until_ms));
    if (s->granted < FOLLOW_CREDIT_BYTES / 4)
        return ST_OK;
    struct dr_frame credit = {.type = DR_CREDIT, .credit = {.bytes = s->granted}};
    s->granted = 0;
    return dr_conn_send(s->f->conn, &credit, until_ms);
}

static enum status apply_batch(struct stream *s)
{
    struct apply a = {.more = {.add = add_wal}, .s = s};
    const struct dr_thread *thread = s->f->thread;
    if (s->batch.len == 0)
        return ST_OK;
    TRY(rlog_wal_check(buf_bytes(&s->batch), &s->span));
    TRY(thread->transact(thread->ctx, stage_run, &a));
    s->version = MAX(s->version, s->span.last);
    note_applied(s);
    s->granted += s->batch.len;
    buf_clear(&s->batch);
    return acknowledge(s);
}

/* Answer a checkpoint with the root at exactly its version: nothing else writes replicated keys. */
static enum status answer_checkpoint(struct stream *s)
{
    struct store_pin pin;
    struct dr_frame frame = {.type = DR_ROOT};
    uint64_t wanted = s->checkpoint;
    if (wanted == 0)
        return ST_OK;
    s->checkpoint = 0;
    TRY(store_pin(rlog_store(s->f->thread->host->rlog), "dr checkpoint", FOLLOW_SEND_MS, &pin));
    bool here = pin.version == wanted;
    if (here)
        store_hash(&pin, BYTES(RLOG_REPLICATED), frame.root.root);
    store_unpin(&pin);
    if (!here)
        return ST_OK;
    frame.root.version = wanted;
    return dr_conn_send(s->f->conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS);
}

/* Add a run to the batch. */
static enum status take_run(struct stream *s, const struct dr_wal *wal)
{
    struct bytes records;
    enum status st = dr_run_add(&s->run, wal, &records);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* more frames belong to the run */
    TRY(st);
    if (s->batch.len != 0 && s->batch.len + records.len > RLOG_WAL_RECORD_MAX)
        TRY(apply_batch(s));
    if (s->batch.len == 0)
        s->came_ms = dr_conn_now_ms();
    buf_add(&s->batch, records);
    TRY(buf_status(&s->batch));
    struct rlog_wal_record record;
    while (rlog_wal_next(&records, &record) == ST_OK)
        s->time_ms = record.time_ms;
    return ST_OK;
}

static void note_differs(struct stream *s, uint64_t version)
{
    s->f->because = FOLLOW_DIFFERS;
    struct dr_facts *facts = dr_live_begin(&s->f->dr->live);
    facts->differs = true;
    dr_live_end(&s->f->dr->live);
    trace(TRACE_ERROR, "dr",
          "this cluster's state differs from the primary's at version %" PRIu64
          ": the difference is repaired",
          version);
}

static enum status take_frame(struct stream *s, const struct dr_frame *frame)
{
    switch (frame->type) {
    case DR_WAL: return take_run(s, &frame->wal);
    case DR_CHECKPOINT:
        TRY(apply_batch(s));
        s->checkpoint = frame->checkpoint.version;
        return answer_checkpoint(s);
    case DR_TOO_OLD:
        s->f->because = FOLLOW_BEHIND;
        s->f->verdict = FOLLOW_TOO_OLD;
        return ST_CONFLICT;
    case DR_DIFFERS: note_differs(s, frame->checkpoint.version); return ST_CONFLICT;
    case DR_REFUSE: return ST_DENIED;
    default: return ST_INVALID;
    }
}

/* One turn: everything that has come is one batch. */
static enum status stream_turn(struct stream *s)
{
    struct dr_frame frame;
    unsigned wait_ms = FOLLOW_LOOK_MS;
    enum status st = ST_OK;
    while (s->batch.len < BATCH_BYTES &&
           (st = dr_conn_receive(s->f->conn, dr_conn_now_ms() + wait_ms, &frame)) == ST_OK) {
        TRY(take_frame(s, &frame));
        wait_ms = 0;
    }
    if (st != ST_OK && st != ST_TIMEOUT)
        return st;
    return apply_batch(s);
}

/* Whether the role is still the one that this stream serves. */
static enum status look_at_role(struct stream *s)
{
    struct dr_role before = s->f->role;
    uint64_t version = 0;
    TRY(follow_look(s->f, &version));
    struct dr_role now = s->f->role;
    s->f->role = before;
    return follow_unchanged(s->f, &now) ? ST_OK : ST_DENIED;
}

static enum status run(struct stream *s)
{
    struct dr_frame credit = {.type = DR_CREDIT, .credit = {.bytes = FOLLOW_CREDIT_BYTES}};
    int64_t looked_ms = dr_conn_now_ms();
    TRY(dr_conn_send(s->f->conn, &credit, dr_conn_now_ms() + FOLLOW_SEND_MS));
    follow_tell(s->f, DR_LINK_READY, NULL);
    pulses_confirm(s->f->pulses, s->version);
    while (!s->f->thread->asked(s->f->thread->ctx)) {
        TRY(stream_turn(s));
        if (follow_renew(s->f) == ST_OK)
            return ST_CLOSED; /* the next connection shows the new certificate */
        if (dr_conn_now_ms() - looked_ms < STREAM_SILENCE_MS)
            continue;
        looked_ms = dr_conn_now_ms();
        TRY(look_at_role(s));
    }
    return ST_CLOSED;
}

static enum status stage_record(struct state_txn *txn, void *arg, int64_t now_ms)
{
    const struct dr_applied *applied = arg;
    (void)now_ms;
    return state_version(txn) == applied->version ? dr_applied_put(txn, applied) : ST_OK;
}

/* A sync does not tell by which record the primary came to the version: the WELCOME does. */
static enum status note_record(struct dr_follow *f, uint64_t version)
{
    struct dr_applied applied = {version, f->told_record_ms};
    if (f->record_ms != 0 || f->told_record_ms == 0)
        return ST_OK;
    return f->thread->transact(f->thread->ctx, stage_record, &applied);
}

enum status follow_stream(struct dr_follow *f, uint64_t version)
{
    struct stream s = {.f = f, .version = version};
    enum status greeted = follow_greet(f, DR_STREAM, version);
    dr_count(greeted == ST_OK ? &f->dr->counts.streams : &f->dr->counts.stream_failures, 1);
    TRY(greeted);
    TRY(note_record(f, version));
    trace(TRACE_INFO, "dr", "following the primary at %s from version %" PRIu64,
          dr_conn_address(f->conn), version);
    enum status st = run(&s);
    pulses_confirm(f->pulses, 0);
    if (st != ST_CLOSED)
        trace(TRACE_INFO, "dr", "the stream from %s ended: %s%s%s", dr_conn_address(f->conn),
              status_text(st), dr_conn_error(f->conn)[0] != '\0' ? ": " : "",
              dr_conn_error(f->conn));
    dr_run_done(&s.run);
    buf_done(&s.batch);
    return st;
}
