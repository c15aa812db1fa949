#include "front/upload.h"

#include "base/fs.h"
#include "front/front_request.h"

static void finish(struct upload *u, enum status st)
{
    buf_done(&u->piece);
    if (st != ST_OK) {
        fs_close(u->file);
        u->file = NULL;
    }
    u->done(u, st); /* last touch of the upload */
}

static void on_piece(struct http_request *req, enum status st, struct bytes piece, bool last);

static void on_worked(struct env_work *work)
{
    struct upload *u = CONTAINER_OF(work, struct upload, work);
    u->bytes += u->piece.len;
    buf_clear(&u->piece);
    if (u->status != ST_OK || u->last)
        finish(u, u->status);
    else
        http_body_next(u->req, on_piece);
}

static void run_write(struct env_work *work)
{
    struct upload *u = CONTAINER_OF(work, struct upload, work);
    struct bytes piece = buf_bytes(&u->piece);
    u->status = u->host->node_ops->snapshot_room(u->host->node) ? ST_OK : ST_NO_SPACE;
    if (u->status == ST_OK && piece.len != 0)
        u->status = fs_write_at(u->file, &piece, 1, u->bytes);
}

static void on_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    struct upload *u = front_request_get(req)->upload;
    ASSERT(!u->last);
    ASSERT(u->piece.len == 0);
    if (st == ST_OK) {
        buf_add(&u->piece, piece);
        st = buf_status(&u->piece);
    }
    if (st != ST_OK) {
        finish(u, st);
        return;
    }
    u->last = last;
    u->work = (struct env_work){.run = run_write, .done = on_worked, .lane = LANE_POOL};
    env_work(u->env, &u->work);
}

static void run_open(struct env_work *work)
{
    struct upload *u = CONTAINER_OF(work, struct upload, work);
    u->status = u->host->node_ops->snapshot_file(u->host->node, &u->file);
}

void upload_start(struct upload *u)
{
    ASSERT(u->done != NULL && u->file == NULL);
    u->work = (struct env_work){.run = run_open, .done = on_worked, .lane = LANE_POOL};
    env_work(u->env, &u->work);
}
