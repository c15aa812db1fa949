/* Planted bugs: each switches one protection off, so that the simulator, or clients of real nodes
 * (jepsen/), can prove that they notice the missing protection. planted() is `false` at compile
 * time unless the build defines HOLDFAST_PLANT. */
#ifndef HOLDFAST_BASE_PLANT_H
#define HOLDFAST_BASE_PLANT_H

#include "base/macros.h"

#include <assert.h>

/* Name, and how the program misbehaves. F1–F12 switch off the guard against a fault of libraft; the
 * other names are rules of PROTOCOL.md. The simulator must find each of these. */
#define PLANT_TABLE(X)                                                                          \
    X(F1_SPLIT, "a received CHANGE is not fed as the first entry of its event")                 \
    X(F2_SOLE_VOTER, "a sole voter leads without entering a fresh term")                        \
    X(F3_CHANGE_READY, "a CHANGE is submitted before the term's first commit")                  \
    X(F4_STALE_REPLY, "the answer to an older term's request is sent as the core left it")      \
    X(F5_REJECT, "late rejections reach the core")                                              \
    X(F6_PREVOTE_TERM, "a denied pre-vote repeats the asker's term")                            \
    X(F7_TRIM, "entries below the snapshot are fed")                                            \
    X(F8_COMMIT, "the commit index may go back")                                                \
    X(F9_VOTE_STATE, "vote results are fed whatever the state")                                 \
    X(F10_VOTE_ROLE, "a server its own log calls non-voter does not vote")                      \
    X(F11_TIMER, "the timer may fire for ever at one instant")                                  \
    X(F12_VOTE_TAKEN, "a server hears that it loses its vote before that is settled")           \
    X(R2_UNCONFIRMED_ERROR, "answers that staged nothing are not confirmed")                    \
    X(R10_PERSISTED, "writes that a truncation replaced are reported as persisted")             \
    X(R12_SYNC_IGNORED, "a failed sync is taken for a success")                                 \
    X(R13_AMNESIA, "a corrupt log is cut and the node votes")                                   \
    X(R14_NO_DEDUP, "a repeated request id is applied again")                                   \
    X(R15_NO_ROUND, "a read is served without asking a majority")                               \
    X(R15_NOT_READY, "a new leader serves reads before its first commit")                       \
    X(R15_ROUND_REUSED, "a read joins a round that began before it")                            \
    X(R15_ANYBODY, "members without a vote count among those who confirm a read")               \
    X(R16_OWN_CLOCK, "a new cluster's time begins at its leader's clock")                       \
    X(R1_NO_PRECONDITION, "preconditions are not checked at apply")                             \
    X(R1_CAS_OLD_ROOT, "what is written is not needed to be as it was read")                    \
    X(R3_REVOKED_ELSEWHERE, "a token that was decrypted once is believed for ever")             \
    X(R3_OLD_VIEW, "a token that one state held is taken to be in every later one")             \
    X(R3_USE_UNCOMMITTED, "the use of a token is counted in the answer alone")                  \
    X(R3_ANCESTORS, "a token is good whatever became of those it comes from")                   \
    X(R3_POLICY_ELSEWHERE, "policies that were compiled once are believed for ever")            \
    X(REKEY_BLIND, "a new root key takes no heed of what was stored meanwhile")                 \
    X(MIGRATE_HALF, "another seal wraps the root key, the recovery key is forgotten")           \
    X(BATCH_WITHOUT_PARENT, "a batch token is good whatever became of its parent")              \
    X(REGISTRY_KEPT, "a policy of the registry that was deleted loses its name alone")          \
    X(UNWRAP_KEPT, "a wrapping token is good after its reply was taken")                        \
    X(R16_TOKEN_CLOCK, "a node's own clock says whether a token has expired")                   \
    X(ACK_BEFORE_COMMIT, "a write is acknowledged when it is proposed")                         \
    X(VOTE_NOT_PERSISTED, "term and vote are sent before they are durable")                     \
    X(SNAPSHOT_SHORT, "a snapshot leaves out its last key")                                     \
    X(TRANSFER_EARLY, "leadership is handed to a server that lacks entries")                    \
    X(STAGE_FORGOTTEN, "a snapshot is created while a staged tree is open")                     \
    X(STAGE_SHARED, "a staged tree is anybody's")                                               \
    X(STATE_UNBOUNDED, "a full state takes puts")                                               \
    X(LIES, "messages that a correct peer never sends are fed")                                 \
    X(LATER_FORMAT, "entries of a later feature level are taken")                               \
    X(LEVEL_EARLY, "the feature level rises before members without a vote understand it")       \
    X(COUNT_DRIFT, "the delete of a prefix does not lower the counts of keys above it")         \
    X(FORMER_KEPT, "a thing that ends leaves its entry in the form of the level before")        \
    X(AUDIT_AFTER, "the request is recorded after its change, with the reply")                  \
    X(AUDIT_TWICE, "a read that another node than the active one runs is recorded twice")       \
    X(LEASE_WITHOUT_TOKEN, "a lease is good whatever became of its token")                      \
    X(LEASE_OWN_CLOCK, "a node's own clock says whether a lease has expired")                   \
    X(MARK_LATER, "a mark ends leases that were issued after the mark")                         \
    X(MARK_SHORT, "a mark is dropped after a part of its work")                                 \
    X(WATCH_INDEX, "a watch overlooks the version behind the one that was read")                \
    X(WATCH_DROPPED, "a change between a read and its watch wakes no watcher")                  \
    X(WATCH_STALE, "a confirmed read is served without a confirmation")                         \
    X(RECOVER_OLD_LOG, "a cluster is recovered from a log that another one outdates")           \
    X(RECOVER_SAME_ID, "a recovered replica keeps its raft id")                                 \
    X(DR_EPOCH, "a DR secondary follows a primary of a lower epoch")                            \
    X(DR_PROMOTE_HALF, "a DR secondary is promoted while it syncs")                             \
    X(DR_OLD_ROOT_KEY, "a secondary keeps its wrap of a superseded root key, and the links go") \
    X(DR_GAP, "a run of the WAL that does not continue the state is applied")                   \
    X(DR_TWICE, "records of the WAL that the state has are applied again")                      \
    X(DR_NEWEST, "deletions that a staged tree tells of are forgotten")                         \
    X(DR_DUTY_RUNS, "duties that write replicated keys run on a DR secondary")

/* Planted bugs of what the simulator does not run: forwarding, sealing, pages, the end of a
 * process. Clients of real nodes must find each of these (jepsen/planted.go). */
#define PLANT_PROCESS_TABLE(X)                                                                   \
    X(STANDBY_STALE, "a standby confirms reads by itself, without the active node")              \
    X(FORWARD_NEW_ID, "each try of a forwarded request gets an id of its own")                   \
    X(UNWRAP_ON_STANDBY, "a standby unwraps by itself, and the wrapping token does not end")     \
    X(WORKER_OLD_POLICY, "a worker reads by the policies that it compiled for an earlier state") \
    X(GAVE_UP_TOO_LATE, "a client hears that nothing was changed while its write commits")       \
    X(SEALED_ANSWERS, "a sealed node hands requests to the active node")                         \
    X(SYNC_SKIPPED, "writes of the log end in the page cache, without a sync")                   \
    X(LIST_SKIPS, "a page leaves out names that begin with the last name of the page before")    \
    X(DRAIN_CUTS, "a node that stops cuts off the requests in progress")                         \
    X(QUOTA_TWICE, "a forwarded request is counted by the active node too")                      \
    X(CACHE_PAST_RESTORE, "a worker reads by the policies that it compiled before a restore")    \
    X(JOIN_TWICE, "a join token that was used is good for another node")                         \
    X(REMOVED_SERVES, "a removal is noted and acknowledged, and the node stays a member")

enum plant {
#define PLANT_ENUM(name, text) PLANT_##name,
    PLANT_TABLE(PLANT_ENUM) PLANTS_SIMULATED,
    PLANT_BEFORE_PROCESS = PLANTS_SIMULATED - 1,
    PLANT_PROCESS_TABLE(PLANT_ENUM)
#undef PLANT_ENUM
        PLANTS
};

#ifdef HOLDFAST_PLANT
/* 1 + the planted bug of this thread, one below PLANTS_SIMULATED; 0: none. */
extern _Thread_local unsigned plant_number;
/* For all threads of a process: those that the environment names in HOLDFAST_PLANT, separated by
 * commas. Read before main; an unknown name ends the process. */
extern bool plant_process[PLANTS];
static inline bool planted(enum plant p)
{
    return plant_number == (unsigned)p + 1 || plant_process[p];
}
#else
static inline bool planted(enum plant p)
{
    (void)p; /* a release has no planted bugs */
    return false;
}
#endif

/* Short name of a planted bug, and a line that describes it. */
const char *plant_name(enum plant p);
const char *plant_text(enum plant p);

#endif
