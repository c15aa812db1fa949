/* Replies to requests that ask for WebSocket. */
#ifndef HOLDFAST_FRONT_FRONT_UPGRADE_H
#define HOLDFAST_FRONT_FRONT_UPGRADE_H

#include "front/front_request.h"

/* Send the reply to a request of a route that upgrades the connection, or to an upgrade in a
 * dialect that has such routes. False: the reply is an ordinary one, still to be sent. */
bool front_upgrade(struct front_request *request, struct router_reply *reply);

/* A request for WebSocket whose first frame has the token (?ws_handshake=true), in a dialect with
 * such routes: read the frame, then serve the request again with the token. False: it is another
 * request, still to be served. */
bool front_greet(struct front_request *request);

#endif
