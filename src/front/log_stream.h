/* Lines of the log as the body of a reply, until the client goes or the process stops. Inside
 * src/front. */
#ifndef HOLDFAST_FRONT_LOG_STREAM_H
#define HOLDFAST_FRONT_LOG_STREAM_H

#include "http/http.h"
#include "router/request/reply.h"

/* Send the lines as they come, end the reply, close the follower. Call after http_respond_begin
 * with HTTP_LENGTH_UNKNOWN. The stream owns the follower; its memory comes from the request's
 * arena. */
void log_stream_start(struct http_request *req, struct reply_log log);

#endif
