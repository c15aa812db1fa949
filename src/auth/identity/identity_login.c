/* Logins: the entity of a client, its alias, and its memberships of external groups. */
#include "auth/identity/identity.h"
#include "text/random.h"

static const char *new_id(struct arena *arena, struct env *env)
{
    char uuid[TEXT_UUID_LEN + 1];
    text_uuid(env, uuid);
    return arena_str(arena, bytes_of(uuid, TEXT_UUID_LEN));
}

enum status identity_entity_create(struct state_txn *txn, struct env *env, const char *ns,
                                   int64_t now_ms, struct identity_entity *entity)
{
    const char *other, *folded;
    ASSERT(entity->name != NULL);
    entity->id = new_id(txn->arena, env);
    if (entity->id == NULL)
        return ST_NOMEM;
    if (entity->name[0] == '\0')
        entity->name = arena_format(txn->arena, "entity-%s", entity->id);
    if (entity->name == NULL || (folded = identity_fold(txn->arena, entity->name)) == NULL)
        return ST_NOMEM;
    entity->merged = (struct field_strings){.given = true};
    entity->created_ms = entity->updated_ms = MAX(now_ms, INT64_C(0));
    enum status st = identity_find_id(txn, ns, "entity-name", folded, NULL, &other);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    TRY(identity_put_id(txn, ns, "entity-name", folded, NULL, entity->id));
    return identity_record_save(txn, ns, IDENTITY_ENTITY, entity);
}

enum status identity_change_alias(struct state_txn *txn, const char *ns,
                                  const struct identity_alias *alias)
{
    TRY(identity_record_save(txn, ns, IDENTITY_ALIAS, alias));
    return identity_mark(txn, ns, "has-alias", alias->owner, alias->id);
}

enum status identity_add_alias(struct state_txn *txn, struct env *env, const char *ns,
                               int64_t now_ms, struct identity_alias *alias)
{
    ASSERT(alias->owner[0] != '\0' && alias->name[0] != '\0');
    alias->id = new_id(txn->arena, env);
    if (alias->id == NULL)
        return ST_NOMEM;
    alias->created_ms = alias->updated_ms = MAX(now_ms, INT64_C(0));
    TRY(identity_put_id(txn, ns, "alias-of", alias->accessor, alias->name, alias->id));
    return identity_change_alias(txn, ns, alias);
}

enum status identity_join(struct state_txn *txn, const char *ns, const char *entity,
                          const char *group, bool joins)
{
    enum status (*const change)(struct state_txn *, const char *, const char *, const char *,
                                const char *) = joins ? identity_mark : identity_unmark;
    ASSERT(entity[0] != '\0' && group[0] != '\0');
    TRY(change(txn, ns, "member", entity, group));
    return change(txn, ns, "members", group, entity);
}

/* Whether two maps have the same pairs, in whatever order. */
static bool same_map(const struct field_map *a, const struct field_map *b)
{
    ASSERT(a->n == 0 || a->pairs != NULL);
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        bool found = false;
        for (size_t k = 0; k < b->n && !found; k++)
            found = strcmp(a->pairs[2 * i], b->pairs[2 * k]) == 0 &&
                    strcmp(a->pairs[2 * i + 1], b->pairs[2 * k + 1]) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* The metadata of a login, cut to what an alias may hold. */
static struct field_map fitting(const struct field_map *metadata)
{
    struct field_map map = *metadata;
    map.n = MIN(map.n, (size_t)IDENTITY_META_MAX);
    map.given = true;
    return map;
}

static enum status identity_login_make(struct state_txn *txn, struct env *env, const char *ns,
                                       const struct identity_login *login, int64_t now_ms,
                                       const char **ret_id)
{
    struct identity_entity entity = {.name = "", .metadata = {.given = true}};
    TRY(identity_entity_create(txn, env, ns, now_ms, &entity));
    struct identity_alias alias = {.owner = entity.id,
                                   .accessor = login->accessor,
                                   .name = login->name,
                                   .metadata = fitting(&login->metadata)};
    *ret_id = entity.id;
    return identity_add_alias(txn, env, ns, now_ms, &alias);
}

/* The group of an alias of the mount. ST_NOT_FOUND. */
static enum status group_of(struct state_txn *txn, const char *ns, const char *accessor,
                            const char *name, const char **ret_id)
{
    struct identity_alias alias;
    const char *id;
    TRY(identity_find_id(txn, ns, "group-alias-of", accessor, name, &id));
    TRY(identity_record_load(txn, ns, IDENTITY_GROUP_ALIAS, id, &alias));
    *ret_id = alias.owner;
    return ST_OK;
}

static bool has(const struct field_strings *list, const char *item)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

/* Leave the external groups of this mount that the login does not name. */
static enum status leave_groups(struct state_txn *txn, const char *ns, const char *entity,
                                const char *accessor, const struct field_strings *wanted)
{
    struct field_strings present;
    ASSERT(entity[0] != '\0' && accessor[0] != '\0');
    TRY(identity_marks(txn, ns, "member", entity, IDENTITY_REACHED_MAX, &present));
    for (size_t i = 0; i < present.n; i++) {
        struct identity_group group;
        struct identity_alias alias;
        if (has(wanted, present.items[i]))
            continue;
        enum status st = identity_record_load(txn, ns, IDENTITY_GROUP, present.items[i], &group);
        if (st == ST_OK && !group.external)
            continue;
        if (st == ST_OK)
            st = identity_record_load(txn, ns, IDENTITY_GROUP_ALIAS, group.alias, &alias);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        if (strcmp(alias.accessor, accessor) == 0)
            TRY(identity_join(txn, ns, entity, group.id, false));
    }
    return ST_OK;
}

static enum status follow_groups(struct state_txn *txn, const char *ns, const char *entity,
                                 const struct identity_login *login)
{
    const char **ids = arena_alloc(txn->arena, (login->groups.n + 1) * sizeof *ids);
    ASSERT(entity[0] != '\0');
    struct field_strings wanted = {.items = ids, .given = true};
    if (ids == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < login->groups.n; i++) {
        const char *name = login->groups.items[i];
        enum status st = group_of(txn, ns, login->accessor, name, &ids[wanted.n]);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        const char *group = ids[wanted.n++];
        st = identity_is_marked(txn, ns, "member", entity, group);
        if (st == ST_NOT_FOUND)
            st = identity_join(txn, ns, entity, group, true);
        TRY(st);
    }
    ASSERT(wanted.n <= login->groups.n);
    return leave_groups(txn, ns, entity, login->accessor, &wanted);
}

enum status identity_log_in(struct state_txn *txn, struct env *env, const char *ns,
                            const struct identity_login *login, int64_t now_ms,
                            const char **ret_entity_id)
{
    struct identity_alias alias;
    struct identity_entity entity;
    const char *id;
    ASSERT(login->accessor[0] != '\0' && login->name[0] != '\0');
    enum status st = identity_find_id(txn, ns, "alias-of", login->accessor, login->name, &id);
    if (st == ST_NOT_FOUND) {
        TRY(identity_login_make(txn, env, ns, login, now_ms, ret_entity_id));
        return follow_groups(txn, ns, *ret_entity_id, login);
    }
    TRY(st);
    TRY(identity_record_load(txn, ns, IDENTITY_ALIAS, id, &alias));
    TRY(identity_record_load(txn, ns, IDENTITY_ENTITY, alias.owner, &entity));
    ASSERT(strcmp(entity.id, alias.owner) == 0);
    if (entity.disabled)
        return ST_DENIED;
    struct field_map metadata = fitting(&login->metadata);
    if (!same_map(&alias.metadata, &metadata)) {
        alias.metadata = metadata;
        alias.updated_ms = MAX(now_ms, INT64_C(0));
        TRY(identity_change_alias(txn, ns, &alias));
    }
    *ret_entity_id = entity.id;
    return follow_groups(txn, ns, entity.id, login);
}
