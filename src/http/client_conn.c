/* One connection of the client. */
#include "base/mem.h"
#include "crypto/tls.h"
#include "http/client_internal.h"
#include "http/names.h"
#include "loop/loop.h"

enum {
    REPLY_BYTES_MAX = 32 * 1024 * 1024,
    /* most bytes of a reply that are read before its owner asks for a piece */
    STREAM_ROOM = 64 * 1024,
    INTERIM_MAX = 8, /* most 1xx replies before the final reply */
};

static struct http_client_conn *conn_of(struct http_wire *wire)
{
    return CONTAINER_OF(wire, struct http_client_conn, wire);
}

static bool connecting(const struct http_client_conn *c)
{
    return c->phase < CLIENT_IDLE;
}

bool http_client_conn_sent(const struct http_client_conn *c)
{
    return c->wire.bytes_wrote != c->before_wrote || c->wire.bytes_out != c->before_out;
}

/* The end of a connection or of its request */

static void conn_shut(struct http_client_conn *c)
{
    if (c->phase == CLIENT_CLOSING)
        return;
    c->target->n_connecting -= connecting(c);
    c->phase = CLIENT_CLOSING;
    list_remove(&c->link);
    list_push(&c->target->active, &c->link);
    env_timer_stop(c->client->env, &c->timer);
    http_wire_close(&c->wire);
}

/* The connection failed, or the reply is malformed. */
static void conn_fail(struct http_client_conn *c, const char *why)
{
    struct http_client_request *request = c->request;
    struct http_client_target *target = c->target;
    bool was_connecting = connecting(c), sent = request != NULL && http_client_conn_sent(c);
    if (c->phase == CLIENT_CLOSING)
        return;
    conn_shut(c);
    if (was_connecting) {
        tally_add(&c->client->tally.connects_failed, 1);
        http_target_failed(target, why);
        return;
    }
    if (request == NULL)
        return;
    bool again = request->repeatable && !request->once && c->used && !request->fresh &&
                 !request->replied && c->wire.bytes_in == 0 && !c->client->closing;
    c->request = NULL;
    request->conn = NULL;
    if (again) {
        tally_add(&c->client->tally.repeated, 1);
        buf_done(&request->reply);
        http_client_again(request, target);
        return;
    }
    enum status unsent = c->client->closing ? ST_CLOSED : ST_NO_LEADER;
    http_client_fail(request, sent ? ST_UNKNOWN_OUTCOME : unsent, why);
}

void http_client_conn_close(struct http_client_conn *c)
{
    conn_fail(c, "the client is closing");
}

void http_client_conn_abandon(struct http_client_conn *c)
{
    ASSERT(c->request != NULL);
    c->request->conn = NULL;
    c->request = NULL;
    conn_shut(c);
}

static void conn_released(struct http_client_conn *c)
{
    struct http_client *client = c->client;
    struct http_client_target *target = c->target;
    if (!c->wire_closed || c->resolving)
        return;
    ASSERT(c->request == NULL && c->timer.slot == 0);
    list_remove(&c->link);
    buf_done(&c->text);
    if (c->head != NULL)
        http_head_done(c->head);
    mem_free(c->head);
    mem_free(c);
    target->n_conns--;
    client->n_conns--;
    http_client_less(client, target);
}

static void conn_on_closed(struct http_wire *wire)
{
    struct http_client_conn *c = conn_of(wire);
    c->wire_closed = true;
    conn_released(c);
}

/* Sending a request */

/* The head is sent: wipe it, so that a kept connection does not hold the token. */
static void on_head_sent(struct http_out *out, enum status st)
{
    struct http_client_conn *c = CONTAINER_OF(out, struct http_client_conn, out);
    (void)st; /* the reply, or its absence, says more than the status of the write */
    mem_wipe(c->text.data, c->text.len);
    buf_clear(&c->text);
}

static void on_end_sent(struct http_out *out, enum status st)
{
    (void)out, (void)st; /* the reply, or its absence, says more than the status of the write */
}

static void on_piece_sent(struct http_out *out, enum status st)
{
    struct http_client_conn *c = CONTAINER_OF(out, struct http_client_conn, piece_out.out);
    c->piece_busy = false;
    if (st != ST_OK || c->request == NULL)
        return;
    c->request->progress_ms = env_mono_ms(c->client->env);
    http_client_post(c->request, REQUEST_SENT);
}

static bool request_chunked(const struct http_client_request *request)
{
    return request->stream_body && request->body_length == HTTP_LENGTH_UNKNOWN;
}

void http_client_conn_write(struct http_client_conn *c)
{
    struct http_client_request *request = c->request;
    if (request->piece.len != 0) {
        struct bytes piece = request->piece;
        ASSERT(!c->piece_busy);
        c->piece_busy = true;
        request->piece = (struct bytes){0};
        http_piece_frame(&c->piece_out, piece, request_chunked(request), on_piece_sent);
        http_wire_send(&c->wire, &c->piece_out.out);
    } else if (request->on_sent != NULL && !c->piece_busy) {
        http_client_post(request, REQUEST_SENT); /* an empty piece needs no write */
    }
    if (request->write_ended && !c->all_written) {
        c->all_written = true;
        c->end_out = (struct http_out){.sent = on_end_sent};
        if (request_chunked(request))
            c->end_out.parts[0] = BYTES("0\r\n\r\n");
        http_wire_send(&c->wire, &c->end_out);
    }
    http_wire_flush(&c->wire);
}

static void add_body_headers(struct buf *b, const struct http_client_request *request)
{
    uint64_t length = request->stream_body ? request->body_length : request->body.len;
    ASSERT(!request->stream_body || request->body.len == 0);
    bool usual = request->method == METHOD_POST || request->method == METHOD_PUT ||
                 request->method == METHOD_PATCH;
    if (request_chunked(request)) {
        buf_add(b, BYTES("Transfer-Encoding: chunked\r\n"));
    } else if (length != 0 || usual) {
        buf_add(b, BYTES("Content-Length: "));
        http_add_number(b, length);
        buf_add(b, BYTES("\r\n"));
    }
}

static void add_head(struct buf *b, const struct http_client_request *request, const char *address)
{
    bool host = false;
    buf_add_str(b, http_method_name(request->method));
    buf_add(b, BYTES(" "));
    buf_add(b, request->path);
    buf_add(b, BYTES(" HTTP/1.1\r\n"));
    for (size_t i = 0; i < request->n_headers; i++) {
        struct http_header header = request->headers[i];
        if (http_header_frames(header.name))
            continue;
        host = host || http_header_is(header.name, "host");
        buf_add(b, header.name);
        buf_add(b, BYTES(": "));
        buf_add(b, header.value);
        buf_add(b, BYTES("\r\n"));
    }
    if (!host) {
        buf_add(b, BYTES("Host: "));
        buf_add_str(b, address);
        buf_add(b, BYTES("\r\n"));
    }
    add_body_headers(b, request);
    buf_add(b, BYTES("\r\n"));
}

static bool conn_parser(struct http_client_conn *c);

void http_client_conn_take(struct http_client_conn *c, struct http_client_request *request)
{
    ASSERT(c->phase == CLIENT_IDLE && c->request == NULL);
    env_timer_stop(c->client->env, &c->timer);
    c->phase = CLIENT_BUSY;
    c->request = request;
    request->conn = c;
    c->all_written = !request->stream_body;
    c->n_interim = 0;
    c->before_wrote = c->wire.bytes_wrote;
    c->before_out = c->wire.bytes_out;
    c->wire.bytes_in = 0;
    buf_clear(&c->text);
    add_head(&c->text, request, c->target->address);
    if (buf_status(&c->text) != ST_OK || !conn_parser(c)) {
        http_client_conn_abandon(c);
        http_client_fail(request, ST_NOMEM, NULL);
        return;
    }
    c->out = (struct http_out){.sent = on_head_sent, .parts = {buf_bytes(&c->text)}};
    if (!request->stream_body)
        c->out.parts[1] = request->body;
    http_wire_send(&c->wire, &c->out);
    if (request->stream_body)
        http_client_conn_write(c);
    else
        http_wire_flush(&c->wire);
}

/* Reading a reply */

static bool on_body_run(struct http_parser *parser, struct bytes run)
{
    struct http_client_request *request =
        CONTAINER_OF(parser, struct http_client_conn, parser)->request;
    uint64_t most = request->reply_bytes_max != 0 ? request->reply_bytes_max : REPLY_BYTES_MAX;
    if (request->on_head == NULL && run.len > most - MIN(request->reply.len, most)) {
        http_parser_refuse(parser, 502, "the reply is too large");
        return false;
    }
    if (request->reply.data != NULL && run.data == request->reply.data + request->reply.len) {
        request->reply.len += run.len; /* the bytes were read into the body's own memory */
        return true;
    }
    buf_add(&request->reply, run);
    if (buf_status(&request->reply) != ST_OK)
        http_parser_refuse(parser, 503, "out of memory");
    return buf_status(&request->reply) == ST_OK;
}

/* Expect the head of a reply. False: out of memory. */
static bool conn_parser(struct http_client_conn *c)
{
    if (c->head == NULL)
        c->head = mem_zalloc(sizeof *c->head);
    if (c->head == NULL)
        return false;
    http_head_reset(c->head);
    c->parser.on_body = on_body_run;
    http_parser_reply(&c->parser, &c->client->limits.reply, c->head,
                      c->request->method == METHOD_HEAD);
    return true;
}

static void conn_idle(struct http_client_conn *c)
{
    ASSERT(c->phase != CLIENT_CLOSING);
    c->phase = CLIENT_IDLE;
    env_timer_set(c->client->env, &c->timer,
                  env_mono_ms(c->client->env) + c->client->limits.idle_ms);
    http_wire_read(&c->wire, true);
    if (c->phase == CLIENT_IDLE)
        http_target_free(c);
}

/* The reply is complete: release the connection, then end the request. */
static void conn_complete(struct http_client_conn *c)
{
    struct http_client_request *request = c->request;
    bool keep = c->parser.head->keep_alive && c->all_written && !http_wire_pending(&c->wire) &&
                !c->wire.ended && c->behind == 0 && !c->client->closing;
    ASSERT(c->phase == CLIENT_BUSY);
    ASSERT(!request->complete);
    c->used = true;
    c->request = NULL;
    request->conn = NULL;
    request->complete = true;
    if (request->on_head == NULL) {
        request->head = c->head;
        c->head = NULL;
    }
    if (keep)
        conn_idle(c);
    else
        conn_shut(c);
    if (request->on_head == NULL)
        http_client_complete(request);
    else
        http_client_post(request, REQUEST_PIECE);
}

/* The head of the final reply has arrived; `body`: a body follows. False: the owner canceled the
 * request. */
static bool conn_on_head(struct http_client_conn *c, bool body)
{
    struct http_client_request *request = c->request;
    uint64_t length = c->head->has_length ? c->head->length : HTTP_LENGTH_UNKNOWN;
    ASSERT(!request->replied);
    request->status = c->head->status;
    request->replied = true;
    if (request->whole_max != 0 && (!body || length <= request->whole_max))
        request->on_head = NULL;
    if (request->on_head == NULL) {
        if (request->on_length != NULL && body && length != HTTP_LENGTH_UNKNOWN)
            request->on_length(request, length);
        return c->request == request;
    }
    request->head = c->head;
    c->head = NULL;
    c->parser.head = request->head;
    request->on_head(request);
    return c->request == request;
}

static void conn_on_done(struct http_client_conn *c)
{
    bool interim = c->parser.head->status < 200;
    if (interim && (++c->n_interim > INTERIM_MAX || !conn_parser(c))) {
        conn_fail(c, "too many interim replies");
        return;
    }
    if (!interim && (c->request->replied || conn_on_head(c, false)))
        conn_complete(c);
}

static void conn_on_event(struct http_client_conn *c, enum http_event event)
{
    switch (event) {
    case EVENT_HEAD:
        (void)conn_on_head(c, true); /* the caller sees that the request was canceled */
        break;
    case EVENT_DONE: conn_on_done(c); break;
    case EVENT_REFUSED: conn_fail(c, c->parser.why); break;
    case EVENT_MORE: break;
    }
}

static void conn_on_data(struct http_wire *wire, struct bytes plain)
{
    struct http_client_conn *c = conn_of(wire);
    struct http_client_request *request = c->request;
    if (request != NULL && request_streams(request))
        request->progress_ms = env_mono_ms(c->client->env);
    while (plain.len != 0 && request != NULL && c->request == request) {
        size_t used = 0;
        enum http_event event = http_parser_run(&c->parser, plain, &used);
        ASSERT(used <= plain.len);
        plain = bytes_from(plain, used);
        c->behind = plain.len;
        conn_on_event(c, event);
    }
    if (plain.len != 0 && c->phase != CLIENT_CLOSING) /* bytes after the reply */
        conn_fail(c, "the other side sent more than one reply");
    else if (c->request != NULL && c->request == request)
        http_client_conn_read(c);
}

void http_client_conn_read(struct http_client_conn *c)
{
    struct http_client_request *request = c->request;
    bool streams = request != NULL && request->on_head != NULL && request->replied;
    if (streams && request->on_piece != NULL && request->reply.len != 0)
        http_client_post(request, REQUEST_PIECE);
    http_wire_read(&c->wire, !streams || request->reply.len < STREAM_ROOM);
}

static struct http_room conn_room(struct http_wire *wire)
{
    struct http_client_conn *c = conn_of(wire);
    struct http_client_request *request = c->request;
    if (request == NULL || request->on_head != NULL || c->parser.phase != PARSE_BODY ||
        !c->parser.head->has_length)
        return (struct http_room){0};
    uint64_t length = c->parser.head->length;
    uint64_t left = length - MIN(length, request->reply.len);
    size_t step = (size_t)MIN(left, WIRE_DIRECT_STEP);
    bool direct =
        request->replied && left >= WIRE_DIRECT_FROM &&
        length <= (request->reply_bytes_max != 0 ? request->reply_bytes_max : REPLY_BYTES_MAX);
    if (!direct || buf_reserve(&request->reply, step) != ST_OK)
        return (struct http_room){0};
    return (struct http_room){request->reply.data + request->reply.len,
                              (size_t)MIN(left, request->reply.cap - request->reply.len)};
}

static void conn_on_ended(struct http_wire *wire, enum status st)
{
    struct http_client_conn *c = conn_of(wire);
    const char *why = wire->tls != NULL && st == ST_CRYPTO ? tls_error(wire->tls)
                      : st == ST_CLOSED                    ? "the other side closed the connection"
                                                           : "the connection broke";
    conn_fail(c, why);
}

static void conn_on_drained(struct http_wire *wire)
{
    struct http_client_conn *c = conn_of(wire);
    if (c->request != NULL && request_streams(c->request))
        c->request->progress_ms = env_mono_ms(c->client->env);
}

/* Connecting */

static void conn_ready(struct http_client_conn *c)
{
    ASSERT(c->target->n_connecting > 0);
    c->target->n_connecting--;
    tally_add(&c->client->tally.connects, 1);
    conn_idle(c);
}

static void conn_on_secured(struct http_wire *wire)
{
    conn_ready(conn_of(wire));
}

static const struct http_wire_ops wire_ops = {
    .room = conn_room,
    .data = conn_on_data,
    .secured = conn_on_secured,
    .ended = conn_on_ended,
    .drained = conn_on_drained,
    .closed = conn_on_closed,
};

static void conn_on_timer(struct env_timer *timer)
{
    struct http_client_conn *c = CONTAINER_OF(timer, struct http_client_conn, timer);
    uint64_t now_ms = env_mono_ms(c->client->env);
    bool still = now_ms >= timer->at_ms + WIRE_STILL_MS;
    if (connecting(c) && !c->excused) {
        c->excused = true;
        env_timer_set(c->client->env, timer,
                      now_ms + (still ? c->client->limits.connect_ms : (uint32_t)WIRE_LOOK_MS));
    } else if (connecting(c))
        conn_fail(c, "connecting took too long");
    else
        conn_shut(c); /* the connection was idle for as long as the options allow */
}

static void conn_on_connected(uv_connect_t *connect, int err)
{
    struct http_client_conn *c = CONTAINER_OF(connect, struct http_client_conn, connect);
    const struct http_client_target *t = c->target;
    struct tls_target target = {.host = t->host, .uri = t->uri};
    struct tls_conn *tls = NULL;
    if (c->phase == CLIENT_CLOSING)
        return;
    if (err != 0) {
        conn_fail(c, uv_strerror(err));
        return;
    }
    if (t->tls != NULL && tls_conn_new(t->tls, &target, &tls) != ST_OK) {
        conn_fail(c, "TLS cannot begin");
        return;
    }
    c->phase = CLIENT_SECURING;
    if (http_wire_start(&c->wire, tls, false) != ST_OK)
        conn_fail(c, "the connection broke");
    else if (tls == NULL && c->phase == CLIENT_SECURING)
        conn_ready(c);
}

static enum status conn_dial(struct http_client_conn *c, const struct sockaddr *to)
{
    ASSERT(c->phase == CLIENT_RESOLVING);
    c->phase = CLIENT_CONNECTING;
    return loop_status(uv_tcp_connect(&c->connect, &c->wire.tcp, to, conn_on_connected));
}

static void conn_on_resolved(uv_getaddrinfo_t *resolve, int err, struct addrinfo *found)
{
    struct http_client_conn *c = CONTAINER_OF(resolve, struct http_client_conn, resolve);
    ASSERT(c->resolving);
    c->resolving = false;
    if (c->phase == CLIENT_CLOSING)
        conn_released(c);
    else if (err != 0 || found == NULL)
        conn_fail(c, err != 0 ? uv_strerror(err) : "no such name");
    else if (conn_dial(c, found->ai_addr) != ST_OK)
        conn_fail(c, "cannot connect");
    uv_freeaddrinfo(found);
}

/* `address` is "name:port", or numbers that http_address_parse reads. */
static enum status conn_start(struct http_client_conn *c, const char *address)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct sockaddr_storage to;
    char name[256];
    const char *colon = strrchr(address, ':');
    if (http_address_parse(address, &to, NULL) == ST_OK)
        return conn_dial(c, (const struct sockaddr *)&to);
    if (colon == NULL || colon == address || (size_t)(colon - address) >= sizeof name)
        return ST_INVALID;
    memcpy(name, address, (size_t)(colon - address));
    name[colon - address] = '\0';
    TRY(loop_status(uv_getaddrinfo(loop_uv(c->client->env), &c->resolve, conn_on_resolved, name,
                                   colon + 1, &hints)));
    c->resolving = true;
    return ST_OK;
}

enum status http_client_connect(struct http_client_target *target)
{
    struct http_client *client = target->client;
    struct http_client_conn *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return ST_NOMEM;
    enum status st =
        http_wire_init(&c->wire, loop_uv(client->env), &wire_ops, &client->scratch, false);
    if (st != ST_OK) {
        mem_free(c);
        return st;
    }
    c->client = client;
    c->target = target;
    c->timer.fire = conn_on_timer;
    list_push(&target->active, &c->link);
    target->n_conns++;
    target->n_connecting++;
    client->n_conns++;
    env_timer_set(client->env, &c->timer, env_mono_ms(client->env) + client->limits.connect_ms);
    st = conn_start(c, target->address);
    if (st != ST_OK)
        conn_shut(c);
    return st;
}
