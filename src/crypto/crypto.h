/* Process-wide set-up of OpenSSL, and memory for keys. */
#ifndef HOLDFAST_CRYPTO_CRYPTO_H
#define HOLDFAST_CRYPTO_CRYPTO_H

#include "base/bytes.h"
#include "base/status.h"

/* Call once, before any other thread and any other use of this folder: opens the secure heap.
 * `ret_locked` says whether its pages are kept from swap (RLIMIT_MEMLOCK may forbid it).
 * Calling it again changes nothing. ST_CRYPTO when OpenSSL cannot be used. */
NODISCARD enum status crypto_init(bool *ret_locked);

/* Fill with bytes from the cryptographic generator. ST_CRYPTO when the generator fails. Any
 * thread. */
NODISCARD enum status crypto_random(void *out, size_t n);

/* Key bytes in the secure heap: guarded, locked, kept out of core dumps. Zero-initialise.
 * Any thread; one struct by one thread at a time. */
struct secret {
    uint8_t *data;
    size_t len;
};

/* `len` zero bytes, 1..SECRET_BYTES_MAX. ST_NOMEM, ST_TOO_BIG; *ret_secret untouched. */
enum { SECRET_BYTES_MAX = 4096 };
NODISCARD enum status secret_new(size_t len, struct secret *ret_secret);
NODISCARD enum status secret_dup(struct bytes from, struct secret *ret_secret);
NODISCARD enum status secret_random(size_t len, struct secret *ret_secret);
/* wipes the secret, which is then empty and usable again */
void secret_done(struct secret *secret);

static inline struct bytes secret_bytes(const struct secret *secret)
{
    return (struct bytes){secret->data, secret->len};
}

#endif
