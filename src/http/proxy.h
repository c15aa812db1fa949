/* The PROXY protocol, versions 1 and 2: a proxy in front of the server sends the client's address
 * before any other bytes.
 *
 * The header is read separately from the bytes behind it: until the header is complete or turns out
 * to be absent, proxy_want asks for no byte that may lie behind the header. Plain code without a
 * socket. */
#ifndef HOLDFAST_HTTP_PROXY_H
#define HOLDFAST_HTTP_PROXY_H

#include "text/cidr.h"

/* Whether the header of a proxy is believed. A header that is not believed is still read and
 * removed. A connection without a believed header has its own address. */
enum http_proxy_mode {
    HTTP_PROXY_OFF,   /* do not look for a proxy header */
    HTTP_PROXY_USE,   /* believe the header from any address */
    HTTP_PROXY_ALLOW, /* believe it from authorised addresses, ignore it from others */
    HTTP_PROXY_DENY,  /* believe it from authorised addresses, close connections from others */
};
struct http_proxy {
    enum http_proxy_mode mode;
    const struct cidr *authorized;
    size_t n;
};

enum {
    PROXY_HEAD = 12,      /* bytes that show whether the input is a proxy header */
    PROXY_LINE_MAX = 107, /* longest header of version 1, with its CR LF */
    PROXY_BYTES_MAX =
        16 + 2048, /* longest header of version 2, with the data behind the addresses */
};

enum proxy_result {
    PROXY_MORE,   /* read on: proxy_want bytes at most */
    PROXY_ABSENT, /* the input begins with the client's own bytes */
    PROXY_CLIENT, /* `ip` and `port` are the client's */
    PROXY_NONE, /* the proxy speaks for itself, or names no client: use the connection's own address
                 */
    PROXY_BAD,
};

struct proxy {
    struct ip ip;
    uint16_t port;
    size_t len;
    uint8_t bytes[PROXY_BYTES_MAX];
};

/* How many bytes may be read now into bytes + len; at least 1. */
size_t proxy_want(const struct proxy *p);
/* Tell the parser that `n` bytes, at most proxy_want, were read. Not allowed after a result other
 * than PROXY_MORE. */
enum proxy_result proxy_feed(struct proxy *p, size_t n);

#endif
