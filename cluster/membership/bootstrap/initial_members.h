/* May an initial member with an empty directory form the cluster, or did it lose its disk?
 *
 * A second bootstrap would be amnesia: the node could vote twice in a term and forget what it
 * acknowledged (PROTOCOL R13). So every initial member draws a nonce once and stores it on disk
 * before it sends it. It forms the cluster only after every other initial member has sent a
 * message, and each is either fresh too or has formed the cluster and recorded this nonce. An
 * initial member that formed the cluster without this nonce proves that this directory is newer
 * than the cluster: the node must join under a new raft id.
 *
 *   fresh ──all fresh, or formed with this nonce──▶ form: record every nonce, then start
 *   fresh ──one formed without this nonce─────────▶ join
 *
 * A plain state machine: bytes in, bytes out. Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_INITIAL_MEMBERS_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_INITIAL_MEMBERS_H

#include "base/buf.h"

enum { INITIAL_MEMBERS_MAX = 16, INITIAL_NAME_MAX = 64, INITIAL_NONCE_BYTES = 16 };

enum initial_verdict { INITIAL_WAIT, INITIAL_FORM, INITIAL_JOIN };

struct initial_member {
    char name[INITIAL_NAME_MAX];
    uint8_t nonce[INITIAL_NONCE_BYTES]; /* nonce as sent or recorded; all zero: unknown */
    bool formed, knows_me, heard;
};

struct initial_members {
    struct initial_member members[INITIAL_MEMBERS_MAX];
    unsigned n, self;
    bool done; /* this node formed the cluster, or joined it: then every nonce is unknown */
};

/* `names` are distinct and shorter than INITIAL_NAME_MAX; `self` is one of them, or n when this
 * node is not an initial member. */
void initial_members_init(struct initial_members *f, const char *const *names, unsigned n,
                          unsigned self, const uint8_t nonce[INITIAL_NONCE_BYTES]);

/* Append the message of this node to the others: whether it is fresh, and the nonces it knows. */
void initial_members_say(const struct initial_members *f, struct buf *out);

/* Take in a message. `name`: the sender as its certificate says; a message of a node that is no
 * initial member changes nothing. `ret_asks`: send a message back, because the sender is fresh and
 * this node is not. No other message is returned: two nodes that have formed the cluster would
 * reply to each other for ever. ST_INVALID: malformed. */
NODISCARD enum status initial_members_hear(struct initial_members *f, const char *name,
                                           struct bytes said, bool *ret_asks);

/* Decide from the messages received so far. */
enum initial_verdict initial_members_verdict(const struct initial_members *f);

/* The record to store once the cluster is formed or joined, and reading it back. ST_CORRUPT. */
void initial_members_save(const struct initial_members *f, struct buf *out);
NODISCARD enum status initial_members_load(struct initial_members *f, struct bytes saved);

#endif
