#include "auth/token_tree.h"
#include "auth/token_accessor.h"
#include "base/trace.h"
#include "lease/lease.h"
#include "state/feature.h"
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

static enum status mark_key(const struct auth_scope *s, const char *id, struct bytes *ret_key)
{
    return expiry_mark_key(s->txn, &token_expiry, s->ns, id, ret_key);
}

static enum status put_mark(const struct auth_scope *s, const char *id, enum token_end how)
{
    struct bytes key;
    TRY(mark_key(s, id, &key));
    return state_put_exempt(s->txn, key,
                            how == TOKEN_END_TREE ? BYTES(MARK_TREE) : BYTES(MARK_CHILDREN));
}

/* Kinds of keys that a token keeps beside its record. */
static const char *const kept[] = {"cubby"};

/* Whether no key lies below s/ns/NS/KIND/ID/. */
static enum status prefix_is_empty(const struct auth_scope *s, const char *kind, const char *id,
                                   bool *ret_empty)
{
    struct bytes prefix;
    TRY(key_of(s, kind, id, "", &prefix));
    *ret_empty = state_count(s->txn, prefix) == 0;
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

static enum status has_leases(const struct auth_scope *s, const char *id, bool *ret_has)
{
    struct bytes prefix;
    TRY(lease_token_prefix(s->txn->arena, s->ns, id, &prefix));
    *ret_has = state_count(s->txn, prefix) != 0;
    return ST_OK;
}

/* Whether the token has a child or a lease. */
static enum status has_more(const struct auth_scope *s, const char *id, bool *ret_has)
{
    bool childless;
    TRY(prefix_is_empty(s, "child", id, &childless));
    if (childless)
        return has_leases(s, id, ret_has);
    *ret_has = true;
    return ST_OK;
}

/* Whether keys may be left below a token that ends. If the record does not say so, no key can be
 * added before this transaction is applied (token.h, 4.); builds before TOKEN_KEEPS_FEATURE added
 * keys without a word in the record. A token with a derived accessor was created later: its record
 * says all. A token of another kind than TOKEN_SECRETS has no keys below it. */
static enum status leaves_keys(const struct auth_scope *s, const struct auth_token *token,
                               bool *ret_leaves)
{
    bool raised, empty = true;
    static_assert((int)TOKEN_ACCESSOR_FEATURE >= (int)TOKEN_KEEPS_FEATURE, "created later");
    ASSERT(token->id[0] != '\0');
    *ret_leaves = token->keeps;
    if (token->keeps || token->derived || token->kind != TOKEN_SECRETS)
        return ST_OK;
    *ret_leaves = true;
    TRY(state_has_feature(s->txn, TOKEN_KEEPS_FEATURE, &raised));
    if (!raised)
        return ST_OK;
    TRY(has_more(s, token->id, ret_leaves));
    for (size_t i = 0; i < ARRAY_LEN(kept) && !*ret_leaves; i++) {
        TRY(prefix_is_empty(s, kept[i], token->id, &empty));
        *ret_leaves = !empty;
    }
    return ST_OK;
}

enum status token_tree_end(const struct auth_scope *s, const struct auth_token *token,
                           enum token_end how)
{
    bool leaves;
    ASSERT(!auth_token_is_batch(token)); /* a batch token is not stored */
    TRY(token_store_delete(s, token));
    TRY(leaves_keys(s, token, &leaves));
    return leaves ? put_mark(s, token->id, how) : ST_OK;
}

enum status token_tree_end_in_use(const struct auth_scope *s, const struct auth_token *token)
{
    ASSERT(!auth_token_is_batch(token));
    ASSERT(token->num_uses == 0 && token->limited); /* the last use */
    TRY(token_store_delete(s, token));
    return put_mark(s, token->id, TOKEN_END_TREE);
}

static enum status read_mark(const struct auth_scope *s, const char *id, enum token_end *ret_how)
{
    struct bytes key;
    struct state_value stored;
    TRY(mark_key(s, id, &key));
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
    TRY(mark_key(s, id, &key));
    enum status st = state_exists(s->txn, key);
    return st == ST_NOT_FOUND ? ST_OK : st == ST_OK ? ST_BUSY : st;
}

/* Deleting ended tokens */

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

/* End a child of a token that ended with its descendants. No request can use the child any more. */
static enum status child_end(const struct auth_scope *s, const struct auth_token *child)
{
    bool more;
    TRY(token_store_delete(s, child));
    TRY(has_more(s, child->id, &more));
    return more ? put_mark(s, child->id, TOKEN_END_TREE) : drop_kept(s, child->id);
}

static enum status make_orphan(const struct auth_scope *s, const struct auth_token *child)
{
    struct auth_token orphan = *child;
    TRY(delete_key(s, "child", child->parent, child->id));
    orphan.parent = "";
    return token_store_update(s, child, &orphan);
}

/* End a child whose record cannot be read. The child cannot be used, but it may have
 * descendants. Keys that only the record names stay. Each is dropped when the record is looked for.
 */
static enum status damaged_child_end(const struct auth_scope *s, const char *parent, const char *id)
{
    trace(TRACE_WARN, "auth", "the record of token %s cannot be read: it ends with its parent", id);
    TRY(delete_key(s, "token", id, NULL));
    TRY(delete_key(s, "child", parent, id));
    return put_mark(s, id, TOKEN_END_TREE);
}

static enum status child_sweep(const struct auth_scope *s, const char *parent, const char *id,
                               enum token_end how)
{
    struct auth_token child;

    enum status st = token_store_load(s, id, &child);
    if (st == ST_NOT_FOUND)
        return delete_key(s, "child", parent, id);
    if (st == ST_CORRUPT)
        return damaged_child_end(s, parent, id);
    TRY(st);
    if (strcmp(child.parent, parent) != 0)
        return delete_key(s, "child", parent, id);
    return how == TOKEN_END_TREE ? child_end(s, &child) : make_orphan(s, &child);
}

static enum status end_leases(const struct auth_scope *s, const struct lease_kinds *kinds,
                              const char *id, unsigned *steps, bool *ret_all)
{
    const struct lease_scope scope = {
        .txn = s->txn, .ns = s->ns, .kinds = kinds, .now_ms = s->now_ms};
    return lease_end_of_token(&scope, id, steps, ret_all);
}

/* Delete the cubbyhole of an ended token, then its mark. */
static enum status mark_finish(const struct auth_scope *s, const char *id)
{
    struct bytes key;
    TRY(drop_kept(s, id));
    TRY(mark_key(s, id, &key));
    TRY(state_exists(s->txn, key)); /* the mark is a precondition: it may be moved (expiry.h) */
    return state_delete(s->txn, key);
}

/* Delete the children, the leases and the cubbyhole of one ended token, then its mark. */
static enum status mark_sweep(const struct auth_scope *s, const struct lease_kinds *kinds,
                              const char *id, unsigned *steps)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes prefix;
    enum token_end how;
    const char *child;
    bool all;

    ASSERT(*steps > 0);
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
    TRY(end_leases(s, kinds, id, steps, &all));
    if (!all)
        return ST_OK;
    return mark_finish(s, id);
}

/* Background work */

static struct auth_scope scope_of(const struct expiry_task *task)
{
    return (struct auth_scope){
        .txn = task->txn, .cipher = task->txn->cipher, .ns = task->ns, .now_ms = task->now_ms};
}

static enum status token_expire(const struct expiry_task *task)
{
    const struct auth_scope scope = scope_of(task);
    struct auth_token token;

    TRY(token_store_load(&scope, task->id, &token));
    if (token.expire_ms == 0 || token.expire_ms > task->now_ms)
        return ST_NOT_FOUND;
    return token_tree_end(&scope, &token, TOKEN_END_TREE);
}

static enum status token_sweep(const struct expiry_task *task, unsigned *steps)
{
    const struct auth_scope scope = scope_of(task);
    bool more;
    TRY(has_more(&scope, task->id, &more));
    if (!more) /* after the last use of most tokens: no walk, and the mark need not be read */
        return mark_finish(&scope, task->id);
    return mark_sweep(&scope, task->leases, task->id, steps);
}

const struct expiry_kind token_expiry = {.name = "token",
                                         .former_end = "expire",
                                         .former_mark = "revoked",
                                         .end = token_expire,
                                         .go_on = token_sweep};
