/* The stored form of the root key, wrapped by a seal (seal.c has its table). Private to
 * src/barrier. Version 1 knew only the static seal and lacks the counts of shares. */
#ifndef HOLDFAST_BARRIER_SEAL_RECORD_H
#define HOLDFAST_BARRIER_SEAL_RECORD_H

#include "barrier/seal.h"
#include "base/buf.h"
#include "base/env.h"
#include "crypto/aead.h"

enum { SEAL_RECORD_VERSION = 2, SEAL_RECORD_STATIC_ONLY = 1 };

/* Append the record. ST_NOMEM, ST_CRYPTO: `out` may have grown. */
NODISCARD enum status seal_wrap(const struct seal *seal, struct env *env, const struct secret *root,
                                struct buf *out);
/* ST_INVALID with a reason: wrapped by another key. ST_CORRUPT with a reason. ST_NOMEM, ST_CRYPTO.
 */
NODISCARD enum status seal_unwrap(const struct seal *seal, struct bytes record,
                                  struct secret *ret_root, struct reason *reason);

#endif
