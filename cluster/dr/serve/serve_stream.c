/* A stream: the records of the WAL behind the secondary's version, as the secondary grants credit.
 *
 * Checkpoints: the session pins the newest version, names it to the secondary when its record was
 * sent, and compares the root that comes back with the root at the pin. */
#include "cluster/dr/serve/serve_internal.h"

#include "base/plant.h"
#include "base/trace.h"
#include "raft/txn/rlog_wal.h"

#include <inttypes.h>

enum {
    RUN_BYTES = 512 * 1024, /* bytes of records in one run, about */
    WAIT_MS = 20,           /* longest wait for records between two looks for frames */
    CREDIT_WAIT_MS = 500,
    CHECKPOINT_MS = 60000,
    CHECKPOINT_FIRST_MS = 1000,
    PLANTED_EVERY = 4, /* versions between two runs that do not fit */
    PLANTED_BACK = 64, /* versions by which a record is old that is sent again */
};

enum checkpoint { CHECK_NONE, CHECK_PINNED, CHECK_ASKED };

struct stream {
    struct dr_session *s;
    struct rlog_wal *wal;
    struct buf run;
    uint64_t sent;     /* version of the last record that was sent */
    uint64_t acked;    /* version that the secondary confirmed last */
    uint64_t repeated; /* version at which an old record was sent again (DR_TWICE) */
    uint64_t credit;   /* bytes that the secondary still takes */
    enum checkpoint check;
    struct store_pin pin; /* unless `check` is CHECK_NONE */
    int64_t check_due_ms;
};

static void check_end(struct stream *t, unsigned wait_ms)
{
    if (t->check != CHECK_NONE)
        store_unpin(&t->pin);
    t->check = CHECK_NONE;
    t->check_due_ms = dr_conn_now_ms() + wait_ms;
}

static enum status check_compare(struct stream *t, const struct dr_root *root)
{
    uint8_t ours[DR_ROOT_BYTES];
    if (t->check != CHECK_ASKED || root->version != t->pin.version)
        return ST_OK; /* an answer to a checkpoint that was given up */
    store_hash(&t->pin, BYTES(RLOG_REPLICATED), ours);
    bool equal = memcmp(ours, root->root, sizeof ours) == 0;
    struct dr_facts *facts = dr_live_begin(&t->s->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, t->s->peer.name.id, "");
    if (peer != NULL && equal)
        peer->verified = root->version;
    if (peer != NULL)
        peer->differs = !equal;
    dr_live_end(&t->s->dr->live);
    dr_count(equal ? &t->s->dr->counts.equal : &t->s->dr->counts.different, 1);
    if (!equal)
        trace(TRACE_ERROR, "dr",
              "secondary %s: its state differs from this cluster's at version %" PRIu64,
              t->s->peer.name.id, root->version);
    check_end(t, CHECKPOINT_MS);
    if (equal)
        return ST_OK;
    struct dr_frame frame = {.type = DR_DIFFERS, .checkpoint = {.version = root->version}};
    enum status st = dr_conn_send(t->s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
    return st == ST_OK ? ST_DENIED : st; /* the secondary compares, and comes again */
}

/* Pin the newest version when a checkpoint is due, and name it to the secondary once every record
 * up to it was sent. */
static enum status check_step(struct stream *t)
{
    struct dr_frame frame = {.type = DR_CHECKPOINT};
    if (t->check == CHECK_NONE && dr_conn_now_ms() >= t->check_due_ms) {
        if (store_pin(rlog_store(t->s->dr->host->rlog), "dr checkpoint", CHECKPOINT_MS, &t->pin) !=
            ST_OK)
            return ST_OK; /* every pin is in use: the next turn tries again */
        t->check = CHECK_PINNED;
    }
    if (t->check == CHECK_PINNED && t->sent > t->pin.version)
        check_end(t, CHECKPOINT_FIRST_MS); /* the secondary is past it already */
    if (t->check != CHECK_PINNED || t->sent != t->pin.version)
        return ST_OK;
    t->check = CHECK_ASKED;
    t->check_due_ms = dr_conn_now_ms() + CHECKPOINT_MS;
    frame.checkpoint.version = t->pin.version;
    return dr_conn_send(t->s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
}

/* The pin of a checkpoint is not kept for long: it holds memory of the primary. */
static void check_give_up(struct stream *t)
{
    if (t->check == CHECK_ASKED && dr_conn_now_ms() >= t->check_due_ms)
        check_end(t, CHECKPOINT_FIRST_MS);
}

static enum status heed_frame(struct stream *t, const struct dr_frame *frame)
{
    struct dr_session *s = t->s;
    switch (frame->type) {
    case DR_CREDIT:
        t->credit += MIN(frame->credit.bytes, (uint64_t)DR_RUN_MAX * 64 - t->credit);
        return ST_OK;
    case DR_ACK:
        if (frame->ack.version > t->sent)
            return ST_INVALID;
        t->acked = frame->ack.version;
        dr_session_confirmed(s, frame->ack.version);
        return ST_OK;
    case DR_ROOT: return check_compare(t, &frame->root);
    default: return ST_INVALID;
    }
}

/* Take the frames that have come, and wait for `wait_ms` for the first one. */
static enum status take_all(struct stream *t, unsigned wait_ms)
{
    struct dr_frame frame;
    enum status st;
    while ((st = dr_conn_receive(t->s->conn, dr_conn_now_ms() + wait_ms, &frame)) == ST_OK) {
        TRY(heed_frame(t, &frame));
        wait_ms = 0;
    }
    return st == ST_TIMEOUT ? ST_OK : st;
}

static enum status send_too_old(struct stream *t)
{
    struct rlog_wal_stats stats;
    struct dr_frame frame = {.type = DR_TOO_OLD};
    rlog_wal_stats(t->wal, &stats);
    frame.too_old.first = stats.base + 1;
    dr_count(&t->s->dr->counts.missing, 1);
    trace(TRACE_WARN, "dr",
          "secondary %s is at version %" PRIu64 ", and the WAL in memory begins at %" PRIu64
          ": it must sync",
          t->s->peer.name.id, t->sent, stats.base + 1);
    enum status st = dr_conn_send(t->s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
    return st == ST_OK ? ST_DENIED : st;
}

/* Cut the run behind the record of a version, if the run goes on: the version of a checkpoint is
 * the last one of a run. */
static void cut_behind(struct buf *run, uint64_t version, uint64_t *last)
{
    struct bytes rest = buf_bytes(run);
    struct rlog_wal_record record;
    while (*last > version && rlog_wal_next(&rest, &record) == ST_OK)
        if (record.version == version) {
            run->len -= rest.len;
            *last = version;
        }
}

/* Behind which version the next run begins. A correct sender makes no gap: the planted bug needs
 * one, so that the secondary gets what it should refuse. */
static uint64_t run_after(const struct stream *t)
{
    struct rlog_wal_place place;
    bool skips = planted(PLANT_DR_GAP) && t->sent % PLANTED_EVERY == 0 &&
                 rlog_wal_find(t->wal, t->sent + 2, &place) == ST_OK;
    return skips ? t->sent + 1 : t->sent;
}

/* Nor does a correct sender repeat a record that the secondary has confirmed. The old record is
 * alone: a run whose versions do not follow each other is refused as malformed. */
static enum status planted_repeat(struct stream *t)
{
    uint64_t last = 0;
    bool due = planted(PLANT_DR_TWICE) && t->acked == t->sent && t->repeated != t->sent;
    buf_clear(&t->run);
    if (!due || rlog_wal_read(t->wal, t->sent - PLANTED_BACK, 1, &t->run, &last) != ST_OK)
        return ST_OK;
    t->repeated = t->sent;
    const struct dr_wal versions = {.first = last, .last = last};
    TRY(dr_conn_send_run(t->s->conn, &versions, buf_bytes(&t->run), dr_conn_now_ms() + DR_SEND_MS));
    return take_all(t, CREDIT_WAIT_MS);
}

static enum status send_records(struct stream *t)
{
    uint64_t last = 0, after = run_after(t);
    buf_clear(&t->run);
    enum status st =
        rlog_wal_read(t->wal, after, dr_session_piece(t->s, RUN_BYTES), &t->run, &last);
    if (st == ST_CONFLICT || st == ST_CLOSED)
        return send_too_old(t);
    TRY(st);
    if (t->sent == t->s->hello.position)
        dr_count(&t->s->dr->counts.found, 1);
    if (t->check == CHECK_PINNED)
        cut_behind(&t->run, t->pin.version, &last);
    const struct dr_wal versions = {.first = after + 1, .last = last};
    TRY(dr_conn_send_run(t->s->conn, &versions, buf_bytes(&t->run), dr_conn_now_ms() + DR_SEND_MS));
    t->credit -= MIN(t->credit, t->run.len);
    t->sent = last;
    return ST_OK;
}

static enum status session_turn(struct stream *t)
{
    TRY(dr_session_check(t->s));
    TRY(check_step(t));
    check_give_up(t);
    unsigned pause_ms = dr_session_pause_ms(t->s);
    if (t->credit == 0 || pause_ms != 0)
        return take_all(t, t->credit == 0 ? CREDIT_WAIT_MS : pause_ms);
    enum status st = send_records(t);
    if (st == ST_NOT_FOUND) {
        TRY(planted_repeat(t));
        rlog_wal_wait(t->wal, t->sent, WAIT_MS, &t->s->stop);
        st = ST_OK;
    }
    TRY(st);
    return take_all(t, 0);
}

enum status dr_session_stream(struct dr_session *s)
{
    struct stream t = {.s = s,
                       .wal = rlog_wal(s->dr->host->rlog),
                       .sent = s->hello.position,
                       .check_due_ms = dr_conn_now_ms() + CHECKPOINT_FIRST_MS};
    enum status st;
    trace(TRACE_INFO, "dr", "secondary %s at %s follows from version %" PRIu64, s->peer.name.id,
          dr_conn_address(s->conn), t.sent);
    while ((st = session_turn(&t)) == ST_OK)
        continue;
    check_end(&t, 0);
    buf_done(&t.run);
    return st;
}
