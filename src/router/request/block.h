/* Blocking requests: a client that has the result of an index waits for a newer result.
 *
 * The handler of a route with INDEX_BLOCKS names the keys and prefixes that decide its result. The
 * index of the result is the newest of their versions. The index of a key or prefix never falls:
 * not over a deletion, another node, another leader or a restore. */
#ifndef HOLDFAST_ROUTER_REQUEST_BLOCK_H
#define HOLDFAST_ROUTER_REQUEST_BLOCK_H

#include "base/bytes.h"
#include "base/status.h"

struct req;

/* How new the state is that a read sees. */
enum req_mode {
    REQ_DEFAULT,    /* confirmed: it has every write that was acknowledged before the read began */
    REQ_CONSISTENT, /* the same; the client named it */
    REQ_STALE,      /* this node's state as it is, even without a leader */
};

/* How long ago, in milliseconds, this node heard the leader; 0: it is the leader. */
uint64_t req_contact_ms(const struct req *req);

struct req_block {
    uint64_t index;   /* index of the result that the client has; 0: the request does not block */
    uint32_t wait_ms; /* longest wait; the router adds up to a sixteenth */
};

/* A key or prefix of the state that decides the request's index. */
struct req_watch {
    struct req_watch *next;
    struct bytes key; /* in the arena */
    bool prefix;      /* every key that begins with `key` */
    bool present;     /* the key exists, or a key begins with the prefix */
};

/* Watch a key that decides the result, and raise req->index to the key's index: the version that
 * last changed the key; if the key is absent, the newest version of its nearest ancestor. `key` is
 * replicated (STATE_SHARED), because local keys have versions of their own. ST_INVALID: `key` is no
 * such key. ST_NOMEM. */
NODISCARD enum status req_watch_key(struct req *req, struct bytes key);
/* Watch every key that begins with `prefix`, and raise req->index to the newest version below the
 * prefix, deletions included. As req_watch_key. */
NODISCARD enum status req_watch_prefix(struct req *req, struct bytes prefix);
/* As req_watch_key, and read the key's value: cheaper than both. ST_NOT_FOUND: the key is absent,
 * and watched. Otherwise as state_get. */
struct state_value;
NODISCARD enum status req_watch_get(struct req *req, struct bytes key,
                                    struct state_value *ret_value);

#endif
