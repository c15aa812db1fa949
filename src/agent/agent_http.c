/* Requests to the servers: one after the other until one answers. */
#include "agent/agent_internal.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { REPLY_MAX = 64 * 1024 * 1024, TRY_S = 90, CONNECT_S = 3, URL_MAX = 512 };

static _Atomic uint64_t last_index;

uint64_t agent_last_index(void)
{
    return last_index;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct buf *to = ctx;
    if (to->len + n * size > REPLY_MAX)
        return 0;
    buf_add(to, bytes_of(data, n * size));
    return buf_status(to) == ST_OK ? n * size : 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    static const char name[] = "x-scheduler-index:";
    uint64_t *index = ctx;
    if (n * size > sizeof name && strncasecmp(data, name, sizeof name - 1) == 0)
        *index = strtoull(data + sizeof name - 1, NULL, 10);
    return n * size;
}

/* Set the options of every request to a server. */
static bool http_set_up(CURL *curl, struct curl_slist **headers)
{
    char token[96];
    (void)snprintf(token, sizeof token, "X-Scheduler-Token: %s", agent.secret);
    *headers = curl_slist_append(NULL, token);
    bool good = *headers != NULL;
    good = good && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S) == CURLE_OK;
    if (agent.config.ca_file[0] != '\0')
        good = good && curl_easy_setopt(curl, CURLOPT_CAINFO, agent.config.ca_file) == CURLE_OK;
    return good;
}

/* One request to one server. */
static enum status agent_ask(const char *url, const char *method, struct bytes body, int *ret_http,
                             struct buf *ret_body)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = NULL;
    uint64_t index = 0;
    long http = 0;
    if (curl == NULL)
        return ST_NOMEM;
    bool good = http_set_up(curl, &headers);
    good = good && curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TRY_S) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_body) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_HEADERDATA, &index) == CURLE_OK;
    if (body.len != 0) {
        good = good && curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body.len) == CURLE_OK;
        good = good && curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data) == CURLE_OK;
    }
    good = good && curl_easy_perform(curl) == CURLE_OK;
    good = good && curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http) == CURLE_OK;
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    *ret_http = (int)http;
    if (good && index != 0)
        last_index = index;
    return good ? ST_OK : ST_IO;
}

enum status agent_request(const char *method, const char *path, struct bytes body, int *ret_http,
                          struct buf *ret_body)
{
    char url[URL_MAX];
    size_t n = agent.config.servers.n;
    agent_lock();
    unsigned first = agent.server;
    agent_unlock();
    for (size_t i = 0; i < n; i++) {
        unsigned at = (unsigned)((first + i) % n);
        (void)snprintf(url, sizeof url, "%s/v1/%s", agent.config.servers.items[at], path);
        buf_clear(ret_body);
        enum status st = agent_ask(url, method, body, ret_http, ret_body);
        bool answered = st == ST_OK && *ret_http != 503 &&
                        !(*ret_http == 500 && ret_body->len >= 17 &&
                          memcmp(ret_body->data, "No cluster leader", 17) == 0);
        if (!answered)
            continue;
        agent_lock();
        agent.server = at;
        agent_unlock();
        return ST_OK;
    }
    return ST_IO;
}
