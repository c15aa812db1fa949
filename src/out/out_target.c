#include "out/out_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of a URI (RFC 3986 2), without '\', which some parsers take for '/'. */
static bool is_printable(const char *url)
{
    for (; *url != '\0'; url++)
        if (*url <= ' ' || *url > '~' || *url == '\\')
            return false;
    return true;
}

/* The part behind "http://" or "https://"; NULL: another scheme. */
static const char *behind_scheme(const char *url)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return url + strlen(schemes[i]);
    return NULL;
}

static enum status check_url(const char *url, struct reason *reason)
{
    const char *authority = NULL, *fault = NULL;
    if (strlen(url) > OUT_URL_BYTES_MAX)
        fault = "the URL is too long";
    else if (!is_printable(url))
        fault = "the URL has a blank, or a byte that must be percent-encoded";
    else if ((authority = behind_scheme(url)) == NULL)
        fault = "the URL must begin with http:// or https://";
    else if (memchr(authority, '@', strcspn(authority, "/?#")) != NULL)
        fault = "the URL contains a user name or a password: send credentials in a header";
    else if (memchr(authority, '%', strcspn(authority, "/?#")) != NULL)
        fault = "the host of the URL contains '%'";
    else if (strcspn(authority, "/?#:") == 0)
        fault = "the URL has no host";
    if (fault != NULL)
        reason_set(reason, "%s", fault);
    return fault == NULL ? ST_OK : ST_INVALID;
}

/* The host must be usable in a reason and in a certificate's check: only letters, digits and the
 * marks of names and addresses. */
static bool take_host(const char *host, struct out_target *target)
{
    size_t len = strlen(host);
    if (len == 0 || len > OUT_HOST_MAX ||
        strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._[]:") != len)
        return false;
    memcpy(target->host, host, len + 1);
    return true;
}

static bool take_port(const char *port, struct out_target *target)
{
    char *end;
    unsigned long n = strtoul(port, &end, 10);
    target->port = (uint16_t)n;
    return end != port && *end == '\0' && n > 0 && n <= UINT16_MAX;
}

static enum status take_parts(struct out_target *target, struct reason *reason)
{
    char *host = NULL, *port = NULL;
    CURLUcode a = curl_url_get(target->url, CURLUPART_HOST, &host, 0);
    CURLUcode b = curl_url_get(target->url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    bool usable =
        a == CURLUE_OK && b == CURLUE_OK && take_host(host, target) && take_port(port, target);
    curl_free(host);
    curl_free(port);
    if (a == CURLUE_OUT_OF_MEMORY || b == CURLUE_OUT_OF_MEMORY)
        return ST_NOMEM;
    if (!usable) {
        reason_set(reason, "the URL has no usable host and port");
        return ST_INVALID;
    }
    ASSERT(target->port != 0);
    int n = snprintf(target->text, sizeof target->text, "%.64s:%u", target->host,
                     (unsigned)target->port);
    ASSERT(n > 0 && n < (int)sizeof target->text);
    return ST_OK;
}

enum status out_target_parse(const char *url, struct out_target *ret_target, struct reason *reason)
{
    TRY(check_url(url, reason));
    ret_target->tls = strncasecmp(url, "https:", 6) == 0;
    ret_target->url = curl_url();
    if (ret_target->url == NULL)
        return ST_NOMEM;
    CURLUcode code = curl_url_set(ret_target->url, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    if (code == CURLUE_OUT_OF_MEMORY)
        return ST_NOMEM;
    if (code != CURLUE_OK) {
        reason_set(reason, "the URL is malformed");
        return ST_INVALID;
    }
    return take_parts(ret_target, reason);
}

void out_target_done(struct out_target *target)
{
    curl_url_cleanup(target->url);
    target->url = NULL;
}
