/* Entities. */
#include "api/identity/identity.h"

struct entity_in {
    const char *id, *name;
    struct field_strings policies;
    struct field_map metadata;
    bool disabled, has_disabled;
};
#define ENTITY_ID                                     \
    FIELD(struct entity_in, id, STRING, .preset = "", \
          .help = "The entity to change, in place of a name.")
#define ENTITY_NAME                                     \
    FIELD(struct entity_in, name, STRING, .preset = "", \
          .help = "Name of the entity; default: entity- and its id. Case does not count.")
#define ENTITY_FIELDS                                                                             \
    FIELD(struct entity_in, metadata, MAP, .help = "Replaces all metadata: 64 entries at most."), \
        FIELD(struct entity_in, policies, STRINGS,                                                \
              .help = "Policies of every token of the entity."),                                  \
        FIELD(struct entity_in, disabled, BOOL, .has = offsetof(struct entity_in, has_disabled),  \
              .help = "Tokens of a disabled entity cannot be used, and are not revoked.")
static const struct field any_fields[] = {ENTITY_ID, ENTITY_NAME, ENTITY_FIELDS};
static const struct schema any_schema = SCHEMA(struct entity_in, any_fields);
static const struct field by_id_fields[] = {ENTITY_NAME, ENTITY_FIELDS};
static const struct schema by_id_schema = SCHEMA(struct entity_in, by_id_fields);
static const struct field by_name_fields[] = {ENTITY_FIELDS};
static const struct schema by_name_schema = SCHEMA(struct entity_in, by_name_fields);

struct written_out {
    const char *id, *name;
    struct field_strings aliases;
};
static const struct field written_fields[] = {
    FIELD(struct written_out, id, STRING),
    FIELD(struct written_out, name, STRING),
    FIELD(struct written_out, aliases, STRINGS, .null = true),
};
static const struct schema written_schema = SCHEMA(struct written_out, written_fields);

/* Writing */

/* Give the entity another name, if the request names one. */
static enum status rename_entity(struct req *req, const char *name, struct identity_entity *entity)
{
    const char *other, *folded = identity_fold(req->arena, name),
                       *before = identity_fold(req->arena, entity->name);
    if (folded == NULL || before == NULL)
        return ST_NOMEM;
    if (strcmp(folded, before) != 0) {
        enum status st = identity_find_id(req->txn, req->ns, "entity-name", folded, NULL, &other);
        if (st == ST_OK)
            return req_fail(req, ST_INVALID, "entity name is already in use");
        if (st != ST_NOT_FOUND)
            return st;
        TRY(identity_unmark(req->txn, req->ns, "entity-name", before, NULL));
        TRY(identity_put_id(req->txn, req->ns, "entity-name", folded, NULL, entity->id));
    }
    entity->name = name;
    return ST_OK;
}

static enum status entity_apply(struct req *req, const struct entity_in *in,
                                struct identity_entity *entity)
{
    TRY(identity_check_map(req, "metadata", &in->metadata));
    if (in->metadata.given)
        entity->metadata = in->metadata;
    if (in->policies.given)
        TRY(identity_clean_policies(req, &in->policies, &entity->policies));
    if (in->has_disabled)
        entity->disabled = in->disabled;
    return ST_OK;
}

static enum status reply_written(struct req *req, const struct identity_entity *entity)
{
    struct written_out out = {.id = entity->id, .name = entity->name};
    TRY(identity_marks(req->txn, req->ns, "has-alias", entity->id, IDENTITY_ALIASES_MAX,
                       &out.aliases));
    out.aliases.given = out.aliases.n != 0;
    return req_reply(req, &out);
}

static enum status entity_create(struct req *req, const struct entity_in *in, const char *name)
{
    struct identity_entity entity = {.name = name, .metadata = {.given = true}};
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    TRY(entity_apply(req, in, &entity));
    enum status st = identity_entity_create(req->txn, req->env, req->ns, req->now_ms, &entity);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "entity name is already in use");
    TRY(st);
    return reply_written(req, &entity);
}

static enum status update(struct req *req, const struct entity_in *in, const char *name,
                          struct identity_entity *entity)
{
    if (name[0] != '\0')
        TRY(rename_entity(req, name, entity));
    TRY(entity_apply(req, in, entity));
    entity->updated_ms = MAX(req->now_ms, entity->created_ms);
    TRY(identity_record_save(req->txn, req->ns, IDENTITY_ENTITY, entity));
    return reply_written(req, entity);
}

static enum status entity_write_at_id(struct req *req, const struct entity_in *in, const char *id,
                                      const char *name)
{
    struct identity_entity entity;
    if (name[0] != '\0')
        TRY(identity_check_name(req, name));
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &entity);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "entity not found from id");
    TRY(st);
    return update(req, in, name, &entity);
}

static enum status entity_write_named(struct req *req, const struct entity_in *in, const char *name)
{
    struct identity_entity entity;
    const char *id, *folded = identity_fold(req->arena, name);
    if (folded == NULL)
        return ST_NOMEM;
    if (name[0] == '\0')
        return entity_create(req, in, name);
    TRY(identity_check_name(req, name));
    enum status st = identity_find_id(req->txn, req->ns, "entity-name", folded, NULL, &id);
    if (st == ST_NOT_FOUND)
        return entity_create(req, in, name);
    TRY(st);
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &entity));
    return update(req, in, "", &entity);
}

static enum status entity_write(struct req *req)
{
    const struct entity_in *in = req_body(req);
    return in->id[0] != '\0' ? entity_write_at_id(req, in, in->id, in->name)
                             : entity_write_named(req, in, in->name);
}

static enum status entity_write_id(struct req *req)
{
    const struct entity_in *in = req_body(req);
    return entity_write_at_id(req, in, req_param(req, "id"), in->name);
}

static enum status entity_write_name(struct req *req)
{
    return entity_write_named(req, req_body(req), req_param(req, "name"));
}

/* Reading */

static const struct field alias_fields[] = {
    FIELD(struct identity_alias_out, id, STRING),
    FIELD(struct identity_alias_out, canonical_id, STRING),
    FIELD(struct identity_alias_out, name, STRING),
    FIELD(struct identity_alias_out, mount_accessor, STRING),
    FIELD(struct identity_alias_out, mount_path, STRING),
    FIELD(struct identity_alias_out, mount_type, STRING),
    FIELD(struct identity_alias_out, metadata, MAP, .null = true),
    FIELD(struct identity_alias_out, custom_metadata, MAP, .null = true),
    FIELD(struct identity_alias_out, local, BOOL),
    FIELD_NAMED("merged_from_canonical_ids", struct identity_alias_out, merged_from, STRINGS,
                .null = true),
    FIELD_NAMED("creation_time", struct identity_alias_out, created_ms, TIME),
    FIELD_NAMED("last_update_time", struct identity_alias_out, updated_ms, TIME),
};
const struct schema identity_alias_schema = SCHEMA(struct identity_alias_out, alias_fields);

void identity_show_alias(const struct identity_mounts *mounts, const struct identity_alias *alias,
                         struct identity_alias_out *ret_out)
{
    *ret_out = (struct identity_alias_out){
        .id = alias->id,
        .canonical_id = alias->owner,
        .name = alias->name,
        .mount_accessor = alias->accessor,
        .mount_path = identity_mount_path(mounts, alias->accessor),
        .mount_type = identity_mount_type(mounts, alias->accessor),
        .metadata = alias->metadata,
        .custom_metadata = alias->custom_metadata,
        .merged_from = alias->merged_from,
        .created_ms = alias->created_ms,
        .updated_ms = alias->updated_ms,
    };
    ret_out->merged_from.given = alias->merged_from.n != 0;
}

struct entity_out {
    const char *id, *name, *namespace_id, *bucket_key_hash;
    struct field_strings policies, merged, direct, inherited, groups;
    struct field_map metadata;
    struct field_list aliases;
    bool disabled;
    int64_t created_ms, updated_ms;
};
static const struct field entity_fields[] = {
    FIELD(struct entity_out, id, STRING),
    FIELD(struct entity_out, name, STRING),
    FIELD(struct entity_out, namespace_id, STRING),
    FIELD(struct entity_out, aliases, LIST, .sub = &identity_alias_schema),
    FIELD(struct entity_out, bucket_key_hash, STRING),
    FIELD_NAMED("creation_time", struct entity_out, created_ms, TIME),
    FIELD_NAMED("last_update_time", struct entity_out, updated_ms, TIME),
    FIELD(struct entity_out, disabled, BOOL),
    FIELD(struct entity_out, metadata, MAP, .null = true),
    FIELD(struct entity_out, policies, STRINGS),
    FIELD_NAMED("merged_entity_ids", struct entity_out, merged, STRINGS, .null = true),
    FIELD_NAMED("direct_group_ids", struct entity_out, direct, STRINGS),
    FIELD_NAMED("inherited_group_ids", struct entity_out, inherited, STRINGS),
    FIELD_NAMED("group_ids", struct entity_out, groups, STRINGS),
};
const struct schema identity_entity_schema = SCHEMA(struct entity_out, entity_fields);

static enum status list_groups(struct req *req, const struct identity *identity,
                               struct entity_out *out)
{
    const char **ids = arena_alloc(req->arena, (identity->n_groups + 1) * sizeof *ids);
    if (ids == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < identity->n_groups; i++)
        ids[i] = identity->groups[i].id;
    out->groups = (struct field_strings){ids, identity->n_groups, true};
    out->direct = (struct field_strings){ids, identity->n_direct, true};
    out->inherited = (struct field_strings){ids + identity->n_direct,
                                            identity->n_groups - identity->n_direct, true};
    return ST_OK;
}

/* Upstream stores entities in buckets: the key of a bucket is shown as a hash. */
static const char *bucket_of(struct req *req, const char *id)
{
    return arena_format(req->arena, "%016llx",
                        (unsigned long long)bytes_hash_from(0, bytes_str(id)));
}

enum status identity_reply_entity(struct req *req, const char *id)
{
    struct identity identity;
    struct identity_mounts mounts;
    enum status st = identity_read(req->txn, req->ns, id, &identity);
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_INVALID, "the entity is a member of more than %d groups",
                        IDENTITY_REACHED_MAX);
    TRY(st);
    TRY(identity_mounts_load(req, &mounts));
    struct identity_alias_out *aliases =
        arena_alloc(req->arena, (identity.n_aliases + 1) * sizeof *aliases);
    if (aliases == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < identity.n_aliases; i++)
        identity_show_alias(&mounts, &identity.aliases[i], &aliases[i]);
    const struct identity_entity *e = &identity.entity;
    struct entity_out out = {
        .id = e->id,
        .name = e->name,
        .namespace_id = req->ns,
        .bucket_key_hash = bucket_of(req, e->id),
        .policies = e->policies,
        .merged = e->merged,
        .metadata = e->metadata,
        .aliases = {aliases, identity.n_aliases},
        .disabled = e->disabled,
        .created_ms = e->created_ms,
        .updated_ms = e->updated_ms,
    };
    if (out.bucket_key_hash == NULL)
        return ST_NOMEM;
    out.merged.given = e->merged.n != 0;
    TRY(list_groups(req, &identity, &out));
    return req_reply(req, &out);
}

static enum status entity_read_id(struct req *req)
{
    return identity_reply_entity(req, req_param(req, "id"));
}

enum status identity_id_named(struct req *req, const char *kind, const char **ret_id)
{
    const char *folded = identity_fold(req->arena, req_param(req, "name"));
    if (folded == NULL)
        return ST_NOMEM;
    return identity_find_id(req->txn, req->ns, kind, folded, NULL, ret_id);
}

static enum status entity_read_name(struct req *req)
{
    const char *id;
    TRY(identity_id_named(req, "entity-name", &id));
    return identity_reply_entity(req, id);
}

static enum status entity_put_info(struct req *req, const char *id,
                                   const struct identity_mounts *mounts, struct text_writer *w,
                                   const char **ret_name)
{
    struct identity_entity entity;
    struct field_strings ids;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &entity));
    TRY(identity_marks(req->txn, req->ns, "has-alias", id, IDENTITY_ALIASES_MAX, &ids));
    text_open_object(w);
    text_member_str(w, "name", entity.name);
    text_key(w, "aliases");
    text_open_list(w);
    for (size_t i = 0; i < ids.n; i++) {
        struct identity_alias alias;
        TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, ids.items[i], &alias));
        text_open_object(w);
        text_member_str(w, "id", alias.id);
        text_member_str(w, "name", alias.name);
        text_member_str(w, "mount_accessor", alias.accessor);
        text_member_str(w, "mount_path", identity_mount_path(mounts, alias.accessor));
        text_member_str(w, "mount_type", identity_mount_type(mounts, alias.accessor));
        text_close(w);
    }
    text_close(w);
    text_close(w);
    *ret_name = entity.name;
    return ST_OK;
}

static enum status entity_list_ids(struct req *req)
{
    return identity_list_ids(req, "entity", entity_put_info);
}

static enum status entity_list_names(struct req *req)
{
    return identity_list_names(req, "entity-name", entity_put_info);
}

/* Deleting */

enum status identity_drop_alias(struct req *req, const struct identity_alias *alias)
{
    struct bytes key;
    TRY(identity_key(req->arena, req->ns, IDENTITY_ALIAS, alias->id, &key));
    TRY(state_delete(req->txn, key));
    TRY(identity_unmark(req->txn, req->ns, "alias-of", alias->accessor, alias->name));
    return identity_unmark(req->txn, req->ns, "has-alias", alias->owner, alias->id);
}

enum status identity_drop_entity(struct req *req, const struct identity_entity *entity)
{
    struct field_strings ids;
    struct bytes key;
    const char *folded = identity_fold(req->arena, entity->name);
    if (folded == NULL)
        return ST_NOMEM;
    TRY(identity_marks(req->txn, req->ns, "has-alias", entity->id, IDENTITY_ALIASES_MAX, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        struct identity_alias alias;
        TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, ids.items[i], &alias));
        TRY(identity_drop_alias(req, &alias));
    }
    TRY(identity_marks(req->txn, req->ns, "member", entity->id, IDENTITY_REACHED_MAX, &ids));
    for (size_t i = 0; i < ids.n; i++)
        TRY(identity_join(req->txn, req->ns, entity->id, ids.items[i], false));
    for (size_t i = 0; i < entity->merged.n; i++)
        TRY(identity_unmark(req->txn, req->ns, "merged", entity->merged.items[i], NULL));
    TRY(identity_unmark(req->txn, req->ns, "entity-name", folded, NULL));
    TRY(identity_key(req->arena, req->ns, IDENTITY_ENTITY, entity->id, &key));
    return state_delete(req->txn, key);
}

static enum status delete_id(struct req *req, const char *id)
{
    struct identity_entity entity;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &entity);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return identity_drop_entity(req, &entity);
}

static enum status entity_delete_id(struct req *req)
{
    return delete_id(req, req_param(req, "id"));
}

static enum status entity_delete_name(struct req *req)
{
    const char *id;
    enum status st = identity_id_named(req, "entity-name", &id);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return delete_id(req, id);
}

enum { BATCH_MAX = 1000 };
struct batch_in {
    struct field_strings entity_ids;
};
static const struct field batch_fields[] = {
    FIELD(struct batch_in, entity_ids, STRINGS,
          .help = "Ids of the entities, 1000 at most; unknown ones are skipped."),
};
static const struct schema batch_schema = SCHEMA(struct batch_in, batch_fields);

static enum status entity_delete_batch(struct req *req)
{
    const struct batch_in *in = req_body(req);
    if (in->entity_ids.n == 0)
        return req_fail(req, ST_INVALID, "missing entity_ids: a list of ids is expected");
    if (in->entity_ids.n > BATCH_MAX)
        return req_fail(req, ST_INVALID, "entity_ids: %zu were given, %d at most", in->entity_ids.n,
                        BATCH_MAX);
    for (size_t i = 0; i < in->entity_ids.n; i++)
        TRY(delete_id(req, in->entity_ids.items[i]));
    return ST_OK;
}

static const struct route entity_routes[] = {
    {.method = METHOD_POST,
     .path = "entity",
     .handler = entity_write,
     .body = &any_schema,
     .reply = &written_schema,
     .help = "Create an entity, or change the one with the id or name."},
    {.method = METHOD_LIST,
     .path = "entity/id",
     .handler = entity_list_ids,
     .reply = &identity_list_schema,
     .help = "The ids of all entities."},
    {.method = METHOD_GET,
     .path = "entity/id/:id",
     .handler = entity_read_id,
     .reply = &identity_entity_schema,
     .help = "Read an entity. The id of an entity that was merged leads to its target."},
    {.method = METHOD_POST,
     .path = "entity/id/:id",
     .handler = entity_write_id,
     .body = &by_id_schema,
     .reply = &written_schema,
     .help = "Change an entity. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "entity/id/:id",
     .handler = entity_delete_id,
     .help = "Delete an entity, its aliases and memberships. Its tokens can no longer be used."},
    {.method = METHOD_LIST,
     .path = "entity/name",
     .handler = entity_list_names,
     .reply = &identity_list_schema,
     .help = "The names of all entities."},
    {.method = METHOD_GET,
     .path = "entity/name/+name",
     .handler = entity_read_name,
     .reply = &identity_entity_schema,
     .help = "Read an entity by its name."},
    {.method = METHOD_POST,
     .path = "entity/name/+name",
     .handler = entity_write_name,
     .body = &by_name_schema,
     .reply = &written_schema,
     .help = "Create or change an entity by its name."},
    {.method = METHOD_DELETE,
     .path = "entity/name/+name",
     .handler = entity_delete_name,
     .help = "Delete an entity by its name, with its aliases and memberships."},
    {.method = METHOD_POST,
     .path = "entity/batch-delete",
     .handler = entity_delete_batch,
     .body = &batch_schema,
     .help = "Delete entities with their aliases and memberships, all or none."},
};
const struct route_table identity_entity_table = {entity_routes, ARRAY_LEN(entity_routes)};
