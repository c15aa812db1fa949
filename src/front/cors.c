#include "front/cors.h"
#include "router/request/dialect.h"
#include "router/setting.h"
#include "state/ns_key.h"

static const struct field fields[] = {
    FIELD(struct cors, allowed_origins, STRINGS, .required = true,
          .help = "Origins whose pages may read replies, as browsers write them; or \"*\"."),
    FIELD(struct cors, allowed_headers, STRINGS,
          .help = "Headers that their requests may have, besides those that are always allowed."),
};
const struct schema cors_schema = SCHEMA(struct cors, fields);

static const char *const own_headers[] = {
    "Content-Type",
    "X-Requested-With",
    "Authorization",
};

static const char *const methods[] = {"DELETE", "GET",  "OPTIONS", "POST",
                                      "PUT",    "LIST", "SCAN",    "PATCH"};
#define METHODS_TEXT "DELETE, GET, OPTIONS, POST, PUT, LIST, SCAN, PATCH"
#define MAX_AGE_S "300"

enum { CORS_HEADERS_MAX = 5 }; /* most CORS headers of one reply */

enum status cors_headers(struct arena *arena, const struct dialect *dialect,
                         const struct cors *cors, struct field_strings *ret_headers)
{
    size_t n = 0, n_all = ARRAY_LEN(own_headers) + dialect->n_page_headers;
    const char **items = arena_alloc(arena, (n_all + cors->allowed_headers.n) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < ARRAY_LEN(own_headers); i++)
        items[n++] = own_headers[i];
    for (size_t i = 0; i < dialect->n_page_headers; i++)
        items[n++] = dialect->page_headers[i];
    for (size_t i = 0; i < cors->allowed_headers.n; i++)
        items[n++] = cors->allowed_headers.items[i];
    ASSERT(n == n_all + cors->allowed_headers.n);
    *ret_headers = (struct field_strings){.items = items, .n = n, .given = true};
    return ST_OK;
}

/* ST_NOT_FOUND: no origin is allowed, because nothing was set or the node is sealed. */
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

static enum status join_headers(const struct router_request *request, const struct cors *cors,
                                const char **ret_text)
{
    struct arena *arena = request->arena;
    struct field_strings all;
    const char *text = "";
    TRY(cors_headers(arena, request->dialect, cors, &all));
    ASSERT(all.n >= ARRAY_LEN(own_headers));
    for (size_t i = 0; i < all.n && text != NULL; i++)
        text = arena_format(arena, "%s%s%s", text, i != 0 ? ", " : "", all.items[i]);
    *ret_text = text;
    return text != NULL ? ST_OK : ST_NOMEM;
}

struct judgement {
    struct router_verdict verdict;
    struct http_header headers[CORS_HEADERS_MAX]; /* room for all headers that a reply can have */
};

static void tell(struct judgement *j, const char *name, struct bytes value)
{
    ASSERT(j->verdict.n_headers < CORS_HEADERS_MAX);
    j->headers[j->verdict.n_headers++] = (struct http_header){bytes_str(name), value};
}

static enum status judge_preflight(const struct router_request *request, const struct cors *cors,
                                   struct judgement *j)
{
    const char *allowed;
    ASSERT(request->method == METHOD_OPTIONS);
    ASSERT(!j->verdict.preflight);
    if (!has_method(router_header(request, "access-control-request-method")))
        return ST_UNSUPPORTED;
    TRY(join_headers(request, cors, &allowed));
    j->verdict.preflight = true;
    tell(j, "Access-Control-Allow-Methods", BYTES(METHODS_TEXT));
    tell(j, "Access-Control-Allow-Headers", bytes_str(allowed));
    tell(j, "Access-Control-Max-Age", BYTES(MAX_AGE_S));
    return ST_OK;
}

static enum status judge_origin(const struct router_request *request, const struct cors *cors,
                                struct bytes origin, struct judgement *j)
{
    ASSERT(origin.len != 0);
    ASSERT(j->verdict.n_headers == 0);
    tell(j, "Vary", BYTES("Origin"));
    if (!is_allowed(cors, origin)) {
        j->verdict.why = "origin not allowed";
        return ST_DENIED;
    }
    tell(j, "Access-Control-Allow-Origin", origin);
    return request->method == METHOD_OPTIONS ? judge_preflight(request, cors, j) : ST_OK;
}

void cors_judge(struct state *state, struct router_request *request)
{
    static const struct router_verdict no_memory = {.st = ST_NOMEM};
    struct bytes origin = router_header(request, "origin");
    struct cors cors;

    ASSERT(!request->forwarded);
    ASSERT(request->verdict == NULL);
    if (state == NULL || origin.len == 0)
        return;
    enum status st = load(state, request->arena, &cors);
    if (st == ST_NOT_FOUND)
        return;
    struct judgement *j = arena_zalloc(request->arena, sizeof *j);
    if (j == NULL) {
        request->verdict = &no_memory;
        return;
    }
    j->verdict.headers = j->headers;
    j->verdict.st = st == ST_OK ? judge_origin(request, &cors, origin, j) : st;
    request->verdict = &j->verdict;
}
