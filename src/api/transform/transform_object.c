#include "api/transform/transform_object.h"

static const char *const kinds[] = {"role", "transformation", "template", "alphabet", "stores"};
/* kinds of the objects that name an object of a kind */
static const char *const users[] = {NULL, "role", "transformation", "template", "transformation"};

struct list_in {
    const char *filter;
};
static const struct field list_fields[] = {
    FIELD(struct list_in, filter, STRING, .preset = "*",
          .help = "Only names that match; '*' stands for any characters."),
};
const struct schema transform_list_schema = SCHEMA(struct list_in, list_fields);

bool transform_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_word && (c == '\0' || strchr("_-.+", c) == NULL))
            return false;
    }
    return name.len != 0 && name.len <= TRANSFORM_NAME_MAX;
}

bool transform_is_builtin(const char *name)
{
    return bytes_has_prefix(bytes_str(name), BYTES("builtin/"));
}

enum status transform_own_name(struct req *req, const char **ret_name)
{
    const char *name = req_param(req, "name");
    if (transform_is_builtin(name))
        return req_fail(req, ST_INVALID, "name: \"%.140s\" is built in and cannot be changed",
                        name);
    if (!transform_is_name(bytes_str(name)))
        return req_fail(req, ST_INVALID,
                        "name: 1 to %d letters, digits, '_', '-', '.' or '+' are expected",
                        TRANSFORM_NAME_MAX);
    *ret_name = name;
    return ST_OK;
}

enum status transform_check_reference(struct req *req, const char *field, const char *name)
{
    struct bytes text = bytes_str(name);
    if (transform_is_builtin(name))
        text = bytes_from(text, strlen("builtin/"));
    if (!transform_is_name(text))
        return req_fail(req, ST_INVALID, "%s: \"%.140s\" is no name", field, name);
    return ST_OK;
}

/* Linear but for one retry for each character: only the last '*' is tried again. */
bool transform_glob(const char *glob, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text != '\0') {
        if (*glob == '*') {
            star = glob++;
            retry = text;
        } else if (*glob == *text) {
            glob++;
            text++;
        } else if (star != NULL) {
            glob = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

enum status transform_key_of(struct req *req, const char *folder, const char *name,
                             struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "%s/%s", folder, name);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

enum status transform_exists(struct req *req, enum transform_kind kind)
{
    const char *name;
    struct bytes key;
    TRY(transform_own_name(req, &name));
    TRY(transform_key_of(req, kinds[kind], name, &key));
    return state_exists(req->txn, key);
}

enum status transform_load(struct req *req, enum transform_kind kind, const char *name,
                           const struct schema *schema, void *ret_struct)
{
    const struct text_value *tree;
    struct schema_fault fault;
    struct state_value stored;
    struct bytes key;
    if (!transform_is_name(bytes_str(name)))
        return ST_NOT_FOUND;
    TRY(transform_key_of(req, kinds[kind], name, &key));
    TRY(state_get(req->txn, key, &stored));
    enum status st = text_json_parse(req->arena, stored.value, &tree, NULL);
    if (st == ST_OK && tree->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    if (st == ST_OK)
        st = schema_decode(schema, tree, req->arena, ret_struct, &fault);
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

enum status transform_save(struct req *req, enum transform_kind kind, const char *name,
                           const struct schema *schema, const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    struct bytes key;
    ASSERT(transform_is_name(bytes_str(name)));
    schema_encode(schema, from, &w);
    TRY(buf_status(&record));
    TRY(transform_key_of(req, kinds[kind], name, &key));
    return state_put(req->txn, key, buf_bytes(&record));
}

enum status transform_delete(struct req *req, enum transform_kind kind, const char *name)
{
    struct bytes key;
    TRY(transform_key_of(req, kinds[kind], name, &key));
    return state_delete(req->txn, key);
}

/* Names of the state and built-in names, merged in order. */
struct merged {
    struct req_names names;
    struct state_iter stored;
    const char *const *builtins;
    size_t n, at;
    struct bytes next_stored; /* empty: no stored name is left */
    const char *filter;
    struct bytes after;
};

static void step_stored(struct merged *m)
{
    m->next_stored = state_iter_next(&m->stored) ? bytes_from(m->stored.key, m->stored.prefix.len)
                                                 : (struct bytes){0};
}

static enum status next_merged(struct req *req, struct req_names *names, struct bytes *ret_name)
{
    struct merged *m = CONTAINER_OF(names, struct merged, names);
    while (m->next_stored.len != 0 || m->at < m->n) {
        struct bytes builtin = m->at < m->n ? bytes_str(m->builtins[m->at]) : (struct bytes){0};
        bool takes_builtin =
            builtin.len != 0 && (m->next_stored.len == 0 || bytes_cmp(builtin, m->next_stored) < 0);
        const char *text =
            takes_builtin ? m->builtins[m->at++] : arena_str(req->arena, m->next_stored);
        if (text == NULL)
            return ST_NOMEM;
        if (!takes_builtin)
            step_stored(m);
        if (bytes_cmp(bytes_str(text), m->after) <= 0 || !transform_glob(m->filter, text))
            continue;
        *ret_name = bytes_str(text);
        return ST_OK;
    }
    return ST_NOT_FOUND;
}

enum status transform_list(struct req *req, enum transform_kind kind, const char *const *builtins,
                           size_t n)
{
    struct merged *m = arena_zalloc(req->arena, sizeof *m);
    struct bytes filter, prefix;
    if (m == NULL)
        return ST_NOMEM;
    TRY(req_query(req, "filter", &filter));
    TRY(req_query(req, "after", &m->after));
    m->filter = filter.len != 0 ? arena_str(req->arena, filter) : "*";
    if (m->filter == NULL)
        return ST_NOMEM;
    m->builtins = builtins;
    m->n = n;
    m->names.next = next_merged;
    TRY(transform_key_of(req, kinds[kind], "", &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, &m->stored));
    step_stored(m);
    return req_reply_names(req, &m->names);
}

static enum status used_key(struct req *req, enum transform_kind kind, const char *name,
                            const char *user, struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "used/%s/%s/%s", kinds[kind], name, user);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

enum status transform_use(struct req *req, enum transform_kind kind, const char *user,
                          const struct field_strings *before, const struct field_strings *after)
{
    struct bytes key;
    for (size_t i = 0; i < before->n; i++) {
        if (kind == TRANSFORM_STORE && transform_is_builtin(before->items[i]))
            continue; /* a built-in store cannot be deleted */
        TRY(used_key(req, kind, before->items[i], user, &key));
        TRY(state_delete(req->txn, key));
    }
    for (size_t i = 0; i < after->n; i++) {
        if (kind == TRANSFORM_STORE && transform_is_builtin(after->items[i]))
            continue;
        TRY(used_key(req, kind, after->items[i], user, &key));
        TRY(state_put_name(req->txn, key, false));
    }
    return ST_OK;
}

enum status transform_check_unused(struct req *req, enum transform_kind kind, const char *name)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    ASSERT(kind > TRANSFORM_ROLE);
    if (iter == NULL)
        return ST_NOMEM;
    TRY(used_key(req, kind, name, "", &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    if (!state_iter_next(iter))
        return ST_OK;
    struct bytes user = bytes_from(iter->key, prefix.len);
    return req_fail(req, ST_INVALID, "%s \"%s\" is in use by %s \"%.*s\"",
                    kind == TRANSFORM_STORE ? "store" : kinds[kind], name, users[kind],
                    (int)user.len, (const char *)user.data);
}
