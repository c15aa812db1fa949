/* May a node with an empty directory found the cluster, or did it lose its disk?
 *
 * Founding a second time would be amnesia: the node could vote twice in a term and forget what it
 * acknowledged (PROTOCOL R13). So every founder draws a nonce once and keeps it on disk before it
 * says it. It founds only when each other founder has answered, and each is either fresh too or
 * has founded and recorded this very nonce. A founder that has founded without knowing the nonce
 * proves that this directory is a later one: the node must join under a new raft id.
 *
 *   fresh ──all fresh, or founded with my nonce──▶ found: record every nonce, then start
 *   fresh ──someone founded without my nonce─────▶ join
 *
 * A plain state machine: bytes in, bytes out. Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_FOUNDING_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_FOUNDING_H

#include "base/buf.h"

enum { FOUNDERS_MAX = 16, FOUNDER_NAME_MAX = 64, FOUNDING_NONCE_BYTES = 16 };

enum founding_verdict { FOUNDING_WAIT, FOUNDING_FOUND, FOUNDING_JOIN };

struct founder {
    char name[FOUNDER_NAME_MAX];
    uint8_t nonce[FOUNDING_NONCE_BYTES]; /* announced by it, or recorded of it; all zero: unknown */
    bool founded, knows_me, heard;
};

struct founding {
    struct founder founders[FOUNDERS_MAX];
    unsigned n, self;
    bool done; /* this node has founded, or joined (then it knows no nonce) */
};

/* `names` are distinct and shorter than FOUNDER_NAME_MAX; `self` is one of them, or n when this
 * node is not a founder. */
void founding_init(struct founding *f, const char *const *names, unsigned n, unsigned self,
                   const uint8_t nonce[FOUNDING_NONCE_BYTES]);

/* Append the message of this node to the others: whether it is fresh, and the nonces it knows. */
void founding_say(const struct founding *f, struct buf *out);

/* Take in a message of `name`, as its certificate says. Others than founders are ignored.
 * `ret_asks`: it is fresh and we are not, so it waits for our word. Only then is one due: two that
 * have founded would answer each other for ever. ST_INVALID. */
NODISCARD enum status founding_hear(struct founding *f, const char *name, struct bytes said,
                                    bool *ret_asks);

/* The decision from what was heard so far. */
enum founding_verdict founding_verdict(const struct founding *f);

/* The record to keep once founded (or joined), and reading it back. ST_CORRUPT. */
void founding_save(const struct founding *f, struct buf *out);
NODISCARD enum status founding_load(struct founding *f, struct bytes saved);

#endif
