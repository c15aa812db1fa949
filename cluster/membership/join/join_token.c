#include "cluster/membership/join/join_token.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "text/encode.h"

#include <assert.h>

#define PREFIX "hfj1-"

enum { BODY_BYTES = JOIN_HASH_BYTES + JOIN_SECRET_BYTES, TOKEN_BYTES = BODY_BYTES + 4 };

static_assert(sizeof PREFIX + TEXT_BASE64_LEN(TOKEN_BYTES) <= JOIN_TOKEN_TEXT + 1, "the text fits");

void join_token_put(const struct join_token *token, char ret_text[JOIN_TOKEN_TEXT])
{
    uint8_t raw[TOKEN_BYTES];
    char text[TEXT_BASE64_LEN(TOKEN_BYTES) + 1];
    memcpy(raw, token->ca_sha256, JOIN_HASH_BYTES);
    memcpy(raw + JOIN_HASH_BYTES, token->secret, JOIN_SECRET_BYTES);
    le32_put(raw + BODY_BYTES, crc32c(0, bytes_of(raw, BODY_BYTES)));
    size_t len = text_base64_put(bytes_of(raw, sizeof raw), TEXT_BASE64_URL, text);
    ASSERT(sizeof PREFIX + len <= JOIN_TOKEN_TEXT);
    memcpy(ret_text, PREFIX, sizeof PREFIX - 1);
    memcpy(ret_text + sizeof PREFIX - 1, text, len + 1);
    mem_wipe(raw, sizeof raw);
    mem_wipe(text, sizeof text);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct bytes trim(struct bytes text)
{
    while (text.len != 0 && is_blank(text.data[0]))
        text = bytes_from(text, 1);
    while (text.len != 0 && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

enum status join_token_parse(struct bytes text, struct join_token *ret_token)
{
    uint8_t raw[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(TOKEN_BYTES))];
    size_t len = 0;
    text = trim(text);
    if (text.len >= JOIN_TOKEN_TEXT || !bytes_has_prefix(text, BYTES(PREFIX)))
        return ST_INVALID;
    enum status st = text_base64_parse(bytes_from(text, sizeof PREFIX - 1), raw, &len);
    ASSERT(len <= sizeof raw);
    if (st == ST_OK &&
        (len != TOKEN_BYTES || crc32c(0, bytes_of(raw, BODY_BYTES)) != le32_get(raw + BODY_BYTES)))
        st = ST_INVALID;
    if (st == ST_OK) {
        memcpy(ret_token->ca_sha256, raw, JOIN_HASH_BYTES);
        memcpy(ret_token->secret, raw + JOIN_HASH_BYTES, JOIN_SECRET_BYTES);
    }
    mem_wipe(raw, sizeof raw);
    return st == ST_OK ? ST_OK : ST_INVALID;
}
