/* Peer unseal, the side of the sealed node: after a start this node asks the active node for the
 * root key, if its configuration says so. The active node decides
 * (api/members/members_peer_unseal.c). A part (cluster/membership/part.h). Raft thread.
 *
 *   IDLE ─now and then, while sealed by key shares─────▶ ASKING ─key─▶ unsealed
 *     ▲                                                      │
 *     └──────────── refused, no reply, or a wrong key ───────┘
 *
 * 1. A node that an operator sealed since its start does not ask.
 * 2. Each request has a new key pair, which is wiped when the reply came or the request ends. The
 *    root key is in the clear in `struct secret` alone. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_PEER_UNSEAL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_PEER_UNSEAL_H

#include "cluster/membership/part.h"
#include "crypto/box.h"
#include "http/client.h"

/* Functions of src/node/unseal.h. Raft thread. */
struct peer_unseal_seal {
    void *ctx;
    /* Whether this node may ask for the root key now. */
    bool (*wants)(void *ctx);
    /* Unseal with the root key that came. */
    enum status (*open)(void *ctx, const struct secret *root, struct reason *reason);
};

struct peer_unseal {
    struct part_host *host;
    struct peer_unseal_seal seal;
    bool enabled;
    struct http_client *client; /* NULL: none was needed yet */
    struct http_client_request request;
    struct http_header headers[2];
    struct buf body;
    struct box_key key; /* of the request under way */
    bool calling, closing;
    uint64_t asked_ms;  /* monotonic: when this node last asked */
    uint64_t again_ms;  /* time until it asks again; longer after each refusal */
    struct reason said; /* the failure that was last logged, to log it once */
};

extern const struct part peer_unseal_part;

/* The path of the request below "/v1/", and the bytes that the root key is bound to: the cluster
 * and the name of the node that gets it. ST_NOMEM. */
#define PEER_UNSEAL_PATH_BELOW_SYS "storage/raft/peer-unseal/key"
#define PEER_UNSEAL_PATH "sys/" PEER_UNSEAL_PATH_BELOW_SYS
NODISCARD enum status peer_unseal_context(const char *cluster_id, const char *name,
                                          struct buf *out);

#endif
