/* sys/leases/count: how many leases there are, by mount, by namespace and by creator. */
#include "api/leases/leases.h"
#include "api/leases/leases_routes.h"
#include "auth/token_store.h"
#include "lease/lease.h"
#include "state/largest.h"

enum { CREATORS_MAX = 10, CREATORS_LOOKS = 10000 };

struct leases_count {
    const char *type;
    bool creators;
};
static const struct field count_fields[] = {
    FIELD(struct leases_count, type, STRING, .preset = "",
          .help = "irrevocable: leases that could not be ended; there are none."),
    FIELD(struct leases_count, creators, BOOL,
          .help = "Also name the ten tokens with the most leases of engines."),
};
static const struct schema leases_count_schema = SCHEMA(struct leases_count, count_fields);

struct named_count {
    const char *name;
    int64_t leases;
};
static const struct field named_count_fields[] = {FIELD_ITSELF(struct named_count, leases, INT)};
static const struct schema named_count_schema =
    SCHEMA_NAMED(struct named_count, name, named_count_fields);
struct creator {
    const char *accessor, *display_name;
    int64_t lease_count;
};
static const struct field creator_fields[] = {
    FIELD(struct creator, accessor, STRING,
          .help = "Accessor of the token; \"\": the token has ended, its leases are being ended."),
    FIELD(struct creator, display_name, STRING),
    FIELD(struct creator, lease_count, INT),
};
static const struct schema creator_schema = SCHEMA(struct creator, creator_fields);
struct counts_out {
    struct field_list counts, namespaces, creators;
    int64_t lease_count;
    bool with_creators, creators_exact;
};
static const struct field counts_out_fields[] = {
    FIELD(struct counts_out, counts, TABLE, .sub = &named_count_schema),
    FIELD(struct counts_out, lease_count, INT),
    FIELD(struct counts_out, namespaces, TABLE, .sub = &named_count_schema),
    FIELD(struct counts_out, creators, LIST, .sub = &creator_schema, .omit = true,
          .has = offsetof(struct counts_out, with_creators)),
    FIELD(struct counts_out, creators_exact, BOOL, .omit = true,
          .has = offsetof(struct counts_out, with_creators),
          .help = "False: there are so many tokens with leases that the search was cut short."),
};
static const struct schema leases_count_reply = SCHEMA(struct counts_out, counts_out_fields);

struct count {
    struct named_count *mounts; /* an array in the arena; it doubles when full */
    size_t n, room;
    int64_t all;
};

/* A lease without a mount belongs to the shortest folder of its path that has no mount below. */
static enum status folder_len(struct req *req, struct bytes lease, size_t *ret_len)
{
    size_t len = bytes_has_prefix(lease, BYTES("auth/")) ? 5 : 0;
    enum status st;
    do {
        const uint8_t *slash = memchr(lease.data + len, '/', lease.len - len);
        const char *other;
        len = slash != NULL ? (size_t)(slash - lease.data) + 1 : lease.len;
        const char *folder = arena_str(req->arena, bytes_of(lease.data, len));
        if (folder == NULL)
            return ST_NOMEM;
        st = slash != NULL ? mount_conflict(req->txn, req->ns, folder, &other) : ST_NOT_FOUND;
    } while (st == ST_OK);
    ASSERT(len > 0 && len <= lease.len);
    *ret_len = len;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* The length of the mount's path in the id of a lease. */
static enum status mount_len(struct req *req, struct bytes lease, size_t *ret_len)
{
    struct mount_place place;
    enum status st = mount_locate(req->txn, req->ns, lease, &place);
    if (st == ST_NOT_FOUND)
        return folder_len(req, lease, ret_len);
    TRY(st);
    *ret_len = place.path.len;
    return ST_OK;
}

static enum status add_count(struct arena *arena, struct count *c, struct bytes mount,
                             int64_t leases)
{
    ASSERT(leases > 0);
    ASSERT(c->n <= c->room);
    if (c->n == c->room) {
        size_t room = MAX(2 * c->room, (size_t)16);
        struct named_count *more = arena_alloc(arena, room * sizeof *more);
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
    c->mounts[c->n++] = (struct named_count){.name = name, .leases = leases};
    return ST_OK;
}

/* Count the leases of each mount. The walk is in order of the paths and stops at the first lease of
 * each mount, so its cost grows with the mounts, not with the leases. */
static enum status count_mounts(struct req *req, struct count *c)
{
    struct state_walk *walk = arena_alloc(req->arena, sizeof *walk);
    struct bytes prefix;
    size_t len;

    if (walk == NULL)
        return ST_NOMEM;
    ASSERT(c->n == 0);
    TRY(lease_prefix(req->arena, req->ns, "", &prefix));
    c->all = (int64_t)state_count(req->txn, prefix);
    state_walk(req->txn, prefix, walk);
    while (state_walk_next(walk)) {
        TRY(mount_len(req, bytes_from(walk->key, prefix.len), &len));
        struct bytes mount = bytes_of(walk->key.data, prefix.len + len);
        int64_t leases = (int64_t)state_count(req->txn, mount);
        TRY(add_count(req->arena, c, bytes_from(mount, prefix.len), leases));
        state_walk_skip(walk, mount);
    }
    return ST_OK;
}

static enum status describe_creator(struct req *req, const struct state_folder *folder,
                                    struct creator *ret_creator)
{
    const struct auth_scope scope = req_scope(req);
    struct auth_token token = {.accessor = "", .display_name = ""};
    const char *id = arena_str(req->arena, folder->name);
    ASSERT(folder->keys > 0 && folder->name.len != 0);
    if (id == NULL)
        return ST_NOMEM;
    enum status st = token_store_load(&scope, id, &token);
    if (st != ST_NOT_FOUND)
        TRY(st);
    *ret_creator = (struct creator){token.accessor, token.display_name, (int64_t)folder->keys};
    return ST_OK;
}

/* The tokens with the most leases, the largest number first. */
static enum status find_creators(struct req *req, struct counts_out *out)
{
    struct state_folder folders[CREATORS_MAX];
    struct creator *creators = arena_alloc(req->arena, CREATORS_MAX * sizeof *creators);
    struct bytes prefix;
    size_t n;

    if (creators == NULL)
        return ST_NOMEM;
    TRY(lease_tokens_prefix(req->arena, req->ns, &prefix));
    TRY(state_largest(req->txn, prefix, CREATORS_MAX, CREATORS_LOOKS, folders, &n,
                      &out->creators_exact));
    ASSERT(n <= CREATORS_MAX);
    for (size_t i = 0; i < n; i++)
        TRY(describe_creator(req, &folders[i], &creators[i]));
    out->creators = (struct field_list){creators, n};
    out->with_creators = true;
    return ST_OK;
}

static enum status leases_count(struct req *req)
{
    const struct leases_count *in = req_body(req);
    struct count c = {0};
    bool none;
    ASSERT(req_in_txn(req));
    TRY(leases_type(req, in->type, &none));
    if (!none)
        TRY(count_mounts(req, &c));
    struct named_count ns = {.name = req->ns, .leases = c.all};
    struct counts_out out = {
        .counts = {c.mounts, c.n}, .namespaces = {&ns, 1}, .lease_count = c.all};
    if (in->creators && !none)
        TRY(find_creators(req, &out));
    return req_reply(req, &out);
}

static const struct route lease_count_routes[] = {
    {.method = METHOD_GET,
     .path = "leases/count",
     .handler = leases_count,
     .flags = ROUTE_SUDO,
     .body = &leases_count_schema,
     .reply = &leases_count_reply,
     .help = "The number of leases, by mount and by namespace."},
};

const struct route_table leases_count_table = {lease_count_routes, ARRAY_LEN(lease_count_routes)};
