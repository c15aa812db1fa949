/* Shared by the files of the core, and private to them. */
#ifndef HOLDFAST_RAFT_CORE_RLOG_CORE_INTERNAL_H
#define HOLDFAST_RAFT_CORE_RLOG_CORE_INTERNAL_H

#include "base/plant.h"
#include "raft/core/rlog_core.h"
#include "raft/txn/rlog_txn.h"

/* Handle one event to the end, then apply all entries that it committed. Returns libraft's code;
 * the core is stopped unless the caller knows the code to be harmless. */
int rlog_core_step(struct rlog_core *c, struct raft_event *event);
/* rlog_core_step for an event that may not fail: any error stops the core. */
void rlog_core_must_step(struct rlog_core *c, struct raft_event *event, const char *what);
void rlog_core_fatal(struct rlog_core *c, enum status why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tell libraft that the CHANGE at `index` of our log is committed. */
void rlog_core_commit_change(struct rlog_core *c, uint64_t index);
/* Count and log a message that a correct peer never sends. */
void rlog_core_alarm(struct rlog_core *c, uint64_t from, const char *what);

/* The configuration in memory that libraft may own. ST_INVALID. */
NODISCARD enum status rlog_core_raft_conf(struct bytes encoded,
                                          struct raft_configuration *ret_conf);

/* rlog_core_receive.c */
void rlog_core_feed(struct rlog_core *c, struct raft_message *m, const struct rlog_entry *entries);

/* rlog_core_send.c */
void rlog_core_send_all(struct rlog_core *c, const struct raft_update *up);

/* rlog_core_vote.c */
int rlog_core_raft_step(struct rlog_core *c, struct raft_event *event, struct raft_update *up);
bool rlog_core_vote_result_wanted(const struct rlog_core *c);
void rlog_core_heard(struct rlog_core *c, const struct raft_message *m);
void rlog_core_timer_update(struct rlog_core *c);

/* rlog_core_check.c */
void rlog_core_check_before(struct rlog_core *c, const struct raft_event *event);
void rlog_core_check_voter(struct rlog_core *c, const struct raft_event *event);
void rlog_core_check_reply(const struct rlog_core *c, const struct raft_message *m);
void rlog_core_check_term(const struct rlog_core *c, uint64_t term, uint64_t vote);
void rlog_core_check_entries(const struct rlog_core *c, const struct raft_update *up);
void rlog_core_check_after(struct rlog_core *c);

#endif
