/* X-Forwarded-For: the address of the client, if a trusted proxy names it. */
#ifndef HOLDFAST_FRONT_CLIENT_ADDR_H
#define HOLDFAST_FRONT_CLIENT_ADDR_H

#include "http/http.h"
#include "text/cidr.h"

struct client_rule {
    const struct cidr *authorized; /* addresses of trusted proxies */
    size_t n;                      /* number of trusted proxies; 0: ignore the header */
    int64_t hop_skips;             /* addresses at the end of the list that belong to proxies too */
    /* refuse the header from other peers with 400; false: ignore it */
    bool reject_not_authorized;
    bool reject_not_present; /* refuse a request without the header with 400 */
};

/* Replace the address of the connection in `peer`, "127.0.0.1:4711", by the address of the client.
 * The port of the connection stays where the header names none. ST_OK also when the header is
 * absent or ignored; ST_INVALID with a reason. */
NODISCARD enum status client_addr_find(const struct client_rule *rule,
                                       const struct http_request *req,
                                       char peer[static HTTP_PEER_TEXT], struct reason *reason);
/* As client_addr_find, with the values of all headers X-Forwarded-For in the order sent. `rule`
 * names at least one proxy. */
NODISCARD enum status client_addr_choose(const struct client_rule *rule, const struct bytes *values,
                                         size_t n, char peer[static HTTP_PEER_TEXT],
                                         struct reason *reason);

#endif
