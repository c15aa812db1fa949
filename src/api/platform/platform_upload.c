#include "api/platform/platform_upload.h"
#include "api/platform/platform.h"
#include "base/fs.h"

enum status platform_upload_read(struct req *req, struct platform_upload *upload)
{
    size_t len = (size_t)req->files.upload_bytes, got = 0;
    uint8_t *raw = arena_alloc(req->arena, len + 1);
    if (raw == NULL)
        return ST_NOMEM;
    if (len != 0)
        TRY(fs_read_at(req->files.upload, raw, len, 0, &got));
    if (got != len)
        return ST_IO;
    upload->raw = bytes_of(raw, len);
    blob_id(req->env, upload->blob);
    return ST_OK;
}

/* A file of one chunk is stored in one transaction. Which turn is run depends on the committed ones
 * alone: a run after a conflict does the same. */
enum status platform_upload_turn(struct req *req, struct platform_upload *upload, bool *ret_done)
{
    struct bytes raw = upload->raw;
    bool more, whole = raw.len <= BLOB_CHUNK_BYTES;
    size_t chunks = (raw.len + BLOB_CHUNK_BYTES - 1) / BLOB_CHUNK_BYTES;
    size_t turns = whole ? 0 : (chunks + BLOB_TURN_CHUNKS - 1) / BLOB_TURN_CHUNKS;
    unsigned turn = req->steps.finished;
    if (turn == 0)
        upload->opened_ms = req->now_ms;
    if (turn < turns || whole)
        TRY(blob_put(req->txn, upload->blob, raw, turn, upload->opened_ms, &more));
    *ret_done = turn >= turns;
    if (*ret_done)
        return blob_close(req->txn, upload->blob, raw, upload->opened_ms);
    req_finish_again(req);
    return ST_OK;
}

uint64_t platform_upload_max(const struct router_host *host)
{
    (void)host; /* a limit of its own */
    return platform_config()->blob_bytes_max;
}

enum status platform_upload_room(struct req *req)
{
    return blob_total(req->txn) < platform_config()->blob_bytes_total_max
               ? ST_OK
               : req_fail(req, ST_NO_SPACE,
                          "states and configurations take all the room that the configuration "
                          "of the server gives them");
}
