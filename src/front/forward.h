/* Requests that this node sends on to the active node. struct forward and the functions below it
 * are for front/forward.c and front/stream.c alone. */
#ifndef HOLDFAST_FRONT_FORWARD_H
#define HOLDFAST_FRONT_FORWARD_H

#include "front/relay.h"
#include "http/budget.h"
#include "http/client.h"
#include "router/router.h"

/* The means of one worker to send requests to the active node. */
struct forward;
struct forwarder {
    struct node *node;
    struct http_client *client;  /* client on the worker's thread */
    struct http_client *waits;   /* for requests that may wait on the active node; NULL: `client` */
    struct http_budget *streams; /* bounds the streamed bodies of all workers */
};

/* Send a request to the active node. f->done is called once, never from inside this call; its
 * statuses are those of struct router_forward. On the worker's thread. */
void forward_start(const struct forwarder *forwarder, struct router_forward *f);

/* End a forward that waits on the active node (router_forward.waits): f->done gets ST_CLOSED. */
void forward_end(struct forward *fw);

/* A forwarded request. It lies in the arena of the client's request. */
struct forward {
    struct http_client_request http; /* the request to the active node */
    struct router_forward *f;
    const struct forwarder *forwarder;
    struct http_request *req; /* the request of the client */
    char id[RELAY_ID_TEXT];
    bool over; /* `http` has ended, or was cancelled */

    bool up;          /* the body of the request streams through, counted in `streams` */
    struct ip client; /* address of the client, for which the streamed body is counted */
    bool up_last;     /* the whole body was read from the client */
    struct buf sent;  /* the piece of the body being written to the active node */

    struct reply_stream down; /* the body of the reply; `send` NULL: the reply does not stream */
    bool down_counted;        /* the reply is counted in `streams`, for `reader` */
    struct ip reader;
    bool down_begun;  /* the router wants the reply */
    bool down_last;   /* the last piece of the reply arrived */
    bool down_busy;   /* `piece` is being sent to the client */
    struct buf piece; /* the piece of the reply that is being sent */
};

/* Call f->done with `st`; in front/forward.c. Last touch. */
void forward_finish(struct forward *fw, enum status st);

/* front/stream.c */

/* Count the streamed body of `fw`. ST_BUSY: too many bodies stream, of all clients or of one. */
NODISCARD enum status stream_body_reserve(struct forward *fw);
/* Pass the client's body on piece by piece. Call after http_client_send. */
void stream_body_begin(struct forward *fw);
/* Stop reading the client's body: the request has ended, or has its reply. */
void stream_body_end(struct forward *fw);
/* Whether the request reads only, so that its reply may be refused. */
bool stream_is_read(const struct forward *fw);
/* Count the streamed reply of a read: its connection to the active node is taken until the client
 * has read it. ST_BUSY: too many bodies stream, of all clients or of one. */
NODISCARD enum status stream_reply_reserve(struct forward *fw);
/* The head of the reply has arrived: stream the body of the reply. */
struct reply_stream *stream_reply(struct forward *fw);
/* The request to the active node has ended with `st`, after stream_reply. Perhaps last touch. */
void stream_reply_over(struct forward *fw, enum status st);

#endif
