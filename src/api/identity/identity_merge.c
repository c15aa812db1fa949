/* Merge entities into another one: their aliases and memberships move, their tokens go on as tokens
 * of the target. Policies and metadata do not move. One transaction. */
#include "api/identity/identity.h"

enum { MERGE_MAX = 1000 }; /* aliases and memberships that a merge moves */

struct merge_in {
    struct field_strings from_entity_ids, keep;
    const char *to_entity_id;
    bool force;
};
static const struct field merge_fields[] = {
    FIELD(struct merge_in, from_entity_ids, STRINGS, .help = "Ids of the entities that end."),
    FIELD(struct merge_in, to_entity_id, STRING, .preset = "", .help = "Id of the target."),
    FIELD(struct merge_in, force, BOOL,
          .help = "Where both have a second factor of one method, keep that of the target."),
    FIELD_NAMED("conflicting_alias_ids_to_keep", struct merge_in, keep, STRINGS,
                .help = "Where two aliases stand on one mount: the ids of those that stay."),
};
static const struct schema merge_schema = SCHEMA(struct merge_in, merge_fields);

struct merge {
    struct identity_entity to;
    struct identity_entity *from;
    size_t n_from, n_moved;
    struct identity_alias *aliases; /* of all of them */
    const struct identity_entity **owners;
    bool *drop; /* aliases that end, as the request says */
    size_t n_aliases;
};

static bool has(const struct field_strings *list, const char *item)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

static enum status load_entities(struct req *req, const struct merge_in *in, struct merge *m)
{
    enum status st =
        identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, in->to_entity_id, &m->to);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "entity id to merge to is invalid");
    TRY(st);
    m->from = arena_alloc(req->arena, (in->from_entity_ids.n + 1) * sizeof *m->from);
    if (m->from == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < in->from_entity_ids.n; i++) {
        const struct field_strings before = {.items = in->from_entity_ids.items, .n = i};
        const char *id = in->from_entity_ids.items[i];
        if (has(&before, id))
            continue;
        st = identity_record_load(req->txn, req->ns, IDENTITY_ENTITY, id, &m->from[m->n_from]);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID, "entity id to merge from is invalid: \"%.64s\"", id);
        TRY(st);
        m->n_from++;
    }
    return ST_OK;
}

static enum status too_many(struct req *req)
{
    return req_fail(req, ST_INVALID,
                    "from_entity_ids: more than %d aliases and memberships: merge fewer entities "
                    "at a time, or take the entity out of groups first",
                    MERGE_MAX);
}

static enum status load_aliases(struct req *req, struct merge *m,
                                const struct identity_entity *owner)
{
    struct field_strings ids;
    enum status st = identity_marks(req->txn, req->ns, "has-alias", owner->id,
                                    2 * MERGE_MAX - m->n_aliases, &ids);
    if (st == ST_TOO_BIG)
        return too_many(req);
    TRY(st);
    for (size_t i = 0; i < ids.n; i++) {
        m->owners[m->n_aliases] = owner;
        TRY(identity_record_load(req->txn, req->ns, IDENTITY_ALIAS, ids.items[i],
                                 &m->aliases[m->n_aliases++]));
    }
    return ST_OK;
}

static enum status load_all_aliases(struct req *req, struct merge *m)
{
    m->aliases = arena_alloc(req->arena, 2 * MERGE_MAX * sizeof *m->aliases);
    m->owners = arena_alloc(req->arena, 2 * MERGE_MAX * sizeof(void *));
    m->drop = arena_zalloc(req->arena, 2 * MERGE_MAX * sizeof *m->drop);
    if (m->aliases == NULL || m->owners == NULL || m->drop == NULL)
        return ST_NOMEM;
    TRY(load_aliases(req, m, &m->to));
    for (size_t i = 0; i < m->n_from; i++)
        TRY(load_aliases(req, m, &m->from[i]));
    return ST_OK;
}

/* Decide which aliases of a mount stay. Returns whether the request leaves that open. */
static bool is_open(const struct merge *m, const struct field_strings *keep, size_t first)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < m->n_aliases; i++)
        if (strcmp(m->aliases[i].accessor, m->aliases[first].accessor) == 0) {
            n++;
            kept += has(keep, m->aliases[i].id);
        }
    if (n < 2)
        return false;
    for (size_t i = 0; i < m->n_aliases && kept == 1; i++)
        if (strcmp(m->aliases[i].accessor, m->aliases[first].accessor) == 0)
            m->drop[i] = !has(keep, m->aliases[i].id);
    return kept != 1;
}

struct conflict {
    const char *alias, *entity, *entity_id, *mount, *mount_path;
};
static const struct field conflict_fields[] = {
    FIELD(struct conflict, alias, STRING),      FIELD(struct conflict, entity, STRING),
    FIELD(struct conflict, entity_id, STRING),  FIELD(struct conflict, mount, STRING),
    FIELD(struct conflict, mount_path, STRING),
};
static const struct schema conflict_schema = SCHEMA(struct conflict, conflict_fields);

/* A refusal that lists every alias which has another one beside it on its mount. */
struct refusal {
    struct field_strings errors;
    struct field_list data;
};
static const struct field refusal_fields[] = {
    FIELD(struct refusal, errors, STRINGS),
    FIELD(struct refusal, data, LIST, .sub = &conflict_schema, .omit = true),
};
static const struct schema refusal_schema = SCHEMA(struct refusal, refusal_fields);

/* *ret_refused: the reply lists conflicts. */
static enum status settle_aliases(struct req *req, const struct merge_in *in, struct merge *m,
                                  bool *ret_refused)
{
    static const char *const texts[] = {
        "toEntity and at least one fromEntity have aliases with the same mount accessor, repeat "
        "the "
        "merge request specifying exactly one fromEntity, clashes: see data. Name the aliases that "
        "stay in conflicting_alias_ids_to_keep"};
    struct identity_mounts mounts;
    struct conflict *conflicts = arena_alloc(req->arena, 2 * MERGE_MAX * sizeof *conflicts);
    size_t n = 0;
    if (conflicts == NULL)
        return ST_NOMEM;
    TRY(identity_mounts_load(req, &mounts));
    for (size_t i = 0; i < m->n_aliases; i++)
        if (is_open(m, &in->keep, i))
            conflicts[n++] = (struct conflict){
                .alias = m->aliases[i].id,
                .entity = m->owners[i]->name,
                .entity_id = m->owners[i]->id,
                .mount = identity_mount_type(&mounts, m->aliases[i].accessor),
                .mount_path = identity_mount_path(&mounts, m->aliases[i].accessor)};
    *ret_refused = n != 0;
    if (n == 0)
        return ST_OK;
    const struct refusal out = {.errors = {texts, 1, true}, .data = {conflicts, n}};
    req->reply.http = 400;
    return req_reply(req, &out);
}

static enum status append_id(struct req *req, struct field_strings *list, const char *id)
{
    const char **ids = arena_alloc(req->arena, (list->n + 1) * sizeof *ids);
    if (ids == NULL)
        return ST_NOMEM;
    if (list->n == IDENTITY_MERGED_MAX)
        return req_fail(req, ST_INVALID, "%d entities were merged into the entity already",
                        IDENTITY_MERGED_MAX);
    if (list->n != 0)
        memcpy(ids, list->items, list->n * sizeof *ids);
    ids[list->n] = id;
    *list = (struct field_strings){ids, list->n + 1, true};
    return ST_OK;
}

static enum status move_aliases(struct req *req, struct merge *m)
{
    for (size_t i = 0; i < m->n_aliases; i++) {
        struct identity_alias *alias = &m->aliases[i];
        if (m->drop[i]) {
            TRY(identity_drop_alias(req, alias));
            continue;
        }
        if (m->owners[i] == &m->to)
            continue;
        m->n_moved++;
        TRY(identity_unmark(req->txn, req->ns, "has-alias", alias->owner, alias->id));
        TRY(append_id(req, &alias->merged_from, alias->owner));
        alias->owner = m->to.id;
        alias->updated_ms = MAX(req->now_ms, alias->created_ms);
        TRY(identity_change_alias(req->txn, req->ns, alias));
    }
    return ST_OK;
}

static enum status move_groups(struct req *req, struct merge *m, const char *from)
{
    struct field_strings ids;
    enum status st = identity_marks(req->txn, req->ns, "member", from, MERGE_MAX, &ids);
    if (st == ST_TOO_BIG)
        return too_many(req);
    TRY(st);
    for (size_t i = 0; i < ids.n; i++)
        TRY(identity_join(req->txn, req->ns, m->to.id, ids.items[i], true));
    m->n_moved += ids.n;
    return m->n_moved > MERGE_MAX ? too_many(req) : ST_OK;
}

/* Let the ids of an entity, and of those merged into it before, lead to the target. */
static enum status redirect(struct req *req, struct merge *m, const struct identity_entity *from)
{
    TRY(append_id(req, &m->to.merged, from->id));
    TRY(identity_put_id(req->txn, req->ns, "merged", from->id, NULL, m->to.id));
    for (size_t i = 0; i < from->merged.n; i++) {
        TRY(append_id(req, &m->to.merged, from->merged.items[i]));
        TRY(identity_put_id(req->txn, req->ns, "merged", from->merged.items[i], NULL, m->to.id));
    }
    return ST_OK;
}

/* A merge must not give back what a disabled entity was refused: its tokens become the target's. */
static enum status refuse_disabled(struct req *req, const struct merge *m)
{
    ASSERT(m->n_from > 0);
    if (m->to.disabled)
        return ST_OK;
    for (size_t i = 0; i < m->n_from; i++)
        if (m->from[i].disabled)
            return req_fail(req, ST_INVALID,
                            "entity %s is disabled, and its tokens would be valid again: enable it "
                            "first, or disable the entity to merge to",
                            m->from[i].id);
    return ST_OK;
}

static enum status merge_entities(struct req *req)
{
    const struct merge_in *in = req_body(req);
    struct merge m = {.n_from = 0};
    bool refused;
    (void)in->force; /* entities have no second factors yet, so none conflict */
    if (in->from_entity_ids.n == 0)
        return req_fail(req, ST_INVALID, "missing entity ids to merge from");
    if (in->from_entity_ids.n > MERGE_MAX)
        return too_many(req);
    if (in->to_entity_id[0] == '\0')
        return req_fail(req, ST_INVALID, "missing entity id to merge to");
    if (has(&in->from_entity_ids, in->to_entity_id))
        return req_fail(req, ST_INVALID, "to_entity_id should not be present in from_entity_ids");
    TRY(load_entities(req, in, &m));
    TRY(refuse_disabled(req, &m));
    TRY(load_all_aliases(req, &m));
    TRY(settle_aliases(req, in, &m, &refused));
    if (refused)
        return ST_OK;
    TRY(move_aliases(req, &m));
    for (size_t i = 0; i < m.n_from; i++) {
        TRY(move_groups(req, &m, m.from[i].id));
        struct identity_entity from = m.from[i];
        from.merged.n = 0; /* the keys of these ids lead to the target now */
        TRY(identity_drop_entity(req, &from));
        TRY(redirect(req, &m, &m.from[i]));
    }
    m.to.updated_ms = MAX(req->now_ms, m.to.created_ms);
    return identity_record_save(req->txn, req->ns, IDENTITY_ENTITY, &m.to);
}

static const struct route merge_routes[] = {
    {.method = METHOD_POST,
     .path = "entity/merge",
     .handler = merge_entities,
     .form = FORM_BARE,
     .body = &merge_schema,
     .reply = &refusal_schema,
     .statuses = "204 400",
     .help = "Merge entities, with their aliases and groups, into another one. Their tokens go on "
             "as its tokens."},
};
const struct route_table identity_merge_table = {merge_routes, ARRAY_LEN(merge_routes)};
