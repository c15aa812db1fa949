/* One HTTP/1.1 request over a blocking socket, with or without TLS.
 *
 * The reply is parsed as it arrives (incoming.h), so that a long body can go to a file. */
#include "cli/dialect/dialect.h"
#include "cli/incoming.h"
#include "crypto/tls.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024,
    HOST_MAX = 256,
    PORT_MAX = 8,
    CONNECT_MS = 5000, /* the longest wait for a connection while another node can be tried */
};

/* The parts of an address "https://host:port/prefix". */
struct target {
    bool tls, v6;
    char host[HOST_MAX], port[PORT_MAX];
    const char *prefix;
};

struct link {
    int fd;
    struct tls_ctx *ctx;
    struct tls_conn *tls;
};

static void link_done(struct link *l)
{
    tls_conn_free(l->tls);
    tls_ctx_unref(l->ctx);
    if (l->fd >= 0)
        (void)close(l->fd); /* the exchange is over: no data is lost */
}

static enum status parse_address(const char *address, struct target *t, struct reason *reason)
{
    const char *at = address;
    *t = (struct target){.prefix = ""};
    if (strncmp(at, "https://", 8) == 0) {
        t->tls = true;
        at += 8;
    } else if (strncmp(at, "http://", 7) == 0) {
        at += 7;
    } else {
        reason_set(reason, "address \"%s\" does not begin with https:// or http://", address);
        return ST_INVALID;
    }
    const char *host = at, *end;
    if (*at == '[') {
        t->v6 = true;
        host = at + 1;
        end = strchr(at, ']');
        at = end != NULL ? end + 1 : at;
    } else {
        end = at + strcspn(at, ":/");
        at = end;
    }
    size_t host_len = end != NULL ? (size_t)(end - host) : 0, port_len = 0;
    const char *port = t->tls ? "443" : "80";
    if (*at == ':') {
        port = ++at;
        port_len = strspn(at, "0123456789");
        at += port_len;
    } else {
        port_len = strlen(port);
    }
    if (host_len == 0 || host_len >= HOST_MAX || port_len == 0 || port_len >= PORT_MAX ||
        (*at != '\0' && *at != '/')) {
        reason_set(reason, "address \"%s\" is not scheme://host:port", address);
        return ST_INVALID;
    }
    memcpy(t->host, host, host_len);
    memcpy(t->port, port, port_len);
    t->prefix = strcmp(at, "/") == 0 ? "" : at;
    return ST_OK;
}

/* Connect. With a timeout set, a signal interrupts connect(), and so do a stopped terminal job and
 * io_uring. Linux goes on connecting in the background: the next call waits for the outcome. */
static int connect_whole(int fd, const struct addrinfo *to)
{
    int rc;
    do
        rc = connect(fd, to->ai_addr, to->ai_addrlen);
    while (rc != 0 && errno == EINTR);
    return rc;
}

static int limit_waits(int fd, int64_t ms)
{
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    ASSERT(ms > 0); /* 0 would be no limit */
    int rc = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return rc != 0 ? rc : setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static enum status dial(const struct target *t, int64_t timeout_ms, int64_t connect_ms, int *ret_fd,
                        struct reason *reason)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(t->host, t->port, &hints, &found), err = 0;
    if (rc != 0) {
        reason_set(reason, "%s: %s", t->host, gai_strerror(rc));
        return ST_IO;
    }
    for (struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && limit_waits(fd, connect_ms) == 0 && connect_whole(fd, a) == 0 &&
            limit_waits(fd, timeout_ms) == 0) {
            freeaddrinfo(found);
            *ret_fd = fd;
            return ST_OK;
        }
        err = errno;
        if (fd >= 0)
            (void)close(fd); /* the socket was not used */
    }
    freeaddrinfo(found);
    reason_set(reason, "%s:%s: %s", t->host, t->port, strerror(err));
    return ST_IO;
}

static enum status link_send(struct link *l, struct bytes out, struct reason *reason)
{
    while (out.len > 0) {
        ssize_t n = send(l->fd, out.data, out.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            reason_set(reason, "the request could not be sent: %s", strerror(errno));
            return ST_IO;
        }
        out = bytes_from(out, (size_t)n);
    }
    return ST_OK;
}

static enum status link_flush(struct link *l, struct reason *reason)
{
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(l->tls, &out);
    return link_send(l, buf_bytes(&out), reason);
}

/* Read bytes from the socket; *ret_n 0: the connection ended. */
static enum status link_receive(struct link *l, uint8_t *into, size_t room, size_t *ret_n,
                                struct reason *reason)
{
    ssize_t n;
    do
        n = recv(l->fd, into, room, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        bool late = errno == EAGAIN || errno == EWOULDBLOCK;
        reason_set(reason, "no reply: %s", late ? "timed out" : strerror(errno));
        return late ? ST_TIMEOUT : ST_IO;
    }
    *ret_n = (size_t)n;
    return ST_OK;
}

/* Read ciphertext from the socket and append its plaintext to `out`. *ret_end is set to true at the
 * end of the stream. */
static enum status tls_pump(struct link *l, struct buf *out, bool *ret_end, struct reason *reason)
{
    uint8_t cipher[READ_BYTES];
    size_t n = 0, got;
    TRY(link_receive(l, cipher, sizeof cipher, &n, reason));
    if (n == 0)
        tls_feed_end(l->tls);
    else
        TRY(tls_feed(l->tls, bytes_of(cipher, n)));
    for (;;) {
        enum status reserved = buf_reserve(out, READ_BYTES);
        if (reserved != ST_OK)
            return reserved;
        enum status st = tls_read(l->tls, out->data + out->len, READ_BYTES, &got);
        if (st == ST_CLOSED) {
            *ret_end = true;
            return ST_OK;
        }
        if (st == ST_BUSY) {
            TRY(link_flush(l, reason));
            continue;
        }
        if (st != ST_OK) {
            (void)link_flush(l, NULL); /* send the alert if the connection still works */
            reason_set(reason, "TLS: %s", tls_error(l->tls));
            return st;
        }
        out->len += got;
        ASSERT(out->len <= out->cap);
        if (got == 0)
            return link_flush(l, reason);
    }
}

static enum cli_tls_fault fault_of(enum tls_distrust distrust)
{
    switch (distrust) {
    case TLS_UNKNOWN_ISSUER: return CLI_TLS_UNTRUSTED;
    case TLS_OTHER_HOST: return CLI_TLS_OTHER_HOST;
    case TLS_NOT_NOW: return CLI_TLS_NOT_NOW;
    case TLS_TRUSTED: break;
    }
    return CLI_TLS_REFUSED;
}

static enum status handshake(struct cli *cli, struct link *l, const struct target *t,
                             struct reason *reason)
{
    CLEANUP(buf_done) struct buf early = {0};
    bool end = false;
    struct tls_options options = {
        .insecure = cli->insecure, .ca = {.path = cli->ca_file}, .alpn = "http/1.1"};
    struct tls_target target = {.host = t->host};
    TRY(tls_ctx_new(&options, &l->ctx, reason));
    TRY(tls_conn_new(l->ctx, &target, &l->tls));
    TRY(link_flush(l, reason));
    while (tls_conn_phase(l->tls) == TLS_HANDSHAKE && !end) {
        enum status st = tls_pump(l, &early, &end, reason);
        if (st == ST_CRYPTO)
            cli->tls_fault = fault_of(tls_distrust(l->tls));
        TRY(st);
    }
    if (end || early.len != 0) {
        reason_set(reason, "TLS: the server closed the connection during the handshake");
        return ST_CRYPTO;
    }
    return ST_OK;
}

static enum status link_write(struct link *l, struct bytes data, struct reason *reason)
{
    if (l->tls == NULL)
        return link_send(l, data, reason);
    while (data.len > 0) {
        struct bytes piece = bytes_of(data.data, MIN(data.len, (size_t)READ_BYTES));
        TRY(tls_write(l->tls, &piece, 1));
        TRY(link_flush(l, reason));
        data = bytes_from(data, piece.len);
    }
    return ST_OK;
}

/* Send `left` bytes of the file; Content-Length announced this number. If the file has become
 * shorter, the request fails. */
static enum status link_write_file(struct link *l, FILE *file, uint64_t left, struct reason *reason)
{
    uint8_t piece[READ_BYTES];
    while (left > 0) {
        size_t n = fread(piece, 1, (size_t)MIN(left, (uint64_t)sizeof piece), file);
        if (n == 0) {
            reason_set(reason, "the file cannot be read to its end");
            return ST_IO;
        }
        ASSERT(n <= left);
        TRY(link_write(l, bytes_of(piece, n), reason));
        left -= n;
    }
    return ST_OK;
}

static enum status link_read(struct link *l, struct buf *raw, bool *ret_end, struct reason *reason)
{
    size_t n = 0;
    if (l->tls != NULL)
        return tls_pump(l, raw, ret_end, reason);
    TRY(buf_reserve(raw, READ_BYTES));
    TRY(link_receive(l, raw->data + raw->len, READ_BYTES, &n, reason));
    raw->len += n;
    *ret_end = n == 0;
    return ST_OK;
}

static enum status read_answer(struct link *l, struct incoming *in, struct reason *reason)
{
    CLEANUP(buf_done) struct buf raw = {0};
    bool end = false;
    while (!incoming_over(in)) {
        if (end) {
            enum status st = incoming_end(in);
            if (st != ST_OK)
                reason_set(reason, "the connection ended before the end of the reply");
            return st;
        }
        TRY(link_read(l, &raw, &end, reason));
        enum status st = incoming_feed(in, &raw);
        if (st != ST_OK) {
            reason_set(reason, "%s",
                       st == ST_INVALID   ? "the reply is not HTTP"
                       : st == ST_TOO_BIG ? "the reply is too long"
                                          : "the reply cannot be stored");
            return st;
        }
    }
    return ST_OK;
}

/* One request of a command. */
struct message {
    const struct cli_request *request;
    const char *path;
    struct bytes tail; /* headers and body of the request */
    uint64_t upload_bytes;
};

static enum status exchange(struct link *l, const struct message *m, struct bytes request,
                            struct incoming *in, struct reason *reason)
{
    ASSERT(m->request->upload != NULL || m->upload_bytes == 0);
    enum status sent = link_write(l, request, reason);
    if (sent == ST_OK && m->request->upload != NULL)
        sent = link_write_file(l, m->request->upload, m->upload_bytes, reason);
    if (sent != ST_OK && (m->request->upload == NULL || sent != ST_IO))
        return sent;
    /* A server that refuses an upload may reply, and close, before it has read the whole upload. */
    struct reason why = {{0}};
    enum status st = read_answer(l, in, sent == ST_OK ? reason : &why);
    return sent == ST_OK || st == ST_OK ? st : sent;
}

/* *ret_alone is set to true when a connection was made: no other node may be asked then. */
static enum status send_once(struct cli *cli, const char *address, const struct message *m,
                             struct incoming *in, bool *ret_alone, struct reason *reason)
{
    int64_t connect_ms = *ret_alone ? cli->timeout_ms : MIN(cli->timeout_ms, CONNECT_MS);
    CLEANUP(link_done) struct link l = {.fd = -1};
    CLEANUP(buf_done) struct buf request = {0};
    struct target t;
    TRY(parse_address(address, &t, reason));
    buf_add_format(&request, "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", m->request->method,
                   t.prefix, m->path, t.v6 ? "[" : "", t.host, t.v6 ? "]" : "", t.port);
    buf_add(&request, m->tail);
    TRY(buf_status(&request));
    TRY(dial(&t, cli->timeout_ms, connect_ms, &l.fd, reason));
    *ret_alone = true;
    if (t.tls)
        TRY(handshake(cli, &l, &t, reason));
    return exchange(&l, m, buf_bytes(&request), in, reason);
}

enum status cli_add_header(struct buf *to, const char *name, const char *value,
                           struct reason *reason)
{
    if (value == NULL || value[0] == '\0')
        return ST_OK;
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F) {
            reason_set(reason, "header %s: the value contains a control character", name);
            return ST_INVALID;
        }
    buf_add_format(to, "%s: %s\r\n", name, value);
    return ST_OK;
}

static enum status add_own_headers(struct cli *cli, struct buf *b, struct reason *reason)
{
    unsigned at = 0;
    for (const char *pair; (pair = cli_each(cli, "header", &at)) != NULL;) {
        char name[128];
        size_t len = strcspn(pair, "=");
        if (len >= sizeof name || strspn(pair, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                                               "XYZ0123456789-_") != len) {
            reason_set(reason, "flag -header: a name consists of letters, digits and dashes");
            return ST_INVALID;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)len, pair); /* the text fits */
        TRY(cli_add_header(b, name, pair + len + 1, reason));
    }
    return ST_OK;
}

static enum status compose(struct cli *cli, const struct cli_request *request,
                           uint64_t upload_bytes, struct buf *tail, struct reason *reason)
{
    const char *type = request->content_type != NULL ? request->content_type : "application/json";
    bool body = request->body.len != 0 || request->upload != NULL;
    ASSERT(request->upload == NULL || request->body.len == 0);
    buf_add_str(tail, "Connection: close\r\n");
    TRY(cli_dialect_of(cli->command)->headers(cli, request, tail, reason));
    TRY(add_own_headers(cli, tail, reason));
    if (body)
        TRY(cli_add_header(tail, "Content-Type", type, reason));
    if (body || strcmp(request->method, "GET") != 0)
        buf_add_format(
            tail, "Content-Length: %llu\r\n",
            (unsigned long long)(request->upload != NULL ? upload_bytes : request->body.len));
    buf_add_str(tail, "\r\n");
    buf_add(tail, request->body);
    return buf_status(tail);
}

static enum status upload_size(FILE *file, uint64_t *ret_bytes, struct reason *reason)
{
    struct stat info;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        reason_set(reason, "only a regular file can be sent");
        return ST_INVALID;
    }
    *ret_bytes = (uint64_t)info.st_size;
    return ST_OK;
}

/* Follow a redirect to a whole URL. The token is sent again, so a redirect from https to http is
 * refused. */
static enum status follow(struct cli *cli, struct message *m, struct incoming *in,
                          struct reason *reason)
{
    char *next = arena_format(&cli->arena, "%s", in->location);
    if (next == NULL)
        return ST_NOMEM;
    ASSERT(in->status == 307);
    if (strncmp(cli->address, "https://", 8) == 0 && strncmp(next, "https://", 8) != 0) {
        reason_set(reason, "the server redirects to \"%.100s\", which is not https", next);
        return ST_INVALID;
    }
    if (m->request->upload != NULL) {
        reason_set(reason, "the server redirects to \"%.100s\": name that as the address", next);
        return ST_INVALID;
    }
    bool alone = true;
    m->path = "";
    incoming_done(in);
    incoming_init(in, m->request->download, CLI_REPLY_MAX);
    return send_once(cli, next, m, in, &alone, reason);
}

/* Send to cli->address, or to the next of cli->nodes that a connection can be made to. */
static enum status send_to_one(struct cli *cli, const struct message *m, struct incoming *in,
                               struct reason *reason)
{
    const char *first = cli->address, *at = cli->nodes, *node;
    bool alone = !cli_names_node(cli->nodes, first);
    enum status st = send_once(cli, first, m, in, &alone, reason);
    while (st == ST_IO && !alone && (node = cli_next_node(&cli->arena, &at)) != NULL) {
        if (strcmp(node, first) == 0)
            continue;
        cli_say("%s: trying %s\n", reason->text, node);
        st = send_once(cli, node, m, in, &alone, reason);
        ASSERT(alone || st != ST_OK);
        if (alone)
            cli->address = node;
    }
    return st;
}

enum status cli_send(struct cli *cli, const struct cli_request *request,
                     struct cli_reply *ret_reply, struct reason *reason)
{
    CLEANUP(buf_done) struct buf tail = {0};
    CLEANUP(incoming_done) struct incoming in = {0};
    struct message m = {.request = request, .path = request->path};
    ASSERT(request->path != NULL && request->method != NULL);
    if (request->upload != NULL)
        TRY(upload_size(request->upload, &m.upload_bytes, reason));
    TRY(compose(cli, request, m.upload_bytes, &tail, reason));
    m.tail = buf_bytes(&tail);
    incoming_init(&in, request->download, CLI_REPLY_MAX);
    TRY(send_to_one(cli, &m, &in, reason));
    if (in.status == 307 && in.location[0] != '\0')
        TRY(follow(cli, &m, &in, reason));
    ASSERT(incoming_over(&in));
    ASSERT(in.status >= 200);
    uint8_t *copy = arena_dup(&cli->arena, buf_bytes(&in.body));
    char *id = arena_format(&cli->arena, "%s", in.request_id);
    if (copy == NULL || id == NULL)
        return ST_NOMEM;
    *ret_reply = (struct cli_reply){
        .status = in.status, .body = bytes_of(copy, in.body.len), .request_id = id};
    return ST_OK;
}
