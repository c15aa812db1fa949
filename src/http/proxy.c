/* Parser of the PROXY protocol, versions 1 and 2 (haproxy's proxy-protocol.txt, 2.1 and 2.2). */
#include "http/proxy.h"
#include "text/value.h"

static const uint8_t signature[PROXY_HEAD] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                              '\n', 'Q',  'U',  'I',  'T', '\n'};
enum { V2_FIXED = 16, V2_INET = 12, V2_INET6 = 36 };

static bool begins(const struct proxy *p, const uint8_t *with, size_t len)
{
    return memcmp(p->bytes, with, MIN(p->len, len)) == 0;
}

static bool is_v1(const struct proxy *p)
{
    return begins(p, (const uint8_t *)"PROXY ", 6);
}

static bool is_v2(const struct proxy *p)
{
    return begins(p, signature, PROXY_HEAD);
}

static size_t v2_rest(const struct proxy *p)
{
    return (size_t)p->bytes[14] << 8 | p->bytes[15];
}

size_t proxy_want(const struct proxy *p)
{
    if (p->len < PROXY_HEAD)
        return PROXY_HEAD - p->len;
    if (is_v1(p))
        return 1; /* the line ends the header */
    if (p->len < V2_FIXED)
        return V2_FIXED - p->len;
    return V2_FIXED + v2_rest(p) - p->len;
}

/* The next word of a line, up to one space; false: there is none. */
static bool next_word(struct bytes *line, struct bytes *ret_word)
{
    const uint8_t *space = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    size_t len = space != NULL ? (size_t)(space - line->data) : line->len;
    *ret_word = bytes_of(line->data, len);
    *line = bytes_from(*line, MIN(len + 1, line->len));
    return len > 0;
}

/* Read a decimal port without sign or leading zero. */
static bool read_port(struct bytes text, uint16_t *ret_port)
{
    int64_t port;
    bool zero = text.len > 1 && text.data[0] == '0';
    if (text.len == 0 || zero || text.data[0] == '-' || text_int_parse(text, &port) != ST_OK ||
        port > UINT16_MAX)
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

static enum proxy_result read_line(struct proxy *p)
{
    /* the line without "PROXY " and CR LF */
    struct bytes line = bytes_of(p->bytes + 6, p->len - 8);
    struct bytes family, source, target, from, to;
    struct ip ip, other;
    uint16_t port, other_port;
    if (!next_word(&line, &family))
        return PROXY_BAD;
    if (text_is(family, "UNKNOWN"))
        return PROXY_NONE;
    uint8_t len = text_is(family, "TCP4") ? 4 : text_is(family, "TCP6") ? 16 : 0;
    bool words = len != 0 && next_word(&line, &source) && next_word(&line, &target) &&
                 next_word(&line, &from) && next_word(&line, &to) && line.len == 0;
    bool sound = words && to.data[to.len] == '\r' && ip_parse(source, &ip) == ST_OK &&
                 ip_parse(target, &other) == ST_OK && read_port(from, &port) &&
                 read_port(to, &other_port);
    bool colon = sound && memchr(source.data, ':', source.len) != NULL;
    if (!sound || colon != (len == 16))
        return PROXY_BAD;
    p->ip = ip;
    p->port = port;
    return PROXY_CLIENT;
}

static enum proxy_result feed_line(struct proxy *p)
{
    const uint8_t *end = memchr(p->bytes, '\n', p->len);
    if (end == NULL)
        return p->len < PROXY_LINE_MAX ? PROXY_MORE : PROXY_BAD;
    bool whole = end == p->bytes + p->len - 1 && p->len >= 8 && end[-1] == '\r';
    return whole ? read_line(p) : PROXY_BAD;
}

static enum proxy_result read_binary(struct proxy *p)
{
    const uint8_t *at = p->bytes + V2_FIXED;
    size_t rest = v2_rest(p);
    unsigned command = p->bytes[12] & 0x0F, family = p->bytes[13] >> 4;
    unsigned protocol = p->bytes[13] & 0x0F;
    if (command == 0)
        return PROXY_NONE; /* LOCAL: the proxy itself checks this server */
    if (family == 0 || family == 3)
        return PROXY_NONE; /* the address family is unknown, or a socket of the proxy's machine */
    size_t addresses = family == 1 ? V2_INET : V2_INET6;
    if (protocol != 1 || rest < addresses)
        return PROXY_BAD;
    size_t len = family == 1 ? 4 : 16;
    const uint8_t *port = at + 2 * len;
    p->ip = ip_of(at, len);
    p->port = (uint16_t)(port[0] << 8 | port[1]);
    return PROXY_CLIENT;
}

static enum proxy_result feed_binary(struct proxy *p)
{
    if (p->len < V2_FIXED)
        return PROXY_MORE;
    bool version = p->bytes[12] >> 4 == 2 && (p->bytes[12] & 0x0F) <= 1;
    bool family = p->bytes[13] >> 4 <= 3 && (p->bytes[13] & 0x0F) <= 2;
    if (!version || !family || v2_rest(p) > PROXY_BYTES_MAX - V2_FIXED)
        return PROXY_BAD;
    return p->len < V2_FIXED + v2_rest(p) ? PROXY_MORE : read_binary(p);
}

enum proxy_result proxy_feed(struct proxy *p, size_t n)
{
    ASSERT(n > 0 && n <= proxy_want(p));
    p->len += n;
    ASSERT(p->len <= PROXY_BYTES_MAX);
    bool v1 = is_v1(p), v2 = is_v2(p);
    if (!v1 && !v2)
        return PROXY_ABSENT;
    if (p->len < PROXY_HEAD)
        return PROXY_MORE;
    return v1 ? feed_line(p) : feed_binary(p);
}
