/* The peer of a connection, and addresses as text. */
#include "crypto/tls.h"
#include "http/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static struct http_wire *wire_of(const struct http_request *req)
{
    struct http_exchange *x = exchange_of(req);
    return x->conn != NULL ? &x->conn->wire : NULL;
}

bool http_peer_direct(struct http_conn *c, struct ip *ret_ip)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    if (uv_tcp_getpeername(&c->wire.tcp, (struct sockaddr *)&address, &len) != 0)
        return false;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    *ret_ip = address.ss_family == AF_INET6 ? ip_of((const uint8_t *)&v6->sin6_addr, 16)
                                            : ip_of((const uint8_t *)&v4->sin_addr, 4);
    return true;
}

static bool is_in(const struct cidr *blocks, size_t n, const struct ip *ip)
{
    for (size_t i = 0; i < n; i++)
        if (cidr_holds(&blocks[i], ip))
            return true;
    return false;
}

static bool is_authorized(const struct http_proxy *rule, struct http_conn *c)
{
    struct ip ip;
    return http_peer_direct(c, &ip) && is_in(rule->authorized, rule->n, &ip);
}

bool http_peer_is_proxy(const struct http_server *server, const struct ip *ip)
{
    const struct http_proxy *rule = server->proxy;
    if (rule != NULL && rule->mode != HTTP_PROXY_OFF &&
        (rule->mode == HTTP_PROXY_USE || is_in(rule->authorized, rule->n, ip)))
        return true;
    return is_in(server->forwarders, server->n_forwarders, ip);
}

struct ip http_peer_client(struct http_conn *c)
{
    struct ip ip = c->client;
    if (ip.len == 0 && !http_peer_direct(c, &ip))
        ip.len = 0;
    return ip;
}

bool http_peer_preamble(struct http_conn *c, const struct proxy *said, enum proxy_result result)
{
    const struct http_proxy *rule = c->server->proxy;
    if (result == PROXY_BAD)
        return false;
    if (result == PROXY_ABSENT)
        return true;
    bool counts = rule->mode == HTTP_PROXY_USE || is_authorized(rule, c);
    if (!counts && rule->mode == HTTP_PROXY_DENY)
        return false;
    if (counts && result == PROXY_CLIENT) {
        c->client = said->ip;
        c->client_port = said->port;
    }
    return true;
}

/* Write the peer's address as a proxy gave it, else as the kernel gives it; unchanged without
 * either. */
static void find_peer(const struct http_conn *c, char ret_text[static HTTP_PEER_TEXT])
{
    struct sockaddr_storage address;
    int len = sizeof address;
    char host[INET6_ADDRSTRLEN];
    static_assert((int)IP_PORT_TEXT <= (int)HTTP_PEER_TEXT, "every address fits");
    if (c->client.len != 0) {
        ip_port_put(&c->client, c->client_port, ret_text);
        return;
    }
    if (uv_tcp_getpeername(&c->wire.tcp, (struct sockaddr *)&address, &len) != 0)
        return;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    bool is_v6 = address.ss_family == AF_INET6;
    const void *raw = is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    if (inet_ntop(address.ss_family, raw, host, sizeof host) == NULL)
        return;
    int n = snprintf(ret_text, HTTP_PEER_TEXT, is_v6 ? "[%s]:%u" : "%s:%u", host,
                     (unsigned)ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    ASSERT(n > 0 && n < HTTP_PEER_TEXT);
}

/* The text is made once for each connection: the client of a connection stays the same, and a proxy
 * names the client before the first request. */
void http_peer_text(const struct http_request *req, char ret_text[static HTTP_PEER_TEXT])
{
    struct http_conn *c = exchange_of(req)->conn;
    ret_text[0] = '\0';
    if (c == NULL)
        return;
    if (c->peer[0] == '\0')
        find_peer(c, c->peer);
    memcpy(ret_text, c->peer, sizeof c->peer);
}

enum status http_peer_cert(const struct http_request *req, struct tls_peer *ret_peer)
{
    const struct http_wire *wire = wire_of(req);
    if (wire == NULL || wire->tls == NULL)
        return ST_NOT_FOUND;
    return tls_conn_peer(wire->tls, ret_peer);
}

bool http_is_tls(const struct http_request *req)
{
    const struct http_wire *wire = wire_of(req);
    return wire != NULL && wire->tls != NULL;
}

static bool port_parse(const char *text, uint16_t *ret_port)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long port = strtoul(text, &end, 10);
    *ret_port = (uint16_t)port;
    return *end == '\0' && port <= UINT16_MAX;
}

enum status http_address_parse(const char *text, struct sockaddr_storage *ret_address,
                               struct reason *reason)
{
    char host[INET6_ADDRSTRLEN] = "";
    uint16_t port = 0;
    const char *colon = strrchr(text, ':');
    bool v6 = text[0] == '[';
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    bool ok = colon != NULL && port_parse(colon + 1, &port) && len > (v6 ? 2 : 0) &&
              len - (v6 ? 2 : 0) < sizeof host && (!v6 || colon[-1] == ']');
    if (ok)
        memcpy(host, text + v6, len - (v6 ? 2 : 0));
    *ret_address = (struct sockaddr_storage){0};
    struct sockaddr_in *in4 = (struct sockaddr_in *)ret_address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_address;
    if (ok && v6 && inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        return ST_OK;
    }
    if (ok && !v6 && inet_pton(AF_INET, host, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        return ST_OK;
    }
    reason_set(reason, "\"%.100s\" is not an address like 127.0.0.1:8200 or [::1]:8200", text);
    return ST_INVALID;
}
