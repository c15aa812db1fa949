/* Memory of replies that clients have not read yet, bounded for one worker: in all, for one client
 * address, for one token, and for all clients without a token.
 *
 * 1. A reply whose body is long is counted when it is made (http_reply_hold), which a handler does
 *    only when there is room (http_reply_room). Any other reply is counted once the socket does not
 *    take all of it. A short reply that the socket takes at once is not counted.
 * 2. What does not fit takes the place of connections that hold up the same bound. The connection
 *    whose output waits longest is closed first, and it is the new one if no other waits.
 *    Its memory is released at the end of the loop's turn: until then only a part of the budget can
 *    be taken in this way.
 * 3. A reply longer than a share is taken if its client holds nothing else and the budget is not
 *    used up. So the total, and a share, is exceeded by one reply at most.
 * 4. Text that replies share by reference (base/shared.h) is not counted.
 * 5. A request that waits for room is counted too. One token, and all clients without a token
 *    together, have a part of the budget for such requests; what does not fit is refused at once.
 *
 * One thread, but for `used`, `highest` and `closed`. */
#ifndef HOLDFAST_HTTP_UNWRITTEN_H
#define HOLDFAST_HTTP_UNWRITTEN_H

#include "base/list.h"
#include "base/tally.h"
#include "http/budget.h"

struct http_request;
struct shared;

enum unwritten_bound {
    UNWRITTEN_FITS,
    UNWRITTEN_ADDRESS,
    UNWRITTEN_TOKEN,
    UNWRITTEN_ANONYMOUS,
    UNWRITTEN_ALL,
    UNWRITTEN_BOUNDS
};
const char *unwritten_bound_name(enum unwritten_bound bound); /* "address", "token" … */

/* The client that a reply is for. */
struct http_payer {
    struct ip address;
    uint64_t token; /* a number that stands for the token; 0: no token */
};

/* The part of one connection. All zero but for `link`, an empty list: nothing. */
struct http_owed {
    struct list link; /* in `waiting` or `ending` */
    struct http_payer payer;
    size_t bytes;
    void (*close)(struct http_owed *owed); /* close the connection */
};

struct http_unwritten {
    struct env *env;
    size_t total, address_share, token_share, anonymous_total;
    size_t anonymous; /* bytes of clients without a token */
    struct http_budget addresses, tokens;
    struct http_budget queue; /* requests that wait for room, by token */
    struct list waiting;      /* connections with output that waits, longest first */
    struct list ending;       /* connections that `end_task` closes */
    struct env_task end_task;
    bool end_posted;
    size_t ending_bytes;     /* memory that is released within this turn of the loop */
    uint64_t quiet_until_ms; /* no line is logged until then */
    _Atomic uint64_t used, closed[UNWRITTEN_BOUNDS];
    _Atomic uint64_t highest; /* most of `used` since any thread set it to 0 */
};

/* `total` bytes. ST_NOMEM: call the done function nevertheless. */
NODISCARD enum status http_unwritten_init(struct http_unwritten *u, struct env *env, size_t total);
void http_unwritten_done(struct http_unwritten *u);

/* Count `n` more bytes for the client; connections may be closed soon to make room. Anything but
 * UNWRITTEN_FITS: the bound that is used up, and nothing was counted. */
NODISCARD enum unwritten_bound http_unwritten_take(struct http_unwritten *u,
                                                   const struct http_payer *payer, size_t n);
/* Whether there is room for every client. */
bool http_unwritten_has_much(const struct http_unwritten *u);
/* Whether some reply of the client still fits; makes room as http_unwritten_take does. */
NODISCARD bool http_unwritten_room(struct http_unwritten *u, const struct http_payer *payer);
/* A request of `n` bytes waits for room: count it, until http_unwritten_unqueue. False: too much
 * waits, and nothing was counted. */
NODISCARD bool http_unwritten_queue(struct http_unwritten *u, const struct http_payer *payer,
                                    size_t n);
void http_unwritten_unqueue(struct http_unwritten *u, const struct http_payer *payer, size_t n);
/* Count `n` more bytes for the client, even beyond its bounds. False: too many clients are known,
 * and nothing was counted. */
NODISCARD bool http_unwritten_put(struct http_unwritten *u, const struct http_payer *payer,
                                  size_t n);
void http_unwritten_give(struct http_unwritten *u, const struct http_payer *payer, size_t n);

/* The connection's output waits, and takes `bytes` in all. False: the connection was counted as
 * closed, holds nothing, and must be closed by the caller. */
NODISCARD bool http_owed_wait(struct http_unwritten *u, struct http_owed *owed,
                              const struct http_payer *payer, size_t bytes);
/* The output was written, or the connection closes. */
void http_owed_clear(struct http_unwritten *u, struct http_owed *owed);

/* For handlers, before the reply. */

/* Name the client for which the reply is counted. `client` is an address with its port, stays valid
 * until the reply is sent, and may be NULL: the address of the connection. `token`: see
 * http_payer. */
void http_reply_payer(struct http_request *req, const char *client, uint64_t token);
/* Whether a reply to the client may be made; slow readers may be closed soon to make room. ST_BUSY:
 * ask again later, and until then the request is counted. ST_LIMITED: too many requests wait for
 * room, so refuse this one. */
NODISCARD enum status http_reply_room(struct http_request *req);
/* The reply takes `bytes`: count them from now on. A smaller number than before changes nothing. */
void http_reply_hold(struct http_request *req, size_t bytes);
/* As http_reply_hold, but make room as for any other reply. ST_BUSY: there is no room, and nothing
 * more was counted. */
NODISCARD enum status http_reply_take(struct http_request *req, size_t bytes);
/* Keep a reference until the reply is sent; the request takes over the caller's reference. */
void http_keep_shared(struct http_request *req, struct shared *shared);

#endif
