#include "front/cors.h"
#include "router/setting.h"
#include "state/ns_key.h"

static const struct field fields[] = {
    FIELD(struct cors, allowed_origins, STRINGS, .required = true,
          .help = "Origins whose pages may read answers, as browsers write them; or \"*\"."),
    FIELD(struct cors, allowed_headers, STRINGS,
          .help = "Headers that their requests may have, besides those that are always allowed."),
};
const struct schema cors_schema = SCHEMA(struct cors, fields);

static const char *const own_headers[] = {
    "Content-Type",
    "X-Requested-With",
    "Authorization",
    "X-Secrets-Token",
    "X-Secrets-Namespace",
    "X-Secrets-Request",
    "X-Secrets-Wrap-TTL",
    "X-Secrets-MFA",
    "X-Secrets-No-Request-Forwarding",
    "X-Secrets-Policy-Override",
    "X-Vault-Token",
    "X-Vault-Namespace",
    "X-Vault-Request",
    "X-Vault-Wrap-TTL",
    "X-Vault-Wrap-Format",
    "X-Vault-MFA",
    "X-Vault-No-Request-Forwarding",
    "X-Vault-Policy-Override",
};

static const char *const methods[] = {"DELETE", "GET",  "OPTIONS", "POST",
                                      "PUT",    "LIST", "SCAN",    "PATCH"};
#define METHODS_TEXT "DELETE, GET, OPTIONS, POST, PUT, LIST, SCAN, PATCH"
#define MAX_AGE_S "300"

enum { CORS_HEADERS_MAX = 5 }; /* of one reply */

enum status cors_headers(struct arena *arena, const struct cors *cors,
                         struct field_strings *ret_headers)
{
    size_t n = ARRAY_LEN(own_headers);
    const char **items = arena_alloc(arena, (n + cors->allowed_headers.n) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    memcpy(items, own_headers, sizeof own_headers);
    for (size_t i = 0; i < cors->allowed_headers.n; i++)
        items[n++] = cors->allowed_headers.items[i];
    *ret_headers = (struct field_strings){.items = items, .n = n, .given = true};
    return ST_OK;
}

/* ST_NOT_FOUND: it is off. */
static enum status load(struct state *state, struct arena *arena, struct cors *ret_cors)
{
    struct state_txn txn = {0};
    TRY(state_begin(state, arena, NULL, &txn));
    enum status st = setting_load(&txn, STATE_NS_ROOT, CORS_SETTING, &cors_schema, ret_cors);
    state_end(&txn);
    return st == ST_SEALED ? ST_NOT_FOUND : st;
}

static bool is_allowed(const struct cors *cors, struct bytes origin)
{
    for (size_t i = 0; i < cors->allowed_origins.n; i++) {
        const char *allowed = cors->allowed_origins.items[i];
        if (strcmp(allowed, "*") == 0 || text_is(origin, allowed))
            return true;
    }
    return false;
}

static bool has_method(struct bytes method)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (text_is(method, methods[i]))
            return true;
    return false;
}

static enum status join_headers(struct arena *arena, const struct cors *cors, const char **ret_text)
{
    struct field_strings all;
    const char *text = "";
    TRY(cors_headers(arena, cors, &all));
    for (size_t i = 0; i < all.n && text != NULL; i++)
        text = arena_format(arena, "%s%s%s", text, i != 0 ? ", " : "", all.items[i]);
    *ret_text = text;
    return text != NULL ? ST_OK : ST_NOMEM;
}

/* There is room for every header that a reply can have. */
static void tell(struct router_call *call, struct http_header *headers, const char *name,
                 struct bytes value)
{
    ASSERT(call->n_front_headers < CORS_HEADERS_MAX);
    headers[call->n_front_headers++] = (struct http_header){bytes_str(name), value};
}

static enum status judge_preflight(struct router_call *call, const struct cors *cors,
                                   struct http_header *headers)
{
    const char *allowed;
    if (!has_method(call->header(call, "access-control-request-method")))
        return ST_UNSUPPORTED;
    TRY(join_headers(call->arena, cors, &allowed));
    call->preflight = true;
    tell(call, headers, "Access-Control-Allow-Methods", BYTES(METHODS_TEXT));
    tell(call, headers, "Access-Control-Allow-Headers", bytes_str(allowed));
    tell(call, headers, "Access-Control-Max-Age", BYTES(MAX_AGE_S));
    return ST_OK;
}

enum status cors_judge(struct state *state, struct router_call *call)
{
    struct bytes origin = router_header(call, "origin");
    struct cors cors;

    ASSERT(!call->forwarded && call->n_front_headers == 0);
    if (state == NULL || origin.len == 0)
        return ST_OK;
    enum status st = load(state, call->arena, &cors);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    struct http_header *headers = arena_alloc(call->arena, CORS_HEADERS_MAX * sizeof *headers);
    if (headers == NULL)
        return ST_NOMEM;
    call->front_headers = headers;
    tell(call, headers, "Vary", BYTES("Origin"));
    if (!is_allowed(&cors, origin)) {
        reason_set(&call->refused, "origin not allowed");
        return ST_DENIED;
    }
    tell(call, headers, "Access-Control-Allow-Origin", origin);
    return call->method == METHOD_OPTIONS ? judge_preflight(call, &cors, headers) : ST_OK;
}
