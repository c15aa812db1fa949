/* Uploads of whole files, kept as large values: configurations of workspaces, files of plans. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_UPLOAD_H
#define HOLDFAST_API_PLATFORM_PLATFORM_UPLOAD_H

#include "router/request/req.h"
#include "state/blob.h"

struct platform_upload {
    struct bytes raw;           /* in the arena */
    char blob[BLOB_ID_LEN + 1]; /* id of the large value */
    int64_t opened_ms;
};

/* Read the uploaded file, as outside step. ST_NOMEM; ST_IO. */
NODISCARD enum status platform_upload_read(struct req *req, struct platform_upload *upload);
/* Stage the next part, as finish step; *ret_done: the transaction completes the large value, and
 * the caller stages what refers to it. Else the step runs again. As blob_put, blob_close. */
NODISCARD enum status platform_upload_turn(struct req *req, struct platform_upload *upload,
                                           bool *ret_done);
/* Longest upload, for route.upload_bytes_max. */
uint64_t platform_upload_max(const struct router_host *host);
/* Refuse an upload while large values take all their room. ST_NO_SPACE with the request's error. */
NODISCARD enum status platform_upload_room(struct req *req);

#endif
