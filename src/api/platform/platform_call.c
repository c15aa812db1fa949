#include "api/platform/platform_call.h"
#include "crypto/digest.h"
#include "out/out.h"
#include "out/out_settings.h"
#include "text/encode.h"
#include "text/utf8.h"

enum { CONNECT_MS = 5000, TOTAL_MS = 10000, HEADERS_MAX = 4 };

struct fields {
    struct arena *arena;
    struct text_value *headers;
    size_t n;
    bool failed; /* out of memory */
};

/* Bytes of a stranger as text: what is no UTF-8, and control characters, become '?'. NULL: no
 * memory. */
static const char *clean(struct arena *arena, struct bytes from)
{
    char *text = arena_alloc(arena, from.len + 1);
    size_t at = 0, n = 0;
    if (text == NULL)
        return NULL;
    while (at < from.len) {
        size_t begin = at;
        uint32_t rune;
        bool valid = text_utf8_next(from, &at, &rune) == ST_OK;
        if (!valid)
            at = begin + 1;
        if (!valid || (rune < ' ' && rune != '\n' && rune != '\t' && rune != '\r')) {
            text[n++] = '?';
            continue;
        }
        memcpy(text + n, from.data + begin, at - begin);
        n += at - begin;
    }
    text[n] = '\0';
    return text;
}

static void on_answer_field(void *ctx, struct bytes name, struct bytes value)
{
    struct fields *fields = ctx;
    if (fields->failed || fields->n++ >= PLATFORM_CALL_FIELDS_MAX)
        return;
    char *lower = (char *)(uintptr_t)clean(fields->arena, name);
    const char *text = clean(fields->arena, bytes_of(value.data, MIN(value.len, (size_t)1024)));
    fields->failed = lower == NULL || text == NULL;
    for (char *c = lower; !fields->failed && *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    if (!fields->failed)
        fields->failed = platform_list_add(fields->arena, fields->headers, lower, text) != ST_OK;
}

static enum status add_signature(struct arena *arena, const struct platform_call *call,
                                 struct out_header *headers, size_t *n)
{
    uint8_t mac[CRYPTO_HMAC512_BYTES];
    char *hex = arena_zalloc(arena, 2 * sizeof mac + 1);
    if (hex == NULL)
        return ST_NOMEM;
    if (call->key[0] != '\0') {
        TRY(crypto_hmac512(bytes_str(call->key), call->body, mac));
        text_hex_put(bytes_of(mac, sizeof mac), hex);
    }
    for (size_t i = 0; i < call->n_signature; i++)
        headers[(*n)++] = (struct out_header){call->signature[i], bytes_str(hex)};
    return ST_OK;
}

enum status platform_call_send(struct arena *arena, const struct platform_call *call,
                               struct platform_answer *ret_answer)
{
    CLEANUP(out_reply_done) struct out_reply reply = {0};
    struct out_header headers[HEADERS_MAX] = {{"Content-Type", BYTES("application/json")}};
    struct fields fields = {.arena = arena,
                            .headers = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0})};
    struct reason why = {{0}};
    size_t n = 1;
    ASSERT(call->n_signature + 2 <= HEADERS_MAX);
    if (fields.headers == NULL)
        return ST_NOMEM;
    TRY(add_signature(arena, call, headers, &n));
    if (call->delivery != NULL)
        headers[n++] = (struct out_header){PLATFORM_CALL_DELIVERY, bytes_str(call->delivery)};
    const struct out_request request = {.method = "POST",
                                        .url = call->url,
                                        .headers = headers,
                                        .n_headers = n,
                                        .body = call->body,
                                        .connect_ms = CONNECT_MS,
                                        .total_ms = TOTAL_MS,
                                        .reply_bytes_max = PLATFORM_CALL_BODY_MAX,
                                        .cuts = true,
                                        .on_field = on_answer_field,
                                        .field_ctx = &fields,
                                        .tls = {.ca_file = out_settings_ca_file()},
                                        .rules = out_settings_rules()};
    enum status st = out_request(&request, &reply, NULL, &why);
    if (st == ST_NOMEM || fields.failed)
        return ST_NOMEM;
    *ret_answer = (struct platform_answer){
        .status = st == ST_OK ? reply.status : 0,
        .body = clean(arena, st == ST_OK ? buf_bytes(&reply.body) : bytes_str(why.text)),
        .headers = fields.headers,
    };
    return ret_answer->body != NULL ? ST_OK : ST_NOMEM;
}
