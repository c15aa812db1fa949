#include "auth/wrapping.h"
#include "auth/policy.h"
#include "auth/token_tree.h"
#include "auth/wrapping_jwt.h"
#include "base/plant.h"
#include "state/feature.h"
#include "state/ns_key.h"

static const struct field info_fields[] = {
    FIELD(struct wrapping, creation_path, STRING, .required = true),
    FIELD(struct wrapping, wrapped_accessor, STRING, .preset = "", .omit = true),
    FIELD_NAMED("creation_time", struct wrapping, creation_time_ms, INT, .required = true),
    FIELD_NAMED("creation_ttl", struct wrapping, creation_ttl_s, INT, .required = true),
};
static const struct schema info_schema = SCHEMA(struct wrapping, info_fields);

struct kept_body {
    const char *response;
};
static const struct field body_fields[] = {
    FIELD(struct kept_body, response, STRING, .required = true),
};
static const struct schema body_schema = SCHEMA(struct kept_body, body_fields);

static enum status kept_put(const struct auth_scope *s, const char *id, const char *name,
                            const struct schema *schema, const void *record)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    struct bytes key;
    schema_encode(schema, record, &w);
    TRY(buf_status(&text));
    TRY(state_ns_key(s->txn->arena, s->ns, "cubby", bytes_str(id), name, &key));
    return state_put(s->txn, key, buf_bytes(&text));
}

static enum status kept_read(const struct auth_scope *s, const char *id, const char *name,
                             const struct schema *schema, void *ret_record)
{
    const struct text_value *tree;
    struct state_value stored;
    struct schema_fault fault;
    struct bytes key;
    TRY(state_ns_key(s->txn->arena, s->ns, "cubby", bytes_str(id), name, &key));
    TRY(state_get(s->txn, key, &stored));
    enum status st = text_json_parse(s->txn->arena, stored.value, &tree, NULL);
    if (st == ST_OK && tree->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    if (st == ST_OK)
        st = schema_decode(schema, tree, s->txn->arena, ret_record, &fault);
    /* A record of another form was written by a client, not by wrapping_create. */
    return st == ST_OK || st == ST_NOMEM ? st : ST_NOT_FOUND;
}

enum status wrapping_create(const struct auth_scope *s, struct env *env, struct bytes body,
                            struct wrapping *w)
{
    static const char *const policies[] = {POLICY_WRAPPING};
    const struct kept_body kept = {.response = arena_str(s->txn->arena, body)};
    if (kept.response == NULL)
        return ST_NOMEM;

    ASSERT(w->creation_ttl_s > 0 && w->wrapped_accessor != NULL);
    w->creation_time_ms = s->now_ms;
    w->bearer = NULL;
    w->addr = NULL;
    w->token = auth_token_root(s->now_ms);
    w->token.display_name = "";
    w->token.path = w->creation_path;
    w->token.policies = (struct field_strings){.items = policies, .n = 1, .given = true};
    w->token.expire_ms = s->now_ms + w->creation_ttl_s * 1000;
    w->token.creation_ttl_s = w->token.explicit_max_ttl_s = w->creation_ttl_s;
    w->token.num_uses = 1;
    TRY(state_has_feature(s->txn, TOKEN_KEEPS_FEATURE, &w->token.keeps)); /* the body below */
    TRY(auth_token_create(s, env, &w->token, &w->bearer));
    ASSERT(w->token.limited && w->token.num_uses == 1);
    TRY(kept_put(s, w->token.id, "response", &body_schema, &kept));
    return kept_put(s, w->token.id, "wrapinfo", &info_schema, w);
}

static bool is_wrapping(const struct auth_token *token)
{
    return token->policies.n == 1 && strcmp(token->policies.items[0], POLICY_WRAPPING) == 0;
}

static enum status wrapping_find(const struct auth_scope *s, struct bytes bearer,
                                 struct wrapping *ret)
{
    struct wrapping found = {0};
    struct auth_token token;

    enum status st = auth_token_load(s, bearer, &token);
    if (st == ST_DENIED || (st == ST_OK && !is_wrapping(&token)))
        return ST_NOT_FOUND;
    TRY(st);
    TRY(kept_read(s, token.id, "wrapinfo", &info_schema, &found));
    if (found.creation_ttl_s <= 0)
        return ST_NOT_FOUND;
    ASSERT(found.addr == NULL);
    found.token = token;
    found.bearer = arena_str(s->txn->arena, bearer);
    if (found.bearer == NULL)
        return ST_NOMEM;
    *ret = found;
    return ST_OK;
}

/* Find the wrapping token of a JSON Web Token. Check the signature last: this costs far more than
 * the look-up, and a client that knows no bearer must not make the node spend that. */
static enum status jwt_find(const struct auth_scope *s, struct bytes bearer, struct wrapping *ret)
{
    struct wrapping found;
    struct wrapping_jwt jwt;
    enum status st = wrapping_jwt_read(s->txn->arena, bearer, &jwt);
    if (st == ST_INVALID || (st == ST_OK && !wrapping_jwt_is_current(&jwt, s->now_ms)))
        return ST_NOT_FOUND;
    TRY(st);
    ASSERT(jwt.jti[0] != '\0');
    TRY(wrapping_find(s, bytes_str(jwt.jti), &found));
    TRY(wrapping_jwt_verify(s, &jwt));
    found.bearer = arena_str(s->txn->arena, bearer);
    found.addr = jwt.addr;
    if (found.bearer == NULL)
        return ST_NOMEM;
    *ret = found;
    return ST_OK;
}

enum status wrapping_load(const struct auth_scope *s, struct bytes bearer, struct wrapping *ret)
{
    return jwt_is(bearer) ? jwt_find(s, bearer, ret) : wrapping_find(s, bearer, ret);
}

enum status wrapping_take(const struct auth_scope *s, const struct wrapping *wrapping,
                          struct bytes *ret_body)
{
    struct kept_body kept;
    ASSERT(is_wrapping(&wrapping->token));
    TRY(kept_read(s, wrapping->token.id, "response", &body_schema, &kept));
    *ret_body = bytes_str(kept.response);
    if (planted(PLANT_UNWRAP_KEPT))
        return ST_OK;
    return token_tree_end(s, &wrapping->token, TOKEN_END_TREE);
}
