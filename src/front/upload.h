/* Write a streamed body into a file, a piece at a time.
 *
 *   OPENING ─▶ READING ◀─▶ WRITING ─▶ done
 *
 * The loop reads a piece, the pool writes it; then the loop reads the next piece from the client.
 */
#ifndef HOLDFAST_FRONT_UPLOAD_H
#define HOLDFAST_FRONT_UPLOAD_H

#include "http/http.h"
#include "router/router.h"

/* Embedded by its owner until `done`. Zero-initialise; set the members down to `done`. */
struct upload {
    struct env *env;
    struct http_request *req; /* the request whose body streams */
    struct router_host *host;
    /* Once, on the loop. ST_OK: `file` has `bytes`; the callee closes the file. ST_CLOSED,
     * ST_TIMEOUT, ST_TOO_BIG, ST_INVALID: of the body. ST_NO_SPACE, ST_IO, ST_NOMEM. */
    void (*done)(struct upload *upload, enum status st);

    struct fs_file *file;
    uint64_t bytes;
    struct env_work work;
    struct buf piece;   /* the piece that is being written */
    enum status status; /* status of the work on the pool */
    bool last;          /* `piece` is the last one */
};
/* Open a file and write the body into it; `done` follows. On the loop. */
void upload_start(struct upload *upload);

#endif
