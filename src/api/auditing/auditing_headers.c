/* sys/config/auditing/request-headers: the request headers that audit records show. */
#include "api/auditing/auditing.h"
#include "audit/audit_entry.h"

struct header_in {
    bool hmac;
};
static const struct field header_in_fields[] = {
    FIELD(struct header_in, hmac, BOOL, .preset = "false",
          .help = "Whether records show the HMAC of the value, not the value."),
};
static const struct schema auditing_header_schema = SCHEMA(struct header_in, header_in_fields);

struct header_info {
    const char *name;
    bool hmac;
};
static const struct field header_info_fields[] = {
    FIELD(struct header_info, hmac, BOOL, .help = "As given."),
};
static const struct schema header_info_schema =
    SCHEMA_NAMED(struct header_info, name, header_info_fields);

struct headers_out {
    struct field_list headers;
};
static const struct field headers_fields[] = {
    FIELD(struct headers_out, headers, TABLE, .sub = &header_info_schema,
          .help = "By name, in lower case."),
};
static const struct schema auditing_headers_reply = SCHEMA(struct headers_out, headers_fields);
static const struct field one_header_fields[] = {
    FIELD_NAMED("", struct headers_out, headers, OTHERS, .sub = &header_info_schema),
};
static const struct schema auditing_header_reply = SCHEMA(struct headers_out, one_header_fields);

/* The name of a header, in lower case (RFC 9110 5.6.2). */
static enum status header_name_of(struct req *req, const char **ret_name)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    char *name = arena_str(req->arena, bytes_str(req_param(req, "name")));
    ASSERT(req_in_txn(req));
    if (name == NULL)
        return ST_NOMEM;
    if (name[0] == '\0' || strlen(name) > AUDIT_HEADER_NAME_MAX)
        return req_fail(req, ST_INVALID, "invalid header name: 1 to %d characters are expected",
                        AUDIT_HEADER_NAME_MAX);
    for (char *c = name; *c != '\0'; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (!upper && !(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9') &&
            strchr(marks, *c) == NULL)
            return req_fail(req, ST_INVALID, "invalid header name");
        if (upper)
            *c = (char)(*c - 'A' + 'a');
    }
    *ret_name = name;
    return ST_OK;
}

struct header_list {
    struct header_info items[AUDIT_HEADERS_MAX];
    unsigned n;
};

static enum status headers_load(struct req *req, struct header_list **ret_list)
{
    struct header_list *list = arena_zalloc(req->arena, sizeof *list);
    struct audit_header *headers = arena_alloc(req->arena, AUDIT_HEADERS_MAX * sizeof *headers);
    ASSERT(req_in_txn(req));
    if (list == NULL || headers == NULL)
        return ST_NOMEM;
    TRY(audit_header_list(req->txn, req->arena, headers, &list->n));
    ASSERT(list->n <= AUDIT_HEADERS_MAX);
    for (unsigned i = 0; i < list->n; i++)
        list->items[i] = (struct header_info){.name = headers[i].name, .hmac = headers[i].hmac};
    *ret_list = list;
    return ST_OK;
}

static const struct header_info *headers_find(const struct header_list *list, const char *name)
{
    for (unsigned i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static enum status auditing_headers_list(struct req *req)
{
    struct header_list *list;
    TRY(headers_load(req, &list));
    const struct headers_out out = {.headers = {.items = list->items, .n = list->n}};
    return req_reply(req, &out);
}

static enum status auditing_header_read(struct req *req)
{
    struct header_list *list;
    const char *name;
    ASSERT(req_in_txn(req));
    TRY(header_name_of(req, &name));
    TRY(headers_load(req, &list));
    const struct header_info *info = headers_find(list, name);
    if (info == NULL)
        return req_fail(req, ST_INVALID, "Could not find header in config");
    /* the member has the name as the client wrote it: some clients look for that */
    const struct header_info asked = {.name = req_param(req, "name"), .hmac = info->hmac};
    const struct headers_out out = {.headers = {.items = &asked, .n = 1}};
    return req_reply(req, &out);
}

/* Whether the name of a header tells that its values are credentials, which no record may show in
 * clear. */
static bool is_credential(const char *name)
{
    static const char *const words[] = {"authorization", "cookie", "password", "token"};
    ASSERT(name[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strstr(name, words[i]) != NULL)
            return true;
    return false;
}

static enum status auditing_header_write(struct req *req)
{
    const struct header_in *in = req_body(req);
    ASSERT(req_in_txn(req));
    struct header_list *list;
    struct audit_header header = {.hmac = in->hmac};
    TRY(header_name_of(req, &header.name));
    if (!header.hmac && is_credential(header.name))
        return req_fail(req, ST_INVALID, "the values of this header are credentials: set hmac");
    TRY(headers_load(req, &list));
    if (headers_find(list, header.name) == NULL && list->n == AUDIT_HEADERS_MAX)
        return req_fail(req, ST_INVALID, "more than %d headers", AUDIT_HEADERS_MAX);
    return audit_header_save(req->txn, &header);
}

static enum status auditing_header_delete(struct req *req)
{
    const char *name;
    TRY(header_name_of(req, &name));
    return audit_header_delete(req->txn, name);
}

#define HEADERS "config/auditing/request-headers"

static const struct route header_routes[] = {
    {.method = METHOD_GET,
     .path = HEADERS,
     .handler = auditing_headers_list,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &auditing_headers_reply,
     .help = "The request headers that audit records show."},
    {.method = METHOD_GET,
     .path = HEADERS "/+name",
     .handler = auditing_header_read,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &auditing_header_reply,
     .help = "How records show a header."},
    {.method = METHOD_POST,
     .path = HEADERS "/+name",
     .handler = auditing_header_write,
     .flags = ROUTE_SUDO,
     .feature = AUDIT_FEATURE,
     .body = &auditing_header_schema,
     .help = "Let records show a header of requests."},
    {.method = METHOD_DELETE,
     .path = HEADERS "/+name",
     .handler = auditing_header_delete,
     .flags = ROUTE_SUDO,
     .help = "Leave a header out of the records; an unknown header is no error."},
};

const struct route_table auditing_headers_table = {header_routes, ARRAY_LEN(header_routes)};
