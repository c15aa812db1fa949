#include "auth/wrapping_jwt.h"

#include "crypto/es512.h"
#include "text/bounded_json.h"
#include "text/json.h"

#define ALG "ES512"
#define TYPE "wrapping"

/* The key */

static enum status signer_load(const struct auth_scope *s, struct es512_key *ret_key)
{
    struct state_value stored;
    TRY(state_get(s->txn, BYTES(WRAPPING_JWT_KEY), &stored));
    return es512_key_load(stored.value, ret_key);
}

static enum status signer_make(const struct auth_scope *s, struct es512_key *ret_key)
{
    CLEANUP(buf_done) struct buf saved = {0};
    CLEANUP(es512_key_done) struct es512_key key = {0};
    ASSERT(ret_key->key == NULL);
    TRY(es512_key_new(&key));
    TRY(es512_key_save(&key, &saved));
    TRY(state_put(s->txn, BYTES(WRAPPING_JWT_KEY), buf_bytes(&saved)));
    *ret_key = key;
    key = (struct es512_key){0};
    return ST_OK;
}

/* Reading */

/* A claim that is a text; absent: "". A text of another type is ST_INVALID. */
static enum status text_claim(const json_t *claims, const char *name, struct arena *arena,
                              const char **ret_text)
{
    const json_t *found = json_object_get(claims, name);
    *ret_text = "";
    if (found == NULL)
        return ST_OK;
    if (!json_is_string(found))
        return ST_INVALID;
    *ret_text = arena_str(arena, bytes_str(json_string_value(found)));
    return *ret_text != NULL ? ST_OK : ST_NOMEM;
}

/* A claim in seconds since 1970; absent: 0. */
static enum status time_claim(const json_t *claims, const char *name, int64_t *ret_s)
{
    const json_t *found = json_object_get(claims, name);
    *ret_s = found != NULL ? json_integer_value(found) : 0;
    bool fits = found == NULL || json_is_integer(found);
    return fits && *ret_s >= 0 && *ret_s < TEXT_EXPIRY_END / 1000 ? ST_OK : ST_INVALID;
}

static enum status read_claims(const json_t *claims, struct arena *arena, struct wrapping_jwt *jwt)
{
    const char *type;
    ASSERT(json_is_object(claims));
    TRY(text_claim(claims, "accessor", arena, &jwt->accessor));
    TRY(text_claim(claims, "addr", arena, &jwt->addr));
    TRY(text_claim(claims, "jti", arena, &jwt->jti));
    TRY(text_claim(claims, "type", arena, &type));
    TRY(time_claim(claims, "exp", &jwt->exp_s));
    TRY(time_claim(claims, "iat", &jwt->iat_s));
    TRY(time_claim(claims, "nbf", &jwt->nbf_s));
    return strcmp(type, TYPE) == 0 && jwt->jti[0] != '\0' && jwt->exp_s != 0 ? ST_OK : ST_INVALID;
}

enum status wrapping_jwt_read(struct arena *arena, struct bytes token, struct wrapping_jwt *ret_jwt)
{
    CLEANUP(bounded_json_done) json_t *claims = NULL;
    struct wrapping_jwt jwt = {0};
    TRY(jwt_split(arena, token, ALG, &jwt.form));
    enum status st = bounded_json_parse(jwt.form.claims, &claims);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_INVALID;
    TRY(read_claims(claims, arena, &jwt));
    *ret_jwt = jwt;
    return ST_OK;
}

bool wrapping_jwt_is_current(const struct wrapping_jwt *jwt, int64_t now_ms)
{
    ASSERT(now_ms >= 0);
    return now_ms >= jwt->nbf_s * 1000 && now_ms < jwt->exp_s * 1000;
}

enum status wrapping_jwt_verify(const struct auth_scope *s, const struct wrapping_jwt *jwt)
{
    CLEANUP(es512_key_done) struct es512_key key = {0};
    ASSERT(jwt->form.input.len != 0);
    TRY(signer_load(s, &key));
    enum status st = es512_verify(&key, jwt->form.input, jwt->form.signature);
    return st == ST_INVALID ? ST_NOT_FOUND : st;
}

/* Writing */

static void put_claims(const struct wrapping *w, struct buf *out)
{
    struct text_writer claims = {.out = out, .plain = true};
    int64_t iat_s = w->creation_time_ms / 1000;
    ASSERT(w->bearer != NULL && w->addr != NULL);
    ASSERT(w->creation_ttl_s > 0);
    text_open_object(&claims);
    text_member_str(&claims, "accessor", w->wrapped_accessor);
    text_member_str(&claims, "addr", w->addr);
    text_member_int(&claims, "exp", iat_s + w->creation_ttl_s);
    text_member_int(&claims, "iat", iat_s);
    text_member_str(&claims, "jti", w->bearer);
    text_member_int(&claims, "nbf", MAX(iat_s - WRAPPING_JWT_EARLY_S, 0));
    text_member_str(&claims, "type", TYPE);
    text_close(&claims);
}

static enum status sign(const struct es512_key *key, struct bytes claims, struct buf *out)
{
    uint8_t signature[ES512_SIGNATURE_BYTES];
    ASSERT(claims.len != 0);
    jwt_put_input(out, ALG, claims);
    TRY(buf_status(out));
    TRY(es512_sign(key, buf_bytes(out), signature));
    jwt_put_signature(out, bytes_of(signature, sizeof signature));
    TRY(buf_status(out));
    return out->len <= JWT_BYTES_MAX ? ST_OK : ST_TOO_BIG;
}

enum status wrapping_jwt_make(const struct auth_scope *s, struct wrapping *w)
{
    CLEANUP(es512_key_done) struct es512_key key = {0};
    CLEANUP(buf_done) struct buf claims = {0};
    CLEANUP(buf_done) struct buf token = {0};
    ASSERT(!jwt_is(bytes_str(w->bearer)));
    enum status st = signer_load(s, &key);
    TRY(st == ST_NOT_FOUND ? signer_make(s, &key) : st);
    put_claims(w, &claims);
    TRY(buf_status(&claims));
    TRY(sign(&key, buf_bytes(&claims), &token));
    const char *text = arena_str(s->txn->arena, buf_bytes(&token));
    if (text == NULL)
        return ST_NOMEM;
    w->bearer = text;
    return ST_OK;
}
