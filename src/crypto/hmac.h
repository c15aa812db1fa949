/* HMAC-SHA-256 (RFC 2104, RFC 4231) with a kept key. One struct by one thread at a time. */
#ifndef HOLDFAST_CRYPTO_HMAC_H
#define HOLDFAST_CRYPTO_HMAC_H

#include "base/bytes.h"
#include "base/status.h"
#include "crypto/siphash.h"

enum { HMAC_BYTES = 32, HMAC_MEMO_SLOTS = 1024, HMAC_MEMO_MESSAGE_MAX = 256 };

struct hmac;

/* `key` may have any length from 1 and is not kept by reference. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status hmac_new(struct bytes key, struct hmac **ret_hmac);
void hmac_free(struct hmac *h); /* wipes the key; NULL is allowed */
/* Keep recent results from now on, so that a message that comes again costs less: a bearer comes
 * with every request. Messages above HMAC_MEMO_MESSAGE_MAX bytes are not looked up. Messages are
 * not kept: a tag of 128 bits, made with `key`, stands for each; `key` must be random. Call once.
 * ST_NOMEM. */
NODISCARD enum status hmac_keep_recent(struct hmac *h, const uint8_t key[SIPHASH_KEY_BYTES]);
/* The HMAC of a message. ST_CRYPTO. */
NODISCARD enum status hmac_run(struct hmac *h, struct bytes message, uint8_t ret_mac[HMAC_BYTES]);

#endif
