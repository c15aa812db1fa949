/* The body of every route that has fields. A body that fits the route's schema is made, changed at
 * random, and decoded as the router does. What each kind of field takes is worked out a second
 * time, from the comments of text/schema.h: what does not fit is refused with the field's name,
 * everything else is decoded, and what was decoded and is written as JSON decodes as the same.
 *
 * The first two bytes of an input choose the route; the same input then goes through the next
 * routes too. */
#include "dice.h"

#include "front/registry/registry.h"
#include "front/secrets/secrets.h"
#include "router/request/body.h"
#include "router/request/dialect.h"
#include "server/server.h"
#include "text/duration.h"
#include "text/schema.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROUTES_MAX = 1024, ROUTES_A_RUN = 16, BODIES = 8, CHANGES_MAX = 4 };

/* The routes with fields */

static struct taker {
    const struct route *route;
    const struct route_api *api;
} takers[ROUTES_MAX];
static unsigned n_takers;

static void find_takers(void)
{
    const struct route_api *api;
    const struct route *route;
    struct module_walk modules = {0};
    while ((api = module_next_api(&server_modules, &modules)) != NULL) {
        struct route_walk rows = {0};
        while ((route = route_next(api, &rows)) != NULL)
            if (route->body != NULL) {
                ASSERT(n_takers < ROUTES_MAX);
                takers[n_takers++] = (struct taker){route, api};
            }
    }
    ASSERT(n_takers > 100);
}

/* The second opinion */

static bool is_like(struct bytes text, const char *pattern)
{
    static struct {
        const char *pattern;
        regex_t compiled;
    } known[8];
    size_t i = 0;
    while (known[i].pattern != NULL && strcmp(known[i].pattern, pattern) != 0)
        i++;
    ASSERT(i + 1 < ARRAY_LEN(known));
    if (known[i].pattern == NULL)
        ASSERT(regcomp(&known[i].compiled, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    known[i].pattern = pattern;
    if (text.len != 0 && memchr(text.data, 0, text.len) != NULL)
        return false;
    return regexec(&known[i].compiled, text.len != 0 ? (const char *)text.data : "", 0, NULL, 0) ==
           0;
}

static bool is_int(struct bytes text, int64_t *ret_n)
{
    if (!is_like(text, "^-?[0-9]+$"))
        return false;
    errno = 0;
    *ret_n = strtoll((const char *)text.data, NULL, 10);
    return errno == 0;
}

/* Whether a text is a duration; the sum of a Go form is computed with a fraction. */
static bool is_duration(struct bytes text)
{
    static const struct {
        const char *name;
        long double ns;
    } units[] = {{"ms", 1e6L},  {"us", 1e3L}, {"ns", 1},  {"\xc2\xb5s", 1e3L},
                 {"h", 36e11L}, {"m", 6e10L}, {"s", 1e9L}};
    int64_t n;
    long double sum = 0;
    if (text.len == 0)
        return true;
    bool days = text.data[text.len - 1] == 'd';
    if (is_like(text, "^-?[0-9]+d?$")) {
        char digits[64] = "";
        (void)memcpy(digits, text.data, MIN(text.len - days, sizeof digits - 1));
        return is_int(bytes_str(digits), &n) && n >= 0 &&
               (long double)n * (days ? 864e11L : 1e9L) < 9223372036854775807.5L;
    }
    if (!is_like(text, "^(([0-9]+\\.?[0-9]*|\\.[0-9]+)(h|ms|m|s|us|ns|\xc2\xb5s))+$"))
        return false;
    for (const char *at = (const char *)text.data; *at != '\0';) {
        char *end;
        long double number = strtold(at, &end);
        size_t u = 0;
        while (strncmp(end, units[u].name, strlen(units[u].name)) != 0)
            u++;
        sum += number * units[u].ns;
        at = end + strlen(units[u].name);
    }
    return sum < 9223372036854775807.5L;
}

static bool is_size(struct bytes text)
{
    static const struct {
        const char *name;
        long double bytes;
    } units[] = {{"KiB", 0x1p10L}, {"MiB", 0x1p20L}, {"GiB", 0x1p30L}, {"TiB", 0x1p40L},
                 {"KB", 1e3L},     {"MB", 1e6L},     {"GB", 1e9L},     {"TB", 1e12L}};
    char digits[64] = "";
    long double unit = 1;
    int64_t n;
    for (size_t i = 0; i < ARRAY_LEN(units) && unit == 1; i++) {
        size_t len = strlen(units[i].name);
        if (text.len <= len || !text_is(bytes_from(text, text.len - len), units[i].name))
            continue;
        unit = units[i].bytes;
        text.len -= len;
    }
    (void)memcpy(digits, text.len != 0 ? (const char *)text.data : "",
                 MIN(text.len, sizeof digits - 1));
    return is_int(bytes_str(digits), &n) && n >= 0 &&
           (long double)n * unit < 9223372036854775807.5L;
}

static bool is_bool(const struct text_value *v)
{
    int64_t n;
    if (v->kind == TEXT_STRING)
        return v->text.len == 0 ||
               is_like(v->text, "^(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False)$");
    return v->kind == TEXT_BOOL || (v->kind == TEXT_NUMBER && is_int(v->text, &n));
}

static bool is_scalar(const struct text_value *v)
{
    if (v->kind == TEXT_STRING)
        return v->text.len == 0 || memchr(v->text.data, 0, v->text.len) == NULL;
    return v->kind == TEXT_BOOL || v->kind == TEXT_NUMBER;
}

static bool is_pair(const struct text_value *v)
{
    return v->kind == TEXT_STRING && is_scalar(v) && v->text.len != 0 &&
           memchr(v->text.data, '=', v->text.len) != NULL;
}

static bool is_map(const struct text_value *v)
{
    TEXT_FOR (item, v)
        if (v->kind == TEXT_OBJECT
                ? !is_scalar(item) ||
                      (item->name.len != 0 && memchr(item->name.data, 0, item->name.len) != NULL)
                : !is_pair(item))
            return false;
    return v->kind == TEXT_OBJECT || v->kind == TEXT_LIST || is_pair(v);
}

static bool is_strings(const struct text_value *v)
{
    TEXT_FOR (item, v)
        if (!is_scalar(item))
            return false;
    bool vain = v->kind == TEXT_STRING && v->text.len != 0 && is_like(v->text, "^[ ,]+$");
    return v->kind == TEXT_LIST || (is_scalar(v) && !vain);
}

static bool field_takes(const struct field *f, const struct text_value *v)
{
    bool text = v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
    int64_t n;
    switch (f->kind) {
    case FIELD_STRING: return is_scalar(v) && !(f->exact && v->kind == TEXT_BOOL);
    case FIELD_BOOL: return is_bool(v);
    case FIELD_INT: return (v->kind == TEXT_BOOL && !f->exact) || (text && is_int(v->text, &n));
    case FIELD_DURATION:
        return text && v->text.len != 0 && is_duration(v->text) &&
               text_seconds_parse(v->text, &n) == ST_OK; /* its unit test judges fractions */
    case FIELD_SIZE: return text && is_size(v->text);
    case FIELD_STRINGS: return is_strings(v);
    case FIELD_MAP: return is_map(v);
    case FIELD_VALUE: return true;
    default: break;
    }
    ASSERT(f->kind < FIELD_OBJECT); /* no body has a field of a reply */
    return false;
}

/* Whether the value has the JSON type of the field, as a typed schema asks. */
static bool has_type(const struct field *f, const struct text_value *v)
{
    bool map = f->kind == FIELD_MAP;
    if (f->kind == FIELD_STRING || f->kind == FIELD_BOOL || f->kind == FIELD_INT)
        return v->kind == (f->kind == FIELD_STRING ? TEXT_STRING
                           : f->kind == FIELD_BOOL ? TEXT_BOOL
                                                   : TEXT_NUMBER);
    if (!map && f->kind != FIELD_STRINGS)
        return true;
    TEXT_FOR (item, v)
        if (item->kind != TEXT_STRING)
            return false;
    return v->kind == (map ? TEXT_OBJECT : TEXT_LIST);
}

static bool is_name_of(const struct schema *schema, const struct field *f, struct bytes name)
{
    size_t len = strlen(f->name);
    return name.len == len &&
           (schema->fold_case ? strncasecmp((const char *)name.data, f->name, len) == 0
                              : memcmp(name.data, f->name, len) == 0);
}

static bool takes(const struct schema *schema, const struct text_value *object)
{
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        const struct text_value *found = NULL;
        TEXT_FOR (v, object) {
            if (!is_name_of(schema, f, v->name))
                continue;
            if (found != NULL)
                return false;
            found = v;
        }
        if (found != NULL && found->kind == TEXT_NULL && f->kind != FIELD_VALUE)
            found = NULL;
        if (found != NULL && found->kind == TEXT_STRING && found->text.len == 0 && !f->exact &&
            !schema->typed &&
            (f->kind == FIELD_BOOL || f->kind == FIELD_INT || f->kind == FIELD_DURATION ||
             f->kind == FIELD_SIZE))
            found = NULL;
        if (found != NULL && schema->typed && !has_type(f, found))
            return false;
        if (found == NULL ? f->required : !field_takes(f, found))
            return false;
    }
    return true;
}

/* Making bodies */

static const char *const of_kind[][6] = {
    [FIELD_STRING] = {"\"text\"", "\"\"", "7", "true", "\"\\u00e9 \\\"\"", "-1.5e3"},
    [FIELD_BOOL] = {"true", "false", "\"true\"", "1", "\"\"", "\"F\""},
    [FIELD_INT] = {"0", "-5", "\"12\"", "9223372036854775807", "true", "\"\""},
    [FIELD_DURATION] = {"90", "\"1h30m\"", "\"2d\"", "\"1.5h3s\"", "\"\"", "\"106751d\""},
    [FIELD_SIZE] = {"4096", "\"64MiB\"", "\"1KB\"", "0", "\"8388607TiB\"", "\"5\""},
    [FIELD_STRINGS] = {"[]", "[\"a\", 1]", "\"a, b,c\"", "\"\"", "[true]", "[\"a,b\"]"},
    [FIELD_MAP] = {"{}", "{\"a\": \"b\", \"c\": 1}", "\"a=b=c\"", "[\"a=1\", \"b=\"]", "[]",
                   "{\"\": \"\"}"},
    [FIELD_VALUE] = {"null", "{\"a\": [1, {}]}", "[]", "\"x\"", "1e400", "true"},
};
static const char *const odd[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1",
    "1.5",
    "1e3",
    "007",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "123456789012345678901234567890",
    "\"\"",
    "\" \"",
    "\", ,\"",
    "\"500ms\"",
    "\"1.5s\"",
    "\"a\\u0000b\"",
    "\"a=b\"",
    "\"=\"",
    "\"True\"",
    "\"tRue\"",
    "\"+5\"",
    "\"5 \"",
    "\"1h\"",
    "\"-1h\"",
    "\"1h1\"",
    "\".h\"",
    "\"1.h\"",
    "\"-0\"",
    "\"d\"",
    "\"106752d\"",
    "\"9223372037\"",
    "\"9223372036s\"",
    "\"1KiB\"",
    "\"KiB\"",
    "\"-1KiB\"",
    "\"8388608TiB\"",
    "\"1.5KiB\"",
    "\"1 KB\"",
    "[]",
    "[[]]",
    "[null]",
    "[{}]",
    "[\"a\", \"a\"]",
    "[\"a=1\", \"a=2\"]",
    "[\"a=1\", \"b\"]",
    "{}",
    "{\"a\": null}",
    "{\"a\": {}}",
    "{\"a\\u0000\": \"b\"}",
    "{\"a\": [1]}",
    "\"\\ud83d\\ude00\"",
    "{\"a\": 1, \"A\": 2}",
};

static void put_name(struct dice *d, const struct schema *schema, const struct field *f,
                     struct buf *out)
{
    bool other = schema->fold_case && dice_once(d, 4);
    buf_add_str(out, "\"");
    for (const char *c = f->name; *c != '\0'; c++)
        buf_add_u8(out, (uint8_t)(other && ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))
                                      ? *c ^ 0x20
                                      : *c));
    buf_add_str(out, "\": ");
}

/* A value that the field takes: an exact field takes no boolean, and an empty text in place of a
 * number or boolean means that the field is not given. A typed schema takes the JSON type alone. */
static const char *right_value(struct dice *d, const struct schema *schema, const struct field *f)
{
    static const char *const typed[][2] = {
        [FIELD_STRING] = {"\"text\"", "\"\""},
        [FIELD_BOOL] = {"true", "false"},
        [FIELD_INT] = {"0", "-5"},
        [FIELD_DURATION] = {"90", "\"2d\""},
        [FIELD_SIZE] = {"4096", "\"1KB\""},
        [FIELD_STRINGS] = {"[]", "[\"a,b\"]"},
        [FIELD_MAP] = {"{}", "{\"a\": \"b\"}"},
        [FIELD_VALUE] = {"null", "[]"},
    };
    if (schema->typed)
        return typed[f->kind][dice_below(d, 2)];
    const char *value = of_kind[f->kind][dice_below(d, 6)];
    bool number = f->kind == FIELD_BOOL || f->kind == FIELD_INT || f->kind == FIELD_DURATION ||
                  f->kind == FIELD_SIZE;
    bool blank = number && strcmp(value, "\"\"") == 0, truth = strcmp(value, "true") == 0;
    bool wrong = f->exact ? truth || blank : f->required && blank;
    return wrong ? of_kind[f->kind][0] : value;
}

/* `changes`: one in so many members is changed; 0: none, the body fits. */
static void make_body(struct dice *d, const struct schema *schema, unsigned changes,
                      struct buf *out)
{
    const char *comma = "";
    buf_add_str(out, "{");
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        bool change = changes != 0 && dice_once(d, changes);
        if (change ? dice_once(d, 4) : !f->required && dice_once(d, 3))
            continue;
        ASSERT(f->kind < ARRAY_LEN(of_kind));
        buf_add_str(out, comma);
        put_name(d, schema, f, out);
        buf_add_str(out, change ? odd[dice_below(d, ARRAY_LEN(odd))] : right_value(d, schema, f));
        comma = ", ";
        if (change && dice_once(d, 6)) /* once more */
            i--;
    }
    if (changes != 0 && dice_once(d, 4))
        buf_add_format(out, "%s\"%s\": 1", comma, dice_once(d, 2) ? "unknown" : "");
    buf_add_str(out, "}");
}

/* A few bytes put in, changed or taken out. */
static void spoil(struct dice *d, struct buf *text)
{
    for (unsigned n = dice_below(d, CHANGES_MAX); n > 0 && text->len > 0; n--) {
        size_t at = (dice_below(d, 256) * 256u + dice_below(d, 256)) % text->len;
        static const char likely[] = "{}[]\",:\\0eE-.n\x00\xff\xc3 ";
        uint8_t byte = (uint8_t)(dice_once(d, 4) ? dice_below(d, 256)
                                                 : (uint8_t)likely[dice_below(d, sizeof likely)]);
        if (dice_once(d, 3)) {
            memmove(text->data + at, text->data + at + 1, text->len - at - 1);
            text->len--;
        } else {
            text->data[at] = byte;
        }
    }
}

/* Decoding */

/* The decoded struct as JSON; false: it was refused. */
static bool decode(const struct schema *schema, const struct text_value *object,
                   struct arena *arena, struct buf *ret_json)
{
    struct schema_fault fault = {0};
    struct text_writer w = {.out = ret_json, .plain = true};
    void *out = arena_alloc(arena, schema->size + 1);
    enum status st = schema_decode(schema, object, arena, out, &fault);
    if (st != ST_OK) {
        size_t i = 0;
        while (i < schema->n && strncmp(fault.field, schema->fields[i].name, 63) != 0)
            i++;
        ASSERT(st == ST_INVALID && i < schema->n && fault.why.text[0] != '\0');
        return false;
    }
    schema_encode(schema, out, &w);
    ASSERT(buf_status(ret_json) == ST_OK);
    return true;
}

/* Whether a body was taken, or refused with the status of its dialect. */
static bool is_verdict(enum status st)
{
    return st == ST_OK || st == ST_INVALID || st == ST_REFUSED;
}

/* The same through the router: what the path captured goes before what the body says. */
static void decode_as_router(const struct taker *t, const struct text_value *object,
                             struct arena *arena, bool fits)
{
    struct req req = {.arena = arena,
                      .route = t->route,
                      .api = t->api,
                      .dialect = t->api->dialect != NULL ? t->api->dialect : &secrets_dialect,
                      .method = METHOD_PUT,
                      .data = object};
    enum status st = body_decode(&req);
    ASSERT(is_verdict(st));
    ASSERT((st == ST_OK) == (req.body != NULL));
    ASSERT(st != ST_OK || fits);
    if (st != ST_OK)
        ASSERT(req_error(&req)->text[0] != '\0');
    const struct text_value *unknown = schema_unknown(t->route->body, object, NULL);
    bool strict = req.dialect == &registry_dialect && t->route->input != INPUT_FREE;
    if (fits)
        ASSERT((st == ST_OK) == (unknown == NULL || !strict));
    req.params.n = 1;
    req.params.items[0].name = bytes_str(t->route->body->fields[0].name);
    req.params.items[0].value = "x=1";
    req.body = NULL;
    st = body_decode(&req);
    ASSERT(is_verdict(st));
}

static bool try_body(const struct taker *t, struct bytes text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf first = {0};
    CLEANUP(buf_done) struct buf second = {0};
    const struct body_raw raw = {.method = METHOD_PUT, .text = text, .route = t->route};
    const struct dialect *dialect = t->api->dialect;
    const struct schema *schema = t->route->body;
    const struct text_value *object = NULL;
    struct reason why = {0};
    enum status st = dialect != NULL ? dialect->parse_body(&arena, &raw, &object, &why)
                                     : body_parse(&arena, &raw, &object, &why);
    ASSERT(is_verdict(st) || st == ST_TOO_BIG);
    if (st != ST_OK) {
        ASSERT(why.text[0] != '\0');
        return false;
    }
    ASSERT(object->kind == TEXT_OBJECT);
    bool fits = takes(schema, object), decoded = decode(schema, object, &arena, &first);
    if (fits != decoded)
        (void)fprintf(stderr, "%s: %.*s\n", t->route->path, (int)text.len, (const char *)text.data);
    ASSERT(fits == decoded);
    decode_as_router(t, object, &arena, fits);
    if (!decoded)
        return false;
    st = text_json_parse(&arena, buf_bytes(&first), &object, &why);
    if (st != ST_OK || !decode(schema, object, &arena, &second) ||
        !bytes_eq(buf_bytes(&first), buf_bytes(&second)))
        (void)fprintf(stderr, "%s: %.*s: %.*s: %s\n", t->route->path, (int)text.len,
                      (const char *)text.data, (int)first.len, (const char *)first.data, why.text);
    ASSERT(st == ST_OK && bytes_eq(buf_bytes(&first), buf_bytes(&second)));
    return true;
}

/* Whether the media type of a header is the one that PATCH takes. */
static bool is_merge_patch(const char *header)
{
    static const char wanted[] = "application/merge-patch+json";
    size_t len = strcspn(header, ";");
    while (len > 0 && header[len - 1] == ' ')
        len--;
    return len == sizeof wanted - 1 && strncasecmp(header, wanted, len) == 0;
}

/* The input as a body of each content type. A body that begins as JSON is JSON, whatever the header
 * says, and only a header can make it a form. */
static void try_types(struct bytes text)
{
    static const char *const types[] = {"",
                                        "application/json",
                                        "application/x-www-form-urlencoded",
                                        "Application/X-WWW-Form-Urlencoded ; charset=utf-8",
                                        "application/merge-patch+json; charset=utf-8",
                                        "application/merge-patch+jsoN",
                                        "text/plain",
                                        "json",
                                        ";"};
    static const enum http_method methods[] = {METHOD_POST, METHOD_PUT, METHOD_PATCH};
    const bool json = text.len != 0 && (text.data[0] == '{' || text.data[0] == '[');
    for (size_t i = 0; i < ARRAY_LEN(types) * ARRAY_LEN(methods); i++) {
        CLEANUP(arena_done) struct arena arena = {.bytes_max = 1 << 24};
        const char *type = types[i / ARRAY_LEN(methods)];
        const struct body_raw raw = {.method = methods[i % ARRAY_LEN(methods)],
                                     .text = text,
                                     .content_type = bytes_str(type),
                                     .route = takers[0].route};
        const struct text_value *object = NULL, *plain = NULL;
        struct reason why = {0};
        struct body_raw untyped = raw;
        untyped.content_type = (struct bytes){0};
        enum status st = body_parse(&arena, &raw, &object, &why);
        ASSERT(st == ST_OK || ((st == ST_INVALID || st == ST_TOO_BIG) && why.text[0] != '\0'));
        ASSERT(st != ST_OK || object->kind == TEXT_OBJECT);
        if (json)
            ASSERT(body_parse(&arena, &untyped, &plain, &why) == st);
        ASSERT((body_check_patch_type(bytes_str(type), &why) == ST_OK) == is_merge_patch(type));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dice d = dice_of(data, size);
    if (n_takers == 0)
        find_takers();
    try_types(bytes_of(data, size));
    unsigned from = dice_below(&d, 256) * 256u + dice_below(&d, 256);
    for (unsigned i = 0; i < ROUTES_A_RUN; i++)
        for (unsigned n = 0; n < BODIES; n++) {
            const struct taker *t = &takers[(from + i) % n_takers];
            CLEANUP(buf_done) struct buf body = {0};
            make_body(&d, t->route->body, n % 4, &body);
            if (n >= BODIES / 2)
                spoil(&d, &body);
            bool fine = try_body(t, buf_bytes(&body));
            ASSERT(n != 0 || fine);
        }
    return 0;
}
