#include "out/out_internal.h"

enum { METHOD_BYTES_MAX = 16 };

static const char token_marks[] = "!#$%&'*+-.^_`|~";

/* RFC 9110 5.6.2 */
static bool is_token(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++) {
        char c = name[n];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && strchr(token_marks, c) == NULL)
            return false;
    }
    return n > 0;
}

/* No control byte: above all no CR and LF, which would begin another header. */
static bool is_value(struct bytes value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((value.data[i] < ' ' && value.data[i] != '\t') || value.data[i] == 0x7F)
            return false;
    return true;
}

/* Headers that frame the message, name its receiver, or ask for what the client does not do. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {
        "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",      "Expect",
        "TE",   "Trailer",        "Upgrade",           "Cookie",     "Accept-Encoding",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return strncasecmp(name, "Proxy-", 6) == 0;
}

enum status out_lines_check(const struct out_request *request, struct reason *reason)
{
    const char *method = request->method, *fault = NULL;
    size_t len = strlen(method);
    bool bodiless = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (len == 0 || len > METHOD_BYTES_MAX || strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != len ||
        strcmp(method, "CONNECT") == 0 || strcmp(method, "TRACE") == 0)
        fault = "the method cannot be used";
    else if (bodiless && request->body.len != 0)
        fault = "a GET or HEAD has no body";
    else if (request->n_headers > OUT_HEADERS_MAX || request->n_wanted > OUT_WANTED_MAX)
        fault = "too many headers";
    if (fault != NULL)
        reason_set(reason, "%s", fault);
    return fault == NULL ? ST_OK : ST_INVALID;
}

static enum status check_header(const struct out_header *header, struct reason *reason)
{
    if (!is_token(header->name)) {
        reason_set(reason, "the name of a header of the request is malformed");
        return ST_INVALID;
    }
    if (is_reserved(header->name)) {
        reason_set(reason, "the header %.64s may not be set", header->name);
        return ST_INVALID;
    }
    if (!is_value(header->value)) {
        reason_set(reason, "the value of the header %.64s contains a control character",
                   header->name);
        return ST_INVALID;
    }
    return ST_OK;
}

static struct bytes trim(struct bytes value)
{
    while (value.len > 0 && (value.data[0] == ' ' || value.data[0] == '\t'))
        value = bytes_from(value, 1);
    while (value.len > 0 && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
        value.len--;
    return value;
}

/* Put a line in front of the list. libcurl's form: "name: value"; "name;" for an empty value;
 * "name:" to leave a header of its own out. */
static enum status add_line(struct arena *arena, const char *name, struct bytes value,
                            struct curl_slist **lines)
{
    size_t name_len = strlen(name);
    struct curl_slist *line = arena_alloc(arena, sizeof *line);
    uint8_t *text = arena_alloc(arena, name_len + value.len + 3);
    if (line == NULL || text == NULL)
        return ST_NOMEM;
    *line = (struct curl_slist){.data = (char *)text, .next = *lines};
    text = bytes_put(text, bytes_of(name, name_len));
    text = bytes_put(text, value.data == NULL ? BYTES(":")
                           : value.len == 0   ? BYTES(";")
                                              : BYTES(": "));
    text = bytes_put(text, value);
    *text = '\0';
    *lines = line;
    return ST_OK;
}

enum status out_lines_make(const struct out_request *request, struct arena *arena,
                           struct curl_slist **ret_lines, struct reason *reason)
{
    static const struct bytes left_out = {0};
    struct curl_slist *lines = NULL;
    bool typed = false;
    size_t bytes = 0;
    ASSERT(request->n_headers <= OUT_HEADERS_MAX);
    for (size_t i = request->n_headers; i-- > 0;) {
        const struct out_header *header = &request->headers[i];
        TRY(check_header(header, reason));
        bytes += strlen(header->name) + header->value.len;
        if (bytes > OUT_HEADER_BYTES_MAX) {
            reason_set(reason, "the headers of the request are too long");
            return ST_INVALID;
        }
        typed |= strcasecmp(header->name, "Content-Type") == 0;
        struct bytes value = trim(header->value);
        TRY(add_line(arena, header->name, value.len != 0 ? value : BYTES(""), &lines));
    }
    ASSERT(bytes <= OUT_HEADER_BYTES_MAX);
    TRY(add_line(arena, "Connection", BYTES("close"), &lines));
    TRY(add_line(arena, "Expect", left_out, &lines)); /* a wait for 100 Continue gains nothing */
    if (!typed)
        TRY(add_line(arena, "Content-Type", left_out, &lines)); /* not libcurl's default */
    *ret_lines = lines;
    return ST_OK;
}
