#include "text/cidr.h"
#include "text/value.h"

#include <arpa/inet.h>
#include <stdio.h>

struct ip ip_of(const uint8_t *bytes, size_t len)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    struct ip ip = {.len = 4};
    ASSERT(len == 4 || len == 16);
    bool v4 = len == 4 || memcmp(bytes, mapped, sizeof mapped) == 0;
    ip.len = v4 ? 4 : 16;
    memcpy(ip.bytes, bytes + (len - ip.len), ip.len);
    return ip;
}

enum status ip_parse(struct bytes text, struct ip *ret_ip)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.data, 0, text.len) != NULL)
        return ST_INVALID;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, bytes) == 1)
        *ret_ip = ip_of(bytes, 4);
    else if (inet_pton(AF_INET6, copy, bytes) == 1)
        *ret_ip = ip_of(bytes, 16);
    else
        return ST_INVALID;
    return ST_OK;
}

static enum status port_parse(struct bytes text, uint16_t *ret_port)
{
    int64_t port;
    if (text.len == 0 || text.data[0] == '-')
        return ST_INVALID;
    TRY(text_int_parse(text, &port));
    if (port > UINT16_MAX)
        return ST_INVALID;
    *ret_port = (uint16_t)port;
    return ST_OK;
}

enum status ip_port_parse(struct bytes text, struct ip *ret_ip, uint16_t *ret_port)
{
    uint16_t port = 0;
    if (text.len > 0 && text.data[0] == '[') {
        const uint8_t *end = memchr(text.data, ']', text.len);
        if (end == NULL)
            return ST_INVALID;
        size_t len = (size_t)(end - text.data);
        struct bytes rest = bytes_from(text, len + 1);
        if (rest.len != 0 && (rest.data[0] != ':' || port_parse(bytes_from(rest, 1), &port) != 0))
            return ST_INVALID;
        TRY(ip_parse(bytes_of(text.data + 1, len - 1), ret_ip));
        *ret_port = port;
        return ST_OK;
    }
    const uint8_t *colon = text.len > 0 ? memchr(text.data, ':', text.len) : NULL;
    size_t len = colon != NULL ? (size_t)(colon - text.data) : text.len;
    bool v6 = colon != NULL && memchr(colon + 1, ':', text.len - len - 1) != NULL;
    if (colon != NULL && !v6) {
        TRY(port_parse(bytes_from(text, len + 1), &port));
        text.len = len;
    }
    TRY(ip_parse(text, ret_ip));
    *ret_port = port;
    return ST_OK;
}

struct ip ip_port_ip(const char *text)
{
    struct ip ip;
    uint16_t port;
    return ip_port_parse(bytes_str(text), &ip, &port) == ST_OK ? ip : (struct ip){0};
}

void ip_port_put(const struct ip *ip, uint16_t port, char ret_text[static IP_PORT_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = ip->len == 16;
    if (inet_ntop(v6 ? AF_INET6 : AF_INET, ip->bytes, host, sizeof host) == NULL)
        ASSERT(ip->len == 0); /* `host` has room for every address */
    (void)snprintf(ret_text, IP_PORT_TEXT, v6 ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)port); /* the text fits */
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    ASSERT(bits <= 128);
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] >> (8 - rest)) == (b[whole] >> (8 - rest));
}

enum status cidr_parse(struct bytes text, struct cidr *ret_cidr)
{
    const uint8_t *slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
    struct cidr cidr;
    uint16_t bits;
    if (slash == NULL) {
        TRY(ip_parse(text, &cidr.ip));
        cidr.bits = (uint8_t)(cidr.ip.len * 8);
        *ret_cidr = cidr;
        return ST_OK;
    }
    size_t len = (size_t)(slash - text.data);
    TRY(ip_parse(bytes_of(text.data, len), &cidr.ip));
    TRY(port_parse(bytes_from(text, len + 1), &bits));
    bool mapped = cidr.ip.len == 4 && memchr(text.data, ':', len) != NULL;
    if (bits > cidr.ip.len * 8 || mapped)
        return ST_INVALID;
    cidr.bits = (uint8_t)bits;
    ASSERT(cidr.bits == bits);
    for (unsigned bit = bits; bit < cidr.ip.len * 8u; bit++)
        if ((cidr.ip.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return ST_INVALID;
    *ret_cidr = cidr;
    return ST_OK;
}

bool cidr_holds(const struct cidr *cidr, const struct ip *ip)
{
    return cidr->ip.len == ip->len && same_bits(cidr->ip.bytes, ip->bytes, cidr->bits);
}
