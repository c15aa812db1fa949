/* Ceremonies: what the holders of key shares do together, one share a call.
 *
 *   (none) ──begin──▶ GIVING ──enough shares──▶ carried out ─────────────▶ DONE ──▶ (none)
 *                        │                           ▲      rekey: the reply is repeated for
 *                        │                           │      a while if it is asked for again
 *                        └─▶ VERIFYING ──enough of──┘
 *                            the new shares
 *
 * An attempt is kept in the state, encrypted like any value, so it goes on when another node
 * becomes active. Each step is one transaction:
 *
 *   l/ceremony/KIND/SLOT
 *
 * 1. There are two slots. An attempt begun with a token that may do so has its own slot: requests
 *    without such a token neither see nor end it. A request with such a token sees both slots, that
 *    one first.
 * 2. An attempt begun without a token expires when no share comes for CEREMONY_PATIENCE_MS.
 * 3. An attempt for another seal than the present one does not exist any more.
 *
 * Strings and bytes of an attempt lie in the request's arena, which is wiped. */
#ifndef HOLDFAST_API_SYS_SEAL_SYS_CEREMONY_H
#define HOLDFAST_API_SYS_SEAL_SYS_CEREMONY_H

#include "api/sys/seal/sys_shares.h"
#include "state/state_core.h"
#include "text/random.h"

enum { CEREMONY_PATIENCE_MS = 10 * 60 * 1000 };

enum ceremony_kind { CEREMONY_ROOT, CEREMONY_REKEY, CEREMONY_RECOVERY, CEREMONY_KINDS };
enum ceremony_phase { CEREMONY_NONE, CEREMONY_GIVING, CEREMONY_VERIFYING, CEREMONY_DONE };

/* The result of a rekey. */
struct ceremony_rekey {
    struct sys_shares shares;      /* as asked for; `data` once they are made */
    bool verify;                   /* the new shares count once they were given back */
    char nonce[TEXT_UUID_LEN + 1]; /* of giving them back */
    struct bytes key;              /* the key that they make */
    struct bytes last; /* the share that completed it: who gives it again hears the same */
};

struct ceremony {
    enum ceremony_kind kind;
    bool known; /* in the slot of calls with a token */
    enum ceremony_phase phase;
    char nonce[TEXT_UUID_LEN + 1]; /* "" without one */
    int64_t expire_ms;             /* cluster time, 0: never */
    struct bytes otp;              /* of CEREMONY_ROOT, as text */
    struct bytes given;            /* shares, one behind the other */
    struct ceremony_rekey rekey;

    struct seal_info seal; /* stored as its stamp: the present one */
};

/* The attempt that this call is about; phase CEREMONY_NONE, or CEREMONY_DONE: none is under way.
 * `nonce`: which one, if there are two; NULL: what the call sees first. ST_INVALID with a reason:
 * there are no shares to be given. ST_NOMEM, ST_SEALED. */
NODISCARD enum status ceremony_find(struct req *req, enum ceremony_kind kind, const char *nonce,
                                    struct ceremony *ret_ceremony);
bool ceremony_is_under_way(const struct ceremony *ceremony);
/* A new one, in the slot of this call. ST_EXISTS: one is under way there; else as ceremony_find. */
NODISCARD enum status ceremony_begin(struct req *req, enum ceremony_kind kind,
                                     struct ceremony *ret_ceremony);
/* Stage it; one of CEREMONY_NONE goes away. As state_put. */
NODISCARD enum status ceremony_save(struct req *req, struct ceremony *ceremony);

/* Of the shares that are to be given now. */
size_t ceremony_share_bytes(const struct ceremony *ceremony);
unsigned ceremony_progress(const struct ceremony *ceremony);
/* Whether the call named this attempt by `own`, its nonce or that of giving back. ST_INVALID with
 * the request's error. */
NODISCARD enum status ceremony_heed_nonce(struct req *req, const char *own, const char *nonce);
unsigned ceremony_required(const struct ceremony *ceremony);
/* Whether the share, as text, is the one that completed it. */
bool ceremony_is_repeated(struct req *req, const struct ceremony *ceremony, const char *text);
/* Add a share as text. ST_INVALID with the request's error: not one, or given before. ST_NOMEM. */
NODISCARD enum status ceremony_give(struct req *req, struct ceremony *ceremony, const char *text);
/* Whether enough were given. */
bool ceremony_is_full(const struct ceremony *ceremony);
/* Put them together, to the cluster's key, or to the new one. ST_DENIED: they do not make the key;
 * else as state_check_key. */
NODISCARD enum status ceremony_check(struct req *req, const struct ceremony *ceremony);

/* The body of a request that gives a share. */
struct sys_share {
    const char *key, *nonce;
};
extern const struct schema sys_share_schema;

/* Access to the ceremonies: anyone, as upstream's older paths have it; or a token that may do this,
 * which gets the same replies in an envelope. */
#define CEREMONY_OPEN .auth = AUTH_NONE, .flags = ROUTE_BARE | ROUTE_OPERATOR | ROUTE_CEREMONY
#define CEREMONY_JUDGED .auth = AUTH_TOKEN, .flags = ROUTE_OPERATOR
/* Help of such a route. */
#define CEREMONY_SEEN "Who sees and ends it: as with generate-root/attempt."

/* An answer of 400 that keeps what is staged, where an error would drop it. ST_OK, ST_NOMEM. */
NODISCARD enum status ceremony_refuse(struct req *req, const char *text);

#endif
