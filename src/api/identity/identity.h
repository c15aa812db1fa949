/* identity/: entities, their aliases, groups, and lookups. */
#ifndef HOLDFAST_API_IDENTITY_IDENTITY_H
#define HOLDFAST_API_IDENTITY_IDENTITY_H

#include "auth/identity/identity.h"
#include "router/request/req.h"
#include "router/table/module.h"

extern const struct module identity_module;
extern const struct route_table identity_entity_table, identity_alias_table, identity_group_table,
    identity_group_alias_table, identity_lookup_table, identity_merge_table, identity_token_table;

/* The mounts of the namespace, for aliases, which name a mount by its accessor. */
struct identity_mounts {
    struct arena *arena;
    struct {
        const char *accessor, *path, *type;
    } * items;
    size_t n, room;
};
NODISCARD enum status identity_mounts_load(struct req *req, struct identity_mounts *ret_mounts);
/* "" where no mount has the accessor. */
const char *identity_mount_path(const struct identity_mounts *mounts, const char *accessor);
const char *identity_mount_type(const struct identity_mounts *mounts, const char *accessor);

/* Checks of fields, with the request's error. ST_INVALID. */
NODISCARD enum status identity_check_name(struct req *req, const char *name);
NODISCARD enum status identity_check_map(struct req *req, const char *field,
                                         const struct field_map *map);
/* The names of policies as records store them; "root" is refused. */
NODISCARD enum status identity_clean_policies(struct req *req, const struct field_strings *in,
                                              struct field_strings *ret_policies);
/* Whether both maps have the same pairs. */
bool identity_same_map(const struct field_map *a, const struct field_map *b);

/* An alias as replies show it. */
struct identity_alias_out {
    const char *id, *canonical_id, *name, *mount_accessor, *mount_path, *mount_type;
    struct field_map metadata, custom_metadata;
    struct field_strings merged_from;
    int64_t created_ms, updated_ms;
    bool local;
};
extern const struct schema identity_alias_schema;
void identity_show_alias(const struct identity_mounts *mounts, const struct identity_alias *alias,
                         struct identity_alias_out *ret_out);

/* Reply with the whole entity or group. ST_NOT_FOUND; else as state_get. */
extern const struct schema identity_entity_schema, identity_group_schema;
NODISCARD enum status identity_reply_entity(struct req *req, const char *id);
/* The id of the object whose name the path has; `kind` is "entity-name" or "group-name".
 * ST_NOT_FOUND; ST_NOMEM; else as identity_find_id. */
NODISCARD enum status identity_id_named(struct req *req, const char *kind, const char **ret_id);
NODISCARD enum status identity_reply_group(struct req *req, const char *id);

/* Stage the end of an alias of an entity. As state_delete. */
NODISCARD enum status identity_drop_alias(struct req *req, const struct identity_alias *alias);
/* Stage the end of an entity, of its aliases and of its memberships. As state_delete. */
NODISCARD enum status identity_drop_entity(struct req *req, const struct identity_entity *entity);

/* The reply of a listing. */
extern const struct schema identity_list_schema;
/* List the names of a kind, "entity-name" or "group-name": `put` writes what the reply says about
 * the object with the id, and gives its name. */
typedef enum status identity_put_info(struct req *req, const char *id,
                                      const struct identity_mounts *mounts, struct text_writer *w,
                                      const char **ret_name);
NODISCARD enum status identity_list_names(struct req *req, const char *kind,
                                          identity_put_info *put);
/* List the ids of a kind. */
NODISCARD enum status identity_list_ids(struct req *req, const char *kind, identity_put_info *put);

#endif
