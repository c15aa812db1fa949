/* Key shares: split a key, and shares as text. */
#ifndef HOLDFAST_API_SEAL_SEAL_SHARES_H
#define HOLDFAST_API_SEAL_SEAL_SHARES_H

#include "barrier/seal.h"
#include "router/request/req.h"

enum { SYS_SHARE_BYTES_MAX = SEAL_KEY_BYTES + 1 };

/* The shares of a key, in one run of bytes; a single share is the key itself. Zero-initialise. */
struct seal_shares {
    unsigned n, threshold;
    size_t bytes;        /* length of each share */
    const uint8_t *data; /* in the arena */
};

/* Check the numbers of shares that a request asks for. ST_INVALID with the request's error; the
 * text of the error begins with `what`. */
NODISCARD enum status seal_shares_check(struct req *req, const char *what, int64_t shares,
                                        int64_t threshold);
/* The seal key of this node, to wrap a root key for `shares` of the recovery key: borrowed from the
 * host, do not wipe it. ST_INVALID with the request's error: the node has no seal key, or it is not
 * the one of the stored seal `info`. */
NODISCARD enum status seal_own(struct req *req, const struct seal_info *info, unsigned shares,
                               unsigned threshold, struct seal *ret_seal);
/* Split a key of SEAL_KEY_BYTES. seal_shares_check has accepted `n` and `threshold`. ST_NOMEM. */
NODISCARD enum status seal_shares_split(struct req *req, struct bytes key, int64_t n,
                                        int64_t threshold, struct seal_shares *ret_shares);
/* The shares as text, in the arena, which is wiped. ST_NOMEM. */
struct seal_shares_text {
    struct field_strings hex, base64;
};
NODISCARD enum status seal_shares_text(struct req *req, const struct seal_shares *shares,
                                       struct seal_shares_text *ret_text);

/* Read a share of 32 or 33 bytes from text. The text is tried as hex first, as upstream does, then
 * as base64. The caller wipes the share. ST_INVALID with the request's error. */
NODISCARD enum status seal_share_read(struct req *req, const char *text,
                                      uint8_t ret_share[SYS_SHARE_BYTES_MAX], size_t *ret_n);

#endif
