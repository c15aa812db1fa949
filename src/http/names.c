/* Rules for names and values of the protocol. */
#include "http/names.h"
#include "base/vector.h"

#include <strings.h>

const char *http_method_name(enum http_method method)
{
    static const char *const names[METHODS] = {
        [METHOD_GET] = "GET",   [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT",   [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
        [METHOD_LIST] = "LIST", [METHOD_SCAN] = "SCAN",   [METHOD_OPTIONS] = "OPTIONS",
    };
    ASSERT((unsigned)method < METHODS);
    return names[method];
}

const char *http_status_reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "";
    }
}

bool http_header_is(struct bytes name, const char *word)
{
    return name.len == strlen(word) && strncasecmp((const char *)name.data, word, name.len) == 0;
}

bool http_header_frames(struct bytes name)
{
    /* by length: the names of most headers have another length, and are not compared at all */
    switch (name.len) {
    case 2: return http_header_is(name, "te");
    case 6: return http_header_is(name, "expect");
    case 7: return http_header_is(name, "upgrade") || http_header_is(name, "trailer");
    case 10: return http_header_is(name, "connection") || http_header_is(name, "keep-alive");
    case 14: return http_header_is(name, "content-length");
    case 16: return http_header_is(name, "proxy-connection");
    case 17: return http_header_is(name, "transfer-encoding");
    default: return false;
    }
}

enum { BAD_IN_NAME = 1, BAD_IN_VALUE = 2 };

/* Runs for every header of every reply, so a byte costs one look at the table and no branch. */
static const uint8_t unsound[256] = {
    [0 ... 8] = BAD_IN_NAME | BAD_IN_VALUE,
    ['\t'] = BAD_IN_NAME,
    [10 ... 0x1F] = BAD_IN_NAME | BAD_IN_VALUE,
    [' '] = BAD_IN_NAME,
    ['"'] = BAD_IN_NAME,
    ['('] = BAD_IN_NAME,
    [')'] = BAD_IN_NAME,
    [','] = BAD_IN_NAME,
    ['/'] = BAD_IN_NAME,
    [':' ... '@'] = BAD_IN_NAME,
    ['[' ... ']'] = BAD_IN_NAME,
    ['{'] = BAD_IN_NAME,
    ['}'] = BAD_IN_NAME,
    [0x7F] = BAD_IN_NAME | BAD_IN_VALUE,
    [0x80 ... 0xFF] = BAD_IN_NAME,
};

/* Whether sixteen bytes are letters, digits and '-' alone: those of most names. */
static bool is_plain(const uint8_t *at)
{
    const VECTOR_OF(uint8_t) v = vector_at(at), letter = (v | 0x20) - 'a', digit = v - '0';
    return vector_is_all((letter <= 'z' - 'a') | (digit <= 9) | (v == '-'));
}

bool http_header_sound(struct http_header header)
{
    unsigned in_name = 0, in_value = 0;
    bool plain = vector_all_fit(header.name, is_plain);
    for (size_t i = 0; !plain && i < header.name.len; i++)
        in_name |= unsound[header.name.data[i]];
    for (size_t i = 0; i < header.value.len; i++)
        in_value |= unsound[header.value.data[i]];
    return header.name.len != 0 && (in_name & BAD_IN_NAME) == 0 && (in_value & BAD_IN_VALUE) == 0;
}

void http_add_number(struct buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    buf_add(b, bytes_of(digits + at, sizeof digits - at));
}

const struct http_limits http_limits_default = {
    .uri_bytes_max = 8 * 1024,
    .header_bytes_max = 32 * 1024,
    .headers_max = 100,
    .body_bytes_max = 32 * 1024 * 1024,
    .connections_max = 16384,
    .handshake_ms = 10 * 1000,
    .header_ms = 10 * 1000,
    .idle_ms = 120 * 1000,
    .rate_window_ms = 5 * 1000,
    .body_rate_min = 512,
    .write_rate_min = 512,
    .linger_ms = 2 * 1000,
};

struct bytes http_trimmed(struct bytes text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = bytes_from(text, 1);
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}
