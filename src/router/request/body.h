/* From bytes to what a handler reads: bodies, queries, and the fields of a route's table. */
#ifndef HOLDFAST_ROUTER_REQUEST_BODY_H
#define HOLDFAST_ROUTER_REQUEST_BODY_H

#include "router/request/req.h"

enum {
    BODY_FREE_MAX = 64 * 1024, /* the longest one parsed for a client without a token */
};

/* The data of a request: an empty body is an empty object, and so is null; a form only where the
 * header says so and the first byte is neither '{' nor '[', because curl names every body a form.
 * Reads and deletions take the query instead, without the parameters that are the router's own.
 * ST_INVALID with a reason; ST_TOO_BIG; ST_NOMEM. Any thread, the arena being free. */
NODISCARD enum status body_parse(struct arena *arena, enum http_method method, struct bytes body,
                                 struct bytes content_type, const struct text_value *query,
                                 const struct text_value **ret_data, struct reason *reason);

/* PATCH takes one type only. ST_INVALID: none or garbled; ST_MEDIA_TYPE: another. */
NODISCARD enum status body_check_patch_type(struct bytes content_type, struct reason *reason);

/* Fill req->body by the route's table from data and captures, which go first; adds warnings about
 * what was replaced or ignored. ST_INVALID with the request's error; ST_NOMEM. */
NODISCARD enum status body_decode(struct req *req);

#endif
