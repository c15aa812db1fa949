/* The route tables as an OpenAPI 3.0 document, and as help for people.
 *
 * A path of the document is the place of an API, followed by a pattern of its table. "*path"
 * becomes "{path}", whose value may contain slashes. A listing is a GET of the folder, whose path
 * ends in '/', with list=true. x-holdfast-order holds the order of the rows: the first row that
 * fits a request serves the request. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_H

#include "router/request/req.h"

/* operations above this number are left out; the document says so */
enum { OPENAPI_OPERATIONS_MAX = 8192 };

/* Reply with the whole document of the dialect with the name `api`, without an envelope: fixed
 * paths. For the dialect with mounts also the mounts that the request's token reaches (without a
 * token: the mounts that are listed to everybody). `generic`: instead of the mounts every engine
 * once, with the path of its mount as a parameter. ST_INVALID with the request's error: no dialect
 * with a document has the name. ST_NOMEM, or a failure of the state. */
NODISCARD enum status openapi_reply(struct req *req, const char *api, bool generic);

/* Reply to ?help=1 with the path of the request and the paths below it, relative to the path of the
 * request. ST_NOT_FOUND: no route serves the path. ST_NOMEM. */
NODISCARD enum status openapi_help(struct req *req);

#endif
