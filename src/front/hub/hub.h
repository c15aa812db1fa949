/* The connections of this server that left HTTP: links of nodes, and sessions.
 *
 *   agent ──link──▶ server ◀──exec── client
 *     └────────session──▶ (bytes pass unchanged between session and exec)
 *
 * One thread of the process, which is started with the first connection, owns them. A link is one
 * WebSocket of text messages, each one JSON object. Server to agent:
 *   {"ID":7,"Call":"signal","Body":{…}}      the agent replies {"ID":7,"HTTP":200,"Body":{…}}
 *   {"Session":"UUID","Body":{…}}            the agent opens a connection for the session
 *
 * 1. Every connection has bounded buffers: nothing is read from a peer while the other one has
 *    HUB_OUT_MAX unread bytes.
 * 2. A call ends once: by its reply, the end of the link, or its deadline.
 * 3. Of two links of one node the newer one counts.
 * 4. Clients that showed no valid token have HUB_STRANGERS_MAX connections together: the oldest
 *    gives way to a new one, so strangers leave room for links and sessions.
 *
 * Not here: rights, and what a call means. */
#ifndef HOLDFAST_FRONT_HUB_HUB_H
#define HOLDFAST_FRONT_HUB_HUB_H

#include "http/upgrade.h"

enum {
    HUB_ID_LEN = 36,            /* length of the UUID of a node or session */
    HUB_OUT_MAX = 256 * 1024,   /* unread output above which the other side is not read */
    HUB_CONNECTIONS_MAX = 4096, /* most connections of the hub */
    HUB_STRANGERS_MAX = 256,    /* connections of clients that greet, or read their refusal */
    HUB_SESSION_WAIT_MS = 10000,
    HUB_SAY_MS = 5000, /* how long a refused client has to read its close frame */
};

/* Send `said`, then close. Takes over `taken`. Any thread. */
void hub_say(struct http_taken *taken, struct bytes said);
/* A node opened its link. */
void hub_link(struct http_taken *taken, struct bytes accept, const char *node);
/* A client opened a session at a node: ask the node for it. `body` is a JSON object. */
void hub_open(struct http_taken *taken, struct bytes accept, const char *node, const char *session,
              struct bytes body);
/* The node opened the connection of a session. */
void hub_join(struct http_taken *taken, struct bytes accept, const char *node, const char *session);
/* Whether the node has a link to this server. Any thread. */
bool hub_has(const char *node);

/* Call the node and wait for its reply, on a thread that may block. ST_NOT_FOUND: the node has no
 * link to this server; ST_CLOSED: the link ended first; ST_TIMEOUT; ST_NOMEM. */
NODISCARD enum status hub_call(const char *node, const char *call, struct bytes body,
                               uint32_t wait_ms, int *ret_http, struct buf *ret_body);

/* Read the first message of a client, {"version":1,"auth_token":…}. `greeted` is called once, on
 * the hub's thread, which it must not keep. ST_OK: the connection is its own, with what follows the
 * message in `early`. Else the client was refused or has gone. */
typedef void hub_greeted(void *ctx, enum status st, struct http_taken *taken, struct bytes token);
void hub_greet(struct http_taken *taken, struct bytes accept, hub_greeted *greeted, void *ctx);

#endif
