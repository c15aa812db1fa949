/* Parked requests: a request that waits long for its reply gives its memory back.
 *
 * Arena, body and the buffers of the connection go; the head stays, so that the request can run
 * again. */
#ifndef HOLDFAST_HTTP_PARK_H
#define HOLDFAST_HTTP_PARK_H

#include "http/http.h"

/* Whether the request can be parked: it has no streamed body, and the peer has neither gone nor
 * ended its side. */
NODISCARD bool http_may_park(const struct http_request *req);
/* Park a request that was given to the handler and has no part of its reply yet. Its `user` becomes
 * NULL, its arena and body are released, and nothing limits the time of the reply. `gone` is called
 * as http_on_gone says. */
void http_park(struct http_request *req, void (*gone)(struct http_request *req));
/* The request goes on: `gone` is cancelled, and the listener's request_ms begin anew. */
void http_unpark(struct http_request *req);

#endif
