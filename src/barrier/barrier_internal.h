/* Shared by barrier.c, rekey.c and cipher.c.
 *
 * Lock order: first the lock of the barrier, then the lock of a cipher context. Normally only the
 * thread that owns a cipher context takes the context's lock. Other threads take that lock only
 * when the barrier is sealed or its rings change. */
#ifndef HOLDFAST_BARRIER_BARRIER_INTERNAL_H
#define HOLDFAST_BARRIER_BARRIER_INTERNAL_H

#include "barrier/barrier.h"
#include "barrier/ring.h"
#include "base/list.h"
#include "crypto/hmac.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CIPHER_CONTEXTS = 4 };

/* Nonce and tag of a stored ring, which differ from those of any other record. */
struct ring_mark {
    uint8_t data[12 + 16];
};

struct barrier_keys {
    struct secret root, salt;
    struct ring rings[BARRIER_RINGS];
    struct ring_mark marks[BARRIER_RINGS]; /* marks of the records that the rings came from */
};

struct barrier {
    pthread_mutex_t lock; /* guards the fields that are not atomic */
    atomic_bool sealed;
    _Atomic uint64_t epoch; /* grows with every change of keys */
    _Atomic uint64_t restored;
    struct barrier_keys keys;
    /* Uses of the active term that are granted and not yet made; below zero: made in advance. */
    _Atomic int64_t prepaid[BARRIER_RINGS];
    _Atomic bool lacking[BARRIER_RINGS];    /* whether the ring is absent */
    _Atomic int64_t granted[BARRIER_RINGS]; /* uses of the active term granted to this process */
    struct list ciphers;
};

struct cipher_context {
    uint32_t term; /* term of the context; 0: the slot is empty */
    struct aead *aead;
};

struct cipher_ring {
    uint32_t active;
    unsigned next; /* context to replace next */
    struct cipher_context contexts[CIPHER_CONTEXTS];
};

struct barrier_cipher {
    struct barrier *barrier;
    struct env *env;
    struct list link;
    pthread_mutex_t lock;
    uint64_t epoch; /* barrier's epoch when the keys were taken; 0: there are none */
    struct cipher_ring rings[BARRIER_RINGS];
    struct hmac *mac; /* keeps recent results */
};

/* Wipe the keys of a cipher context. The caller holds the lock of the cipher context, or no other
 * thread knows the cipher context. */
void cipher_clear(struct barrier_cipher *cipher);

/* Encrypt or decrypt one value with one key; in cipher.c. `plain` and `out` as in barrier_encrypt
 * and barrier_decrypt. */
NODISCARD enum status value_encrypt(struct aead *aead, struct env *env, uint32_t term,
                                    struct bytes key, struct bytes plain, uint8_t *out);
NODISCARD enum status value_decrypt(struct aead *aead, struct bytes key, struct bytes stored,
                                    uint8_t *out, size_t *ret_len);
/* The term of the key that encrypted a stored value. ST_CORRUPT: the value is too short, or its
 * format has another version. */
NODISCARD enum status value_term(struct bytes stored, uint32_t *ret_term);

void keys_free(struct barrier_keys **keys); /* wipes and frees the keys; in barrier.c */
/* A copy of the root key, outside of the lock; barrier.c. ST_SEALED, ST_NOMEM. */
NODISCARD enum status copy_root(struct barrier *b, struct secret *ret_root);
/* Read the root key that replaced `root` from a superseded record; in rekey.c. ST_CORRUPT: `root`
 * does not open the record. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status superseded_open(const struct secret *root, struct bytes record,
                                      struct secret *ret_root);

static inline void lock_take(pthread_mutex_t *lock)
{
    int failed = pthread_mutex_lock(lock);
    ASSERT(failed == 0);
}

/* Whether a thread holds the lock; for assertions. */
static inline bool lock_is_held(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0)
        return true;
    (void)pthread_mutex_unlock(lock); /* the trylock above took the lock */
    return false;
}

static inline void lock_drop(pthread_mutex_t *lock)
{
    int failed = pthread_mutex_unlock(lock);
    ASSERT(failed == 0);
}

#endif
