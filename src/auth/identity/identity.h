/* The meaning of an entity for a request: whether it is disabled, its groups, its policies, and the
 * values of templates.
 *
 * 1. The records below are preconditions of the transaction that looked (PROTOCOL R3): the entity,
 *    its memberships, its aliases, and the groups.
 * 2. A worker keeps what it read. A kept entity is used only while nothing of this has changed.
 * 3. A login writes nothing of this unless something changed. */
#ifndef HOLDFAST_AUTH_IDENTITY_IDENTITY_H
#define HOLDFAST_AUTH_IDENTITY_IDENTITY_H

#include "auth/identity/identity_record.h"

struct identity {
    struct identity_entity entity;
    struct field_strings policies; /* of the entity and of all its groups; sorted */
    const struct identity_alias *aliases;
    size_t n_aliases;
    /* all groups; the first n_direct are those that the entity is a member of itself */
    const struct identity_group *groups;
    size_t n_groups, n_direct;
    uint64_t serial; /* differs from that of every other entity in the cache; 0: not cached */
};

/* Read an entity by its id, or by the id of one that was merged into it. Everything lies in the
 * arena of the transaction. ST_NOT_FOUND; ST_TOO_BIG: too many groups. Else as state_get. */
NODISCARD enum status identity_read(struct state_txn *txn, const char *ns, const char *id,
                                    struct identity *ret_identity);

/* Entities that a worker read recently. */
struct identity_cache;
struct identity_ref;
NODISCARD enum status identity_cache_new(struct identity_cache **ret_cache); /* ST_NOMEM. */
void identity_cache_free(struct identity_cache *cache); /* none is in use; NULL is allowed */
/* identity_read, from the cache where that is current. The transaction has staged nothing of the
 * entity. The entity lives until identity_ref_drop. */
NODISCARD enum status identity_hold(struct identity_cache *cache, struct state_txn *txn,
                                    const char *ns, const char *id, struct identity_ref **ret_ref);
const struct identity *identity_ref_get(const struct identity_ref *ref);
void identity_ref_drop(struct identity_ref *ref); /* NULL is allowed */

/* Fill the templates "{{identity.entity.name}}" of a text. ST_NOT_FOUND: a value is missing or
 * empty, or has a character that patterns give a meaning: '/', '*' or '+'. ST_NOMEM. */
NODISCARD enum status identity_fill(const struct identity *identity, struct arena *arena,
                                    struct bytes text, struct bytes *ret_text);

/* A client that logs in, as its auth method knows it. */
struct identity_login {
    const char *accessor, *name; /* of the mount; the name that the method gives its client */
    struct field_map metadata;
    struct field_strings groups; /* names of group aliases; the client is in these groups alone */
};
/* Find or make the entity of a client, and stage what changed: the alias, its metadata, the
 * memberships of external groups. ST_DENIED: the entity is disabled. Else as state_put. */
NODISCARD enum status identity_log_in(struct state_txn *txn, struct env *env, const char *ns,
                                      const struct identity_login *login, int64_t now_ms,
                                      const char **ret_entity_id);

/* Stage a new entity, with the name "entity-ID" if `name` is "". *entity has policies, metadata and
 * `disabled`; the other fields are set. ST_EXISTS: the name is in use. Else as state_put. */
NODISCARD enum status identity_entity_create(struct state_txn *txn, struct env *env, const char *ns,
                                             int64_t now_ms, struct identity_entity *entity);
/* Stage a new alias of an entity: owner, accessor, name and metadata are set. As state_put. */
NODISCARD enum status identity_add_alias(struct state_txn *txn, struct env *env, const char *ns,
                                         int64_t now_ms, struct identity_alias *alias);
/* Stage a changed alias of an entity. As state_put. */
NODISCARD enum status identity_change_alias(struct state_txn *txn, const char *ns,
                                            const struct identity_alias *alias);
/* Stage a membership, or its end. As state_put. */
NODISCARD enum status identity_join(struct state_txn *txn, const char *ns, const char *entity,
                                    const char *group, bool joins);

#endif
