/* A request's body on its way into a file, a piece at a time.
 *
 *   OPENING ─▶ READING ◀─▶ WRITING ─▶ done
 *
 * The loop takes a piece, the pool writes it; the next one is read from the client only then. */
#ifndef HOLDFAST_FRONT_UPLOAD_H
#define HOLDFAST_FRONT_UPLOAD_H

#include "http/http.h"
#include "router/router.h"

/* Embedded until `done`; zero-initialise, set the first part. */
struct upload {
    struct env *env;
    struct http_request *req; /* the request whose body streams */
    struct router_host *host;
    /* Once, on the loop. ST_OK: `file`, the callee's to close, has `bytes`. ST_CLOSED, ST_TIMEOUT,
     * ST_TOO_BIG, ST_INVALID: of the body. ST_NO_SPACE, ST_IO, ST_NOMEM. */
    void (*done)(struct upload *upload, enum status st);

    struct fs_file *file;
    uint64_t bytes;
    struct env_work work; /* inside */
    struct buf piece;
    enum status status;
    bool last;
};
void upload_start(struct upload *upload);

#endif
