#include "base/plant.h"
#include "lease/expiry_internal.h"
#include "state/feature.h"
#include "state/ns_key.h"

enum { KIND_NAME_MAX = 31 };

void expiry_kinds_add(struct expiry_kinds *kinds, const struct expiry_kind *kind)
{
    size_t len = strlen(kind->name);
    ASSERT(kinds->n < EXPIRY_KINDS_MAX && len > 0 && len <= KIND_NAME_MAX);
    ASSERT(strchr(kind->name, '/') == NULL);
    ASSERT(kind->end != NULL && (kind->go_on != NULL) == (kind->former_mark != NULL));
    for (size_t i = 0; i < kinds->n; i++)
        ASSERT(strcmp(kinds->items[i]->name, kind->name) != 0);
    kinds->items[kinds->n++] = kind;
}

/* Keys */

static uint8_t *add(uint8_t *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

enum status expiry_join(struct arena *arena, const char *prefix, const struct expiry_name *name,
                        struct bytes *ret_key)
{
    size_t before = strlen(prefix), time_len = strlen(name->time), ns_len = strlen(name->ns);
    size_t kind_len = strlen(name->kind), id_len = strlen(name->id);
    size_t len = before + time_len + (time_len != 0) + ns_len + 1 + kind_len + 1 + id_len;
    uint8_t *key = arena_alloc(arena, len + 1);

    ASSERT(ns_len != 0 && kind_len != 0 && id_len != 0);
    if (key == NULL)
        return ST_NOMEM;
    uint8_t *to = add(key, prefix, before);
    if (time_len != 0)
        to = add(add(to, name->time, time_len), "/", 1);
    to = add(add(to, name->ns, ns_len), "/", 1);
    to = add(add(to, name->kind, kind_len), "/", 1);
    to = add(to, name->id, id_len);
    ASSERT(to == key + len);
    *to = 0;
    *ret_key = bytes_of(key, len);
    return ST_OK;
}

/* Entries */

static enum status entry_key(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                             int64_t time_ms, const char *id, struct bytes *ret_key)
{
    char time[STATE_TIME_DIGITS + 1];
    const struct expiry_name name = {time, ns, kind->name, id};
    state_time_text(time_ms, time);
    return expiry_join(txn->arena, EXPIRY_INDEX, &name, ret_key);
}

static enum status former_key(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                              int64_t time_ms, const char *id, struct bytes *ret_key)
{
    return state_ns_time_key(txn->arena, ns, kind->former_end, time_ms, id, ret_key);
}

enum status expiry_put(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                       int64_t time_ms, const char *id)
{
    struct bytes key;
    bool raised;
    ASSERT(time_ms > 0 && id[0] != '\0');
    TRY(state_has_feature(txn, EXPIRY_FEATURE, &raised));
    TRY(raised ? entry_key(txn, kind, ns, time_ms, id, &key)
               : former_key(txn, kind, ns, time_ms, id, &key));
    return state_put_name(txn, key, true);
}

/* The duty has deleted the entry already when the end of a thing drops it. */
static enum status drop_key(struct state_txn *txn, struct bytes key)
{
    return state_is_deleted(txn, key) ? ST_OK : state_delete(txn, key);
}

enum status expiry_drop(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                        int64_t time_ms, const char *id)
{
    struct bytes key, former;
    bool raised;

    ASSERT(time_ms > 0 && id[0] != '\0');
    TRY(state_has_feature(txn, EXPIRY_FEATURE, &raised));
    TRY(former_key(txn, kind, ns, time_ms, id, &former));
    if (!raised)
        return drop_key(txn, former);
    TRY(entry_key(txn, kind, ns, time_ms, id, &key));
    TRY(drop_key(txn, key));
    bool is_former = state_count(txn, former) != 0 && !planted(PLANT_FORMER_KEPT);
    return is_former ? drop_key(txn, former) : ST_OK;
}

enum status expiry_drop_new(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                            int64_t time_ms, const char *id)
{
    struct bytes key;
    ASSERT(time_ms > 0 && id[0] != '\0');
    TRY(entry_key(txn, kind, ns, time_ms, id, &key));
    return state_delete(txn, key);
}

/* Marks */

enum status expiry_mark_key(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                            const char *id, struct bytes *ret_key)
{
    const struct expiry_name name = {"", ns, kind->name, id};
    struct bytes former;
    bool raised;

    ASSERT(kind->former_mark != NULL);
    TRY(state_has_feature(txn, EXPIRY_FEATURE, &raised));
    TRY(state_ns_key(txn->arena, ns, kind->former_mark, bytes_str(id), NULL, &former));
    if (!raised || state_count(txn, former) != 0) {
        *ret_key = former;
        return ST_OK;
    }
    return expiry_join(txn->arena, EXPIRY_UNFINISHED, &name, ret_key);
}

/* Sizes */

static enum status former_count(const struct store_pin *pin, const char *former, uint64_t *ret_n)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct bytes prefix;
    TRY(state_ns_key(&arena, STATE_NS_ROOT, former, (struct bytes){0}, NULL, &prefix));
    *ret_n = store_count(pin, prefix);
    return ST_OK;
}

enum status expiry_sizes_at(const struct expiry_kinds *kinds, const struct store_pin *pin,
                            struct expiry_sizes *ret_sizes)
{
    struct expiry_sizes sizes = {.entries = store_count(pin, BYTES(EXPIRY_INDEX)),
                                 .marks = store_count(pin, BYTES(EXPIRY_UNFINISHED))};
    uint64_t ends, marks = 0;
    ASSERT(kinds->n > 0);
    for (size_t i = 0; i < kinds->n; i++) {
        const struct expiry_kind *kind = kinds->items[i];
        TRY(former_count(pin, kind->former_end, &ends));
        if (kind->former_mark != NULL)
            TRY(former_count(pin, kind->former_mark, &marks));
        sizes.entries += ends;
        sizes.marks += marks;
        sizes.former += ends + marks;
        marks = 0;
    }
    *ret_sizes = sizes;
    return ST_OK;
}
