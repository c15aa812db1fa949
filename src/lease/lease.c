#include "lease/lease.h"
#include "base/plant.h"
#include "lease/lease_internal.h"
#include "state/ns_key.h"
#include "text/random.h"

/* Keys */

const char *lease_id(struct arena *arena, const char *path, const char *id)
{
    size_t len = strlen(path), id_len = strlen(id);
    ASSERT(id_len != 0);
    ASSERT(memchr(id, '/', id_len) == NULL);
    while (len > 0 && path[len - 1] == '/')
        len--;
    char *name = arena_alloc(arena, len + 1 + id_len + 1);
    if (name == NULL)
        return NULL;
    memcpy(name, path, len);
    name[len] = '/';
    memcpy(name + len + 1, id, id_len + 1);
    return name;
}

enum status lease_prefix(struct arena *arena, const char *ns, const char *prefix,
                         struct bytes *ret_key)
{
    return state_ns_key(arena, ns, LEASE_INDEX, bytes_str(prefix), NULL, ret_key);
}

static enum status index_key(struct state_txn *txn, const char *ns, const char *path,
                             const char *id, struct bytes *ret_key)
{
    const char *name = lease_id(txn->arena, path, id);
    ASSERT(id[0] != '\0' && strchr(id, '/') == NULL);
    return name != NULL ? lease_prefix(txn->arena, ns, name, ret_key) : ST_NOMEM;
}

enum status lease_index_put(struct state_txn *txn, const char *ns, const char *path, const char *id)
{
    struct bytes key;
    TRY(index_key(txn, ns, path, id, &key));
    return state_put_name(txn, key, false);
}

enum status lease_index_drop(struct state_txn *txn, const char *ns, const char *path,
                             const char *id)
{
    struct bytes key;
    TRY(index_key(txn, ns, path, id, &key));
    return state_delete(txn, key);
}

enum status lease_tokens_prefix(struct arena *arena, const char *ns, struct bytes *ret_key)
{
    return state_ns_key(arena, ns, LEASE_TOKENS, (struct bytes){0}, NULL, ret_key);
}

enum status lease_token_prefix(struct arena *arena, const char *ns, const char *token,
                               struct bytes *ret_key)
{
    ASSERT(token[0] != '\0' && strchr(token, '/') == NULL);
    return state_ns_key(arena, ns, LEASE_TOKENS, bytes_str(token), "", ret_key);
}

static enum status token_key(const struct lease_scope *s, const struct lease *lease,
                             struct bytes *ret_key)
{
    ASSERT(lease->token[0] != '\0' && strlen(lease->token) <= LEASE_TOKEN_LEN_MAX);
    return state_ns_key(s->txn->arena, s->ns, LEASE_TOKENS, bytes_str(lease->token), lease->id,
                        ret_key);
}

static enum status drop_expiry(const struct lease_scope *s, const struct lease *lease)
{
    return lease->expire_ms == 0
               ? ST_OK
               : expiry_drop(s->txn, &lease_expiry, s->ns, lease->expire_ms, lease->id);
}

/* Records */

/* A renewed record takes the place of an old one, also in a full state. */
static enum status put_lease_record(const struct lease_scope *s, const struct lease *lease,
                                    bool renewed)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;

    ASSERT(!lease->kind->indexed && lease->expire_ms < TEXT_EXPIRY_END);
    lease_record_put(lease, &record);
    TRY(buf_status(&record));
    TRY(lease_prefix(s->txn->arena, s->ns, lease->id, &key));
    TRY(renewed ? state_put_exempt(s->txn, key, buf_bytes(&record))
                : state_put(s->txn, key, buf_bytes(&record)));
    if (!renewed && lease->token[0] != '\0') {
        TRY(s->kinds->tokens->keep_token(s, lease->token));
        TRY(token_key(s, lease, &key));
        TRY(state_put_name(s->txn, key, false));
    }
    return lease->expire_ms == 0
               ? ST_OK
               : expiry_put(s->txn, &lease_expiry, s->ns, lease->expire_ms, lease->id);
}

/* Delete the record and the keys beside it. */
static enum status drop_lease_record(const struct lease_scope *s, const struct lease *lease)
{
    struct bytes key;

    TRY(drop_expiry(s, lease));
    if (lease->token[0] != '\0') {
        TRY(token_key(s, lease, &key));
        TRY(state_delete(s->txn, key));
    }
    TRY(lease_prefix(s->txn->arena, s->ns, lease->id, &key));
    ASSERT(!state_is_deleted(s->txn, key)); /* a lease ends once */
    return state_delete(s->txn, key);
}

/* lease_load, also of a lease whose kind no module has: `kind` is NULL then. */
static enum status load_any(const struct lease_scope *s, const char *id, struct lease *ret_lease)
{
    struct lease lease = {.id = id, .token = ""};
    struct state_value stored;
    struct bytes key;

    TRY(lease_prefix(s->txn->arena, s->ns, id, &key));
    enum status st = state_get_or_name(s->txn, key, &stored);
    if (st == ST_INVALID) /* the id is too long for a key, so no lease has it */
        return ST_NOT_FOUND;
    TRY(st);
    if (stored.value.len != 0) {
        TRY(lease_record_read(stored.value, s->kinds, &lease));
    } else {
        lease.kind = lease_kind_of(s->kinds, stored.value);
        if (lease.kind != NULL)
            TRY(lease.kind->find(s, &lease));
    }
    *ret_lease = lease;
    return ST_OK;
}

enum status lease_load(const struct lease_scope *s, const char *id, struct lease *ret_lease)
{
    struct lease lease;
    TRY(load_any(s, id, &lease));
    if (lease.kind == NULL)
        return ST_CORRUPT;
    *ret_lease = lease;
    return ST_OK;
}

/* One lease */

enum status lease_create(const struct lease_scope *s, struct env *env, const char *path,
                         struct lease *lease)
{
    char id[LEASE_ID_LEN + 1];

    ASSERT(!lease->kind->indexed &&
           lease_kind_of(s->kinds, bytes_str(lease->kind->name)) == lease->kind);
    ASSERT(lease->expire_ms == 0 || lease->expire_ms > s->now_ms);
    ASSERT(lease->token == NULL || lease->token[0] == '\0' || s->kinds->tokens != NULL);
    if (lease->data.len > LEASE_DATA_MAX)
        return ST_TOO_BIG;
    text_random(env, id, LEASE_ID_LEN);
    lease->id = lease_id(s->txn->arena, path, id);
    if (lease->id == NULL)
        return ST_NOMEM;
    if (lease->token == NULL)
        lease->token = "";
    lease->issued_ms = s->now_ms;
    lease->renewed_ms = 0;
    lease->thing = NULL;
    return put_lease_record(s, lease, false);
}

/* Whether the token that has the lease is valid, with all its ancestors. Their records become
 * preconditions (PROTOCOL R3). */
static enum status check_token(const struct lease_scope *s, const struct lease *lease)
{
    if (lease->token[0] == '\0' || planted(PLANT_LEASE_WITHOUT_TOKEN))
        return ST_OK;
    const struct lease_kind *tokens = s->kinds->tokens;
    return tokens != NULL ? tokens->check_token(s, lease->token) : ST_NOT_FOUND;
}

/* Whether the time of the lease has come. */
static bool has_expired(const struct lease_scope *s, const struct lease *lease)
{
    int64_t now_ms = s->now_ms;
    if (planted(PLANT_LEASE_OWN_CLOCK))
        now_ms = env_wall_ms(state_env(s->txn->state));
    return lease->expire_ms != 0 && lease->expire_ms <= now_ms;
}

enum status lease_find(const struct lease_scope *s, const char *id, struct lease *ret_lease)
{
    struct lease lease;

    TRY(lease_load(s, id, &lease));
    if (has_expired(s, &lease))
        return ST_NOT_FOUND;
    TRY(check_token(s, &lease));
    if (lease.kind->check != NULL)
        TRY(lease.kind->check(s, &lease));
    *ret_lease = lease;
    return ST_OK;
}

bool lease_is_expired(const struct lease_scope *s, const char *id)
{
    struct lease lease;
    return lease_load(s, id, &lease) == ST_OK && lease.expire_ms != 0 &&
           lease.expire_ms <= s->now_ms;
}

/* The end after a renewal. A lease whose longest life was made shorter and has passed keeps its
 * end: a renewal does not end a lease. */
static int64_t renewed_end_ms(const struct lease *lease, const struct lease_ttl *ttl,
                              struct lease_cut *ret_cut)
{
    int64_t end_ms = lease_ttl_end_ms(ttl, ret_cut);
    if (lease->expire_ms == 0) {
        *ret_cut = (struct lease_cut){0};
        return 0;
    }
    return end_ms > ttl->now_ms ? end_ms : lease->expire_ms;
}

enum status lease_renew(const struct lease_scope *s, struct lease *lease, int64_t wanted_s,
                        const struct lease_limits *limits, struct lease_cut *ret_cut,
                        struct reason *why)
{
    struct lease renewed = *lease;
    struct lease_ttl ttl = {.wanted_s = wanted_s,
                            .limits = *limits,
                            .issued_ms = lease->issued_ms,
                            .now_ms = s->now_ms,
                            .limit_ms = lease->limit_ms};

    ASSERT(lease->expire_ms == 0 || lease->expire_ms > s->now_ms);
    if (lease->kind->renew == NULL || (!lease->kind->indexed && !lease->renewable)) {
        reason_set(why, "lease is not renewable");
        return ST_INVALID;
    }
    TRY(lease->kind->renew(s, &renewed, &ttl, why));
    ASSERT(!lease->kind->indexed && renewed.data.len <= LEASE_DATA_MAX);
    renewed.expire_ms = renewed_end_ms(lease, &ttl, ret_cut);
    ASSERT(renewed.expire_ms == 0 || renewed.expire_ms > s->now_ms);
    renewed.renewed_ms = s->now_ms;
    ASSERT(strcmp(renewed.token, lease->token) == 0); /* the key of the token stays */
    TRY(drop_expiry(s, lease));
    TRY(put_lease_record(s, &renewed, true));
    *lease = renewed;
    return ST_OK;
}

enum status lease_end(const struct lease_scope *s, const struct lease *lease)
{
    if (lease->kind->end != NULL)
        TRY(lease->kind->end(s, lease));
    return lease->kind->indexed ? ST_OK : drop_lease_record(s, lease);
}

enum status lease_drop(const struct lease_scope *s, const char *id)
{
    struct lease lease;
    struct bytes key;

    enum status st = load_any(s, id, &lease);
    if (st == ST_OK && (lease.kind == NULL || !lease.kind->indexed))
        return drop_lease_record(s, &lease);
    if (lease_is_passing(st))
        return st;
    TRY(lease_prefix(s->txn->arena, s->ns, id, &key));
    return state_delete(s->txn, key);
}
