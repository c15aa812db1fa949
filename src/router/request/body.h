/* From bytes to what a handler reads: bodies, queries, and the fields of a route's table. */
#ifndef HOLDFAST_ROUTER_REQUEST_BODY_H
#define HOLDFAST_ROUTER_REQUEST_BODY_H

#include "router/request/req.h"

enum {
    BODY_FREE_MAX = 64 * 1024, /* the longest body that is parsed for a client without a token */
};

/* A body as it arrived, and what the parser needs to know of its request. */
struct body_raw {
    enum http_method method;
    struct bytes text, content_type;
    const struct text_value *query;
    const struct route *route;
};

/* Parse the data of a request: an object. An empty body and null give an empty object. A body is a
 * form only if the header says so and the first byte is neither '{' nor '[', because curl calls
 * every body a form. For reads and deletions the data is the query, without the router's own
 * parameters. ST_INVALID with a reason; ST_TOO_BIG; ST_NOMEM. Any thread; no other thread may use
 * the arena meanwhile. */
NODISCARD enum status body_parse(struct arena *arena, const struct body_raw *raw,
                                 const struct text_value **ret_data, struct reason *reason);

/* As body_parse for a method that reads: the query, without the router's own parameters. */
NODISCARD enum status body_query(struct arena *arena, const struct text_value *query,
                                 const struct text_value **ret_data);

/* Check the content type of a PATCH, which takes one type only. ST_INVALID: the type is absent or
 * malformed; ST_MEDIA_TYPE: another type. */
NODISCARD enum status body_check_patch_type(struct bytes content_type, struct reason *reason);

/* Fill req->body by the route's schema. A capture of the path replaces a field of the data. Adds a
 * warning for each field that was replaced or ignored. ST_INVALID with the request's error;
 * ST_NOMEM. */
NODISCARD enum status body_decode(struct req *req);

#endif
