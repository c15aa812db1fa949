/* A key ring in memory and as a stored record. Private to src/barrier.
 *
 *   record     version u8 = 1, nonce 12, ciphertext, tag 16; encrypted under the root key, the
 *              version and the record's own key of the state authenticated
 *   plaintext  for each term: term u32, installed i64 ms, uses u64, key 32; terms ascend, the last
 *              one is active */
#ifndef HOLDFAST_BARRIER_RING_H
#define HOLDFAST_BARRIER_RING_H

#include "barrier/limits.h"
#include "base/buf.h"
#include "base/env.h"
#include "crypto/aead.h"
#include "crypto/crypto.h"

enum { RING_TERM_BYTES = 4 + 8 + 8 + AEAD_KEY_BYTES, RING_OVERHEAD = 1 + 12 + 16 };

struct ring_term {
    uint32_t term;
    int64_t installed_ms;
    uint64_t uses;
    struct secret key;
};

/* A key ring. Zero-initialise it. */
struct ring {
    struct ring_term terms[BARRIER_TERMS_MAX];
    unsigned n;
};

void ring_done(struct ring *ring); /* wipes the keys */
/* Add a term with a fresh key. ST_NO_SPACE, ST_NOMEM. */
NODISCARD enum status ring_grow(struct ring *ring, struct env *env, int64_t time_ms);
NODISCARD enum status ring_copy(const struct ring *from, struct ring *ret_ring); /* ST_NOMEM. */
/* the ring must have a term */
struct ring_term *ring_active(struct ring *ring);
/* NULL: the ring lacks the term */
const struct ring_term *ring_find(const struct ring *ring, uint32_t term);

/* Append the record of a ring to be stored at the key `name` of the state. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status ring_encode(const struct ring *ring, struct aead *root, struct env *env,
                                  struct bytes name, struct buf *out);
/* Whether a record has the length and the version of a ring; needs no key. */
bool ring_shaped(struct bytes record);
/* Decrypt and decode a record that is stored at `name`. ST_CORRUPT; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status ring_decode(struct bytes record, struct aead *root, struct bytes name,
                                  struct ring *ret_ring);

#endif
