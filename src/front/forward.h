/* Requests that this node sends on to the active node. The second part is shared by front/forward.c
 * and front/stream.c alone. */
#ifndef HOLDFAST_FRONT_FORWARD_H
#define HOLDFAST_FRONT_FORWARD_H

#include "front/relay.h"
#include "http/budget.h"
#include "http/client.h"
#include "router/router.h"

/* How the requests of one worker go on to the active node. */
struct forwarder {
    struct node *node;
    struct http_client *client;  /* of the worker's thread */
    struct http_budget *streams; /* bodies being moved, of all workers */
};

/* Send a request to the active node. f->done is called once, never from inside this call; its
 * statuses are those of struct router_forward. On the worker's thread. */
void forward_start(const struct forwarder *forwarder, struct router_forward *f);

/* Lies in the arena of the client's request. */
struct forward {
    struct http_client_request http; /* to the active node */
    struct router_forward *f;
    const struct forwarder *forwarder;
    struct http_request *req; /* the client's */
    char id[RELAY_ID_TEXT];
    bool over; /* `http` has ended, or was cancelled */

    bool up;          /* the body of the request goes through, … */
    struct ip client; /* … and counts among those of this address */
    bool up_last;     /* all of it was read */
    struct buf sent;  /* the piece being written */

    struct reply_stream down; /* the body of the reply goes through */
    bool down_begun, down_last;
    bool down_busy; /* a piece is being sent */
    struct buf piece;
};

/* front/forward.c: tell the router. Last touch. */
void forward_finish(struct forward *fw, enum status st);

/* front/stream.c */

/* Behind http_client_send: move the client's body as it comes. ST_BUSY: too many are moved, or too
 * many of one client. */
NODISCARD enum status stream_body_reserve(struct forward *fw);
void stream_body_begin(struct forward *fw);
/* The request ends, or has its reply: no more of the body is wanted. */
void stream_body_end(struct forward *fw);
/* The reply's head has come: let its body follow by itself. */
struct reply_stream *stream_reply(struct forward *fw);
/* The request has ended with `st` after stream_reply. Perhaps last touch. */
void stream_reply_over(struct forward *fw, enum status st);

#endif
