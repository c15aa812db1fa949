/* Shared by the files that describe routes. Inside src/router. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_INTERNAL_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_INTERNAL_H

#include "router/openapi/openapi.h"

struct docs_op {
    const char *path; /* a template, from its '/' on; a listing's ends in '/' */
    const char *tail; /* the pattern behind where its API stands, or behind the queried path */
    const char *id;   /* of where its API stands, for names of operations */
    const struct route *route;
    const struct route_api *api;
    size_t order; /* of the row in its table */
    bool
        shadowed; /* in a document by another one of the same path: a listing of the queried path */
};

struct docs {
    struct req *req;
    struct arena *arena;
    const char *server;    /* the URL that the paths are relative to */
    const char *base, *id; /* while rows are added: where their API stands */
    struct docs_op *ops;
    size_t n, room;
    bool cut; /* there were more */
};

/* openapi_write.c: the document. */
void openapi_write(const struct docs *d, struct text_writer *w);
/* Name of a row's method in the document: "get" also for a listing. */
const char *openapi_verb(const struct route *route);

/* openapi_help.c: {help, see_also, openapi} as the reply, about `path`. */
NODISCARD enum status openapi_write_help(struct docs *d, const char *path);

#endif
