#include "http/upgrade.h"

#include "crypto/sha1.h"
#include "crypto/tls.h"
#include "http/server.h"
#include "text/encode.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

enum { KEY_LEN = 24, ACCEPT_TEXT = 128 };

static bool has_word(struct bytes list, const char *word)
{
    size_t len = strlen(word);
    ASSERT(len != 0);
    for (size_t i = 0; i + len <= list.len; i++) {
        bool begins = i == 0 || list.data[i - 1] == ',' || list.data[i - 1] == ' ';
        bool ends = i + len == list.len || list.data[i + len] == ',' || list.data[i + len] == ' ';
        if (begins && ends && strncasecmp((const char *)list.data + i, word, len) == 0)
            return true;
    }
    return false;
}

bool http_upgrade_asked(const struct http_request *req, struct bytes *ret_key)
{
    struct bytes key = http_header(req, "sec-websocket-key");
    struct bytes version = http_header(req, "sec-websocket-version");
    bool asked = req->method == METHOD_GET && has_word(http_header(req, "upgrade"), "websocket") &&
                 has_word(http_header(req, "connection"), "upgrade");
    bool good = key.len == KEY_LEN && version.len == 2 && memcmp(version.data, "13", 2) == 0;
    *ret_key = good ? key : (struct bytes){0};
    return asked;
}

enum status http_upgrade_accept(struct bytes key, struct buf *out)
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    uint8_t digest[CRYPTO_SHA1_BYTES], text[KEY_LEN + sizeof magic];
    char accept[TEXT_BASE64_LEN(CRYPTO_SHA1_BYTES) + 1];
    ASSERT(key.len == KEY_LEN);
    memcpy(text, key.data, KEY_LEN);
    memcpy(text + KEY_LEN, magic, sizeof magic);
    TRY(crypto_sha1(bytes_of(text, KEY_LEN + sizeof magic - 1), digest));
    (void)text_base64_put(bytes_of(digest, sizeof digest), TEXT_BASE64,
                          accept); /* the length is known */
    buf_add_format(out,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                   accept);
    return buf_status(out);
}

/* Move the connection out of its server. */
static enum status upgrade_take(struct http_exchange *x, struct http_taken *ret_taken)
{
    struct http_conn *c = x->conn;
    uv_os_fd_t fd;
    ASSERT(x->given);
    if (c == NULL || c->peer_ended || http_wire_pending(&c->wire))
        return ST_CLOSED;
    ASSERT(!c->parsing && !c->settling && !x->replying);
    if (uv_fileno((const uv_handle_t *)&c->wire.tcp, &fd) != 0)
        return ST_IO;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return status_from_errno(errno);
    *ret_taken = (struct http_taken){.fd = copy,
                                     .tls = c->wire.tls,
                                     .early = c->in,
                                     .client = c->client,
                                     .client_port = c->client_port};
    c->wire.tls = NULL;
    c->in = (struct buf){0};
    http_conn_close(c);
    return ST_OK;
}

struct upgrade {
    struct env_task task;
    struct http_request *req;
    http_upgrade_fn *done;
    bool lends;
};

static void on_upgrade(struct env_task *task)
{
    struct upgrade *upgrade = CONTAINER_OF(task, struct upgrade, task);
    struct http_request *req = upgrade->req;
    ASSERT(upgrade->done != NULL);
    struct http_taken taken = {.fd = -1};
    enum status st = upgrade_take(CONTAINER_OF(req, struct http_exchange, req), &taken);
    bool lent = upgrade->lends && st == ST_OK;
    upgrade->done(req, st, &taken); /* maybe the last touch of a lent request */
    if (lent)
        return;
    /* goes nowhere after a success */
    http_respond(req, &(struct http_reply){.status = status_http(ST_CLOSED), .close = true});
}

static void upgrade_begin(struct http_request *req, http_upgrade_fn *done, bool lends)
{
    struct upgrade *upgrade = arena_alloc(&req->arena, sizeof *upgrade);
    ASSERT(done != NULL);
    if (upgrade == NULL) {
        http_respond(req, &(struct http_reply){.status = status_http(ST_NOMEM), .close = true});
        return;
    }
    *upgrade =
        (struct upgrade){.task = {.run = on_upgrade}, .req = req, .done = done, .lends = lends};
    env_post(CONTAINER_OF(req, struct http_exchange, req)->server->env, &upgrade->task);
}

void http_upgrade(struct http_request *req, http_upgrade_fn *done)
{
    upgrade_begin(req, done, false);
}

void http_lend(struct http_request *req, http_upgrade_fn *done)
{
    upgrade_begin(req, done, true);
}

static void on_back(struct env_task *task)
{
    struct http_back *back = CONTAINER_OF(task, struct http_back, task);
    ASSERT(back->freed != NULL);
    ASSERT(back->req != NULL);
    struct http_request *req = back->req;
    struct http_server *server = CONTAINER_OF(req, struct http_exchange, req)->server;
    struct http_taken *taken = &back->taken;
    if (!back->gone) {
        enum status st = http_server_take_back(server, taken);
        (void)st; /* without memory the connection is closed, also then */
        buf_done(&taken->early);
    }
    back->freed(back);
    http_respond(req, &(struct http_reply){.status = status_http(ST_CLOSED), .close = true});
}

void http_return(struct http_back *back)
{
    back->task = (struct env_task){.run = on_back};
    env_post(CONTAINER_OF(back->req, struct http_exchange, req)->server->env, &back->task);
}

void http_taken_done(struct http_taken *taken)
{
    if (taken->fd >= 0)
        (void)close(taken->fd); /* nothing was promised to the peer */
    tls_conn_free(taken->tls);
    buf_done(&taken->early);
}
