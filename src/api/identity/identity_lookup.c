/* Lookups: by id, by name, or by an alias. */
#include "api/identity/identity.h"

struct lookup_in {
    const char *id, *name, *alias_id, *alias_name, *alias_mount_accessor;
};
static const struct field lookup_fields[] = {
    FIELD(struct lookup_in, id, STRING, .preset = "", .help = "Id of the entity or group."),
    FIELD(struct lookup_in, name, STRING, .preset = "", .help = "Its name."),
    FIELD(struct lookup_in, alias_id, STRING, .preset = "", .help = "Id of an alias of it."),
    FIELD(struct lookup_in, alias_name, STRING, .preset = "",
          .help = "Name of an alias of it; needs alias_mount_accessor."),
    FIELD(struct lookup_in, alias_mount_accessor, STRING, .preset = "",
          .help = "Accessor of the mount of the alias; needs alias_name."),
};
static const struct schema lookup_schema = SCHEMA(struct lookup_in, lookup_fields);

static enum status check_in(struct req *req, const struct lookup_in *in)
{
    bool by_alias = in->alias_name[0] != '\0' || in->alias_mount_accessor[0] != '\0';
    int n = (in->id[0] != '\0') + (in->name[0] != '\0') + (in->alias_id[0] != '\0') + by_alias;
    if (n == 0)
        return req_fail(req, ST_INVALID,
                        "none of the required query attributes (id, name, alias_id, alias_name and "
                        "alias_mount_accessor) supplied");
    if (n > 1)
        return req_fail(req, ST_INVALID,
                        "only one of the attributes id, name, alias_id, and "
                        "alias_name with alias_mount_accessor may be given");
    if (by_alias && (in->alias_name[0] == '\0' || in->alias_mount_accessor[0] == '\0'))
        return req_fail(req, ST_INVALID,
                        "both 'alias_name' and 'alias_mount_accessor' needs to be set");
    return ST_OK;
}

/* The difference between lookups of entities and of groups. */
struct subject {
    const char *names, *alias_of; /* kinds of keys */
    enum identity_kind alias;
};

/* The id that the request means. ST_NOT_FOUND. */
static enum status identity_lookup_find(struct req *req, const struct subject *subject,
                                        const char **ret_id)
{
    const struct lookup_in *in = req_body(req);
    const char *alias_id = in->alias_id;
    struct identity_alias alias;
    if (in->id[0] != '\0') {
        *ret_id = in->id;
        return ST_OK;
    }
    if (in->name[0] != '\0') {
        const char *folded = identity_fold(req->arena, in->name);
        return folded == NULL
                   ? ST_NOMEM
                   : identity_find_id(req->txn, req->ns, subject->names, folded, NULL, ret_id);
    }
    if (alias_id[0] == '\0')
        TRY(identity_find_id(req->txn, req->ns, subject->alias_of, in->alias_mount_accessor,
                             in->alias_name, &alias_id));
    TRY(identity_record_load(req->txn, req->ns, subject->alias, alias_id, &alias));
    *ret_id = alias.owner;
    return ST_OK;
}

static enum status look_up(struct req *req, const struct subject *subject,
                           enum status (*reply)(struct req *req, const char *id))
{
    const char *id;
    TRY(check_in(req, req_body(req)));
    enum status st = identity_lookup_find(req, subject, &id);
    if (st == ST_OK)
        st = reply(req, id);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status lookup_entity(struct req *req)
{
    static const struct subject entities = {"entity-name", "alias-of", IDENTITY_ALIAS};
    return look_up(req, &entities, identity_reply_entity);
}

static enum status lookup_group(struct req *req)
{
    static const struct subject groups = {"group-name", "group-alias-of", IDENTITY_GROUP_ALIAS};
    return look_up(req, &groups, identity_reply_group);
}

static const struct route lookup_routes[] = {
    {.method = METHOD_POST,
     .path = "lookup/entity",
     .handler = lookup_entity,
     .flags = ROUTE_READS,
     .body = &lookup_schema,
     .reply = &identity_entity_schema,
     .statuses = "200 204",
     .help = "Read an entity by its id, its name or an alias. Nothing is found: 204."},
    {.method = METHOD_POST,
     .path = "lookup/group",
     .handler = lookup_group,
     .flags = ROUTE_READS,
     .body = &lookup_schema,
     .reply = &identity_group_schema,
     .statuses = "200 204",
     .help = "Read a group by its id, its name or its alias. Nothing is found: 204."},
};
const struct route_table identity_lookup_table = {lookup_routes, ARRAY_LEN(lookup_routes)};
