/* Groups: policies for entities, and for the members of groups that are members. */
#include "api/identity/identity.h"
#include "state/ns_key.h"
#include "text/random.h"

#include <stdlib.h>

enum { MEMBERS_STEP_MAX = 10000 }; /* memberships that one request changes */

struct group_in {
    const char *id, *name, *type;
    struct field_strings policies, member_entity_ids, member_group_ids;
    struct field_map metadata;
};
#define GROUP_NAME FIELD(struct group_in, name, STRING, .preset = "", .help = "Name of the group.")
#define GROUP_FIELDS                                                                        \
    FIELD(struct group_in, type, STRING, .preset = "",                                      \
          .help = "internal (default) or external: members follow the logins of a mount."), \
        FIELD(struct group_in, metadata, MAP,                                               \
              .help = "Replaces all metadata: 64 entries at most."),                        \
        FIELD(struct group_in, policies, STRINGS, .help = "Policies of every member."),     \
        FIELD(struct group_in, member_entity_ids, STRINGS,                                  \
              .help = "Ids of the entities in the group; replaces all."),                   \
        FIELD(struct group_in, member_group_ids, STRINGS,                                   \
              .help = "Ids of the groups in the group; replaces all.")
static const struct field any_fields[] = {
    FIELD(struct group_in, id, STRING, .preset = "", .help = "The group to change."), GROUP_NAME,
    GROUP_FIELDS};
static const struct schema any_schema = SCHEMA(struct group_in, any_fields);
static const struct field by_id_fields[] = {GROUP_NAME, GROUP_FIELDS};
static const struct schema by_id_schema = SCHEMA(struct group_in, by_id_fields);
static const struct field by_name_fields[] = {GROUP_FIELDS};
static const struct schema by_name_schema = SCHEMA(struct group_in, by_name_fields);

struct written_out {
    const char *id, *name;
};
static const struct field written_fields[] = {
    FIELD(struct written_out, id, STRING),
    FIELD(struct written_out, name, STRING),
};
static const struct schema written_schema = SCHEMA(struct written_out, written_fields);

static bool has(const struct field_strings *list, const char *item)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

/* Members that are entities */

static enum status group_add_entity(struct req *req, const char *id, const char *group)
{
    struct identity_entity entity;
    struct bytes prefix;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &entity);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "member_entity_ids: no entity has the id \"%.64s\"", id);
    TRY(st);
    TRY(state_ns_key(req->arena, req->ns, "member", bytes_str(id), "", &prefix));
    if (state_count(req->txn, prefix) >= IDENTITY_GROUPS_MAX)
        return req_fail(req, ST_INVALID, "the entity %.64s is a member of %d groups already", id,
                        IDENTITY_GROUPS_MAX);
    return identity_join(req->txn, req->ns, id, group, true);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A sorted copy of a list. */
static enum status sorted(struct req *req, const struct field_strings *in,
                          struct field_strings *ret_list)
{
    const char **items = arena_alloc(req->arena, (in->n + 1) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    if (in->n != 0) {
        memcpy(items, in->items, in->n * sizeof *items);
        qsort(items, in->n, sizeof *items, by_text);
    }
    *ret_list = (struct field_strings){items, in->n, true};
    return ST_OK;
}

static bool has_sorted(const struct field_strings *list, const char *item)
{
    return list->n != 0 &&
           bsearch(&item, list->items, list->n, sizeof *list->items, by_text) != NULL;
}

/* Replace the entities of the group. */
static enum status set_entities(struct req *req, const struct field_strings *in,
                                const struct identity_group *group)
{
    struct field_strings present, wanted;
    if (in->n > MEMBERS_STEP_MAX)
        return req_fail(req, ST_INVALID, "member_entity_ids: %d at most in one request",
                        MEMBERS_STEP_MAX);
    TRY(sorted(req, in, &wanted));
    enum status st =
        identity_marks(req->txn, req->ns, "members", group->id, in->n + MEMBERS_STEP_MAX, &present);
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_INVALID,
                        "member_entity_ids: more than %d members would leave the group: take "
                        "fewer at a time",
                        MEMBERS_STEP_MAX);
    TRY(st);
    for (size_t i = 0; i < wanted.n; i++)
        if (!has_sorted(&present, wanted.items[i]))
            TRY(group_add_entity(req, wanted.items[i], group->id));
    for (size_t i = 0; i < present.n; i++)
        if (!has_sorted(&wanted, present.items[i]))
            TRY(identity_join(req->txn, req->ns, present.items[i], group->id, false));
    return ST_OK;
}

/* Members that are groups */

/* Whether `wanted` is `from` or one of the groups above it. The records read become preconditions,
 * so two requests that would close a cycle together conflict. */
static enum status is_above(struct req *req, const char *wanted, const char *from, bool *ret_above)
{
    const char **ids = arena_alloc(req->arena, IDENTITY_REACHED_MAX * sizeof *ids);
    struct field_strings seen = {.items = ids};
    if (ids == NULL)
        return ST_NOMEM;
    ids[seen.n++] = from;
    *ret_above = false;
    for (size_t i = 0; i < seen.n && !*ret_above; i++) {
        struct identity_group group;
        *ret_above = strcmp(seen.items[i], wanted) == 0;
        enum status st =
            identity_record_load(req->txn, req->ns, IDENTITY_GROUP, seen.items[i], &group);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        for (size_t k = 0; k < group.parents.n; k++) {
            if (has(&seen, group.parents.items[k]))
                continue;
            if (seen.n == IDENTITY_REACHED_MAX)
                return ST_TOO_BIG;
            ids[seen.n++] = group.parents.items[k];
        }
    }
    return ST_OK;
}

/* Stage the parents of a group, with `parent` or without. */
static enum status set_parent(struct req *req, struct identity_group *child, const char *parent,
                              bool joins)
{
    const char **ids = arena_alloc(req->arena, (child->parents.n + 1) * sizeof *ids);
    size_t n = 0;
    if (ids == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < child->parents.n; i++)
        if (strcmp(child->parents.items[i], parent) != 0)
            ids[n++] = child->parents.items[i];
    if (joins)
        ids[n++] = parent;
    child->parents = (struct field_strings){ids, n, true};
    TRY(identity_record_save(req->txn, req->ns, IDENTITY_GROUP, child));
    return (joins ? identity_mark : identity_unmark)(req->txn, req->ns, "subgroup", parent,
                                                     child->id);
}

static enum status add_group(struct req *req, const char *id, const struct identity_group *group)
{
    struct identity_group child;
    bool cycle;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &child);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "member_group_ids: no group has the id \"%.64s\"", id);
    TRY(st);
    if (has(&child.parents, group->id))
        return ST_OK;
    if (child.parents.n >= IDENTITY_GROUPS_MAX)
        return req_fail(req, ST_INVALID, "the group %.64s is a member of %d groups already", id,
                        IDENTITY_GROUPS_MAX);
    st = is_above(req, child.id, group->id, &cycle);
    if (st == ST_TOO_BIG || (st == ST_OK && cycle))
        return req_fail(req, ST_INVALID,
                        "member_group_ids: cyclic relationship detected for "
                        "member group ID \"%.64s\"",
                        id);
    TRY(st);
    return set_parent(req, &child, group->id, true);
}

/* Replace the groups of the group. */
static enum status set_groups(struct req *req, const struct field_strings *in,
                              const struct identity_group *group)
{
    struct field_strings present;
    if (in->n > IDENTITY_GROUPS_MAX)
        return req_fail(req, ST_INVALID, "member_group_ids: %d at most", IDENTITY_GROUPS_MAX);
    TRY(identity_marks(req->txn, req->ns, "subgroup", group->id, IDENTITY_GROUPS_MAX, &present));
    for (size_t i = 0; i < present.n; i++) {
        struct identity_group child;
        if (has(in, present.items[i]))
            continue;
        enum status st =
            identity_record_load(req->txn, req->ns, IDENTITY_GROUP, present.items[i], &child);
        TRY(st);
        TRY(set_parent(req, &child, group->id, false));
    }
    for (size_t i = 0; i < in->n; i++)
        TRY(add_group(req, in->items[i], group));
    return ST_OK;
}

/* Writing */

static enum status group_apply(struct req *req, const struct group_in *in,
                               struct identity_group *group)
{
    bool external = strcmp(in->type, IDENTITY_EXTERNAL) == 0;
    if (in->type[0] != '\0' && !external && strcmp(in->type, IDENTITY_INTERNAL) != 0)
        return req_fail(req, ST_INVALID, "type: internal or external is expected");
    if (in->type[0] != '\0' && external != group->external)
        return req_fail(req, ST_INVALID, "group type cannot be changed");
    if (group->external && in->member_entity_ids.n != 0)
        return req_fail(req, ST_INVALID,
                        "member entities can't be set manually for external groups");
    TRY(identity_check_map(req, "metadata", &in->metadata));
    if (in->metadata.given)
        group->metadata = in->metadata;
    if (in->policies.given)
        TRY(identity_clean_policies(req, &in->policies, &group->policies));
    group->updated_ms = MAX(req->now_ms, group->created_ms);
    TRY(identity_record_save(req->txn, req->ns, IDENTITY_GROUP, group));
    if (in->member_entity_ids.given && !group->external)
        TRY(set_entities(req, &in->member_entity_ids, group));
    return in->member_group_ids.given ? set_groups(req, &in->member_group_ids, group) : ST_OK;
}

static enum status group_create(struct req *req, const struct group_in *in, const char *name)
{
    char uuid[TEXT_UUID_LEN + 1];
    text_uuid(req->env, uuid);
    struct identity_group group = {.id = arena_str(req->arena, bytes_of(uuid, TEXT_UUID_LEN)),
                                   .name = name,
                                   .metadata = {.given = true},
                                   .alias = "",
                                   .external = strcmp(in->type, IDENTITY_EXTERNAL) == 0,
                                   .created_ms = MAX(req->now_ms, INT64_C(0))};
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    if (group.id != NULL && name[0] == '\0')
        group.name = arena_format(req->arena, "group-%s", group.id);
    const char *folded = group.name != NULL ? identity_fold(req->arena, group.name) : NULL;
    if (group.id == NULL || folded == NULL)
        return ST_NOMEM;
    TRY(identity_put_id(req->txn, req->ns, "group-name", folded, NULL, group.id));
    TRY(group_apply(req, in, &group));
    const struct written_out out = {group.id, group.name};
    return req_reply(req, &out);
}

static enum status rename_group(struct req *req, const char *name, struct identity_group *group)
{
    const char *other, *folded = identity_fold(req->arena, name),
                       *before = identity_fold(req->arena, group->name);
    if (folded == NULL || before == NULL)
        return ST_NOMEM;
    TRY(identity_check_name(req, name));
    if (strcmp(folded, before) != 0) {
        enum status st = identity_find_id(req->txn, req->ns, "group-name", folded, NULL, &other);
        if (st == ST_OK)
            return req_fail(req, ST_INVALID, "group name is already in use");
        if (st != ST_NOT_FOUND)
            return st;
        TRY(identity_unmark(req->txn, req->ns, "group-name", before, NULL));
        TRY(identity_put_id(req->txn, req->ns, "group-name", folded, NULL, group->id));
    }
    group->name = name;
    return ST_OK;
}

static enum status group_write_at_id(struct req *req, const char *id)
{
    const struct group_in *in = req_body(req);
    struct identity_group group;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &group);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid group ID");
    TRY(st);
    if (in->name != NULL && in->name[0] != '\0')
        TRY(rename_group(req, in->name, &group));
    return group_apply(req, in, &group);
}

static enum status group_write_named(struct req *req, const char *name)
{
    const struct group_in *in = req_body(req);
    struct identity_group group;
    const char *id, *folded = identity_fold(req->arena, name);
    if (folded == NULL)
        return ST_NOMEM;
    if (name[0] == '\0')
        return group_create(req, in, name);
    TRY(identity_check_name(req, name));
    enum status st = identity_find_id(req->txn, req->ns, "group-name", folded, NULL, &id);
    if (st == ST_NOT_FOUND)
        return group_create(req, in, name);
    TRY(st);
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &group));
    return group_apply(req, in, &group);
}

static enum status group_write(struct req *req)
{
    const struct group_in *in = req_body(req);
    return in->id[0] != '\0' ? group_write_at_id(req, in->id) : group_write_named(req, in->name);
}

static enum status group_write_id(struct req *req)
{
    return group_write_at_id(req, req_param(req, "id"));
}

static enum status group_write_name(struct req *req)
{
    return group_write_named(req, req_param(req, "name"));
}

/* Reading */

struct group_out {
    const char *id, *name, *type, *namespace_id;
    struct field_strings policies, parents, entities, groups;
    struct field_map metadata;
    struct bytes alias; /* an object; empty: the group has no alias */
    int64_t created_ms, updated_ms;
    uint64_t version;
};
static const struct field group_fields[] = {
    FIELD(struct group_out, id, STRING),
    FIELD(struct group_out, name, STRING),
    FIELD(struct group_out, type, STRING),
    FIELD(struct group_out, namespace_id, STRING),
    FIELD(struct group_out, alias, JSON),
    FIELD_NAMED("creation_time", struct group_out, created_ms, TIME),
    FIELD_NAMED("last_update_time", struct group_out, updated_ms, TIME),
    FIELD(struct group_out, metadata, MAP, .null = true),
    FIELD(struct group_out, policies, STRINGS),
    FIELD_NAMED("member_entity_ids", struct group_out, entities, STRINGS),
    FIELD_NAMED("member_group_ids", struct group_out, groups, STRINGS),
    FIELD_NAMED("parent_group_ids", struct group_out, parents, STRINGS),
    FIELD_NAMED("modify_index", struct group_out, version, UINT),
};
const struct schema identity_group_schema = SCHEMA(struct group_out, group_fields);

enum status identity_reply_group(struct req *req, const char *id)
{
    struct identity_group group;
    struct identity_alias alias;
    struct identity_alias_out shown;
    struct identity_mounts mounts;
    CLEANUP(buf_done) struct buf object = {0};
    struct text_writer w = {.out = &object};
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &group));
    struct group_out out = {
        .alias = BYTES("{}"),
        .id = group.id,
        .name = group.name,
        .type = group.external ? IDENTITY_EXTERNAL : IDENTITY_INTERNAL,
        .namespace_id = req->ns,
        .policies = group.policies,
        .parents = group.parents,
        .metadata = group.metadata,
        .created_ms = group.created_ms,
        .updated_ms = group.updated_ms,
        .version = group.version,
    };
    TRY(identity_marks(req->txn, req->ns, "members", id, SIZE_MAX, &out.entities));
    TRY(identity_marks(req->txn, req->ns, "subgroup", id, SIZE_MAX, &out.groups));
    enum status st =
        identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, group.alias, &alias);
    if (st != ST_NOT_FOUND) {
        TRY(st);
        TRY(identity_mounts_load(req, &mounts));
        identity_show_alias(&mounts, &alias, &shown);
        schema_encode(&identity_alias_schema, &shown, &w);
        TRY(buf_status(&object));
        out.alias = buf_bytes(&object);
    }
    return req_reply(req, &out);
}

static enum status group_read_id(struct req *req)
{
    return identity_reply_group(req, req_param(req, "id"));
}

static enum status group_read_name(struct req *req)
{
    const char *id;
    TRY(identity_id_named(req, "group-name", &id));
    return identity_reply_group(req, id);
}

static enum status group_put_info(struct req *req, const char *id,
                                  const struct identity_mounts *mounts, struct text_writer *w,
                                  const char **ret_name)
{
    struct identity_group group;
    struct bytes entities, groups;
    (void)mounts;
    TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &group));
    TRY(state_ns_key(req->arena, req->ns, "members", bytes_str(id), "", &entities));
    TRY(state_ns_key(req->arena, req->ns, "subgroup", bytes_str(id), "", &groups));
    text_open_object(w);
    text_member_str(w, "name", group.name);
    text_member_int(w, "num_member_entities", (int64_t)state_count(req->txn, entities));
    text_member_int(w, "num_member_groups", (int64_t)state_count(req->txn, groups));
    text_member_int(w, "num_parent_groups", (int64_t)group.parents.n);
    text_close(w);
    *ret_name = group.name;
    return ST_OK;
}

static enum status group_list_ids(struct req *req)
{
    return identity_list_ids(req, "group", group_put_info);
}

static enum status group_list_names(struct req *req)
{
    return identity_list_names(req, "group-name", group_put_info);
}

/* Deleting */

/* Take the groups that are members out of the group. */
static enum status leave_children(struct req *req, const char *id)
{
    struct field_strings ids;
    TRY(identity_marks(req->txn, req->ns, "subgroup", id, SIZE_MAX, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        struct identity_group child;
        TRY(identity_record_load(req->txn, req->ns, IDENTITY_GROUP, ids.items[i], &child));
        TRY(set_parent(req, &child, id, false));
    }
    return ST_OK;
}

static enum status drop_members(struct req *req, const char *id)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(req->arena, req->ns, "members", bytes_str(id), "", &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    for (size_t n = 0; n < MEMBERS_STEP_MAX && state_iter_next(iter); n++) {
        const char *entity = arena_str(req->arena, bytes_from(iter->key, iter->prefix.len));
        if (entity == NULL)
            return ST_NOMEM;
        TRY(identity_unmark(req->txn, req->ns, "member", entity, id));
    }
    /* a membership that stays counts for nothing: no later group has this id */
    return state_delete_prefix(req->txn, prefix);
}

static enum status drop_group_alias(struct req *req, const char *id)
{
    struct identity_alias alias;
    struct bytes key;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP_ALIAS, id, &alias);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(identity_unmark(req->txn, req->ns, "group-alias-of", alias.accessor, alias.name));
    TRY(identity_key(req->arena, req->ns, IDENTITY_GROUP_ALIAS, alias.id, &key));
    return state_delete(req->txn, key);
}

static enum status delete_id(struct req *req, const char *id)
{
    struct identity_group group;
    struct bytes key;
    enum status st = identity_record_load(req->txn, req->ns, IDENTITY_GROUP, id, &group);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    const char *folded = identity_fold(req->arena, group.name);
    if (folded == NULL)
        return ST_NOMEM;
    TRY(leave_children(req, group.id));
    for (size_t i = 0; i < group.parents.n; i++)
        TRY(identity_unmark(req->txn, req->ns, "subgroup", group.parents.items[i], group.id));
    TRY(drop_members(req, group.id));
    TRY(drop_group_alias(req, group.alias));
    TRY(identity_unmark(req->txn, req->ns, "group-name", folded, NULL));
    TRY(identity_key(req->arena, req->ns, IDENTITY_GROUP, group.id, &key));
    return state_delete(req->txn, key);
}

static enum status group_delete_id(struct req *req)
{
    return delete_id(req, req_param(req, "id"));
}

static enum status group_delete_name(struct req *req)
{
    const char *id;
    enum status st = identity_id_named(req, "group-name", &id);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return delete_id(req, id);
}

static const struct route group_routes[] = {
    {.method = METHOD_POST,
     .path = "group",
     .handler = group_write,
     .body = &any_schema,
     .reply = &written_schema,
     .statuses = "200 204",
     .help = "Create a group, or change the one with the id or name."},
    {.method = METHOD_LIST,
     .path = "group/id",
     .handler = group_list_ids,
     .reply = &identity_list_schema,
     .help = "The ids of all groups."},
    {.method = METHOD_GET,
     .path = "group/id/:id",
     .handler = group_read_id,
     .reply = &identity_group_schema,
     .help = "Read a group."},
    {.method = METHOD_POST,
     .path = "group/id/:id",
     .handler = group_write_id,
     .body = &by_id_schema,
     .help = "Change a group. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "group/id/:id",
     .handler = group_delete_id,
     .help = "Delete a group, its alias and its memberships."},
    {.method = METHOD_LIST,
     .path = "group/name",
     .handler = group_list_names,
     .reply = &identity_list_schema,
     .help = "The names of all groups."},
    {.method = METHOD_GET,
     .path = "group/name/+name",
     .handler = group_read_name,
     .reply = &identity_group_schema,
     .help = "Read a group by its name."},
    {.method = METHOD_POST,
     .path = "group/name/+name",
     .handler = group_write_name,
     .body = &by_name_schema,
     .reply = &written_schema,
     .statuses = "200 204",
     .help = "Create or change a group by its name."},
    {.method = METHOD_DELETE,
     .path = "group/name/+name",
     .handler = group_delete_name,
     .help = "Delete a group by its name."},
};
const struct route_table identity_group_table = {group_routes, ARRAY_LEN(group_routes)};
