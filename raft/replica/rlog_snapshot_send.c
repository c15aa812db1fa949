/* Sends a leader's newest snapshot to a follower. LANE_BULK reads the file piece by piece. The
 * pieces are sent as chunks, at most a bounded number ahead of the offset that the follower
 * reports.
 *
 *   FREE -> OPENING -> SENDING -> CLOSING -> FREE
 *
 * While a transfer runs, the core asks again; such a request is ignored. Lost chunks are sent again
 * from the offset that the follower reports. If the follower begins anew, the transfer begins
 * anew. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

enum {
    WINDOW = 4 * RLOG_CHUNK_MAX,
    RESEND_MS = 500,
    /* time without a reply after which the transfer ends; the core asks again */
    STALLED_MS = 15000,
    PAUSE_MS = 2000, /* pause before another transfer to a follower that refused */
};

static void send_step(struct rlog_snapshot_send *s);

static struct rlog_snapshot_send *send_of(struct rlog *r, uint64_t to)
{
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++)
        if (r->sends[i].to == to && (r->sends[i].phase != SEND_FREE || r->sends[i].wanted))
            return &r->sends[i];
    return NULL;
}

void rlog_snapshot_send_wanted(struct rlog *r, uint64_t to)
{
    struct rlog_snapshot_send *unused = NULL;
    ASSERT(to != r->identity.id);
    if (send_of(r, to) != NULL)
        return;
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++) {
        struct rlog_snapshot_send *s = &r->sends[i];
        if (s->to == to && rlog_now(r) < s->not_before_ms)
            return;
        if (s->phase == SEND_FREE && !s->wanted && unused == NULL)
            unused = s;
    }
    if (unused != NULL) {
        unused->to = to;
        unused->wanted = true;
    }
}

static void send_run(struct env_work *work)
{
    struct rlog_snapshot_send *s = CONTAINER_OF(work, struct rlog_snapshot_send, work);
    struct rlog_snapshot_meta meta;
    switch (s->phase) {
    case SEND_OPENING:
        s->status = rlog_snap_open(s->rlog->disk, s->index, s->term, &s->reader, &meta);
        s->size = s->status == ST_OK ? meta.bytes : 0;
        return;
    case SEND_SENDING:
        s->status = rlog_snap_read_raw(s->reader, s->buffer, RLOG_CHUNK_MAX, s->sent, &s->got);
        return;
    case SEND_CLOSING: rlog_snap_close(s->reader); return;
    case SEND_FREE: break;
    }
    ASSERT(false);
}

static void send_done(struct env_work *work)
{
    struct rlog_snapshot_send *s = CONTAINER_OF(work, struct rlog_snapshot_send, work);
    struct rlog *r = s->rlog;
    rlog_enter(r);
    s->working = false;
    send_step(s);
    rlog_leave(r);
}

static void send_work(struct rlog_snapshot_send *s)
{
    ASSERT(!s->working);
    s->working = true;
    s->work = (struct env_work){.run = send_run, .done = send_done, .lane = LANE_BULK};
    env_work(s->rlog->env, &s->work);
}

static void send_free(struct rlog_snapshot_send *s)
{
    ASSERT(!s->working);
    ASSERT(s->phase != SEND_FREE);
    env_timer_stop(s->rlog->env, &s->timer);
    mem_free(s->buffer);
    s->buffer = NULL;
    s->reader = NULL;
    s->phase = SEND_FREE;
}

static void send_close(struct rlog_snapshot_send *s)
{
    if (s->phase == SEND_FREE || s->phase == SEND_CLOSING)
        return;
    s->ending = true;
    if (!s->working)
        send_step(s);
}

static void chunk_send(struct rlog_snapshot_send *s)
{
    struct rlog *r = s->rlog;
    struct rlog_frame frame = {.kind = RLOG_FRAME_CHUNK,
                               .chunk = {.term = r->core.term,
                                         .transfer = s->transfer,
                                         .index = s->index,
                                         .snap_term = s->term,
                                         .size = s->size,
                                         .offset = s->sent,
                                         .data = bytes_of(s->buffer, s->got)}};
    ASSERT(s->phase == SEND_SENDING);
    rlog_send_frame(r, s->to, &frame, true);
    s->sent += s->got;
}

static void send_chunks(struct rlog_snapshot_send *s)
{
    ASSERT(s->phase == SEND_SENDING);
    ASSERT(!s->working);
    if (s->reading) {
        s->reading = false;
        if (s->status != ST_OK || s->got == 0) {
            trace(TRACE_ERROR, "raft", "reading snapshot %llu: %s", (unsigned long long)s->index,
                  status_text(s->status));
            send_close(s);
            return;
        }
        if (s->again) { /* the follower wants another offset by now */
            s->again = false;
            s->sent = s->acked;
        } else {
            chunk_send(s);
        }
    }
    if (s->sent < s->size && s->sent - s->acked < WINDOW) {
        s->reading = true;
        send_work(s);
    }
}

static void send_step(struct rlog_snapshot_send *s)
{
    struct rlog *r = s->rlog;
    if (s->working)
        return;
    if (s->phase == SEND_CLOSING) {
        send_free(s);
        return;
    }
    if (s->phase == SEND_OPENING && s->status != ST_OK) {
        trace(TRACE_ERROR, "raft", "opening snapshot %llu: %s", (unsigned long long)s->index,
              status_text(s->status));
        send_free(s);
        return;
    }
    if (s->ending || r->failed || r->closing || !rlog_core_leads(&r->core)) {
        s->phase = SEND_CLOSING;
        send_work(s);
        return;
    }
    s->phase = SEND_SENDING;
    send_chunks(s);
}

/* The last chunk is sent again while the follower verifies and installs: the reply keeps the
 * transfer alive and says when the follower is done. */
static void on_timer(struct env_timer *timer)
{
    struct rlog_snapshot_send *s = CONTAINER_OF(timer, struct rlog_snapshot_send, timer);
    struct rlog *r = s->rlog;
    uint64_t now = rlog_now(r);
    ASSERT(s->phase != SEND_FREE);
    rlog_enter(r);
    env_timer_set(r->env, &s->timer, now + RESEND_MS);
    bool overtaken =
        s->index < r->core.snap.index && (s->acked == 0 || s->index + 1 < r->core.log.first);
    if (now - s->heard_ms >= STALLED_MS || overtaken || !rlog_core_leads(&r->core) ||
        rlog_conf_find(&r->core.conf, s->to) == NULL) {
        send_close(s);
    } else if (s->phase == SEND_SENDING && now - s->moved_ms >= RESEND_MS) {
        s->moved_ms = now;
        uint64_t tail = s->size > RLOG_CHUNK_MAX ? s->size - RLOG_CHUNK_MAX : 0;
        s->acked = s->acked == s->size ? tail : s->acked;
        s->again = s->working;
        if (!s->working)
            s->sent = s->acked;
        send_step(s);
    }
    rlog_leave(r);
}

static void send_begin(struct rlog *r, struct rlog_snapshot_send *s)
{
    uint64_t now = rlog_now(r);
    ASSERT(s->phase == SEND_FREE);
    ASSERT(rlog_core_leads(&r->core));
    s->wanted = false;
    if (r->core.snap.index == 0 || rlog_conf_find(&r->core.conf, s->to) == NULL)
        return;
    uint8_t *buffer = mem_alloc(RLOG_CHUNK_MAX);
    if (buffer == NULL)
        return;
    *s = (struct rlog_snapshot_send){.rlog = r,
                                     .to = s->to,
                                     .phase = SEND_OPENING,
                                     .index = r->core.snap.index,
                                     .term = r->core.snap.term,
                                     .buffer = buffer,
                                     .heard_ms = now,
                                     .moved_ms = now,
                                     .timer.fire = on_timer};
    env_random(r->env, &s->transfer, sizeof s->transfer);
    trace(TRACE_INFO, "raft", "sends snapshot %llu to %016llx", (unsigned long long)s->index,
          (unsigned long long)s->to);
    env_timer_set(r->env, &s->timer, now + RESEND_MS);
    send_work(s);
}

void rlog_snapshot_sends_pump(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++)
        if (r->sends[i].wanted && r->sends[i].phase == SEND_FREE) {
            if (rlog_core_leads(&r->core))
                send_begin(r, &r->sends[i]);
            else
                r->sends[i].wanted = false;
        }
}

static void send_progress(struct rlog_snapshot_send *s, uint64_t offset, uint64_t now)
{
    ASSERT(s->phase == SEND_SENDING);
    if (offset > s->size)
        return;
    ASSERT(s->acked <= s->size);
    if (offset > s->acked) {
        s->acked = offset;
        s->moved_ms = now;
        if (offset >
            s->sent) { /* the follower has more than this leader sent since it began anew */
            s->again = s->working; /* the chunk that is being read has another offset */
            if (!s->working)
                s->sent = offset;
        }
    } else if (offset == 0 && s->acked > 0) { /* the follower began the transfer again */
        s->acked = 0;
        s->again = s->working;
        if (!s->working)
            s->sent = 0;
        s->moved_ms = now;
    }
    send_step(s);
}

void rlog_snapshot_sends_receive(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_snapshot_send *s = send_of(r, from);
    uint64_t now = rlog_now(r);
    if (s == NULL || s->phase != SEND_SENDING || s->transfer != f->chunk_reply.transfer)
        return;
    s->heard_ms = now;
    switch (f->chunk_reply.state) {
    case RLOG_CHUNK_MORE: send_progress(s, f->chunk_reply.offset, now); return;
    case RLOG_CHUNK_REFUSED:
        s->not_before_ms = now + PAUSE_MS;
        trace(TRACE_WARN, "raft", "%016llx refused snapshot %llu", (unsigned long long)from,
              (unsigned long long)s->index);
        send_close(s);
        return;
    case RLOG_CHUNK_DONE: send_close(s); return;
    }
}

bool rlog_snapshot_sends_idle(const struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++)
        if (r->sends[i].phase != SEND_FREE)
            return false;
    return true;
}

/* The oldest snapshot that a follower is getting: the follower needs the entries behind that
 * snapshot next. */
uint64_t rlog_snapshot_sends_oldest(const struct rlog *r)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++)
        if (r->sends[i].phase == SEND_SENDING && r->sends[i].acked > 0)
            oldest = MIN(oldest, r->sends[i].index);
    return oldest;
}

void rlog_snapshot_sends_close(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SNAPSHOT_SENDS_MAX; i++) {
        r->sends[i].wanted = false;
        send_close(&r->sends[i]);
    }
}
