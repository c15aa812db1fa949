#include "router/mount.h"
#include "auth/namespace.h"
#include "auth/token.h"

#define MOUNT_KIND "mount"

enum { ACCESSOR_DIGITS = 8 };

static const struct field mount_fields[] = {
    FIELD(struct mount, type, STRING, .required = true),
    FIELD(struct mount, uuid, STRING, .required = true),
    FIELD(struct mount, accessor, STRING, .required = true),
    FIELD(struct mount, description, STRING, .preset = ""),
    FIELD(struct mount, options, MAP),
    FIELD_NAMED("default_lease_ttl", struct mount, default_lease_ttl_s, INT),
    FIELD_NAMED("max_lease_ttl", struct mount, max_lease_ttl_s, INT),
};
const struct schema mount_schema = SCHEMA(struct mount, mount_fields);

static enum status decode(struct arena *arena, struct bytes path, struct bytes stored,
                          struct mount *ret_mount)
{
    const struct text_value *record;
    struct schema_fault fault;
    enum status st = text_json_parse(arena, stored, &record, &fault.why);
    if (st == ST_OK)
        st = record->kind == TEXT_OBJECT
                 ? schema_decode(&mount_schema, record, arena, ret_mount, &fault)
                 : ST_INVALID;
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    ret_mount->path = arena_str(arena, path);
    return ret_mount->path != NULL ? ST_OK : ST_NOMEM;
}

enum status mount_find(struct state_txn *txn, const char *ns, struct bytes path,
                       struct mount *ret_mount)
{
    size_t end = 0;
    for (unsigned i = 0; i < MOUNT_SEGMENTS_MAX && end < path.len; i++) {
        struct bytes key;
        struct state_value stored;
        const uint8_t *slash = memchr(path.data + end, '/', path.len - end);
        end = slash != NULL ? (size_t)(slash - path.data) + 1 : path.len;
        size_t len = slash != NULL ? end - 1 : end; /* "kv" alone means "kv/" */
        TRY(auth_key(txn->arena, ns, MOUNT_KIND, bytes_of(path.data, len), "", &key));
        enum status st = state_get(txn, key, &stored);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        return decode(txn->arena, bytes_from(key, key.len - len - 1), stored.value, ret_mount);
    }
    return ST_NOT_FOUND;
}

enum status mount_create(struct state_txn *txn, struct env *env, const char *ns,
                         struct mount *mount)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record};
    struct bytes key;
    char uuid[AUTH_UUID_LEN + 1], digits[AUTH_UUID_LEN + 1];

    ASSERT(mount->path[0] != '\0' && mount->path[strlen(mount->path) - 1] == '/');
    TRY(auth_key(txn->arena, ns, MOUNT_KIND, bytes_str(mount->path), NULL, &key));
    enum status st = state_exists(txn, key);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    auth_uuid(env, uuid);
    auth_uuid(env, digits);
    digits[ACCESSOR_DIGITS] = '\0';
    mount->uuid = arena_str(txn->arena, bytes_str(uuid));
    mount->accessor = arena_format(txn->arena, "%s_%s", mount->type, digits);
    if (mount->uuid == NULL || mount->accessor == NULL)
        return ST_NOMEM;
    schema_encode(&mount_schema, mount, &w);
    TRY(buf_status(&record));
    return state_put(txn, key, buf_bytes(&record));
}

enum status mount_each(struct state_txn *txn, const char *ns,
                       enum status (*each)(void *ctx, const struct mount *mount), void *ctx)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix, stored;
    struct mount mount;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(auth_key(txn->arena, ns, MOUNT_KIND, (struct bytes){0}, NULL, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        TRY(state_iter_value(iter, &stored));
        TRY(decode(txn->arena, bytes_from(iter->key, prefix.len), stored, &mount));
        TRY(each(ctx, &mount));
    }
    return ST_OK;
}

enum status mount_key(struct arena *arena, const char *ns, const struct mount *mount,
                      const char *path, struct bytes *ret_key)
{
    return auth_key(arena, ns, "data", bytes_str(mount->uuid), path, ret_key);
}
