/* The module, and what its files share. */
#include "api/identity/identity.h"
#include "auth/policy_list.h"
#include "front/secrets/secrets.h"
#include "state/ns_key.h"
#include "text/utf8.h"

/* Mounts */

static enum status note_mount(void *ctx, const struct mount *mount)
{
    struct identity_mounts *m = ctx;
    if (m->n == m->room) {
        size_t room = MAX(2 * m->room, (size_t)16);
        void *more = arena_alloc(m->arena, room * sizeof *m->items);
        if (more == NULL)
            return ST_NOMEM;
        if (m->n != 0)
            memcpy(more, m->items, m->n * sizeof *m->items);
        m->items = more;
        m->room = room;
    }
    m->items[m->n].accessor = arena_str(m->arena, bytes_str(mount->accessor));
    m->items[m->n].path = arena_str(m->arena, bytes_str(mount->path));
    m->items[m->n].type = arena_str(m->arena, bytes_str(mount->type));
    bool made = m->items[m->n].accessor != NULL && m->items[m->n].path != NULL &&
                m->items[m->n].type != NULL;
    m->n++;
    return made ? ST_OK : ST_NOMEM;
}

enum status identity_mounts_load(struct req *req, struct identity_mounts *ret_mounts)
{
    *ret_mounts = (struct identity_mounts){.arena = req->arena};
    return mount_each(req->txn, req->ns, note_mount, ret_mounts);
}

const char *identity_mount_path(const struct identity_mounts *mounts, const char *accessor)
{
    for (size_t i = 0; i < mounts->n; i++)
        if (strcmp(mounts->items[i].accessor, accessor) == 0)
            return mounts->items[i].path;
    return "";
}

const char *identity_mount_type(const struct identity_mounts *mounts, const char *accessor)
{
    for (size_t i = 0; i < mounts->n; i++)
        if (strcmp(mounts->items[i].accessor, accessor) == 0)
            return mounts->items[i].type;
    return "";
}

/* Checks of fields */

enum status identity_check_name(struct req *req, const char *name)
{
    if (name[0] == '\0')
        return req_fail(req, ST_INVALID, "missing name");
    if (strlen(name) > IDENTITY_NAME_MAX)
        return req_fail(req, ST_INVALID, "name: longer than %d bytes", IDENTITY_NAME_MAX);
    if (!text_printable(bytes_str(name)) || name[strlen(name) - 1] == '/')
        return req_fail(req, ST_INVALID,
                        "name: printable characters are expected, without '/' at the end");
    return ST_OK;
}

enum status identity_check_map(struct req *req, const char *field, const struct field_map *map)
{
    if (map->n > IDENTITY_META_MAX)
        return req_fail(req, ST_INVALID, "%s: %zu entries, %d at most", field, map->n,
                        IDENTITY_META_MAX);
    for (size_t i = 0; i < map->n; i++) {
        const char *key = map->pairs[2 * i];
        size_t len = strlen(key), value_len = strlen(map->pairs[2 * i + 1]);
        if (len == 0 || len > IDENTITY_META_KEY_MAX)
            return req_fail(req, ST_INVALID, "%s: a key of 1 to %d bytes is expected", field,
                            IDENTITY_META_KEY_MAX);
        if (value_len > IDENTITY_META_VALUE_MAX)
            return req_fail(req, ST_INVALID, "%s: the value of \"%s\" is longer than %d bytes",
                            field, key, IDENTITY_META_VALUE_MAX);
    }
    return ST_OK;
}

enum status identity_clean_policies(struct req *req, const struct field_strings *in,
                                    struct field_strings *ret_policies)
{
    struct reason why = {{0}};
    enum status st = policy_list_clean(req->arena, in, false, ret_policies, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    if (policy_list_is_root(ret_policies))
        return req_fail(req, ST_INVALID, "policies cannot contain root");
    return ST_OK;
}

bool identity_same_map(const struct field_map *a, const struct field_map *b)
{
    size_t same = 0;
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            same += strcmp(a->pairs[2 * i], b->pairs[2 * k]) == 0 &&
                    strcmp(a->pairs[2 * i + 1], b->pairs[2 * k + 1]) == 0;
    return a->n == b->n && same == a->n;
}

/* Listings */

enum { LIST_MAX = REQ_DETAILS_MAX };

static enum status read_limit(struct req *req, size_t *ret_limit)
{
    struct bytes limit;
    int64_t n = 0;
    TRY(req_query(req, "limit", &limit));
    if (limit.len != 0 && text_int_parse(limit, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "limit: a whole number is expected");
    *ret_limit = n > 0 && n < LIST_MAX ? (size_t)n : LIST_MAX;
    return ST_OK;
}

struct list_out {
    struct field_strings keys;
    struct bytes key_info;
};
static const struct field list_fields[] = {
    FIELD(struct list_out, keys, STRINGS),
    FIELD(struct list_out, key_info, JSON),
};
const struct schema identity_list_schema = SCHEMA(struct list_out, list_fields);

/* A listing that is being written: the keys, and beside them the details of each id. */
struct listing {
    struct identity_mounts mounts;
    struct text_writer details;
    struct buf info;
    const char **keys;
    size_t n, room;
};

static enum status list_add_key(struct req *req, struct listing *l, const char *key)
{
    ASSERT(l->n <= l->room);
    if (l->n == l->room) {
        size_t room = MAX(2 * l->room, (size_t)32);
        const char **more = arena_alloc(req->arena, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (l->n != 0)
            memcpy(more, l->keys, l->n * sizeof *more);
        l->keys = more;
        l->room = room;
    }
    l->keys[l->n++] = key;
    return ST_OK;
}

static enum status identity_list_one(struct req *req, struct listing *l, const char *id, bool by_id,
                                     identity_put_info *put)
{
    const char *name = id;
    ASSERT(id[0] != '\0');
    text_key(&l->details, id);
    TRY(put(req, id, &l->mounts, &l->details, &name));
    return list_add_key(req, l, by_id ? id : name);
}

static enum status identity_list_all(struct req *req, const char *kind, bool by_id,
                                     identity_put_info *put, struct listing *l)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix, value;
    size_t limit = LIST_MAX;
    bool more = false;
    if (iter == NULL)
        return ST_NOMEM;
    l->details = (struct text_writer){.out = &l->info};
    TRY(read_limit(req, &limit));
    TRY(identity_mounts_load(req, &l->mounts));
    TRY(state_ns_key(req->arena, req->ns, kind, BYTES(""), NULL, &prefix));
    TRY(req_scan_after(req, prefix, iter));
    text_open_object(&l->details);
    while (state_iter_next(iter) && !(more = l->n == limit)) {
        if (by_id)
            value = bytes_from(iter->key, iter->prefix.len);
        else
            TRY(state_iter_value(iter, &value));
        const char *id = arena_str(req->arena, value);
        if (id == NULL)
            return ST_NOMEM;
        TRY(identity_list_one(req, l, id, by_id, put));
    }
    text_close(&l->details);
    TRY(buf_status(&l->info));
    if (l->n == 0)
        return ST_NOT_FOUND;
    if (more && limit == LIST_MAX)
        req_warn(req, "More than %zu keys: get the rest with after=%.200s.", l->n,
                 l->keys[l->n - 1]);
    const struct list_out out = {{l->keys, l->n, true}, buf_bytes(&l->info)};
    return req_reply(req, &out);
}

static enum status identity_list_kind(struct req *req, const char *kind, bool by_id,
                                      identity_put_info *put)
{
    struct listing l = {.n = 0};
    enum status st = identity_list_all(req, kind, by_id, put, &l);
    buf_done(&l.info);
    return st;
}

enum status identity_list_names(struct req *req, const char *kind, identity_put_info *put)
{
    return identity_list_kind(req, kind, false, put);
}

enum status identity_list_ids(struct req *req, const char *kind, identity_put_info *put)
{
    return identity_list_kind(req, kind, true, put);
}

static const struct route_table *const tables[] = {
    &identity_entity_table, &identity_merge_table,       &identity_alias_table,
    &identity_group_table,  &identity_group_alias_table, &identity_lookup_table,
    &identity_token_table,
};
static const struct route_api identity_api = {.dialect = &secrets_dialect,
                                              .prefix = "identity/",
                                              .type = "identity",
                                              .more = tables,
                                              .n_more = ARRAY_LEN(tables)};
static const struct route_api *const apis[] = {&identity_api};

const struct module identity_module = {.name = "identity", .apis = apis, .n_apis = ARRAY_LEN(apis)};
