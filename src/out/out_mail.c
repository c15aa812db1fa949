#include "out/out_mail.h"

#include "crypto/tls_foreign.h"
#include "out/out_internal.h"

#include <stdio.h>

enum { URL_MAX = 400 };

struct source {
    struct bytes left;
};

static size_t on_read(char *to, size_t size, size_t n, void *ctx)
{
    struct source *source = ctx;
    size_t len = MIN(size * n, source->left.len);
    ASSERT(size == 1);
    if (len != 0)
        memcpy(to, source->left.data, len);
    source->left = bytes_from(source->left, len);
    return len;
}

/* The lines of the server are shown to no client. */
static size_t on_line(char *data, size_t size, size_t n, void *ctx)
{
    (void)data;
    (void)ctx;
    return size * n;
}

static CURLcode on_tls(CURL *easy, void *ssl_ctx, void *ctx)
{
    (void)easy; /* one set of options for every server */
    (void)ctx;
    tls_foreign_harden(ssl_ctx);
    return CURLE_OK;
}

static bool is_host(const char *host)
{
    size_t len = strlen(host);
    return len != 0 && len <= OUT_HOST_MAX &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:") ==
               len;
}

static bool is_address(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || *c == '<' || *c == '>')
            return false;
    return strchr(text, '@') != NULL;
}

static enum status check_mail(const struct out_mail *mail, struct reason *reason)
{
    ASSERT(mail->connect_ms != 0 && mail->total_ms >= mail->connect_ms);
    ASSERT(mail->mechanism == NULL || (mail->username != NULL && mail->password != NULL));
    bool fine = is_host(mail->host) && mail->port != 0 && is_address(mail->from) &&
                mail->n_to != 0 && mail->n_to <= OUT_MAIL_TO_MAX;
    for (size_t i = 0; fine && i < mail->n_to; i++)
        fine = is_address(mail->to[i]);
    if (!fine)
        reason_set(reason, "host, port, sender or recipient of the mail is malformed");
    return fine ? ST_OK : ST_INVALID;
}

static enum status make_url(const struct out_mail *mail, struct out_call *call)
{
    char url[URL_MAX];
    ASSERT(call->easy != NULL && mail->port != 0);
    bool v6 = strchr(mail->host, ':') != NULL;
    (void)snprintf(url, sizeof url, "smtp://%s%s%s:%u/holdfast", v6 ? "[" : "", mail->host,
                   v6 ? "]" : "", mail->port); /* is_host has bounded the host */
    (void)snprintf(call->target.text, sizeof call->target.text, "%.60s:%u", mail->host,
                   mail->port); /* a long name is cut */
    return curl_easy_setopt(call->easy, CURLOPT_URL, url) == CURLE_OK ? ST_OK : ST_NOMEM;
}

static bool set_long(CURL *easy, CURLoption option, long value)
{
    return curl_easy_setopt(easy, option, value) == CURLE_OK;
}

static bool set_manners(const struct out_mail *mail, struct out_call *call)
{
    CURL *easy = call->easy;
    ASSERT(easy != NULL && mail->ca_file != NULL);
    return set_long(easy, CURLOPT_NOSIGNAL, 1) && set_long(easy, CURLOPT_QUICK_EXIT, 1) &&
           set_long(easy, CURLOPT_FORBID_REUSE, 1) &&
           set_long(easy, CURLOPT_SSL_SESSIONID_CACHE, 0) &&
           set_long(easy, CURLOPT_USE_SSL, CURLUSESSL_TRY) &&
           set_long(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2) &&
           set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, mail->connect_ms) &&
           set_long(easy, CURLOPT_TIMEOUT_MS, mail->total_ms) &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_tls) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, out_call_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_line) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_line) == CURLE_OK &&
           (mail->ca_file[0] == '\0' ||
            curl_easy_setopt(easy, CURLOPT_CAINFO, mail->ca_file) == CURLE_OK);
}

static bool set_login(const struct out_mail *mail, CURL *easy)
{
    const char *options = mail->mechanism != NULL && strcmp(mail->mechanism, "LOGIN") == 0
                              ? "AUTH=LOGIN"
                              : "AUTH=PLAIN";
    return mail->mechanism == NULL ||
           (curl_easy_setopt(easy, CURLOPT_USERNAME, mail->username) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_PASSWORD, mail->password) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_LOGIN_OPTIONS, options) == CURLE_OK);
}

static bool set_mail(const struct out_mail *mail, CURL *easy, struct source *source,
                     struct curl_slist **to)
{
    ASSERT(*to == NULL && source->left.len == mail->message.len);
    for (size_t i = 0; i < mail->n_to; i++) {
        struct curl_slist *more = curl_slist_append(*to, mail->to[i]);
        if (more == NULL)
            return false;
        *to = more;
    }
    return curl_easy_setopt(easy, CURLOPT_MAIL_FROM, mail->from) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, *to) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_READDATA, source) == CURLE_OK &&
           set_long(easy, CURLOPT_UPLOAD, 1);
}

static enum status judge_mail(const struct out_call *call, CURLcode code, struct reason *reason)
{
    const char *to = call->target.text;
    long http = 0;
    ASSERT(call->easy != NULL && to[0] != '\0');
    if (code == CURLE_OK)
        return ST_OK;
    if (call->refused && call->n_opened == 0) {
        if (reason != NULL)
            *reason = call->refusal;
        return ST_REFUSED;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http); /* 0: no reply */
    switch (code) {
    case CURLE_OUT_OF_MEMORY: return ST_NOMEM;
    case CURLE_LOGIN_DENIED:
        reason_set(reason, "the mail server %s refuses the name and password", to);
        return ST_UNAUTHENTICATED;
    case CURLE_OPERATION_TIMEDOUT:
        reason_set(reason, "the mail server %s did not reply in time", to);
        return ST_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
        reason_set(reason, "the certificate of the mail server %s is not trusted", to);
        return ST_CRYPTO;
    default: break;
    }
    if (http == 530 || http == 535) {
        reason_set(reason, "the mail server %s refuses the name and password", to);
        return ST_UNAUTHENTICATED;
    }
    if (http >= 400)
        reason_set(reason, "the mail server %s refused the mail with code %ld", to, http);
    else
        reason_set(reason, "no mail could be given to the mail server %s", to);
    return ST_BAD_GATEWAY;
}

enum status out_mail_send(const struct out_mail *mail, struct reason *reason)
{
    ASSERT(mail->to != NULL && mail->message.len != 0);
    const struct out_request rules = {.rules = mail->rules};
    struct out_call call = {.request = &rules};
    struct source source = {mail->message};
    struct curl_slist *to = NULL;
    TRY(out_memory_init());
    TRY(check_mail(mail, reason));
    call.easy = curl_easy_init();
    if (call.easy == NULL)
        return ST_NOMEM;
    enum status st = make_url(mail, &call);
    if (st == ST_OK && (!set_manners(mail, &call) || !set_login(mail, call.easy) ||
                        !set_mail(mail, call.easy, &source, &to)))
        st = ST_NOMEM;
    if (st == ST_OK)
        st = judge_mail(&call, curl_easy_perform(call.easy), reason);
    curl_slist_free_all(to);
    curl_easy_cleanup(call.easy);
    return st;
}
