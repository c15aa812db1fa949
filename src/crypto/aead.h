/* AES-256-GCM (SP 800-38D) with a kept context: the key schedule is made once, not per message.
 * One struct by one thread at a time. */
#ifndef HOLDFAST_CRYPTO_AEAD_H
#define HOLDFAST_CRYPTO_AEAD_H

#include "base/bytes.h"
#include "base/status.h"

enum { AEAD_KEY_BYTES = 32, AEAD_NONCE_BYTES = 12, AEAD_TAG_BYTES = 16 };

struct aead;

/* `key` is AEAD_KEY_BYTES and not kept by reference. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status aead_new(struct bytes key, struct aead **ret_aead);
void aead_free(struct aead *a); /* wipes the key schedule; NULL is allowed */

/* Encrypt `plain` to `out` (plain.len bytes, not overlapping) and write the tag. A nonce must never
 * repeat under one key. ST_CRYPTO. */
NODISCARD enum status aead_seal(struct aead *a, const uint8_t nonce[AEAD_NONCE_BYTES],
                                struct bytes aad, struct bytes plain, uint8_t *out,
                                uint8_t ret_tag[AEAD_TAG_BYTES]);
/* ST_CORRUPT: not what was sealed with this key, nonce and aad; `out` is wiped. ST_CRYPTO. */
NODISCARD enum status aead_open(struct aead *a, const uint8_t nonce[AEAD_NONCE_BYTES],
                                struct bytes aad, struct bytes cipher,
                                const uint8_t tag[AEAD_TAG_BYTES], uint8_t *out);

#endif
