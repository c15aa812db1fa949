/* The sync mode of a DR primary: the reply of a request that committed something waits until a
 * secondary has it (cluster/dr/hold.h). The request does not wait in a transaction, and its writes
 * are visible to other requests meanwhile, as they are on the secondary. */
#include "router/pipeline/pipe_phases.h"

#define CONFIRMED_HEADER "X-Replication-Confirmed"

bool pipe_must_hold(const struct pipe *p)
{
    const struct router_host *host = p->req.host;
    if (p->committed == 0 || (p->once & PIPE_ONCE_HELD) != 0 || p->reply.retry != ST_OK)
        return false;
    return host->node_ops->brief(host->node).dr_sync;
}

static void on_held(struct env_task *task)
{
    pipe_step(CONTAINER_OF(task, struct pipe, hold.task));
}

enum pipe_phase pipe_hold(struct pipe *p)
{
    const struct router_host *host = p->req.host;
    ASSERT(p->committed != 0 && (p->once & PIPE_ONCE_HELD) == 0);
    p->once |= PIPE_ONCE_HELD;
    p->hold =
        (struct dr_hold){.env = p->worker->env, .task = {.run = on_held}, .version = p->committed};
    return host->node_ops->dr_hold(host->node, &p->hold, env_mono_ms(p->worker->env))
               ? PIPE_PENDING
               : pipe_hold_done(p);
}

/* A write that was not confirmed is acknowledged all the same: it is committed here. After another
 * cluster took this one's place, its fate is that other cluster's to tell. */
enum pipe_phase pipe_hold_done(struct pipe *p)
{
    ASSERT(p->phase == PIPE_HOLDING);
    if (p->hold.end == DR_HOLD_SUPERSEDED && p->failure == ST_OK) {
        reason_set(req_reason(&p->req),
                   "the change was made here, but another cluster has taken the place of this one "
                   "before a secondary confirmed the change: it may be lost");
        return pipe_fail(p, ST_UNKNOWN_OUTCOME);
    }
    bool confirmed = p->hold.end == DR_HOLD_CONFIRMED;
    (void)reply_add_header(&p->reply, p->req.arena, BYTES(CONFIRMED_HEADER),
                           confirmed ? BYTES("true") : BYTES("false")); /* no memory: no header */
    return pipe_end(p);
}
