/* sys/leases: show, renew and end leases (lease/lease.h). */
#include "api/leases/leases_routes.h"
#include "api/leases/leases.h"
#include "router/req_lease.h"

#include <strings.h>

struct leases_one {
    const char *lease_id;
    int64_t increment;
    bool sync;
};
struct leases_below {
    const char *prefix;
    bool sync;
};

#define SYNC_HELP                                                                                 \
    "A revocation is always complete when its reply comes, unless the status of a revocation by " \
    "prefix is 202. False: the status is 202 in place of 204."

struct leases_all {
    const char *type, *limit;
};

static const struct field fields[] = {
    FIELD(struct leases_one, lease_id, STRING, .preset = "", .help = "Which lease."),
    FIELD(struct leases_one, increment, DURATION,
          .help = "Time to live from now on; none: the default of the kind of lease."),
    FIELD(struct leases_one, sync, BOOL, .preset = "true", .help = SYNC_HELP),
};
static const struct schema leases_schema = SCHEMA(struct leases_one, fields);

static const struct field below_fields[] = {
    FIELD(struct leases_below, prefix, STRING, .preset = "", .help = "A path."),
    FIELD(struct leases_below, sync, BOOL, .preset = "true", .help = SYNC_HELP),
};
static const struct schema leases_below_schema = SCHEMA(struct leases_below, below_fields);

enum { LEASES_MAX = 100000 };
static const struct field all_fields[] = {
    FIELD(struct leases_all, type, STRING, .preset = "",
          .help = "irrevocable: leases that could not be ended; there are none."),
    FIELD(struct leases_all, limit, STRING, .preset = "10000",
          .help = "How many leases to list: a number, or \"none\" for no limit; 100000 at most. "
                  "lease_count counts all leases."),
};
static const struct schema leases_all_schema = SCHEMA(struct leases_all, all_fields);

static enum status need_id(struct req *req)
{
    const struct leases_one *in = req_body(req);
    return in->lease_id[0] != '\0' ? ST_OK
                                   : req_fail(req, ST_INVALID, "lease_id must be specified");
}

static enum status find(struct req *req, const struct lease_scope *scope, struct lease *ret_lease)
{
    const struct leases_one *in = req_body(req);
    TRY(need_id(req));
    return lease_find(scope, in->lease_id, ret_lease);
}

struct lease_out {
    const char *id;
    int64_t issue_time, expire_time, last_renewal, ttl;
    bool renewable;
};
static const struct field lease_fields[] = {
    FIELD(struct lease_out, id, STRING),
    FIELD(struct lease_out, issue_time, TIME, .null = true),
    FIELD(struct lease_out, expire_time, TIME, .null = true),
    FIELD(struct lease_out, last_renewal, TIME, .null = true),
    FIELD(struct lease_out, renewable, BOOL),
    FIELD(struct lease_out, ttl, INT),
};
static const struct schema leases_reply = SCHEMA(struct lease_out, lease_fields);

static enum status leases_lookup(struct req *req)
{
    struct lease_scope scope;
    struct lease lease;
    TRY(req_lease_scope(req, &scope));
    enum status st = find(req, &scope, &lease);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid lease");
    TRY(st);
    const struct lease_out out = {
        .id = lease.id,
        .issue_time = lease.issued_ms,
        .expire_time = lease.expire_ms,
        .last_renewal = lease.renewed_ms,
        .renewable = lease.renewable,
        .ttl = MAX(lease.expire_ms - req->now_ms, INT64_C(0)) / 1000,
    };
    ASSERT(lease.expire_ms == 0 || lease.expire_ms > req->now_ms); /* lease_find checked */
    return req_reply(req, &out);
}

static enum status leases_list(struct req *req)
{
    struct bytes prefix;
    TRY(lease_prefix(req->arena, req->ns, req_param(req, "prefix"), &prefix));
    return req_reply_listing(req, prefix);
}

/* The limits of the mount that gave a lease: the system's if there is no such mount any more. */
static enum status limits_of_lease(struct req *req, const char *id, struct lease_limits *ret_limits)
{
    struct mount mount = {0};
    enum status st = mount_find(req->txn, req->ns, bytes_str(id), &mount);
    if (st != ST_NOT_FOUND)
        TRY(st);
    *ret_limits = req_lease_limits(&mount);
    return ST_OK;
}

static enum status leases_renew(struct req *req)
{
    const struct leases_one *in = req_body(req);
    struct reason why = {{0}};
    struct lease_limits limits;
    struct lease_scope scope;
    struct lease_cut cut;
    struct lease lease;
    ASSERT(in->increment >= 0);
    TRY(req_lease_scope(req, &scope));
    enum status st = find(req, &scope, &lease);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "%s",
                        lease_is_expired(&scope, in->lease_id) ? "lease expired"
                                                               : "lease not found");
    TRY(st);
    TRY(limits_of_lease(req, lease.id, &limits));
    st = lease_renew(&scope, &lease, in->increment, &limits, &cut, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    ASSERT(lease.expire_ms == 0 || lease.expire_ms > req->now_ms);
    req_lease_warn(req, &cut);
    req_reply_lease(req, &lease);
    return ST_OK;
}

/* Upstream answers 202 to a client that does not wait. */
static void reply_revoked(struct req *req, bool sync)
{
    ASSERT(req->reply.kind == REPLY_NONE);
    if (sync)
        return;
    req->reply.http = 202;
    req->reply.kind = REPLY_DATA; /* the envelope, without data */
}

static void warn_skipped(struct req *req, unsigned skipped, bool force)
{
    if (skipped != 0 && force)
        req_warn(req,
                 "%u leases could not be ended and were dropped: what they lent may stay in use.",
                 skipped);
    else if (skipped != 0)
        req_warn(req,
                 "%u leases cannot be ended, because no module can read them. revoke-force "
                 "drops them.",
                 skipped);
}

/* A lease whose time has come, or whose token has ended, may still be stored: it ends now. */
static enum status leases_revoke(struct req *req)
{
    const struct leases_one *in = req_body(req);
    struct lease_ended ended = {0};
    struct lease_scope scope;
    ASSERT(req_in_txn(req));
    TRY(need_id(req));
    TRY(req_lease_scope(req, &scope));
    enum status st = lease_end_one(&scope, in->lease_id, false, &ended);
    if (st != ST_NOT_FOUND) /* an unknown lease: nothing to change */
        TRY(st);
    if (ended.skipped != 0)
        return ST_CORRUPT;
    reply_revoked(req, in->sync);
    return ST_OK;
}

static enum status revoke_below(struct req *req, bool force)
{
    const struct leases_below *in = req_body(req);
    size_t len = strlen(in->prefix);
    struct lease_scope scope;
    struct lease_ended ended;

    while (len > 0 && in->prefix[len - 1] == '/')
        len--;
    if (len == 0)
        return req_fail(req, ST_INVALID, "prefix: a path is expected");
    const char *one = arena_str(req->arena, bytes_of(in->prefix, len));
    const char *below = arena_format(req->arena, "%.*s/", (int)len, in->prefix);
    if (one == NULL || below == NULL)
        return ST_NOMEM;
    ASSERT(strlen(one) == len && strlen(below) == len + 1);
    TRY(req_lease_scope(req, &scope));
    TRY(lease_end_below(&scope, below, force, &ended));
    enum status st = lease_end_one(&scope, one, force, &ended);
    if (st != ST_NOT_FOUND) /* the prefix is not also the name of a lease */
        TRY(st);
    reply_revoked(req, in->sync && ended.all);
    if (!ended.all)
        req_warn(req, "More than %d leases: the active node is ending them.", LEASE_STEPS_MAX);
    warn_skipped(req, ended.skipped, force);
    return ST_OK;
}

static enum status leases_revoke_below(struct req *req)
{
    return revoke_below(req, false);
}

static enum status leases_revoke_force(struct req *req)
{
    return revoke_below(req, true);
}

static enum status leases_tidy(struct req *req)
{
    req->reply.http = 202;
    req_warn(req, "Nothing to do: the active node deletes the remains of ended leases by itself.");
    return ST_OK;
}

enum status leases_type(struct req *req, const char *type, bool *ret_none)
{
    *ret_none = strcmp(type, "irrevocable") == 0;
    if (!*ret_none && type[0] != '\0')
        return req_fail(req, ST_INVALID, "type: irrevocable is expected, or no type");
    return ST_OK;
}

struct listed_out {
    struct bytes lease_id;
};
static const struct field listed_fields[] = {FIELD(struct listed_out, lease_id, BYTES)};
static const struct schema listed_schema = SCHEMA(struct listed_out, listed_fields);
struct leases_out {
    struct field_list leases;
    int64_t lease_count;
};
static const struct field leases_out_fields[] = {
    FIELD(struct leases_out, leases, LIST, .sub = &listed_schema),
    FIELD(struct leases_out, lease_count, INT),
};
static const struct schema leases_list_reply = SCHEMA(struct leases_out, leases_out_fields);

static enum status put_leases(struct req *req, struct text_writer *w, int64_t limit, int64_t *ret_n)
{
    struct state_walk *walk = arena_alloc(req->arena, sizeof *walk);
    struct bytes prefix;
    ASSERT(*ret_n == 0 && limit > 0 && limit <= LEASES_MAX);
    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_prefix(req->arena, req->ns, "", &prefix));
    *ret_n = (int64_t)state_count(req->txn, prefix);
    state_walk(req->txn, prefix, walk);
    for (int64_t n = 0; n < limit && state_walk_next(walk); n++) {
        const struct listed_out out = {bytes_from(walk->key, prefix.len)};
        schema_encode(&listed_schema, &out, w);
    }
    return ST_OK;
}

static enum status read_limit(struct req *req, const char *text, int64_t *ret_limit)
{
    int64_t limit = LEASES_MAX;
    if (strcasecmp(text, "none") != 0 &&
        (text_int_parse(bytes_str(text), &limit) != ST_OK || limit < 1))
        return req_fail(req, ST_INVALID, "limit: a number of 1 or more is expected, or \"none\"");
    *ret_limit = MIN(limit, (int64_t)LEASES_MAX);
    return ST_OK;
}

/* Write each lease when the walk finds it: the list may be long. */
static enum status leases_all(struct req *req)
{
    const struct leases_all *in = req_body(req);
    int64_t n = 0, limit = 0;
    bool none;
    TRY(leases_type(req, in->type, &none));
    TRY(read_limit(req, in->limit, &limit));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "leases");
    text_open_list(&w);
    if (!none)
        TRY(put_leases(req, &w, limit, &n));
    text_close(&w);
    text_member_int(&w, "lease_count", n);
    text_close(&w);
    ASSERT(w.depth == 0);
    return req_reply_end(req);
}

/* Each operation has rows at several paths: with the lease in the body, with the lease in the path,
 * and at upstream's older paths. */
#define RENEW(pattern)                                                                             \
    {                                                                                              \
        .method = METHOD_POST, .path = pattern, .handler = leases_renew, .body = &leases_schema,   \
        .help = "Renew a lease. The leases of tokens are refused: auth/token/renew renews tokens." \
    }
#define REVOKE(pattern)                                                                           \
    {                                                                                             \
        .method = METHOD_POST, .path = pattern, .handler = leases_revoke, .body = &leases_schema, \
        .statuses = "200 202",                                                                    \
        .help = "End a lease at once. The end of a token ends its descendants too. An unknown "   \
                "lease is no error."                                                              \
    }
#define REVOKE_BELOW(pattern)                                                               \
    {                                                                                       \
        .method = METHOD_POST, .path = pattern, .handler = leases_revoke_below,             \
        .flags = ROUTE_SUDO, .body = &leases_below_schema, .statuses = "200 202",           \
        .help = "End all leases below a path. If there are many, the reply is 202 and the " \
                "active node ends them."                                                    \
    }
#define REVOKE_FORCE(pattern)                                                            \
    {                                                                                    \
        .method = METHOD_POST, .path = pattern, .handler = leases_revoke_force,          \
        .flags = ROUTE_SUDO, .body = &leases_below_schema, .statuses = "200 202",        \
        .help = "As revoke-prefix. A lease that cannot be ended, because no module can " \
                "read it, is dropped: what it lent may stay in use."                     \
    }

static const struct route leases_routes[] = {
    {.method = METHOD_POST,
     .path = "leases/lookup",
     .handler = leases_lookup,
     .flags = ROUTE_READS,
     .body = &leases_schema,
     .reply = &leases_reply,
     .help = "A lease: when it was issued and when it ends."},
    {.method = METHOD_LIST,
     .path = "leases/lookup/*prefix",
     .handler = leases_list,
     .flags = ROUTE_SUDO,
     .help = "List the names below a path that have leases."},
    RENEW("leases/renew"),
    REVOKE("leases/revoke"),
    RENEW("leases/renew/*lease_id"),
    REVOKE("leases/revoke/*lease_id"),
    REVOKE_BELOW("leases/revoke-prefix/*prefix"),
    REVOKE_FORCE("leases/revoke-force/*prefix"),
    RENEW("renew"),
    REVOKE("revoke"),
    RENEW("renew/*lease_id"),
    REVOKE("revoke/*lease_id"),
    REVOKE_BELOW("revoke-prefix/*prefix"),
    REVOKE_FORCE("revoke-force/*prefix"),
    {.method = METHOD_POST,
     .path = "leases/tidy",
     .handler = leases_tidy,
     .flags = ROUTE_SUDO,
     .statuses = "202",
     .help = "Does nothing: the active node deletes the remains of ended leases by itself."},
    {.method = METHOD_LIST,
     .path = "leases",
     .handler = leases_all,
     .flags = ROUTE_SUDO,
     .body = &leases_all_schema,
     .reply = &leases_list_reply,
     .help = "All leases."},
    {.method = METHOD_GET,
     .path = "leases",
     .handler = leases_all,
     .flags = ROUTE_SUDO,
     .body = &leases_all_schema,
     .reply = &leases_list_reply,
     .help = "All leases."},
};

const struct route_table leases_routes_table = {leases_routes, ARRAY_LEN(leases_routes)};
