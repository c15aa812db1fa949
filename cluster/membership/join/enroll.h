/* A node without a certificate gets one before it does anything else: with a join token from a
 * file, or by a join request, which brings a token or names a cluster whose seal this node can
 * open. A part (part.h). */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_H

#include "cluster/membership/bootstrap/bootstrap.h"

struct enroll_try;
struct enroll_wait;

/* Functions of src/node/unseal.h that joining needs. Raft thread. */
struct enroll_seal {
    void *ctx;
    /* Wait for key shares of the cluster to join. ST_NOMEM. */
    enum status (*await)(void *ctx, struct bytes seal_record);
    /* Forget the shares and the key that was made from them. */
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
    struct enroll_try *try; /* state of the attempts; NULL: this node has a certificate */
    unsigned n_lookups;     /* names that are being looked up; the thread ends after them */

    /* Set while this node waits for a join request: */
    struct enroll_wait *wait; /* the join request under way; NULL: none */
    struct env_timer patience;
    struct env_task give_up_task;
    bool given_up; /* refuse further join requests */
};

extern const struct part enroll_part;

/* Begin, on the raft thread. *ret_enrolls false: the node has a certificate, or is not configured
 * to get one. True: this part calls bootstrap_open once it has the certificate, or refuses the
 * node. ST_NOMEM, ST_INVALID, ST_IO, with a reason. */
NODISCARD enum status enroll_open(struct enroll *e, bool *ret_enrolls, struct reason *reason);
/* Go on: enough key shares were given to make the key. Raft thread. */
void enroll_opened(struct enroll *e);

/* A join request, borrowed during the call. */
struct join_request {
    const char *address;     /* of a member: host:port, TLS. Each address of a name is tried */
    const char *server_name; /* name that the member's certificate must have; NULL: any */
    struct bytes ca;         /* trusted CA of that member, PEM; empty: use the hash in `token` */
    struct bytes client_cert, client_key; /* client certificate shown to the member; empty: none */
    struct bytes token;                   /* join token; empty: join with the cluster's seal */
    bool retry;     /* keep trying after a fault that may pass, also after the call has ended */
    bool non_voter; /* join as a member without a vote */
};
/* Join a cluster. Blocks, on any thread but the raft thread, for as long as a minute. ST_OK: this
 * node is a member, or becomes one when it has enough key shares. ST_TIMEOUT: the node keeps trying
 * by itself. ST_EXISTS: the node is a member already, or does not wait for a join request.
 * ST_INVALID: refused, with a reason. ST_BUSY: no member could be asked, or another join request is
 * under way, with a reason. ST_IO, with a reason; ST_NOMEM, ST_CRYPTO, ST_CLOSED. */
NODISCARD enum status enroll_join(struct enroll *e, const struct join_request *request,
                                  struct reason *reason);
/* The node stops soon: end a join request under way, refuse later ones. Any thread, once. */
void enroll_give_up(struct enroll *e);

#endif
