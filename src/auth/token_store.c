#include "auth/token_store.h"
#include "auth/token_accessor.h"
#include "auth/token_cache.h"
#include "auth/token_tree.h"
#include "base/plant.h"
#include "lease/lease.h"
#include "state/feature.h"
#include "state/ns_key.h"

static enum status store_key(const struct auth_scope *s, const char *kind, const char *first,
                             const char *second, struct bytes *ret_key)
{
    return state_ns_key(s->txn->arena, s->ns, kind, bytes_str(first), second, ret_key);
}

/* Reading tokens */

enum status token_store_hold(const struct auth_scope *s, const char *id, struct token_ref **ret_ref)
{
    struct bytes key;
    struct state_value stored;
    struct state_stamp stamp;
    struct token_ref *ref = NULL;

    uint64_t view = s->cache != NULL ? state_view(s->txn) : 0;
    if (view != 0 && (ref = token_cache_seen(s->cache, s->ns, id, view)) != NULL) {
        *ret_ref = ref;
        return ST_OK;
    }
    TRY(store_key(s, "token", id, NULL, &key));
    enum status st = state_stamp(s->txn, key, &stamp);
    if (st == ST_NOT_FOUND && planted(PLANT_R3_REVOKED_ELSEWHERE)) {
        stamp = (struct state_stamp){.modified = 1};
        st = ST_OK;
    }
    TRY(st);
    /* keep only what this transaction did not stage */
    bool keep = s->cache != NULL && stamp.modified != 0;
    if (keep)
        ref = token_cache_get(s->cache, key, stamp);
    if (ref == NULL) {
        TRY(state_get(s->txn, key, &stored));
        TRY(token_ref_new(key, stamp, stored.value, &ref));
        if (keep)
            token_cache_put(s->cache, ref);
    }
    if (keep)
        token_ref_see(ref, view);
    *ret_ref = ref;
    return ST_OK;
}

/* Read and decode a record, without the cache. */
static enum status load_stored(const struct auth_scope *s, struct bytes key,
                               struct auth_token *ret_token)
{
    struct state_value stored;
    TRY(state_get(s->txn, key, &stored));
    return token_record_read(stored.value, s->txn->arena, ret_token);
}

enum status token_store_load(const struct auth_scope *s, const char *id,
                             struct auth_token *ret_token)
{
    struct token_ref *ref = NULL;
    struct bytes key;

    TRY(store_key(s, "token", id, NULL, &key));
    if (s->cache == NULL || !token_cache_has(s->cache, key)) {
        TRY(load_stored(s, key, ret_token));
        ret_token->id = id;
        return ST_OK;
    }
    TRY(token_store_hold(s, id, &ref));
    struct bytes record = token_ref_record(ref);
    record.data = arena_dup(s->txn->arena, record);
    token_ref_drop(ref);
    if (record.data == NULL)
        return ST_NOMEM;
    TRY(token_record_read(record, s->txn->arena, ret_token));
    ret_token->id = id;
    return ST_OK;
}

enum status token_store_exists(const struct auth_scope *s, const char *id)
{
    struct bytes key;
    TRY(store_key(s, "token", id, NULL, &key));
    return state_exists(s->txn, key);
}

enum status token_store_accessor_key(struct arena *arena, const char *ns, struct bytes accessor,
                                     struct bytes *ret_key)
{
    return state_ns_key(arena, ns, "accessor", accessor, NULL, ret_key);
}

enum status token_store_kind_prefix(struct arena *arena, const char *ns, enum token_kind kind,
                                    struct bytes *ret_prefix)
{
    ASSERT(kind != TOKEN_SECRETS);
    return state_ns_key(arena, ns, "token-kind", bytes_str(token_kind_name(kind)), "", ret_prefix);
}

/* Changing tokens */

static enum status record_make(const struct auth_token *token, struct buf *record)
{
    ASSERT(token->id[0] != '\0' && !auth_token_is_batch(token));
    /* token_record_read refuses a record beyond these bounds. */
    ASSERT(token->depth <= AUTH_TOKEN_DEPTH_MAX);
    ASSERT(token->expire_ms < TEXT_EXPIRY_END);
    ASSERT(token->created_ms < TEXT_CLOCK_END && token->renewed_ms < TEXT_CLOCK_END);
    token_record_put(token, record);
    return buf_status(record);
}

/* Note a change of a token in the index of its kind. */
static enum status put_kind(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    ASSERT(token->kind != TOKEN_SECRETS);
    TRY(store_key(s, "token-kind", token_kind_name(token->kind), token->id, &key));
    return state_put(s->txn, key, (struct bytes){0});
}

static enum status put_record(const struct auth_scope *s, const struct auth_token *token)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;
    TRY(record_make(token, &record));
    TRY(store_key(s, "token", token->id, NULL, &key));
    TRY(state_put(s->txn, key, buf_bytes(&record)));
    return token->kind != TOKEN_SECRETS ? put_kind(s, token) : ST_OK;
}

/* token_store_put and expiry_put are exempt from the state limit, because they mostly replace a
 * record and an entry. The record of a new token is not exempt, so no new token is. */
enum status token_store_put(const struct auth_scope *s, const struct auth_token *token)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;
    if (token->kind != TOKEN_SECRETS)
        return put_record(s, token);
    TRY(record_make(token, &record));
    TRY(store_key(s, "token", token->id, NULL, &key));
    return state_put_exempt(s->txn, key, buf_bytes(&record));
}

static enum status put_expiry(const struct auth_scope *s, const struct auth_token *token)
{
    return token->expire_ms == 0
               ? ST_OK
               : expiry_put(s->txn, &token_expiry, s->ns, token->expire_ms, token->id);
}

static enum status drop_expiry(const struct auth_scope *s, const struct auth_token *token)
{
    static_assert((int)TOKEN_ACCESSOR_FEATURE >= (int)EXPIRY_FEATURE, "derived since then");
    if (token->expire_ms == 0)
        return ST_OK;
    return (token->derived ? expiry_drop_new : expiry_drop)(s->txn, &token_expiry, s->ns,
                                                            token->expire_ms, token->id);
}

enum status token_store_update(const struct auth_scope *s, const struct auth_token *before,
                               const struct auth_token *after)
{
    ASSERT(strcmp(before->id, after->id) == 0 && before->id[0] != '\0');
    /* An update does not move the keys of accessor and lease. */
    ASSERT(strcmp(before->accessor, after->accessor) == 0);
    ASSERT(strcmp(before->path, after->path) == 0);
    /* an update does not turn a lease into a token without expiry, or back */
    ASSERT((before->expire_ms == 0) == (after->expire_ms == 0));
    if (before->expire_ms != after->expire_ms) {
        TRY(drop_expiry(s, before));
        TRY(put_expiry(s, after));
    }
    return token_store_put(s, after);
}

enum status token_store_keep(const struct auth_scope *s, const char *id)
{
    struct token_ref *ref = NULL;
    struct auth_token token;
    bool raised;

    ASSERT(id[0] != '\0'); /* a batch token keeps nothing of its own */
    if (s->caller != NULL && s->caller->keeps && strcmp(s->caller->id, id) == 0)
        return ST_OK; /* a note in a record stays */
    enum status st = token_store_hold(s, id, &ref);
    if (st == ST_NOT_FOUND) /* the present request is the last use: its mark tells of the key */
        return ST_OK;
    TRY(st);
    bool keeps = token_ref_get(ref)->keeps;
    token_ref_drop(ref);
    if (keeps)
        return ST_OK;
    TRY(state_has_feature(s->txn, TOKEN_KEEPS_FEATURE, &raised));
    if (!raised)
        return ST_OK;
    TRY(token_store_load(s, id, &token));
    token.keeps = true;
    return token_store_put(s, &token);
}

/* The key by which the tokens of an entity are found. */
static enum status put_entity(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    TRY(store_key(s, "entity-token", token->entity_id, token->id, &key));
    return state_put_name(s->txn, key, false);
}

enum status token_store_add(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    bool secrets = token->kind == TOKEN_SECRETS;

    /* the list of accessors tells the kinds apart by the lengths of their accessors */
    ASSERT((strlen(token->accessor) == AUTH_ACCESSOR_LEN) == secrets);
    TRY(put_record(s, token));
    TRY(put_expiry(s, token));
    if (token->expire_ms != 0 && secrets)
        TRY(lease_index_put(s->txn, s->ns, token->path, token->id));
    if (!token->derived) {
        TRY(token_store_accessor_key(s->txn->arena, s->ns, bytes_str(token->accessor), &key));
        TRY(state_put(s->txn, key, bytes_str(token->id)));
    }
    if (token->entity_id[0] != '\0')
        TRY(put_entity(s, token));
    if (token->parent[0] == '\0')
        return ST_OK;
    TRY(token_store_keep(s, token->parent));
    TRY(store_key(s, "child", token->parent, token->id, &key));
    return state_put_name(s->txn, key, false);
}

static enum status delete_at(const struct auth_scope *s, const char *kind, const char *first,
                             const char *second)
{
    struct bytes key;
    TRY(store_key(s, kind, first, second, &key));
    return state_delete(s->txn, key);
}

enum status token_store_delete(const struct auth_scope *s, const struct auth_token *token)
{
    ASSERT(token->id[0] != '\0' && token->accessor[0] != '\0');
    TRY(delete_at(s, "token", token->id, NULL));
    if (!token->derived)
        TRY(delete_at(s, "accessor", token->accessor, NULL));
    if (token->parent[0] != '\0')
        TRY(delete_at(s, "child", token->parent, token->id));
    if (token->entity_id[0] != '\0')
        TRY(delete_at(s, "entity-token", token->entity_id, token->id));
    if (token->kind != TOKEN_SECRETS)
        TRY(delete_at(s, "token-kind", token_kind_name(token->kind), token->id));
    if (token->expire_ms == 0)
        return ST_OK;
    if (token->kind == TOKEN_SECRETS)
        TRY(lease_index_drop(s->txn, s->ns, token->path, token->id));
    return drop_expiry(s, token);
}
