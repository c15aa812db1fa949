/* A node without a certificate that asks for one: inside of src/node. */
#ifndef HOLDFAST_NODE_ENROLL_H
#define HOLDFAST_NODE_ENROLL_H

#include "node/node_internal.h"

#include "cluster/membership/join_token.h"
#include "crypto/cert.h"
#include "crypto/tls.h"
#include "http/client.h"
#include "text/json.h"

/* Result of a try. AGAIN: the fault may pass. ASKS: a further question. WAITS: for key shares.
 */
enum enroll_end { ENROLL_DONE, ENROLL_AGAIN, ENROLL_REFUSED, ENROLL_ASKS, ENROLL_WAITS };
enum enroll_step { ENROLL_TOKEN, ENROLL_CHALLENGE, ENROLL_ANSWER }; /* the current request */

enum { ENROLL_SEAL_MAX = 1024 }; /* of a seal as text */

struct node_enroll {
    struct node *node;
    struct http_client *client;
    struct tls_ctx *tls;
    struct http_call call;
    struct http_header header;
    struct env_timer timer; /* to the next try */
    struct join_token token;
    struct buf token_text, key, public_key, body;
    enum enroll_step step;
    bool calling, closing;

    /* By join_token_file. */
    unsigned at; /* founder that is asked */
    uint64_t complained_ms;

    /* By request. */
    bool told;                          /* true: by request */
    bool retry;                         /* go on after the request has ended */
    bool pinned;                        /* trust the asked node by the CA hash in the token */
    char address[256 + 8], server[256]; /* "": any name */
    struct buf challenge, seal;         /* as it came last */
};

/* Read the token, have a key, write the question. Without a token: for a challenge. */
NODISCARD enum status enroll_prepare(struct node_enroll *e, struct bytes token,
                                     struct reason *reason);
/* Write the question of this step; `answer` to a challenge, else empty. ST_NOMEM. */
NODISCARD enum status enroll_write(struct node_enroll *e, struct bytes answer);
/* Forget what was prepared; nothing is being called. */
void enroll_reset(struct node_enroll *e);
void enroll_send(struct node_enroll *e, const struct http_target *target);

struct bytes enroll_text(const struct text_value *v, const char *name); /* a member, or empty */

/* node_challenge.c. In the reply there is a challenge: what to do about it. */
NODISCARD enum enroll_end enroll_challenged(struct node_enroll *e, struct reason *reason);
/* Whether the certificate came from who has the root key. */
bool enroll_proved(struct node_enroll *e, const struct text_value *answer);

/* The interface for the rest of the folder. */

/* node_enroll.c: *ret_enrolls: node_open is called later, or the node fails. */
NODISCARD enum status node_enroll_start(struct node *n, bool *ret_enrolls, struct reason *reason);
void node_enroll_stop(struct node *n); /* then ends the loop */
void node_told_runs(struct node *n);   /* the replica is there */
void node_told_end(struct node *n, enum status st, const struct reason *reason); /* node_told.c */

/* Of a node that joins by opening the seal. Await key shares of this one; ST_NOMEM. Forget them
 * all, and the key that they made. A proof by whatever opens it, as barrier_prove_by; ST_NOT_FOUND:
 * nothing is there. */
NODISCARD enum status node_seal_await(struct node *n, struct bytes seal_record);
void node_seal_drop(struct node *n);
bool node_seal_has_opener(struct node *n);
NODISCARD enum status node_seal_prove(struct node *n, struct bytes seal_record,
                                      struct bytes message, uint8_t ret_mac[BARRIER_MAC_BYTES],
                                      struct reason *reason);
void node_told_opened(struct env_task *task); /* node_told.c: that key is there */

/* node_told.c: a node that is told by node_join, in place of what the files say. */
void enroll_told_start(struct node_enroll *e);
void enroll_told_ask(struct node_enroll *e);
void enroll_told_tried(struct node_enroll *e, enum enroll_end end, const struct reason *reason);

#endif
