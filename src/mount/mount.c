/* Mounts: find, create, change, move, remove. */
#include "mount/mount.h"
#include "state/ns_key.h"
#include "text/random.h"
#include "text/utf8.h"

#define MOUNT_KIND "mount"
#define DATA_KIND "data"

enum { ACCESSOR_DIGITS = 8 };

static const struct field mount_fields[] = {
    FIELD(struct mount, type, STRING, .required = true),
    FIELD(struct mount, uuid, STRING, .required = true),
    FIELD(struct mount, accessor, STRING, .required = true),
    FIELD(struct mount, description, STRING, .preset = ""),
    FIELD(struct mount, options, MAP),
    FIELD_NAMED("default_lease_ttl", struct mount, default_lease_ttl_s, INT),
    FIELD_NAMED("max_lease_ttl", struct mount, max_lease_ttl_s, INT),
    FIELD(struct mount, local, BOOL, .omit = true),
    FIELD(struct mount, seal_wrap, BOOL, .omit = true),
    FIELD(struct mount, external_entropy_access, BOOL, .omit = true),
    FIELD(struct mount, force_no_cache, BOOL, .omit = true),
    FIELD(struct mount, listing_visibility, STRING, .omit = true),
    FIELD(struct mount, token_type, STRING, .omit = true),
    FIELD(struct mount, audit_non_hmac_request_keys, STRINGS, .omit = true),
    FIELD(struct mount, audit_non_hmac_response_keys, STRINGS, .omit = true),
    FIELD(struct mount, passthrough_request_headers, STRINGS, .omit = true),
    FIELD(struct mount, allowed_response_headers, STRINGS, .omit = true),
    FIELD(struct mount, upgraded_ms, INT, .omit = true),
};
const struct schema mount_schema = SCHEMA(struct mount, mount_fields);

const char *mount_option(const struct mount *mount, const char *name)
{
    for (size_t i = 0; i < mount->options.n; i++)
        if (strcmp(mount->options.pairs[2 * i], name) == 0)
            return mount->options.pairs[2 * i + 1];
    return NULL;
}

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

enum status mount_locate(struct state_txn *txn, const char *ns, struct bytes path,
                         struct mount_place *ret_place)
{
    struct mount_place at;
    size_t end = 0;
    for (unsigned i = 0; i < MOUNT_SEGMENTS_MAX && end < path.len; i++) {
        const uint8_t *slash = memchr(path.data + end, '/', path.len - end);
        end = slash != NULL ? (size_t)(slash - path.data) + 1 : path.len;
        size_t len = slash != NULL ? end - 1 : end; /* the path "kv" means the mount "kv/" */
        TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, bytes_of(path.data, len), "", &at.key));
        enum status st = state_stamp(txn, at.key, &at.stamp);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        ASSERT(at.key.len > len + 1);
        at.path = bytes_from(at.key, at.key.len - len - 1);
        *ret_place = at;
        return ST_OK;
    }
    return ST_NOT_FOUND;
}

enum status mount_place_of(struct state_txn *txn, const char *ns, const char *path,
                           struct mount_place *ret_place)
{
    struct mount_place at = {.path = bytes_str(path)};
    ASSERT(at.path.len != 0 && path[at.path.len - 1] == '/');
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, at.path, NULL, &at.key));
    TRY(state_stamp(txn, at.key, &at.stamp));
    *ret_place = at;
    return ST_OK;
}

enum status mount_decode(struct arena *arena, const struct mount_place *place, struct bytes stored,
                         struct mount *ret_mount)
{
    return decode(arena, place->path, stored, ret_mount);
}

enum status mount_find(struct state_txn *txn, const char *ns, struct bytes path,
                       struct mount *ret_mount)
{
    struct mount_place at;
    struct state_value stored;
    TRY(mount_locate(txn, ns, path, &at));
    TRY(state_get(txn, at.key, &stored));
    return mount_decode(txn->arena, &at, stored.value, ret_mount);
}

enum status mount_get(struct state_txn *txn, const char *ns, const char *path,
                      struct mount *ret_mount)
{
    struct state_value stored;
    struct bytes key;
    ASSERT(path[0] != '\0' && path[strlen(path) - 1] == '/');
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, bytes_str(path), NULL, &key));
    TRY(state_get(txn, key, &stored));
    return decode(txn->arena, bytes_str(path), stored.value, ret_mount);
}

enum status mount_path(struct arena *arena, const char *text, const char **ret_path,
                       struct reason *reason)
{
    unsigned segments = 0;
    size_t len;
    text += strspn(text, "/");
    for (const char *p = text; *p != '\0'; p += len + (p[len] == '/')) {
        len = strcspn(p, "/");
        bool dots = (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.');
        if (len == 0 || dots || p[0] == ' ' || p[len - 1] == ' ' ||
            ++segments > MOUNT_SEGMENTS_MAX) {
            reason_set(
                reason,
                "a mount path has 1 to %d segments, none empty, '.', '..' or with space around",
                MOUNT_SEGMENTS_MAX);
            return ST_INVALID;
        }
    }
    len = strlen(text);
    if (len == 0 || len > MOUNT_PATH_MAX || !text_printable(bytes_str(text))) {
        reason_set(reason, "a mount path has 1 to %d printable bytes", MOUNT_PATH_MAX);
        return ST_INVALID;
    }
    ASSERT(segments > 0 && segments <= MOUNT_SEGMENTS_MAX);
    *ret_path = arena_format(arena, text[len - 1] == '/' ? "%s" : "%s/", text);
    return *ret_path != NULL ? ST_OK : ST_NOMEM;
}

enum status mount_conflict(struct state_txn *txn, const char *ns, const char *path,
                           const char **ret_path)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix;
    struct mount above;

    ASSERT(path[0] != '\0' && path[strlen(path) - 1] == '/');
    if (iter == NULL)
        return ST_NOMEM;
    enum status st = mount_find(txn, ns, bytes_str(path), &above);
    if (st == ST_OK)
        *ret_path = above.path;
    if (st != ST_NOT_FOUND)
        return st;
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, bytes_str(path), NULL, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    if (!state_iter_next(iter))
        return ST_NOT_FOUND;
    ASSERT(prefix.len > strlen(path));
    *ret_path = arena_str(txn->arena, bytes_from(iter->key, prefix.len - strlen(path)));
    return *ret_path != NULL ? ST_OK : ST_NOMEM;
}

static enum status save(struct state_txn *txn, const char *ns, const struct mount *mount,
                        const char *path)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record};
    struct bytes key;
    ASSERT(path[0] != '\0' && path[strlen(path) - 1] == '/');
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, bytes_str(path), NULL, &key));
    schema_encode(&mount_schema, mount, &w);
    TRY(buf_status(&record));
    return record.len <= MOUNT_RECORD_MAX ? state_put(txn, key, buf_bytes(&record)) : ST_TOO_BIG;
}

enum status mount_create(struct state_txn *txn, struct env *env, const char *ns,
                         struct mount *mount)
{
    char uuid[TEXT_UUID_LEN + 1], digits[TEXT_UUID_LEN + 1];
    const char *other;

    enum status st = mount_conflict(txn, ns, mount->path, &other);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    text_uuid(env, uuid);
    text_uuid(env, digits);
    digits[ACCESSOR_DIGITS] = '\0';
    mount->uuid = arena_str(txn->arena, bytes_str(uuid));
    mount->accessor = arena_format(txn->arena, "%s_%s", mount->type, digits);
    if (mount->uuid == NULL || mount->accessor == NULL)
        return ST_NOMEM;
    return save(txn, ns, mount, mount->path);
}

enum status mount_update(struct state_txn *txn, const char *ns, const struct mount *mount)
{
    return save(txn, ns, mount, mount->path);
}

static enum status delete_record(struct state_txn *txn, const char *ns, const struct mount *mount)
{
    struct bytes key;
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, bytes_str(mount->path), NULL, &key));
    return state_delete(txn, key);
}

enum status mount_move(struct state_txn *txn, const char *ns, const struct mount *mount,
                       const char *to)
{
    const char *other;
    TRY(delete_record(txn, ns, mount)); /* first: the new path may lie above or below the old one */
    enum status st = mount_conflict(txn, ns, to, &other);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    return save(txn, ns, mount, to);
}

enum status mount_remove(struct state_txn *txn, const char *ns, const struct mount *mount)
{
    struct bytes prefix;
    TRY(delete_record(txn, ns, mount));
    TRY(mount_key(txn->arena, ns, mount, "", &prefix));
    ASSERT(prefix.data[prefix.len - 1] == '/');
    return state_delete_prefix(txn, prefix);
}

enum status mount_each(struct state_txn *txn, const char *ns,
                       enum status (*each)(void *ctx, const struct mount *mount), void *ctx)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix, stored;
    struct mount mount;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, (struct bytes){0}, NULL, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        TRY(state_iter_value(iter, &stored));
        TRY(decode(txn->arena, bytes_from(iter->key, prefix.len), stored, &mount));
        TRY(each(ctx, &mount));
    }
    return ST_OK;
}

enum status mount_newest(struct state_txn *txn, const char *ns, uint64_t *ret_version)
{
    struct bytes prefix;
    TRY(state_ns_key(txn->arena, ns, MOUNT_KIND, (struct bytes){0}, NULL, &prefix));
    return state_newest(txn, prefix, ret_version);
}

enum status mount_key(struct arena *arena, const char *ns, const struct mount *mount,
                      const char *path, struct bytes *ret_key)
{
    return state_ns_key(arena, ns, DATA_KIND, bytes_str(mount->uuid), path, ret_key);
}
