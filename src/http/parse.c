#include "http/parse.h"
#include "base/mem.h"
#include "base/vector.h"

#include <ctype.h>
#include <pthread.h>
#include <strings.h>

enum {
    METHOD_SLACK = 16, /* longer than any method and the space behind it */
    FIELDS_FIRST = 16,
    HOST_BYTES_MAX = 255 + 6, /* longest value of Host: a name and a port */
    LENGTH_DIGITS_MAX = 18,   /* most digits of a length: the number cannot overflow */
};

static struct http_parser *parser_of(llhttp_t *llhttp)
{
    return llhttp->data;
}

static bool is_reply(const struct http_parser *p)
{
    return p->llhttp.type == HTTP_RESPONSE;
}

void http_parser_refuse(struct http_parser *parser, int status, const char *why)
{
    if (parser->status == 0) {
        parser->status = status;
        parser->why = why;
    }
}

/* For callbacks: the value that makes llhttp stop. */
static int refuse(struct http_parser *p, int status, const char *why)
{
    http_parser_refuse(p, status, why);
    return HPE_USER;
}

static bool bytes_are(struct bytes b, const char *text)
{
    return b.len == strlen(text) && strncasecmp((const char *)b.data, text, b.len) == 0;
}

/* Request line */

/* Find the word unknown to llhttp that the message begins with. */
static bool is_scan(const struct http_parser *p)
{
    return p->start_len > 0 && p->start[0] == 'S';
}

static int on_method(llhttp_t *llhttp)
{
    static const struct {
        uint8_t from, to;
    } methods[] = {
        {HTTP_GET, METHOD_GET},         {HTTP_HEAD, METHOD_HEAD},   {HTTP_POST, METHOD_POST},
        {HTTP_PUT, METHOD_PUT},         {HTTP_PATCH, METHOD_PATCH}, {HTTP_DELETE, METHOD_DELETE},
        {HTTP_OPTIONS, METHOD_OPTIONS}, {HTTP_LINK, METHOD_LIST},
    };
    struct http_parser *p = parser_of(llhttp);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (methods[i].from == llhttp->method) {
            p->head->method = (enum http_method)methods[i].to;
            if (p->head->method != METHOD_LIST)
                return 0;
            if (p->own_method) {
                p->head->method = is_scan(p) ? METHOD_SCAN : METHOD_LIST;
                return 0;
            }
        }
    return refuse(p, 501, "method not implemented");
}

/* The position in the head of a span that llhttp gives. */
static size_t head_offset(const struct http_parser *p, const char *at)
{
    return p->head_bytes + (size_t)(at - p->slice);
}

static size_t target_offset(const struct http_parser *p)
{
    return strlen(http_method_name(p->head->method)) + 1;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = parser_of(llhttp);
    struct http_head *head = p->head;
    if (head_offset(p, at) != target_offset(p) + head->target_len)
        return refuse(p, 400, "one space must stand before the request target");
    if (len > p->limits->uri_bytes_max - head->target_len)
        return refuse(p, 414, "request target too long");
    buf_add(&head->text, bytes_of(at, len));
    head->target_len += (uint32_t)len;
    return buf_status(&head->text) == ST_OK ? 0 : refuse(p, 503, "out of memory");
}

/* The length of "http://authority" before the path; 0: not an absolute URL. */
static size_t authority_end(struct bytes target)
{
    size_t scheme = bytes_has_prefix(target, BYTES("http://"))    ? 7
                    : bytes_has_prefix(target, BYTES("https://")) ? 8
                                                                  : 0;
    size_t at = scheme;
    while (scheme != 0 && at < target.len && strchr("/?", target.data[at]) == NULL)
        at++;
    return at > scheme ? at : 0;
}

/* Whether target_sound is true of sixteen bytes. */
static bool is_sound(const uint8_t *at)
{
    const VECTOR_OF(uint8_t) v = vector_at(at), printable = v - '!';
    return vector_is_all((printable <= '~' - '!') & (v != '#'));
}

/* RFC 9112 3.2: controls, blanks, bytes above ASCII and a fragment do not belong in a target. */
static bool target_sound(struct bytes target)
{
    static const uint8_t refused[256] = {[0 ... ' '] = 1, ['#'] = 1, [0x7F ... 0xFF] = 1};
    unsigned odd = 0;
    if (target.len >= VECTOR_BYTES)
        return vector_all_fit(target, is_sound);
    for (size_t i = 0; i < target.len; i++)
        odd |= refused[target.data[i]];
    return odd == 0;
}

static int on_url_complete(llhttp_t *llhttp)
{
    struct http_parser *p = parser_of(llhttp);
    struct http_head *head = p->head;
    struct bytes target = bytes_of(head->text.data, head->target_len);
    p->target_done = true;
    if (!target_sound(target))
        return refuse(p, 400, "invalid character in the request target");
    size_t start = authority_end(target);
    const uint8_t *mark = target.len != 0 ? memchr(target.data, '?', target.len) : NULL;
    size_t end = mark != NULL ? (size_t)(mark - target.data) : target.len;
    bool star = target.len == 1 && target.data[0] == '*' && head->method == METHOD_OPTIONS;
    if (!star && (start >= end || target.data[start] != '/'))
        return refuse(p, 400, "the request target must be a path");
    head->path_at = (uint32_t)start;
    head->path_len = (uint32_t)(end - start);
    head->has_query = mark != NULL;
    head->query_at = (uint32_t)(mark != NULL ? end + 1 : end);
    head->query_len = head->target_len - head->query_at;
    return 0;
}

/* Only for the check that one space, not several, stands between target and version. */
static int on_version(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = parser_of(llhttp);
    (void)len; /* the first byte's place decides */
    if (p->version_seen || is_reply(p))
        return 0;
    p->version_seen = true;
    size_t expected = target_offset(p) + p->head->target_len + strlen(" HTTP/");
    return head_offset(p, at) == expected ? 0
                                          : refuse(p, 400, "one space must stand before HTTP/1.1");
}

static int on_version_complete(llhttp_t *llhttp)
{
    struct http_parser *p = parser_of(llhttp);
    bool one = llhttp->http_major == 1 && llhttp->http_minor <= 1;
    p->version_done = true;
    p->head->http_1_0 = llhttp->http_minor == 0;
    if (!one || (is_reply(p) && p->head->http_1_0))
        return refuse(p, 505, "HTTP version not supported");
    return 0;
}

/* Headers. Trailers are checked, counted and dropped. */

static bool in_trailer(const struct http_parser *p)
{
    return p->phase == PARSE_BODY;
}

static int trailer_bytes(struct http_parser *p, size_t len)
{
    p->trailer_bytes += len + 1;
    return p->trailer_bytes <= p->limits->header_bytes_max ? 0
                                                           : refuse(p, 431, "trailers too large");
}

static bool fields_room(struct http_head *head)
{
    if (head->n_fields < head->fields_cap)
        return true;
    size_t cap = head->fields_cap != 0 ? head->fields_cap * 2 : FIELDS_FIRST;
    struct http_field *fields = mem_realloc(head->fields, cap * sizeof *fields);
    if (fields == NULL)
        return false;
    head->fields = fields;
    head->fields_cap = cap;
    return true;
}

/* Lower eight bytes at a time: 0x80 marks a byte above 'Z' and a byte from 'A' on. */
static uint64_t lower_eight(uint64_t x)
{
    const uint64_t each = 0x0101010101010101, low = x & 0x7f * each;
    uint64_t from_a = low + (0x80 - 'A') * each, beyond_z = low + (0x7f - 'Z') * each;
    return x | ((from_a ^ beyond_z) & ~x & 0x80 * each) >> 2;
}

static void to_lower(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        le64_put(to + i, lower_eight(le64_get(from + i)));
    for (; i < len; i++)
        to[i] = (uint8_t)tolower(from[i]);
}

/* The first span of a name opens a field. */
static int on_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = parser_of(llhttp);
    struct http_head *head = p->head;
    if (in_trailer(p))
        return trailer_bytes(p, len);
    if (len == 0)
        return 0;
    if (!p->in_field) {
        if (!fields_room(head))
            return refuse(p, 503, "out of memory");
        p->in_field = true;
        head->fields[head->n_fields++] = (struct http_field){.name_at = (uint32_t)head->text.len};
    }
    uint8_t *name = buf_extend(&head->text, len);
    if (name == NULL)
        return refuse(p, 503, "out of memory");
    to_lower(name, (const uint8_t *)at, len);
    head->fields[head->n_fields - 1].name_len += (uint32_t)len;
    return 0;
}

static int on_field_complete(llhttp_t *llhttp)
{
    struct http_parser *p = parser_of(llhttp);
    p->in_field = false;
    if (in_trailer(p))
        return 0;
    struct http_field *f = &p->head->fields[p->head->n_fields - 1];
    f->value_at = (uint32_t)p->head->text.len;
    p->head->name_lens |= http_head_len_bit(f->name_len);
    return p->head->n_fields <= p->limits->headers_max ? 0 : refuse(p, 431, "too many headers");
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = parser_of(llhttp);
    struct http_head *head = p->head;
    if (in_trailer(p))
        return trailer_bytes(p, len);
    buf_add(&head->text, bytes_of(at, len));
    head->fields[head->n_fields - 1].value_len += (uint32_t)len;
    return buf_status(&head->text) == ST_OK ? 0 : refuse(p, 503, "out of memory");
}

static bool host_valid(struct bytes host)
{
    if (host.len == 0 || host.len > HOST_BYTES_MAX)
        return false;
    static const bool allowed[256] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['-'] = true,
        ['.'] = true,         ['_'] = true,         ['~'] = true,         [':'] = true,
        ['['] = true,         [']'] = true,         ['%'] = true,
    };
    for (size_t i = 0; i < host.len; i++)
        if (!allowed[host.data[i]])
            return false;
    return true;
}

static int check_host(struct http_parser *p, struct bytes value)
{
    struct http_head *head = p->head;
    if (++p->n_host > 1)
        return refuse(p, 400, "more than one Host");
    if (is_reply(p))
        return 0;
    if (!host_valid(value))
        return refuse(p, 400, "invalid Host");
    struct bytes target = bytes_of(head->text.data, head->target_len);
    struct bytes url_host = bytes_of(target.data, head->path_at);
    if (url_host.len == 0)
        return 0;
    url_host = bytes_from(url_host, url_host.data[4] == 's' ? 8 : 7);
    bool agree = url_host.len == value.len &&
                 strncasecmp((const char *)url_host.data, (const char *)value.data, value.len) == 0;
    return agree ? 0 : refuse(p, 400, "request target and Host disagree");
}

static int check_length(struct http_parser *p, struct bytes value)
{
    uint64_t length = 0;
    if (++p->n_length > 1)
        return refuse(p, 400, "more than one Content-Length");
    if (value.len == 0 || value.len > LENGTH_DIGITS_MAX)
        return refuse(p, 400, "invalid Content-Length");
    for (size_t i = 0; i < value.len; i++) {
        if (!isdigit(value.data[i]))
            return refuse(p, 400, "invalid Content-Length");
        length = length * 10 + (value.data[i] - '0');
    }
    p->head->has_length = true;
    p->head->length = length;
    return 0;
}

static int check_coding(struct http_parser *p, struct bytes value)
{
    if (++p->n_coding > 1)
        return refuse(p, 400, "more than one Transfer-Encoding");
    if (!bytes_are(value, "chunked"))
        return refuse(p, 501, "transfer coding not implemented");
    p->head->chunked = true;
    return 0;
}

static int check_expect(struct http_parser *p, struct bytes value)
{
    if (!bytes_are(value, "100-continue"))
        return refuse(p, 417, "expectation failed");
    p->head->expects_continue = true;
    return 0;
}

static int on_value_complete(llhttp_t *llhttp)
{
    static const struct {
        struct bytes name;
        int (*check)(struct http_parser *p, struct bytes value);
    } checks[] = {
        {{(const uint8_t *)"host", 4}, check_host},
        {{(const uint8_t *)"content-length", 14}, check_length},
        {{(const uint8_t *)"transfer-encoding", 17}, check_coding},
        {{(const uint8_t *)"expect", 6}, check_expect},
    };
    struct http_parser *p = parser_of(llhttp);
    if (in_trailer(p))
        return 0;
    struct http_field *f = &p->head->fields[p->head->n_fields - 1];
    const uint8_t *value = p->head->text.data + f->value_at;
    while (f->value_len != 0 && (value[f->value_len - 1] == ' ' || value[f->value_len - 1] == '\t'))
        f->value_len--;
    struct http_header field = http_head_field(p->head, p->head->n_fields - 1);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (bytes_eq(field.name, checks[i].name))
            return checks[i].check(p, field.value);
    return 0;
}

/* The end of a head and of a message */

static int on_headers_complete(llhttp_t *llhttp)
{
    struct http_parser *p = parser_of(llhttp);
    struct http_head *head = p->head;
    if (!p->version_done && !is_reply(p))
        return refuse(p, 505, "HTTP version not supported");
    if (head->chunked && head->http_1_0)
        return refuse(p, 400, "Transfer-Encoding in HTTP/1.0");
    if (head->chunked && head->has_length)
        return refuse(p, 400, "both Content-Length and Transfer-Encoding");
    if (!is_reply(p) && !head->http_1_0 && p->n_host == 0)
        return refuse(p, 400, "Host is missing");
    if (is_reply(p)) {
        head->status = llhttp->status_code;
        bool bodyless =
            p->no_body || head->status < 200 || head->status == 204 || head->status == 304;
        if (head->status < 100 || head->status == 101 || head->status > 599)
            return refuse(p, 502, "unexpected status");
        if (!bodyless && !head->chunked && !head->has_length)
            return refuse(p, 502, "response without a length");
        p->no_body = bodyless;
    }
    head->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    head->expects_continue = head->expects_continue && !head->http_1_0;
    llhttp->upgrade = 0; /* the client offers another protocol, which the server does not take */
    return HPE_PAUSED;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = parser_of(llhttp);
    ASSERT(p->phase == PARSE_BODY);
    if (p->on_body(p, bytes_of(at, len)))
        return 0;
    ASSERT(p->status != 0);
    return HPE_USER;
}

static int on_chunk_extension(llhttp_t *llhttp, const char *at, size_t len)
{
    (void)at, (void)len; /* the presence of an extension is enough */
    return refuse(parser_of(llhttp), 400, "chunk extensions are not accepted");
}

static int on_message_complete(llhttp_t *llhttp)
{
    parser_of(llhttp)->complete = true;
    return HPE_PAUSED;
}

static llhttp_settings_t settings;

static void settings_init(void)
{
    llhttp_settings_init(&settings);
    settings.on_method_complete = on_method;
    settings.on_url = on_url;
    settings.on_url_complete = on_url_complete;
    settings.on_version = on_version;
    settings.on_version_complete = on_version_complete;
    settings.on_header_field = on_field;
    settings.on_header_field_complete = on_field_complete;
    settings.on_header_value = on_value;
    settings.on_header_value_complete = on_value_complete;
    settings.on_headers_complete = on_headers_complete;
    settings.on_body = on_body;
    settings.on_chunk_extension_name = on_chunk_extension;
    settings.on_chunk_extension_value = on_chunk_extension;
    settings.on_message_complete = on_message_complete;
}

static void parser_init(struct http_parser *p, const struct http_limits *limits,
                        struct http_head *head)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool (*on_run)(struct http_parser *, struct bytes) = p->on_body;
    ASSERT(pthread_once(&once, settings_init) == 0);
    ASSERT(head->text.len == 0 && head->n_fields == 0);
    *p = (struct http_parser){.limits = limits, .head = head, .on_body = on_run};
}

void http_parser_request(struct http_parser *parser, const struct http_limits *limits,
                         struct http_head *head)
{
    parser_init(parser, limits, head);
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &settings);
    parser->llhttp.data = parser;
}

void http_parser_reply(struct http_parser *parser, const struct http_limits *limits,
                       struct http_head *head, bool no_body)
{
    parser_init(parser, limits, head);
    llhttp_init(&parser->llhttp, HTTP_RESPONSE, &settings);
    parser->llhttp.data = parser;
    parser->phase = PARSE_HEAD;
    parser->no_body = no_body;
}

/* Driving llhttp */

static enum http_event refused(struct http_parser *p)
{
    const char *reason = llhttp_get_error_reason(&p->llhttp);
    http_parser_refuse(p, is_reply(p) ? 502 : 400, reason != NULL ? reason : "malformed");
    p->phase = PARSE_END;
    return EVENT_REFUSED;
}

/* The number of bytes of the head that may still come. Every byte counts, blanks too, so the bound
 * does not depend on how the input was split. */
static size_t head_max(const struct http_parser *p)
{
    bool target = !is_reply(p) && !p->target_done;
    return target ? MIN(p->limits->uri_bytes_max + METHOD_SLACK, p->limits->header_bytes_max)
                  : p->limits->header_bytes_max;
}

static enum http_event on_paused(struct http_parser *p)
{
    llhttp_resume(&p->llhttp);
    if (p->complete) {
        p->phase = PARSE_END;
        return EVENT_DONE;
    }
    ASSERT(p->phase == PARSE_HEAD);
    bool body = p->head->chunked || (p->head->has_length && p->head->length != 0);
    p->phase = body && !p->no_body ? PARSE_BODY : PARSE_END;
    return p->phase == PARSE_BODY ? EVENT_HEAD : EVENT_DONE;
}

/* Give llhttp one slice of the input. */
static enum http_event feed(struct http_parser *p, struct bytes in, size_t *ret_used)
{
    static const char nothing[1];
    bool head = p->phase == PARSE_HEAD;
    size_t len = head ? MIN(in.len, head_max(p) + 1 - p->head_bytes) : in.len;
    p->slice = in.len != 0 ? (const char *)in.data : nothing;
    llhttp_errno_t err = llhttp_execute(&p->llhttp, p->slice, len);
    if (err != HPE_OK && err != HPE_PAUSED)
        return refused(p);
    size_t used = err == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&p->llhttp) - p->slice);
    ASSERT(used <= len);
    *ret_used += used;
    p->head_bytes += head ? used : 0;
    if (head && p->head_bytes > head_max(p)) {
        bool target = !is_reply(p) && !p->target_done;
        http_parser_refuse(p, target ? 414 : 431,
                           target ? "request target too long" : "headers too large");
        return refused(p);
    }
    return err == HPE_OK ? EVENT_MORE : on_paused(p);
}

/* Hold the first bytes back until it is clear whether the method is LIST or SCAN, which llhttp does
 * not know: give llhttp "LINK " instead. Skip one empty line before a request, as RFC 9112 2.2
 * asks. */
static enum http_event start(struct http_parser *p, struct bytes in, size_t *ret_used)
{
    static const uint8_t list[5] = {'L', 'I', 'S', 'T', ' '}, link[5] = {'L', 'I', 'N', 'K', ' '};
    static const uint8_t scan[5] = {'S', 'C', 'A', 'N', ' '};
    size_t unused = 0;
    for (; *ret_used < in.len; ++*ret_used) {
        uint8_t c = in.data[*ret_used];
        const uint8_t *word = is_scan(p) || (p->start_len == 0 && c == scan[0]) ? scan : list;
        if (p->start_len == 0 && c == '\r' && !p->half_crlf && !p->skipped_crlf) {
            p->half_crlf = true;
        } else if (p->half_crlf) {
            if (c != '\n')
                return refused(p);
            p->half_crlf = false;
            p->skipped_crlf = true;
        } else if (c != word[p->start_len]) {
            break;
        } else {
            p->start[p->start_len++] = c;
            p->own_method = p->start_len == sizeof list;
            if (p->own_method) {
                ++*ret_used;
                break;
            }
        }
    }
    if (*ret_used == in.len && !p->own_method)
        return EVENT_MORE;
    if (p->start_len == 0 && (in.data[*ret_used] == '\r' || in.data[*ret_used] == '\n'))
        return refused(p);
    p->phase = PARSE_HEAD;
    return feed(p, bytes_of(p->own_method ? link : p->start, p->start_len), &unused);
}

enum http_event http_parser_run(struct http_parser *parser, struct bytes in, size_t *ret_used)
{
    enum http_event event = EVENT_MORE;
    size_t used = 0;
    ASSERT(parser->phase != PARSE_END);
    if (parser->phase == PARSE_START)
        event = start(parser, in, &used);
    bool first = parser->phase != PARSE_START; /* parse after a head even without input */
    for (; event == EVENT_MORE && (first || used < in.len) && parser->phase != PARSE_START;
         first = false)
        event = feed(parser, bytes_from(in, used), &used);
    *ret_used = used;
    return event;
}

bool http_parser_untouched(const struct http_parser *parser)
{
    return parser->phase == PARSE_START && parser->start_len == 0;
}
