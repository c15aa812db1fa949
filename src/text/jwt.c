#include "text/jwt.h"

#include "text/bounded_json.h"
#include "text/encode.h"

#include <stdio.h>

#define BEGIN_OF_OBJECT "ey" /* base64url of '{' and the quote or space behind it */

bool jwt_is(struct bytes token)
{
    unsigned dots = 0;
    for (size_t i = 0; i < token.len; i++)
        dots += token.data[i] == '.';
    return dots == 2 && bytes_has_prefix(token, BYTES(BEGIN_OF_OBJECT));
}

/* Cut off the front of *rest up to the first dot, and the dot. The caller knows that there is one.
 */
static struct bytes cut_part(struct bytes *rest)
{
    const uint8_t *dot = memchr(rest->data, '.', rest->len);
    ASSERT(dot != NULL);
    struct bytes part = bytes_of(rest->data, (size_t)(dot - rest->data));
    *rest = bytes_from(*rest, part.len + 1);
    return part;
}

static enum status decode_part(struct arena *arena, struct bytes part, struct bytes *ret_bytes)
{
    size_t len = 0;
    if (part.len == 0)
        return ST_INVALID;
    uint8_t *to = arena_alloc(arena, TEXT_BASE64_BYTES(part.len));
    if (to == NULL)
        return ST_NOMEM;
    TRY(text_base64_url_parse(part, to, &len));
    ASSERT(len < part.len);
    *ret_bytes = bytes_of(to, len);
    return ST_OK;
}

static bool has_text(const json_t *object, const char *name, const char *text)
{
    const char *found = json_string_value(json_object_get(object, name));
    return found != NULL && strcmp(found, text) == 0;
}

static enum status check_header(struct bytes header, const char *alg)
{
    CLEANUP(bounded_json_done) json_t *object = NULL;
    enum status st = bounded_json_parse(header, &object);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_INVALID;
    bool ours = json_object_size(object) == 2 && has_text(object, "alg", alg) &&
                has_text(object, "typ", "JWT");
    return ours ? ST_OK : ST_INVALID;
}

enum status jwt_split(struct arena *arena, struct bytes token, const char *alg, struct jwt *ret_jwt)
{
    struct bytes rest = token, header;
    struct jwt jwt;
    if (token.len > JWT_BYTES_MAX || !jwt_is(token))
        return ST_INVALID;
    TRY(decode_part(arena, cut_part(&rest), &header));
    TRY(check_header(header, alg));
    TRY(decode_part(arena, cut_part(&rest), &jwt.claims));
    TRY(decode_part(arena, rest, &jwt.signature));
    ASSERT(rest.len < token.len);
    jwt.input = bytes_of(token.data, token.len - rest.len - 1);
    *ret_jwt = jwt;
    return ST_OK;
}

/* Append the base64url of a part. */
static void put_part(struct buf *out, struct bytes part)
{
    uint8_t *to = buf_extend(out, TEXT_BASE64_LEN(part.len) + 1);
    if (to == NULL)
        return; /* buf_status reports the failure */
    size_t before = (size_t)(to - out->data);
    ASSERT(before < out->len);
    out->len = before + text_base64_put(part, TEXT_BASE64_URL, (char *)to);
}

void jwt_put_input(struct buf *out, const char *alg, struct bytes claims)
{
    char header[64];
    ASSERT(out->len == 0);
    int len = snprintf(header, sizeof header, "{\"alg\":\"%s\",\"typ\":\"JWT\"}", alg);
    ASSERT(len > 0 && (size_t)len < sizeof header);
    put_part(out, bytes_of(header, (size_t)len));
    buf_add_u8(out, '.');
    put_part(out, claims);
}

void jwt_put_signature(struct buf *out, struct bytes signature)
{
    buf_add_u8(out, '.');
    put_part(out, signature);
}
