/* Frames between replicas: libraft's messages and our own, one a frame.
 *
 *   u8 version 1 · u8 kind · fields (little-endian, fixed width unless said) · payload
 *
 *   1 append          u64 term, previous index, previous term, commit; u32 n;
 *                     n × { varint term · u8 type · varint length }; payloads, one behind the other
 *   2 append result   u64 term, rejected, last index
 *   3 vote            u64 term, candidate, last index, last term; u8 disrupt, pre-vote
 *   4 vote result     u64 term; u8 granted, pre-vote
 *   6 timeout now     u64 term, last index, last term
 *   16 ask            u64 term, round, commit; i64 cluster time    leader: is your term this?
 *   17 reply          u64 term, round; i64 wall clock              yes
 *   18 read           u64 number                                   to the leader: a read index?
 *   19 read index     u64 number, term, index; i64 cluster time
 *   20 chunk          u64 term, transfer, snapshot index, snapshot term, size, offset; bytes
 *   21 chunk reply    u64 transfer, offset; u8 state               what the receiver has
 *   22 commit         u64 term, commit                             leader: so much is committed
 *
 * A frame that is not exactly of this form is refused as a whole. The sender's id is never in a
 * frame: the transport authenticated it. Golden frames: tests/unit/raft/test_wire.c. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_WIRE_H
#define HOLDFAST_RAFT_REPLICA_RLOG_WIRE_H

#include "base/buf.h"
#include "raft/core/rlog_core.h"
#include "raft/txn/rlog_txn.h"

enum {
    RLOG_WIRE_VERSION = 1,
    RLOG_CHUNK_MAX = 256 * 1024,
};

enum rlog_frame_kind {
    RLOG_FRAME_CORE = 0, /* a message of libraft; `core` holds it */
    RLOG_FRAME_ASK = 16,
    RLOG_FRAME_REPLY = 17,
    RLOG_FRAME_READ = 18,
    RLOG_FRAME_READ_INDEX = 19,
    RLOG_FRAME_CHUNK = 20,
    RLOG_FRAME_CHUNK_REPLY = 21,
    RLOG_FRAME_COMMIT = 22,
};

enum rlog_chunk_state {
    RLOG_CHUNK_MORE,   /* send the snapshot from `offset` on */
    RLOG_CHUNK_DONE,   /* the whole snapshot arrived, or it is not needed */
    RLOG_CHUNK_REFUSED /* the snapshot does not verify or cannot be stored: begin again later */
};

struct rlog_frame {
    enum rlog_frame_kind kind;
    union {
        struct rlog_message core;
        struct {
            uint64_t term, round, commit;
            int64_t time_ms; /* in a request: cluster time; in a reply: the voter's wall clock */
        } ask;
        struct {
            uint64_t number, term, index;
            int64_t time_ms;
        } read;
        struct {
            uint64_t term, transfer, index, snap_term, size, offset;
            struct bytes data; /* bytes of the chunk, borrowed from the frame */
        } chunk;
        struct {
            uint64_t transfer, offset;
            enum rlog_chunk_state state;
        } chunk_reply;
    };
    struct rlog_entry *entries; /* memory for core.entries; one block holds all entries */
};

/* ST_INVALID: not a frame of ours. ST_NOMEM. On success rlog_frame_done releases. */
NODISCARD enum status rlog_wire_decode(struct bytes bytes, struct rlog_frame *ret_frame);
void rlog_frame_done(struct rlog_frame *frame);

/* Append everything but the payload (entries' data, chunk's data), which follows as further parts.
 * Check buf_status. */
void rlog_wire_encode(const struct rlog_frame *frame, struct buf *out);

#endif
