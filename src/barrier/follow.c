/* How an unsealed barrier takes over what changed in the stored records. */
#include "barrier/barrier_internal.h"

#include "base/mem.h"

/* Whether `next` has every key of `old`: values are stored under each. */
static bool ring_extends(const struct ring *next, const struct ring *old)
{
    for (unsigned i = 0; i < old->n; i++) {
        const struct ring_term *term = ring_find(next, old->terms[i].term);
        if (term == NULL ||
            !bytes_eq_secret(secret_bytes(&term->key), secret_bytes(&old->terms[i].key)))
            return false;
    }
    return true;
}

static bool has_rotated(struct ring *old, struct ring *next)
{
    return old->n == 0 || next->n == 0 || ring_active(next)->term != ring_active(old)->term;
}

/* Take the new keys, which are moved. Uses of a term that stays active stay granted. The lock is
 * held. */
static void take_next(struct barrier *b, struct barrier_keys *next)
{
    bool rotated[BARRIER_RINGS], changed;
    ASSERT(lock_is_held(&b->lock));
    changed = !bytes_eq_secret(secret_bytes(&next->root), secret_bytes(&b->keys.root));
    for (int i = 0; i < BARRIER_RINGS; i++) {
        rotated[i] = has_rotated(&b->keys.rings[i], &next->rings[i]);
        changed |= rotated[i];
    }
    keys_done(&b->keys);
    b->keys = *next;
    mem_wipe(next, sizeof *next);
    if (changed)
        barrier_clear_ciphers(b);
    for (enum barrier_ring i = BARRIER_SHARED; i < BARRIER_RINGS; i++)
        if (rotated[i])
            barrier_set_unpaid(b, i);
}

/* Take new terms of the rings, and a new root key if links lead to it. The caller holds the lock;
 * the barrier is unsealed. ST_CORRUPT: the records do not open, or a ring lacks keys. */
static enum status follow_rings(struct barrier *b, const struct barrier_records *records)
{
    CLEANUP(keys_free) struct barrier_keys *next = NULL;
    bool same = true;
    ASSERT(!atomic_load(&b->sealed));
    ASSERT(b->keys.root.len == ROOT_BYTES);
    for (enum barrier_ring i = BARRIER_SHARED; i < BARRIER_RINGS; i++) {
        struct ring_mark mark = keys_mark(keys_ring_record(records, i));
        same &= keys_mark_eq(&mark, &b->keys.marks[i]);
    }
    if (same)
        return ST_OK;
    next = mem_zalloc(sizeof *next);
    if (next == NULL)
        return ST_NOMEM;
    TRY(keys_open(&b->keys.root, keys_local_root(&b->keys), records, next, NULL));
    for (int i = 0; i < BARRIER_RINGS; i++)
        if (!ring_extends(&next->rings[i], &b->keys.rings[i]))
            return ST_CORRUPT;
    take_next(b, next);
    return ST_OK;
}

/* Take the keys of a restored state. The caller holds the lock; the barrier is unsealed. */
static enum status follow_restored(struct barrier *b, const struct barrier_records *records)
{
    CLEANUP(keys_free) struct barrier_keys *next = mem_zalloc(sizeof *next);
    if (next == NULL)
        return ST_NOMEM;
    TRY(keys_open(&b->keys.root, keys_local_root(&b->keys), records, next, NULL));
    keys_done(&b->keys);
    barrier_take_keys(b, next, records->restored);
    return ST_OK;
}

enum status barrier_follow(struct barrier *b, const struct barrier_records *records)
{
    enum status st = ST_OK;

    lock_take(&b->lock);
    uint64_t restored = atomic_load(&b->restored);
    if (atomic_load(&b->sealed))
        st = ST_SEALED;
    else if (records->restored > restored)
        st = follow_restored(b, records);
    else if (records->restored == restored)
        st = follow_rings(b, records);
    lock_drop(&b->lock);
    return st;
}
