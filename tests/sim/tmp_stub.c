#include "raft/rlog.h"
__attribute__((weak)) void rlog_ticket_drop(struct rlog *rlog, uint64_t t)
{
    (void)rlog;
    (void)t;
}
