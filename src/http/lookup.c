#include "http/lookup.h"

#include "base/mem.h"
#include "loop/loop.h"
#include "text/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

struct http_lookup {
    uv_getaddrinfo_t request;
    http_lookup_fn *done;
    void *ctx;
};

static bool is_listed(const struct http_addresses *all, const char *text)
{
    for (unsigned i = 0; i < all->n; i++)
        if (strcmp(all->text[i], text) == 0)
            return true;
    return false;
}

static void add_address(struct http_addresses *all, const struct sockaddr *address)
{
    char host[INET6_ADDRSTRLEN], text[HTTP_PEER_TEXT];
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    bool is_v6 = address->sa_family == AF_INET6;
    const void *raw = is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    ASSERT(all->n <= HTTP_LOOKUP_MAX);
    if ((!is_v6 && address->sa_family != AF_INET) ||
        inet_ntop(address->sa_family, raw, host, sizeof host) == NULL)
        return;
    int n = snprintf(text, sizeof text, is_v6 ? "[%s]:%u" : "%s:%u", host,
                     (unsigned)ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    ASSERT(n > 0 && n < HTTP_PEER_TEXT);
    if (all->n < HTTP_LOOKUP_MAX && !is_listed(all, text))
        memcpy(all->text[all->n++], text, (size_t)n + 1);
}

static void on_found(uv_getaddrinfo_t *request, int err, struct addrinfo *found)
{
    struct http_lookup *l = CONTAINER_OF(request, struct http_lookup, request);
    struct http_addresses all = {.n = 0};
    struct reason reason = {{0}};
    ASSERT(l->done != NULL);
    for (const struct addrinfo *at = err == 0 ? found : NULL; at != NULL; at = at->ai_next)
        add_address(&all, at->ai_addr);
    uv_freeaddrinfo(found);
    if (all.n == 0)
        reason_set(&reason, "%s", err != 0 ? uv_strerror(err) : "the name has no address");
    ASSERT(all.n <= HTTP_LOOKUP_MAX);
    l->done(l->ctx, l, all.n != 0 ? ST_OK : ST_NOT_FOUND, &all, &reason);
    mem_free(l);
}

enum status http_lookup_start(struct env *env, const char *address, http_lookup_fn *done, void *ctx,
                              struct http_lookup **ret_lookup)
{
    static const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV, .ai_family = AF_UNSPEC};
    char host[TEXT_HOST_MAX], service[8];
    uint16_t port;
    ASSERT(done != NULL);
    TRY(text_address_split(address, host, &port));
    ASSERT(port != 0);
    struct http_lookup *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    l->done = done;
    l->ctx = ctx;
    (void)snprintf(service, sizeof service, "%u", (unsigned)port); /* five digits fit */
    enum status st =
        loop_status(uv_getaddrinfo(loop_uv(env), &l->request, on_found, host, service, &hints));
    if (st != ST_OK) {
        mem_free(l);
        return st;
    }
    *ret_lookup = l;
    return ST_OK;
}

void http_lookup_hurry(struct http_lookup *l)
{
    (void)uv_cancel((uv_req_t *)&l->request); /* a lookup that is running ends by itself */
}
