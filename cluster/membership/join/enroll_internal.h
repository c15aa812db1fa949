/* Shared by the files enroll*.c, and private to them. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_INTERNAL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_ENROLL_INTERNAL_H

#include "cluster/membership/join/enroll.h"
#include "cluster/membership/join/join_token.h"
#include "crypto/cert.h"
#include "crypto/tls.h"
#include "http/client.h"
#include "http/lookup.h"
#include "text/json.h"

/* Result of a try. AGAIN: try again, the fault may pass. ASKS: send the next request. WAITS: for
 * key shares. */
enum enroll_end { ENROLL_DONE, ENROLL_AGAIN, ENROLL_REFUSED, ENROLL_ASKS, ENROLL_WAITS };
/* the request that is under way */
enum enroll_step { ENROLL_TOKEN, ENROLL_CHALLENGE, ENROLL_ANSWER };

enum { ENROLL_SEAL_MAX = 1024 }; /* most bytes of a seal as text */

struct enroll_try {
    struct enroll *all;
    struct http_client *client;
    struct tls_ctx *tls;
    struct http_client_request request;
    struct http_header header;
    struct env_timer timer; /* timer that starts the next attempt */
    struct join_token token;
    struct buf token_text, key, public_key, body;
    enum enroll_step step;
    bool calling, closing;

    /* The round that is under way: */
    struct http_lookup *lookup; /* NULL: no name is being looked up */
    struct http_addresses addresses;
    unsigned at_address;   /* index of the address that is asked */
    const char *host;      /* name that the certificate must have; NULL: any */
    struct reason refused; /* the first refusal of the round; "": none */

    /* With join_token_file: */
    unsigned at; /* index of the initial member that is asked */
    uint64_t complained_ms;

    /* With a join request: */
    bool by_request; /* the attempt serves a join request, not join_token_file */
    bool retry;      /* go on trying after the join request has ended */
    /* trust the asked node because of the CA hash in the token */
    bool pinned;
    /* address that is asked; name in its certificate, "": any */
    char address[256 + 8], server[256];
    struct buf challenge, seal; /* challenge and seal of the last reply */
};

/* Read the token, read or make the key, write the first request. Without a token the request asks
 * for a challenge. */
NODISCARD enum status enroll_prepare(struct enroll_try *e, struct bytes token,
                                     struct reason *reason);
/* Write the request of this step. `answer`: the proof for the challenge; empty: none. ST_NOMEM. */
NODISCARD enum status enroll_write(struct enroll_try *e, struct bytes answer);
/* Forget token, key and request; no request is under way. */
void enroll_reset(struct enroll_try *e);
void enroll_send(struct enroll_try *e, const struct http_target *target);
/* Go on after a try, or after a lookup without a result. Not for ENROLL_DONE. */
void enroll_tried(struct enroll_try *e, enum enroll_end end, const struct reason *reason);

/* enroll_address.c. Begin a round with all addresses of "host:port"; `host` as in http_target,
 * borrowed during the round. A failure comes through enroll_tried. */
void enroll_round(struct enroll_try *e, const char *address, const char *host);
/* Send the request to the present address. */
void enroll_round_send(struct enroll_try *e);
/* Move to the next address. False: there is none. */
bool enroll_round_next(struct enroll_try *e);
/* Forget a lookup that is under way. */
void enroll_round_drop(struct enroll_try *e);
/* The present address in numbers; NULL: none was found. */
const char *enroll_round_at(const struct enroll_try *e);

/* a member of `v` as text; empty if it is absent */
struct bytes enroll_text(const struct text_value *v, const char *name);

/* enroll_challenge.c. The reply has a challenge: answer, wait for key shares, or refuse. */
NODISCARD enum enroll_end enroll_challenged(struct enroll_try *e, struct reason *reason);
/* Whether the certificate comes from a node with the root key. */
bool enroll_proved(struct enroll_try *e, const struct text_value *answer);

/* enroll_request.c: a node that joins by a join request, not by join_token_file. */
void enroll_request_start(struct enroll_try *e);
void enroll_request_ask(struct enroll_try *e);
void enroll_request_tried(struct enroll_try *e, enum enroll_end end, const struct reason *reason);
/* End the join request that waits; `reason` may be NULL. */
void enroll_request_end(struct enroll *all, enum status st, const struct reason *reason);

#endif
