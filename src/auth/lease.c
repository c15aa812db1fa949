#include "auth/lease.h"
#include "auth/token_record.h"
#include "auth/token_tree.h"
#include "state/ns_key.h"

static enum status key_of(const struct auth_scope *s, const char *kind, const char *name,
                          struct bytes *ret_key)
{
    return state_ns_key(s->txn->arena, s->ns, kind, bytes_str(name), NULL, ret_key);
}

/* "PATH/ID"; NULL without memory. */
static const char *id_of(const struct auth_scope *s, const struct auth_token *token)
{
    size_t len = strlen(token->path);
    while (len > 0 && token->path[len - 1] == '/')
        len--;
    return arena_format(s->txn->arena, "%.*s/%s", (int)len, token->path, token->id);
}

static enum status token_key(const struct auth_scope *s, const struct auth_token *token,
                             struct bytes *ret_key)
{
    const char *id = id_of(s, token);
    return id != NULL ? key_of(s, "lease", id, ret_key) : ST_NOMEM;
}

enum status lease_put_token(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    if (token->expire_ms == 0)
        return ST_OK;
    TRY(token_key(s, token, &key));
    return state_put(s->txn, key, (struct bytes){0});
}

enum status lease_drop_token(const struct auth_scope *s, const struct auth_token *token)
{
    struct bytes key;
    if (token->expire_ms == 0)
        return ST_OK;
    TRY(token_key(s, token, &key));
    return state_delete(s->txn, key);
}

enum status lease_prefix(const struct auth_scope *s, const char *prefix, struct bytes *ret_key)
{
    return key_of(s, "lease", prefix, ret_key);
}

enum status lease_find(const struct auth_scope *s, const char *id, struct lease *ret_lease)
{
    const char *slash = strrchr(id, '/');
    struct lease lease = {.id = id};

    if (slash == NULL || strlen(slash + 1) != AUTH_TOKEN_ID_LEN)
        return ST_NOT_FOUND;
    TRY(auth_token_load_id(s, slash + 1, &lease.token));
    const char *its = id_of(s, &lease.token);
    if (its == NULL)
        return ST_NOMEM;
    if (lease.token.expire_ms == 0 || strcmp(its, id) != 0)
        return ST_NOT_FOUND;
    lease.issued_ms = lease.token.created_ms;
    lease.expire_ms = lease.token.expire_ms;
    lease.renewed_ms = lease.token.renewed_ms;
    lease.renewable = lease.token.renewable;
    *ret_lease = lease;
    return ST_OK;
}

enum status lease_end(const struct auth_scope *s, const struct lease *lease)
{
    return token_tree_end(s, &lease->token, TOKEN_END_TREE);
}

/* Many */

/* End the token of one entry of the index, unless it was issued later. An entry whose token is gone
 * is deleted too. */
static enum status end_entry(const struct auth_scope *s, struct bytes key, int64_t before_ms)
{
    const uint8_t *slash = memrchr(key.data, '/', key.len);
    struct auth_token token;
    struct bytes record, its;

    ASSERT(slash != NULL);
    const char *id = arena_str(s->txn->arena, bytes_from(key, (size_t)(slash + 1 - key.data)));
    if (id == NULL)
        return ST_NOMEM;
    enum status st = auth_token_record(s, id, &record);
    if (st == ST_NOT_FOUND)
        return state_delete(s->txn, key);
    TRY(st);
    TRY(token_record_read(record, s->txn->arena, &token));
    token.id = id;
    TRY(token_key(s, &token, &its));
    if (!bytes_eq(key, its))
        return state_delete(s->txn, key);
    return token.created_ms <= before_ms ? token_tree_end(s, &token, TOKEN_END_TREE) : ST_OK;
}

/* A part of a folder: what comes at or behind `from`, so many entries of it. */
struct part {
    const char *prefix;
    int64_t before_ms;
    struct bytes from; /* empty: the beginning */
    unsigned steps;
    bool all;          /* result: the folder's end was reached, else … */
    struct bytes next; /* … the rest begins here */
};

static enum status end_part(const struct auth_scope *s, struct part *part)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes below;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_prefix(s, part->prefix, &below));
    state_walk_from(s->txn, below, part->from, walk);
    while (state_walk_next(walk)) {
        struct bytes key = bytes_of(arena_dup(s->txn->arena, walk->key), walk->key.len);
        if (key.data == NULL)
            return ST_NOMEM;
        part->next = key;
        if (part->steps == 0)
            return ST_OK;
        part->steps--;
        TRY(end_entry(s, key, part->before_ms));
    }
    part->all = true;
    return ST_OK;
}

/* "TIME KEY": issued before that time, from this key of the index on. */
static enum status put_mark(const struct auth_scope *s, const struct part *part)
{
    CLEANUP(buf_done) struct buf value = {0};
    struct bytes mark;
    buf_add_format(&value, "%lld ", (long long)part->before_ms);
    buf_add(&value, part->next);
    TRY(buf_status(&value));
    TRY(key_of(s, "unlease", part->prefix, &mark));
    return state_put(s->txn, mark, buf_bytes(&value));
}

enum status lease_end_below(const struct auth_scope *s, const char *prefix, bool *ret_all)
{
    struct part part = {.prefix = prefix, .before_ms = s->now_ms, .steps = LEASE_STEPS_MAX};
    ASSERT(prefix[0] != '\0' && prefix[strlen(prefix) - 1] == '/');
    TRY(end_part(s, &part));
    *ret_all = part.all;
    return part.all ? ST_OK : put_mark(s, &part);
}

static enum status follow_mark(const struct auth_scope *s, struct bytes mark, const char *prefix)
{
    struct part part = {.prefix = prefix, .steps = LEASE_UPKEEP_STEPS};
    struct state_value stored;

    TRY(state_get(s->txn, mark, &stored));
    const uint8_t *space = memchr(stored.value.data, ' ', stored.value.len);
    size_t len = space != NULL ? (size_t)(space - stored.value.data) : 0;
    if (space == NULL || text_int_parse(bytes_of(stored.value.data, len), &part.before_ms) != ST_OK)
        return ST_CORRUPT;
    part.from = bytes_from(stored.value, len + 1);
    TRY(end_part(s, &part));
    return part.all ? state_delete(s->txn, mark) : put_mark(s, &part);
}

enum status lease_upkeep(struct state_txn *txn, int64_t now_ms)
{
    const struct auth_scope scope = {
        .txn = txn, .seat = txn->seat, .ns = STATE_NS_ROOT, .now_ms = now_ms};
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    struct bytes prefix;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(key_of(&scope, "unlease", "", &prefix));
    state_walk(txn, prefix, walk);
    if (!state_walk_next(walk))
        return ST_OK;
    const char *mark = arena_str(txn->arena, walk->key);
    return mark != NULL ? follow_mark(&scope, bytes_str(mark), mark + prefix.len) : ST_NOMEM;
}
