/* A leader's newest snapshot on its way to a follower: read from the file piece by piece on
 * LANE_BULK and sent as chunks, a bounded number ahead of what the follower says it has.
 *
 *   FREE -> OPENING -> SENDING -> CLOSING -> FREE
 *
 * The core repeats its wish while a transfer runs; that is ignored. Lost chunks are sent again from
 * where the follower stands; a follower that began anew makes the transfer begin anew. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

enum {
    WINDOW = 4 * RLOG_CHUNK_MAX,
    RESEND_MS = 500,
    STALLED_MS = 15000, /* no answer: give up; the core asks again */
    PAUSE_MS = 2000,    /* before another transfer to a follower that refused */
};

static void ship_step(struct rlog_ship *s);

static struct rlog_ship *ship_of(struct rlog *r, uint64_t to)
{
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++)
        if (r->ships[i].to == to && (r->ships[i].phase != SHIP_FREE || r->ships[i].wanted))
            return &r->ships[i];
    return NULL;
}

void rlog_ship_wanted(struct rlog *r, uint64_t to)
{
    struct rlog_ship *unused = NULL;
    if (ship_of(r, to) != NULL)
        return;
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++) {
        struct rlog_ship *s = &r->ships[i];
        if (s->to == to && rlog_now(r) < s->not_before_ms)
            return;
        if (s->phase == SHIP_FREE && !s->wanted && unused == NULL)
            unused = s;
    }
    if (unused != NULL) {
        unused->to = to;
        unused->wanted = true;
    }
}

static void ship_run(struct env_work *work)
{
    struct rlog_ship *s = CONTAINER_OF(work, struct rlog_ship, work);
    struct rlog_snapshot_meta meta;
    switch (s->phase) {
    case SHIP_OPENING:
        s->status = rlog_snap_open(s->rlog->disk, s->index, s->term, &s->reader, &meta);
        s->size = s->status == ST_OK ? meta.bytes : 0;
        return;
    case SHIP_SENDING:
        s->status = rlog_snap_read_raw(s->reader, s->buffer, RLOG_CHUNK_MAX, s->sent, &s->got);
        return;
    case SHIP_CLOSING: rlog_snap_close(s->reader); return;
    case SHIP_FREE: break;
    }
    ASSERT(false);
}

static void ship_done(struct env_work *work)
{
    struct rlog_ship *s = CONTAINER_OF(work, struct rlog_ship, work);
    struct rlog *r = s->rlog;
    rlog_enter(r);
    s->working = false;
    ship_step(s);
    rlog_leave(r);
}

static void ship_work(struct rlog_ship *s)
{
    ASSERT(!s->working);
    s->working = true;
    s->work = (struct env_work){.run = ship_run, .done = ship_done, .lane = LANE_BULK};
    env_work(s->rlog->env, &s->work);
}

static void ship_free(struct rlog_ship *s)
{
    env_timer_stop(s->rlog->env, &s->timer);
    mem_free(s->buffer);
    s->buffer = NULL;
    s->reader = NULL;
    s->phase = SHIP_FREE;
}

static void ship_close(struct rlog_ship *s)
{
    if (s->phase == SHIP_FREE || s->phase == SHIP_CLOSING)
        return;
    s->ending = true;
    if (!s->working)
        ship_step(s);
}

static void chunk_send(struct rlog_ship *s)
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
    rlog_send_frame(r, s->to, &frame, true);
    s->sent += s->got;
}

static void ship_sending(struct rlog_ship *s)
{
    if (s->reading) {
        s->reading = false;
        if (s->status != ST_OK || s->got == 0) {
            trace(TRACE_ERROR, "raft", "reading snapshot %llu: %s", (unsigned long long)s->index,
                  status_text(s->status));
            ship_close(s);
            return;
        }
        if (s->again) { /* the follower stands elsewhere by now */
            s->again = false;
            s->sent = s->acked;
        } else {
            chunk_send(s);
        }
    }
    if (s->sent < s->size && s->sent - s->acked < WINDOW) {
        s->reading = true;
        ship_work(s);
    }
}

static void ship_step(struct rlog_ship *s)
{
    struct rlog *r = s->rlog;
    if (s->working)
        return;
    if (s->phase == SHIP_CLOSING) {
        ship_free(s);
        return;
    }
    if (s->phase == SHIP_OPENING && s->status != ST_OK) {
        trace(TRACE_ERROR, "raft", "opening snapshot %llu: %s", (unsigned long long)s->index,
              status_text(s->status));
        ship_free(s);
        return;
    }
    if (s->ending || r->failed || r->closing || !rlog_core_leads(&r->core)) {
        s->phase = SHIP_CLOSING;
        ship_work(s);
        return;
    }
    s->phase = SHIP_SENDING;
    ship_sending(s);
}

/* The last chunk is sent again while the follower verifies and installs: its answer keeps the
 * transfer alive and says when it is done. */
static void on_timer(struct env_timer *timer)
{
    struct rlog_ship *s = CONTAINER_OF(timer, struct rlog_ship, timer);
    struct rlog *r = s->rlog;
    uint64_t now = rlog_now(r);
    rlog_enter(r);
    env_timer_set(r->env, &s->timer, now + RESEND_MS);
    bool overtaken =
        s->index < r->core.snap.index && (s->acked == 0 || s->index + 1 < r->core.log.first);
    if (now - s->heard_ms >= STALLED_MS || overtaken || !rlog_core_leads(&r->core) ||
        rlog_conf_find(&r->core.conf, s->to) == NULL) {
        ship_close(s);
    } else if (s->phase == SHIP_SENDING && now - s->moved_ms >= RESEND_MS) {
        s->moved_ms = now;
        uint64_t tail = s->size > RLOG_CHUNK_MAX ? s->size - RLOG_CHUNK_MAX : 0;
        s->acked = s->acked == s->size ? tail : s->acked;
        s->again = s->working;
        if (!s->working)
            s->sent = s->acked;
        ship_step(s);
    }
    rlog_leave(r);
}

static void ship_begin(struct rlog *r, struct rlog_ship *s)
{
    uint64_t now = rlog_now(r);
    s->wanted = false;
    if (r->core.snap.index == 0 || rlog_conf_find(&r->core.conf, s->to) == NULL)
        return;
    uint8_t *buffer = mem_alloc(RLOG_CHUNK_MAX);
    if (buffer == NULL)
        return;
    *s = (struct rlog_ship){.rlog = r,
                            .to = s->to,
                            .phase = SHIP_OPENING,
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
    ship_work(s);
}

void rlog_ships_pump(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++)
        if (r->ships[i].wanted && r->ships[i].phase == SHIP_FREE) {
            if (rlog_core_leads(&r->core))
                ship_begin(r, &r->ships[i]);
            else
                r->ships[i].wanted = false;
        }
}

static void ship_progress(struct rlog_ship *s, uint64_t offset, uint64_t now)
{
    if (offset > s->size)
        return;
    if (offset > s->acked) {
        s->acked = offset;
        s->moved_ms = now;
        s->sent = MAX(s->sent, offset);
    } else if (offset == 0 && s->acked > 0) { /* the follower began anew */
        s->acked = 0;
        s->again = s->working;
        if (!s->working)
            s->sent = 0;
        s->moved_ms = now;
    }
    ship_step(s);
}

void rlog_ships_receive(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_ship *s = ship_of(r, from);
    uint64_t now = rlog_now(r);
    if (s == NULL || s->phase != SHIP_SENDING || s->transfer != f->chunk_answer.transfer)
        return;
    s->heard_ms = now;
    switch (f->chunk_answer.state) {
    case RLOG_CHUNK_MORE: ship_progress(s, f->chunk_answer.offset, now); return;
    case RLOG_CHUNK_REFUSED:
        s->not_before_ms = now + PAUSE_MS;
        trace(TRACE_WARN, "raft", "%016llx refused snapshot %llu", (unsigned long long)from,
              (unsigned long long)s->index);
        ship_close(s);
        return;
    case RLOG_CHUNK_DONE: ship_close(s); return;
    }
}

bool rlog_ships_idle(const struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++)
        if (r->ships[i].phase != SHIP_FREE)
            return false;
    return true;
}

/* The oldest snapshot that a follower is getting: it needs the entries behind it next. */
uint64_t rlog_ships_oldest(const struct rlog *r)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++)
        if (r->ships[i].phase == SHIP_SENDING && r->ships[i].acked > 0)
            oldest = MIN(oldest, r->ships[i].index);
    return oldest;
}

void rlog_ships_close(struct rlog *r)
{
    for (unsigned i = 0; i < RLOG_SHIPS_MAX; i++) {
        r->ships[i].wanted = false;
        ship_close(&r->ships[i]);
    }
}
