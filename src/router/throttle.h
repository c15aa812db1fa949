/* Rate limits: buckets that fill with time. Any thread. */
#ifndef HOLDFAST_ROUTER_THROTTLE_H
#define HOLDFAST_ROUTER_THROTTLE_H

#include "base/macros.h"
#include "text/cidr.h"

#include <pthread.h>
#include <stdint.h>

enum { THROTTLE_CLIENTS = 256, THROTTLE_HOLDERS = 8, THROTTLE_SHARES_MS = 10 * 60 * 1000 };

struct throttle_client {
    struct ip ip; /* address of the client; len 0: the slot is free */
    uint64_t paid_ms;
};

/* A bucket for all clients, and one of half its size for each client address, so that one client
 * cannot use up the bucket for all. A client that began an attempt first takes from a bucket of its
 * own, which no other client can use up. The last THROTTLE_HOLDERS such clients have one; it is not
 * filled anew when the client begins again.
 *
 * If there are more than THROTTLE_CLIENTS addresses, the address that came longest ago is
 * forgotten: the bucket for all bounds all clients together. */
struct throttle {
    uint32_t burst;    /* takes that are allowed at once, of all clients; 0: never refuse */
    uint32_t every_ms; /* after the burst, one take is allowed in each such time; not 0 */
    /* Private members. Zero-initialise all of them except the lock. Each time is the time until
     * which the takes of a bucket are paid. */
    pthread_mutex_t lock;
    uint64_t paid_ms;
    struct throttle_client holders[THROTTLE_HOLDERS]; /* the newest first */
    struct throttle_client clients[THROTTLE_CLIENTS];
    struct throttle_client
        sharer; /* gave the first share; paid_ms: until when its shares are kept */
};

/* `client` gave a sealed node a share, the first one or a further one. */
void throttle_keep_shares(struct throttle *throttle, const struct ip *client, bool first,
                          uint64_t now_ms);
/* Whether the client may have the node forget the shares that it has: the client that gave the
 * first one may, and any client when no share came for THROTTLE_SHARES_MS. Else a stranger could
 * keep operators from unsealing. */
bool throttle_may_forget(struct throttle *throttle, const struct ip *client, uint64_t now_ms);

/* Take once, at a monotonic time. False: the take is refused, and does not count. */
bool throttle_take(struct throttle *throttle, const struct ip *client, uint64_t now_ms);
/* `client` began an attempt. */
void throttle_hold(struct throttle *throttle, const struct ip *client);

#endif
