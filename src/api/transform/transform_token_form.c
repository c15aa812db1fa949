/* The text of a token: Base58 of a message in the form of protocol buffers, as upstream's.
 *
 *   token    1: 1 (varint), 2: signed
 *   signed   1: header, 2: mac (12 bytes)
 *   header   1: id (16 or 32 bytes), 2: key version (varint, absent: 0),
 *            3: expiry, absent: never
 *   expiry   1: seconds since 1970 (varint), 2: nanoseconds (varint, absent: 0)
 *
 * A text that another writer would have written otherwise is refused, so one text stands for a
 * token and no other. */
#include "api/transform/transform_token.h"
#include "text/base58.h"

enum { VARINT = 0, BLOCK = 2, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

static_assert((int)TRANSFORM_TOKEN_BYTES_MAX <= (int)TEXT_BASE58_BYTES_MAX, "tokens fit");
static_assert((int)TRANSFORM_TOKEN_TEXT_MAX <= (int)TEXT_BASE58_LEN_MAX, "texts fit");

int64_t transform_token_expiry(const struct transform_token *token)
{
    return token->expire_s * 1000 + token->expire_ns / NS_PER_MS;
}

void transform_token_set_expiry(struct transform_token *token, int64_t expire_ms)
{
    ASSERT(expire_ms >= 0 && expire_ms < TEXT_EXPIRY_END);
    token->expire_s = expire_ms / 1000;
    token->expire_ns = (uint32_t)(expire_ms % 1000) * NS_PER_MS;
}

static uint8_t *put_varint(uint8_t *to, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *to++ = (uint8_t)(n | 0x80);
    *to++ = (uint8_t)n;
    return to;
}

static uint8_t *put_number(uint8_t *to, unsigned field, uint64_t n)
{
    if (n == 0) /* as protocol buffers 3 write it */
        return to;
    *to++ = (uint8_t)(field << 3 | VARINT);
    return put_varint(to, n);
}

static uint8_t *put_block(uint8_t *to, unsigned field, struct bytes block)
{
    *to++ = (uint8_t)(field << 3 | BLOCK);
    to = put_varint(to, block.len);
    return bytes_put(to, block);
}

size_t transform_token_header(const struct transform_token *token,
                              uint8_t ret_header[TRANSFORM_TOKEN_HEADER_MAX])
{
    uint8_t expiry[24], *to = ret_header, *end = expiry;
    ASSERT(token->id_len == TRANSFORM_TOKEN_ID || token->id_len == TRANSFORM_TOKEN_ID_MAX);
    ASSERT(token->expire_s >= 0 && token->expire_ns < NS_PER_S);
    to = put_block(to, 1, bytes_of(token->id, token->id_len));
    to = put_number(to, 2, token->key_version);
    if (token->expire_s != 0 || token->expire_ns != 0) {
        end = put_number(end, 1, (uint64_t)token->expire_s);
        end = put_number(end, 2, token->expire_ns);
        to = put_block(to, 3, bytes_of(expiry, (size_t)(end - expiry)));
    }
    ASSERT(to <= ret_header + TRANSFORM_TOKEN_HEADER_MAX);
    return (size_t)(to - ret_header);
}

/* The bytes of a token; their number is returned. */
static size_t put_bytes(const struct transform_token *token, uint8_t ret[TRANSFORM_TOKEN_BYTES_MAX])
{
    uint8_t header[TRANSFORM_TOKEN_HEADER_MAX], message[TRANSFORM_TOKEN_BYTES_MAX];
    size_t len = transform_token_header(token, header);
    uint8_t *end = put_block(message, 1, bytes_of(header, len));
    end = put_block(end, 2, bytes_of(token->mac, sizeof token->mac));
    uint8_t *to = put_number(ret, 1, 1);
    to = put_block(to, 2, bytes_of(message, (size_t)(end - message)));
    ASSERT(to <= ret + TRANSFORM_TOKEN_BYTES_MAX);
    return (size_t)(to - ret);
}

size_t transform_token_put(const struct transform_token *token,
                           char ret_text[TRANSFORM_TOKEN_TEXT_MAX + 1])
{
    uint8_t bytes[TRANSFORM_TOKEN_BYTES_MAX];
    char text[TEXT_BASE58_LEN_MAX + 1];
    size_t len = text_base58_put(bytes_of(bytes, put_bytes(token, bytes)), text);
    ASSERT(len <= TRANSFORM_TOKEN_TEXT_MAX);
    memcpy(ret_text, text, len + 1);
    return len;
}

/* The next field, if it has this number and kind; else an empty block or 0, and nothing is read. */
static bool is_next(struct reader *r, unsigned field, unsigned kind)
{
    if (reader_left(r) == 0 || *r->at != (field << 3 | kind))
        return false;
    r->at++;
    return true;
}

static uint64_t next_number(struct reader *r, unsigned field)
{
    return is_next(r, field, VARINT) ? reader_varint(r) : 0;
}

static struct bytes next_block(struct reader *r, unsigned field)
{
    return is_next(r, field, BLOCK) ? reader_block(r) : (struct bytes){0};
}

static enum status parse_header(struct bytes header, struct transform_token *ret)
{
    struct reader r = reader_of(header);
    struct bytes id = next_block(&r, 1);
    uint64_t version = next_number(&r, 2);
    struct reader expiry = reader_of(next_block(&r, 3));
    uint64_t s = next_number(&expiry, 1), ns = next_number(&expiry, 2);
    TRY(reader_end(&r));
    TRY(reader_end(&expiry));
    bool fits = id.len == TRANSFORM_TOKEN_ID || id.len == TRANSFORM_TOKEN_ID_MAX;
    if (!fits || version > UINT32_MAX || s >= TEXT_EXPIRY_END / 1000 || ns >= NS_PER_S)
        return ST_INVALID;
    *ret = (struct transform_token){.id_len = id.len,
                                    .key_version = (uint32_t)version,
                                    .expire_s = (int64_t)s,
                                    .expire_ns = (uint32_t)ns};
    memcpy(ret->id, id.data, id.len);
    return ST_OK;
}

enum status transform_token_parse(struct bytes text, struct transform_token *ret_token)
{
    uint8_t bytes[TEXT_BASE58_BYTES_MAX], again[TRANSFORM_TOKEN_BYTES_MAX];
    struct transform_token token;
    size_t len;
    TRY(text_base58_parse(text, bytes, &len));
    struct reader r = reader_of(bytes_of(bytes, len));
    uint64_t format = next_number(&r, 1);
    struct reader message = reader_of(next_block(&r, 2));
    struct bytes header = next_block(&message, 1), mac = next_block(&message, 2);
    TRY(reader_end(&r));
    TRY(reader_end(&message));
    if (format != 1 || mac.len != TRANSFORM_TOKEN_MAC)
        return ST_INVALID;
    TRY(parse_header(header, &token));
    memcpy(token.mac, mac.data, mac.len);
    if (!bytes_eq(bytes_of(again, put_bytes(&token, again)), bytes_of(bytes, len)))
        return ST_INVALID;
    *ret_token = token;
    return ST_OK;
}
