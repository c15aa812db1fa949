/* Shared inside cluster/mesh.
 *
 * mesh ── peers ── two dials each (small, bulk) ── the link being made or in use
 *      └─ links: those of the dials and the accepted ones
 *
 * A link owns its socket and lives until libuv has closed it. Before, mesh_dial_lost clears the
 * pointer of its dial. A call into `events` may close any link and change any peer: look at the
 * phase again afterwards. */
#ifndef HOLDFAST_CLUSTER_MESH_MESH_INTERNAL_H
#define HOLDFAST_CLUSTER_MESH_MESH_INTERNAL_H

#include "base/env.h"
#include "cluster/mesh/mesh.h"
#include "crypto/tls.h"

#include <stdatomic.h>
#include <uv.h>

enum {
    MESH_SCRATCH_BYTES = 64 * 1024,
    MESH_WRITE_BYTES = 192 * 1024, /* most plaintext in one write, below TLS_OUTPUT_MAX */
    MESH_WRITE_PARTS = 64,
    MESH_CONNECT_MS = 2000,
    MESH_UNKNOWN_MAX = 64,    /* most accepted links without an accepted hello */
    MESH_UNKNOWN_MS = 1000,   /* an unknown link this old may be closed to make room */
    MESH_ACCEPTED_MAX = 128,  /* most accepted links with an accepted hello */
    MESH_ACCEPTS_PER_S = 200, /* most handshakes a second: they take time that heartbeats need */
    MESH_ENDPOINTS_MAX = 8,   /* most addresses of one peer */
    MESH_STEADY_MS = 5000,    /* a link that lasts this long was no failure */
    MESH_BRIEF_MAX = 3,       /* links in a row that may be shorter before dials slow down */
    MESH_ROWS_MAX = MESH_PEERS_COUNTED_MAX,
};

static const char *const MESH_ALPN_RAFT = "holdfast-raft/1";
static const char *const MESH_ALPN_HTTP = "http/1.1";
static const char *const MESH_ALPN_DR = "holdfast-dr/1";

/* CONNECTING -> SHAKING -> GREETING -> READY        any -> CLOSING
 *                      \-> LEAVING (HTTP or a secondary: last bytes of the handshake, then handed
 *                          over)
 * An accepted link begins SHAKING. */
enum link_phase {
    LINK_CONNECTING, /* the TCP connection is being opened */
    LINK_SHAKING,    /* the TLS handshake is running */
    LINK_GREETING,   /* waiting for the peer's hello */
    LINK_READY,
    LINK_LEAVING,
    LINK_CLOSING,
};

struct mesh_dial;

struct mesh_peer_row {
    char name[MESH_NAME_MAX];
    _Atomic uint64_t links, reconnects, connects_failed, frames_sent, frames_received,
        frames_dropped, bytes_sent, bytes_received;
    /* The thread of the mesh alone: links of this name that a newer one replaced within
     * MESH_STEADY_MS, in a row; when the last one was replaced, and when that was last logged. */
    unsigned replaced;
    uint64_t replaced_ms, told_ms;
};

struct mesh_link {
    struct mesh *mesh;
    struct list all;   /* link in mesh->links */
    struct list dirty; /* link in mesh->dirty while frames wait for the end of the round */
    /* link in mesh->unknown while the link is accepted and its peer not known */
    struct list unknown;
    enum link_phase phase;
    struct mesh_dial *dial; /* dial that made the link; NULL: accepted, or its dial gave it up */
    uint64_t accepted_ms, ready_ms;
    bool accepted, bulk, writing;
    bool dr;           /* the peer is a secondary cluster */
    uint64_t dr_trust; /* mesh->dr_trust when the link was accepted */
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct buf written; /* ciphertext being written */
    struct tls_conn *tls;
    struct mesh_frames frames;
    struct buf early; /* in LEAVING: plaintext that came after the handshake */
    struct env_timer deadline;
    struct list queue; /* frames to send */
    size_t queue_bytes, head_sent;
    uint64_t peer_id; /* raft id of the peer; 0: not known */
    uint16_t feature; /* feature level that the peer understands; 0: not known */
    char peer_name[MESH_NAME_MAX];
    struct mesh_peer_row *row; /* counters of the peer's name; NULL: name not known */
    char endpoint[MESH_ENDPOINT_MAX];
};

/* Keeps one outgoing link to a peer. At most one of link, resolving, a running `retry`. */
struct mesh_dial {
    struct mesh_peer *peer;
    bool bulk, resolving;
    uint64_t logged; /* hash of the last failure that was logged; 0: none */
    struct mesh_link *link;
    struct env_timer retry;
    unsigned failures;     /* consecutive failed rounds */
    unsigned brief;        /* consecutive links that were lost within MESH_STEADY_MS */
    uint64_t last_loss_ms; /* when a ready link was lost */
    uv_getaddrinfo_t resolve;
    char address[MESH_ADDRESS_MAX]; /* the member's address that `endpoints` were resolved from */
    struct sockaddr_storage endpoints[MESH_ENDPOINTS_MAX];
    unsigned n_endpoints, at;
    bool redial;              /* this round dials only the endpoint of the lost link */
    unsigned tried, refusals; /* endpoints dialled, and endpoints that refused, in this round */
};

struct mesh_peer {
    struct mesh *mesh;
    struct list link; /* link in mesh->peers */
    struct mesh_member member;
    struct mesh_peer_row *row;
    uint64_t answered;         /* raft id in the peer's last hello; member.id unless any_id */
    struct mesh_dial dials[2]; /* dials[true] carries bulk frames */
    bool alive;                /* the peer was connected after the last call of events.gone */
    bool leaving;              /* the peer is freed once no name is being resolved */
};

struct mesh_counters {
    _Atomic uint64_t frames_sent, frames_received, bytes_sent, bytes_received, dropped_full,
        dropped_unconnected, links_out, links_in, connects, connects_failed, accepts,
        accepts_refused, peers_gone, http_accepted;
    _Atomic int64_t cert_not_after_s;
};

static inline void mesh_count(_Atomic uint64_t *counter, uint64_t n)
{
    /* the old value is not needed */
    (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

struct mesh {
    struct env *env;
    struct mesh_events events;
    struct mesh_identity self;
    uint64_t id;
    uint16_t feature;          /* feature level that this program understands */
    size_t queue_bytes_max[2]; /* queue_bytes_max[true] is the bound for bulk frames */
    unsigned greeting_ms;
    char *ca_path, *cert_path, *key_path;
    struct tls_ctx *server_tls, *client_tls;
    struct tls_ctx *dr_tls; /* context for secondary clusters; NULL: they are refused */
    struct buf dr_ca;       /* replication authority of dr_tls, PEM text */
    uint64_t dr_trust;      /* changes with the authority */
    uv_tcp_t listener;
    uv_prepare_t flush;
    uint16_t port;
    struct env_timer accept_later;
    uint64_t accept_tokens, accept_filled_ms;
    struct list links, dirty, unknown, peers;
    unsigned n_unknown, n_accepted;
    unsigned handles; /* open handles and requests of libuv: sockets, flush, names */
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint64_t log_window_ms;
    unsigned log_lines, log_hidden;
    uint8_t cipher[MESH_SCRATCH_BYTES], plain[MESH_SCRATCH_BYTES];
    struct mesh_counters count;
    struct mesh_peer_row rows[MESH_ROWS_MAX];
    _Atomic unsigned n_rows; /* rows in use; the name of a row never changes */
};

/* mesh.c */

/* A libuv handle or request of the mesh has ended. The last of them ends a closing mesh. */
void mesh_handle_gone(struct mesh *mesh);
bool mesh_is_removed(const struct mesh *mesh, const char *name, uint64_t id);
bool mesh_is_superseded(const struct mesh *mesh, uint64_t id);
/* Whether a peer that understands `feature` understands the feature level of the cluster. */
bool mesh_is_recent(const struct mesh *mesh, uint16_t feature);
/* Split "host:port" or "[host]:port". ST_INVALID. */
NODISCARD enum status mesh_address_split(const char *address, char ret_host[MESH_ADDRESS_MAX],
                                         char ret_port[8]);
void mesh_endpoint_text(const struct sockaddr_storage *addr, char ret_text[MESH_ENDPOINT_MAX]);

/* Function in mesh_stats.c: the counters of a name; never NULL. */
struct mesh_peer_row *mesh_peer_row(struct mesh *mesh, const char *name);

/* mesh_link.c */

/* Make a link that is not connected. NULL: out of memory. */
struct mesh_link *mesh_link_new(struct mesh *mesh);
/* The socket is connected: begin TLS. `target` is NULL on accepted links. */
void mesh_link_begin(struct mesh_link *link, const struct tls_target *target);
/* Close and release. Calls only the link's dial; `why` goes to the log. */
void mesh_link_close(struct mesh_link *link, const char *why);
/* Queue a frame. ST_BUSY: no room for it. ST_NOMEM. */
NODISCARD enum status mesh_link_send(struct mesh_link *link, enum mesh_kind kind,
                                     const struct bytes *parts, unsigned n);
/* Write the queued frames, unless a write is running. */
void mesh_link_flush(struct mesh_link *link);
void mesh_link_set_deadline(struct mesh_link *link, uint64_t ms);

/* mesh_greet.c: what happens on a link between the TLS handshake and the first message. */

/* Go on after the TLS handshake. */
void mesh_greet_open(struct mesh_link *link);
/* Handle a frame that came in GREETING. */
void mesh_greet_frame(struct mesh_link *link, const struct mesh_frame *frame);
/* The link is LEAVING and has no byte left to write: hand the connection over. */
void mesh_greet_leave(struct mesh_link *link);

/* mesh_dr.c: connections of secondary clusters. */

/* Go on after the TLS handshake of a secondary. */
void mesh_dr_open(struct mesh_link *link);
/* Hand the connection of a secondary over. */
void mesh_dr_leave(struct mesh_link *link, struct mesh_http http);
/* Read our certificate again, if secondaries are served. Statuses as mesh_reload. */
NODISCARD enum status mesh_dr_reload(struct mesh *mesh, struct reason *reason);
void mesh_dr_done(struct mesh *mesh);

/* mesh_dial.c */

NODISCARD enum status mesh_peer_new(struct mesh *mesh, const struct mesh_member *member);
void mesh_peer_close(struct mesh_peer *peer);
/* Set the addresses of the peer; `member` has the same id, name and any_id. */
void mesh_peer_readdress(struct mesh_peer *peer, const struct mesh_member *member);
struct mesh_peer *mesh_peer_find(struct mesh *mesh, uint64_t id);
/* Note that the peer runs: dial at once instead of after the delay. */
void mesh_peer_heard(struct mesh_peer *peer);
void mesh_peer_dial_soon(struct mesh_peer *peer);
/* raft id that the dial wants; 0: any id of that name */
uint64_t mesh_dial_wanted(const struct mesh_dial *dial);
void mesh_dial_ready(struct mesh_dial *dial);
/* The dial's link is closing. `was_ready`: the link was READY before. */
void mesh_dial_lost(struct mesh_dial *dial, bool was_ready, const char *why);

/* mesh_accept.c */

NODISCARD enum status mesh_listen(struct mesh *mesh, const char *address, struct reason *reason);
void mesh_listen_close(struct mesh *mesh);
/* Whether one more known link fits; an older one of the same peer and lane makes room. */
bool mesh_accept_room(struct mesh_link *link);
/* Take over an accepted link that became ready. */
void mesh_accept_known(struct mesh_link *link);
/* Count and log an accepted link that closes before its hello was accepted. */
void mesh_accept_refused(struct mesh_link *link, const char *why);
/* Log a refused or misbehaving peer, at a bounded rate: a peer must not fill the disk. */
void mesh_log_hostile(const struct mesh_link *link, const char *why);
/* Find a READY link to this raft id; NULL: none. */
struct mesh_link *mesh_link_find(struct mesh *mesh, uint64_t id, bool bulk, bool accepted);

#endif
