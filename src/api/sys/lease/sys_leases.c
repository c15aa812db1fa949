/* sys/leases: show, renew and end leases (lease/lease.h). */
#include "api/sys/sys.h"
#include "router/req_lease.h"

#include <strings.h>

struct sys_lease {
    const char *lease_id;
    int64_t increment;
    bool sync;
};
struct sys_leases_below {
    const char *prefix;
    bool sync;
};
struct sys_leases_count {
    const char *type;
};
struct sys_leases_all {
    const char *type, *limit;
};

static const struct field fields[] = {
    FIELD(struct sys_lease, lease_id, STRING, .preset = "", .help = "Which lease."),
    FIELD(struct sys_lease, increment, DURATION,
          .help = "Time to live from now on; none: the default of the kind of lease."),
    FIELD(struct sys_lease, sync, BOOL, .help = "Not read: a revocation is always synchronous."),
};
static const struct schema sys_lease_schema = SCHEMA(struct sys_lease, fields);

static const struct field below_fields[] = {
    FIELD(struct sys_leases_below, prefix, STRING, .preset = "", .help = "A path."),
    FIELD(struct sys_leases_below, sync, BOOL,
          .help = "Not read: a revocation is always synchronous."),
};
static const struct schema sys_leases_below_schema = SCHEMA(struct sys_leases_below, below_fields);

static const struct field count_fields[] = {
    FIELD(struct sys_leases_count, type, STRING, .preset = "",
          .help = "irrevocable: leases that could not be ended; there are none."),
};
static const struct schema sys_leases_count_schema = SCHEMA(struct sys_leases_count, count_fields);

enum { LEASES_MAX = 100000 };
static const struct field all_fields[] = {
    FIELD(struct sys_leases_all, type, STRING, .preset = "",
          .help = "irrevocable: leases that could not be ended; there are none."),
    FIELD(struct sys_leases_all, limit, STRING, .preset = "10000",
          .help = "How many leases to list: a number, or \"none\" for no limit; 100000 at most. "
                  "lease_count counts all leases."),
};
static const struct schema sys_leases_all_schema = SCHEMA(struct sys_leases_all, all_fields);

static enum status find(struct req *req, const struct lease_scope *scope, const char *unknown,
                        struct lease *ret_lease)
{
    const struct sys_lease *in = req_body(req);
    if (in->lease_id[0] == '\0')
        return req_fail(req, ST_INVALID, "lease_id must be specified");
    enum status st = lease_find(scope, in->lease_id, ret_lease);
    return st == ST_NOT_FOUND && unknown != NULL ? req_fail(req, ST_INVALID, "%s", unknown) : st;
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
static const struct schema sys_lease_reply = SCHEMA(struct lease_out, lease_fields);

static enum status sys_lease_lookup(struct req *req)
{
    struct lease_scope scope;
    struct lease lease;
    TRY(req_lease_scope(req, &scope));
    TRY(find(req, &scope, "invalid lease", &lease));
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

static enum status sys_lease_list(struct req *req)
{
    struct bytes prefix;
    TRY(lease_prefix(req->arena, req->ns, req_param(req, "prefix"), &prefix));
    return req_reply_listing(req, prefix);
}

static enum status sys_lease_renew(struct req *req)
{
    const struct sys_lease *in = req_body(req);
    struct reason why = {{0}};
    struct lease_scope scope;
    struct lease lease;
    ASSERT(in->increment >= 0);
    TRY(req_lease_scope(req, &scope));
    TRY(find(req, &scope, "lease not found", &lease));
    enum status st = lease_renew(&scope, &lease, in->increment, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    req_reply_lease(req, &lease);
    return ST_OK;
}

static enum status sys_lease_revoke(struct req *req)
{
    struct lease_scope scope;
    struct lease lease;
    ASSERT(req_in_txn(req));
    TRY(req_lease_scope(req, &scope));
    enum status st = find(req, &scope, NULL, &lease);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* nothing to change */
    TRY(st);
    return lease_end(&scope, &lease);
}

static enum status sys_leases_revoke_below(struct req *req)
{
    const struct sys_leases_below *in = req_body(req);
    struct lease_scope scope;
    size_t len = strlen(in->prefix);
    struct lease lease;
    bool all = true;

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
    enum status st = lease_find(&scope, one, &lease);
    if (st == ST_OK)
        TRY(lease_end(&scope, &lease));
    else if (st != ST_NOT_FOUND)
        return st;
    TRY(lease_end_below(&scope, below, &all));
    if (all)
        return ST_OK;
    req->reply.http = 202;
    req_warn(req, "More than %d leases: the active node is ending the rest.", LEASE_STEPS_MAX);
    return ST_OK;
}

static enum status sys_leases_tidy(struct req *req)
{
    req->reply.http = 202;
    req_warn(req, "Nothing to do: the active node deletes the remains of ended leases by itself.");
    return ST_OK;
}

/* The length of the mount's path in the id of a lease. The path of an auth method has at least two
 * segments. */
static enum status mount_len(struct req *req, struct bytes lease, size_t *ret_len)
{
    struct mount mount;
    const char *path = arena_str(req->arena, lease);
    if (path == NULL)
        return ST_NOMEM;
    size_t first = strcspn(path, "/") + 1;
    *ret_len = MIN(first, lease.len);
    if (bytes_has_prefix(lease, BYTES("auth/"))) {
        *ret_len = MIN(first + strcspn(path + first, "/") + 1, lease.len);
        return ST_OK;
    }
    if (bytes_has_prefix(lease, BYTES("sys/")))
        return ST_OK;
    enum status st = mount_find(req->txn, req->ns, lease, &mount);
    if (st == ST_OK)
        *ret_len = strlen(mount.path);
    ASSERT(*ret_len <= lease.len);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

struct mount_count {
    const char *mount;
    int64_t leases;
};
static const struct field mount_count_fields[] = {FIELD_ITSELF(struct mount_count, leases, INT)};
static const struct schema mount_count_schema =
    SCHEMA_NAMED(struct mount_count, mount, mount_count_fields);
struct counts_out {
    struct field_list counts;
    int64_t lease_count;
};
static const struct field counts_out_fields[] = {
    FIELD(struct counts_out, counts, TABLE, .sub = &mount_count_schema),
    FIELD(struct counts_out, lease_count, INT),
};
static const struct schema sys_leases_count_reply = SCHEMA(struct counts_out, counts_out_fields);

struct count {
    struct mount_count *mounts; /* an array in the arena; it doubles when full */
    size_t n, room;
    int64_t all;
};

/* Add the number of leases of `mount`, without the leases that earlier rows count: the path of a
 * mount may begin with the path of another mount. The rows are in the order of the leases, so the
 * rows to subtract are the last ones. */
static enum status add_mount_count(struct arena *arena, struct count *c, struct bytes mount,
                                   int64_t leases)
{
    ASSERT(leases > 0);
    ASSERT(c->n <= c->room);
    if (c->n == c->room) {
        size_t room = MAX(2 * c->room, (size_t)16);
        struct mount_count *more = arena_alloc(arena, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (c->n != 0)
            memcpy(more, c->mounts, c->n * sizeof *more);
        c->mounts = more;
        c->room = room;
    }
    const char *name = arena_str(arena, mount);
    if (name == NULL)
        return ST_NOMEM;
    for (size_t i = c->n; i > 0 && bytes_has_prefix(bytes_str(c->mounts[i - 1].mount), mount); i--)
        leases -= c->mounts[i - 1].leases;
    ASSERT(leases > 0);
    c->mounts[c->n++] = (struct mount_count){.mount = name, .leases = leases};
    return ST_OK;
}

/* Count the leases of each mount. The walk is in order of the paths and stops at the first lease of
 * each mount, so its cost grows with the mounts, not with the leases. */
static enum status count_all(struct req *req, struct count *c)
{
    struct state_walk *walk = arena_alloc(req->arena, sizeof *walk);
    struct bytes prefix;
    size_t len;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_prefix(req->arena, req->ns, "", &prefix));
    c->all = (int64_t)state_count(req->txn, prefix);
    state_walk(req->txn, prefix, walk);
    while (state_walk_next(walk)) {
        struct bytes lease = bytes_from(walk->key, prefix.len);
        TRY(mount_len(req, lease, &len));
        struct bytes mount = bytes_of(walk->key.data, prefix.len + len);
        int64_t leases = (int64_t)state_count(req->txn, mount);
        TRY(add_mount_count(req->arena, c, bytes_from(mount, prefix.len), leases));
        state_walk_skip(walk, mount);
    }
    return ST_OK;
}

/* *ret_none: the request asks for irrevocable leases, which do not exist. */
static enum status read_type(struct req *req, const char *type, bool *ret_none)
{
    *ret_none = strcmp(type, "irrevocable") == 0;
    if (!*ret_none && type[0] != '\0')
        return req_fail(req, ST_INVALID, "type: irrevocable is expected, or no type");
    return ST_OK;
}

static enum status sys_leases_count(struct req *req)
{
    const struct sys_leases_count *in = req_body(req);
    struct count c = {0};
    bool none;
    TRY(read_type(req, in->type, &none));
    if (!none)
        TRY(count_all(req, &c));
    return req_reply(req, &(struct counts_out){{c.mounts, c.n}, c.all});
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
static const struct schema sys_leases_reply = SCHEMA(struct leases_out, leases_out_fields);

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
static enum status sys_leases_all(struct req *req)
{
    const struct sys_leases_all *in = req_body(req);
    int64_t n = 0, limit = 0;
    bool none;
    TRY(read_type(req, in->type, &none));
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
        .method = METHOD_POST, .path = pattern, .handler = sys_lease_renew,                        \
        .body = &sys_lease_schema,                                                                 \
        .help = "Renew a lease. The leases of tokens are refused: auth/token/renew renews tokens." \
    }
#define REVOKE(pattern)                                                                         \
    {                                                                                           \
        .method = METHOD_POST, .path = pattern, .handler = sys_lease_revoke,                    \
        .body = &sys_lease_schema,                                                              \
        .help = "End a lease at once. The end of a token ends its descendants too. An unknown " \
                "lease is no error."                                                            \
    }
#define REVOKE_BELOW(pattern)                                                               \
    {                                                                                       \
        .method = METHOD_POST, .path = pattern, .handler = sys_leases_revoke_below,         \
        .flags = ROUTE_SUDO, .body = &sys_leases_below_schema, .statuses = "200 202",       \
        .help = "End all leases below a path. If there are many, the reply is 202 and the " \
                "active node ends the rest. revoke-prefix and revoke-force do the same."    \
    }

static const struct route leases_routes[] = {
    {.method = METHOD_POST,
     .path = "leases/lookup",
     .handler = sys_lease_lookup,
     .flags = ROUTE_READS,
     .body = &sys_lease_schema,
     .reply = &sys_lease_reply,
     .help = "A lease: when it was issued and when it ends."},
    {.method = METHOD_LIST,
     .path = "leases/lookup/*prefix",
     .handler = sys_lease_list,
     .flags = ROUTE_SUDO,
     .help = "List the names below a path that have leases."},
    RENEW("leases/renew"),
    REVOKE("leases/revoke"),
    RENEW("leases/renew/*lease_id"),
    REVOKE("leases/revoke/*lease_id"),
    REVOKE_BELOW("leases/revoke-prefix/*prefix"),
    REVOKE_BELOW("leases/revoke-force/*prefix"),
    RENEW("renew"),
    REVOKE("revoke"),
    RENEW("renew/*lease_id"),
    REVOKE("revoke/*lease_id"),
    REVOKE_BELOW("revoke-prefix/*prefix"),
    REVOKE_BELOW("revoke-force/*prefix"),
    {.method = METHOD_POST,
     .path = "leases/tidy",
     .handler = sys_leases_tidy,
     .flags = ROUTE_SUDO,
     .statuses = "202",
     .help = "Does nothing: the active node deletes the remains of ended leases by itself."},
    {.method = METHOD_LIST,
     .path = "leases",
     .handler = sys_leases_all,
     .flags = ROUTE_SUDO,
     .body = &sys_leases_all_schema,
     .reply = &sys_leases_reply,
     .help = "All leases."},
    {.method = METHOD_GET,
     .path = "leases",
     .handler = sys_leases_all,
     .flags = ROUTE_SUDO,
     .body = &sys_leases_all_schema,
     .reply = &sys_leases_reply,
     .help = "All leases."},
    {.method = METHOD_GET,
     .path = "leases/count",
     .handler = sys_leases_count,
     .flags = ROUTE_SUDO,
     .body = &sys_leases_count_schema,
     .reply = &sys_leases_count_reply,
     .help = "The number of leases, by mount."},
};

const struct route_table sys_leases_table = {leases_routes, ARRAY_LEN(leases_routes)};
