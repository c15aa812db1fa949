/* One connection: TLS, cutting the stream into frames, the queue of frames to send, writes.
 *
 * Frames that are queued in one turn of the loop leave in one write. At most one write of libuv
 * runs on a link; while it runs, frames stay in the queue. */
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/mesh/mesh_internal.h"
#include "loop/loop.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum {
    WRITES_AT_ONCE = 4, /* most direct writes of one link in a row; then others have their turn */
    LINK_STUCK_MS = 10000, /* a peer that vanished is noticed after so long */
};

/* A frame that waits to be sent. */
struct queued {
    struct list link;
    size_t len;
    uint8_t data[];
};

static void on_closed(uv_handle_t *handle)
{
    struct mesh_link *link = handle->data;
    struct mesh *mesh = link->mesh;
    ASSERT(link->phase == LINK_CLOSING);
    ASSERT(!link->writing);
    ASSERT(list_empty(&link->queue));
    tls_conn_free(link->tls);
    mesh_frames_done(&link->frames);
    buf_done(&link->early);
    buf_done(&link->written);
    mem_free(link);
    mesh_handle_gone(mesh);
}

static void on_deadline(struct env_timer *timer)
{
    struct mesh_link *link = CONTAINER_OF(timer, struct mesh_link, deadline);
    mesh_link_close(link, link->phase == LINK_CONNECTING ? "connecting timed out"
                                                         : "the greeting timed out");
}

struct mesh_link *mesh_link_new(struct mesh *mesh)
{
    ASSERT(!mesh->closing);
    struct mesh_link *link = mem_zalloc(sizeof *link);
    if (link == NULL || uv_tcp_init(loop_uv(mesh->env), &link->tcp) != 0) {
        mem_free(link);
        return NULL;
    }
    link->mesh = mesh;
    link->tcp.data = link->connect.data = link->write.data = link;
    link->deadline.fire = on_deadline;
    link->frames.payload_max = MESH_GREETING_MAX;
    list_init(&link->dirty);
    list_init(&link->unknown);
    list_init(&link->queue);
    list_push(&mesh->links, &link->all);
    mesh->handles++;
    return link;
}

void mesh_link_set_deadline(struct mesh_link *link, uint64_t ms)
{
    env_timer_set(link->mesh->env, &link->deadline, env_mono_ms(link->mesh->env) + ms);
}

static void queue_drop(struct mesh_link *link)
{
    for (struct list *item; (item = list_pop(&link->queue)) != NULL;)
        mem_free(CONTAINER_OF(item, struct queued, link));
    link->queue_bytes = link->head_sent = 0;
}

/* Send a TLS alert or goodbye, if the socket accepts the bytes at once. */
static void say_goodbye(struct mesh_link *link)
{
    CLEANUP(buf_done) struct buf out = {0};
    ASSERT(link->phase != LINK_CLOSING);
    if (link->tls == NULL || link->writing)
        return;
    tls_close_notify(link->tls);
    tls_take_out(link->tls, &out);
    uv_buf_t piece = uv_buf_init((char *)out.data, (unsigned)out.len);
    if (out.len != 0)
        /* nothing depends on this write */
        (void)uv_try_write((uv_stream_t *)&link->tcp, &piece, 1);
}

static void uncount(struct mesh_link *link, const char *why)
{
    struct mesh *mesh = link->mesh;
    bool ready = link->phase == LINK_READY;
    if (ready) {
        mesh_count(link->accepted ? &mesh->count.links_in : &mesh->count.links_out, (uint64_t)-1);
        mesh_count(&link->row->links, (uint64_t)-1);
    }
    if (link->accepted && ready) {
        ASSERT(mesh->n_accepted > 0);
        mesh->n_accepted--;
    } else if (link->accepted && !list_empty(&link->unknown)) {
        ASSERT(mesh->n_unknown > 0);
        mesh->n_unknown--;
        list_remove(&link->unknown);
        if (link->phase != LINK_LEAVING && !mesh->closing)
            mesh_accept_refused(link, why);
    }
}

void mesh_link_close(struct mesh_link *link, const char *why)
{
    struct mesh_dial *dial = link->dial;
    bool was_ready = link->phase == LINK_READY;
    if (link->phase == LINK_CLOSING)
        return;
    uncount(link, why);
    if (link->phase != LINK_LEAVING)
        say_goodbye(link);
    link->phase = LINK_CLOSING;
    link->dial = NULL;
    env_timer_stop(link->mesh->env, &link->deadline);
    queue_drop(link);
    list_remove(&link->dirty);
    list_remove(&link->all);
    uv_close((uv_handle_t *)&link->tcp, on_closed);
    if (dial != NULL)
        mesh_dial_lost(dial, was_ready, why);
    else if (was_ready && !link->mesh->closing) {
        struct mesh_peer *peer = mesh_peer_find(link->mesh, link->peer_id);
        trace(TRACE_DEBUG, "mesh", "lost the link from %s: %s", link->peer_name, why);
        if (peer != NULL)
            mesh_peer_dial_soon(peer);
    }
}

/* Writing to a link */

enum status mesh_link_send(struct mesh_link *link, enum mesh_kind kind, const struct bytes *parts,
                           unsigned n)
{
    size_t payload = 0;
    for (unsigned i = 0; i < n; i++)
        payload += parts[i].len;
    ASSERT(payload <= MESH_FRAME_MAX);
    ASSERT(link->phase == LINK_READY || link->phase == LINK_GREETING);
    size_t len = MESH_HEADER_BYTES + payload;
    /* An empty queue takes any frame, else a frame above the bound could never be sent. */
    if (link->queue_bytes != 0 &&
        link->queue_bytes + len > link->mesh->queue_bytes_max[link->bulk ? 1 : 0])
        return ST_BUSY;
    struct queued *q = mem_alloc(sizeof *q + len);
    if (q == NULL)
        return ST_NOMEM;
    q->len = len;
    mesh_header_encode(kind, (uint32_t)payload, q->data);
    uint8_t *at = q->data + MESH_HEADER_BYTES;
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].len != 0)
            memcpy(at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    list_push(&link->queue, &q->link);
    link->queue_bytes += len;
    if (list_empty(&link->dirty))
        list_push(&link->mesh->dirty, &link->dirty);
    return ST_OK;
}

/* Collect the first bytes of the queue. Returns their number. */
static size_t collect(struct mesh_link *link, struct bytes parts[MESH_WRITE_PARTS], unsigned *ret_n)
{
    size_t total = 0, skip = link->head_sent;
    unsigned n = 0;
    LIST_FOR (item, &link->queue) {
        struct queued *q = CONTAINER_OF(item, struct queued, link);
        size_t len = MIN(q->len - skip, MESH_WRITE_BYTES - total);
        parts[n++] = bytes_of(q->data + skip, len);
        total += len;
        skip = 0;
        if (n == MESH_WRITE_PARTS || total == MESH_WRITE_BYTES)
            break;
    }
    ASSERT(n <= MESH_WRITE_PARTS);
    ASSERT(total <= MESH_WRITE_BYTES);
    *ret_n = n;
    return total;
}

static void consume(struct mesh_link *link, size_t bytes)
{
    link->head_sent += bytes;
    while (!list_empty(&link->queue)) {
        struct queued *q = CONTAINER_OF(link->queue.next, struct queued, link);
        if (link->head_sent < q->len)
            return;
        link->head_sent -= q->len;
        link->queue_bytes -= q->len;
        list_remove(&q->link);
        mem_free(q);
    }
    ASSERT(link->head_sent == 0);
    ASSERT(link->queue_bytes == 0);
}

static void on_written(uv_write_t *write, int status)
{
    struct mesh_link *link = write->data;
    ASSERT(link->writing);
    buf_drop(&link->written); /* no wiping needed: the bytes are encrypted */
    link->writing = false;
    if (link->phase == LINK_CLOSING)
        return;
    if (status < 0)
        mesh_link_close(link, uv_strerror(status));
    else
        mesh_link_flush(link);
}

static enum status encrypt(struct mesh_link *link)
{
    struct bytes parts[MESH_WRITE_PARTS];
    unsigned n = 0;
    ASSERT(!link->writing);
    size_t total = collect(link, parts, &n);
    if (total == 0)
        return ST_OK;
    TRY(tls_write(link->tls, parts, n));
    consume(link, total);
    return ST_OK;
}

/* Write the ciphertext. `now`: try a direct write first, because a write that libuv queues costs
 * two more system calls. */
static void write_out(struct mesh_link *link, bool now)
{
    uv_stream_t *stream = (uv_stream_t *)&link->tcp;
    ASSERT(!link->writing);
    ASSERT(link->written.len != 0);
    uv_buf_t piece = uv_buf_init((char *)link->written.data, (unsigned)link->written.len);
    int wrote = now ? uv_try_write(stream, &piece, 1) : UV_EAGAIN;
    if (wrote >= 0 && (size_t)wrote == link->written.len) {
        buf_drop(&link->written);
        return;
    }
    int err = wrote == UV_EAGAIN ? 0 : MIN(wrote, 0);
    size_t gone = (size_t)MAX(wrote, 0);
    piece = uv_buf_init(piece.base + gone, (unsigned)(link->written.len - gone));
    if (err == 0)
        err = uv_write(&link->write, stream, &piece, 1, on_written);
    link->writing = err == 0;
    if (err != 0)
        mesh_link_close(link, uv_strerror(err));
}

void mesh_link_flush(struct mesh_link *link)
{
    if (link->phase == LINK_CONNECTING)
        return;
    for (unsigned n = 1; !link->writing && link->phase != LINK_CLOSING; n++) {
        if (encrypt(link) != ST_OK) {
            mesh_link_close(link, "encryption failed");
            return;
        }
        tls_take_out(link->tls, &link->written);
        if (link->written.len == 0) {
            if (link->phase == LINK_LEAVING)
                mesh_greet_leave(link);
            return;
        }
        write_out(link, n < WRITES_AT_ONCE);
    }
}

/* Reading from a link */

static void violation(struct mesh_link *link, const char *why)
{
    if (link->phase == LINK_READY) /* in earlier phases, closing the link logs the reason */
        mesh_log_hostile(link, why);
    mesh_link_close(link, why);
}

static void deliver(struct mesh_link *link, const struct mesh_frame *frame)
{
    struct mesh *mesh = link->mesh;
    if (link->phase == LINK_GREETING) {
        mesh_greet_frame(link, frame);
        return;
    }
    ASSERT(link->phase == LINK_READY);
    ASSERT(link->peer_id != 0);
    if (frame->kind != MESH_DATA) {
        violation(link, "an unexpected frame came");
        return;
    }
    mesh_count(&mesh->count.frames_received, 1);
    mesh_count(&mesh->count.bytes_received, frame->payload.len);
    mesh_count(&link->row->frames_received, 1);
    mesh_count(&link->row->bytes_received, frame->payload.len);
    mesh->events.receive(mesh->events.ctx, link->peer_id, link->peer_name, frame->payload);
}

static bool takes_frames(const struct mesh_link *link)
{
    return link->phase == LINK_GREETING || link->phase == LINK_READY;
}

static void take_plain(struct mesh_link *link, struct bytes plain)
{
    struct mesh_frame frame;
    enum status st = ST_OK;
    ASSERT(plain.len != 0);
    if (link->phase == LINK_LEAVING) {
        buf_add(&link->early, plain);
        if (buf_status(&link->early) != ST_OK)
            mesh_link_close(link, status_text(ST_NOMEM));
        return;
    }
    mesh_frames_push(&link->frames, plain);
    while (st == ST_OK && takes_frames(link)) {
        st = mesh_frames_next(&link->frames, &frame);
        if (st == ST_OK)
            deliver(link, &frame);
    }
    if (takes_frames(link) && st != ST_NOT_FOUND)
        violation(link, st == ST_TOO_BIG ? "a frame is too long"
                        : st == ST_NOMEM ? status_text(st)
                                         : "what came is no frame");
}

/* Decrypt and handle all bytes that were read. */
static void pump(struct mesh_link *link)
{
    struct mesh *mesh = link->mesh;
    size_t n = 1;
    ASSERT(link->phase != LINK_CONNECTING);
    while (n != 0 && link->phase != LINK_CLOSING) {
        n = 0;
        enum status st = tls_read(link->tls, mesh->plain, sizeof mesh->plain, &n);
        if (link->phase == LINK_SHAKING && tls_conn_phase(link->tls) == TLS_OPEN)
            mesh_greet_open(link);
        if (link->phase != LINK_CLOSING && n != 0)
            take_plain(link, bytes_of(mesh->plain, n));
        if (link->phase == LINK_LEAVING)
            break; /* the next owner of the connection gets the rest */
        if (link->phase != LINK_CLOSING && st != ST_OK)
            mesh_link_close(link, st == ST_CLOSED ? "the peer closed"
                                  : st == ST_BUSY ? "the peer does not read"
                                                  : tls_error(link->tls));
    }
    if (link->phase != LINK_CLOSING)
        mesh_link_flush(link);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct mesh_link *link = handle->data;
    (void)suggested; /* use our own buffer, which all links share */
    *ret_buf = uv_buf_init((char *)link->mesh->cipher, sizeof link->mesh->cipher);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct mesh_link *link = stream->data;
    if (n == 0 || link->phase == LINK_CLOSING)
        return;
    if (n < 0) {
        mesh_link_close(link, n == UV_EOF ? "the connection was cut" : uv_strerror((int)n));
        return;
    }
    enum status st = tls_feed(link->tls, bytes_of(buf->base, (size_t)n));
    if (st != ST_OK)
        mesh_link_close(link, status_text(st));
    else
        pump(link);
}

int mesh_tune_socket(int fd, unsigned stuck_ms)
{
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 4},
        {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)stuck_ms},
        {IPPROTO_TCP, TCP_NODELAY, 1},
    };
    ASSERT(fd >= 0 && stuck_ms <= INT_MAX);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) != 0)
            return -1;
    /* Kernels before 6.15 cannot: there a link may stand still for as long as the cut was. */
    const int resume_ms = MESH_RESUME_MS;
    (void)setsockopt(fd, IPPROTO_TCP, MESH_TCP_RTO_MAX_MS, &resume_ms, sizeof resume_ms);
    return 0;
}

static int set_socket_options(struct mesh_link *link)
{
    uv_os_fd_t fd;
    int err = uv_fileno((uv_handle_t *)&link->tcp, &fd);
    return err != 0 ? err : mesh_tune_socket(fd, LINK_STUCK_MS);
}

static void name_endpoint(struct mesh_link *link)
{
    struct sockaddr_storage addr = {0};
    int len = sizeof addr;
    if (uv_tcp_getpeername(&link->tcp, (struct sockaddr *)&addr, &len) == 0)
        mesh_endpoint_text(&addr, link->endpoint);
}

void mesh_link_begin(struct mesh_link *link, const struct tls_target *target)
{
    struct mesh *mesh = link->mesh;
    ASSERT(link->tls == NULL);
    ASSERT(link->phase == LINK_CONNECTING);
    ASSERT(link->accepted == (target == NULL));
    link->phase = LINK_SHAKING;
    name_endpoint(link);
    mesh_link_set_deadline(link, mesh->greeting_ms);
    if (set_socket_options(link) != 0 ||
        uv_read_start((uv_stream_t *)&link->tcp, on_alloc, on_read) != 0) {
        mesh_link_close(link, "the socket is of no use");
        return;
    }
    link->dr_trust = mesh->dr_trust;
    struct tls_ctx *ctx = link->accepted ? mesh->server_tls : mesh->client_tls;
    enum status st = tls_conn_new(ctx, target, &link->tls);
    if (st != ST_OK)
        mesh_link_close(link, status_text(st));
    else
        mesh_link_flush(link);
}
