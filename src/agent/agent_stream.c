/* Connections to one server that become WebSockets: libcurl makes the connection and its TLS. */
#include "agent/agent_internal.h"

#include "base/mem.h"
#include "text/encode.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>

enum { HEAD_MAX = 4096, HEAD_MS = 10000, KEY_BYTES = 16 };

struct stream {
    CURL *curl;
    curl_socket_t fd;
    struct buf early; /* input behind the head of the reply */
};

void stream_close(struct stream *stream)
{
    if (stream == NULL)
        return;
    curl_easy_cleanup(stream->curl);
    buf_done(&stream->early);
    mem_free(stream);
}

int stream_fd(const struct stream *stream)
{
    return stream->fd;
}

enum status stream_read(struct stream *stream, void *to, size_t room, size_t *ret_n)
{
    if (stream->early.len != 0) {
        *ret_n = MIN(room, stream->early.len);
        memcpy(to, stream->early.data, *ret_n);
        buf_consume(&stream->early, *ret_n);
        return ST_OK;
    }
    *ret_n = 0;
    CURLcode rc = curl_easy_recv(stream->curl, to, room, ret_n);
    if (rc == CURLE_AGAIN)
        return ST_OK;
    return rc == CURLE_OK && *ret_n != 0 ? ST_OK : ST_CLOSED;
}

enum status stream_write(struct stream *stream, struct buf *from)
{
    while (from->len != 0) {
        size_t n = 0;
        CURLcode rc = curl_easy_send(stream->curl, from->data, from->len, &n);
        if (rc == CURLE_AGAIN)
            return ST_OK;
        if (rc != CURLE_OK)
            return ST_CLOSED;
        buf_consume(from, n);
    }
    return ST_OK;
}

/* Send the head of the request. */
static enum status send_head(struct stream *stream, const char *server, const char *path)
{
    CLEANUP(buf_done) struct buf head = {0};
    uint8_t random[KEY_BYTES];
    char key[TEXT_BASE64_LEN(KEY_BYTES) + 1];
    const char *host = strstr(server, "://");
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ST_CRYPTO;
    (void)text_base64_put(bytes_of(random, sizeof random), TEXT_BASE64, key); /* length known */
    buf_add_format(&head,
                   "GET /v1/%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
                   "X-Scheduler-Token: %s\r\n\r\n",
                   path, host != NULL ? host + 3 : server, key, agent.secret);
    TRY(buf_status(&head));
    while (head.len != 0) {
        struct pollfd fd = {.fd = stream->fd, .events = POLLOUT};
        TRY(stream_write(stream, &head));
        if (head.len != 0 && poll(&fd, 1, HEAD_MS) <= 0)
            return ST_TIMEOUT;
    }
    return ST_OK;
}

/* Read the head of the reply, which must be 101. */
static enum status stream_read_head(struct stream *stream)
{
    struct buf in = {0};
    enum status st = ST_OK;
    const uint8_t *end = NULL;
    while (st == ST_OK && end == NULL) {
        char part[1024];
        size_t n = 0;
        struct pollfd fd = {.fd = stream->fd, .events = POLLIN};
        st = stream_read(stream, part, sizeof part, &n);
        if (st == ST_OK && n == 0 && poll(&fd, 1, HEAD_MS) <= 0)
            st = ST_TIMEOUT;
        buf_add(&in, bytes_of(part, n));
        end = in.len >= 4 ? memmem(in.data, in.len, "\r\n\r\n", 4) : NULL;
        if (in.len > HEAD_MAX && end == NULL)
            st = ST_TOO_BIG;
    }
    bool taken = st == ST_OK && in.len > 12 && memcmp(in.data, "HTTP/1.1 101", 12) == 0;
    if (taken)
        buf_add(&stream->early, bytes_from(buf_bytes(&in), (size_t)(end + 4 - in.data)));
    buf_done(&in);
    return st != ST_OK ? st : taken ? buf_status(&stream->early) : ST_DENIED;
}

enum status stream_open(const char *server, const char *path, struct stream **ret_stream)
{
    struct stream *stream = mem_zalloc(sizeof *stream);
    if (stream == NULL)
        return ST_NOMEM;
    stream->curl = curl_easy_init();
    bool good = stream->curl != NULL;
    good = good && curl_easy_setopt(stream->curl, CURLOPT_URL, server) == CURLE_OK;
    good = good && curl_easy_setopt(stream->curl, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(stream->curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(stream->curl, CURLOPT_CONNECTTIMEOUT, 3L) == CURLE_OK;
    if (agent.config.ca_file[0] != '\0')
        good = good &&
               curl_easy_setopt(stream->curl, CURLOPT_CAINFO, agent.config.ca_file) == CURLE_OK;
    good = good && curl_easy_perform(stream->curl) == CURLE_OK;
    good = good && curl_easy_getinfo(stream->curl, CURLINFO_ACTIVESOCKET, &stream->fd) == CURLE_OK;
    enum status st = good ? send_head(stream, server, path) : ST_IO;
    if (st == ST_OK)
        st = stream_read_head(stream);
    if (st != ST_OK) {
        stream_close(stream);
        return st;
    }
    *ret_stream = stream;
    return ST_OK;
}
