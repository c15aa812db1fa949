/* HKDF with SHA-256 (RFC 5869): one block of output. Any thread. */
#ifndef HOLDFAST_CRYPTO_HKDF_H
#define HOLDFAST_CRYPTO_HKDF_H

#include "base/bytes.h"
#include "base/status.h"

enum { HKDF_BYTES = 32, HKDF_INFO_MAX = 128 };

/* Derive a key from `secret`, which is not empty. `salt` is not empty; `info` has at most
 * HKDF_INFO_MAX bytes. The caller wipes `ret_key`. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status hkdf_derive(struct bytes salt, struct bytes secret, struct bytes info,
                                  uint8_t ret_key[HKDF_BYTES]);

#endif
