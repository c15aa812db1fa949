/* Requests to the servers: one after the other until one answers. */
#include "client/client.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { REPLY_MAX = 64 * 1024 * 1024, TRY_S = 90, CONNECT_S = 3 };

/* One request to one server. */
struct ask {
    struct client *client;
    struct client_call *call;
    struct buf *body;
    CURL *curl;
    struct curl_slist *headers;
    uint64_t index;
};

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    const struct ask *ask = ctx;
    size_t max = ask->call->reply_max != 0 ? ask->call->reply_max : (size_t)REPLY_MAX;
    if (ask->body->len + n * size > max)
        return 0;
    buf_add(ask->body, bytes_of(data, n * size));
    return buf_status(ask->body) == ST_OK ? n * size : 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct ask *ask = ctx;
    const char *name = ask->call->index_header;
    size_t len = name != NULL ? strlen(name) : 0;
    char number[24] = "";
    if (len == 0 || n * size <= len || strncasecmp(data, name, len) != 0)
        return n * size;
    (void)snprintf(number, sizeof number, "%.*s", (int)(n * size - len), data + len);
    ask->index = strtoull(number, NULL, 10);
    return n * size;
}

static int on_progress(void *ctx, curl_off_t to, curl_off_t now, curl_off_t up_to, curl_off_t up)
{
    const struct ask *ask = ctx;
    (void)to, (void)now, (void)up_to, (void)up;
    return ask->call->idle && client_is_ending();
}

static bool add_header(struct ask *ask, const char *text)
{
    struct curl_slist *more = curl_slist_append(ask->headers, text);
    if (more != NULL)
        ask->headers = more;
    return more != NULL;
}

#define SET(option, value) (curl_easy_setopt(ask->curl, CURLOPT_##option, value) == CURLE_OK)

static bool set_headers(struct ask *ask)
{
    const struct client_call *call = ask->call;
    char type[128];
    bool good = true;
    if (call->header != NULL)
        good = add_header(ask, call->header);
    if (call->type != NULL) {
        (void)snprintf(type, sizeof type, "Content-Type: %s", call->type);
        good = good && add_header(ask, type);
    }
    good = good && add_header(ask, "Expect:");
    return good && SET(HTTPHEADER, ask->headers);
}

static bool set_body(const struct ask *ask)
{
    const struct client_call *call = ask->call;
    if (strcmp(call->method, "GET") == 0)
        return true;
    return SET(POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len) &&
           SET(POSTFIELDS, call->body.len != 0 ? (const char *)call->body.data : "");
}

static bool set_options(struct ask *ask, const char *url)
{
    const struct client_call *call = ask->call;
    return set_headers(ask) && set_body(ask) && SET(URL, url) && SET(CUSTOMREQUEST, call->method) &&
           SET(NOSIGNAL, 1L) && SET(CONNECTTIMEOUT, (long)CONNECT_S) &&
           SET(TIMEOUT, call->timeout_s != 0 ? call->timeout_s : (long)TRY_S) &&
           SET(WRITEFUNCTION, on_body) && SET(WRITEDATA, ask) && SET(HEADERFUNCTION, on_header) &&
           SET(HEADERDATA, ask) && SET(XFERINFOFUNCTION, on_progress) && SET(XFERINFODATA, ask) &&
           SET(NOPROGRESS, 0L) &&
           (ask->client->ca_file[0] == '\0' || SET(CAINFO, ask->client->ca_file));
}

/* A handle, with the connections of an earlier request if there was one. NULL: no memory. */
static CURL *take_handle(struct client *client)
{
    for (size_t i = 0; i < CLIENT_IDLE_MAX; i++) {
        CURL *curl = atomic_exchange(&client->idle[i], NULL);
        if (curl != NULL)
            return curl;
    }
    return curl_easy_init();
}

static void put_handle(struct client *client, CURL *curl)
{
    curl_easy_reset(curl); /* connections stay open */
    for (size_t i = 0; i < CLIENT_IDLE_MAX; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&client->idle[i], &none, curl))
            return;
    }
    curl_easy_cleanup(curl);
}

static enum status ask_server(struct client *client, struct client_call *call, const char *url,
                              struct buf *ret_body)
{
    struct ask ask = {
        .client = client, .call = call, .body = ret_body, .curl = take_handle(client)};
    long http = 0;
    if (ask.curl == NULL)
        return ST_NOMEM;
    bool good = set_options(&ask, url) && curl_easy_perform(ask.curl) == CURLE_OK &&
                curl_easy_getinfo(ask.curl, CURLINFO_RESPONSE_CODE, &http) == CURLE_OK;
    curl_slist_free_all(ask.headers);
    if (good)
        put_handle(client, ask.curl);
    else
        curl_easy_cleanup(ask.curl);
    call->http = (int)http;
    call->index = ask.index;
    return good ? ST_OK : ST_IO;
}

/* The path of a whole URL; a path is its own. */
static const char *path_of(const char *path)
{
    const char *host = strstr(path, "://");
    const char *slash = host != NULL ? strchr(host + 3, '/') : path;
    return slash != NULL ? slash : "/";
}

static bool has_no_leader(const struct client_call *call, const struct buf *body)
{
    static const char text[] = "No cluster leader"; /* the scheduler's word for 503 */
    return call->http == 503 ||
           (call->http == 500 && bytes_has_prefix(buf_bytes(body), bytes_str(text)));
}

enum status client_request(struct client *client, struct client_call *call, struct buf *ret_body)
{
    char url[CLIENT_URL_MAX];
    size_t n = client->servers.n;
    unsigned first = client->server;
    const char *path = call->path[0] == '/' ? call->path : path_of(call->path);
    for (size_t i = 0; i < n && !(call->idle && client_is_ending()); i++) {
        unsigned at = (unsigned)((first + i) % n);
        int len = snprintf(url, sizeof url, "%s%s", client->servers.items[at], path);
        if (len < 0 || (size_t)len >= sizeof url)
            return ST_TOO_BIG;
        buf_clear(ret_body);
        enum status st = ask_server(client, call, url, ret_body);
        if (st == ST_NOMEM)
            return st;
        if (st != ST_OK || has_no_leader(call, ret_body))
            continue;
        client->server = at;
        return ST_OK;
    }
    return ST_IO;
}
