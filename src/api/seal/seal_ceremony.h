/* Ceremonies: what the holders of key shares do together, one share a request.
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
 *   l/ceremony/KIND/token                one attempt that was begun with an authorised token
 *   l/ceremony/KIND/open/TIME-ADDRESS    an attempt that was begun without one, at TIME (hex, ms),
 *                                        from ADDRESS (hex; of IPv6 the network)
 *   l/ceremony/KIND/open                 an attempt that an older build began without a token
 *
 * 1. A request without an authorised token neither sees nor ends an attempt of the first kind. Of
 *    the others it ends only one that its own address began: a stranger who cancels cannot keep
 *    operators from their attempts. An address has one attempt, all together CEREMONY_OPEN_MAX. A
 *    nonce is no proof of who began: the holders of shares, who ask from other addresses, are shown
 *    it. A request finds the attempt of its nonce; else one with a token, one of its address, the
 *    one that was begun first.
 * 2. An attempt that was begun without a token expires when no share comes for
 *    CEREMONY_PATIENCE_MS.
 * 3. An attempt ends when the cluster gets another seal than the one under which the attempt was
 *    begun.
 *
 * Strings and bytes of an attempt lie in the request's arena, which is wiped. */
#ifndef HOLDFAST_API_SEAL_SEAL_CEREMONY_H
#define HOLDFAST_API_SEAL_SEAL_CEREMONY_H

#include "api/seal/seal_recipients.h"
#include "state/state_core.h"
#include "text/random.h"

enum {
    CEREMONY_PATIENCE_MS = 10 * 60 * 1000,
    CEREMONY_OPEN_MAX = 8, /* attempts of one kind that were begun without a token */
    /* feature level of records with recipients: builds before take such an attempt for none */
    CEREMONY_RECIPIENTS_FEATURE = 2,
};

enum ceremony_kind {
    CEREMONY_ROOT,
    CEREMONY_REKEY,
    CEREMONY_RECOVERY,
    CEREMONY_DR, /* a DR operation token, on a DR secondary */
    CEREMONY_KINDS
};
enum ceremony_phase { CEREMONY_NONE, CEREMONY_GIVING, CEREMONY_VERIFYING, CEREMONY_DONE };

/* The result of a rekey. */
struct ceremony_rekey {
    struct seal_shares shares;     /* the shares to make; `data` is set once they are made */
    bool verify;                   /* the new shares count once enough of them were given back */
    char nonce[TEXT_UUID_LEN + 1]; /* of the verification */
    struct bytes key;              /* the key that the new shares make */
    struct bytes
        last; /* the old share that completed the attempt: given again, the reply repeats */
};

struct ceremony {
    enum ceremony_kind kind;
    bool known;       /* was begun with a token */
    struct bytes key; /* of the record; empty: there is no attempt */
    enum ceremony_phase phase;
    char nonce[TEXT_UUID_LEN + 1]; /* of the attempt; "": none is under way */
    int64_t expire_ms;             /* cluster time, 0: never */
    struct bytes otp;              /* one-time pad of CEREMONY_ROOT and CEREMONY_DR, as text */
    struct bytes given;            /* the shares that were given, in one run of bytes */
    struct bytes recipients;       /* as seal_recipients_encode stores them; empty: none */
    bool backup;                   /* the encrypted shares are to be kept */
    struct ceremony_rekey rekey;

    struct seal_info seal; /* the present seal; the record holds its stamp only */
};

/* Find the attempt that this request is about. Phase CEREMONY_NONE or CEREMONY_DONE: no attempt is
 * under way. `nonce` selects one of two attempts; NULL: the attempt that the request sees first.
 * ST_INVALID with the request's error: the seal has no shares. ST_NOMEM, ST_SEALED. */
NODISCARD enum status ceremony_find(struct req *req, enum ceremony_kind kind, const char *nonce,
                                    struct ceremony *ret_ceremony);
bool ceremony_is_under_way(const struct ceremony *ceremony);
/* Find the attempt that this request may end: as ceremony_find without a nonce, but for a request
 * without a token only an attempt of its address, or of an older build. */
NODISCARD enum status ceremony_find_own(struct req *req, enum ceremony_kind kind,
                                        struct ceremony *ret_ceremony);
/* Begin an attempt. ST_EXISTS: the client, or a client with a token, has one under way. ST_LIMITED
 * with the request's error: CEREMONY_OPEN_MAX are under way. Else as ceremony_find. */
NODISCARD enum status ceremony_begin(struct req *req, enum ceremony_kind kind,
                                     struct ceremony *ret_ceremony);
/* The people whom the attempt encrypts for. ST_NOMEM, ST_CORRUPT. */
NODISCARD enum status ceremony_recipients(struct req *req, const struct ceremony *ceremony,
                                          struct seal_recipients *ret_recipients);
/* Stage the attempt, or its deletion in phase CEREMONY_NONE. ST_BUSY with the request's error: the
 * attempt has recipients, and the cluster is below CEREMONY_RECIPIENTS_FEATURE. Else as state_put.
 */
NODISCARD enum status ceremony_save(struct req *req, struct ceremony *ceremony);

/* About the shares that clients give in this phase: the length of a share, and how many were
 * given. */
size_t ceremony_share_bytes(const struct ceremony *ceremony);
unsigned ceremony_progress(const struct ceremony *ceremony);
/* Refuse a request whose `nonce` is not `own`, the nonce of the attempt or of its verification.
 * ST_INVALID with the request's error. */
NODISCARD enum status ceremony_heed_nonce(struct req *req, const char *own, const char *nonce);
/* How many shares this phase needs. */
unsigned ceremony_required(const struct ceremony *ceremony);
/* Whether the share, as text, is the one that completed the attempt. */
bool ceremony_is_repeated(struct req *req, const struct ceremony *ceremony, const char *text);
/* Add a share, as text. ST_INVALID with the request's error: the share is malformed, or was given
 * before. ST_NOMEM. */
NODISCARD enum status ceremony_give(struct req *req, struct ceremony *ceremony, const char *text);
/* Whether enough shares were given in this phase. */
bool ceremony_is_full(const struct ceremony *ceremony);
/* Combine the shares and compare the result with the cluster's key or, in CEREMONY_VERIFYING, with
 * the new key. A recovery key that only its shares knew is staged (state_learn_key). ST_DENIED: the
 * shares do not make that key; else as state_check_key. */
NODISCARD enum status ceremony_check(struct req *req, const struct ceremony *ceremony);

/* The body of a request that gives a share. */
struct seal_share {
    const char *key, *nonce;
};
extern const struct schema seal_share_schema;

/* Access to the ceremonies: upstream's older paths are open to any client. The newer paths need a
 * token that may use the path, and reply with an envelope. */
#define CEREMONY_OPEN .who = WHO_CEREMONY, .when = WHEN_MAINTENANCE, .form = FORM_BARE
#define CEREMONY_JUDGED .when = WHEN_MAINTENANCE
/* The end of the help of a route with CEREMONY_JUDGED. */
#define CEREMONY_SEEN "The same requests as with generate-root/attempt see the attempt and end it."

/* A reply of 400 that keeps what is staged; an error would drop it. ST_OK, ST_NOMEM. */
NODISCARD enum status ceremony_refuse(struct req *req, const char *text);

#endif
