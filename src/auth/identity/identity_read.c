/* Reading an entity with all that it means for a request. */
#include "auth/identity/identity_internal.h"

#include <stdlib.h>

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status identity_read_record(struct identity_reading *r, enum identity_kind kind,
                                        const char *id, void *ret, struct state_stamp *ret_stamp)
{
    struct state_value stored;
    struct bytes key;
    const char *own = arena_str(r->arena, bytes_str(id));
    ASSERT(id[0] != '\0');
    TRY(identity_key(r->txn->arena, r->ns, kind, id, &key));
    TRY(state_get(r->txn, key, &stored));
    uint8_t *copy = arena_dup(r->arena, stored.value);
    if (own == NULL || copy == NULL)
        return ST_NOMEM;
    if (ret_stamp != NULL)
        TRY(state_stamp(r->txn, key, ret_stamp));
    return identity_record_decode(kind, bytes_of(copy, stored.value.len), r->arena, own, ret);
}

static enum status read_aliases(struct identity_reading *r)
{
    struct identity *out = r->out;
    struct field_strings ids;
    TRY(identity_marks(r->txn, r->ns, "has-alias", out->entity.id, IDENTITY_ALIASES_MAX, &ids));
    struct identity_alias *aliases = arena_alloc(r->arena, (ids.n + 1) * sizeof *aliases);
    if (aliases == NULL)
        return ST_NOMEM;
    out->aliases = aliases;
    ASSERT(out->n_aliases == 0);
    for (size_t i = 0; i < ids.n; i++) {
        enum status st =
            identity_read_record(r, IDENTITY_ALIAS, ids.items[i], &aliases[out->n_aliases], NULL);
        if (st != ST_NOT_FOUND)
            TRY(st);
        out->n_aliases += st == ST_OK;
    }
    return ST_OK;
}

static bool has_group(const struct identity_reading *r, const char *id)
{
    for (size_t i = 0; i < r->out->n_groups; i++)
        if (strcmp(r->groups[i].id, id) == 0)
            return true;
    return false;
}

/* Add the groups that exist and are not there yet. */
static enum status add_groups(struct identity_reading *r, const struct field_strings *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = r->out->n_groups;
        ASSERT(n <= r->room && n <= IDENTITY_REACHED_MAX);
        if (has_group(r, ids->items[i]))
            continue;
        if (n == IDENTITY_REACHED_MAX)
            return ST_TOO_BIG;
        if (n == r->room) {
            size_t room = MAX(2 * n, (size_t)8);
            struct identity_group *more = arena_alloc(r->arena, room * sizeof *more);
            struct state_stamp *stamps = arena_alloc(r->arena, room * sizeof *stamps);
            if (more == NULL || stamps == NULL)
                return ST_NOMEM;
            if (n != 0) {
                memcpy(more, r->groups, n * sizeof *more);
                memcpy(stamps, r->stamps, n * sizeof *stamps);
            }
            r->groups = more;
            r->stamps = stamps;
            r->room = room;
        }
        enum status st =
            identity_read_record(r, IDENTITY_GROUP, ids->items[i], &r->groups[n], &r->stamps[n]);
        if (st != ST_NOT_FOUND)
            TRY(st);
        r->out->n_groups += st == ST_OK;
    }
    return ST_OK;
}

static enum status read_groups(struct identity_reading *r)
{
    struct field_strings ids;
    TRY(identity_marks(r->txn, r->ns, "member", r->out->entity.id, IDENTITY_REACHED_MAX, &ids));
    TRY(add_groups(r, &ids));
    r->out->n_direct = r->out->n_groups;
    for (size_t i = 0; i < r->out->n_groups; i++) {
        const struct field_strings parents = r->groups[i].parents;
        TRY(add_groups(r, &parents));
    }
    r->out->groups = r->groups;
    ASSERT(r->out->n_direct <= r->out->n_groups);
    return ST_OK;
}

/* The policies of the entity and of its groups, each once, in order. */
static enum status unite_policies(struct identity_reading *r)
{
    struct identity *out = r->out;
    size_t n = out->entity.policies.n, kept = 0;
    for (size_t i = 0; i < out->n_groups; i++)
        n += out->groups[i].policies.n;
    const char **names = arena_alloc(r->arena, (n + 1) * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    n = 0;
    for (size_t i = 0; i < out->entity.policies.n; i++)
        names[n++] = out->entity.policies.items[i];
    for (size_t i = 0; i < out->n_groups; i++)
        for (size_t k = 0; k < out->groups[i].policies.n; k++)
            names[n++] = out->groups[i].policies.items[k];
    if (n != 0)
        qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    ASSERT(kept <= n);
    out->policies = (struct field_strings){names, kept, true};
    return ST_OK;
}

enum status identity_gather(struct identity_reading *r, const char *id)
{
    struct identity *out = r->out;
    ASSERT(r->groups == NULL && r->room == 0);
    *out = (struct identity){.n_groups = 0};
    const char *present = id;
    enum status st = identity_read_record(r, IDENTITY_ENTITY, id, &out->entity, NULL);
    if (st == ST_NOT_FOUND) {
        TRY(identity_find_id(r->txn, r->ns, "merged", id, NULL, &present));
        st = identity_read_record(r, IDENTITY_ENTITY, present, &out->entity, NULL);
    }
    TRY(st);
    TRY(read_aliases(r));
    TRY(read_groups(r));
    return unite_policies(r);
}

enum status identity_read(struct state_txn *txn, const char *ns, const char *id,
                          struct identity *ret_identity)
{
    struct identity_reading r = {.txn = txn, .ns = ns, .arena = txn->arena, .out = ret_identity};
    if (id[0] == '\0' || strlen(id) > IDENTITY_NAME_MAX)
        return ST_NOT_FOUND;
    return identity_gather(&r, id);
}
