/* The keys of a barrier, and how the stored records open with a root key. */
#include "barrier/barrier_internal.h"

#include "base/mem.h"

void keys_done(struct barrier_keys *keys)
{
    secret_done(&keys->root);
    secret_done(&keys->salt);
    secret_done(&keys->local_root);
    for (int i = 0; i < BARRIER_RINGS; i++)
        ring_done(&keys->rings[i]);
    mem_wipe(keys, sizeof *keys);
}

void keys_free(struct barrier_keys **keys)
{
    if (*keys != NULL)
        keys_done(*keys);
    mem_free(*keys);
}

struct bytes keys_ring_name(enum barrier_ring ring)
{
    return ring == BARRIER_SHARED ? BYTES(BARRIER_KEYRING) : BYTES(BARRIER_LOCAL_KEYRING);
}

struct bytes keys_ring_record(const struct barrier_records *records, enum barrier_ring ring)
{
    return ring == BARRIER_SHARED ? records->keyring : records->local_keyring;
}

struct ring_mark keys_mark(struct bytes record)
{
    struct ring_mark mark = {0};
    if (record.len >= RING_OVERHEAD) {
        memcpy(mark.data, record.data + 1, AEAD_NONCE_BYTES);
        memcpy(mark.data + AEAD_NONCE_BYTES, record.data + record.len - AEAD_TAG_BYTES,
               AEAD_TAG_BYTES);
    }
    return mark;
}

bool keys_mark_eq(const struct ring_mark *a, const struct ring_mark *b)
{
    return memcmp(a->data, b->data, sizeof a->data) == 0;
}

/* Decrypt the salt, which is stored like any value of the shared ring. */
static enum status open_salt(const struct ring *ring, struct bytes stored, struct secret *ret_salt)
{
    uint8_t salt[SALT_BYTES + BARRIER_OVERHEAD];
    struct aead *a = NULL;
    uint32_t term;
    size_t n = 0;

    if (stored.len != sizeof salt)
        return ST_CORRUPT;
    TRY(value_term(stored, &term));
    const struct ring_term *found = ring_find(ring, term);
    if (found == NULL)
        return ST_CORRUPT;
    TRY(aead_new(secret_bytes(&found->key), &a));
    enum status st = value_decrypt(a, BYTES(BARRIER_SALT), stored, salt, &n);
    ASSERT(st != ST_OK || n == SALT_BYTES);
    aead_free(a);
    if (st == ST_OK)
        st = secret_dup(bytes_of(salt, n), ret_salt);
    mem_wipe(salt, sizeof salt);
    return st;
}

const struct secret *keys_local_root(const struct barrier_keys *keys)
{
    return keys->local_root.len != 0 ? &keys->local_root : &keys->root;
}

static enum status open_ring(const struct secret *root, const struct barrier_records *records,
                             enum barrier_ring ring, struct ring *ret_ring)
{
    struct aead *a = NULL;
    TRY(aead_new(secret_bytes(root), &a));
    enum status st =
        ring_decode(keys_ring_record(records, ring), a, keys_ring_name(ring), ret_ring);
    aead_free(a);
    return st;
}

/* Open a ring with the first root key of the chain that does. The chain grows as far as needed. */
static enum status open_by_chain(struct chain *c, enum barrier_ring ring, struct ring *ret_ring,
                                 const struct secret **ret_root)
{
    for (unsigned i = 0;; i++) {
        enum status st = i < c->n ? ST_OK : chain_grow(c);
        if (st == ST_NOT_FOUND)
            return ST_CORRUPT;
        TRY(st);
        st = open_ring(&c->roots[i], c->records, ring, ret_ring);
        if (st == ST_CORRUPT)
            continue;
        *ret_root = &c->roots[i];
        return st;
    }
}

/* Open the local ring, which may be absent: upkeep makes it. */
static enum status open_local(struct chain *c, const struct secret *local,
                              struct barrier_keys *keys)
{
    const struct secret *root = local;
    ASSERT(keys->root.len == ROOT_BYTES && keys->local_root.len == 0);
    struct ring *ring = &keys->rings[BARRIER_LOCAL];
    if (c->records->local_keyring.len == 0)
        return ST_OK;
    enum status st = local != NULL ? open_ring(local, c->records, BARRIER_LOCAL, ring) : ST_CORRUPT;
    if (st == ST_CORRUPT)
        st = open_by_chain(c, BARRIER_LOCAL, ring, &root);
    TRY(st);
    if (bytes_eq_secret(secret_bytes(root), secret_bytes(&keys->root)))
        return ST_OK;
    return secret_dup(secret_bytes(root), &keys->local_root);
}

static enum status explain(enum status st, enum barrier_ring ring, struct reason *reason)
{
    if (st != ST_OK)
        reason_set(reason, "the stored key ring %.*s does not open with the root key",
                   (int)keys_ring_name(ring).len, (const char *)keys_ring_name(ring).data);
    return st;
}

static enum status open_rings(struct chain *c, const struct secret *local,
                              struct barrier_keys *keys, struct reason *reason)
{
    const struct secret *root = NULL;
    ASSERT(c->n == 1 && c->tried == 0);
    enum status st = open_by_chain(c, BARRIER_SHARED, &keys->rings[BARRIER_SHARED], &root);
    TRY(explain(st, BARRIER_SHARED, reason));
    TRY(secret_dup(secret_bytes(root), &keys->root));
    TRY(explain(open_local(c, local, keys), BARRIER_LOCAL, reason));
    for (enum barrier_ring i = BARRIER_SHARED; i < BARRIER_RINGS; i++)
        keys->marks[i] = keys_mark(keys_ring_record(c->records, i));
    return ST_OK;
}

enum status keys_open(const struct secret *root, const struct secret *local,
                      const struct barrier_records *records, struct barrier_keys *keys,
                      struct reason *reason)
{
    CLEANUP(chain_free) struct chain *c = NULL;
    ASSERT(root->len == ROOT_BYTES && keys->root.len == 0);
    TRY(chain_new(root, records, &c));
    TRY(open_rings(c, local, keys, reason));
    enum status st = open_salt(&keys->rings[BARRIER_SHARED], records->salt, &keys->salt);
    if (st != ST_OK)
        reason_set(reason, "the stored salt does not open with the key ring");
    return st;
}
