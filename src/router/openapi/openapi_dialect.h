/* The part of the OpenAPI document that a dialect writes, and the functions that write parts of
 * it. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_DIALECT_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_DIALECT_H

#include "router/table/route.h"
#include "text/json.h"

struct docs_dialect {
    const char *title, *description;
    bool bodiless; /* a success without data has an empty body */
    /* The schema of a reply whose data is `shape` or the route's reply schema. */
    void (*put_envelope)(const struct route *route, const char *shape, struct text_writer *w);
    /* Write the schema of the body that requests for the route have, and return true. NULL, or
     * false: the fields of its row. */
    bool (*put_body)(const struct route *route, struct text_writer *w);
    const char *media_type; /* of bodies and replies; NULL: JSON */
    /* The fields of the query that a request for the route takes besides the fields of its row.
     * NULL: there are none. */
    const struct schema *(*parameters)(const struct route *route);
    /* The right that a row asks for, in the words of a dialect with `authorise`; NULL: none. The
     * function is NULL for other dialects. */
    const char *(*permission)(const struct route *route);
    /* Write the extra members that clients of the dialect look for in an operation. */
    void (*put_marks)(const struct route *route, struct text_writer *w);
    /* Write the member "components". Its responses include Error and NotFound, its security schemes
     * include token and bearer. */
    void (*put_components)(struct text_writer *w);
};

/* An object {"type": …}, {"$ref": …}; the beginning of an object as a member. */
void openapi_put_type(struct text_writer *w, const char *type);
void openapi_put_ref(struct text_writer *w, const char *ref);
void openapi_open_member(struct text_writer *w, const char *name);
/* Write the schema of the reply's data alone. */
void openapi_put_data(const struct route *route, const char *shape, struct text_writer *w);

#endif
