/* Questions of a request to the stores outside. */
#include "api/transform/transform_sql.h"

#include "base/mem.h"

#include <stdlib.h>

enum { KEPT_MAX = 10000 };

void *transform_list_add(struct arena *arena, struct transform_list *list, size_t size)
{
    if ((list->n & (list->n - 1)) == 0) { /* there is room up to the next power of two */
        uint8_t *items = arena_alloc(arena, MAX(2 * list->n, (size_t)1) * size);
        if (items == NULL)
            return NULL;
        if (list->n != 0)
            memcpy(items, list->items, list->n * size);
        list->items = items;
    }
    uint8_t *at = (uint8_t *)list->items + size * list->n++;
    memset(at, 0, size);
    return at;
}

/* A label of metrics: path and name, with marks that need no escape. */
static const char *label_of(struct req *req, const char *name)
{
    char *label = arena_format(req->arena, "%.100s%s", req->mount->path, name);
    for (char *c = label; c != NULL && *c != '\0'; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '_';
    return label;
}

static enum status open_store(struct transform_tokens *t, const char *name,
                              struct transform_sql_store *s)
{
    struct req *req = t->req;
    enum status st = transform_store_load(req, name, &s->store);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* a store in use cannot be deleted */
    s->name = name;
    s->pool = arena_format(req->arena, "%s/%s", req->mount->uuid, name);
    s->label = label_of(req, name);
    s->limits = transform_store_limits(&s->store);
    return s->pool != NULL && s->label != NULL ? ST_OK : ST_NOMEM;
}

enum status transform_sql_open(struct transform_tokens *t, const struct field_strings *stores)
{
    struct arena *arena = t->req->arena;
    t->is_internal = stores->n == 0;
    for (size_t i = 0; i < stores->n; i++) {
        if (strcmp(stores->items[i], TRANSFORM_INTERNAL) == 0) {
            t->is_internal = true;
            continue;
        }
        if (t->sql == NULL) {
            t->sql = arena_zalloc(arena, sizeof *t->sql);
            if (t->sql == NULL)
                return ST_NOMEM;
            t->sql->t = t;
            t->sql->stores = arena_zalloc(arena, TRANSFORM_STORES_MAX * sizeof *t->sql->stores);
        }
        if (t->sql->stores == NULL)
            return ST_NOMEM;
        if (t->sql->n_stores == TRANSFORM_STORES_MAX)
            return ST_CORRUPT;
        TRY(open_store(t, stores->items[i], &t->sql->stores[t->sql->n_stores++]));
    }
    return ST_OK;
}

static enum status add_digest(struct transform_sql *sql, struct transform_list *list,
                              const uint8_t bytes[TRANSFORM_DIGEST])
{
    struct transform_digest *d = transform_list_add(sql->t->req->arena, list, sizeof *d);
    if (d == NULL)
        return ST_NOMEM;
    memcpy(d->bytes, bytes, TRANSFORM_DIGEST);
    return ST_OK;
}

enum status transform_sql_want(struct transform_sql *sql, const uint8_t lookup[TRANSFORM_DIGEST])
{
    return add_digest(sql, &sql->wants, lookup);
}

enum status transform_sql_want_print(struct transform_sql *sql,
                                     const uint8_t print[TRANSFORM_DIGEST])
{
    return add_digest(sql, &sql->prints, print);
}

enum status transform_sql_tomb(struct transform_sql *sql, const uint8_t lookup[TRANSFORM_DIGEST])
{
    return add_digest(sql, &sql->tombs, lookup);
}

static int compare_rows(const void *a, const void *b)
{
    const struct transform_sql_row *x = a, *y = b;
    return memcmp(x->lookup, y->lookup, TRANSFORM_DIGEST);
}

enum status transform_sql_find(struct transform_sql *sql, const uint8_t lookup[TRANSFORM_DIGEST],
                               struct transform_row *ret_row)
{
    struct transform_sql_row key;
    const struct transform_sql_row *row;
    memcpy(key.lookup, lookup, TRANSFORM_DIGEST);
    if (sql->found.n == 0)
        return ST_NOT_FOUND;
    if (!sql->sorted)
        qsort(sql->found.items, sql->found.n, sizeof key, compare_rows);
    sql->sorted = true;
    row = bsearch(&key, sql->found.items, sql->found.n, sizeof key, compare_rows);
    if (row == NULL)
        return ST_NOT_FOUND;
    *ret_row = row->row;
    return ST_OK;
}

bool transform_sql_misses(struct transform_sql *sql)
{
    const struct transform_digest *wants = sql->wants.items;
    struct transform_row row;
    sql->sorted = false;
    for (size_t i = 0; i < sql->wants.n; i++)
        if (transform_sql_find(sql, wants[i].bytes, &row) != ST_OK)
            return true;
    return false;
}

static enum status copy(struct arena *arena, struct bytes from, struct bytes *ret)
{
    *ret = (struct bytes){0};
    if (from.len == 0)
        return ST_OK;
    *ret = bytes_of(arena_dup(arena, from), from.len);
    return ret->data != NULL ? ST_OK : ST_NOMEM;
}

enum status transform_sql_write(struct transform_sql *sql, const uint8_t lookup[TRANSFORM_DIGEST],
                                const struct transform_row *row)
{
    struct arena *arena = sql->t->req->arena;
    struct transform_sql_row *w = transform_list_add(arena, &sql->writes, sizeof *w);
    if (w == NULL)
        return ST_NOMEM;
    ASSERT(row->key_version != 0 && row->value.len != 0);
    memcpy(w->lookup, lookup, TRANSFORM_DIGEST);
    w->row = *row;
    TRY(copy(arena, row->value, &w->row.value));
    TRY(copy(arena, row->metadata, &w->row.metadata));
    return copy(arena, row->id, &w->row.id);
}

/* Equal values of a batch have one row: the last one with metadata, else the last one. Rows are
 * written in the order of their keys, so that two batches do not wait for each other. */
void transform_sql_order_writes(struct transform_sql *sql)
{
    struct transform_sql_row *rows = sql->writes.items;
    size_t n = 0;
    for (size_t i = 0; i < sql->writes.n; i++) /* qsort is not stable: note the order */
        for (size_t k = 0; sql->t->convergent && k < i; k++) {
            if (compare_rows(&rows[i], &rows[k]) != 0)
                continue;
            if (rows[i].row.metadata.len == 0)
                rows[i].row = rows[k].row;
            else
                rows[k].row = rows[i].row;
        }
    if (sql->writes.n > 1)
        qsort(rows, sql->writes.n, sizeof *rows, compare_rows);
    for (size_t i = 0; i < sql->writes.n; i++)
        if (n == 0 || compare_rows(&rows[i], &rows[n - 1]) != 0)
            rows[n++] = rows[i];
    sql->writes.n = n;
}

static enum status keep_version(struct transform_sql *sql, uint32_t version)
{
    const struct transform_kept_key *kept = sql->keys.items;
    struct transform_token_key *key;
    for (size_t i = 0; i < sql->keys.n; i++)
        if (kept[i].version == version)
            return ST_OK;
    TRY(transform_tokens_key(sql->t, version, &key));
    struct transform_kept_key *k = transform_list_add(sql->t->req->arena, &sql->keys, sizeof *k);
    if (k == NULL)
        return ST_NOMEM;
    k->version = version;
    memcpy(k->key, key->key, sizeof k->key);
    return ST_OK;
}

/* Only the row tells the version of the key of a convergent token, and of a row that is found by
 * its fingerprint: then all versions are kept. */
enum status transform_sql_keep(struct transform_sql *sql)
{
    struct transform_tokens *t = sql->t;
    const struct transform_ring *ring = &t->ring;
    bool all = (t->convergent && sql->wants.n != 0) || (!t->convergent && sql->prints.n != 0);
    uint32_t first = MAX(MAX(ring->min_available, ring->min_decryption), UINT32_C(1));
    sql->ring = *ring;
    if (sql->wants.n == 0 && sql->prints.n == 0)
        return ST_OK;
    for (const struct transform_token_key *key = t->keys; key != NULL; key = key->next)
        TRY(keep_version(sql, key->version));
    if (t->convergent)
        TRY(keep_version(sql, 0));
    if (!all)
        return ST_OK;
    if (ring->latest - first > KEPT_MAX)
        first = ring->latest - KEPT_MAX;
    for (uint32_t v = first; v != 0 && v <= ring->latest; v++)
        TRY(keep_version(sql, v));
    return ST_OK;
}

void transform_sql_resume(struct transform_sql *sql)
{
    ASSERT(sql->t->keys == NULL && !sql->t->outside);
    sql->t->ring = sql->ring;
    sql->t->outside = true;
}

void transform_sql_suspend(struct transform_sql *sql)
{
    struct transform_kept_key *keys = sql->keys.items;
    sql->t->cleanup.run(&sql->t->cleanup); /* drops the keys of the second run */
    mem_wipe(&sql->ring, sizeof sql->ring);
    if (sql->keys.n != 0)
        mem_wipe(keys, sql->keys.n * sizeof *keys);
    sql->keys.n = 0;
}

enum status transform_sql_key(const struct transform_sql *sql, uint32_t version,
                              uint8_t ret_key[TRANSFORM_KEY_BYTES])
{
    const struct transform_kept_key *keys = sql->keys.items;
    for (size_t i = 0; i < sql->keys.n; i++)
        if (keys[i].version == version) {
            memcpy(ret_key, keys[i].key, TRANSFORM_KEY_BYTES);
            return ST_OK;
        }
    return ST_NOT_FOUND;
}
