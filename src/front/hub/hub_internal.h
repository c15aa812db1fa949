/* Shared by the files of the hub. */
#ifndef HOLDFAST_FRONT_HUB_HUB_INTERNAL_H
#define HOLDFAST_FRONT_HUB_HUB_INTERNAL_H

#include "base/list.h"
#include "front/hub/hub.h"
#include "text/websocket.h"

#include <pthread.h>

enum peer_kind {
    PEER_SAY,    /* is closed after the output was written */
    PEER_LINK,   /* of a node */
    PEER_CLIENT, /* of a session */
    PEER_NODE,   /* the node's side of a session */
    PEER_GREET,  /* a client whose first message is awaited */
};

struct peer {
    struct list link;
    enum peer_kind kind;
    struct http_taken taken;
    struct buf in;   /* plaintext that waits for the other side, or for the rest of a message */
    struct buf out;  /* plaintext to send */
    struct buf wire; /* bytes for the socket */
    struct websocket *websocket; /* of a link */
    struct peer *other;          /* of a session; NULL: not there yet */
    char node[HUB_ID_LEN + 1], session[HUB_ID_LEN + 1];
    uint64_t due_ms; /* monotonic; 0: none */
    bool dead, ended, fresh;
    hub_greeted *greeted;
    void *ctx;
};

/* A call under way, on the stack of its thread. */
struct hub_wait {
    struct list link;
    uint64_t id;
    struct peer *peer; /* the link; NULL: it has ended */
    bool done;
    int http;
    struct buf body;
};

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t replied;
    struct list peers, waits;
    unsigned n_peers;
    int wake; /* eventfd */
    uint64_t last_id;
    bool begun;
};

/* hub_peer.c: one connection. The lock is held. */
uint64_t hub_now_ms(void);
/* Read what TLS had before the hub got the connection. */
void peer_begin(struct peer *peer);
/* Read what there is, and pass it on. */
void peer_read(struct peer *peer);
void peer_send(struct peer *peer, struct bytes text);
/* Write what the socket takes. */
void peer_flush(struct peer *peer);
size_t peer_pending(const struct peer *peer);
bool peer_wants(const struct peer *peer);
/* Close after the output: the other side of a session too. */
void peer_finish(struct peer *peer);
/* Plaintext of a peer arrived (hub.c). */
void hub_take(struct peer *peer, struct bytes plain);
/* hub_greet.c: a part of the first message arrived. */
void hub_greet_take(struct peer *peer);

extern struct hub hub;

#endif
