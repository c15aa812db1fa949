/* X-Forwarded-For: who the client is, when a proxy that is trusted says so. */
#ifndef HOLDFAST_FRONT_CLIENT_ADDR_H
#define HOLDFAST_FRONT_CLIENT_ADDR_H

#include "http/http.h"
#include "text/cidr.h"

struct client_rule {
    const struct cidr *authorized; /* proxies whose word counts */
    size_t n;                      /* 0: the header means nothing */
    int64_t hop_skips;             /* how many addresses at the end are of proxies too */
    bool reject_not_authorized;    /* with the header, from elsewhere: 400, else it is ignored */
    bool reject_not_present;       /* without the header: 400 */
};

/* `peer` is the address of the connection, "127.0.0.1:4711"; replaced by the client's, with the
 * port of the connection where the header has none. ST_INVALID with a reason. */
NODISCARD enum status client_addr_find(const struct client_rule *rule,
                                       const struct http_request *req,
                                       char peer[static HTTP_PEER_TEXT], struct reason *reason);
/* The same with the values of the header in the order sent. */
NODISCARD enum status client_addr_choose(const struct client_rule *rule, const struct bytes *values,
                                         size_t n, char peer[static HTTP_PEER_TEXT],
                                         struct reason *reason);

#endif
