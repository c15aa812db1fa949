/* out_request: set up a transfer of libcurl, drive it, judge its end.
 *
 * Happy path: out_request checks and parses the request; set_up gives libcurl the options; drive
 * runs the transfer, in which libcurl calls out_call_socket for each address, on_header for each
 * line of the reply's head, and on_body for each piece of its body; out_fault_judge finds no fault.
 *
 * Failure modes:
 *   the request is malformed      refused before libcurl sees it
 *   the rules refuse an address   out_call_socket makes no socket; libcurl tries the next address
 *   the reply is too long or bad  on_header or on_body sets `stopped`, and libcurl ends
 *   a deadline passes             libcurl's own timers
 *   the caller cancels            drive leaves its loop within OUT_POLL_MS
 *   the resolver hangs            its thread is left alone, and ends when the resolver does */
#include "base/mem.h"
#include "crypto/tls_foreign.h"
#include "out/out_internal.h"

#include <netinet/in.h>
#include <sys/socket.h>

bool out_call_is_open(const struct out_call *call)
{
    curl_off_t tcp_us = 0, tls_us = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONNECT_TIME_T, &tcp_us);    /* 0: not yet */
    (void)curl_easy_getinfo(call->easy, CURLINFO_APPCONNECT_TIME_T, &tls_us); /* 0: not yet */
    return call->target.tls ? tls_us != 0 : tcp_us != 0;
}

/* libcurl's functions */

curl_socket_t out_call_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct out_call *call = ctx;
    static const struct out_rules none = {0};
    const struct out_rules *rules = call->request->rules != NULL ? call->request->rules : &none;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&to->addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&to->addr;
    int type = to->socktype & ~(SOCK_CLOEXEC | SOCK_NONBLOCK); /* newer libcurl adds flags */
    if (purpose != CURLSOCKTYPE_IPCXN || type != SOCK_STREAM ||
        (to->family != AF_INET && to->family != AF_INET6)) {
        call->refused = true;
        reason_set(&call->refusal, "a connection that is not TCP is refused");
        return CURL_SOCKET_BAD;
    }
    ASSERT(to->addrlen >= (to->family == AF_INET ? sizeof *v4 : sizeof *v6));
    struct ip ip = to->family == AF_INET ? ip_of((const uint8_t *)&v4->sin_addr, 4)
                                         : ip_of((const uint8_t *)&v6->sin6_addr, 16);
    uint16_t port = ntohs(to->family == AF_INET ? v4->sin_port : v6->sin6_port);
    if (out_rules_judge(rules, &ip, port, &call->refusal) != ST_OK) {
        call->refused = true;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    call->n_opened++;
    return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct out_call *call = ctx;
    ASSERT(size == 1);
    enum status st = out_head_line(&call->head, bytes_of(data, n));
    if (st == ST_OK)
        return n;
    call->stopped = st;
    return 0; /* ends the transfer */
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct out_call *call = ctx;
    size_t asked = call->request->reply_bytes_max;
    size_t bytes_max = asked != 0 ? asked : OUT_REPLY_BYTES_DEFAULT;
    ASSERT(size == 1);
    ASSERT(call->reply.body.len <= bytes_max);
    if (n > bytes_max - call->reply.body.len && call->request->cuts) {
        buf_add(&call->reply.body, bytes_of(data, bytes_max - call->reply.body.len));
        call->cut = true;
        return 0;
    }
    if (n > bytes_max - call->reply.body.len) {
        call->stopped = ST_TOO_BIG;
        return 0;
    }
    buf_add(&call->reply.body, bytes_of(data, n));
    call->stopped = buf_status(&call->reply.body);
    return call->stopped == ST_OK ? n : 0;
}

static CURLcode on_tls(CURL *easy, void *ssl_ctx, void *ctx)
{
    (void)easy; /* one set of options for every request */
    (void)ctx;
    tls_foreign_harden(ssl_ctx);
    return CURLE_OK;
}

/* Options */

/* The same for every request. Some repeat libcurl's defaults: they must not change. */
static const struct {
    CURLoption option;
    long value;
} fixed[] = {
    {CURLOPT_NOSIGNAL, 1},   /* no signals for timeouts: the process has threads */
    {CURLOPT_QUICK_EXIT, 1}, /* do not wait for a resolver that hangs */
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
    {CURLOPT_HTTP09_ALLOWED, 0},
    {CURLOPT_HTTP_CONTENT_DECODING, 0},
    {CURLOPT_NETRC, CURL_NETRC_IGNORED},
    {CURLOPT_FORBID_REUSE, 1},
    {CURLOPT_SSL_SESSIONID_CACHE, 0},
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
};

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return curl_easy_setopt(easy, option, text) == CURLE_OK;
}

/* Empty text: the option keeps its default. libcurl borrows the bytes. */
static bool set_pem(CURL *easy, CURLoption option, struct bytes pem)
{
    struct curl_blob blob = {
        .data = (void *)(uintptr_t)pem.data, .len = pem.len, .flags = CURL_BLOB_NOCOPY};
    return pem.len == 0 || curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static const char *path_or_null(const char *path)
{
    return path != NULL && path[0] != '\0' ? path : NULL;
}

static enum status trust_folder(struct out_call *call, const char *file, const char *folder,
                                struct reason *reason)
{
    ASSERT(call->trusted.len == 0);
    buf_add(&call->trusted, call->request->tls.ca_pem);
    buf_add_u8(&call->trusted, '\n');
    if (file != NULL)
        TRY(out_folder_file(file, &call->trusted, reason));
    return out_folder_read(folder, &call->trusted, reason);
}

static enum status set_tls(struct out_call *call, struct reason *reason)
{
    CURL *easy = call->easy;
    const struct out_tls *tls = &call->request->tls;
    const char *file = path_or_null(tls->ca_file), *folder = path_or_null(tls->ca_path);
    if (file != NULL && tls->ca_pem.len != 0) {
        reason_set(reason, "give the authorities as a file or as text, not both");
        return ST_INVALID;
    }
    if ((tls->cert_pem.len != 0) != (tls->key_pem.len != 0)) {
        reason_set(reason, "a client certificate needs its key, and a key its certificate");
        return ST_INVALID;
    }
    if (tls->any_name && tls->ca_pem.len == 0) {
        reason_set(reason, "only certificates of a private authority may have any name");
        return ST_INVALID;
    }
    if (tls->any_name && curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L) != CURLE_OK)
        return ST_NOMEM;
    struct bytes pem = tls->ca_pem;
    if (folder != NULL) { /* with a file or a text, either is enough */
        TRY(trust_folder(call, file, folder, reason));
        pem = buf_bytes(&call->trusted);
        file = NULL;
    }
    bool own = file != NULL || pem.len != 0;
    if (own && (!set_text(easy, CURLOPT_CAINFO, file) || !set_text(easy, CURLOPT_CAPATH, NULL)))
        return ST_NOMEM;
    bool done = set_pem(easy, CURLOPT_CAINFO_BLOB, pem) &&
                set_pem(easy, CURLOPT_SSLCERT_BLOB, tls->cert_pem) &&
                set_pem(easy, CURLOPT_SSLKEY_BLOB, tls->key_pem) &&
                curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_tls) == CURLE_OK;
    return done ? ST_OK : ST_NOMEM;
}

static bool set_times(struct out_call *call)
{
    const struct out_request *request = call->request;
    long total_ms = request->total_ms != 0 ? request->total_ms : OUT_TOTAL_MS_DEFAULT;
    long connect_ms = request->connect_ms != 0 ? request->connect_ms : OUT_CONNECT_MS_DEFAULT;
    ASSERT(total_ms <= OUT_TOTAL_MS_MAX);
    return curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, total_ms) == CURLE_OK &&
           curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK;
}

static bool set_message(struct out_call *call, struct curl_slist *lines)
{
    CURL *easy = call->easy;
    const struct out_request *request = call->request;
    const char *method = request->method;
    const void *body = request->body.len != 0 ? (const void *)request->body.data : "";
    bool done = true;
    if (strcmp(method, "HEAD") == 0)
        done = curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    else if (request->body.len != 0 || method[0] == 'P') /* POST, PUT, PATCH: with a length */
        done = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len) ==
                   CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) == CURLE_OK;
    return done && set_text(easy, CURLOPT_CUSTOMREQUEST, method) &&
           set_text(easy, CURLOPT_USERAGENT, "holdfast") &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines) == CURLE_OK;
}

static bool set_functions(struct out_call *call)
{
    CURL *easy = call->easy;
    return curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, out_call_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK;
}

static enum status set_up(struct out_call *call, struct reason *reason)
{
    struct curl_slist *lines;
    TRY(out_lines_make(call->request, &call->arena, &lines, reason));
    call->easy = curl_easy_init();
    call->multi = curl_multi_init();
    bool done = call->easy != NULL && call->multi != NULL;
    for (size_t i = 0; done && i < ARRAY_LEN(fixed); i++)
        done = curl_easy_setopt(call->easy, fixed[i].option, fixed[i].value) == CURLE_OK;
    done = done && curl_easy_setopt(call->easy, CURLOPT_CURLU, call->target.url) == CURLE_OK &&
           set_text(call->easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(call->easy, CURLOPT_REDIR_PROTOCOLS_STR, "https") &&
           set_text(call->easy, CURLOPT_PROXY, "") && /* not even one from the environment */
           set_text(call->easy, CURLOPT_NOPROXY, "*") && set_times(call) &&
           set_message(call, lines) && set_functions(call);
    if (!done)
        return ST_NOMEM;
    TRY(set_tls(call, reason));
    return curl_multi_add_handle(call->multi, call->easy) == CURLM_OK ? ST_OK : ST_NOMEM;
}

/* Run the transfer to its end. */
static enum status drive(struct out_call *call, struct reason *reason)
{
    const struct out_request *request = call->request;
    int n_running = 1, n_left = 0;
    while (n_running != 0 && call->stopped == ST_OK) {
        if (request->is_cancelled != NULL && request->is_cancelled(request->cancel_ctx))
            call->stopped = ST_CLOSED;
        else if (curl_multi_perform(call->multi, &n_running) != CURLM_OK ||
                 (n_running != 0 &&
                  curl_multi_poll(call->multi, NULL, 0, OUT_POLL_MS, NULL) != CURLM_OK))
            call->stopped = ST_NOMEM;
    }
    const CURLMsg *end = curl_multi_info_read(call->multi, &n_left);
    ASSERT(call->stopped != ST_OK || end != NULL);
    CURLcode code = end != NULL && !call->cut ? end->data.result : CURLE_OK;
    TRY(out_fault_judge(call, code, reason));
    if (call->head.phase == OUT_HEAD_BODY)
        return ST_OK;
    reason_set(reason, "the head of the reply of %s is incomplete", call->target.text);
    return ST_BAD_GATEWAY;
}

static void call_done(struct out_call *call)
{
    if (call->multi != NULL && call->easy != NULL)
        (void)curl_multi_remove_handle(call->multi, call->easy); /* a handle not added is no harm */
    curl_easy_cleanup(call->easy);
    (void)curl_multi_cleanup(call->multi); /* NULL is allowed */
    out_target_done(&call->target);
    arena_done(&call->arena);
    buf_done(&call->trusted);
    out_reply_done(&call->reply);
}

enum status out_request(const struct out_request *request, struct out_reply *ret_reply,
                        bool *ret_sent, struct reason *reason)
{
    CLEANUP(call_done) struct out_call call = {.request = request};
    call.head = (struct out_head){.request = request, .reply = &call.reply};
    ASSERT(request->total_ms <= OUT_TOTAL_MS_MAX);
    if (ret_sent != NULL)
        *ret_sent = false;
    TRY(out_memory_init());
    TRY(out_lines_check(request, reason));
    TRY(out_target_parse(request->url, &call.target, reason));
    TRY(set_up(&call, reason));
    enum status st = drive(&call, reason);
    if (ret_sent != NULL)
        *ret_sent = out_call_is_open(&call);
    if (st == ST_OK) {
        *ret_reply = call.reply;
        call.reply = (struct out_reply){0};
    }
    return st;
}

struct bytes out_reply_header(const struct out_reply *reply, size_t i)
{
    ASSERT(i < OUT_WANTED_MAX);
    if (!reply->wanted[i].found)
        return (struct bytes){0};
    ASSERT(reply->wanted[i].at + reply->wanted[i].len <= reply->head.len);
    return reply->wanted[i].len == 0
               ? BYTES("")
               : bytes_of(reply->head.data + reply->wanted[i].at, reply->wanted[i].len);
}

void out_reply_done(struct out_reply *reply)
{
    buf_done(&reply->body);
    buf_done(&reply->head);
    *reply = (struct out_reply){0};
}
