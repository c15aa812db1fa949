/* Enter and leave, send and fail: what every other file of this folder calls. This file calls none
 * of them. What a turn does is rlog.c's pump, which rlog_start gives to rlog_turn_init.
 *
 *   rlog_enter         depth + 1
 *   rlog_leave         the outermost: pump, then depth - 1; an inner one makes the pump run again
 *   rlog_leave_start   the same, but completions fire from the loop, by rlog_wake
 *   rlog_leave_soon    the outermost: rlog_wake, nothing else */
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

void rlog_enter(struct rlog *r)
{
    r->depth++;
}

void rlog_wake(struct rlog *r)
{
    if (r->woken)
        return;
    r->woken = true;
    env_post(r->env, &r->wake);
}

static void leave(struct rlog *r, bool fire)
{
    ASSERT(r->depth > 0);
    if (r->depth > 1) {
        r->depth--;
        r->again = true;
        return;
    }
    r->pump(r, fire);
    r->depth--;
}

void rlog_leave(struct rlog *r)
{
    leave(r, true);
}

void rlog_leave_start(struct rlog *r)
{
    leave(r, false);
}

void rlog_leave_soon(struct rlog *r)
{
    ASSERT(r->depth > 0);
    if (--r->depth == 0)
        rlog_wake(r);
    else
        r->again = true;
}

static void on_wake(struct env_task *task)
{
    struct rlog *r = CONTAINER_OF(task, struct rlog, wake);
    r->woken = false;
    rlog_enter(r);
    rlog_leave(r);
}

void rlog_turn_init(struct rlog *r, void (*pump)(struct rlog *r, bool fire))
{
    ASSERT(r->depth == 0 && !r->woken);
    r->pump = pump;
    r->wake.run = on_wake;
}

void rlog_fail(struct rlog *r, enum status why, const struct reason *reason)
{
    if (r->failed)
        return;
    r->failed = true;
    r->core.dead = true;
    trace(TRACE_ERROR, "raft", "stopping: %s", reason->text);
    r->options.events.fatal(r->options.events.ctx, why, reason);
}

void rlog_send_frame(struct rlog *r, uint64_t to, const struct rlog_frame *f, bool bulk)
{
    unsigned n = 1;
    ASSERT(r->depth > 0);
    if (r->failed || r->closing)
        return;
    buf_clear(&r->out);
    rlog_wire_encode(f, &r->out);
    if (buf_status(&r->out) != ST_OK)
        return; /* drop the frame: the network may lose any frame */
    r->parts[0] = buf_bytes(&r->out);
    if (f->kind == RLOG_FRAME_CORE && f->core.raft.type == RAFT_APPEND_ENTRIES)
        for (unsigned i = 0; i < f->core.raft.append_entries.n_entries; i++)
            r->parts[n++] = f->core.entries[i].data;
    if (f->kind == RLOG_FRAME_CHUNK)
        r->parts[n++] = f->chunk.data;
    ASSERT(n <= ARRAY_LEN(r->parts));
    r->options.net.send(r->options.net.ctx, to, r->parts, n, bulk);
}
