/* sys/config/cors: the settings that front/cors.h applies. */
#include "api/settings/settings.h"
#include "front/cors.h"
#include "router/setting.h"

enum { ITEMS_MAX = 100, ITEM_BYTES_MAX = 255 };

struct shown {
    bool enabled;
    struct field_strings allowed_origins, allowed_headers;
};
static const struct field shown_fields[] = {
    FIELD(struct shown, enabled, BOOL, .help = "Whether any other origin is allowed."),
    FIELD(struct shown, allowed_origins, STRINGS, .omit = true,
          .help = "The allowed origins, or \"*\" for all."),
    FIELD(struct shown, allowed_headers, STRINGS, .omit = true,
          .help = "Headers that their requests may have."),
};
static const struct schema settings_cors_shown_schema = SCHEMA(struct shown, shown_fields);

static enum status settings_cors_read(struct req *req)
{
    struct cors cors;
    struct shown out = {0};
    enum status st = setting_load(req->txn, req->ns, CORS_SETTING, &cors_schema, &cors);
    if (st == ST_NOT_FOUND)
        return req_reply(req, &out);
    TRY(st);
    out.enabled = true;
    out.allowed_origins = cors.allowed_origins;
    TRY(cors_headers(req->arena, req->dialect, &cors, &out.allowed_headers));
    return req_reply(req, &out);
}

/* Whether the list and its items are short, and hold only characters that a header may hold. */
static bool are_sound(const struct field_strings *list, const char *refused)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *item = list->items[i];
        size_t len = strlen(item);
        if (len == 0 || len > ITEM_BYTES_MAX || strpbrk(item, refused) != NULL)
            return false;
        for (const char *c = item; *c != '\0'; c++)
            if (*c <= ' ' || *c > '~')
                return false;
    }
    return list->n <= ITEMS_MAX;
}

static enum status settings_cors_write(struct req *req)
{
    const struct cors *in = req_body(req);
    bool all = false;
    ASSERT(req_in_txn(req));
    for (size_t i = 0; i < in->allowed_origins.n; i++)
        all = all || strcmp(in->allowed_origins.items[i], "*") == 0;
    if (in->allowed_origins.n == 0)
        return req_fail(req, ST_INVALID, "at least one origin or wildcard must be provided");
    if (all && in->allowed_origins.n > 1)
        return req_fail(req, ST_INVALID,
                        "to allow all origins the '*' must be the only value for allowed_origins");
    if (!are_sound(&in->allowed_origins, ","))
        return req_fail(req, ST_INVALID, "allowed_origins: at most %d of at most %d bytes each",
                        ITEMS_MAX, ITEM_BYTES_MAX);
    if (!are_sound(&in->allowed_headers, "()<>@,;:\\\"/[]?={}"))
        return req_fail(req, ST_INVALID, "allowed_headers: at most %d names of headers", ITEMS_MAX);
    return setting_save(req->txn, req->ns, CORS_SETTING, &cors_schema, in);
}

static enum status settings_cors_delete(struct req *req)
{
    return setting_delete(req->txn, req->ns, CORS_SETTING);
}

static const struct route cors_routes[] = {
    {.method = METHOD_GET,
     .path = "config/cors",
     .handler = settings_cors_read,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &settings_cors_shown_schema,
     .help = "Which other sites' pages may use this API from a browser."},
    {.method = METHOD_POST,
     .path = "config/cors",
     .handler = settings_cors_write,
     .flags = ROUTE_SUDO,
     .body = &cors_schema,
     .help = "Let pages of some origins, or of all (\"*\"), use this API from a browser. Requests "
             "of other origins are refused from then on."},
    {.method = METHOD_DELETE,
     .path = "config/cors",
     .handler = settings_cors_delete,
     .flags = ROUTE_SUDO,
     .help = "Delete the settings: browsers then let no other origin read replies."},
};

const struct route_table settings_cors_table = {cors_routes, ARRAY_LEN(cors_routes)};
