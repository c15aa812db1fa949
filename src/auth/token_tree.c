#include "auth/token_tree.h"
#include "state/ns_key.h"

#define MARK_TREE "t"
#define MARK_CHILDREN "c"

static enum status key_of(const struct auth_scope *s, const char *kind, const char *first,
                          const char *second, struct bytes *ret_key)
{
    return state_ns_key(s->txn->arena, s->ns, kind, bytes_str(first), second, ret_key);
}

/* Ending tokens */

static enum status delete_key(const struct auth_scope *s, const char *kind, const char *first,
                              const char *second)
{
    struct bytes key;
    TRY(key_of(s, kind, first, second, &key));
    return state_delete(s->txn, key);
}

static enum status put_mark(const struct auth_scope *s, const char *id, enum token_end how)
{
    struct bytes key;
    TRY(key_of(s, "revoked", id, NULL, &key));
    return state_put_exempt(s->txn, key,
                            how == TOKEN_END_TREE ? BYTES(MARK_TREE) : BYTES(MARK_CHILDREN));
}

enum status token_tree_end(const struct auth_scope *s, const struct auth_token *token,
                           enum token_end how)
{
    ASSERT(!auth_token_is_batch(token)); /* a batch token is not stored */
    TRY(token_store_delete(s, token));
    return put_mark(s, token->id, how);
}

static enum status read_mark(const struct auth_scope *s, const char *id, enum token_end *ret_how)
{
    struct bytes key;
    struct state_value stored;
    TRY(key_of(s, "revoked", id, NULL, &key));
    TRY(state_get(s->txn, key, &stored));
    *ret_how = bytes_eq(stored.value, BYTES(MARK_CHILDREN)) ? TOKEN_END_CHILDREN : TOKEN_END_TREE;
    return ST_OK;
}

enum status token_tree_left_children(const struct auth_scope *s, const char *id)
{
    enum token_end how;
    TRY(read_mark(s, id, &how));
    return how == TOKEN_END_CHILDREN ? ST_OK : ST_NOT_FOUND;
}

enum status token_tree_is_clean(const struct auth_scope *s, const char *id)
{
    struct bytes key;
    TRY(key_of(s, "revoked", id, NULL, &key));
    enum status st = state_exists(s->txn, key);
    return st == ST_NOT_FOUND ? ST_OK : st == ST_OK ? ST_BUSY : st;
}

/* Deleting ended tokens */

/* Kinds of keys that a token keeps beside its record. */
static const char *const kept[] = {"cubby"};

/* Take the id from the end of a key. */
static enum status last_segment(const struct auth_scope *s, struct bytes key, const char **ret_id)
{
    const uint8_t *slash = memrchr(key.data, '/', key.len);
    ASSERT(slash != NULL);
    const char *id = arena_str(s->txn->arena, bytes_from(key, (size_t)(slash + 1 - key.data)));
    if (id == NULL)
        return ST_NOMEM;
    *ret_id = id;
    return ST_OK;
}

/* Whether no key lies below s/ns/NS/KIND/ID/. */
static enum status prefix_is_empty(const struct auth_scope *s, const char *kind, const char *id,
                                   bool *ret_empty)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes prefix;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(key_of(s, kind, id, "", &prefix));
    state_walk(s->txn, prefix, walk);
    *ret_empty = !state_walk_next(walk);
    return ST_OK;
}

static enum status drop_kept(const struct auth_scope *s, const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        struct bytes prefix;
        bool empty;
        TRY(prefix_is_empty(s, kept[i], id, &empty));
        if (empty)
            continue;
        TRY(key_of(s, kept[i], id, "", &prefix));
        TRY(state_delete_prefix(s->txn, prefix));
    }
    return ST_OK;
}

/* End a child of a token that ended with its descendants. No request can use the child any more. */
static enum status child_end(const struct auth_scope *s, const struct auth_token *child)
{
    bool childless;
    TRY(token_store_delete(s, child));
    TRY(prefix_is_empty(s, "child", child->id, &childless));
    return childless ? drop_kept(s, child->id) : put_mark(s, child->id, TOKEN_END_TREE);
}

static enum status make_orphan(const struct auth_scope *s, const struct auth_token *child)
{
    struct auth_token orphan = *child;
    TRY(delete_key(s, "child", child->parent, child->id));
    orphan.parent = "";
    return token_store_update(s, child, &orphan);
}

static enum status child_sweep(const struct auth_scope *s, const char *parent, const char *id,
                               enum token_end how)
{
    struct auth_token child;

    enum status st = token_store_load(s, id, &child);
    if (st == ST_NOT_FOUND)
        return delete_key(s, "child", parent, id);
    TRY(st);
    if (strcmp(child.parent, parent) != 0)
        return delete_key(s, "child", parent, id);
    return how == TOKEN_END_TREE ? child_end(s, &child) : make_orphan(s, &child);
}

/* Delete the children and the cubbyhole of one ended token, then its mark. */
static enum status mark_sweep(const struct auth_scope *s, const char *id, unsigned *steps)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes prefix;
    enum token_end how;
    const char *child;

    ASSERT(*steps > 0 && *steps <= TOKEN_SWEEP_STEPS);
    if (walk == NULL)
        return ST_NOMEM;
    TRY(read_mark(s, id, &how));
    TRY(key_of(s, "child", id, "", &prefix));
    for (state_walk(s->txn, prefix, walk); state_walk_next(walk); --*steps) {
        if (*steps == 0)
            return ST_OK;
        TRY(last_segment(s, walk->key, &child));
        TRY(child_sweep(s, id, child, how));
    }
    TRY(drop_kept(s, id));
    return delete_key(s, "revoked", id, NULL);
}

static enum status marks_sweep(const struct auth_scope *s, unsigned *steps)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes prefix;
    const char *id;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(key_of(s, "revoked", "", NULL, &prefix));
    for (state_walk(s->txn, prefix, walk); *steps > 0 && state_walk_next(walk); --*steps) {
        TRY(last_segment(s, walk->key, &id));
        TRY(mark_sweep(s, id, steps));
        ASSERT(*steps <= TOKEN_SWEEP_STEPS); /* the callees count `steps` down, never below 0 */
        if (*steps == 0)
            return ST_OK;
    }
    return ST_OK;
}

/* Expiring tokens */

static enum status token_expire(const struct auth_scope *s, struct bytes expire_key)
{
    struct auth_token token;
    const char *id;

    TRY(last_segment(s, expire_key, &id));
    enum status st = token_store_load(s, id, &token);
    if (st == ST_NOT_FOUND ||
        (st == ST_OK && (token.expire_ms == 0 || token.expire_ms > s->now_ms)))
        /* the key is stale: the record has another expiry, or none */
        return state_delete(s->txn, expire_key);
    TRY(st);
    return token_tree_end(s, &token, TOKEN_END_TREE);
}

static enum status tokens_expire(const struct auth_scope *s, unsigned *steps)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes prefix, end;

    ASSERT(*steps > 0 && *steps <= TOKEN_SWEEP_STEPS);
    if (walk == NULL)
        return ST_NOMEM;
    TRY(key_of(s, "expire", "", NULL, &prefix));
    TRY(token_store_expire_key(s, s->now_ms + 1, "", &end));
    for (state_walk(s->txn, prefix, walk); *steps > 0 && state_walk_next(walk); --*steps) {
        if (bytes_cmp(walk->key, end) >= 0)
            return ST_OK;
        TRY(token_expire(s, walk->key));
    }
    return ST_OK;
}

enum status token_tree_upkeep(struct state_txn *txn, int64_t now_ms)
{
    unsigned steps = TOKEN_SWEEP_STEPS;
    const struct auth_scope scope = {
        .txn = txn, .cipher = txn->cipher, .ns = STATE_NS_ROOT, .now_ms = now_ms};
    TRY(tokens_expire(&scope, &steps));
    return marks_sweep(&scope, &steps);
}
