#include "state/state.h"

static void propose(struct state_log *log, struct rlog_propose *p)
{
    rlog_propose(log->ctx, p);
}

static void confirm(struct state_log *log, struct rlog_read *r)
{
    rlog_read(log->ctx, r);
}

static void ticket_drop(struct state_log *log, uint64_t ticket)
{
    rlog_ticket_drop(log->ctx, ticket);
}

struct state_log state_log_of(struct rlog *rlog, struct env *env)
{
    return (struct state_log){env, rlog_store(rlog), propose, confirm, ticket_drop, rlog};
}
