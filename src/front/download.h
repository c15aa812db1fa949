/* A file as the body of an answer, a piece at a time. Inside src/front. */
#ifndef HOLDFAST_FRONT_DOWNLOAD_H
#define HOLDFAST_FRONT_DOWNLOAD_H

#include "http/http.h"
#include "router/answer.h"

/* Behind http_respond_begin with the file's length: send the file, end the answer, close the file,
 * which is the callee's. Memory comes from the request's arena. */
void download_start(struct http_request *req, struct answer_file file);

#endif
