/* The list of accessors. */
#include "api/token/token.h"
#include "auth/token_accessor.h"
#include "state/feature.h"
#include "state/ns_key.h"

/* Two walks in the order of the accessors, merged: over the records, whose ids give the derived
 * accessors, and over the index. */
struct accessors {
    struct req_names names;
    struct state_iter records, index;
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

static enum status next_derived(struct req *req, struct accessors *a)
{
    bool derived;
    ASSERT(a->is_derived_given);
    a->derived = (struct bytes){0};
    while (a->derived.len == 0 && state_iter_next(&a->records)) {
        struct bytes id = bytes_from(a->records.key, a->records.prefix.len);
        derived = token_accessor_of(id, a->text) == ST_OK;
        if (derived && a->mixed)
            TRY(is_derived(req, a, &derived));
        if (derived)
            a->derived = bytes_of(a->text, AUTH_ACCESSOR_LEN);
    }
    return ST_OK;
}

static void next_indexed(struct accessors *a)
{
    a->indexed = state_iter_next(&a->index) ? bytes_from(a->index.key, a->index.prefix.len)
                                            : (struct bytes){0};
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

static enum status token_accessors(struct req *req)
{
    struct accessors *a = arena_zalloc(req->arena, sizeof *a);
    struct bytes prefix;
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
    a->mixed = state_count(req->txn, prefix) != 0;
    a->is_derived_given = a->is_indexed_given = true;
    a->names.next = next_accessor;
    return req_reply_names(req, &a->names);
}

static const struct route list_routes[] = {
    {.method = METHOD_LIST,
     .path = "accessors",
     .handler = token_accessors,
     .flags = ROUTE_SUDO,
     .help = "The accessors of all tokens that are stored."},
};

const struct route_table token_list_table = {list_routes, ARRAY_LEN(list_routes)};
