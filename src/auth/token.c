#include "auth/token.h"
#include "auth/namespace.h"
#include "auth/policy.h"
#include "auth/token_batch.h"
#include "auth/token_cache.h"
#include "auth/token_record.h"
#include "auth/token_tree.h"
#include "barrier/token.h"
#include "base/mem.h"

#include <assert.h>

void auth_random_text(struct env *env, char *out, size_t n)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { KINDS = 62, FAIR = 256 / KINDS * KINDS };
    for (size_t i = 0; i < n;) {
        uint8_t pool[32];
        env_random(env, pool, sizeof pool);
        for (size_t j = 0; j < sizeof pool && i < n; j++)
            if (pool[j] < FAIR)
                out[i++] = digits[pool[j] % KINDS];
        mem_wipe(pool, sizeof pool);
    }
    out[n] = '\0';
}

void auth_uuid(struct env *env, char ret_uuid[AUTH_UUID_LEN + 1])
{
    uint8_t b[16];
    char *to = ret_uuid;
    env_random(env, b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof b; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        *to++ = "0123456789abcdef"[b[i] >> 4];
        *to++ = "0123456789abcdef"[b[i] & 15];
    }
    *to = '\0';
    ASSERT(to == ret_uuid + AUTH_UUID_LEN);
}

bool auth_token_is_batch(const struct auth_token *token)
{
    return strcmp(token->type, AUTH_TYPE_BATCH) == 0;
}

/* Keys */

static enum status key_of(const struct auth_scope *s, const char *kind, const char *first,
                          const char *second, struct bytes *ret_key)
{
    return auth_key(s->txn->arena, s->ns, kind, bytes_str(first), second, ret_key);
}

enum status auth_expire_key(const struct auth_scope *s, int64_t expire_ms, const char *id,
                            struct bytes *ret_key)
{
    char time[AUTH_EXPIRE_DIGITS + 1];
    ASSERT(expire_ms > 0 && expire_ms < AUTH_EXPIRE_MAX_MS);
    for (int i = AUTH_EXPIRE_DIGITS - 1; i >= 0; i--, expire_ms /= 16)
        time[i] = "0123456789abcdef"[expire_ms % 16];
    time[AUTH_EXPIRE_DIGITS] = '\0';
    return key_of(s, "expire", time, id, ret_key);
}

/* Half of the HMAC: nobody finds another bearer for it, and there is one in many keys. */
static enum status id_of(const struct auth_scope *s, struct bytes bearer, const char **ret_id)
{
    char name[2 * BARRIER_MAC_BYTES + 1];
    static_assert(AUTH_TOKEN_ID_LEN < sizeof name, "a part");
    TRY(token_name(s->seat, bearer, name));
    const char *id = arena_str(s->txn->arena, bytes_of(name, AUTH_TOKEN_ID_LEN));
    if (id == NULL)
        return ST_NOMEM;
    *ret_id = id;
    return ST_OK;
}

/* Finding */

enum status auth_token_record(const struct auth_scope *s, const char *id, struct bytes *ret_record)
{
    struct bytes key;
    struct state_value stored;
    struct state_stamp stamp;

    TRY(key_of(s, "token", id, NULL, &key));
    TRY(state_stamp(s->txn, key, &stamp));
    if (s->cache != NULL && stamp.modified != 0) {
        struct bytes kept = token_cache_get(s->cache, key, stamp);
        if (kept.data != NULL) {
            *ret_record = bytes_of(arena_dup(s->txn->arena, kept), kept.len);
            return ret_record->data != NULL ? ST_OK : ST_NOMEM;
        }
    }
    TRY(state_get(s->txn, key, &stored));
    if (s->cache != NULL && stamp.modified != 0)
        token_cache_put(s->cache, key, stamp, stored.value);
    *ret_record = stored.value;
    return ST_OK;
}

static bool has_expired(const struct auth_scope *s, int64_t expire_ms)
{
    return expire_ms != 0 && s->now_ms >= expire_ms;
}

/* Whether all ancestors are good. A parent that was revoked without its children left word of it.
 * ST_NOT_FOUND: one is not. */
static enum status check_ancestors(const struct auth_scope *s, const char *parent, bool *ret_orphan)
{
    *ret_orphan = parent[0] == '\0';
    for (unsigned i = 0; i <= AUTH_TOKEN_DEPTH_MAX && parent[0] != '\0'; i++) {
        struct bytes record;
        int64_t expire_ms;
        enum status st = auth_token_record(s, parent, &record);
        if (st == ST_NOT_FOUND) {
            TRY(token_tree_left_children(s, parent));
            *ret_orphan = *ret_orphan || i == 0;
            return ST_OK;
        }
        TRY(st);
        TRY(token_record_head(record, &expire_ms, &parent));
        if (has_expired(s, expire_ms))
            return ST_NOT_FOUND;
    }
    return parent[0] == '\0' ? ST_OK : ST_CORRUPT;
}

/* A token whose record was read: whether it is good now. */
static enum status check(const struct auth_scope *s, struct auth_token *token)
{
    if (has_expired(s, token->expire_ms))
        return ST_NOT_FOUND;
    return check_ancestors(s, token->parent, &token->orphan);
}

static enum status load_record(const struct auth_scope *s, const char *id,
                               struct auth_token *ret_token)
{
    struct bytes record;
    TRY(auth_token_record(s, id, &record));
    TRY(token_record_read(record, s->txn->arena, ret_token));
    ret_token->id = id;
    return ST_OK;
}

/* An id may be given out again when its token has ended, an accessor never. What is stored of a
 * token's children is deleted before that; a batch token has to know its parent itself. */
static enum status check_batch(const struct auth_scope *s, struct auth_token *token)
{
    struct auth_token parent;
    if (token->parent[0] != '\0') {
        TRY(load_record(s, token->parent, &parent));
        if (strcmp(parent.accessor, token->accessor) != 0)
            return ST_NOT_FOUND;
    }
    token->accessor = "";
    return check(s, token);
}

static enum status seal_batch(const struct auth_scope *s, const struct auth_token *token,
                              const char **bearer)
{
    struct auth_token sealed = *token, parent;
    if (token->parent[0] != '\0') {
        TRY(load_record(s, token->parent, &parent));
        sealed.accessor = parent.accessor;
    }
    return token_batch_seal(s->txn, s->seat, s->ns, &sealed, bearer);
}

enum status auth_token_load_id(const struct auth_scope *s, const char *id,
                               struct auth_token *ret_token)
{
    struct auth_token token;

    TRY(load_record(s, id, &token));
    TRY(check(s, &token));
    *ret_token = token;
    return ST_OK;
}

enum status auth_token_load(const struct auth_scope *s, struct bytes bearer,
                            struct auth_token *ret_token)
{
    enum status st;
    struct auth_token token;
    const char *id;

    if (bearer.len == 0 || bearer.len > AUTH_TOKEN_MAX)
        return ST_DENIED;
    if (token_batch_is(bearer)) {
        st = token_batch_open(s->txn, s->ns, bearer, &token);
        if (st == ST_OK)
            st = check_batch(s, &token);
    } else {
        TRY(id_of(s, bearer, &id));
        st = auth_token_load_id(s, id, &token);
    }
    if (st == ST_OK)
        *ret_token = token;
    return st == ST_NOT_FOUND ? ST_DENIED : st;
}

enum status auth_token_find(const struct auth_scope *s, const char *accessor,
                            struct auth_token *ret_token)
{
    struct bytes key;
    struct state_value stored;

    if (accessor[0] == '\0' || strlen(accessor) > AUTH_TOKEN_MAX)
        return ST_NOT_FOUND;
    TRY(key_of(s, "accessor", accessor, NULL, &key));
    enum status st = state_get(s->txn, key, &stored);
    if (st == ST_INVALID)
        return ST_NOT_FOUND;
    TRY(st);
    const char *id = arena_str(s->txn->arena, stored.value);
    return id == NULL ? ST_NOMEM : auth_token_load_id(s, id, ret_token);
}

/* Changing */

static enum status put_record(const struct auth_scope *s, const struct auth_token *token)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;

    token_record_put(token, &record);
    TRY(buf_status(&record));
    TRY(key_of(s, "token", token->id, NULL, &key));
    return state_put(s->txn, key, buf_bytes(&record));
}

static enum status put_expiry(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    if (token->expire_ms == 0)
        return ST_OK;
    TRY(auth_expire_key(s, token->expire_ms, token->id, &key));
    return state_put(s->txn, key, (struct bytes){0});
}

enum status auth_token_update(const struct auth_scope *s, const struct auth_token *before,
                              const struct auth_token *after)
{
    struct bytes key;

    ASSERT(strcmp(before->id, after->id) == 0 && before->id[0] != '\0');
    if (before->expire_ms != after->expire_ms && before->expire_ms != 0) {
        TRY(auth_expire_key(s, before->expire_ms, before->id, &key));
        TRY(state_delete(s->txn, key));
    }
    TRY(put_expiry(s, after));
    return put_record(s, after);
}

enum status auth_token_use(const struct auth_scope *s, struct auth_token *token)
{
    if (!token->limited)
        return ST_OK;
    ASSERT(token->num_uses > 0);
    if (--token->num_uses == 0)
        return token_tree_end(s, token, TOKEN_END_TREE);
    return put_record(s, token);
}

/* The id of a bearer that nobody has. */
static enum status claim_id(const struct auth_scope *s, struct bytes bearer, const char **ret_id)
{
    struct bytes key;

    TRY(id_of(s, bearer, ret_id));
    TRY(key_of(s, "token", *ret_id, NULL, &key));
    enum status st = state_exists(s->txn, key);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    return token_tree_is_clean(s, *ret_id);
}

static enum status put_new(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;

    TRY(put_record(s, token));
    TRY(put_expiry(s, token));
    TRY(key_of(s, "accessor", token->accessor, NULL, &key));
    TRY(state_put(s->txn, key, bytes_str(token->id)));
    if (token->parent[0] == '\0')
        return ST_OK;
    TRY(key_of(s, "child", token->parent, token->id, &key));
    return state_put(s->txn, key, (struct bytes){0});
}

enum status auth_token_create(const struct auth_scope *s, struct env *env, struct auth_token *token,
                              const char **bearer)
{
    struct arena *arena = s->txn->arena;
    char *accessor = arena_alloc(arena, AUTH_ACCESSOR_LEN + 1);
    char *made = arena_alloc(arena, TOKEN_SERVICE_LEN + 1);

    ASSERT(token->depth <= AUTH_TOKEN_DEPTH_MAX);
    if (accessor == NULL || made == NULL)
        return ST_NOMEM;
    token->id = token->accessor = "";
    token->orphan = token->parent[0] == '\0';
    token->limited = token->num_uses != 0;
    if (auth_token_is_batch(token))
        return seal_batch(s, token, bearer);
    auth_random_text(env, accessor, AUTH_ACCESSOR_LEN);
    token->accessor = accessor;
    token_make(env, made);
    if (*bearer == NULL)
        *bearer = made;
    TRY(claim_id(s, bytes_str(*bearer), &token->id));
    return put_new(s, token);
}

struct auth_token auth_token_root(int64_t now_ms)
{
    static const char *const policies[] = {AUTH_POLICY_ROOT};
    return (struct auth_token){
        .id = "",
        .parent = "",
        .accessor = "",
        .display_name = "root",
        .path = "auth/token/root",
        .type = AUTH_TYPE_SERVICE,
        .role = "",
        .entity_id = "",
        .policies = {.items = policies, .n = 1, .given = true},
        .created_ms = now_ms,
        .orphan = true,
    };
}
