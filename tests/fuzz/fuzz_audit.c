/* The records of requests and replies. Random requests are recorded and shown as devices show them:
 * each line is one JSON object without a line end and fits into the hash chain. Shown with HMACs, a
 * line differs from the line in clear in what has to be hidden, and in nothing else; shown in any
 * form but in clear, it has no planted secret.
 *
 * The first byte says whether the rest is the body of request and reply itself. */
#include "dice.h"

#include "audit/audit_spare.h"
#include "audit/chain.h"
#include "audit/facts.h"
#include "crypto/crypto.h"
#include "text/json.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NESTED_MAX = 5, MEMBERS_MAX = 5, HEADERS = 3 };

#define SECRET "s3cr3t"
#define ACCESSOR "acc3ss0r"
#define OPEN "open" /* the key whose values a mount exempts */

static const char *const exempt_keys[] = {OPEN};
static const char *const keys[] = {"keys",       "a", "key_info", OPEN,   "value",
                                   "caf\\u00e9", "",  "\\\"",     "data", "hash"};
static const char *const scalars[] = {
    "null",     "true", "0",  "-1.5e300",         "\"\"",
    "\"open\"", "[]",   "{}", "\"hmac-sha256:\"", "123456789012345678901"};

/* Making bodies */

/* Strings are secrets, except below the exempt key. */
static void put_string(struct dice *d, struct buf *out, bool open)
{
    static const char *const tails[] = {"",    "\\u0000", "\\n", "\\\\", "\\ud83d\\ude00",
                                        "<&>", "\\\"",    "é"};
    buf_add_format(out, "\"%s%u%s\"", open ? "public" : SECRET, dice_below(d, 100),
                   tails[dice_below(d, ARRAY_LEN(tails))]);
}

static void put_json(struct dice *d, struct buf *out, unsigned depth, bool open)
{
    unsigned kind = dice_below(d, depth < NESTED_MAX ? 5 : 3);
    unsigned n = dice_below(d, MEMBERS_MAX), first = dice_below(d, ARRAY_LEN(keys));
    if (kind == 0) {
        buf_add_str(out, scalars[dice_below(d, ARRAY_LEN(scalars))]);
        return;
    }
    if (kind < 3) {
        put_string(d, out, open);
        return;
    }
    buf_add_str(out, kind == 3 ? "[" : "{");
    for (unsigned i = 0; i < n; i++) {
        const char *key = keys[(first + i) % ARRAY_LEN(keys)];
        buf_add_str(out, i != 0 ? "," : "");
        if (kind == 4)
            buf_add_format(out, "\"%s\":", key);
        put_json(d, out, depth + 1, kind == 4 ? strcmp(key, OPEN) == 0 : open);
    }
    buf_add_str(out, kind == 3 ? "]" : "}");
}

static void put_object(struct dice *d, struct buf *out)
{
    buf_add_str(out, "{");
    for (unsigned i = 0, n = dice_below(d, MEMBERS_MAX); i < n; i++) {
        buf_add_format(out, "%s\"%s\":", i != 0 ? "," : "", keys[i]);
        put_json(d, out, 0, strcmp(keys[i], OPEN) == 0);
    }
    buf_add_str(out, "}");
}

/* Comparing lines */

/* What is recorded: JSON; the reply may be none. `clean`: no key of a body has the secret, so that
 * no line but that in clear may show it. */
struct content {
    struct bytes request, reply;
    bool exempts, clean, listing;
};

static struct hmac *salt;

static bool has(struct bytes text, const char *word)
{
    return text.len != 0 && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* What is no UTF-8 stands in clear as other characters than its HMAC was made of. */
static bool is_hidden(struct bytes plain, struct bytes shown)
{
    char text[AUDIT_HMAC_LEN + 1];
    if (has(plain, "\xef\xbf\xbd"))
        return shown.len == AUDIT_HMAC_LEN && bytes_has_prefix(shown, BYTES("hmac-sha256:"));
    ASSERT(audit_hmac(salt, plain, text) == ST_OK);
    return text_is(shown, text);
}

/* `must`: each string is hidden unless the innermost key above it is exempt. Elsewhere a string is
 * shown or hidden; none that has a secret is shown. */
static void compare(const struct text_value *raw, const struct text_value *shown, bool must,
                    bool open, const struct content *content)
{
    ASSERT(bytes_eq(raw->name, shown->name));
    if (raw->kind != shown->kind) { /* a scalar of a request, which no route declares */
        struct bytes truth = raw->truth ? BYTES("true") : BYTES("false");
        ASSERT(raw->kind == TEXT_NUMBER || raw->kind == TEXT_BOOL);
        ASSERT(shown->kind == TEXT_STRING);
        ASSERT(is_hidden(raw->kind == TEXT_BOOL ? truth : raw->text, shown->text));
        return;
    }
    ASSERT(raw->n == shown->n && raw->truth == shown->truth);
    if (raw->kind == TEXT_NUMBER)
        ASSERT(bytes_eq(raw->text, shown->text));
    if (raw->kind == TEXT_STRING && must)
        ASSERT(open ? bytes_eq(raw->text, shown->text) : is_hidden(raw->text, shown->text));
    if (raw->kind == TEXT_STRING && !must)
        ASSERT(bytes_eq(raw->text, shown->text) || is_hidden(raw->text, shown->text));
    const struct text_value *other = shown->first;
    TEXT_FOR (item, raw) {
        bool named = raw->kind == TEXT_OBJECT;
        bool exempt = (content->exempts && text_is(item->name, OPEN)) ||
                      (content->clean && text_is(item->name, "http_content_type"));
        compare(item, other, must || (named && text_is(item->name, "data")),
                must && named ? exempt : open, content);
        other = other->next;
    }
}

static const struct text_value *parse(struct arena *arena, struct bytes line)
{
    const struct text_value *v;
    struct reason why = {{0}};
    enum status st = text_json_parse(arena, line, &v, &why);
    if (st != ST_OK)
        (void)fprintf(stderr, "%.*s\n%s\n", (int)line.len, (const char *)line.data, why.text);
    ASSERT(st == ST_OK && v->kind == TEXT_OBJECT && v->n > 1);
    return v;
}

static unsigned count(struct bytes text, const char *word)
{
    unsigned n = 0;
    while (has(text, word)) {
        const uint8_t *at = memmem(text.data, text.len, word, strlen(word));
        text = bytes_from(text, (size_t)(at - text.data) + strlen(word));
        n++;
    }
    return n;
}

/* The names of a listing are shown as their number. */
static void check_elided(const struct text_value *raw, const struct text_value *elided)
{
    static const char *const names[] = {"keys", "key_info"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct text_value *list = text_get(text_get(raw, "data"), names[i]);
        const struct text_value *shown = text_get(text_get(elided, "data"), names[i]);
        int64_t n;
        if (list == NULL || (list->kind != TEXT_LIST && list->kind != TEXT_OBJECT))
            continue;
        ASSERT(shown != NULL && shown->kind == TEXT_NUMBER && text_to_int(shown, &n) == ST_OK);
        ASSERT(n == (int64_t)list->n);
    }
}

static void check_record(const struct audit_record *record, const struct content *content,
                         const struct text_value *body)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct buf lines[4] = {{0}, {0}, {0}, {0}};
    const struct text_value *trees[4];
    const struct audit_render how[4] = {{.raw = true, .hmac_accessor = true},
                                        {.salt = salt, .hmac_accessor = true},
                                        {.salt = salt, .elide = true},
                                        {.hmac_accessor = true}};
    for (unsigned i = 0; i < 4; i++) {
        ASSERT(audit_record_render(record, &how[i], &lines[i]) == ST_OK);
        ASSERT(!has(buf_bytes(&lines[i]), "\n"));
        trees[i] = parse(&arena, buf_bytes(&lines[i]));
        ASSERT(i == 0 || !content->clean || !has(buf_bytes(&lines[i]), SECRET));
        ASSERT(!how[i].hmac_accessor || i == 0 || !content->clean ||
               !has(buf_bytes(&lines[i]), ACCESSOR));
    }
    compare(trees[0], trees[1], false, false, content);
    ASSERT(count(buf_bytes(&lines[0]), ACCESSOR) == count(buf_bytes(&lines[2]), ACCESSOR));
    const struct text_value *type = text_get(trees[0], "type");
    const struct text_value *part = text_get(trees[0], (const char *)type->text.data);
    if (body != NULL && body->n != 0) {
        CLEANUP(buf_done) struct buf want = {0};
        CLEANUP(buf_done) struct buf have = {0};
        struct text_writer w = {.out = &want}, v = {.out = &have};
        text_put_value(&w, body);
        text_put_value(&v, text_get(part, "data"));
        ASSERT(bytes_eq(buf_bytes(&want), buf_bytes(&have)));
    }
    if (content->listing && text_get(trees[0], "response") != NULL)
        check_elided(text_get(trees[0], "response"), text_get(trees[2], "response"));
    for (unsigned i = 0; i < 4; i++)
        buf_done(&lines[i]);
}

/* Both records behind each other in the file of a device, which copies what they share. */
static void check_chain(const struct audit_record *request, const struct audit_record *reply)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf alone = {0};
    struct audit_recent recent = {0};
    struct audit_render how = {.salt = salt, .recent = &recent};
    struct chain chain = {0};
    struct chain_check check = {0};
    ASSERT(crypto_sha256_new(&check.hash) == ST_OK);
    const struct audit_record *const both[] = {request, reply};
    for (unsigned i = 0; i < 2; i++) {
        size_t from = text.len;
        how.recent = &recent;
        ASSERT(audit_record_render(both[i], &how, &text) == ST_OK);
        how.recent = NULL;
        buf_clear(&alone);
        ASSERT(audit_record_render(both[i], &how, &alone) == ST_OK);
        ASSERT(bytes_eq(bytes_from(buf_bytes(&text), from), buf_bytes(&alone)));
        chain_link(&chain, check.hash, &text, from);
        ASSERT(chain_check_line(&check, bytes_from(buf_bytes(&text), from), true) == NULL);
    }
    crypto_sha256_free(check.hash);
}

/* Recording */

static void describe(struct dice *d, struct audit_facts *facts, struct audit_reply *reply)
{
    static const char *const policies[] = {"default", "team \"a\"", "\xc3\xa9\n"};
    static const char *const pairs[] = {"user", "a\"b", "", ""};
    static const char *const peers[] = {NULL, "127.0.0.1:80", "[::1]:80", "::1", "odd", ":"};
    static const char *const paths[] = {
        "", "kv/a", "kv/\"\\\n", "\xff\xfe", "sys/\xf0\x9f\x98\x80/", "<a>"};
    static const struct bytes header_values[] = {
        {(const uint8_t *)SECRET "-header", sizeof SECRET "-header" - 1},
        {(const uint8_t *)SECRET, sizeof SECRET - 1},
        {(const uint8_t *)"\xff", 1}};
    static struct audit_header_fact headers[HEADERS] = {{"x-a", header_values, 3, true},
                                                        {"x-b", header_values + 2, 1, false},
                                                        {"x-c", NULL, 0, true}};
    static const struct audit_reply_header more[] = {
        {{(const uint8_t *)"location", 8}, {(const uint8_t *)"/\"\x01", 3}}};
    const struct field_strings names = {policies, dice_below(d, ARRAY_LEN(policies) + 1), true};
    bool judged = dice_once(d, 2);
    facts->auth = (struct audit_auth){
        .client_token = BYTES("hvs." SECRET "\"token"),
        .accessor = judged || dice_once(d, 2) ? ACCESSOR "1" : NULL,
        .display_name = dice_once(d, 2) ? "a\tb" : NULL,
        .policies = names,
        .metadata = {pairs, dice_below(d, 3), true},
        .remaining_uses = dice_below(d, 3),
        .judged = judged,
        .allowed = dice_once(d, 2),
        .rule = {dice_once(d, 2) ? "kv/\"*" : NULL, names, names},
    };
    facts->path = bytes_str(paths[dice_below(d, ARRAY_LEN(paths))]);
    facts->peer = peers[dice_below(d, ARRAY_LEN(peers))];
    facts->headers = headers;
    facts->n_headers = dice_below(d, HEADERS + 1);
    if (dice_once(d, 2))
        facts->mount = (struct audit_mount){"kv/", "kv", "kv_\"1", NULL};
    reply->http = 200;
    reply->lease_id = dice_once(d, 3) ? "kv/\n" : NULL;
    reply->warnings = policies;
    reply->n_warnings = dice_below(d, 3);
    reply->headers = more;
    reply->n_headers = dice_below(d, 2);
    reply->forwarded = dice_once(d, 2);
}

static void record(struct dice *d, const struct content *content)
{
    CLEANUP(arena_done) struct arena arena = {0};
    static const struct audit_wrapping wrapping = {.token = {(const uint8_t *)SECRET "wrap", 10},
                                                   .accessor = ACCESSOR "2",
                                                   .wrapped_accessor = ACCESSOR "3",
                                                   .creation_path = "sys/\"",
                                                   .ttl_s = 5};
    struct audit_facts facts = {.request_id = "id", .operation = "update", .ns = "root"};
    struct audit_reply reply = {.data = content->reply, .listing = content->listing};
    struct audit_record *part, *request, *answer;
    const struct text_value *told = NULL, *body = NULL;
    struct audit_spare spare = {0};
    describe(d, &facts, &reply);
    facts.spare = dice_once(d, 2) ? &spare : NULL;
    if (content->exempts)
        facts.exempt = reply.exempt = (struct field_strings){exempt_keys, 1, true};
    if (text_json_parse(&arena, content->request, &body, NULL) == ST_OK &&
        body->kind == TEXT_OBJECT)
        facts.data = body;
    if (content->reply.len != 0)
        ASSERT(text_json_parse(&arena, content->reply, &told, NULL) == ST_OK);
    if (content->reply.len == 0 && dice_once(d, 2))
        reply.wrapping = &wrapping;
    else if (content->reply.len == 0 && content->clean)
        reply.raw_type = "text/\"x";
    ASSERT(audit_facts_write(&facts, &part) == ST_OK);
    ASSERT(audit_facts_request(part, 1, dice_once(d, 3) ? "no \"\n\xff" : NULL, &request) == ST_OK);
    ASSERT(audit_facts_reply(part, 2, &reply, NULL, &answer) == ST_OK);
    check_record(request, content, facts.data);
    check_record(answer, content, told);
    check_chain(request, answer);
    audit_record_unref(answer);
    audit_record_unref(request);
    audit_record_unref(part);
    audit_spare_done(&spare);
}

/* A text that is an object is recorded as handlers write it; any other text does no harm. */
static void record_text(struct dice *d, struct bytes text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf written = {0};
    struct text_writer w = {.out = &written};
    const struct text_value *v;
    d->rest = (struct bytes){0};
    if (text_json_parse(&arena, text, &v, NULL) == ST_OK && v->kind == TEXT_OBJECT) {
        text_put_value(&w, v);
        const struct content itself = {
            .request = text, .reply = buf_bytes(&written), .listing = dice_once(d, 2)};
        record(d, &itself);
        return;
    }
    struct audit_facts facts = {.request_id = "id", .operation = "read", .ns = "root"};
    const struct audit_reply reply = {.http = 200, .data = text, .listing = true};
    const struct audit_render how = {.salt = salt, .elide = true};
    struct audit_record *part, *answer;
    ASSERT(audit_facts_write(&facts, &part) == ST_OK);
    ASSERT(audit_facts_reply(part, 2, &reply, NULL, &answer) == ST_OK);
    ASSERT(audit_record_render(answer, &how, &written) == ST_OK);
    audit_record_unref(answer);
    audit_record_unref(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[32] = {9};
    CLEANUP(buf_done) struct buf request = {0};
    CLEANUP(buf_done) struct buf reply = {0};
    if (salt == NULL) {
        ASSERT(crypto_init(NULL) == ST_OK);
        ASSERT(hmac_new(bytes_of(key, sizeof key), &salt) == ST_OK);
    }
    if (size == 0)
        return 0;
    struct dice d = dice_of(data, size);
    if (dice_below(&d, 256) < 128) {
        record_text(&d, d.rest);
        return 0;
    }
    for (unsigned i = 0; i < 16; i++) {
        buf_clear(&request);
        buf_clear(&reply);
        put_object(&d, &request);
        if (!dice_once(&d, 4))
            put_object(&d, &reply);
        const struct content made = {buf_bytes(&request), buf_bytes(&reply),
                                     .exempts = dice_once(&d, 2), .clean = true,
                                     .listing = dice_once(&d, 3)};
        record(&d, &made);
    }
    return 0;
}
