#include "text/encode.h"

#include "base/macros.h"
#include "text/value.h"

void text_hex_put(struct bytes data, char *ret_text)
{
    for (size_t i = 0; i < data.len; i++) {
        *ret_text++ = "0123456789abcdef"[data.data[i] >> 4];
        *ret_text++ = "0123456789abcdef"[data.data[i] & 15];
    }
    *ret_text = '\0';
}

enum status text_hex_parse(struct bytes text, uint8_t *out)
{
    if (text.len % 2 != 0)
        return ST_INVALID;
    for (size_t i = 0; i < text.len; i += 2) {
        unsigned high = text_hex_digit(text.data[i]), low = text_hex_digit(text.data[i + 1]);
        if (high > 15 || low > 15)
            return ST_INVALID;
        *out++ = (uint8_t)(high << 4 | low);
    }
    return ST_OK;
}

size_t text_base64_put(struct bytes data, enum text_base64 form, char *ret_text)
{
    static const char common[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const char *last = form == TEXT_BASE64_URL ? "-_" : "+/";
    char *to = ret_text;

    for (size_t i = 0; i < data.len; i += 3) {
        size_t have = MIN(data.len - i, (size_t)3);
        uint32_t bits = (uint32_t)data.data[i] << 16;
        if (have > 1)
            bits |= (uint32_t)data.data[i + 1] << 8;
        if (have > 2)
            bits |= data.data[i + 2];
        for (size_t j = 0; j < 4; j++) {
            uint32_t digit = bits >> (18 - 6 * j) & 63;
            if (j <= have)
                *to++ = digit < 62 ? common[digit] : last[digit - 62];
            else if (form == TEXT_BASE64)
                *to++ = '=';
        }
    }
    *to = '\0';
    return (size_t)(to - ret_text);
}

static unsigned base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0' + 52);
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : 64;
}

enum status text_base64_parse(struct bytes text, uint8_t *out, size_t *ret_len)
{
    size_t n = text.len, len = 0;
    uint32_t bits = 0;

    while (n > 0 && text.len - n < 2 && text.data[n - 1] == '=')
        n--;
    if (n % 4 == 1 || (n != text.len && text.len % 4 != 0))
        return ST_INVALID;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = base64_digit(text.data[i]);
        if (digit > 63)
            return ST_INVALID;
        bits = bits << 6 | digit;
        if (i % 4 != 0)
            out[len++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    uint32_t rest = n % 4 == 2 ? bits & 15 : n % 4 == 3 ? bits & 3 : 0;
    if (rest != 0)
        return ST_INVALID;
    *ret_len = len;
    return ST_OK;
}
