/* Aliases of external groups: the name by which the mount of an auth method knows a group. */
#include "api/identity/identity.h"
#include "text/random.h"

struct alias_in {
    const char *id, *name, *canonical_id, *mount_accessor;
};
#define ALIAS_FIELDS                                                      \
    FIELD(struct alias_in, name, STRING, .preset = "",                    \
          .help = "Name that the auth method gives the group."),          \
        FIELD(struct alias_in, canonical_id, STRING, .preset = "",        \
              .help = "Id of the external group; default: a new group."), \
        FIELD(struct alias_in, mount_accessor, STRING, .preset = "",      \
              .help = "Accessor of the mount of the auth method.")
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

static enum status group_alias_check_fields(struct req *req, const struct identity_alias *alias)
{
    struct identity_mounts mounts;
    if (alias->name[0] == '\0')
        return req_fail(req, ST_INVALID, "missing alias name");
    TRY(identity_check_name(req, alias->name));
    if (alias->accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "missing mount_accessor");
    TRY(identity_mounts_load(req, &mounts));
    const char *path = identity_mount_path(&mounts, alias->accessor);
    if (strncmp(path, "auth/", strlen("auth/")) != 0)
        return req_fail(req, ST_INVALID, "invalid mount accessor \"%.100s\"", alias->accessor);
    return ST_OK;
}

/* A new external group for an alias that names none. */
static enum status make_group(struct req *req, struct identity_group *group)
{
    char uuid[TEXT_UUID_LEN + 1];
    text_uuid(req->env, uuid);
    *group = (struct identity_group){.id = arena_str(req->arena, bytes_of(uuid, TEXT_UUID_LEN)),
                                     .name = arena_format(req->arena, "group-%s", uuid),
                                     .metadata = {.given = true},
                                     .alias = "",
                                     .external = true,
                                     .created_ms = MAX(req->now_ms, INT64_C(0)),
                                     .updated_ms = MAX(req->now_ms, INT64_C(0))};
    if (group->id == NULL || group->name == NULL)
        return ST_NOMEM;
    return identity_put_id(req->txn, req->ns, "group-name", group->name, NULL, group->id);
}

static enum status find_group(struct req *req, const char *id, struct identity_group *ret_group)
{
    if (id[0] == '\0')
        return make_group(req, ret_group);
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, ret_group);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid group ID given in 'canonical_id'");
    TRY(st);
    if (!ret_group->external)
        return req_fail(req, ST_INVALID, "alias can't be set on an internal group");
    return ST_OK;
}

static enum status save_group_alias(struct req *req, struct identity_group *group,
                                    const struct identity_alias *alias)
{
    if (group->alias[0] != '\0' && strcmp(group->alias, alias->id) != 0)
        return req_fail(req, ST_INVALID, "the group has an alias already: %.64s", group->alias);
    group->alias = alias->id;
    TRY(identity_record_save(req->txn, req->ns, IDENTITY_GROUP, group));
    TRY(identity_put_id(req->txn, req->ns, "group-alias-of", alias->accessor, alias->name,
                        alias->id));
    TRY(identity_record_save(req->txn, req->ns, IDENTITY_GROUP_ALIAS, alias));
    const struct written_out out = {alias->id, alias->owner};
    return req_reply(req, &out);
}

static enum status group_alias_create(struct req *req, const struct alias_in *in)
{
    char uuid[TEXT_UUID_LEN + 1];
    struct identity_group group;
    text_uuid(req->env, uuid);
    struct identity_alias alias = {.id = arena_str(req->arena, bytes_of(uuid, TEXT_UUID_LEN)),
                                   .accessor = in->mount_accessor,
                                   .name = in->name,
                                   .created_ms = MAX(req->now_ms, INT64_C(0)),
                                   .updated_ms = MAX(req->now_ms, INT64_C(0))};
    if (alias.id == NULL)
        return ST_NOMEM;
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    TRY(find_group(req, in->canonical_id, &group));
    alias.owner = group.id;
    return save_group_alias(req, &group, &alias);
}

/* Take the alias from the group that had it. */
static enum status take_from(struct req *req, const struct identity_alias *alias)
{
    struct identity_group group;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP, alias->owner, &group);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    group.alias = "";
    return identity_record_save(req->txn, req->ns, IDENTITY_GROUP, &group);
}

static enum status group_alias_update(struct req *req, const struct alias_in *in, const char *id)
{
    struct identity_alias alias;
    struct identity_group group;
    const char *other;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, id, &alias);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid group alias ID");
    TRY(st);
    const struct identity_alias before = alias;
    if (in->name[0] != '\0')
        alias.name = in->name;
    if (in->mount_accessor[0] != '\0')
        alias.accessor = in->mount_accessor;
    TRY(group_alias_check_fields(req, &alias));
    st = identity_find_id(req->txn, req->ns, "group-alias-of", alias.accessor, alias.name, &other);
    if (st == ST_OK && strcmp(other, alias.id) != 0)
        return req_fail(req, ST_INVALID,
                        "group alias with combination of mount accessor and name already exists");
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    TRY(identity_unmark(req->txn, req->ns, "group-alias-of", before.accessor, before.name));
    if (in->canonical_id[0] != '\0' && strcmp(in->canonical_id, alias.owner) != 0) {
        TRY(take_from(req, &alias));
        alias.owner = in->canonical_id;
    }
    TRY(find_group(req, alias.owner, &group));
    alias.owner = group.id;
    alias.updated_ms = MAX(req->now_ms, alias.created_ms);
    return save_group_alias(req, &group, &alias);
}

static enum status group_alias_write(struct req *req)
{
    const struct alias_in *in = req_body(req);
    const struct identity_alias wanted = {.name = in->name, .accessor = in->mount_accessor};
    const char *id;
    if (in->id[0] != '\0')
        return group_alias_update(req, in, in->id);
    TRY(group_alias_check_fields(req, &wanted));
    enum status st =
        identity_find_id(req->txn, req->ns, "group-alias-of", in->mount_accessor, in->name, &id);
    if (st == ST_NOT_FOUND)
        return group_alias_create(req, in);
    TRY(st);
    return group_alias_update(req, in, id);
}

static enum status group_alias_write_id(struct req *req)
{
    return group_alias_update(req, req_body(req), req_param(req, "id"));
}

static enum status group_alias_read(struct req *req)
{
    struct identity_alias alias;
    struct identity_alias_out out;
    struct identity_mounts mounts;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, req_param(req, "id"),
                             &alias));
    TRY(identity_mounts_load(req, &mounts));
    identity_show_alias(&mounts, &alias, &out);
    return req_reply(req, &out);
}

static enum status group_alias_delete(struct req *req)
{
    struct identity_alias alias;
    struct bytes key;
    enum status st =
        identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, req_param(req, "id"), &alias);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(take_from(req, &alias));
    TRY(identity_unmark(req->txn, req->ns, "group-alias-of", alias.accessor, alias.name));
    TRY(identity_key(req->arena, req->ns, IDENTITY_GROUP_ALIAS, alias.id, &key));
    return state_delete(req->txn, key);
}

static enum status group_alias_put_info(struct req *req, const char *id,
                                        const struct identity_mounts *mounts, struct text_writer *w,
                                        const char **ret_name)
{
    struct identity_alias alias;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, id, &alias));
    text_open_object(w);
    text_member_str(w, "name", alias.name);
    text_member_str(w, "canonical_id", alias.owner);
    text_member_str(w, "mount_accessor", alias.accessor);
    text_member_str(w, "mount_path", identity_mount_path(mounts, alias.accessor));
    text_member_str(w, "mount_type", identity_mount_type(mounts, alias.accessor));
    text_close(w);
    *ret_name = alias.name;
    return ST_OK;
}

static enum status group_alias_list(struct req *req)
{
    return identity_list_ids(req, "group-alias", group_alias_put_info);
}

static const struct route group_alias_routes[] = {
    {.method = METHOD_POST,
     .path = "group-alias",
     .handler = group_alias_write,
     .body = &any_schema,
     .reply = &written_schema,
     .help = "Create the alias of an external group, or change it. A group has one alias."},
    {.method = METHOD_LIST,
     .path = "group-alias/id",
     .handler = group_alias_list,
     .reply = &identity_list_schema,
     .help = "The ids of all aliases of groups."},
    {.method = METHOD_GET,
     .path = "group-alias/id/:id",
     .handler = group_alias_read,
     .reply = &identity_alias_schema,
     .help = "Read the alias of a group."},
    {.method = METHOD_POST,
     .path = "group-alias/id/:id",
     .handler = group_alias_write_id,
     .body = &by_id_schema,
     .reply = &written_schema,
     .help = "Change the alias of a group."},
    {.method = METHOD_DELETE,
     .path = "group-alias/id/:id",
     .handler = group_alias_delete,
     .help = "Delete the alias of a group. Its members stay until their next login."},
};
const struct route_table identity_group_alias_table = {group_alias_routes,
                                                       ARRAY_LEN(group_alias_routes)};
