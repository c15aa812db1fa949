#include "lease/lease.h"
#include "lease/lease_internal.h"
#include "state/ns_key.h"
#include "text/random.h"

/* Keys */

const char *lease_id(struct arena *arena, const char *path, const char *id)
{
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return arena_format(arena, "%.*s/%s", (int)len, path, id);
}

enum status lease_prefix(struct arena *arena, const char *ns, const char *prefix,
                         struct bytes *ret_key)
{
    return state_ns_key(arena, ns, LEASE_INDEX, bytes_str(prefix), NULL, ret_key);
}

static enum status index_key(struct state_txn *txn, const char *ns, const char *path,
                             const char *id, struct bytes *ret_key)
{
    const char *name = lease_id(txn->arena, path, id);
    ASSERT(id[0] != '\0' && strchr(id, '/') == NULL);
    return name != NULL ? lease_prefix(txn->arena, ns, name, ret_key) : ST_NOMEM;
}

enum status lease_index_put(struct state_txn *txn, const char *ns, const char *path, const char *id)
{
    struct bytes key;
    TRY(index_key(txn, ns, path, id, &key));
    return state_put(txn, key, (struct bytes){0});
}

enum status lease_index_drop(struct state_txn *txn, const char *ns, const char *path,
                             const char *id)
{
    struct bytes key;
    TRY(index_key(txn, ns, path, id, &key));
    return state_delete(txn, key);
}

static enum status end_key(const struct lease_scope *s, const struct lease *lease,
                           struct bytes *ret_key)
{
    ASSERT(lease->expire_ms != 0);
    return state_ns_time_key(s->txn->arena, s->ns, LEASE_ENDS, lease->expire_ms, lease->id,
                             ret_key);
}

/* Records */

/* A renewed record takes the place of an old one, also in a full state. */
static enum status put_lease_record(const struct lease_scope *s, const struct lease *lease,
                                    bool renewed)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;

    ASSERT(!lease->kind->indexed && lease->expire_ms < TEXT_EXPIRY_END);
    lease_record_put(lease, &record);
    TRY(buf_status(&record));
    TRY(lease_prefix(s->txn->arena, s->ns, lease->id, &key));
    TRY(renewed ? state_put_exempt(s->txn, key, buf_bytes(&record))
                : state_put(s->txn, key, buf_bytes(&record)));
    if (lease->expire_ms == 0)
        return ST_OK;
    TRY(end_key(s, lease, &key));
    return state_put_exempt(s->txn, key, (struct bytes){0});
}

enum status lease_load(const struct lease_scope *s, const char *id, struct lease *ret_lease)
{
    struct lease lease = {.id = id};
    struct state_value stored;
    struct bytes key;

    TRY(lease_prefix(s->txn->arena, s->ns, id, &key));
    enum status st = state_get(s->txn, key, &stored);
    if (st == ST_INVALID) /* the id is too long for a key, so no lease has it */
        return ST_NOT_FOUND;
    TRY(st);
    if (stored.value.len != 0) {
        TRY(lease_record_read(stored.value, s->kinds, &lease));
    } else {
        lease.kind = lease_kind_of(s->kinds, stored.value);
        if (lease.kind == NULL)
            return ST_CORRUPT;
        TRY(lease.kind->find(s, &lease));
    }
    *ret_lease = lease;
    return ST_OK;
}

/* One lease */

enum status lease_create(const struct lease_scope *s, struct env *env, const char *path,
                         struct lease *lease)
{
    char id[LEASE_ID_LEN + 1];

    ASSERT(!lease->kind->indexed &&
           lease_kind_of(s->kinds, bytes_str(lease->kind->name)) == lease->kind);
    ASSERT(lease->expire_ms == 0 || lease->expire_ms > s->now_ms);
    text_random(env, id, LEASE_ID_LEN);
    lease->id = lease_id(s->txn->arena, path, id);
    if (lease->id == NULL)
        return ST_NOMEM;
    lease->issued_ms = s->now_ms;
    lease->renewed_ms = 0;
    lease->thing = NULL;
    return put_lease_record(s, lease, false);
}

enum status lease_find(const struct lease_scope *s, const char *id, struct lease *ret_lease)
{
    struct lease lease;

    TRY(lease_load(s, id, &lease));
    if (lease.expire_ms != 0 && lease.expire_ms <= s->now_ms)
        return ST_NOT_FOUND;
    if (lease.kind->check != NULL)
        TRY(lease.kind->check(s, &lease));
    *ret_lease = lease;
    return ST_OK;
}

enum status lease_renew(const struct lease_scope *s, struct lease *lease, int64_t wanted_s,
                        struct reason *why)
{
    struct lease renewed = *lease;
    struct bytes key;

    ASSERT(lease->expire_ms == 0 || lease->expire_ms > s->now_ms);
    if (lease->kind->renew == NULL || (!lease->kind->indexed && !lease->renewable)) {
        reason_set(why, "lease is not renewable");
        return ST_INVALID;
    }
    TRY(lease->kind->renew(s, &renewed, wanted_s, why));
    ASSERT(renewed.expire_ms == 0 || renewed.expire_ms > s->now_ms);
    renewed.renewed_ms = s->now_ms;
    if (!lease->kind->indexed) {
        if (lease->expire_ms != 0) {
            TRY(end_key(s, lease, &key));
            TRY(state_delete(s->txn, key));
        }
        TRY(put_lease_record(s, &renewed, true));
    }
    *lease = renewed;
    return ST_OK;
}

enum status lease_end(const struct lease_scope *s, const struct lease *lease)
{
    struct bytes key;

    if (lease->kind->end != NULL)
        TRY(lease->kind->end(s, lease));
    if (lease->kind->indexed)
        return ST_OK;
    if (lease->expire_ms != 0) {
        TRY(end_key(s, lease, &key));
        TRY(state_delete(s->txn, key));
    }
    TRY(lease_prefix(s->txn->arena, s->ns, lease->id, &key));
    ASSERT(state_exists(s->txn, key) != ST_NOT_FOUND); /* a lease ends once */
    return state_delete(s->txn, key);
}
