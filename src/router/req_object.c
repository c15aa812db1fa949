#include "router/req_object.h"

static enum status object_load_tree(struct req *req, const struct mount *mount, const char *path,
                                    const struct text_value **ret_tree)
{
    struct state_value stored;
    struct bytes key;
    ASSERT(mount != NULL);
    TRY(mount_key(req->arena, req->ns, mount, path, &key));
    TRY(state_get(req->txn, key, &stored));
    enum status st = text_json_parse(req->arena, stored.value, ret_tree, NULL);
    if (st == ST_OK && (*ret_tree)->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

enum status req_object_load(struct req *req, const struct mount *mount, const char *path,
                            const struct schema *schema, void *ret_struct)
{
    const struct text_value *tree;
    struct schema_fault fault;
    ASSERT(req_in_txn(req) && path != NULL);
    TRY(object_load_tree(req, mount, path, &tree));
    enum status st = schema_decode(schema, tree, req->arena, ret_struct, &fault);
    return st == ST_INVALID ? ST_CORRUPT : st;
}

enum status req_object_exists(struct req *req, const char *path)
{
    struct bytes key;
    TRY(req_key(req, path, &key));
    return state_exists(req->txn, key);
}

enum status req_object_save(struct req *req, const char *path, const struct schema *schema,
                            const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    struct bytes key;
    ASSERT(req->mount != NULL && path != NULL);
    schema_encode(schema, from, &w);
    TRY(buf_status(&record));
    TRY(req_key(req, path, &key));
    return state_put(req->txn, key, buf_bytes(&record));
}

static const char *present_name(const struct req_old_names *old, const char *name)
{
    for (size_t i = 0; i < old->n; i++)
        if (strcmp(old->items[i][0], name) == 0)
            return old->items[i][1];
    return name;
}

/* Whether a member says no more than that its field is not given, see schema.h. Only the fields
 * that are lists or texts can be emptied by an empty text. */
static bool is_blank(const struct schema *schema, const struct text_value *member, const char *name)
{
    ASSERT(name != NULL && schema->fields != NULL);
    if (member->kind != TEXT_STRING || member->text.len != 0)
        return member->kind == TEXT_NULL;
    for (size_t i = 0; i < schema->n; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return schema->fields[i].kind == FIELD_BOOL || schema->fields[i].kind == FIELD_INT ||
                   schema->fields[i].kind == FIELD_DURATION;
    return false;
}

/* Copy the members of `from` that `to` does not have yet. A present name beside an old one wins. */
static enum status object_add_members(struct req *req, const struct req_object *object,
                                      struct text_value *to, const struct text_value *from)
{
    ASSERT(to->kind == TEXT_OBJECT && from->kind == TEXT_OBJECT);
    TEXT_FOR (member, from) {
        const char *given = arena_str(req->arena, member->name);
        if (given == NULL)
            return ST_NOMEM;
        const char *name = present_name(&object->old, given);
        const struct text_value *other = name != given ? text_get(from, name) : NULL;
        bool superseded = other != NULL && !is_blank(object->schema, other, name);
        if (is_blank(object->schema, member, name) || superseded || text_get(to, name) != NULL)
            continue;
        struct text_value *copy = text_value_new(req->arena, to, member->kind, bytes_str(name));
        if (copy == NULL)
            return ST_NOMEM;
        copy->text = member->text;
        copy->truth = member->truth;
        copy->line = member->line;
        copy->first = member->first;
        copy->last = member->last;
        copy->n = member->n;
    }
    return ST_OK;
}

enum status req_object_change(struct req *req, const struct req_object *object, void *ret_struct,
                              bool *ret_stored)
{
    struct text_value *merged = text_value_new(req->arena, NULL, TEXT_OBJECT, BYTES(""));
    const struct text_value *stored;
    struct schema_fault fault;
    ASSERT(object->path != NULL && object->schema->size != 0);
    ASSERT(req->data != NULL && req->mount != NULL);
    if (merged == NULL)
        return ST_NOMEM;
    TRY(object_add_members(req, object, merged, req->data));
    enum status st = object_load_tree(req, req->mount, object->path, &stored);
    *ret_stored = st == ST_OK;
    if (st == ST_OK)
        st = object_add_members(req, object, merged, stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    st = schema_decode(object->schema, merged, req->arena, ret_struct, &fault);
    if (st == ST_INVALID)
        return req_fail(req, st, "Field validation failed: %s: %s", fault.field, fault.why.text);
    return st;
}
