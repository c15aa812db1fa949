/* Aliases of entities: the name by which the mount of an auth method knows a client. */
#include "api/identity/identity.h"

struct alias_in {
    const char *id, *name, *canonical_id, *entity_id, *mount_accessor;
    struct field_map custom_metadata;
};
#define ALIAS_FIELDS                                                             \
    FIELD(struct alias_in, name, STRING, .preset = "",                           \
          .help = "Name that the auth method gives its client: user, role id."), \
        FIELD(struct alias_in, canonical_id, STRING, .preset = "",               \
              .help = "Id of the entity; default: a new entity."),               \
        FIELD(struct alias_in, entity_id, STRING, .preset = "",                  \
              .help = "Old name of canonical_id."),                              \
        FIELD(struct alias_in, mount_accessor, STRING, .preset = "",             \
              .help = "Accessor of the mount of the auth method."),              \
        FIELD(struct alias_in, custom_metadata, MAP,                             \
              .help = "Replaces the metadata that operators set: 64 entries at most.")
static const struct field any_fields[] = {
    FIELD(struct alias_in, id, STRING, .preset = "", .help = "The alias to change."), ALIAS_FIELDS};
static const struct schema any_schema = SCHEMA(struct alias_in, any_fields);
static const struct field by_id_fields[] = {ALIAS_FIELDS};
static const struct schema by_id_schema = SCHEMA(struct alias_in, by_id_fields);

struct written_out {
    const char *id, *canonical_id;
};
static const struct field written_fields[] = {
    FIELD(struct written_out, id, STRING),
    FIELD(struct written_out, canonical_id, STRING),
};
static const struct schema written_schema = SCHEMA(struct written_out, written_fields);

static enum status check_accessor(struct req *req, const char *accessor)
{
    struct identity_mounts mounts;
    TRY(identity_mounts_load(req, &mounts));
    const char *path = identity_mount_path(&mounts, accessor);
    if (strncmp(path, "auth/", strlen("auth/")) != 0)
        return req_fail(req, ST_INVALID, "invalid mount accessor \"%.100s\"", accessor);
    return ST_OK;
}

/* Refuse a second alias of the entity on the mount of `alias`. */
static enum status check_alone(struct req *req, const char *entity,
                               const struct identity_alias *alias)
{
    struct field_strings ids;
    TRY(identity_marks(req->txn, req->ns, "has-alias", entity, IDENTITY_ALIASES_MAX, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        struct identity_alias other;
        TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, ids.items[i], &other));
        if (strcmp(other.accessor, alias->accessor) == 0 &&
            (alias->id == NULL || strcmp(other.id, alias->id) != 0))
            return req_fail(req, ST_INVALID,
                            "Alias already exists for requested entity and mount accessor");
    }
    if (ids.n >= IDENTITY_ALIASES_MAX)
        return req_fail(req, ST_INVALID, "the entity has %d aliases already", IDENTITY_ALIASES_MAX);
    return ST_OK;
}

static enum status check_entity(struct req *req, const char *id, struct identity_entity *ret_entity)
{
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, ret_entity);
    return st == ST_NOT_FOUND ? req_fail(req, ST_INVALID, "invalid canonical ID") : st;
}

static enum status alias_create(struct req *req, const struct alias_in *in)
{
    struct identity_entity entity = {.name = "", .metadata = {.given = true}};
    struct identity_alias alias = {.accessor = in->mount_accessor,
                                   .name = in->name,
                                   .metadata = {.given = true},
                                   .custom_metadata = in->custom_metadata};
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    if (in->canonical_id[0] != '\0')
        TRY(check_entity(req, in->canonical_id, &entity));
    else
        TRY(identity_entity_create(req->txn, req->env, req->ns, req->now_ms, &entity));
    TRY(check_alone(req, entity.id, &alias));
    alias.owner = entity.id;
    TRY(identity_add_alias(req->txn, req->env, req->ns, req->now_ms, &alias));
    const struct written_out out = {alias.id, alias.owner};
    return req_reply(req, &out);
}

/* Give the alias another name or mount. */
static enum status rename_alias(struct req *req, const struct alias_in *in,
                                struct identity_alias *alias)
{
    const char *other, *name = in->name[0] != '\0' ? in->name : alias->name;
    const char *accessor = in->mount_accessor[0] != '\0' ? in->mount_accessor : alias->accessor;
    if (strcmp(name, alias->name) == 0 && strcmp(accessor, alias->accessor) == 0)
        return ST_OK;
    TRY(identity_check_name(req, name));
    TRY(check_accessor(req, accessor));
    enum status st = identity_find_id(req->txn, req->ns, "alias-of", accessor, name, &other);
    if (st == ST_OK)
        return req_fail(req, ST_INVALID,
                        "alias with combination of mount accessor and name already exists");
    if (st != ST_NOT_FOUND)
        return st;
    TRY(identity_unmark(req->txn, req->ns, "alias-of", alias->accessor, alias->name));
    TRY(identity_put_id(req->txn, req->ns, "alias-of", accessor, name, alias->id));
    alias->accessor = accessor;
    alias->name = name;
    return ST_OK;
}

/* Change an alias. A request that changes nothing has no data in its reply. */
static enum status alias_update(struct req *req, const struct alias_in *in, const char *id)
{
    struct identity_alias alias;
    struct identity_entity entity;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, id, &alias);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid alias id");
    TRY(st);
    const struct identity_alias before = alias;
    TRY(rename_alias(req, in, &alias));
    if (in->canonical_id[0] != '\0' && strcmp(in->canonical_id, alias.owner) != 0) {
        TRY(check_entity(req, in->canonical_id, &entity));
        alias.owner = entity.id;
        TRY(identity_unmark(req->txn, req->ns, "has-alias", before.owner, before.id));
    }
    bool moved = alias.owner != before.owner || alias.accessor != before.accessor;
    if (moved)
        TRY(check_alone(req, alias.owner, &alias));
    bool same = in->custom_metadata.given == false ||
                identity_same_map(&in->custom_metadata, &alias.custom_metadata);
    if (!same)
        alias.custom_metadata = in->custom_metadata;
    if (same && !moved && alias.name == before.name)
        return ST_OK;
    alias.updated_ms = MAX(req->now_ms, alias.created_ms);
    TRY(identity_change_alias(req->txn, req->ns, &alias));
    const struct written_out out = {alias.id, alias.owner};
    return req_reply(req, &out);
}

static enum status read_in(struct req *req, struct alias_in *ret_in)
{
    *ret_in = *(const struct alias_in *)req_body(req);
    if (ret_in->canonical_id[0] == '\0')
        ret_in->canonical_id = ret_in->entity_id;
    return identity_check_map(req, "custom_metadata", &ret_in->custom_metadata);
}

static enum status alias_write(struct req *req)
{
    struct alias_in in;
    const char *id;
    TRY(read_in(req, &in));
    if (in.id[0] != '\0')
        return alias_update(req, &in, in.id);
    if (in.name[0] == '\0')
        return req_fail(req, ST_INVALID, "missing alias name");
    TRY(identity_check_name(req, in.name));
    if (in.mount_accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "missing mount_accessor");
    TRY(check_accessor(req, in.mount_accessor));
    enum status st =
        identity_find_id(req->txn, req->ns, "alias-of", in.mount_accessor, in.name, &id);
    if (st == ST_NOT_FOUND)
        return alias_create(req, &in);
    TRY(st);
    return alias_update(req, &in, id);
}

static enum status alias_write_id(struct req *req)
{
    struct alias_in in;
    TRY(read_in(req, &in));
    return alias_update(req, &in, req_param(req, "id"));
}

static enum status alias_read(struct req *req)
{
    struct identity_alias alias;
    struct identity_alias_out out;
    struct identity_mounts mounts;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, req_param(req, "id"), &alias));
    TRY(identity_mounts_load(req, &mounts));
    identity_show_alias(&mounts, &alias, &out);
    return req_reply(req, &out);
}

static enum status alias_delete(struct req *req)
{
    struct identity_alias alias;
    enum status st =
        identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, req_param(req, "id"), &alias);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return identity_drop_alias(req, &alias);
}

static enum status alias_put_info(struct req *req, const char *id,
                                  const struct identity_mounts *mounts, struct text_writer *w,
                                  const char **ret_name)
{
    struct identity_alias alias;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, id, &alias));
    text_open_object(w);
    text_member_str(w, "name", alias.name);
    text_member_str(w, "canonical_id", alias.owner);
    text_member_str(w, "mount_accessor", alias.accessor);
    text_member_str(w, "mount_path", identity_mount_path(mounts, alias.accessor));
    text_member_str(w, "mount_type", identity_mount_type(mounts, alias.accessor));
    text_key(w, "custom_metadata");
    text_open_object(w);
    for (size_t i = 0; i < alias.custom_metadata.n; i++)
        text_member_str(w, alias.custom_metadata.pairs[2 * i],
                        alias.custom_metadata.pairs[2 * i + 1]);
    text_close(w);
    text_member_bool(w, "local", false);
    text_close(w);
    *ret_name = alias.name;
    return ST_OK;
}

static enum status alias_list(struct req *req)
{
    return identity_list_ids(req, "alias", alias_put_info);
}

static const struct route alias_routes[] = {
    {.method = METHOD_POST,
     .path = "entity-alias",
     .handler = alias_write,
     .body = &any_schema,
     .reply = &written_schema,
     .statuses = "200 204",
     .help =
         "Create an alias of an entity, or change the one with the id, or with name and mount."},
    {.method = METHOD_LIST,
     .path = "entity-alias/id",
     .handler = alias_list,
     .reply = &identity_list_schema,
     .help = "The ids of all aliases of entities."},
    {.method = METHOD_GET,
     .path = "entity-alias/id/:id",
     .handler = alias_read,
     .reply = &identity_alias_schema,
     .help = "Read an alias of an entity."},
    {.method = METHOD_POST,
     .path = "entity-alias/id/:id",
     .handler = alias_write_id,
     .body = &by_id_schema,
     .reply = &written_schema,
     .statuses = "200 204",
     .help = "Change an alias of an entity."},
    {.method = METHOD_DELETE,
     .path = "entity-alias/id/:id",
     .handler = alias_delete,
     .help = "Delete an alias of an entity. The entity stays."},
};
const struct route_table identity_alias_table = {alias_routes, ARRAY_LEN(alias_routes)};
