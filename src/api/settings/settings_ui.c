/* sys/config/ui/headers: headers for replies that are web pages. They are stored and shown; this
 * server has no web pages. */
#include "api/settings/settings.h"
#include "router/request/dialect.h"
#include "router/setting.h"

#include <strings.h>

#define SETTINGS "ui-header/" /* the settings, one for each header, by the canonical name */

enum { HEADERS_MAX = 64, NAME_MAX_BYTES = 128, VALUES_BYTES_MAX = 4096 };

struct ui_header {
    struct field_strings values;
};
static const struct field stored_fields[] = {FIELD(struct ui_header, values, STRINGS)};
static const struct schema stored_schema = SCHEMA(struct ui_header, stored_fields);

struct ui_header_in {
    struct field_strings values;
    bool multivalue;
};
static const struct field in_fields[] = {
    FIELD(struct ui_header_in, values, STRINGS,
          .help = "The values: a list, or one string, which is one value with its commas."),
    FIELD(struct ui_header_in, multivalue, BOOL, .help = "Has no meaning for a write."),
};
static const struct schema settings_ui_header_schema = SCHEMA(struct ui_header_in, in_fields);

static const struct field asked_fields[] = {
    FIELD(struct ui_header_in, multivalue, BOOL,
          .help = "Whether the reply has all values, not the first."),
};
static const struct schema settings_ui_header_asked_schema =
    SCHEMA(struct ui_header_in, asked_fields);

struct ui_header_out {
    const char *value; /* NULL: the reply has all values */
    struct field_strings values;
};
static const struct field out_fields[] = {
    FIELD(struct ui_header_out, value, STRING, .omit = true, .help = "The first value."),
    FIELD(struct ui_header_out, values, STRINGS,
          .has = offsetof(struct ui_header_out, values.given), .omit = true,
          .help = "All values, with multivalue=true."),
};
static const struct schema settings_ui_header_reply = SCHEMA(struct ui_header_out, out_fields);

/* Whether a header belongs to one connection or delimits the message (RFC 9110 7.6.1, 8.6): the
 * server alone sets it. */
static bool is_of_connection(const char *name)
{
    static const char *const names[] = {
        "Connection",          "Content-Length",   "Keep-Alive", "Proxy-Authenticate",
        "Proxy-Authorization", "Proxy-Connection", "Te",         "Trailer",
        "Transfer-Encoding",   "Upgrade"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Change `name` to its canonical form: capital letters at the start and after each '-'. False: the
 * name is no name of a header (RFC 9110 5.6.2). */
static bool make_canonical(char *name)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    bool begins = true;
    ASSERT(name[0] != '\0');
    for (char *c = name; *c != '\0'; c++) {
        bool upper = *c >= 'A' && *c <= 'Z', lower = *c >= 'a' && *c <= 'z';
        if (!upper && !lower && !(*c >= '0' && *c <= '9') && strchr(marks, *c) == NULL)
            return false;
        if (begins ? lower : upper)
            *c ^= 'a' ^ 'A';
        begins = *c == '-';
    }
    return true;
}

/* The setting of the header that the path names. *ret_name is the canonical name. */
static enum status setting_of(struct req *req, const char **ret_name, const char **ret_setting)
{
    char *name = arena_str(req->arena, bytes_str(req_param(req, "name")));
    ASSERT(req_in_txn(req));
    if (name == NULL)
        return ST_NOMEM;
    if (name[0] == '\0' || strlen(name) > NAME_MAX_BYTES)
        return req_fail(req, ST_INVALID, "invalid header name: 1 to %d characters are expected",
                        NAME_MAX_BYTES);
    if (!make_canonical(name))
        return req_fail(req, ST_INVALID,
                        "invalid header name: letters, digits and !#$%%&'*+-.^_`|~ are expected");
    *ret_name = name;
    *ret_setting = arena_format(req->arena, SETTINGS "%s", name);
    return *ret_setting != NULL ? ST_OK : ST_NOMEM;
}

static enum status settings_ui_headers_list(struct req *req)
{
    struct bytes prefix;
    ASSERT(req_in_txn(req));
    TRY(setting_key(req->arena, req->ns, SETTINGS, &prefix));
    return req_reply_listing(req, prefix);
}

static enum status settings_ui_header_read(struct req *req)
{
    const struct ui_header_in *in = req_body(req);
    const char *name, *setting;
    struct ui_header stored;
    ASSERT(req_in_txn(req));
    TRY(setting_of(req, &name, &setting));
    TRY(setting_load(req->txn, req->ns, setting, &stored_schema, &stored));
    if (stored.values.n == 0)
        return ST_CORRUPT; /* a header is stored with one value at least */
    struct ui_header_out out = {.value = stored.values.items[0]};
    if (in->multivalue)
        out = (struct ui_header_out){.values = stored.values};
    return req_reply(req, &out);
}

/* The part of a header's name that the headers of a dialect share, "X-Name" of "X-Name-Token"; 0:
 * the name has less than three parts. */
static size_t family_bytes(const char *name)
{
    const char *dash = strchr(name, '-');
    dash = dash != NULL ? strchr(dash + 1, '-') : NULL;
    return dash != NULL ? (size_t)(dash - name) : 0;
}

/* Refuse headers of the connection and headers of the dialect, as upstream does. */
static enum status check_name(struct req *req, const char *name)
{
    const struct dialect *dialect = req->dialect;
    ASSERT(name[0] != '\0');
    ASSERT(dialect->n_page_headers > 0);
    if (is_of_connection(name))
        return req_fail(req, ST_INVALID, "%s cannot be set: the server sets it for a connection",
                        name);
    for (size_t i = 0; i < dialect->n_page_headers; i++) {
        size_t n = family_bytes(dialect->page_headers[i]);
        if (n != 0 && strncasecmp(name, dialect->page_headers[i], n + 1) == 0)
            return req_fail(req, ST_INVALID, "%.*s headers cannot be set", (int)n,
                            dialect->page_headers[i]);
    }
    return ST_OK;
}

/* The values of the request. A string is one value, also with commas. */
static enum status read_values(struct req *req, struct field_strings *ret_values)
{
    const struct ui_header_in *in = req_body(req);
    const struct text_value *given = text_get(req->data, "values");
    struct field_strings values = in->values;
    ASSERT(req->data->kind == TEXT_OBJECT);
    if (given != NULL && given->kind == TEXT_STRING) {
        const char **one = arena_alloc(req->arena, sizeof *one);
        if (one == NULL)
            return ST_NOMEM;
        *one = (const char *)given->text.data;
        values = (struct field_strings){.items = one, .n = given->text.len != 0, .given = true};
    }
    size_t bytes = 0;
    for (size_t i = 0; i < values.n; i++) {
        for (const char *c = values.items[i]; *c != '\0'; c++)
            if (*c < ' ' || *c > '~')
                return req_fail(req, ST_INVALID,
                                "values: only printable characters of ASCII are allowed");
        bytes += strlen(values.items[i]) + 1;
    }
    if (bytes > VALUES_BYTES_MAX)
        return req_fail(req, ST_INVALID, "values: more than %d bytes", VALUES_BYTES_MAX);
    *ret_values = values;
    return ST_OK;
}

/* Refuse a header above HEADERS_MAX. */
static enum status check_count(struct req *req, const char *setting)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix, own;
    size_t others = 0;
    if (iter == NULL)
        return ST_NOMEM;
    TRY(setting_key(req->arena, req->ns, SETTINGS, &prefix));
    TRY(setting_key(req->arena, req->ns, setting, &own));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter))
        others += !bytes_eq(iter->key, own);
    ASSERT(others <= HEADERS_MAX);
    return others < HEADERS_MAX ? ST_OK
                                : req_fail(req, ST_INVALID, "more than %d headers", HEADERS_MAX);
}

static enum status settings_ui_header_write(struct req *req)
{
    const char *name, *setting;
    struct ui_header header;
    ASSERT(req_in_txn(req));
    TRY(setting_of(req, &name, &setting));
    TRY(check_name(req, name));
    TRY(read_values(req, &header.values));
    if (header.values.n == 0)
        return req_fail(req, ST_INVALID, "header and values must be specified");
    TRY(check_count(req, setting));
    return setting_save(req->txn, req->ns, setting, &stored_schema, &header);
}

static enum status settings_ui_header_delete(struct req *req)
{
    const char *name, *setting;
    TRY(setting_of(req, &name, &setting));
    return setting_delete(req->txn, req->ns, setting);
}

#define HEADERS "config/ui/headers"

static const struct route ui_header_routes[] = {
    {.method = METHOD_LIST,
     .path = HEADERS,
     .handler = settings_ui_headers_list,
     .flags = ROUTE_SUDO,
     .help = "The names of the headers for web pages."},
    {.method = METHOD_GET,
     .path = HEADERS "/+name",
     .handler = settings_ui_header_read,
     .flags = ROUTE_SUDO,
     .body = &settings_ui_header_asked_schema,
     .reply = &settings_ui_header_reply,
     .help = "A header for web pages."},
    {.method = METHOD_POST,
     .path = HEADERS "/+name",
     .handler = settings_ui_header_write,
     .flags = ROUTE_SUDO,
     .body = &settings_ui_header_schema,
     .help =
         "Set a header for web pages, which this server does not have: it is stored and shown."},
    {.method = METHOD_DELETE,
     .path = HEADERS "/+name",
     .handler = settings_ui_header_delete,
     .flags = ROUTE_SUDO,
     .help = "Delete a header for web pages; an unknown header is no error."},
};

const struct route_table settings_ui_table = {ui_header_routes, ARRAY_LEN(ui_header_routes)};
