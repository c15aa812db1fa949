/* The route tables as an OpenAPI 3.0 document, and as help for people.
 *
 * A path of the document is a pattern of a table behind where its API stands; "*path" becomes
 * "{path}", which here may hold slashes. A listing is a GET of the folder, whose path ends in '/',
 * with list=true. Rows keep their order in x-holdfast-order: of those that fit a request the first
 * one serves it. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_H

#include "router/request/req.h"

/* operations above this number are left out; the document says so */
enum { OPENAPI_OPERATIONS_MAX = 8192 };

/* The whole document as the bare reply: fixed paths, and the mounts that the request's token
 * reaches (without one: those listed to everybody). `generic`: every engine once instead, with its
 * mount's path as a parameter. ST_NOMEM, or a failure of the state. */
NODISCARD enum status openapi_reply(struct req *req, bool generic);

/* The reply to ?help=1: the path of the request and those below it, relative to it. ST_NOT_FOUND:
 * nothing is served there. ST_NOMEM. */
NODISCARD enum status openapi_help(struct req *req);

#endif
