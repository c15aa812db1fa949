#include "router/setting.h"
#include "state/ns_key.h"

enum status setting_key(struct arena *arena, const char *ns, const char *name,
                        struct bytes *ret_key)
{
    return state_ns_key(arena, ns, "config", bytes_str(name), NULL, ret_key);
}

enum status setting_load(struct state_txn *txn, const char *ns, const char *name,
                         const struct schema *schema, void *ret_struct)
{
    struct bytes key;
    struct state_value stored;
    const struct text_value *tree;
    struct schema_fault fault;

    ASSERT(txn->open);
    TRY(setting_key(txn->arena, ns, name, &key));
    TRY(state_get(txn, key, &stored));
    enum status st = text_json_parse(txn->arena, stored.value, &tree, NULL);
    if (st == ST_OK)
        st = schema_decode(schema, tree, txn->arena, ret_struct, &fault);
    return st == ST_INVALID || st == ST_TOO_BIG ? ST_CORRUPT : st;
}

enum status setting_exists(struct state_txn *txn, const char *ns, const char *name)
{
    struct bytes key;
    TRY(setting_key(txn->arena, ns, name, &key));
    return state_exists(txn, key);
}

enum status setting_save(struct state_txn *txn, const char *ns, const char *name,
                         const struct schema *schema, const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    struct bytes key;

    ASSERT(txn->open);
    schema_encode(schema, from, &w);
    ASSERT(w.depth == 0);
    TRY(buf_status(&record));
    TRY(setting_key(txn->arena, ns, name, &key));
    return state_put(txn, key, buf_bytes(&record));
}

enum status setting_delete(struct state_txn *txn, const char *ns, const char *name)
{
    struct bytes key;
    TRY(setting_key(txn->arena, ns, name, &key));
    return state_delete(txn, key);
}
