/* A new root key, or the same one wrapped anew.
 *
 * The seal wraps the new root key, and the rings are stored under the new root key. Unsealed nodes
 * do not have the key of the seal, and a DR secondary has a seal of its own: a link leads both from
 * the superseded root key to the new one (chain.c). */
#include "barrier/barrier_internal.h"
#include "barrier/seal_record.h"

#include "base/mem.h"

static enum status keys_copy(struct barrier *b, struct barrier_keys *ret_keys)
{
    enum status st = ST_SEALED;
    ASSERT(ret_keys->root.len == 0);
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed))
        st = secret_dup(secret_bytes(&b->keys.root), &ret_keys->root);
    for (int i = 0; st == ST_OK && i < BARRIER_RINGS; i++)
        st = b->keys.rings[i].n != 0 ? ring_copy(&b->keys.rings[i], &ret_keys->rings[i])
                                     : ST_NOT_FOUND;
    lock_drop(&b->lock);
    return st;
}

static enum status records_put(struct barrier_keys *keys, const struct secret *next,
                               const struct seal *seal, struct env *env,
                               struct barrier_rekeyed *ret)
{
    struct aead *root = NULL;
    TRY(seal_wrap(seal, env, next, &ret->seal));
    TRY(aead_new(secret_bytes(next), &root));
    enum status st =
        ring_encode(&keys->rings[BARRIER_SHARED], root, env, BYTES(BARRIER_KEYRING), &ret->keyring);
    if (st == ST_OK)
        st = ring_encode(&keys->rings[BARRIER_LOCAL], root, env, BYTES(BARRIER_LOCAL_KEYRING),
                         &ret->local_keyring);
    aead_free(root);
    ASSERT(st != ST_OK || ring_shaped(buf_bytes(&ret->keyring)));
    ASSERT(st != ST_OK || ring_shaped(buf_bytes(&ret->local_keyring)));
    return st;
}

enum status barrier_rekey(struct barrier *b, struct env *env, const struct seal *seal,
                          const struct barrier_link_head *head, struct barrier_rekeyed *ret_rekeyed)
{
    struct barrier_keys *keys = mem_zalloc(sizeof *keys);
    struct barrier_rekeyed out = {0};
    struct secret next = {0};

    ASSERT(seal->key.len == SEAL_KEY_BYTES && head->name.len > 0);
    if (keys == NULL)
        return ST_NOMEM;
    enum status st = keys_copy(b, keys);
    if (st == ST_OK)
        st = secret_new(SEAL_KEY_BYTES, &next);
    if (st == ST_OK) {
        env_random(env, next.data, next.len);
        st = records_put(keys, &next, seal, env, &out);
    }
    if (st == ST_OK)
        st = link_put(&keys->root, &next, env, head, &out.link);
    secret_done(&next);
    keys_free(&keys);
    ASSERT(st != ST_OK || out.link.len != 0);
    if (st == ST_OK)
        *ret_rekeyed = out;
    else
        barrier_rekeyed_done(&out);
    return st;
}

void barrier_rekeyed_done(struct barrier_rekeyed *rekeyed)
{
    buf_done(&rekeyed->seal);
    buf_done(&rekeyed->keyring);
    buf_done(&rekeyed->local_keyring);
    buf_done(&rekeyed->link);
    *rekeyed = (struct barrier_rekeyed){0};
}

enum status barrier_reseal(struct barrier *b, struct env *env, const struct seal *seal,
                           struct buf *ret_record)
{
    struct secret root = {0};
    TRY(copy_root(b, &root));
    enum status st = seal_wrap(seal, env, &root, ret_record);
    secret_done(&root);
    return st;
}

/* The root key of the local ring. ST_NOT_FOUND: it is the present root key. */
static enum status copy_local_root(struct barrier *b, struct secret *ret_root)
{
    enum status st = ST_SEALED;
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed))
        st = b->keys.local_root.len != 0 ? secret_dup(secret_bytes(&b->keys.local_root), ret_root)
                                         : ST_NOT_FOUND;
    lock_drop(&b->lock);
    return st;
}

enum status barrier_link(struct barrier *b, struct barrier *other, struct env *env,
                         const struct barrier_link_head *head, struct buf *out)
{
    CLEANUP(secret_done) struct secret from = {0}, to = {0};
    TRY(b == other ? copy_local_root(b, &from) : copy_root(b, &from));
    TRY(copy_root(other, &to));
    ASSERT(from.len == ROOT_BYTES && to.len == ROOT_BYTES);
    return link_put(&from, &to, env, head, out);
}

enum status barrier_check_seal(struct barrier *b, const struct seal *seal, struct bytes seal_record,
                               struct reason *reason)
{
    CLEANUP(secret_done) struct secret root = {0}, wrapped = {0};
    TRY(copy_root(b, &root));
    TRY(seal_unwrap(seal, seal_record, &wrapped, reason));
    if (bytes_eq_secret(secret_bytes(&root), secret_bytes(&wrapped)))
        return ST_OK;
    reason_set(reason, "the stored seal wraps another root key");
    return ST_INVALID;
}
