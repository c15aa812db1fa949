/* Entities, their aliases, and groups as the state stores them. One fact has one key:
 *
 *   s/ns/NS/entity/ID                  an entity
 *   s/ns/NS/entity-name/FOLDED         its id: names are unique, whatever their case
 *   s/ns/NS/merged/OLD                 the id of the entity into which OLD was merged
 *   s/ns/NS/alias/ID                   an alias of an entity
 *   s/ns/NS/alias-of/ACCESSOR/NAME     its id: what a login looks up
 *   s/ns/NS/has-alias/ENTITY/ALIAS     an entity has an alias; written with every change of the
 * alias s/ns/NS/group/ID                   a group s/ns/NS/group-name/FOLDED          its id
 *   s/ns/NS/group-alias/ID             the alias of an external group
 *   s/ns/NS/group-alias-of/ACCESSOR/NAME   its id
 *   s/ns/NS/member/ENTITY/GROUP        an entity is a member of a group
 *   s/ns/NS/members/GROUP/ENTITY       the same, by group
 *   s/ns/NS/subgroup/GROUP/GROUP       the second group is a member of the first one
 *   s/ns/NS/entity-token/ENTITY/TOKEN  a stored token of an entity
 *
 * 1. A name or an alias has one key, so two requests that create it at once conflict.
 * 2. A key of a membership may outlive its group: an id is never used again, and a membership of a
 *    group that does not exist counts for nothing.
 * 3. merged/OLD names an entity that was not merged itself: never a chain. */
#ifndef HOLDFAST_AUTH_IDENTITY_IDENTITY_RECORD_H
#define HOLDFAST_AUTH_IDENTITY_IDENTITY_RECORD_H

#include "state/state.h"
#include "text/schema.h"

enum {
    IDENTITY_FEATURE = 4, /* feature level of these keys: earlier builds know no entities */
    IDENTITY_NAME_MAX = 512,
    IDENTITY_META_MAX = 64, /* entries of metadata, and the lengths of a key and of a value */
    IDENTITY_META_KEY_MAX = 128,
    IDENTITY_META_VALUE_MAX = 512,
    IDENTITY_ALIASES_MAX = 1000, /* of an entity */
    IDENTITY_GROUPS_MAX = 1000,  /* of which an entity or a group is a member itself */
    IDENTITY_REACHED_MAX = 4096, /* groups that an entity is a member of, also by other groups */
    IDENTITY_MERGED_MAX = 4096,  /* entities that were merged into an entity */
};

#define IDENTITY_INTERNAL "internal"
#define IDENTITY_EXTERNAL "external"

/* Texts are never NULL. Those of a loaded record lie in the arena that the loader names. */
struct identity_entity {
    const char *id, *name;
    struct field_strings policies, merged; /* merged: ids of entities that were merged into it */
    struct field_map metadata;
    bool disabled;
    int64_t created_ms, updated_ms;
};

/* An alias of an entity, or of an external group. */
struct identity_alias {
    const char *id, *owner; /* owner: the id of the entity or of the group */
    const char *accessor, *name;
    struct field_map metadata;        /* set by logins */
    struct field_map custom_metadata; /* set by operators */
    struct field_strings merged_from; /* ids of entities that had the alias before a merge */
    int64_t created_ms, updated_ms;
};

struct identity_group {
    const char *id, *name;
    struct field_strings policies, parents; /* parents: ids of groups that it is a member of */
    struct field_map metadata;
    const char *alias; /* the id of its alias; "": none */
    bool external;
    int64_t created_ms, updated_ms;
    uint64_t version; /* of the state, at its last change; 0 for a staged record */
};

/* A record and its kind of keys. */
enum identity_kind { IDENTITY_ENTITY, IDENTITY_ALIAS, IDENTITY_GROUP, IDENTITY_GROUP_ALIAS };

/* Read and stage records by their ids. `from` and `ret` are structs of the kind. ST_NOT_FOUND;
 * ST_CORRUPT; else as state_get and state_put. */
NODISCARD enum status identity_record_load(struct state_txn *txn, const char *ns,
                                           enum identity_kind kind, const char *id, void *ret);
NODISCARD enum status identity_record_save(struct state_txn *txn, const char *ns,
                                           enum identity_kind kind, const void *from);
/* Decode a record. The struct borrows from `record`. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status identity_record_decode(enum identity_kind kind, struct bytes record,
                                             struct arena *arena, const char *id, void *ret);
/* The key of a record; of an empty id the prefix of all. ST_NOMEM. */
NODISCARD enum status identity_key(struct arena *arena, const char *ns, enum identity_kind kind,
                                   const char *id, struct bytes *ret_key);

/* An entity by its present id, or by the id of an entity that was merged into it. As
 * identity_record_load. */
NODISCARD enum status identity_entity_find(struct state_txn *txn, const char *ns, const char *id,
                                           struct identity_entity *ret_entity);

/* The form of a name in keys: A to Z in lower case. In the arena; NULL: out of memory. */
const char *identity_fold(struct arena *arena, const char *name);

/* Keys that hold an id: "entity-name", "group-name" (second NULL, first folded), "alias-of",
 * "group-alias-of", "merged". ST_NOT_FOUND; else as state_get. */
NODISCARD enum status identity_find_id(struct state_txn *txn, const char *ns, const char *kind,
                                       const char *first, const char *second, const char **ret_id);
NODISCARD enum status identity_put_id(struct state_txn *txn, const char *ns, const char *kind,
                                      const char *first, const char *second, const char *id);
/* Keys without a value. */
NODISCARD enum status identity_mark(struct state_txn *txn, const char *ns, const char *kind,
                                    const char *first, const char *second);
NODISCARD enum status identity_unmark(struct state_txn *txn, const char *ns, const char *kind,
                                      const char *first, const char *second);
NODISCARD enum status identity_is_marked(struct state_txn *txn, const char *ns, const char *kind,
                                         const char *first, const char *second);
/* The last segments of the keys KIND/FIRST/…, in order, in `arena`. They become a precondition.
 * ST_TOO_BIG: more than `max`. Else as state_scan. */
NODISCARD enum status identity_marks(struct state_txn *txn, const char *ns, const char *kind,
                                     const char *first, size_t max, struct field_strings *ret_ids);

#endif
