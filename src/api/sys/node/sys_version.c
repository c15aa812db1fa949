/* The history of active versions of this program, and counts for capacity planning. */
#include "api/sys/sys.h"
#include "router/setting.h"
#include "state/ns_key.h"

#include <stdlib.h>

#define SETTINGS "version/"

enum { VERSIONS_MAX = 1000 };

struct version {
    int64_t installed_ms;
    const char *name; /* not stored, the key says it */
};
static const struct field fields[] = {
    FIELD(struct version, installed_ms, INT, .required = true),
};
static const struct schema schema = SCHEMA(struct version, fields);

enum status sys_version_upkeep(struct state_txn *txn, int64_t now_ms)
{
    static const char name[] = SETTINGS HOLDFAST_VERSION;
    const struct version version = {.installed_ms = now_ms};
    enum status st = setting_exists(txn, STATE_NS_ROOT, name);
    return st == ST_NOT_FOUND ? setting_save(txn, STATE_NS_ROOT, name, &schema, &version) : st;
}

static int version_order(const void *a, const void *b)
{
    const struct version *x = a, *y = b;
    if (x->installed_ms != y->installed_ms)
        return x->installed_ms < y->installed_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

static enum status load_all(struct req *req, struct version *versions, size_t *ret_n)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    size_t n = 0;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(setting_key(req->arena, req->ns, SETTINGS, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (n < VERSIONS_MAX && state_iter_next(iter)) {
        const char *name = arena_str(req->arena, bytes_from(iter->key, prefix.len));
        if (name == NULL)
            return ST_NOMEM;
        const char *setting = arena_format(req->arena, SETTINGS "%s", name);
        if (setting == NULL)
            return ST_NOMEM;
        TRY(setting_load(req->txn, req->ns, setting, &schema, &versions[n]));
        versions[n++].name = name;
    }
    qsort(versions, n, sizeof *versions, version_order);
    *ret_n = n;
    return ST_OK;
}

static enum status sys_version_history(struct req *req)
{
    struct version *versions = arena_alloc(req->arena, VERSIONS_MAX * sizeof *versions);
    size_t n = 0;
    if (versions == NULL)
        return ST_NOMEM;
    TRY(load_all(req, versions, &n));
    if (n == 0)
        return ST_NOT_FOUND;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "keys");
    text_open_list(&w);
    for (size_t i = 0; i < n; i++)
        text_put_str(&w, versions[i].name);
    text_close(&w);
    text_key(&w, "key_info");
    text_open_object(&w);
    for (size_t i = 0; i < n; i++) {
        text_key(&w, versions[i].name);
        text_open_object(&w);
        text_member_time(&w, "timestamp_installed", versions[i].installed_ms);
        text_member_str(&w, "build_date", "");
        text_member_str(&w, "previous_version", i > 0 ? versions[i - 1].name : NULL);
        text_close(&w);
    }
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

/* Count tokens; the count may include ended ones that are not deleted yet. */
static enum status sys_counters_tokens(struct req *req)
{
    struct state_walk *walk = arena_alloc(req->arena, sizeof *walk);
    struct bytes prefix;
    int64_t n = 0;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(req->arena, req->ns, "accessor", BYTES(""), NULL, &prefix));
    for (state_walk(req->txn, prefix, walk); state_walk_next(walk); n++)
        continue;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "counters");
    text_open_object(&w);
    text_key(&w, "service_tokens");
    text_open_object(&w);
    text_member_int(&w, "total", n);
    text_close(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static const struct route version_routes[] = {
    {.method = METHOD_LIST,
     .path = "version-history",
     .handler = sys_version_history,
     .shape =
         "{keys:[str] key_info:{*:{timestamp_installed:str build_date:str previous_version:str~}}}",
     .help = "The versions of this program that have been active, oldest first."},
    {.method = METHOD_GET,
     .path = "internal/counters/tokens",
     .handler = sys_counters_tokens,
     .shape = "{counters:{service_tokens:{total:int}}}",
     .help = "How many service tokens there are."},
};

const struct route_table sys_version_table = {version_routes, ARRAY_LEN(version_routes)};
