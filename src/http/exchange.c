/* A request and its reply: memory, references, streamed bodies. */
#include "base/mem.h"
#include "base/shared.h"
#include "http/park.h"
#include "http/server.h"

enum {
    SPARE_MAX = 64,         /* most exchanges kept for reuse */
    SPARE_MIN = 4,          /* kept for reuse without any connection */
    BODY_FIRST = 16 * 1024, /* room that a body gets before its first byte has come */
    REPLY_KEEP = 4 * 1024,  /* largest capacity of a reply head that is kept for reuse */
    ARENA_KEEP = 16 * 1024, /* bytes of an arena kept for reuse: enough for most requests */
    /* A body of known length gets room for all of it once this much has arrived. */
    BODY_SURE = 1024 * 1024,
    WIPE_INLINE_MAX = 256 * 1024, /* a longer buffer is wiped on the thread pool */
    /* The same for the body of a reply: what no reader took must be free at once for the next. */
    REPLY_WIPE_INLINE_MAX = 2 * 1024 * 1024,
};

/* Count a body of `cap` bytes, in place of what was counted for it before. */
static enum status charge(struct http_exchange *x, size_t cap)
{
    struct http_budget *budget = x->server->budget;
    size_t due = cap > HTTP_SMALL_BODY && budget != NULL ? cap : 0;
    ASSERT(due >= x->budgeted);
    if (due == 0)
        return ST_OK;
    if (x->budgeted == 0 && x->payer.len == 0 && x->conn != NULL)
        x->payer = http_peer_client(x->conn);
    if (!http_budget_take(budget, &x->payer, due - x->budgeted))
        return ST_BUSY;
    x->budgeted = due;
    return ST_OK;
}

static void discharge(struct http_exchange *x)
{
    if (x->budgeted != 0)
        http_budget_give(x->server->budget, &x->payer, x->budgeted);
    x->budgeted = 0;
}

struct http_exchange *http_exchange_new(struct http_server *server)
{
    struct list *spare = list_pop(&server->spare);
    struct http_exchange *x =
        spare != NULL ? CONTAINER_OF(spare, struct http_exchange, link) : mem_zalloc(sizeof *x);
    if (x == NULL)
        return NULL;
    server->n_spare -= spare != NULL;
    x->server = server;
    x->req.arena.block_bytes = ARENA_KEEP;
    x->refs = 1;
    x->body_max = server->limits.body_bytes_max;
    x->whole_max = UINT64_MAX;
    list_push(&server->exchanges, &x->link);
    return x;
}

void http_exchange_free(struct http_exchange *x)
{
    arena_done(&x->req.arena);
    http_head_done(&x->head);
    buf_done(&x->reply);
    mem_free(x);
}

void http_exchange_shrink(struct http_server *server)
{
    while (server->n_spare > MAX(server->n_conns, (size_t)SPARE_MIN)) {
        server->n_spare--;
        http_exchange_free(CONTAINER_OF(list_pop(&server->spare), struct http_exchange, link));
    }
}

void http_exchange_show(struct http_exchange *x)
{
    const struct http_head *head = &x->head;
    const uint8_t *text = head->text.data;
    x->req.method = head->method;
    x->req.path = bytes_of(text + head->path_at, head->path_len);
    x->req.query =
        head->has_query ? bytes_of(text + head->query_at, head->query_len) : (struct bytes){0};
}

/* A long buffer that is wiped on the pool. Its bytes count in the budget until it is wiped: until
 * then the memory is in use. */
struct wipe {
    struct env_work work;
    struct buf buf;
    struct http_budget *budget; /* the budget outlives the server */
    struct ip payer;
    size_t budgeted;
};

static void run_wipe(struct env_work *work)
{
    struct wipe *wipe = CONTAINER_OF(work, struct wipe, work);
    buf_done(&wipe->buf);
    if (wipe->budgeted != 0)
        http_budget_give(wipe->budget, &wipe->payer, wipe->budgeted);
}

static void on_wiped(struct env_work *work)
{
    mem_free(CONTAINER_OF(work, struct wipe, work));
}

/* Wipe and release a body, and give `budgeted` of the exchange's bytes back to the budget. A long
 * body is wiped on the pool, so that the other connections of this thread need not wait. Without
 * memory for the work, the body is wiped here. */
static void body_release(struct http_exchange *x, struct buf *body, size_t budgeted)
{
    struct wipe *wipe = body->cap > WIPE_INLINE_MAX ? mem_alloc(sizeof *wipe) : NULL;
    if (wipe == NULL) {
        buf_done(body);
        return;
    }
    ASSERT(budgeted <= x->budgeted);
    *wipe = (struct wipe){
        .work = {.run = run_wipe, .done = on_wiped, .lane = LANE_POOL},
        .buf = *body,
        .budget = x->server->budget,
        .payer = x->payer,
        .budgeted = budgeted,
    };
    x->budgeted -= budgeted;
    *body = (struct buf){0};
    env_work(x->server->env, &wipe->work);
}

static void exchange_release(struct http_exchange *x)
{
    struct http_server *server = x->server;
    ASSERT(x->conn == NULL && !x->piece_posted && !x->sent_posted);
    body_release(x, &x->body, x->budgeted);
    buf_done(&x->stash);
    if (x->kept.cap <= REPLY_WIPE_INLINE_MAX)
        buf_done(&x->kept);
    else
        body_release(x, &x->kept, 0);
    discharge(x); /* the body was wiped here: give back its budget */
    shared_unref(x->shared);
    http_exchange_unqueue(x);
    http_exchange_unhold(x); /* the peer has gone before the reply */
    list_remove(&x->link);

    if (server->n_spare == SPARE_MAX || server->draining) {
        http_exchange_free(x);
    } else {
        struct http_head head = x->head;
        struct buf reply = x->reply;
        struct arena arena = x->req.arena;
        http_head_reset(&head);
        arena_clear(&arena);
        if (reply.cap > REPLY_KEEP)
            buf_done(&reply);
        if (reply.data != NULL)
            mem_wipe(reply.data, reply.len);
        buf_clear(&reply);
        *x = (struct http_exchange){.head = head, .reply = reply, .req.arena = arena};
        list_push(&server->spare, &x->link);
        server->n_spare++;
    }
    http_server_less(server);
}

void http_exchange_unref(struct http_exchange *x)
{
    ASSERT(x->refs > 0);
    if (--x->refs == 0)
        exchange_release(x);
}

/* Not buf_reserve: the capacity is chosen here, because it counts. */
static enum status body_room(struct http_exchange *x, size_t cap)
{
    size_t before = x->budgeted;
    TRY(charge(x, cap));
    uint8_t *data = mem_alloc(cap);
    if (data == NULL) {
        /* the body keeps its room, and the next try may ask for less */
        if (x->budgeted > before)
            http_budget_give(x->server->budget, &x->payer, x->budgeted - before);
        x->budgeted = before;
        return ST_NOMEM;
    }
    struct buf old = x->body;
    if (old.len != 0)
        memcpy(data, old.data, old.len);
    buf_done(&old);
    x->body = (struct buf){.data = data, .len = x->body.len, .cap = cap};
    return ST_OK;
}

enum status http_exchange_grow(struct http_exchange *x, size_t more)
{
    ASSERT(!x->given || x->on_whole != NULL);
    size_t need = x->body.len + more;
    if (need <= x->body.cap)
        return ST_OK;
    size_t cap = MAX(MAX(x->body.cap * 2, need), (size_t)BODY_FIRST);
    if (x->head.has_length) {
        size_t whole = MAX((size_t)x->head.length, need);
        cap = x->body.len >= BODY_SURE ? whole : MIN(cap, whole);
    }
    /* Allocate at most the longest body: a share of the budget has room for no more. */
    if (need <= x->body_max)
        cap = (size_t)MIN((uint64_t)cap, x->body_max);
    return body_room(x, cap);
}

/* Streamed request bodies */

void http_exchange_stream(struct http_exchange *x)
{
    ASSERT(!x->given && !x->streaming && x->stash.data == NULL);
    x->streaming = true;
    x->stash = x->body;
    x->body = (struct buf){0};
}

static void tell_piece(struct http_exchange *x)
{
    http_piece_fn *on_piece = x->on_piece;
    struct buf piece = x->stash;
    bool last = x->body_done;
    ASSERT(!x->last_told);
    x->on_piece = NULL;
    x->stash = (struct buf){0};
    x->last_told = x->body_status != ST_OK || last;
    if (x->body_status != ST_OK)
        on_piece(&x->req, x->body_status, (struct bytes){0}, true);
    else
        on_piece(&x->req, ST_OK, buf_bytes(&piece), last);
    buf_done(&piece);
    discharge(x); /* the budget counts bytes kept until the reply; a piece is released earlier */
}

static void tell_whole(struct http_exchange *x)
{
    http_whole_fn *on_whole = x->on_whole;
    ASSERT(!x->last_told);
    x->on_whole = NULL;
    x->last_told = true;
    x->streaming = x->body_status != ST_OK;
    if (x->body_status == ST_OK)
        x->req.body = buf_bytes(&x->body);
    on_whole(&x->req, x->body_status);
}

static void piece_run(struct env_task *task)
{
    struct http_exchange *x = CONTAINER_OF(task, struct http_exchange, piece_task);
    ASSERT(x->piece_posted);
    x->piece_posted = false;
    if (!x->replied && x->on_whole != NULL)
        tell_whole(x);
    else if (!x->replied)
        tell_piece(x);
    if (x->conn != NULL)
        http_conn_go_on(x->conn);
    http_exchange_unref(x);
}

/* Post the handler's on_piece or on_whole, if the handler waits for input and some has come. */
static void piece_post(struct http_exchange *x)
{
    bool over = x->body_done || x->body_status != ST_OK;
    bool tell = x->on_whole != NULL ? over : x->on_piece != NULL && (x->stash.len != 0 || over);
    if (!tell || x->piece_posted)
        return;
    x->piece_posted = true;
    x->refs++;
    x->piece_task.run = piece_run;
    env_post(x->server->env, &x->piece_task);
}

enum status http_exchange_body_add(struct http_exchange *x, struct bytes run)
{
    buf_add(&x->stash, run);
    TRY(buf_status(&x->stash));
    piece_post(x);
    return ST_OK;
}

void http_exchange_body_end(struct http_exchange *x, enum status st)
{
    if (st == ST_OK)
        x->body_done = true;
    else if (x->body_status == ST_OK && !x->body_done)
        x->body_status = st;
    piece_post(x);
}

void http_body_next(struct http_request *req, http_piece_fn *on_piece)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->streaming);
    ASSERT(x->given && !x->replied);
    ASSERT(x->on_piece == NULL && x->on_whole == NULL && !x->last_told);
    x->on_piece = on_piece;
    piece_post(x);
    if (x->conn != NULL)
        http_conn_go_on(x->conn);
}

void http_body_collect(struct http_request *req, const struct ip *client, http_whole_fn *on_whole)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->streaming && x->given && !x->replied);
    ASSERT(x->on_piece == NULL && x->on_whole == NULL && !x->last_told);
    discharge(x);
    x->body = x->stash;
    x->stash = (struct buf){0};
    x->on_whole = on_whole;
    if (client != NULL)
        x->payer = *client;
    enum status st = charge(x, x->body.cap);
    if (st != ST_OK)
        http_exchange_body_end(x, st);
    piece_post(x);
    if (x->conn != NULL)
        http_conn_go_on(x->conn);
}

void http_exchange_orphan(struct http_exchange *x)
{
    x->conn = NULL;
    if (!x->given) { /* no handler has seen the request */
        http_exchange_unref(x);
        return;
    }
    if (x->streaming)
        http_exchange_body_end(x, ST_CLOSED);
    void (*gone)(struct http_request * req) = x->gone;
    x->gone = NULL;
    if (gone != NULL && !x->replied)
        gone(&x->req);
}

/* Functions for handlers */

void http_reply_within(struct http_request *req, uint32_t ms)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(!x->replying);
    if (x->conn != NULL)
        http_conn_within(x->conn, ms);
}

void http_limit_body(struct http_request *req, uint64_t bytes_max)
{
    ASSERT(!exchange_of(req)->given);
    exchange_of(req)->body_max = bytes_max;
}

void http_stream_body(struct http_request *req, uint64_t whole_max)
{
    ASSERT(!exchange_of(req)->given);
    exchange_of(req)->whole_max = whole_max;
}

uint64_t http_body_length(const struct http_request *req)
{
    const struct http_head *head = &exchange_of(req)->head;
    if (head->chunked)
        return HTTP_LENGTH_UNKNOWN;
    return head->has_length ? head->length : 0;
}

bool http_body_streams(const struct http_request *req)
{
    return exchange_of(req)->streaming;
}

void http_keep(struct http_request *req, struct buf *buf)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->kept.data == NULL);
    x->kept = *buf;
    *buf = (struct buf){0};
}

void http_on_gone(struct http_request *req, void (*gone)(struct http_request *req))
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(!x->replied);
    x->gone = gone;
}

bool http_is_gone(const struct http_request *req)
{
    const struct http_exchange *x = exchange_of(req);
    return x->conn == NULL || x->conn->peer_ended;
}

bool http_may_park(const struct http_request *req)
{
    const struct http_exchange *x = exchange_of(req);
    return x->conn != NULL && !x->conn->peer_ended && x->body_done && !x->streaming;
}

void http_park(struct http_request *req, void (*gone)(struct http_request *req))
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(http_may_park(req) && x->given && !x->replying);
    arena_done(&req->arena);
    body_release(x, &x->body, x->budgeted);
    body_release(x, &x->kept, 0);
    discharge(x);
    buf_done(&x->reply);
    http_exchange_unqueue(x);
    http_exchange_unhold(x);
    x->payer_text = NULL; /* the text lay in the arena */
    http_head_shrink(&x->head);
    req->body = (struct bytes){0};
    req->user = NULL;
    x->gone = gone;
    http_exchange_show(x);
    http_conn_park(x->conn);
}

void http_unpark(struct http_request *req)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->given && !x->replying);
    x->gone = NULL;
    if (x->conn != NULL)
        http_conn_within(x->conn, x->server->limits.request_ms);
}

struct bytes http_header(const struct http_request *req, const char *name)
{
    struct bytes value = {0};
    size_t at = 0;
    /* an absent header leaves the value empty */
    (void)http_head_next(&exchange_of(req)->head, name, &at, &value);
    return value;
}

uint64_t http_header_lens_absent(const struct http_request *req)
{
    return ~exchange_of(req)->head.name_lens & ~http_head_len_bit(SIZE_MAX);
}

bool http_header_next(const struct http_request *req, const char *name, size_t *at,
                      struct bytes *ret_value)
{
    return http_head_next(&exchange_of(req)->head, name, at, ret_value);
}

size_t http_header_count(const struct http_request *req)
{
    return exchange_of(req)->head.n_fields;
}

struct http_header http_header_at(const struct http_request *req, size_t i)
{
    return http_head_field(&exchange_of(req)->head, i);
}
