/* The history of active versions of this program, and counts for capacity planning. */
#include "api/nodes/nodes.h"
#include "auth/token_store.h"
#include "base/version.h"
#include "router/setting.h"
#include "state/ns_key.h"

#include <stdio.h>
#include <stdlib.h>

#define SETTINGS "version/"

enum { VERSIONS_MAX = 1000 };

struct version {
    int64_t installed_ms;
    const char *name; /* not stored: the end of the record's key */
};
static const struct field fields[] = {
    FIELD(struct version, installed_ms, INT, .required = true),
};
static const struct schema schema = SCHEMA(struct version, fields);

enum status nodes_version_upkeep(struct state_txn *txn, int64_t now_ms)
{
    char name[64];
    int len = snprintf(name, sizeof name, SETTINGS "%s", holdfast_version);
    ASSERT(len > 0 && (size_t)len < sizeof name);
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
    ASSERT(n <= VERSIONS_MAX);
    qsort(versions, n, sizeof *versions, version_order);
    *ret_n = n;
    return ST_OK;
}

struct version_out {
    const char *name, *build_date, *previous_version;
    int64_t timestamp_installed;
};
static const struct field version_fields[] = {
    FIELD(struct version_out, timestamp_installed, TIME),
    FIELD(struct version_out, build_date, STRING),
    FIELD(struct version_out, previous_version, STRING, .null = true),
};
static const struct schema version_schema = SCHEMA_NAMED(struct version_out, name, version_fields);
struct history_out {
    struct field_strings keys;
    struct field_list key_info;
};
static const struct field history_fields[] = {
    FIELD(struct history_out, keys, STRINGS),
    FIELD(struct history_out, key_info, TABLE, .sub = &version_schema),
};
static const struct schema nodes_version_history_reply = SCHEMA(struct history_out, history_fields);

static enum status nodes_version_history(struct req *req)
{
    struct version *versions = arena_alloc(req->arena, VERSIONS_MAX * sizeof *versions);
    size_t n = 0;
    if (versions == NULL)
        return ST_NOMEM;
    TRY(load_all(req, versions, &n));
    if (n == 0)
        return ST_NOT_FOUND;
    struct version_out *out = arena_alloc(req->arena, n * sizeof *out);
    const char **names = arena_alloc(req->arena, n * sizeof *names);
    if (out == NULL || names == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++) {
        ASSERT(i == 0 || versions[i - 1].installed_ms <= versions[i].installed_ms);
        names[i] = versions[i].name;
        out[i] = (struct version_out){.name = names[i],
                                      .build_date = "",
                                      .previous_version = i > 0 ? names[i - 1] : NULL,
                                      .timestamp_installed = versions[i].installed_ms};
    }
    return req_reply(req, &(struct history_out){{.items = names, .n = n}, {out, n}});
}

struct total_out {
    int64_t total;
};
static const struct field total_fields[] = {FIELD(struct total_out, total, INT)};
static const struct schema total_schema = SCHEMA(struct total_out, total_fields);
struct kinds_out {
    const void *service_tokens, *registry_tokens;
};
static const struct field kinds_fields[] = {
    FIELD(struct kinds_out, service_tokens, OBJECT, .sub = &total_schema),
    FIELD(struct kinds_out, registry_tokens, OBJECT, .omit = true, .sub = &total_schema),
};
static const struct schema kinds_schema = SCHEMA(struct kinds_out, kinds_fields);
struct counters_out {
    const void *counters;
};
static const struct field counters_fields[] = {
    FIELD(struct counters_out, counters, OBJECT, .sub = &kinds_schema),
};
static const struct schema nodes_counters_reply = SCHEMA(struct counters_out, counters_fields);

/* Count tokens; the count may include ended ones that are not deleted yet. */
static enum status nodes_counters_tokens(struct req *req)
{
    struct bytes prefix;
    uint64_t n[TOKEN_KINDS] = {0};
    TRY(state_ns_key(req->arena, req->ns, "token", BYTES(""), NULL, &prefix));
    n[TOKEN_SECRETS] = state_count(req->txn, prefix);
    for (unsigned kind = TOKEN_SECRETS + 1; kind < TOKEN_KINDS; kind++) {
        TRY(token_store_kind_prefix(req->arena, req->ns, kind, &prefix));
        n[kind] = state_count(req->txn, prefix);
        ASSERT(n[kind] <= n[TOKEN_SECRETS]);
        n[TOKEN_SECRETS] -= n[kind];
    }
    const struct total_out registry = {(int64_t)n[TOKEN_REGISTRY]};
    const struct kinds_out kinds = {&(struct total_out){(int64_t)n[TOKEN_SECRETS]},
                                    registry.total != 0 ? &registry : NULL};
    return req_reply(req, &(struct counters_out){&kinds});
}

static const struct route version_routes[] = {
    {.method = METHOD_LIST,
     .path = "version-history",
     .handler = nodes_version_history,
     .reply = &nodes_version_history_reply,
     .help = "The versions of this program that have been active, oldest first."},
    {.method = METHOD_GET,
     .path = "internal/counters/tokens",
     .handler = nodes_counters_tokens,
     .reply = &nodes_counters_reply,
     .help = "How many service tokens there are, and how many tokens of the registry."},
};

const struct route_table nodes_version_table = {version_routes, ARRAY_LEN(version_routes)};
