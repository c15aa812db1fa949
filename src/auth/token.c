#include "auth/token.h"
#include "auth/policy.h"
#include "auth/policy_list.h"
#include "auth/token_accessor.h"
#include "auth/token_batch.h"
#include "auth/token_cache.h"
#include "auth/token_tree.h"
#include "barrier/token.h"
#include "base/plant.h"
#include "state/feature.h"
#include "text/cidr.h"
#include "text/encode.h"
#include "text/random.h"

/* The id is half of the bearer's name (barrier/token.h). It is long enough that no second bearer
 * with the same id can be found, and short because many keys contain it. */
static enum status put_id(const struct auth_scope *s, struct bytes bearer,
                          char ret_id[AUTH_TOKEN_ID_LEN + 1])
{
    uint8_t mac[BARRIER_MAC_BYTES];
    static_assert(AUTH_TOKEN_ID_LEN == TEXT_HEX_LEN(sizeof mac / 2), "half");
    TRY(barrier_mac(s->cipher, bearer, mac));
    text_hex_put(bytes_of(mac, sizeof mac / 2), ret_id);
    return ST_OK;
}

enum status auth_token_id(const struct auth_scope *s, struct bytes bearer, const char **ret_id)
{
    char *id = arena_alloc(s->txn->arena, AUTH_TOKEN_ID_LEN + 1);
    if (id == NULL)
        return ST_NOMEM;
    TRY(put_id(s, bearer, id));
    *ret_id = id;
    return ST_OK;
}

/* Finding a token */

static bool has_expired(const struct auth_scope *s, int64_t expire_ms)
{
    int64_t now_ms = s->now_ms;
    ASSERT(now_ms >= 0);
    if (planted(PLANT_R16_TOKEN_CLOCK))
        now_ms = env_wall_ms(state_env(s->txn->state));
    return expire_ms != 0 && now_ms >= expire_ms;
}

/* Whether the API of the scope takes a token of this kind. Every API takes a root token of the
 * secrets service. */
static bool is_taken(const struct auth_scope *s, const struct auth_token *token)
{
    if (token->kind == s->kind)
        return true;
    return token->kind == TOKEN_SECRETS && policy_list_is_root(&token->policies);
}

/* Read all ancestors, from `parent` up. *held is a reference: the text that `parent` points to lies
 * in it. The caller drops *held in every case. */
static enum status ancestors_walk(const struct auth_scope *s, const char *parent, bool *ret_orphan,
                                  struct token_ref **held)
{
    for (unsigned i = 0; i <= AUTH_TOKEN_DEPTH_MAX && parent[0] != '\0'; i++) {
        struct token_ref *ref = NULL;
        if (s->caller != NULL && strcmp(s->caller->id, parent) == 0)
            return ST_OK; /* the caller and its ancestors are valid */
        enum status st = token_store_hold(s, parent, &ref);
        if (st == ST_NOT_FOUND) {
            TRY(token_tree_left_children(s, parent));
            *ret_orphan = *ret_orphan || i == 0;
            return ST_OK;
        }
        TRY(st);
        token_ref_drop(*held);
        *held = ref;
        if (has_expired(s, token_ref_get(ref)->expire_ms))
            return ST_NOT_FOUND;
        parent = token_ref_get(ref)->parent;
    }
    return parent[0] == '\0' ? ST_OK : ST_CORRUPT;
}

/* Whether all ancestors are valid. *ret_orphan is true when there is no parent, or when the parent
 * was revoked without its children, as the mark of the parent says. ST_NOT_FOUND: an ancestor is
 * not valid. */
static enum status ancestors_check(const struct auth_scope *s, const char *parent, bool *ret_orphan)
{
    struct token_ref *held = NULL;
    *ret_orphan = parent[0] == '\0';
    if (planted(PLANT_R3_ANCESTORS))
        return ST_OK;
    enum status st = ancestors_walk(s, parent, ret_orphan, &held);
    token_ref_drop(held);
    return st;
}

/* Check whether a token whose record was read is valid now. */
static enum status token_check(const struct auth_scope *s, struct auth_token *token)
{
    if (has_expired(s, token->expire_ms))
        return ST_NOT_FOUND;
    return ancestors_check(s, token->parent, &token->orphan);
}

/* Whether a batch token is valid. A later token may get the id of a parent that has ended, but
 * never its accessor. So the record of a batch token holds the accessor of the parent: it shows
 * whether the token with the parent's id is still the parent. */
static enum status batch_check(const struct auth_scope *s, struct auth_token *token)
{
    struct auth_token parent;
    ASSERT(token->id[0] == '\0' && auth_token_is_batch(token));
    if (planted(PLANT_BATCH_WITHOUT_PARENT))
        return has_expired(s, token->expire_ms) ? ST_NOT_FOUND : ST_OK;
    if (token->parent[0] != '\0') {
        TRY(token_store_load(s, token->parent, &parent));
        if (strcmp(parent.accessor, token->accessor) != 0)
            return ST_NOT_FOUND;
    }
    token->accessor = "";
    return token_check(s, token);
}

static enum status batch_seal(const struct auth_scope *s, const struct auth_token *token,
                              const char **bearer)
{
    struct auth_token sealed = *token, parent;
    ASSERT(token->accessor[0] == '\0');
    if (token->parent[0] != '\0') {
        TRY(token_store_load(s, token->parent, &parent));
        sealed.accessor = parent.accessor;
    }
    return token_batch_seal(s->txn, s->cipher, s->ns, &sealed, bearer);
}

enum status auth_token_load_id(const struct auth_scope *s, const char *id,
                               struct auth_token *ret_token)
{
    struct auth_token token;

    TRY(token_store_load(s, id, &token));
    TRY(token_check(s, &token));
    *ret_token = token;
    return ST_OK;
}

/* ST_DENIED for a bearer that names no valid token under the keys of this node. */
static enum status refuse_unknown(const struct auth_scope *s, enum status st)
{
    if (st != ST_NOT_FOUND)
        return st;
    TRY(state_need_keys(s->txn));
    return ST_DENIED;
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
            st = batch_check(s, &token);
    } else {
        TRY(auth_token_id(s, bearer, &id));
        st = auth_token_load_id(s, id, &token);
    }
    if (st == ST_OK && !is_taken(s, &token))
        return ST_DENIED;
    if (st == ST_OK)
        *ret_token = token;
    return refuse_unknown(s, st);
}

/* The cached token; a changed copy if the token became an orphan after it was cached. */
static enum status kept_check(const struct auth_scope *s, const struct token_ref *ref,
                              const struct auth_token **ret_token)
{
    const struct auth_token *kept = token_ref_get(ref);
    bool orphan = kept->orphan;
    if (has_expired(s, kept->expire_ms) || !is_taken(s, kept))
        return ST_NOT_FOUND;
    TRY(ancestors_check(s, kept->parent, &orphan));
    *ret_token = kept;
    if (orphan == kept->orphan)
        return ST_OK;
    struct auth_token *own = arena_alloc(s->txn->arena, sizeof *own);
    if (own == NULL)
        return ST_NOMEM;
    *own = *kept;
    own->orphan = orphan;
    *ret_token = own;
    return ST_OK;
}

static enum status token_hold(const struct auth_scope *s, const char *id,
                              const struct auth_token **ret_token, struct token_ref **ret_ref)
{
    struct token_ref *ref = NULL;
    TRY(token_store_hold(s, id, &ref));
    enum status st = kept_check(s, ref, ret_token);
    if (st == ST_OK)
        *ret_ref = ref;
    else
        token_ref_drop(ref);
    return st;
}

static enum status token_load(const struct auth_scope *s, struct bytes bearer,
                              const struct auth_token **ret_token)
{
    struct auth_token *token = arena_alloc(s->txn->arena, sizeof *token);
    if (token == NULL)
        return ST_NOMEM;
    *ret_token = token;
    return auth_token_load(s, bearer, token);
}

enum status auth_token_hold(const struct auth_scope *s, struct bytes bearer,
                            const struct auth_token **ret_token, struct token_ref **ret_ref)
{
    char id[AUTH_TOKEN_ID_LEN + 1];

    *ret_ref = NULL;
    if (bearer.len == 0 || bearer.len > AUTH_TOKEN_MAX || token_batch_is(bearer))
        return token_load(s, bearer, ret_token);
    TRY(put_id(s, bearer, id));
    return refuse_unknown(s, token_hold(s, id, ret_token, ret_ref));
}

/* The token whose accessor is derived from its id. ST_NOT_FOUND: the accessor is not, or there is
 * no such token. */
static enum status by_derived(const struct auth_scope *s, const char *accessor,
                              struct auth_token *ret_token)
{
    struct auth_token token;
    char *id = arena_alloc(s->txn->arena, AUTH_TOKEN_ID_LEN + 1);
    if (id == NULL)
        return ST_NOMEM;
    if (token_accessor_id(bytes_str(accessor), id) != ST_OK)
        return ST_NOT_FOUND;
    TRY(token_store_load(s, id, &token));
    ASSERT(token.id == id);
    if (strcmp(token.accessor, accessor) != 0) /* a token of this id has an indexed accessor */
        return ST_NOT_FOUND;
    TRY(token_check(s, &token));
    *ret_token = token;
    return ST_OK;
}

static enum status by_indexed(const struct auth_scope *s, const char *accessor,
                              struct auth_token *ret_token)
{
    struct bytes key;
    struct state_value stored;

    TRY(token_store_accessor_key(s->txn->arena, s->ns, bytes_str(accessor), &key));
    enum status st = state_get(s->txn, key, &stored);
    if (st == ST_INVALID) /* the id is too long for a key */
        return ST_NOT_FOUND;
    TRY(st);
    const char *id = arena_str(s->txn->arena, stored.value);
    return id == NULL ? ST_NOMEM : auth_token_load_id(s, id, ret_token);
}

enum status auth_token_find_any(const struct auth_scope *s, const char *accessor,
                                struct auth_token *ret_token)
{
    enum status st = by_derived(s, accessor, ret_token);
    return st == ST_NOT_FOUND ? by_indexed(s, accessor, ret_token) : st;
}

enum status auth_token_find(const struct auth_scope *s, const char *accessor,
                            struct auth_token *ret_token)
{
    struct auth_token token;
    TRY(auth_token_find_any(s, accessor, &token));
    if (token.kind != s->kind)
        return ST_NOT_FOUND;
    *ret_token = token;
    return ST_OK;
}

enum status auth_token_from(const struct auth_token *token, const char *peer)
{
    struct ip ip;
    struct cidr cidr;
    uint16_t port;

    if (token->bound_cidrs.n == 0)
        return ST_OK;
    if (ip_port_parse(bytes_str(peer), &ip, &port) != ST_OK)
        return ST_DENIED;
    for (size_t i = 0; i < token->bound_cidrs.n; i++)
        if (cidr_parse(bytes_str(token->bound_cidrs.items[i]), &cidr) == ST_OK &&
            cidr_holds(&cidr, &ip))
            return ST_OK;
    return ST_DENIED;
}

/* Changing a token */

enum status auth_token_use(const struct auth_scope *s, struct auth_token *token)
{
    if (!token->limited)
        return ST_OK;
    ASSERT(token->num_uses > 0);
    ASSERT(!auth_token_is_batch(token)); /* a batch token has no record that counts uses */
    --token->num_uses;
    if (planted(PLANT_R3_USE_UNCOMMITTED))
        return ST_OK;
    if (token->num_uses == 0)
        return token_tree_end_in_use(s, token);
    return token_store_put(s, token);
}

/* Whether the id of a bearer that a client chose may be used. ST_EXISTS: another token has the id.
 */
static enum status claim_id(const struct auth_scope *s, const char *id)
{
    enum status st = token_store_exists(s, id);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    return token_tree_is_clean(s, id);
}

/* Draw a bearer. The id of a bearer that was drawn is new and need not be looked for: two bearers
 * of 143 random bits are not equal. */
static enum status draw_bearer(const struct auth_scope *s, struct env *env, const char **ret_bearer)
{
    char *bearer = arena_alloc(s->txn->arena, TOKEN_SERVICE_LEN + 1);
    if (bearer == NULL)
        return ST_NOMEM;
    token_make(env, bearer);
    *ret_bearer = bearer;
    return ST_OK;
}

/* Give a new token its accessor (token_accessor.h). */
static enum status put_accessor(const struct auth_scope *s, struct env *env, bool chosen,
                                struct auth_token *token)
{
    char *accessor = arena_alloc(s->txn->arena, AUTH_ACCESSOR_LEN + 1);
    ASSERT(strlen(token->id) == AUTH_TOKEN_ID_LEN);
    if (accessor == NULL)
        return ST_NOMEM;
    token->derived = false;
    if (!chosen)
        TRY(state_has_feature(s->txn, TOKEN_ACCESSOR_FEATURE, &token->derived));
    if (token->derived)
        TRY(token_accessor_of(bytes_str(token->id), accessor));
    else
        text_random(env, accessor, AUTH_ACCESSOR_LEN);
    token->accessor = accessor;
    return ST_OK;
}

enum status auth_token_create(const struct auth_scope *s, struct env *env, struct auth_token *token,
                              const char **bearer)
{
    bool chosen = *bearer != NULL;

    ASSERT(token->depth <= AUTH_TOKEN_DEPTH_MAX);
    ASSERT((token->depth == 0) == (token->parent[0] == '\0'));
    ASSERT(token->num_uses >= 0);
    ASSERT(token->created_ms == s->now_ms);
    ASSERT(token->expire_ms == 0 || token->expire_ms > s->now_ms);
    token->id = token->accessor = "";
    token->orphan = token->parent[0] == '\0';
    token->limited = token->num_uses != 0;
    if (auth_token_is_batch(token))
        return batch_seal(s, token, bearer);
    if (!chosen)
        TRY(draw_bearer(s, env, bearer));
    TRY(auth_token_id(s, bytes_str(*bearer), &token->id));
    if (chosen)
        TRY(claim_id(s, token->id));
    TRY(put_accessor(s, env, chosen, token));
    return token_store_add(s, token);
}

/* The text may be a secret, and preconditions stand readable in the log: so no precondition names
 * a key with the text. One precondition covers all accessors instead. */
enum status auth_token_is_used(const struct auth_scope *s, struct bytes text, bool *ret_used)
{
    struct bytes key, accessors;
    uint64_t newest;
    const char *id;
    *ret_used = true;
    TRY(auth_token_id(s, text, &id));
    enum status st = token_store_exists(s, id);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(token_store_accessor_key(s->txn->arena, s->ns, (struct bytes){0}, &accessors));
    TRY(state_newest(s->txn, accessors, &newest));
    TRY(token_store_accessor_key(s->txn->arena, s->ns, text, &key));
    *ret_used = state_count(s->txn, key) != 0;
    return ST_OK;
}

enum status auth_token_add(const struct auth_scope *s, struct bytes bearer,
                           struct auth_token *token)
{
    ASSERT(token->kind != TOKEN_SECRETS && token->accessor[0] != '\0');
    ASSERT(token->expire_ms == 0 || token->expire_ms > s->now_ms);
    TRY(auth_token_id(s, bearer, &token->id));
    return token_store_add(s, token);
}

struct auth_token auth_token_root(int64_t now_ms)
{
    static const char *const policies[] = {AUTH_POLICY_ROOT};
    ASSERT(now_ms >= 0);
    return (struct auth_token){
        .id = "",
        .parent = "",
        .accessor = "",
        .display_name = "root",
        .path = AUTH_ROOT_PATH,
        .type = AUTH_TYPE_SERVICE,
        .role = "",
        .entity_id = "",
        .policies = {.items = policies, .n = 1, .given = true},
        .created_ms = now_ms,
        .orphan = true,
    };
}
