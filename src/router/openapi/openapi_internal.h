/* Shared by the files that describe routes. Inside src/router. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_INTERNAL_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_INTERNAL_H

#include "router/openapi/openapi.h"

struct docs_op {
    const char *path; /* template of the path from its '/' on; a listing's template ends in '/' */
    const char *tail; /* the pattern below the API's place, or below the queried path */
    const char *id;   /* id of the API's place, for names of operations */
    const struct route *route;
    const struct route_api *api;
    size_t order; /* number of the row in its table */
    bool
        shadowed; /* in a document by another one of the same path: a listing of the queried path */
};

struct docs {
    struct req *req;
    const struct dialect *dialect; /* of the APIs that are described */
    struct arena *arena;
    const char *server;    /* the URL that the paths are relative to */
    const char *base, *id; /* while rows are added: path and id of their API's place */
    struct docs_op *ops;
    size_t n, room;
    bool cut; /* there were more operations than the document takes */
};

/* openapi_write.c: the document. */
void openapi_write(const struct docs *d, struct text_writer *w);
/* Name of a row's method in the document: "get" also for a listing. */
const char *openapi_verb(const struct route *route);

/* openapi_help.c: {help, see_also, openapi} as the reply, about `path`. */
NODISCARD enum status openapi_write_help(struct docs *d, const char *path);

#endif
