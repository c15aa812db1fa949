/* The say of a handler about the steps of its request. A run after a conflict begins anew. */
#ifndef HOLDFAST_ROUTER_REQUEST_REQ_STEPS_H
#define HOLDFAST_ROUTER_REQUEST_REQ_STEPS_H

#include "state/state.h"

struct fs_file;
struct reply_upgrade;
struct req;
struct tail;

enum { REQ_FINISHES_MAX = 4096 }; /* most transactions of `finish` in a request */

struct req_steps {
    bool skip_outside, keeps, again;
    struct state_mark kept; /* with `keeps` */
    /* in `finish`: how many of its transactions were committed before this one */
    unsigned finished;
    bool replied; /* `finish` made the reply */
};

/* Files and followers that a route's `outside` gets and returns. */
struct req_files {
    struct fs_file *upload; /* file with the body of an INPUT_UPLOAD; the router closes it */
    uint64_t upload_bytes;
    /* file that becomes the body of the reply; the router takes and closes it */
    struct fs_file *reply;
    uint64_t reply_bytes;
    const char *reply_type;
    /* follower of the log whose lines become the body of the reply, of the type `reply_type`; the
     * router takes and closes it */
    struct tail *tail;
    /* the connection goes on under this owner after the reply (reply.h); NULL: it does not */
    struct reply_upgrade *upgrade;
};

/* The row has a step outside, but this request needs none: the handler makes the reply, and neither
 * `outside` nor `finish` runs. */
void req_skip_outside(struct req *req);
/* Commit what was staged so far even if the request is refused: locks and counts that must outlive
 * a failure (PROTOCOL R3). A refusal still drops what is staged after this call. */
void req_keep(struct req *req);
/* In `finish`: commit what was staged, then run `finish` again in another transaction, for results
 * that are longer than one transaction may be. REQ_FINISHES_MAX in all. */
void req_finish_again(struct req *req);

#endif
