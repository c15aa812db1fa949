#include "router/request/req_entity.h"

#include <stdlib.h>

struct held_entity {
    struct identity_ref *ref;
    struct req_cleanup cleanup;
};

static void drop_entity(struct req_cleanup *cleanup)
{
    identity_ref_drop(CONTAINER_OF(cleanup, struct held_entity, cleanup)->ref);
}

enum status req_entity(struct req *req, const struct auth_token *token,
                       const struct identity **ret_identity)
{
    ASSERT(req_in_txn(req) && token->entity_id[0] != '\0');
    struct held_entity *held = arena_zalloc(req->arena, sizeof *held);
    if (held == NULL)
        return ST_NOMEM;
    enum status st =
        identity_hold(req->identities, req->txn, req->ns, token->entity_id, &held->ref);
    if (st == ST_NOT_FOUND)
        return ST_DENIED;
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_DENIED, "the entity is a member of more than %d groups",
                        IDENTITY_REACHED_MAX);
    TRY(st);
    held->cleanup.run = drop_entity;
    req_defer(req, &held->cleanup);
    const struct identity *identity = identity_ref_get(held->ref);
    ASSERT(identity->serial != 0);
    if (identity->entity.disabled)
        return ST_DENIED;
    *ret_identity = identity;
    return ST_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum status req_unite_policies(struct req *req, const struct field_strings *add,
                               struct field_strings *to)
{
    size_t n = to->n + add->n, kept = 0;
    const char **names = arena_alloc(req->arena, (n + 1) * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    if (to->n != 0)
        memcpy(names, to->items, to->n * sizeof *names);
    if (add->n != 0)
        memcpy(names + to->n, add->items, add->n * sizeof *names);
    ASSERT(to->n <= n && add->n <= n);
    if (n != 0)
        qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    ASSERT(kept <= n);
    *to = (struct field_strings){names, kept, true};
    return ST_OK;
}

enum status req_entity_names(struct req *req, const struct identity *identity,
                             struct acl_names *names)
{
    const struct field_strings *own = &names->list, *more = &identity->policies;
    const char **items = arena_alloc(req->arena, (own->n + more->n + 1) * sizeof *items);
    uint64_t serial = identity->serial;
    uint8_t *text = arena_alloc(req->arena, names->text.len + sizeof serial);
    ASSERT(serial != 0 && names->text.len != 0); /* every token was read from a record */
    if (items == NULL || text == NULL)
        return ST_NOMEM;
    if (own->n != 0)
        memcpy(items, own->items, own->n * sizeof *items);
    if (more->n != 0)
        memcpy(items + own->n, more->items, more->n * sizeof *items);
    memcpy(text, names->text.data, names->text.len);
    memcpy(text + names->text.len, &serial, sizeof serial);
    names->list = (struct field_strings){items, own->n + more->n, true};
    names->text = bytes_of(text, names->text.len + sizeof serial);
    names->hash ^= bytes_hash(bytes_of(text + names->text.len - sizeof serial, sizeof serial));
    names->identity = identity;
    return ST_OK;
}

enum status req_entity_policies(struct req *req, const struct auth_token *token,
                                struct field_strings *ret_policies)
{
    struct identity identity;
    ASSERT(req_in_txn(req) && token->entity_id != NULL);
    *ret_policies = (struct field_strings){0};
    if (token->entity_id[0] == '\0')
        return ST_OK;
    enum status st = identity_read(req->txn, req->ns, token->entity_id, &identity);
    if (st == ST_NOT_FOUND || (st == ST_OK && identity.entity.disabled))
        return ST_OK;
    TRY(st);
    *ret_policies = identity.policies;
    return ST_OK;
}
