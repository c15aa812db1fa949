#include "auth/token.h"
#include "auth/namespace.h"
#include "auth/policy.h"
#include "barrier/token.h"
#include "base/mem.h"

#include <assert.h>

static const struct field token_fields[] = {
    FIELD(struct auth_token, accessor, STRING, .required = true),
    FIELD(struct auth_token, display_name, STRING, .preset = ""),
    FIELD(struct auth_token, path, STRING, .preset = ""),
    FIELD(struct auth_token, type, STRING, .preset = "service"),
    FIELD(struct auth_token, entity_id, STRING, .preset = ""),
    FIELD(struct auth_token, policies, STRINGS),
    FIELD(struct auth_token, meta, MAP),
    FIELD_NAMED("creation_time", struct auth_token, creation_time_s, INT),
    FIELD_NAMED("creation_ttl", struct auth_token, creation_ttl_s, INT),
    FIELD_NAMED("explicit_max_ttl", struct auth_token, explicit_max_ttl_s, INT),
    FIELD_NAMED("expire_time", struct auth_token, expire_time_s, INT),
    FIELD(struct auth_token, num_uses, INT),
    FIELD(struct auth_token, orphan, BOOL),
    FIELD(struct auth_token, renewable, BOOL),
};
const struct schema auth_token_schema = SCHEMA(struct auth_token, token_fields);

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

/* Half of the HMAC: nobody finds another bearer for it, and there is one in many keys. */
static enum status token_id(struct arena *arena, struct barrier_seat *seat, struct bytes bearer,
                            const char **ret_id)
{
    char name[2 * BARRIER_MAC_BYTES + 1];
    static_assert(AUTH_TOKEN_ID_LEN < sizeof name, "a part");
    TRY(token_name(seat, bearer, name));
    const char *id = arena_str(arena, bytes_of(name, AUTH_TOKEN_ID_LEN));
    if (id == NULL)
        return ST_NOMEM;
    *ret_id = id;
    return ST_OK;
}

enum status auth_token_load(struct state_txn *txn, struct barrier_seat *seat, const char *ns,
                            struct bytes bearer, int64_t now_s, struct auth_token *ret_token)
{
    struct bytes key;
    struct state_value stored;
    const struct text_value *record;
    const char *id;
    struct schema_fault fault;

    if (bearer.len == 0 || bearer.len > AUTH_TOKEN_MAX)
        return ST_DENIED;
    TRY(token_id(txn->arena, seat, bearer, &id));
    TRY(auth_key(txn->arena, ns, "token", bytes_str(id), NULL, &key));
    enum status st = state_get(txn, key, &stored);
    if (st == ST_NOT_FOUND)
        return ST_DENIED;
    TRY(st);
    st = text_json_parse(txn->arena, stored.value, &record, &fault.why);
    if (st == ST_OK && record->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    if (st == ST_OK)
        st = schema_decode(&auth_token_schema, record, txn->arena, ret_token, &fault);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    ret_token->id = id;
    return ret_token->expire_time_s == 0 || now_s < ret_token->expire_time_s ? ST_OK : ST_DENIED;
}

enum status auth_token_save(struct state_txn *txn, struct barrier_seat *seat, const char *ns,
                            struct bytes bearer, const struct auth_token *token)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record};
    struct bytes key, index;
    const char *id;

    ASSERT(token->accessor != NULL && token->accessor[0] != '\0');
    TRY(token_id(txn->arena, seat, bearer, &id));
    TRY(auth_key(txn->arena, ns, "token", bytes_str(id), NULL, &key));
    schema_encode(&auth_token_schema, token, &w);
    TRY(buf_status(&record));
    TRY(state_put(txn, key, buf_bytes(&record)));
    TRY(auth_key(txn->arena, ns, "accessor", bytes_str(token->accessor), NULL, &index));
    return state_put(txn, index, bytes_str(id));
}

enum status auth_token_make_root(struct env *env, struct arena *arena, int64_t now_s,
                                 struct auth_token *ret_token, const char **ret_bearer)
{
    static const char *const policies[] = {AUTH_POLICY_ROOT};
    char *accessor = arena_alloc(arena, AUTH_ACCESSOR_LEN + 1);
    char *bearer = arena_alloc(arena, TOKEN_SERVICE_LEN + 1);
    if (accessor == NULL || bearer == NULL)
        return ST_NOMEM;
    auth_random_text(env, accessor, AUTH_ACCESSOR_LEN);
    token_make(env, bearer);
    *ret_bearer = bearer;
    *ret_token = (struct auth_token){
        .accessor = accessor,
        .display_name = "root",
        .path = "auth/token/root",
        .type = "service",
        .entity_id = "",
        .policies = {.items = policies, .n = 1, .given = true},
        .creation_time_s = now_s,
        .orphan = true,
    };
    return ST_OK;
}
