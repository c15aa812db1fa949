#include "out/out_internal.h"

#include <stdio.h>

enum { WORDS_MAX = 100 };

/* libcurl's words for a failure below HTTP, which come from OpenSSL and the system: never a part of
 * the request. */
static const char *words(const struct out_call *call, CURLcode code, char ret_text[WORDS_MAX])
{
    const char *from = call->error[0] != '\0' ? call->error : curl_easy_strerror(code);
    size_t n = 0;
    for (; from[n] != '\0' && n + 1 < WORDS_MAX; n++)
        ret_text[n] = from[n] >= ' ' && from[n] <= '~' ? from[n] : '?';
    ret_text[n] = '\0';
    ASSERT(n < WORDS_MAX);
    return ret_text;
}

/* libcurl checks the chain by OpenSSL, whose verdict is then known, and the name by itself. */
static enum status judge_distrust(const struct out_call *call, CURLcode code, struct reason *reason)
{
    static const char prefix[] = "SSL certificate problem: ";
    enum { FINE, UNSPECIFIED }; /* OpenSSL's verdicts on a certificate that only has another name */
    char text[WORDS_MAX];
    const char *why = words(call, code, text);
    const struct out_target *to = &call->target;
    long verdict = UNSPECIFIED;
    ASSERT(code == CURLE_PEER_FAILED_VERIFICATION);
    (void)curl_easy_getinfo(call->easy, CURLINFO_SSL_VERIFYRESULT,
                            &verdict); /* only for the text */
    if (strncmp(why, prefix, sizeof prefix - 1) == 0)
        why += sizeof prefix - 1;
    if (verdict != FINE && verdict != UNSPECIFIED)
        reason_set(reason,
                   "the certificate of %s is not trusted (%s): give the certificate of the "
                   "authority that signed it",
                   to->text, why);
    else
        reason_set(reason, "the certificate of %s is for another host: use a name in it", to->text);
    return ST_CRYPTO;
}

static enum status judge_connection(const struct out_call *call, struct reason *reason)
{
    long err = 0;
    ASSERT(call->n_opened == 0 || call->easy != NULL);
    if (call->refused && call->n_opened == 0) {
        if (reason != NULL)
            *reason = call->refusal;
        return ST_REFUSED;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &err); /* 0: without detail */
    const char *detail = err != 0 ? strerrordesc_np((int)err) : NULL;
    reason_set(reason, "no connection to %s: %s", call->target.text,
               detail != NULL ? detail : "the system gives no cause");
    return ST_BAD_GATEWAY;
}

static enum status judge_time(const struct out_call *call, struct reason *reason)
{
    const struct out_request *request = call->request;
    if (out_call_is_open(call))
        reason_set(reason, "no complete reply from %s within %u ms", call->target.text,
                   request->total_ms != 0 ? request->total_ms : OUT_TOTAL_MS_DEFAULT);
    else
        reason_set(reason, "no connection to %s within %u ms", call->target.text,
                   MIN(request->connect_ms != 0 ? request->connect_ms : OUT_CONNECT_MS_DEFAULT,
                       request->total_ms != 0 ? request->total_ms : OUT_TOTAL_MS_DEFAULT));
    return ST_TIMEOUT;
}

/* One of our own functions has ended the transfer. */
static enum status judge_stop(const struct out_call *call, struct reason *reason)
{
    const struct out_request *request = call->request;
    size_t bytes_max =
        request->reply_bytes_max != 0 ? request->reply_bytes_max : OUT_REPLY_BYTES_DEFAULT;
    ASSERT(call->stopped != ST_OK);
    if (call->stopped == ST_CLOSED)
        reason_set(reason, "the request to %s was cancelled", call->target.text);
    else if (call->head.fault != NULL)
        reason_set(reason, "the reply of %s %s", call->target.text, call->head.fault);
    else if (call->stopped == ST_TOO_BIG)
        reason_set(reason, "the reply of %s is longer than %zu bytes", call->target.text,
                   bytes_max);
    return call->stopped;
}

enum status out_fault_judge(struct out_call *call, CURLcode code, struct reason *reason)
{
    char text[WORDS_MAX];
    const struct out_target *to = &call->target;
    const struct out_tls *tls = &call->request->tls;
    if (call->stopped != ST_OK)
        return judge_stop(call, reason);
    switch (code) {
    case CURLE_OK: return ST_OK;
    case CURLE_OUT_OF_MEMORY: return ST_NOMEM;
    case CURLE_COULDNT_RESOLVE_HOST:
        reason_set(reason, "the name %.100s was not found: check it, and the resolver", to->host);
        return ST_NOT_FOUND;
    case CURLE_COULDNT_CONNECT: return judge_connection(call, reason);
    case CURLE_OPERATION_TIMEDOUT: return judge_time(call, reason);
    case CURLE_PEER_FAILED_VERIFICATION: return judge_distrust(call, code, reason);
    case CURLE_SSL_CACERT_BADFILE:
        reason_set(reason, "no certificate of an authority can be read from %.150s",
                   tls->ca_pem.len != 0                           ? "the given text"
                   : tls->ca_file != NULL && tls->ca_file[0] != 0 ? tls->ca_file
                                                                  : "the system's folder");
        return ST_INVALID;
    case CURLE_BAD_FUNCTION_ARGUMENT: /* of newer libcurl: the key is of another certificate */
    case CURLE_SSL_CERTPROBLEM:
        reason_set(reason, "the client certificate or its key cannot be used");
        return ST_INVALID;
    case CURLE_SSL_CONNECT_ERROR:
        reason_set(reason, "no TLS with %s: %s", to->text, words(call, code, text));
        return ST_CRYPTO;
    case CURLE_GOT_NOTHING:
        reason_set(reason, "%s closed the connection without a reply", to->text);
        return ST_BAD_GATEWAY;
    case CURLE_PARTIAL_FILE:
        reason_set(reason, "the reply of %s is incomplete", to->text);
        return ST_BAD_GATEWAY;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        reason_set(reason, "the connection to %s broke: %s", to->text, words(call, code, text));
        return ST_BAD_GATEWAY;
    default:
        reason_set(reason, "the reply of %s is malformed (%s)", to->text, curl_easy_strerror(code));
        return ST_BAD_GATEWAY;
    }
}
