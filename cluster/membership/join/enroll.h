/* A node without a certificate gets one, before anything else: by a join token from a file, or by a
 * join request, with a token or by opening the cluster's seal. A part (part.h). */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_H

#include "cluster/membership/bootstrap/bootstrap.h"

struct enroll_try;
struct enroll_wait;

/* The seal of this node, as the joining needs it. Functions of src/node/unseal.h; raft thread. */
struct enroll_seal {
    void *ctx;
    /* Await key shares of the cluster to join. ST_NOMEM. */
    enum status (*await)(void *ctx, struct bytes seal_record);
    /* Forget the shares and the key that they made. */
    void (*drop)(void *ctx);
    /* Whether enough shares were given to make the key. */
    bool (*has_opener)(void *ctx);
    /* A proof by the key that opens the seal, as barrier_prove_by; ST_NOT_FOUND: there is no key.
     */
    enum status (*prove)(void *ctx, struct bytes seal_record, struct bytes message,
                         uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason);
};

struct enroll {
    struct part_host *host;
    struct bootstrap *bootstrap;
    struct enroll_seal seal;
    struct enroll_try *try; /* NULL: has a certificate */

    /* Of a node that waits for a join request. */
    struct enroll_wait *wait; /* the request that waits for its end; NULL: none */
    struct env_timer patience;
    struct env_task give_up_task;
    bool given_up; /* further requests are refused */
};

extern const struct part enroll_part;

/* Begin, on the raft thread. *ret_enrolls false: the node has a certificate, or shall not get one
 * this way; true: bootstrap_open is called later, or the node is refused. ST_NOMEM, ST_INVALID,
 * ST_IO, with a reason. */
NODISCARD enum status enroll_open(struct enroll *e, bool *ret_enrolls, struct reason *reason);
/* Enough key shares were given: the key is there. Raft thread. */
void enroll_opened(struct enroll *e);

/* How a node that waits is to join. Borrowed during the call. */
struct join_request {
    const char *address;     /* of a member: host:port, TLS */
    const char *server_name; /* a name in its certificate; NULL: any */
    struct bytes ca;         /* the CA to trust there, PEM; empty: the hash in `token` */
    struct bytes client_cert, client_key; /* to show there; empty: nothing */
    struct bytes token;                   /* empty: by opening the cluster's seal */
    bool retry;     /* keep trying after a fault that may pass, even after the call has ended */
    bool non_voter; /* follow, without a vote */
};
/* Join a cluster. Blocks, on any thread but the raft thread, for as long as a minute. ST_OK: this
 * node is a voting member, or will be when it is given enough key shares. ST_TIMEOUT: the node goes
 * on by itself. ST_EXISTS: the node is a member already, or does not wait for a request.
 * ST_INVALID: refused, with a reason. ST_BUSY: no member could be asked, or another call is under
 * way, with a reason. ST_IO, with a reason; ST_NOMEM, ST_CRYPTO, ST_CLOSED. */
NODISCARD enum status enroll_join(struct enroll *e, const struct join_request *request,
                                  struct reason *reason);
/* The node stops soon: end such a call, and refuse others. Any thread, once. */
void enroll_give_up(struct enroll *e);

#endif
