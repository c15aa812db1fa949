/* The keys that differ between two states, found by comparing the hashes of their nodes from the
 * top down. Bytes in and bytes out: the link carries them (WIRE.md), a test plays both sides.
 *
 *   secondary, at a pin of its own state          primary, at a pin of the version that is wanted
 *   dr_diff_ask:  places to open            ────▶ dr_diff_answer
 *   dr_diff_take: compare with the own tree ◀──── nodes: the children of each place, with digests
 *        └─ children that differ are asked next; again until none is left
 *   dr_diff_want: places to fetch           ────▶ dr_diff_parts_add, and rlog_machine_dump_run
 *   dr_diff_got, once for each key          ◀──── the keys there, as content of a snapshot
 *   dr_diff_deleted, dr_diff_newest: what is left to change
 *
 * 1. A digest is of the Merkle hash of the keys below a place, and of the newest version there. So
 *    equal digests mean equal keys and values, and no change since, deletions included. Where two
 *    states have one history, they also mean equal versions: a version below that is newer on one
 *    side would be the newest there.
 * 2. Newest versions are compared from `floor` on, and the secondary raises its own to `floor`. A
 *    sync takes dr_diff_floor: newest versions decide nothing, and none is below the primary's
 *    afterwards (PROTOCOL R8d). A lower floor would not do. After a failover one version can stand
 *    for two changes. And a node that has started from a snapshot has the floor of an earlier sync
 *    in its nodes alone: a key that is put again forgets it there, and the nodes of the secondary
 *    would differ. Key versions of equal values may differ: nothing but the key's own cluster reads
 *    them.
 * 3. The changes are, in this order: put what was fetched, with its newest versions; delete; raise
 *    newest versions. A key that is deleted before its neighbour is put would leave its newest
 *    version to another node than on the primary.
 * 4. What a secondary remembers is bounded; a greater difference is a matter of a whole sync.
 *
 * Not here: transactions, the link, and the proof that the result is equal (follow/). */
#ifndef HOLDFAST_CLUSTER_DR_DIFF_DR_DIFF_H
#define HOLDFAST_CLUSTER_DR_DIFF_DR_DIFF_H

#include "base/buf.h"
#include "raft/txn/rlog_txn.h"

enum {
    DR_DIFF_DIGEST_BYTES = 16,
    DR_DIFF_ASKS_MAX = 1024,              /* places in one question */
    DR_DIFF_PIECE_BYTES = 128 * 1024,     /* an answer is cut into pieces of about this size */
    DR_DIFF_BYTES_MAX = 64 * 1024 * 1024, /* of places that a secondary remembers */
    DR_DIFF_WANTS_MAX = 16 * 1024 * 1024, /* bytes of places that a primary takes */
};

/* The floor of a sync to `version`. */
static inline uint64_t dr_diff_floor(uint64_t version)
{
    return version;
}

/* The primary's side. Any thread. */

/* Answer a question: `send` gets one or more pieces. ST_INVALID: the question is malformed; else
 * statuses of `send`, ST_NOMEM. */
NODISCARD enum status dr_diff_answer(const struct store_pin *pin, uint64_t floor, struct bytes ask,
                                     enum status (*send)(void *ctx, struct bytes nodes), void *ctx);

/* The places that a secondary wants. Zero-initialise. */
struct dr_diff_parts {
    struct buf keys;
    struct rlog_machine_part *parts; /* after dr_diff_parts_end */
    struct buf index;                /* offset, length and form of each */
    size_t n;
};
/* Take a piece of the list. Places ascend, and none lies within another one. ST_INVALID;
 * ST_TOO_BIG; ST_NOMEM. */
NODISCARD enum status dr_diff_parts_add(struct dr_diff_parts *parts, struct bytes want);
/* The list is complete. ST_NOMEM. */
NODISCARD enum status dr_diff_parts_end(struct dr_diff_parts *parts);
void dr_diff_parts_done(struct dr_diff_parts *parts);

/* The secondary's side: one thread. */
struct dr_diff;

struct dr_diff_counts {
    uint64_t opened;   /* nodes that were compared child by child */
    uint64_t wanted;   /* places to fetch */
    uint64_t fetched;  /* keys that came */
    uint64_t replaced; /* keys whose value was another one here */
    uint64_t deleted;  /* keys that only this side has */
};

struct dr_diff_input {
    const struct store_pin *pin; /* borrowed until dr_diff_free */
    uint64_t version, floor;     /* of the primary; floor ≤ version */
    /* Called for each key of this side that goes: deleted, or replaced by another value. */
    void (*goes)(void *ctx, const struct store_item *item);
    void *ctx;
};
/* ST_NOMEM. */
NODISCARD enum status dr_diff_new(const struct dr_diff_input *in, struct dr_diff **ret_diff);
void dr_diff_free(struct dr_diff *diff); /* NULL is allowed */

/* Append the next question. False: nothing is left to ask. No answer is awaited then. */
NODISCARD bool dr_diff_ask(struct dr_diff *diff, struct buf *out);
/* Whether the answer to the last question is not complete. */
bool dr_diff_waits(const struct dr_diff *diff);
/* Take a piece of the answer. ST_INVALID: malformed, or not an answer to the question. ST_TOO_BIG:
 * the states differ in too much. ST_NOMEM. */
NODISCARD enum status dr_diff_take(struct dr_diff *diff, struct bytes nodes);
/* Append the next piece of the places to fetch. After the last question. *ret_last: it is the last
 * one. ST_NOMEM. */
NODISCARD enum status dr_diff_want(struct dr_diff *diff, struct buf *out, bool *ret_last);
/* A key was fetched; keys ascend. False: it was not asked for. */
NODISCARD bool dr_diff_got(struct dr_diff *diff, const struct store_item *item);
/* Every key was fetched. ST_TOO_BIG, ST_NOMEM. */
NODISCARD enum status dr_diff_end(struct dr_diff *diff);

/* After the end: the next key to delete, and the next newest version to raise. False: no more.
 * Borrowed until dr_diff_free. */
NODISCARD bool dr_diff_deleted(struct dr_diff *diff, struct bytes *ret_key);
NODISCARD bool dr_diff_newest(struct dr_diff *diff, struct bytes *ret_at, uint64_t *ret_version);
const struct dr_diff_counts *dr_diff_counts(const struct dr_diff *diff);

#endif
