#include "front/download.h"

#include "base/fs.h"

enum { PIECE_BYTES = 128 * 1024 };

/* READING (pool) ─▶ SENDING ─▶ READING …; the download is the request's `user` until the reply
 * ends. */
struct download {
    struct http_request *req;
    struct reply_file file;
    uint64_t at;
    struct env_work work;
    enum status status;
    size_t n;
    uint8_t piece[PIECE_BYTES];
};

static void read_next(struct download *d);

/* End the download. Last touch. */
static void finish(struct download *d)
{
    ASSERT(d->at <= d->file.bytes);
    fs_close(d->file.file);
    http_respond_end(d->req, d->at == d->file.bytes);
}

static void on_sent(struct http_request *req, enum status st)
{
    struct download *d = req->user;
    ASSERT(d->req == req);
    if (st == ST_OK)
        d->at += d->n;
    if (st != ST_OK || d->at == d->file.bytes)
        finish(d);
    else
        read_next(d);
}

static void run_read(struct env_work *work)
{
    struct download *d = CONTAINER_OF(work, struct download, work);
    size_t want = (size_t)MIN(d->file.bytes - d->at, (uint64_t)sizeof d->piece);
    d->status = fs_read_at(d->file.file, d->piece, want, d->at, &d->n);
}

static void on_read(struct env_work *work)
{
    struct download *d = CONTAINER_OF(work, struct download, work);
    if (d->status != ST_OK || d->n == 0) {
        finish(d); /* too few bytes: the connection is cut, so the client notices */
        return;
    }
    ASSERT(d->n <= d->file.bytes - d->at);
    http_respond_piece(d->req, bytes_of(d->piece, d->n), on_sent);
}

static void read_next(struct download *d)
{
    d->work = (struct env_work){.run = run_read, .done = on_read, .lane = LANE_POOL};
    env_work(d->file.env, &d->work);
}

void download_start(struct http_request *req, struct reply_file file)
{
    struct download *d = arena_zalloc(&req->arena, sizeof *d);
    if (d == NULL) {
        fs_close(file.file);
        http_respond_end(req, false);
        return;
    }
    d->req = req;
    d->file = file;
    req->user = d;
    read_next(d);
}
