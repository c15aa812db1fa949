#include "api/platform/platform_object.h"
#include "base/record.h"
#include "text/random.h"
#include "text/time.h"

#include <inttypes.h>

#define KEYS STATE_SHARED "platform/"

enum { ID_RANDOM = 16 };

struct stored {
    const char *type, *parent, *name;
    int64_t created_ms, updated_ms;
    struct bytes body;
};
static const struct record_field stored_fields[] = {
    RECORD_FIELD(struct stored, type, TEXT0, .min = 1, .max = PLATFORM_ID_MAX),
    RECORD_FIELD(struct stored, parent, TEXT0, .min = 1, .max = PLATFORM_ID_MAX),
    RECORD_FIELD(struct stored, name, TEXT0, .max = PLATFORM_NAME_MAX),
    RECORD_FIELD(struct stored, created_ms, VARINT, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct stored, updated_ms, VARINT, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct stored, body, REST, .secret = true,
                 .help = "JSON: attributes `a` and links `l`"),
};
static const struct record stored_record = {RECORD(struct stored, stored_fields),
                                            .name = "platform/object", .key = KEYS "object/",
                                            .newest = 1};
RECORD_LISTED(stored_record);

bool platform_is_id(struct bytes text)
{
    if (text.len == 0 || text.len > PLATFORM_ID_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

static enum status join_key(struct arena *arena, struct bytes *ret_key, const char *a,
                            const char *b, const char *c)
{
    const char *text = arena_format(arena, KEYS "%s%s%s", a, b, c);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

static enum status object_key(struct state_txn *txn, const char *id, struct bytes *ret_key)
{
    return join_key(txn->arena, ret_key, "object/", id, "");
}

static enum status place_key(struct state_txn *txn, const char *parent, const char *type,
                             const char *id, struct bytes *ret_key)
{
    const char *text = arena_format(txn->arena, KEYS "in/%s/%s/%s", parent, type, id);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

static enum status name_key(struct state_txn *txn, const char *parent, const char *type,
                            const char *name, struct bytes *ret_key)
{
    const char *text = arena_format(txn->arena, KEYS "name/%s/%s/%s", parent, type, name);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

/* A copy of an object whose members may be replaced: the values are shared. NULL: no memory. */
static struct text_value *own_members(struct arena *arena, const struct text_value *from)
{
    struct text_value *copy = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (copy == NULL || from == NULL)
        return copy;
    TEXT_FOR (v, from) {
        struct text_value *member = text_value_new(arena, copy, v->kind, v->name);
        if (member == NULL)
            return NULL;
        struct text_value whole = *v;
        whole.next = NULL;
        *member = whole;
    }
    return copy;
}

static enum status read_stored(struct state_txn *txn, struct bytes value,
                               struct platform_object *ret_object)
{
    struct stored stored;
    const struct text_value *body;
    TRY(record_decode(&stored_record, value, txn->arena, &stored));
    enum status st = text_json_parse(txn->arena, stored.body, &body, NULL);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    ret_object->type = stored.type;
    ret_object->parent = stored.parent;
    ret_object->name = stored.name;
    ret_object->created_ms = stored.created_ms;
    ret_object->updated_ms = stored.updated_ms;
    ret_object->attrs = own_members(txn->arena, text_get(body, "a"));
    ret_object->links = own_members(txn->arena, text_get(body, "l"));
    return ret_object->attrs != NULL && ret_object->links != NULL ? ST_OK : ST_NOMEM;
}

enum status platform_object_load(struct state_txn *txn, const char *type, const char *id,
                                 struct platform_object *ret_object)
{
    struct state_value value;
    struct bytes key;
    if (!platform_is_id(bytes_str(id)))
        return ST_NOT_FOUND;
    TRY(object_key(txn, id, &key));
    TRY(state_get(txn, key, &value));
    TRY(read_stored(txn, value.value, ret_object));
    ret_object->id = arena_str(txn->arena, bytes_str(id));
    if (ret_object->id == NULL)
        return ST_NOMEM;
    return type == NULL || strcmp(type, ret_object->type) == 0 ? ST_OK : ST_NOT_FOUND;
}

enum status platform_object_named(struct state_txn *txn, const char *parent, const char *type,
                                  const char *name, struct platform_object *ret_object)
{
    struct state_value value;
    struct bytes key;
    if (name[0] == '\0' || strlen(name) > PLATFORM_NAME_MAX)
        return ST_NOT_FOUND;
    TRY(name_key(txn, parent, type, name, &key));
    TRY(state_get(txn, key, &value));
    const char *id = arena_str(txn->arena, value.value);
    return id != NULL ? platform_object_load(txn, type, id, ret_object) : ST_NOMEM;
}

static enum status new_object(struct arena *arena, struct env *env, const char *type,
                              const char *prefix, int64_t now_ms,
                              struct platform_object *ret_object)
{
    char random[ID_RANDOM + 1];
    text_random(env, random, ID_RANDOM);
    *ret_object = (struct platform_object){
        .id = arena_concat(arena, prefix, random),
        .type = type,
        .parent = PLATFORM_ROOT,
        .name = "",
        .created_ms = now_ms,
        .updated_ms = now_ms,
        .attrs = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0}),
        .links = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0}),
    };
    bool made = ret_object->id != NULL && ret_object->attrs != NULL && ret_object->links != NULL;
    return made ? ST_OK : ST_NOMEM;
}

enum status platform_object_make(struct state_txn *txn, const char *type, const char *prefix,
                                 int64_t now_ms, struct platform_object *ret_object)
{
    return new_object(txn->arena, state_env(txn->state), type, prefix, now_ms, ret_object);
}

enum status platform_object_new(struct req *req, const char *type, const char *prefix,
                                struct platform_object *ret_object)
{
    return new_object(req->arena, req->env, type, prefix, req->now_ms, ret_object);
}

static enum status put_stored(struct state_txn *txn, const struct platform_object *object)
{
    CLEANUP(buf_done) struct buf body = {0}, record = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct bytes key;
    text_open_object(&w);
    text_key(&w, "a");
    text_put_value(&w, object->attrs);
    text_key(&w, "l");
    text_put_value(&w, object->links);
    text_close(&w);
    TRY(buf_status(&body));
    const struct stored stored = {object->type,       object->parent,     object->name,
                                  object->created_ms, object->updated_ms, buf_bytes(&body)};
    TRY(record_encode(&stored_record, &stored, &record));
    TRY(object_key(txn, object->id, &key));
    return state_put(txn, key, buf_bytes(&record));
}

static enum status take_name(struct state_txn *txn, const struct platform_object *object)
{
    struct bytes key;
    if (object->name[0] == '\0')
        return ST_OK;
    TRY(name_key(txn, object->parent, object->type, object->name, &key));
    enum status st = state_exists(txn, key);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? ST_EXISTS : st;
    return state_put(txn, key, bytes_str(object->id));
}

enum status platform_object_add(struct state_txn *txn, const struct platform_object *object)
{
    struct bytes place;
    ASSERT(platform_is_id(bytes_str(object->id)) && platform_is_id(bytes_str(object->parent)));
    TRY(take_name(txn, object));
    TRY(place_key(txn, object->parent, object->type, object->id, &place));
    TRY(state_put_name(txn, place, false));
    return put_stored(txn, object);
}

enum status platform_object_put(struct state_txn *txn, const char *before,
                                const struct platform_object *object)
{
    struct bytes key;
    if (strcmp(before, object->name) != 0) {
        TRY(take_name(txn, object));
        TRY(name_key(txn, object->parent, object->type, before, &key));
        if (before[0] != '\0')
            TRY(state_delete(txn, key));
    }
    return put_stored(txn, object);
}

/* Delete the keys of one resource. */
static enum status drop(struct state_txn *txn, const struct platform_object *object)
{
    struct bytes key;
    TRY(object_key(txn, object->id, &key));
    TRY(state_delete(txn, key));
    TRY(place_key(txn, object->parent, object->type, object->id, &key));
    TRY(state_delete(txn, key));
    if (object->name[0] == '\0')
        return ST_OK;
    TRY(name_key(txn, object->parent, object->type, object->name, &key));
    return state_delete(txn, key);
}

enum status platform_object_delete(struct state_txn *txn, const struct platform_object *object)
{
    struct bytes key;
    TRY(drop(txn, object));
    TRY(join_key(txn->arena, &key, "ended/", object->id, ""));
    return state_put_name(txn, key, true);
}

enum status platform_object_children(struct state_txn *txn, const char *parent, const char *type,
                                     struct platform_objects *ret_objects)
{
    struct state_iter iter;
    struct bytes prefix;
    size_t n = 0;
    TRY(place_key(txn, parent, type, "", &prefix));
    size_t room = (size_t)state_count(txn, prefix) + 16; /* more may be staged */
    struct platform_object *items = arena_alloc(txn->arena, room * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    TRY(state_scan(txn, prefix, (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        if (n == room) {
            struct platform_object *more = arena_alloc(txn->arena, 2 * room * sizeof *more);
            if (more == NULL)
                return ST_NOMEM;
            memcpy(more, items, n * sizeof *more);
            items = more;
            room *= 2;
        }
        const char *id = arena_str(txn->arena, bytes_from(iter.key, prefix.len));
        if (id == NULL)
            return ST_NOMEM;
        enum status st = platform_object_load(txn, type, id, &items[n]);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        n += st == ST_OK;
    }
    *ret_objects = (struct platform_objects){items, n};
    return ST_OK;
}

enum status platform_object_count(struct state_txn *txn, const char *parent, const char *type,
                                  size_t *ret_n)
{
    struct bytes prefix;
    uint64_t newest;
    TRY(place_key(txn, parent, type, "", &prefix));
    TRY(state_newest(txn, prefix, &newest));
    *ret_n = (size_t)state_count(txn, prefix);
    return ST_OK;
}
