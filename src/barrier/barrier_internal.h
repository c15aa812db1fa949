/* Shared by the files of this folder.
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

enum { CIPHER_CONTEXTS = 4, ROOT_BYTES = 32, SALT_BYTES = 32 };

/* Nonce and tag of a stored ring, which differ from those of any other record. */
struct ring_mark {
    uint8_t data[12 + 16];
};

struct barrier_keys {
    struct secret root, salt;
    struct secret local_root; /* superseded root key that encrypts the local ring; empty: none */
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

/* In keys.c. keys_done wipes the keys; keys_free also frees them. */
void keys_done(struct barrier_keys *keys);
void keys_free(struct barrier_keys **keys);
/* The key of the state at which a ring is stored, and the stored record. */
struct bytes keys_ring_name(enum barrier_ring ring);
struct bytes keys_ring_record(const struct barrier_records *records, enum barrier_ring ring);
/* The mark of a stored ring; all zero if the record is absent. */
struct ring_mark keys_mark(struct bytes record);
bool keys_mark_eq(const struct ring_mark *a, const struct ring_mark *b);
/* Open the records: the shared ring with `root` or a root key that links lead to from there, the
 * local ring with one of these or with `local` (NULL: none). `keys` is all zero; after a failure,
 * the caller still wipes it. ST_CORRUPT with a reason: the records do not open. ST_NOMEM,
 * ST_CRYPTO. */
NODISCARD enum status keys_open(const struct secret *root, const struct secret *local,
                                const struct barrier_records *records, struct barrier_keys *keys,
                                struct reason *reason);
/* The root key that encrypts the local ring. */
const struct secret *keys_local_root(const struct barrier_keys *keys);

/* In barrier.c; the barrier's lock is held. Make every cipher context take its keys again. */
void barrier_clear_ciphers(struct barrier *b);
/* Begin the counts of a new active term: nothing is granted yet. */
void barrier_set_unpaid(struct barrier *b, enum barrier_ring ring);
/* Move the first keys, or the keys of another state, into `b`, which has none, and wipe `keys`. No
 * uses of these keys are granted yet. */
void barrier_take_keys(struct barrier *b, struct barrier_keys *keys, uint64_t restored);
/* A copy of the root key, outside of the lock; barrier.c. ST_SEALED, ST_NOMEM. */
NODISCARD enum status copy_root(struct barrier *b, struct secret *ret_root);

/* The root keys that links lead to from one root key; in chain.c. */
struct chain {
    const struct barrier_records *records; /* borrowed */
    struct secret roots[1 + BARRIER_LINKS_MAX];
    unsigned n, tried;              /* the first `tried` root keys were tried with every link */
    bool opened[BARRIER_LINKS_MAX]; /* links that a root key has opened */
};
/* ST_NOMEM. */
NODISCARD enum status chain_new(const struct secret *root, const struct barrier_records *records,
                                struct chain **ret_chain);
void chain_free(struct chain **chain); /* wipes the root keys */
/* Add at least one root key. ST_NOT_FOUND: the links lead to no other. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status chain_grow(struct chain *chain);
/* Append a link from one root key to another. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status link_put(const struct secret *from, const struct secret *to, struct env *env,
                               const struct barrier_link_head *head, struct buf *out);
/* Read the root key that superseded `root`, whose cipher is given. ST_CORRUPT: the link is not of
 * `root`. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status link_open(struct aead *root, const struct barrier_link *link,
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
