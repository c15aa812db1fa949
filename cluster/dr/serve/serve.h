/* The primary's side of the link: each connection of a secondary has a thread of its own, on
 * whatever node it came to.
 *
 *   accepted ──▶ HELLO is judged ──refused──▶ REFUSE, end
 *                    │ WELCOME
 *                    ├─ stream: WAL from the ring of this node, checkpoints   (serve_stream.c)
 *                    ├─ sync: the state at a pin, from a file                 (serve_sync.c)
 *                    ├─ difference sync: what differs from the state at a pin    (serve_diff.c)
 *                    └─ heartbeat: PING, PONG                                 (serve_pulse.c)
 *
 * 1. A session reads the state and the ring, and never writes. So a standby serves as well as the
 *    active node.
 * 2. Every DR_JUDGE_MS a session judges its secondary anew: a revoked secondary, a cluster that is
 *    a primary no more, and a sealed node end it.
 * 3. The node never waits for a session: it cancels them when it stops, and reaps them when they
 *    have ended. */
#ifndef HOLDFAST_CLUSTER_DR_SERVE_SERVE_H
#define HOLDFAST_CLUSTER_DR_SERVE_SERVE_H

#include "cluster/mesh/mesh.h"

struct dr;

enum {
    DR_SESSIONS_MAX = 96, /* connections at a time: each secondary has a few to each node */
    DR_JUDGE_MS = 500,
    DR_HELLO_MS = 10000,
    DR_SEND_MS = 30000, /* a secondary that reads nothing for so long is cut */
};

/* Take over a connection whose handshake is over. Raft thread. */
void dr_serve_accept(struct dr *dr, struct mesh_http *connection);
/* Join the threads of sessions that have ended. Raft thread. */
void dr_serve_reap(struct dr *dr);
/* Ask every session to end. Raft thread. */
void dr_serve_cancel(struct dr *dr);
/* Whether no session is left. */
bool dr_serve_rests(const struct dr *dr);

#endif
