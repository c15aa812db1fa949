/* Versions of the state of a workspace, between the files that store and show them. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_STATE_H
#define HOLDFAST_API_PLATFORM_PLATFORM_STATE_H

#include "api/platform/platform_content.h"
#include "api/platform/platform_who.h"
#include "state/blob.h"

/* A version on its way into the state: made before its transactions, which store the chunks of its
 * content in turns; the last one makes the version current. */
struct platform_storing {
    struct platform_content content;
    char blob[BLOB_ID_LEN + 1];
    int64_t opened_ms;
    struct platform_object state; /* the version; it may not be stored yet */
    bool is_new;
    bool forced; /* neither serial nor lineage must fit */
};

/* Read the content, on the pool, as outside step. The storing is in req->prepared. ST_REFUSED with
 * the request's error. */
NODISCARD enum status platform_storing_read(struct req *req, struct bytes raw);
/* Stage the next turn, as finish step. *ret_done: the version is stored and current.
 * ST_EXISTS, ST_REFUSED with the request's error. */
NODISCARD enum status platform_storing_turn(struct req *req, bool *ret_done);
/* Whether serial and lineage of a version fit those of the current one. ST_EXISTS. */
NODISCARD enum status platform_storing_check(struct req *req, const struct platform_object *ws,
                                             const struct platform_object *state, bool forced);

#endif
