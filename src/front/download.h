/* A file as the body of a reply, a piece at a time. Inside src/front. */
#ifndef HOLDFAST_FRONT_DOWNLOAD_H
#define HOLDFAST_FRONT_DOWNLOAD_H

#include "http/http.h"
#include "router/request/reply.h"

/* Send the file, end the reply, close the file. Call after http_respond_begin with the file's
 * length. The download owns the file; its memory comes from the request's arena. */
void download_start(struct http_request *req, struct reply_file file);

#endif
