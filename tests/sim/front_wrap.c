/* Wrapped replies: a node's side, as src/front/secrets and src/api/tools use auth/wrapping.h, and
 * what must hold at the end of a run. The reply is a number, which also ends the path that a
 * look-up tells. */
#include "front_parts.h"

#include "auth/wrapping.h"
#include "state/ns_key.h"

#include <inttypes.h>
#include <stdlib.h>

#define PATH "front/wrap/"

/* The number behind a text in the reply or the path. */
static uint64_t number_after(struct bytes text, size_t skip)
{
    char digits[24] = "";
    ASSERT(text.len > skip && text.len - skip < sizeof digits);
    memcpy(digits, text.data + skip, text.len - skip);
    return strtoull(digits, NULL, 10);
}

static enum status create(const struct auth_scope *s, struct env *env, struct bytes body,
                          struct wrapping *w, struct front_wrapped *ret)
{
    TRY(wrapping_create(s, env, body, w));
    ret->bearer = w->bearer;
    ret->expire_ms = w->token.expire_ms;
    return ST_OK;
}

enum status front_wrap(const struct auth_scope *s, struct env *env, uint64_t value, int64_t ttl_s,
                       struct front_wrapped *ret)
{
    const char *body = arena_format(s->txn->arena, "%" PRIu64, value);
    struct wrapping w = {.creation_path = arena_format(s->txn->arena, PATH "%" PRIu64, value),
                         .wrapped_accessor = "",
                         .creation_ttl_s = ttl_s};
    ret->value = value;
    if (body == NULL || w.creation_path == NULL)
        return ST_NOMEM;
    return create(s, env, bytes_str(body), &w, ret);
}

static enum status find(const struct auth_scope *s, const char *bearer, struct wrapping *w,
                        struct front_wrapped *ret)
{
    TRY(wrapping_load(s, bytes_str(bearer), w));
    ret->expire_ms = w->token.expire_ms;
    ret->value = number_after(bytes_str(w->creation_path), sizeof PATH - 1);
    return ST_OK;
}

enum status front_peek(const struct auth_scope *s, const char *bearer, struct front_wrapped *ret)
{
    struct wrapping w;
    return find(s, bearer, &w, ret);
}

static enum status take(const struct auth_scope *s, const char *bearer, struct wrapping *w,
                        struct bytes *ret_body, struct front_wrapped *ret)
{
    TRY(find(s, bearer, w, ret));
    TRY(wrapping_take(s, w, ret_body));
    ret->value = number_after(*ret_body, 0);
    return ST_OK;
}

enum status front_unwrap(const struct auth_scope *s, const char *bearer, struct front_wrapped *ret)
{
    struct wrapping w;
    struct bytes body;
    return take(s, bearer, &w, &body, ret);
}

enum status front_rewrap(const struct auth_scope *s, struct env *env, const char *bearer,
                         struct front_wrapped *ret)
{
    struct wrapping w;
    struct bytes body;
    TRY(take(s, bearer, &w, &body, ret));
    return create(s, env, body, &w, ret);
}

/* The end of a run */

enum status front_wrap_look(struct state_txn *txn, uint64_t *ret_orphans)
{
    const struct auth_scope scope = {.txn = txn, .cipher = txn->cipher, .ns = STATE_NS_ROOT};
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    struct bytes prefix;

    *ret_orphans = 0;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(txn->arena, STATE_NS_ROOT, "cubby", (struct bytes){0}, NULL, &prefix));
    for (state_walk(txn, prefix, walk); state_walk_next(walk);) {
        struct bytes name = bytes_from(walk->key, prefix.len);
        ASSERT(name.len > AUTH_TOKEN_ID_LEN);
        const char *id = arena_str(txn->arena, bytes_of(name.data, AUTH_TOKEN_ID_LEN));
        if (id == NULL)
            return ST_NOMEM;
        *ret_orphans += token_store_exists(&scope, id) == ST_NOT_FOUND;
    }
    return ST_OK;
}
