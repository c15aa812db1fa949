/* One HTTP/1.1 request over a blocking socket, with or without TLS. */
#include "cli/cli.h"
#include "crypto/tls.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMEOUT_S = 60, READ_BYTES = 64 * 1024, HOST_MAX = 256, PORT_MAX = 8 };

/* The parts of "https://host:port/prefix". */
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
        (void)close(l->fd); /* nothing is waiting in it */
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

static enum status dial(const struct target *t, int *ret_fd, struct reason *reason)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = TIMEOUT_S};
    int rc = getaddrinfo(t->host, t->port, &hints, &found), err = 0;
    if (rc != 0) {
        reason_set(reason, "%s: %s", t->host, gai_strerror(rc));
        return ST_IO;
    }
    for (struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
            connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            freeaddrinfo(found);
            *ret_fd = fd;
            return ST_OK;
        }
        err = errno;
        if (fd >= 0)
            (void)close(fd); /* unused */
    }
    freeaddrinfo(found);
    reason_set(reason, "%s:%s: %s", t->host, t->port, strerror(err));
    return ST_IO;
}

static enum status send_all(struct link *l, struct bytes out, struct reason *reason)
{
    while (out.len > 0) {
        ssize_t n = send(l->fd, out.data, out.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            reason_set(reason, "sending: %s", strerror(errno));
            return ST_IO;
        }
        out = bytes_from(out, (size_t)n);
    }
    return ST_OK;
}

static enum status flush(struct link *l, struct reason *reason)
{
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(l->tls, &out);
    return send_all(l, buf_bytes(&out), reason);
}

/* Bytes from the socket; *ret_n 0 at its end. */
static enum status receive(struct link *l, uint8_t *into, size_t room, size_t *ret_n,
                           struct reason *reason)
{
    ssize_t n;
    do
        n = recv(l->fd, into, room, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        bool late = errno == EAGAIN || errno == EWOULDBLOCK;
        reason_set(reason, "no answer: %s", late ? "timed out" : strerror(errno));
        return late ? ST_TIMEOUT : ST_IO;
    }
    *ret_n = (size_t)n;
    return ST_OK;
}

/* Take ciphertext in and append what it means to `out`; *ret_end at the end of the stream. */
static enum status tls_pump(struct link *l, struct buf *out, bool *ret_end, struct reason *reason)
{
    uint8_t cipher[READ_BYTES];
    size_t n = 0, got;
    TRY(receive(l, cipher, sizeof cipher, &n, reason));
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
            TRY(flush(l, reason));
            continue;
        }
        if (st != ST_OK) {
            (void)flush(l, NULL); /* the alert, if it can still be said */
            reason_set(reason, "TLS: %s", tls_error(l->tls));
            return st;
        }
        out->len += got;
        if (got == 0)
            return flush(l, reason);
    }
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
    TRY(flush(l, reason));
    while (tls_conn_phase(l->tls) == TLS_HANDSHAKE && !end)
        TRY(tls_pump(l, &early, &end, reason));
    if (end || early.len != 0) {
        reason_set(reason, "TLS: the server hung up");
        return ST_CRYPTO;
    }
    return ST_OK;
}

static enum status exchange(struct link *l, struct bytes request, struct buf *ret_answer,
                            struct reason *reason)
{
    bool end = false;
    if (l->tls == NULL) {
        TRY(send_all(l, request, reason));
    } else {
        while (request.len > 0) {
            struct bytes piece = bytes_of(request.data, MIN(request.len, (size_t)READ_BYTES));
            TRY(tls_write(l->tls, &piece, 1));
            TRY(flush(l, reason));
            request = bytes_from(request, piece.len);
        }
    }
    while (!end) {
        if (ret_answer->len > CLI_REPLY_MAX)
            return ST_TOO_BIG;
        if (l->tls != NULL) {
            TRY(tls_pump(l, ret_answer, &end, reason));
            continue;
        }
        size_t n = 0;
        TRY(buf_reserve(ret_answer, READ_BYTES));
        TRY(receive(l, ret_answer->data + ret_answer->len, READ_BYTES, &n, reason));
        ret_answer->len += n;
        end = n == 0;
    }
    return ST_OK;
}

static struct bytes line_of(struct bytes *rest)
{
    const uint8_t *end = rest->len != 0 ? memmem(rest->data, rest->len, "\r\n", 2) : NULL;
    size_t n = end != NULL ? (size_t)(end - rest->data) : rest->len;
    struct bytes line = bytes_of(rest->data, n);
    *rest = bytes_from(*rest, end != NULL ? n + 2 : n);
    return line;
}

static bool header_is(struct bytes line, const char *name, struct bytes *ret_value)
{
    size_t n = strlen(name);
    if (line.len <= n || line.data[n] != ':' || strncasecmp((const char *)line.data, name, n) != 0)
        return false;
    struct bytes v = bytes_from(line, n + 1);
    while (v.len > 0 && (*v.data == ' ' || *v.data == '\t'))
        v = bytes_from(v, 1);
    *ret_value = v;
    return true;
}

/* In place: the chunks moved together. ST_INVALID when it ends early. */
static enum status unchunk(uint8_t *data, size_t len, size_t *ret_len)
{
    struct bytes rest = bytes_of(data, len);
    size_t out = 0;
    for (;;) {
        struct bytes line = line_of(&rest);
        size_t size = 0, digits = 0;
        while (digits < line.len && digits < 8 && text_hex_digit(line.data[digits]) < 16)
            size = size * 16 + text_hex_digit(line.data[digits++]);
        if (digits == 0 || size > rest.len)
            return ST_INVALID;
        if (size == 0)
            break;
        memmove(data + out, rest.data, size);
        out += size;
        rest = bytes_from(rest, size);
        if (line_of(&rest).len != 0)
            return ST_INVALID;
    }
    *ret_len = out;
    return ST_OK;
}

static enum status parse_answer(struct cli *cli, struct buf *answer, struct cli_reply *ret_reply,
                                struct bytes *ret_location)
{
    struct bytes rest = buf_bytes(answer), line = line_of(&rest), value;
    bool chunked = false;
    int64_t length = -1;
    ret_reply->status = 0;
    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0)
        return ST_INVALID;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return ST_INVALID;
        ret_reply->status = ret_reply->status * 10 + (line.data[i] - '0');
    }
    *ret_location = (struct bytes){0};
    while ((line = line_of(&rest)).len != 0) {
        if (header_is(line, "Transfer-Encoding", &value))
            chunked = true;
        else if (header_is(line, "Content-Length", &value))
            TRY(text_int_parse(value, &length));
        else if (header_is(line, "Location", &value))
            *ret_location = value;
    }
    size_t len = rest.len;
    if (chunked)
        TRY(unchunk(answer->data + (rest.data - answer->data), rest.len, &len));
    else if (length >= 0 && (uint64_t)length != len)
        return ST_INVALID;
    struct bytes body = bytes_of(rest.data, len);
    uint8_t *copy = arena_dup(&cli->arena, body);
    if (copy == NULL)
        return ST_NOMEM;
    ret_reply->body = bytes_of(copy, len);
    return ST_OK;
}

static void add_header(struct buf *b, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0')
        buf_add_format(b, "%s: %s\r\n", name, value);
}

/* One request of a command. */
struct message {
    const char *method, *path;
    struct bytes tail; /* headers and body */
};

static enum status send_once(struct cli *cli, const char *address, const struct message *m,
                             struct cli_reply *ret_reply, struct bytes *ret_location,
                             struct reason *reason)
{
    CLEANUP(link_done) struct link l = {.fd = -1};
    CLEANUP(buf_done) struct buf request = {0};
    CLEANUP(buf_done) struct buf answer = {0};
    struct target t;
    TRY(parse_address(address, &t, reason));
    buf_add_format(&request, "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", m->method, t.prefix,
                   m->path, t.v6 ? "[" : "", t.host, t.v6 ? "]" : "", t.port);
    buf_add(&request, m->tail);
    TRY(buf_status(&request));
    TRY(dial(&t, &l.fd, reason));
    if (t.tls)
        TRY(handshake(cli, &l, &t, reason));
    TRY(exchange(&l, buf_bytes(&request), &answer, reason));
    enum status st = parse_answer(cli, &answer, ret_reply, ret_location);
    if (st == ST_INVALID)
        reason_set(reason, "%s does not answer in HTTP", address);
    if (st == ST_OK && ret_location->len != 0) { /* it lies in `answer` */
        uint8_t *copy = arena_dup(&cli->arena, *ret_location);
        if (copy == NULL)
            return ST_NOMEM;
        ret_location->data = copy;
    }
    return st;
}

/* To where the server points: a whole URL. The token goes along, so never out of TLS. */
static enum status follow(struct cli *cli, struct message *m, struct bytes location,
                          struct cli_reply *ret_reply, struct reason *reason)
{
    struct bytes ignored;
    char *next = arena_str(&cli->arena, location);
    if (next == NULL)
        return ST_NOMEM;
    if (strncmp(cli->address, "https://", 8) == 0 && strncmp(next, "https://", 8) != 0) {
        reason_set(reason, "the server points to \"%.100s\", which is not https", next);
        return ST_INVALID;
    }
    m->path = "";
    return send_once(cli, next, m, ret_reply, &ignored, reason);
}

enum status cli_send(struct cli *cli, const char *method, const char *path, struct bytes body,
                     struct cli_reply *ret_reply, struct reason *reason)
{
    CLEANUP(buf_done) struct buf tail = {0};
    struct bytes location;
    buf_add_str(&tail, "Connection: close\r\nX-Secrets-Request: true\r\n");
    add_header(&tail, "X-Secrets-Token", cli->token);
    add_header(&tail, "X-Secrets-Namespace", cli->name_space);
    if (body.len != 0)
        buf_add_str(&tail, "Content-Type: application/json\r\n");
    if (body.len != 0 || strcmp(method, "PUT") == 0)
        buf_add_format(&tail, "Content-Length: %zu\r\n", body.len);
    buf_add_str(&tail, "\r\n");
    buf_add(&tail, body);
    TRY(buf_status(&tail));
    struct message m = {.method = method, .path = path, .tail = buf_bytes(&tail)};
    TRY(send_once(cli, cli->address, &m, ret_reply, &location, reason));
    if (ret_reply->status != 307 || location.len == 0)
        return ST_OK;
    return follow(cli, &m, location, ret_reply, reason);
}
