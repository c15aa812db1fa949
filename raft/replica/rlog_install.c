/* Receives a leader's snapshot and installs it.
 *
 *   IDLE -> RECEIVING -> VERIFYING -> offered to the core -> SETTLING -> INSTALLING
 *        -> OPENING -> LOADING -> IDLE
 *   ABORTING -> IDLE from anywhere up to the offer
 *
 * The core learns of a snapshot only when the whole file has arrived and is verified. From the
 * offer on the core has forgotten its log: nothing is applied or appended until the machine holds
 * the snapshot's state. SETTLING waits for writes that began earlier. Their entries no longer
 * count, but the writes must not reach the log that begins behind the snapshot. A crash before the
 * rename leaves the old state. After a crash between the rename and the reset of the log, the next
 * start reconciles both. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

enum { IDLE_MS = 20000, SETTLE_POLL_MS = 5 };

static void install_step(struct rlog *r);

bool rlog_install_busy(const struct rlog *r)
{
    return r->install.phase >= INSTALL_SETTLING || rlog_core_installing(&r->core);
}

static void chunk_reply_send(struct rlog *r, uint64_t to, uint64_t transfer, uint64_t offset,
                             enum rlog_chunk_state state)
{
    struct rlog_frame frame = {
        .kind = RLOG_FRAME_CHUNK_REPLY,
        .chunk_reply = {.transfer = transfer, .offset = offset, .state = state}};
    rlog_send_frame(r, to, &frame, false);
}

static void install_run(struct env_work *work)
{
    struct rlog_install *in = CONTAINER_OF(work, struct rlog_install, work);
    struct rlog_snapshot_meta meta;
    switch (in->phase) {
    case INSTALL_RECEIVING:
        in->status = ST_OK;
        if (in->writer == NULL)
            in->status = rlog_snap_receive_create(in->disk, &in->writer);
        if (in->status == ST_OK)
            in->status = rlog_snap_receive_write(in->writer, in->writing);
        return;
    case INSTALL_VERIFYING: in->status = rlog_snap_receive_verify(in->writer, &in->meta); return;
    case INSTALL_INSTALLING:
        in->status = rlog_snap_receive_install(in->writer);
        in->writer = NULL;
        return;
    case INSTALL_OPENING:
        in->status = rlog_snap_open(in->disk, in->meta.index, in->meta.term, &in->reader, &meta);
        return;
    case INSTALL_LOADING: in->status = rlog_snap_read(in->reader, &in->content); return;
    case INSTALL_CLOSING:
        rlog_snap_close(in->reader);
        in->reader = NULL;
        return;
    case INSTALL_ABORTING:
        if (in->writer != NULL)
            rlog_snap_abort(in->writer);
        in->writer = NULL;
        return;
    case INSTALL_IDLE:
    case INSTALL_SETTLING: break;
    }
    ASSERT(false);
}

static void install_done(struct env_work *work)
{
    struct rlog *r = CONTAINER_OF(work, struct rlog, install.work);
    rlog_enter(r);
    r->install.working = false;
    install_step(r);
    rlog_leave(r);
}

static void install_work(struct rlog *r, enum rlog_install_phase phase)
{
    struct rlog_install *in = &r->install;
    ASSERT(!in->working);
    in->phase = phase;
    in->working = true;
    in->disk = r->disk;
    in->work = (struct env_work){.run = install_run, .done = install_done, .lane = LANE_BULK};
    env_work(r->env, &in->work);
}

static void queue_clear(struct rlog_install *in)
{
    for (unsigned i = 0; i < in->n_queued; i++)
        mem_free(in->queue[i].copy);
    in->n_queued = 0;
    mem_free(in->writing_copy);
    in->writing_copy = NULL;
}

static void install_abort(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    ASSERT(in->phase == INSTALL_RECEIVING || in->phase == INSTALL_VERIFYING);
    in->ending = true;
    if (!in->working)
        install_step(r);
}

static void write_next(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    struct rlog_chunk_copy next = in->queue[0];
    ASSERT(in->n_queued > 0 && in->n_queued <= ARRAY_LEN(in->queue));
    in->n_queued--;
    memmove(in->queue, in->queue + 1, in->n_queued * sizeof in->queue[0]);
    in->writing_copy = next.copy;
    in->writing = bytes_of(next.copy, next.len);
    install_work(r, INSTALL_RECEIVING);
}

static void step_receiving(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    if (in->writing_copy != NULL) {
        mem_free(in->writing_copy);
        in->writing_copy = NULL;
        if (in->status != ST_OK) {
            trace(TRACE_ERROR, "raft", "receiving snapshot %llu: %s", (unsigned long long)in->index,
                  status_text(in->status));
            chunk_reply_send(r, in->from, in->transfer, 0, RLOG_CHUNK_REFUSED);
            install_abort(r);
            return;
        }
        in->written += in->writing.len;
        ASSERT(in->written <= in->queued);
        chunk_reply_send(r, in->from, in->transfer, in->written, RLOG_CHUNK_MORE);
    }
    if (in->n_queued > 0)
        write_next(r);
    else if (in->written == in->size)
        install_work(r, INSTALL_VERIFYING);
}

/* The snapshot is verified: offer it to the core. A core that wants it calls rlog_install_wanted
 * from inside. */
static void step_verified(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    struct rlog_core_snapshot snap = {.index = in->meta.index, .term = in->meta.term};
    bool good = in->status == ST_OK && in->meta.index == in->index &&
                in->meta.term == in->snap_term && in->meta.conf_len <= RLOG_CONF_MAX;
    ASSERT(in->phase == INSTALL_VERIFYING);
    ASSERT(in->written == in->size);
    if (!good) {
        trace(TRACE_ERROR, "raft", "snapshot %llu of %016llx does not verify: %s",
              (unsigned long long)in->index, (unsigned long long)in->from, status_text(in->status));
        chunk_reply_send(r, in->from, in->transfer, 0, RLOG_CHUNK_REFUSED);
        install_abort(r);
        return;
    }
    snap.conf.index = in->meta.conf_index;
    snap.conf.len = in->meta.conf_len;
    memcpy(snap.conf.bytes, in->meta.conf, in->meta.conf_len);
    if (!rlog_core_offer(&r->core, in->from, in->term, &snap, rlog_now(r))) {
        chunk_reply_send(r, in->from, in->transfer, in->size, RLOG_CHUNK_DONE);
        install_abort(r);
        return;
    }
    ASSERT(rlog_core_installing(&r->core));
    in->phase = INSTALL_SETTLING;
    install_step(r);
}

static void step_settling(struct rlog *r)
{
    if (!rlog_disk_idle(r->disk)) {
        env_timer_set(r->env, &r->install.timer, rlog_now(r) + SETTLE_POLL_MS);
        return;
    }
    install_work(r, INSTALL_INSTALLING);
}

static void install_fatal(struct rlog *r)
{
    struct reason reason;
    reason_set(&reason, "installing snapshot %llu: %s", (unsigned long long)r->install.index,
               status_text(r->install.status));
    rlog_fail(r, r->install.status, &reason);
}

static void step_loading(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    ASSERT(in->phase == INSTALL_LOADING);
    if (in->content.len > 0) {
        in->status = rlog_machine_load_piece(in->load, in->content);
        if (in->status == ST_OK)
            install_work(r, INSTALL_LOADING);
        else
            install_fatal(r);
        return;
    }
    in->status = rlog_machine_load_end(in->load);
    in->load = NULL;
    if (in->status != ST_OK)
        install_fatal(r);
    else
        install_work(r, INSTALL_CLOSING);
}

static void step_closed(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    ASSERT(in->phase == INSTALL_CLOSING);
    ASSERT(in->meta.index == in->index);
    in->phase = INSTALL_IDLE;
    r->snapshots_installed++;
    r->snapshot_time_ms = r->machine.time_ms;
    r->create.bytes = 0;
    rlog_proposals_jumped(r, in->meta.index);
    rlog_core_installed(&r->core, rlog_now(r));
    chunk_reply_send(r, in->from, in->transfer, in->size, RLOG_CHUNK_DONE);
    trace(TRACE_INFO, "raft", "installed snapshot %llu", (unsigned long long)in->meta.index);
}

static void step_begin_loading(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    in->status = rlog_machine_load_begin(&r->machine, &in->load);
    if (in->status == ST_OK)
        install_work(r, INSTALL_LOADING);
    else
        install_fatal(r);
}

static void install_step(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    ASSERT(r->depth > 0);
    if (in->working)
        return;
    if (r->failed || r->closing) {
        queue_clear(in);
        return;
    }
    if (in->ending && in->phase != INSTALL_ABORTING) {
        queue_clear(in);
        install_work(r, INSTALL_ABORTING);
        return;
    }
    if (in->status != ST_OK && in->phase >= INSTALL_INSTALLING) {
        install_fatal(r);
        return;
    }
    switch (in->phase) {
    case INSTALL_IDLE: return;
    case INSTALL_RECEIVING: step_receiving(r); return;
    case INSTALL_VERIFYING: step_verified(r); return;
    case INSTALL_SETTLING: step_settling(r); return;
    case INSTALL_INSTALLING: install_work(r, INSTALL_OPENING); return;
    case INSTALL_OPENING: step_begin_loading(r); return;
    case INSTALL_LOADING: step_loading(r); return;
    case INSTALL_CLOSING: step_closed(r); return;
    case INSTALL_ABORTING:
        in->ending = false;
        in->phase = INSTALL_IDLE;
        return;
    }
}

static void on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, install.timer);
    struct rlog_install *in = &r->install;
    rlog_enter(r);
    if (in->phase == INSTALL_SETTLING)
        install_step(r);
    rlog_leave(r);
}

void rlog_install_init(struct rlog *r)
{
    r->install.timer.fire = on_timer;
}

static void receive_begin(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_install *in = &r->install;
    ASSERT(in->phase == INSTALL_IDLE);
    ASSERT(!in->working);
    ASSERT(in->n_queued == 0);
    in->from = from;
    in->transfer = f->chunk.transfer;
    in->index = f->chunk.index;
    in->snap_term = f->chunk.snap_term;
    in->size = f->chunk.size;
    in->queued = in->written = 0;
    in->ending = false;
    in->status = ST_OK;
    in->phase = INSTALL_RECEIVING;
}

static void receive_chunk(struct rlog *r, const struct rlog_frame *f)
{
    struct rlog_install *in = &r->install;
    struct bytes data = f->chunk.data;
    ASSERT(in->phase == INSTALL_RECEIVING);
    ASSERT(in->written <= in->queued);
    if (f->chunk.size != in->size || f->chunk.offset != in->queued ||
        in->n_queued == ARRAY_LEN(in->queue)) {
        chunk_reply_send(r, in->from, in->transfer, in->written, RLOG_CHUNK_MORE);
        return;
    }
    void *copy = mem_alloc(data.len);
    if (copy == NULL)
        return; /* drop the chunk: the network may lose any chunk */
    memcpy(copy, data.data, data.len);
    in->queue[in->n_queued++] = (struct rlog_chunk_copy){copy, data.len};
    in->queued += data.len;
    if (!in->working)
        install_step(r);
}

void rlog_install_receive(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    struct rlog_install *in = &r->install;
    uint64_t now = rlog_now(r);
    bool same = in->phase != INSTALL_IDLE && in->from == from && in->transfer == f->chunk.transfer;

    if (f->chunk.term < r->core.term || rlog_core_leads(&r->core))
        return;
    if (f->chunk.index <= r->core.commit && !same) {
        chunk_reply_send(r, from, f->chunk.transfer, f->chunk.size, RLOG_CHUNK_DONE);
        return; /* the log has every entry that the snapshot covers */
    }
    if (!same && in->phase != INSTALL_IDLE) {
        bool stale = f->chunk.term > in->term || now - in->heard_ms > IDLE_MS || from == in->from;
        if (stale && (in->phase == INSTALL_RECEIVING || in->phase == INSTALL_VERIFYING) &&
            !in->ending)
            install_abort(r); /* the sender sends again from the start */
        return;
    }
    if (!same) {
        if (f->chunk.offset != 0) {
            chunk_reply_send(r, from, f->chunk.transfer, 0, RLOG_CHUNK_MORE);
            return;
        }
        receive_begin(r, from, f);
    }
    in->term = f->chunk.term;
    in->heard_ms = now;
    if (in->phase == INSTALL_RECEIVING && !in->ending)
        receive_chunk(r, f);
    else
        chunk_reply_send(r, from, in->transfer, in->written, RLOG_CHUNK_MORE);
}

bool rlog_install_idle(const struct rlog *r)
{
    return !r->install.working;
}

/* Free the install; call after rlog_install_idle. */
void rlog_install_done(struct rlog *r)
{
    struct rlog_install *in = &r->install;
    ASSERT(!in->working);
    queue_clear(in);
    if (in->load != NULL) {
        enum status st = rlog_machine_load_end(in->load);
        (void)st; /* the install was cut short, and its store is freed */
    }
    rlog_snap_close(in->reader);
    if (in->writer != NULL)
        rlog_snap_abort(in->writer);
    in->load = NULL;
    in->reader = NULL;
    in->writer = NULL;
    env_timer_stop(r->env, &in->timer);
}
