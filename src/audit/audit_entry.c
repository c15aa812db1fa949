#include "audit/audit_entry.h"
#include "text/encode.h"

#define DEVICES "device/"
#define HEADERS AUDIT_SHARED_PREFIX "header/"

static const struct field entry_fields[] = {
    FIELD(struct audit_entry, uuid, STRING, .required = true),
    FIELD(struct audit_entry, type, STRING, .required = true),
    FIELD(struct audit_entry, description, STRING, .preset = ""),
    FIELD(struct audit_entry, options, MAP),
    FIELD(struct audit_entry, local, BOOL),
    FIELD(struct audit_entry, salt, STRING, .required = true, .hidden = true),
};
const struct schema audit_entry_schema = SCHEMA(struct audit_entry, entry_fields);

static const struct field header_fields[] = {
    FIELD(struct audit_header, hmac, BOOL, .preset = "false",
          .help = "Whether records show the HMAC of the header's value, not the value."),
};
const struct schema audit_header_schema = SCHEMA(struct audit_header, header_fields);

static const char *prefix_of(bool local)
{
    return local ? AUDIT_LOCAL_PREFIX DEVICES : AUDIT_SHARED_PREFIX DEVICES;
}

enum status audit_entry_key(struct arena *arena, bool local, const char *path,
                            struct bytes *ret_key)
{
    ASSERT(path[0] != '\0' && path[strlen(path) - 1] == '/');
    const char *key = arena_concat(arena, prefix_of(local), path);
    if (key == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(key);
    return ST_OK;
}

static enum status entry_decode(struct arena *arena, const struct schema *schema,
                                struct bytes stored, void *ret_struct)
{
    const struct text_value *tree;
    struct schema_fault fault;
    ASSERT(schema == &audit_entry_schema || schema == &audit_header_schema);
    enum status st = text_json_parse(arena, stored, &tree, NULL);
    if (st == ST_OK)
        st = schema_decode(schema, tree, arena, ret_struct, &fault);
    return st == ST_INVALID || st == ST_TOO_BIG ? ST_CORRUPT : st;
}

static enum status each_below(struct state_txn *txn, bool local,
                              enum status (*each)(void *ctx, const struct audit_entry *entry),
                              void *ctx)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix = bytes_str(prefix_of(local)), stored;
    ASSERT(txn->open);
    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct audit_entry entry;
        const char *path = arena_str(txn->arena, bytes_from(iter->key, prefix.len));
        if (path == NULL)
            return ST_NOMEM;
        enum status st = state_iter_value(iter, &stored);
        if (st == ST_OK)
            st = entry_decode(txn->arena, &audit_entry_schema, stored, &entry);
        if (st == ST_CORRUPT)
            entry = (struct audit_entry){.description = "", .local = local};
        else
            TRY(st);
        ASSERT(iter->key.len >= prefix.len);
        entry.path = path;
        TRY(each(ctx, &entry));
    }
    return ST_OK;
}

enum status audit_entry_each(struct state_txn *txn,
                             enum status (*each)(void *ctx, const struct audit_entry *entry),
                             void *ctx)
{
    TRY(each_below(txn, false, each, ctx));
    return each_below(txn, true, each, ctx);
}

enum status audit_entry_salt(const struct audit_entry *entry, uint8_t ret_salt[AUDIT_ENTRY_SALT])
{
    struct bytes text = bytes_str(entry->salt);
    if (text.len != TEXT_HEX_LEN(AUDIT_ENTRY_SALT))
        return ST_CORRUPT;
    return text_hex_parse(text, ret_salt) == ST_OK ? ST_OK : ST_CORRUPT;
}

static enum status entry_save(struct state_txn *txn, struct bytes key, const struct schema *schema,
                              const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    schema_encode(schema, from, &w);
    ASSERT(w.depth == 0);
    TRY(buf_status(&record));
    if (record.len > AUDIT_ENTRY_BYTES_MAX)
        return ST_TOO_BIG;
    return state_put_exempt(txn, key, buf_bytes(&record)); /* exempt: an operator who watches a full
                                                              state must see who does what */
}

enum status audit_entry_save(struct state_txn *txn, const struct audit_entry *entry)
{
    struct bytes key;
    ASSERT(entry->type != NULL && entry->uuid != NULL && entry->salt != NULL);
    TRY(audit_entry_key(txn->arena, entry->local, entry->path, &key));
    return entry_save(txn, key, &audit_entry_schema, entry);
}

enum status audit_entry_delete(struct state_txn *txn, const char *path)
{
    struct bytes key;
    TRY(audit_entry_key(txn->arena, false, path, &key));
    TRY(state_delete(txn, key));
    TRY(audit_entry_key(txn->arena, true, path, &key));
    return state_delete(txn, key);
}

enum status audit_header_list(struct state_txn *txn, struct arena *arena,
                              struct audit_header *ret_headers, unsigned *ret_n)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix = BYTES(HEADERS), stored;
    unsigned n = 0;
    ASSERT(txn->open);
    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (n < AUDIT_HEADERS_MAX && state_iter_next(iter)) {
        struct audit_header *header = &ret_headers[n++];
        TRY(state_iter_value(iter, &stored));
        TRY(entry_decode(txn->arena, &audit_header_schema, stored, header));
        header->name = arena_str(arena, bytes_from(iter->key, prefix.len));
        if (header->name == NULL)
            return ST_NOMEM;
    }
    ASSERT(n <= AUDIT_HEADERS_MAX);
    *ret_n = n;
    return ST_OK;
}

enum status audit_header_save(struct state_txn *txn, const struct audit_header *header)
{
    const char *key = arena_concat(txn->arena, HEADERS, header->name);
    if (key == NULL)
        return ST_NOMEM;
    return entry_save(txn, bytes_str(key), &audit_header_schema, header);
}

enum status audit_header_delete(struct state_txn *txn, const char *name)
{
    const char *key = arena_concat(txn->arena, HEADERS, name);
    if (key == NULL)
        return ST_NOMEM;
    return state_delete(txn, bytes_str(key));
}
