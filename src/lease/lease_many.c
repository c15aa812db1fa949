/* Many leases: the end of every lease below a path, and background work.
 *
 *   lease_end_below ──some left──▶ mark ──upkeep: a part of the rest──▶ mark gone
 *
 * The marks are the only record of this work, so another node can go on where one stopped. */
#include "lease/lease_internal.h"
#include "state/ns_key.h"
#include "text/value.h"

/* A part of the leases below `prefix`: at most `steps` leases, beginning at `from`. */
struct part {
    const char *prefix;
    int64_t before_ms;
    struct bytes from; /* empty: the beginning */
    unsigned steps;
    bool all;          /* result: no lease is left */
    struct bytes next; /* result, unless `all`: the rest begins at this key */
};

/* End the lease of one entry of the index, unless the lease was issued later than the mark says. If
 * the lease is gone, delete the entry. */
static enum status end_entry(const struct lease_scope *s, struct bytes key, size_t prefix_len,
                             int64_t before_ms)
{
    struct lease lease;
    const char *id = arena_str(s->txn->arena, bytes_from(key, prefix_len));
    if (id == NULL)
        return ST_NOMEM;
    enum status st = lease_load(s, id, &lease);
    if (st == ST_NOT_FOUND)
        return state_delete(s->txn, key);
    TRY(st);
    return lease.issued_ms <= before_ms ? lease_end(s, &lease) : ST_OK;
}

static enum status end_part(const struct lease_scope *s, struct part *part)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes index, below;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_prefix(s->txn->arena, s->ns, "", &index));
    TRY(lease_prefix(s->txn->arena, s->ns, part->prefix, &below));
    state_walk_from(s->txn, below, part->from, walk);
    while (state_walk_next(walk)) {
        struct bytes key = bytes_of(arena_dup(s->txn->arena, walk->key), walk->key.len);
        if (key.data == NULL)
            return ST_NOMEM;
        part->next = key;
        if (part->steps == 0)
            return ST_OK;
        part->steps--;
        TRY(end_entry(s, key, index.len, part->before_ms));
    }
    part->all = true;
    return ST_OK;
}

/* Store a mark of the remaining work, "TIME KEY": end the leases that were issued before TIME, from
 * KEY of the index on. */
static enum status put_part_mark(const struct lease_scope *s, const struct part *part)
{
    CLEANUP(buf_done) struct buf value = {0};
    struct bytes mark;
    ASSERT(!part->all && part->next.len != 0);
    ASSERT(part->prefix[0] != '\0');
    buf_add_format(&value, "%lld ", (long long)part->before_ms);
    buf_add(&value, part->next);
    TRY(buf_status(&value));
    TRY(state_ns_key(s->txn->arena, s->ns, LEASE_MARKS, bytes_str(part->prefix), NULL, &mark));
    return state_put_exempt(s->txn, mark, buf_bytes(&value)); /* exempt: the mark serves deletion */
}

enum status lease_end_below(const struct lease_scope *s, const char *prefix, bool *ret_all)
{
    struct part part = {.prefix = prefix, .before_ms = s->now_ms, .steps = LEASE_STEPS_MAX};
    struct bytes below;
    uint64_t newest;
    ASSERT(prefix[0] != '\0' && prefix[strlen(prefix) - 1] == '/');
    /* A lease that is issued meanwhile is a conflict: the walk alone is no precondition. */
    TRY(lease_prefix(s->txn->arena, s->ns, prefix, &below));
    TRY(state_newest(s->txn, below, &newest));
    TRY(end_part(s, &part));
    ASSERT(part.all || part.steps == 0);
    *ret_all = part.all;
    return part.all ? ST_OK : put_part_mark(s, &part);
}

/* Background work */

static enum status follow_mark(const struct lease_scope *s, struct bytes mark, const char *prefix)
{
    struct part part = {.prefix = prefix, .steps = LEASE_UPKEEP_STEPS};
    struct state_value stored;

    ASSERT(prefix[0] != '\0' && mark.len != 0);
    TRY(state_get(s->txn, mark, &stored));
    const uint8_t *space = memchr(stored.value.data, ' ', stored.value.len);
    size_t len = space != NULL ? (size_t)(space - stored.value.data) : 0;
    if (space == NULL || text_int_parse(bytes_of(stored.value.data, len), &part.before_ms) != ST_OK)
        return ST_CORRUPT;
    part.from = bytes_from(stored.value, len + 1);
    TRY(end_part(s, &part));
    return part.all ? state_delete(s->txn, mark) : put_part_mark(s, &part);
}

static enum status follow_first_mark(const struct lease_scope *s)
{
    struct arena *arena = s->txn->arena;
    struct state_walk *walk = arena_alloc(arena, sizeof *walk);
    struct bytes prefix;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(arena, s->ns, LEASE_MARKS, (struct bytes){0}, NULL, &prefix));
    state_walk(s->txn, prefix, walk);
    if (!state_walk_next(walk))
        return ST_OK;
    const char *mark = arena_str(arena, walk->key);
    return mark != NULL ? follow_mark(s, bytes_str(mark), mark + prefix.len) : ST_NOMEM;
}

/* End the lease `id`, which a `key` below leaseend/ names. If the lease is gone or ends later,
 * delete the key. */
static enum status expire_lease(const struct lease_scope *s, struct bytes key, const char *id)
{
    struct lease lease;
    enum status st = lease_load(s, id, &lease);
    if (st == ST_NOT_FOUND ||
        (st == ST_OK && (lease.expire_ms == 0 || lease.expire_ms > s->now_ms)))
        return state_delete(s->txn, key); /* record and key change together: not of this lease */
    TRY(st);
    return lease_end(s, &lease);
}

/* Stage the end of expired leases, LEASE_UPKEEP_STEPS at most. *ret_any: there were some. */
static enum status expire_leases(const struct lease_scope *s, bool *ret_any)
{
    struct arena *arena = s->txn->arena;
    struct state_walk *walk = arena_alloc(arena, sizeof *walk);
    struct bytes prefix, end;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(arena, s->ns, LEASE_ENDS, (struct bytes){0}, NULL, &prefix));
    TRY(state_ns_time_key(arena, s->ns, LEASE_ENDS, s->now_ms + 1, "", &end));
    state_walk(s->txn, prefix, walk);
    for (unsigned steps = LEASE_UPKEEP_STEPS; steps > 0 && state_walk_next(walk); steps--) {
        if (bytes_cmp(walk->key, end) >= 0)
            return ST_OK;
        const char *key = arena_str(arena, walk->key);
        if (key == NULL)
            return ST_NOMEM;
        ASSERT(walk->key.len > end.len);
        *ret_any = true;
        TRY(expire_lease(s, bytes_of(key, walk->key.len), key + end.len));
    }
    return ST_OK;
}

enum status lease_upkeep(const void *kinds, struct state_txn *txn, int64_t now_ms)
{
    const struct lease_scope scope = {
        .txn = txn, .ns = STATE_NS_ROOT, .kinds = kinds, .now_ms = now_ms};
    bool any = false;
    TRY(expire_leases(&scope, &any));
    return any ? ST_OK : follow_first_mark(&scope);
}
