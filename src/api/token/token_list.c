/* The list of accessors. */
#include "api/token/token.h"
#include "auth/token_accessor.h"
#include "state/feature.h"
#include "state/ns_key.h"

/* Two walks in the order of the accessors, merged: over the records, whose ids give the derived
 * accessors, and over the index. Tokens of other kinds are in both walks and are left out: walks
 * over their ids go beside the walk over the records, and their accessors have another length. */
struct accessors {
    struct req_names names;
    struct state_iter records, index;
    struct state_iter *others[TOKEN_KINDS]; /* NULL: no token of this kind is left */
    /* The index has keys, so each record is read: only the record says whether its accessor is
     * derived. Such keys become fewer as the tokens of earlier builds end. */
    bool mixed;
    char text[AUTH_ACCESSOR_LEN + 1];        /* where `derived` lies */
    struct bytes derived, indexed;           /* next of each walk; empty: none is left */
    bool is_derived_given, is_indexed_given; /* the walk must go on before the next name */
};

/* Whether the accessor of the present record is the derived one. A record that cannot be read is
 * listed with the derived one, which names its id. */
static enum status is_derived(struct req *req, struct accessors *a, bool *ret_derived)
{
    struct auth_token token;
    struct bytes record;
    ASSERT(a->mixed);
    enum status st = state_iter_value(&a->records, &record);
    if (st == ST_OK)
        st = token_record_read(record, req->arena, &token);
    if (st != ST_CORRUPT)
        TRY(st);
    *ret_derived = st == ST_CORRUPT || token.derived;
    return ST_OK;
}

/* Whether the token of an id is of another kind. The ids of successive calls ascend. */
static bool is_other(struct accessors *a, struct bytes id)
{
    for (unsigned kind = 0; kind < TOKEN_KINDS; kind++) {
        struct state_iter *other = a->others[kind];
        int order = -1;
        while (other != NULL &&
               (order = bytes_cmp(bytes_from(other->key, other->prefix.len), id)) < 0)
            if (!state_iter_next(other))
                other = a->others[kind] = NULL;
        if (other != NULL && order == 0)
            return true;
    }
    return false;
}

static enum status next_derived(struct req *req, struct accessors *a)
{
    bool derived;
    ASSERT(a->is_derived_given);
    a->derived = (struct bytes){0};
    while (a->derived.len == 0 && state_iter_next(&a->records)) {
        struct bytes id = bytes_from(a->records.key, a->records.prefix.len);
        derived = !is_other(a, id) && token_accessor_of(id, a->text) == ST_OK;
        if (derived && a->mixed)
            TRY(is_derived(req, a, &derived));
        if (derived)
            a->derived = bytes_of(a->text, AUTH_ACCESSOR_LEN);
    }
    return ST_OK;
}

static void next_indexed(struct accessors *a)
{
    ASSERT(a->is_indexed_given);
    do
        a->indexed = state_iter_next(&a->index) ? bytes_from(a->index.key, a->index.prefix.len)
                                                : (struct bytes){0};
    while (a->indexed.len != 0 && a->indexed.len != AUTH_ACCESSOR_LEN);
}

static enum status next_accessor(struct req *req, struct req_names *names, struct bytes *ret_name)
{
    struct accessors *a = CONTAINER_OF(names, struct accessors, names);
    ASSERT(names->next == next_accessor);
    if (a->is_derived_given)
        TRY(next_derived(req, a));
    if (a->is_indexed_given)
        next_indexed(a);
    if (a->derived.len == 0 && a->indexed.len == 0)
        return ST_NOT_FOUND;
    int order = a->derived.len == 0   ? 1
                : a->indexed.len == 0 ? -1
                                      : bytes_cmp(a->derived, a->indexed);
    a->is_derived_given = order <= 0;
    a->is_indexed_given = order >= 0;
    *ret_name = order <= 0 ? a->derived : a->indexed;
    ASSERT(ret_name->len != 0);
    return ST_OK;
}

/* Begin the walk over the records behind the accessor that the request names. */
static enum status scan_records(struct req *req, struct state_iter *iter)
{
    struct bytes after, prefix, from = {0};
    char id[AUTH_TOKEN_ID_LEN + 1];
    TRY(req_query(req, "after", &after));
    TRY(state_ns_key(req->arena, req->ns, "token", BYTES(""), NULL, &prefix));
    if (after.len != 0 && token_accessor_before(after, id) == ST_OK) {
        TRY(state_ns_key(req->arena, req->ns, "token", bytes_str(id), NULL, &from));
        from.len++; /* with the zero behind the key: the first key behind the record of `id` */
    }
    ASSERT(from.len == 0 || from.len > prefix.len);
    return state_scan(req->txn, prefix, from, iter);
}

/* Begin the walks over the tokens of other kinds; *ret_n is the number of these tokens. */
static enum status scan_others(struct req *req, struct accessors *a, uint64_t *ret_n)
{
    *ret_n = 0;
    ASSERT(req_in_txn(req));
    for (unsigned kind = TOKEN_SECRETS + 1; kind < TOKEN_KINDS; kind++) {
        struct bytes prefix;
        TRY(token_store_kind_prefix(req->arena, req->ns, kind, &prefix));
        uint64_t n = state_count(req->txn, prefix);
        if (n == 0)
            continue;
        *ret_n += n;
        struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
        if (iter == NULL)
            return ST_NOMEM;
        TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
        a->others[kind] = state_iter_next(iter) ? iter : NULL;
    }
    return ST_OK;
}

static enum status token_accessors(struct req *req)
{
    struct accessors *a = arena_zalloc(req->arena, sizeof *a);
    struct bytes prefix;
    uint64_t others;
    bool raised;

    ASSERT(req_in_txn(req));
    if (a == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(req->arena, req->ns, "accessor", BYTES(""), NULL, &prefix));
    TRY(state_has_feature(req->txn, TOKEN_ACCESSOR_FEATURE, &raised));
    if (!raised) /* no accessor is derived yet */
        return req_reply_listing(req, prefix);
    TRY(req_scan_after(req, prefix, &a->index));
    TRY(scan_records(req, &a->records));
    TRY(scan_others(req, a, &others));
    a->mixed = state_count(req->txn, prefix) > others;
    a->is_derived_given = a->is_indexed_given = true;
    a->names.next = next_accessor;
    return req_reply_names(req, &a->names);
}

static const struct route list_routes[] = {
    {.method = METHOD_LIST,
     .path = "accessors",
     .handler = token_accessors,
     .flags = ROUTE_SUDO,
     .help = "The accessors of all tokens of the secrets service that are stored."},
};

const struct route_table token_list_table = {list_routes, ARRAY_LEN(list_routes)};
