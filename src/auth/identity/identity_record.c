#include "auth/identity/identity_record.h"
#include "base/record.h"
#include "state/ns_key.h"

static const struct record_field id_fields[] = {RECORD_ITSELF("id", const char *, TEXT0)};
static const struct record id_record = {RECORD(const char *, id_fields), .name = "identity/id"};

/* A pair of field_map.pairs. */
struct pair {
    const char *key, *value;
};
static_assert(sizeof(struct pair) == 2 * sizeof(const char *), "two neighbours of a field_map");
static const struct record_field pair_fields[] = {RECORD_FIELD(struct pair, key, TEXT0),
                                                  RECORD_FIELD(struct pair, value, TEXT0)};
static const struct record pair_record = {RECORD(struct pair, pair_fields),
                                          .name = "identity/pair"};

#define IDS(text, type, member, most) \
    RECORD_ITEMS(text, type, member.items, member.n, LIST, &id_record, .max = (most))
#define PAIRS(text, type, member) \
    RECORD_ITEMS(text, type, member.pairs, member.n, LIST, &pair_record, .max = IDENTITY_META_MAX)
#define TIME(type, member) RECORD_FIELD(type, member, U64, .max = TEXT_CLOCK_END - 1)

static const struct record_field entity_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct identity_entity, disabled, FLAG, .mask = 1),
    RECORD_FIELD(struct identity_entity, name, TEXT0, .min = 1, .max = IDENTITY_NAME_MAX),
    TIME(struct identity_entity, created_ms),
    TIME(struct identity_entity, updated_ms),
    IDS("policies", struct identity_entity, policies, 256),
    PAIRS("metadata", struct identity_entity, metadata),
    IDS("merged", struct identity_entity, merged, IDENTITY_MERGED_MAX),
};
static const struct record entity_record = {RECORD(struct identity_entity, entity_fields),
                                            .name = "identity/entity", .key = "s/ns/*/entity/",
                                            .newest = 1};
RECORD_LISTED(entity_record);

#define ALIAS_FIELDS                                                                          \
    RECORD_FIELD(struct identity_alias, owner, TEXT0, .min = 1,                               \
                 .help = "id of the entity or group"),                                        \
        RECORD_FIELD(struct identity_alias, accessor, TEXT0, .min = 1,                        \
                     .help = "accessor of the mount"),                                        \
        RECORD_FIELD(struct identity_alias, name, TEXT0, .min = 1, .max = IDENTITY_NAME_MAX), \
        TIME(struct identity_alias, created_ms), TIME(struct identity_alias, updated_ms),     \
        PAIRS("metadata", struct identity_alias, metadata),                                   \
        PAIRS("custom_metadata", struct identity_alias, custom_metadata),                     \
        IDS("merged_from", struct identity_alias, merged_from, IDENTITY_MERGED_MAX)

static const struct record_field alias_fields[] = {ALIAS_FIELDS};
static const struct record alias_record = {RECORD(struct identity_alias, alias_fields),
                                           .name = "identity/alias", .key = "s/ns/*/alias/",
                                           .newest = 1};
RECORD_LISTED(alias_record);

static const struct record_field group_alias_fields[] = {ALIAS_FIELDS};
static const struct record group_alias_record = {RECORD(struct identity_alias, group_alias_fields),
                                                 .name = "identity/group-alias",
                                                 .key = "s/ns/*/group-alias/", .newest = 1};
RECORD_LISTED(group_alias_record);

static const struct record_field group_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct identity_group, external, FLAG, .mask = 1),
    RECORD_FIELD(struct identity_group, name, TEXT0, .min = 1, .max = IDENTITY_NAME_MAX),
    TIME(struct identity_group, created_ms),
    TIME(struct identity_group, updated_ms),
    RECORD_FIELD(struct identity_group, alias, TEXT0, .help = "id of its alias; empty: none"),
    IDS("policies", struct identity_group, policies, 256),
    PAIRS("metadata", struct identity_group, metadata),
    IDS("parents", struct identity_group, parents, IDENTITY_GROUPS_MAX),
};
static const struct record group_record = {RECORD(struct identity_group, group_fields),
                                           .name = "identity/group", .key = "s/ns/*/group/",
                                           .newest = 1};
RECORD_LISTED(group_record);

static const struct {
    const char *key;
    const struct record *record;
} kinds[] = {
    [IDENTITY_ENTITY] = {"entity", &entity_record},
    [IDENTITY_ALIAS] = {"alias", &alias_record},
    [IDENTITY_GROUP] = {"group", &group_record},
    [IDENTITY_GROUP_ALIAS] = {"group-alias", &group_alias_record},
};

enum status identity_key(struct arena *arena, const char *ns, enum identity_kind kind,
                         const char *id, struct bytes *ret_key)
{
    ASSERT((size_t)kind < ARRAY_LEN(kinds));
    return state_ns_key(arena, ns, kinds[kind].key, bytes_str(id), NULL, ret_key);
}

/* Set the members that a record does not hold. */
static void complete_record(enum identity_kind kind, const char *id, void *decoded)
{
    if (kind == IDENTITY_ENTITY) {
        struct identity_entity *e = decoded;
        e->id = id;
        e->policies.given = e->merged.given = e->metadata.given = true;
    } else if (kind == IDENTITY_GROUP) {
        struct identity_group *g = decoded;
        g->id = id;
        g->policies.given = g->parents.given = g->metadata.given = true;
    } else {
        struct identity_alias *a = decoded;
        a->id = id;
        a->merged_from.given = a->metadata.given = a->custom_metadata.given = true;
    }
}

enum status identity_record_decode(enum identity_kind kind, struct bytes record,
                                   struct arena *arena, const char *id, void *ret)
{
    memset(ret, 0, kinds[kind].record->size);
    TRY(record_decode(kinds[kind].record, record, arena, ret));
    complete_record(kind, id, ret);
    return ST_OK;
}

enum status identity_record_load(struct state_txn *txn, const char *ns, enum identity_kind kind,
                                 const char *id, void *ret)
{
    struct state_value stored;
    struct bytes key;
    const char *own = arena_str(txn->arena, bytes_str(id));
    ASSERT((size_t)kind < ARRAY_LEN(kinds));
    if (own == NULL)
        return ST_NOMEM;
    if (id[0] == '\0' || strlen(id) > IDENTITY_NAME_MAX)
        return ST_NOT_FOUND;
    TRY(identity_key(txn->arena, ns, kind, id, &key));
    TRY(state_get(txn, key, &stored));
    TRY(identity_record_decode(kind, stored.value, txn->arena, own, ret));
    if (kind == IDENTITY_GROUP)
        ((struct identity_group *)ret)->version = stored.modified;
    return ST_OK;
}

enum status identity_record_save(struct state_txn *txn, const char *ns, enum identity_kind kind,
                                 const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;
    const char *id = kind == IDENTITY_ENTITY  ? ((const struct identity_entity *)from)->id
                     : kind == IDENTITY_GROUP ? ((const struct identity_group *)from)->id
                                              : ((const struct identity_alias *)from)->id;
    ASSERT((size_t)kind < ARRAY_LEN(kinds));
    ASSERT(id[0] != '\0');
    TRY(record_encode(kinds[kind].record, from, &record));
    TRY(identity_key(txn->arena, ns, kind, id, &key));
    return state_put(txn, key, buf_bytes(&record));
}

enum status identity_entity_find(struct state_txn *txn, const char *ns, const char *id,
                                 struct identity_entity *ret_entity)
{
    const char *target;
    enum status st = identity_record_load(txn, ns, IDENTITY_ENTITY, id, ret_entity);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(identity_find_id(txn, ns, "merged", id, NULL, &target));
    return identity_record_load(txn, ns, IDENTITY_ENTITY, target, ret_entity);
}

const char *identity_fold(struct arena *arena, const char *name)
{
    char *folded = arena_str(arena, bytes_str(name));
    for (char *c = folded; c != NULL && *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    return folded;
}

enum status identity_find_id(struct state_txn *txn, const char *ns, const char *kind,
                             const char *first, const char *second, const char **ret_id)
{
    struct state_value stored;
    struct bytes key;
    ASSERT(txn->open);
    if (first[0] == '\0' || strlen(first) > IDENTITY_NAME_MAX ||
        (second != NULL && (second[0] == '\0' || strlen(second) > IDENTITY_NAME_MAX)))
        return ST_NOT_FOUND;
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), second, &key));
    TRY(state_get(txn, key, &stored));
    *ret_id = arena_str(txn->arena, stored.value);
    return *ret_id != NULL ? ST_OK : ST_NOMEM;
}

enum status identity_put_id(struct state_txn *txn, const char *ns, const char *kind,
                            const char *first, const char *second, const char *id)
{
    struct bytes key;
    ASSERT(first[0] != '\0' && id[0] != '\0');
    ASSERT(strlen(first) <= IDENTITY_NAME_MAX);
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), second, &key));
    return state_put(txn, key, bytes_str(id));
}

enum status identity_mark(struct state_txn *txn, const char *ns, const char *kind,
                          const char *first, const char *second)
{
    struct bytes key;
    ASSERT(first[0] != '\0' && second[0] != '\0');
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), second, &key));
    return state_put_name(txn, key, false);
}

enum status identity_unmark(struct state_txn *txn, const char *ns, const char *kind,
                            const char *first, const char *second)
{
    struct bytes key;
    ASSERT(first[0] != '\0' && (second == NULL || second[0] != '\0'));
    ASSERT(kind[0] != '\0' && strlen(first) <= IDENTITY_NAME_MAX);
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), second, &key));
    return state_delete(txn, key);
}

enum status identity_is_marked(struct state_txn *txn, const char *ns, const char *kind,
                               const char *first, const char *second)
{
    struct bytes key;
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), second, &key));
    return state_exists(txn, key);
}

enum status identity_marks(struct state_txn *txn, const char *ns, const char *kind,
                           const char *first, size_t max, struct field_strings *ret_ids)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    ASSERT(first[0] != '\0');
    struct bytes prefix;
    size_t n = 0, room = 8;
    const char **ids = arena_alloc(txn->arena, room * sizeof *ids);
    if (iter == NULL || ids == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), "", &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        if (n == max)
            return ST_TOO_BIG;
        if (n == room) {
            const char **more = arena_alloc(txn->arena, 2 * room * sizeof *more);
            if (more == NULL)
                return ST_NOMEM;
            memcpy(more, ids, n * sizeof *ids);
            ids = more;
            room *= 2;
        }
        ids[n] = arena_str(txn->arena, bytes_from(iter->key, iter->prefix.len));
        if (ids[n++] == NULL)
            return ST_NOMEM;
    }
    *ret_ids = (struct field_strings){ids, n, true};
    return ST_OK;
}
