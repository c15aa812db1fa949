/* Links between the nodes of a cluster: one port, TLS 1.3, both sides known by certificates of the
 * cluster's own CA.
 *
 * 1. A frame is given to `receive` only from a peer whose certificate, name, cluster and raft id
 *    agree; the raft id comes from the connection, never from the frame.
 * 2. Frames may be lost (no link, full queue). A small frame may overtake a bulk frame; on one lane
 *    of one link frames stay in order and whole.
 * 3. Every queue is bounded in bytes; a frame that does not fit is dropped whole and counted.
 * 4. Bulk frames use a separate connection, so they never delay small frames.
 * 5. Callbacks come from the loop, never from inside a function of this interface.
 *
 * All functions are called on the env's loop thread, but for mesh_stats and mesh_stats_peers. */
#ifndef HOLDFAST_MESH_MESH_H
#define HOLDFAST_MESH_MESH_H

#include "cluster/mesh/mesh_frame.h"
#include "cluster/mesh/mesh_pki.h"

struct env;
struct mesh;
struct tls_conn;
struct tls_ctx;

enum { MESH_MEMBERS_MAX = 16, MESH_ADDRESS_MAX = 128, MESH_ENDPOINT_MAX = 64 };

struct mesh_member {
    uint64_t id;
    char name[MESH_NAME_MAX];
    /* address of the member's cluster port: host:port, [::1]:port */
    char address[MESH_ADDRESS_MAX];
    /* second address, dialled if `address` does not lead to the node; "": none */
    char other[MESH_ADDRESS_MAX];
    bool any_id; /* dial by name, and accept any raft id. mesh_send finds the link by `id`; frames
                    and `gone` carry the raft id that the peer showed */
};

/* A connection handed to the callee, which owns it: HTTP of a node, or a secondary's. The TLS
 * handshake is over, and `early` holds the bytes after it that were read. `tls` may hold more
 * bytes, still encrypted: read them before waiting for the socket. */
struct mesh_http {
    int fd; /* non-blocking socket that belongs to no loop */
    struct tls_conn *tls;
    struct buf early;
    /* name of the node in the peer's certificate; "": no certificate, or a secondary */
    char peer_name[MESH_NAME_MAX];
    char peer_address[MESH_ENDPOINT_MAX]; /* address of the peer, as "127.0.0.1:4711" */
};
/* Close the connection without using it. */
void mesh_http_drop(struct mesh_http *http);

enum {
    MESH_RESUME_MS = 1000,    /* the kernel's least, and the default election timeout */
    MESH_TCP_RTO_MAX_MS = 44, /* TCP_RTO_MAX_MS of Linux 6.15; older headers lack it */
};

/* Set what a TCP socket of the cluster port needs: no delay, and keepalive. A peer that vanished
 * without closing, or that takes no data, is noticed after `stuck_ms`. After a cut of the network,
 * data flow again within MESH_RESUME_MS, where the kernel can: by default it doubles the time
 * between its tries. 0; -1: errno says why. Any thread. */
int mesh_tune_socket(int fd, unsigned stuck_ms);

struct mesh_events {
    /* A frame arrived; it is borrowed during the call. */
    void (*receive)(void *ctx, uint64_t from, const char *from_name, struct bytes frame);
    /* A peer that was connected refuses connections now: its process has ended. */
    void (*gone)(void *ctx, uint64_t id);
    /* A node with a certificate of the cluster speaks HTTP; the node may be no member. NULL: such
     * connections are refused. */
    void (*http)(void *ctx, struct mesh_http http);
    /* An unauthenticated peer speaks HTTP: `peer_name` is "". NULL: such peers are refused. */
    void (*unauthenticated)(void *ctx, struct mesh_http http);
    /* A secondary cluster speaks holdfast-dr/1. The authority given to mesh_dr_trust signed its
     * certificate, whose only URI begins with the authority's URI and '/'; the rest of `peer_uri`
     * is not checked. `peer_uri` is borrowed during the call. NULL: such connections are refused.
     */
    void (*dr)(void *ctx, struct mesh_http connection, const char *peer_uri);
    /* Whether to refuse the links of the node of this name and raft id because it was removed from
     * the cluster. NULL: no node was removed. */
    bool (*removed)(void *ctx, const char *name, uint64_t id);
    /* The node `name`, known by its certificate, refused our link because this node was removed.
     * May be NULL. */
    void (*refused_as_removed)(void *ctx, const char *name);
    /* Whether the raft id is from before a recovery of the cluster: links of a node that has it are
     * refused with that reason. NULL: no id is. */
    bool (*superseded)(void *ctx, uint64_t id);
    /* The node `name`, known by its certificate, refused our link because our raft id is from
     * before a recovery of the cluster. May be NULL. */
    void (*refused_as_superseded)(void *ctx, const char *name);
    /* Whether a node of this name may use this raft id: a member has both, or no member has the id.
     * NULL: always. */
    bool (*id_allowed)(void *ctx, uint64_t id, const char *name);
    /* The feature level of the cluster; a peer that understands less is refused. NULL: any level.
     */
    uint16_t (*feature)(void *ctx);
    void *ctx;
};

struct mesh_options {
    struct env *env;     /* `env` made by src/loop */
    const char *address; /* address to listen on, host:port; port 0: any */
    const char *ca_path, *cert_path, *key_path;
    uint64_t id;      /* raft id of this node */
    uint16_t feature; /* feature level that this program understands; 0 counts as 1 */
    struct mesh_events events;
    size_t small_queue_bytes; /* bytes queued for each peer outside of bulk; 0: 1 MiB */
    size_t bulk_queue_bytes;  /* bytes of bulk frames queued for each peer; 0: 24 MiB */
    unsigned greeting_ms;     /* limit from TCP connection to accepted hello; 0: 5 s */
};

/* Listen and connect. The certificate at cert_path gives the name and the cluster of this node.
 * Copies the options. Blocks: for start-up only.
 * ST_INVALID, ST_NOT_FOUND, ST_DENIED, ST_IO, ST_NOMEM with a reason. */
NODISCARD enum status mesh_start(const struct mesh_options *options, struct mesh **ret_mesh,
                                 struct reason *reason);
/* Close all links with a TLS goodbye. `closed` is the last call: the mesh is freed. */
void mesh_close(struct mesh *mesh, void (*closed)(void *ctx), void *ctx);

/* Connect to these members except this node, and to no others; at most MESH_MEMBERS_MAX. A link
 * stays open if a member still has the address at which the link was made. */
void mesh_members(struct mesh *mesh, const struct mesh_member *members, unsigned n);

/* Queue one frame of at most MESH_FRAME_MAX bytes; the parts are copied. The frame leaves before
 * the loop waits again, together with all frames queued by then. */
void mesh_send(struct mesh *mesh, uint64_t to, const struct bytes *parts, unsigned n, bool bulk);
/* Whether a link to this peer is up. */
bool mesh_linked(const struct mesh *mesh, uint64_t id);
/* The feature level that the peer at the other end of a link understands; 0: no link is up. */
uint16_t mesh_feature(const struct mesh *mesh, uint64_t id);
/* Send queued messages now. */
void mesh_flush(struct mesh *mesh);

/* The TLS context for HTTP to other nodes: it shows our certificate, trusts nodes of this cluster
 * only, speaks http/1.1. Name the node wanted with mesh_uri in tls_target.uri. Borrowed; any
 * thread. */
struct tls_ctx *mesh_tls_client(struct mesh *mesh);

/* Serve secondary clusters whose certificates this replication authority signed; the URI of its own
 * certificate is holdfast://CLUSTER/dr/SET with our cluster. Replaces an authority given before;
 * empty: refuse secondaries, as at the start. Connections that were not yet handed over count as
 * refused. Reads the files of our certificate. On failure nothing changes. ST_INVALID: no such
 * authority; else as mesh_reload. */
NODISCARD enum status mesh_dr_trust(struct mesh *mesh, struct bytes ca_pem, struct reason *reason);

/* Header of an HTTP request that a node makes for itself. A node that sends on the request of a
 * client removes every header that begins like this one, so no client can set it. */
#define MESH_HEADER_OWN "x-holdfast-own"
/* Read the certificates again, for new connections. The name and the cluster must stay. */
NODISCARD enum status mesh_reload(struct mesh *mesh, struct reason *reason);

/* Cluster and name in our certificate, and the port we listen on. */
const struct mesh_identity *mesh_identity(const struct mesh *mesh);
uint16_t mesh_port(const struct mesh *mesh);

struct mesh_stats {
    uint64_t frames_sent, frames_received, bytes_sent, bytes_received; /* bytes: of payloads */
    uint64_t frames_dropped_full, frames_dropped_unconnected;
    uint64_t links_out, links_in;       /* links that are ready, dialled and accepted */
    uint64_t connects, connects_failed; /* links dialled by this node */
    /* links accepted from other nodes; links refused for any reason */
    uint64_t accepts, accepts_refused;
    uint64_t peers_gone, http_accepted;
    int64_t cert_not_after_s; /* expiry of this node's certificate, seconds since 1970 */
};
/* Read the counters. Any thread. */
void mesh_stats(struct mesh *mesh, struct mesh_stats *ret_stats);

enum { MESH_PEERS_COUNTED_MAX = 32 };
struct mesh_peer_stats {
    char name[MESH_NAME_MAX]; /* name of the peer; "others": all names beyond the first ones */
    uint64_t links;           /* ready links, dialled by either side: four in normal operation */
    uint64_t reconnects;      /* links that this node dialled again after a loss */
    uint64_t connects_failed;
    uint64_t frames_sent, frames_received, frames_dropped;
    uint64_t bytes_sent, bytes_received; /* bytes of payloads */
};
/* Report every peer since the start, at most MESH_PEERS_COUNTED_MAX; returns how many. Any
 * thread. */
unsigned mesh_stats_peers(struct mesh *mesh, struct mesh_peer_stats *ret_peers, unsigned max);

#endif
