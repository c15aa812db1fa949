#include "text/encode.h"

#include "base/macros.h"
#include "base/vector.h"
#include "text/value.h"

/* The eight hex digits of four bytes. The first digit is the lowest byte of the result. */
static uint64_t hex_digits(uint64_t four)
{
    uint64_t pairs = (four | four << 16) & 0x0000ffff0000ffff;
    pairs = (pairs | pairs << 8) & 0x00ff00ff00ff00ff;
    uint64_t values = (pairs >> 4 & 0x000f000f000f000f) | (pairs & 0x000f000f000f000f) << 8;
    uint64_t letters = (values + 0x0606060606060606) >> 4 & 0x0101010101010101;
    return values + 0x3030303030303030 + letters * ('a' - '0' - 10);
}

static inline VECTOR_OF(uint8_t) hex_digit_each(VECTOR_OF(uint8_t) value)
{
    const VECTOR_OF(uint8_t) letter = (VECTOR_OF(uint8_t))(value > 9);
    return value + '0' + (letter & ('a' - '0' - 10));
}

/* The digits of sixteen bytes. */
static inline void hex_put_sixteen(const uint8_t *from, uint8_t *to)
{
    const VECTOR_OF(uint8_t) bytes = vector_at(from);
    const VECTOR_OF(uint8_t) high = hex_digit_each(bytes >> 4), low = hex_digit_each(bytes & 15);
    const VECTOR_OF(uint8_t) first =
        __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const VECTOR_OF(uint8_t) second = __builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11,
                                                              27, 12, 28, 13, 29, 14, 30, 15, 31);
    memcpy(to, &first, sizeof first);
    memcpy(to + sizeof first, &second, sizeof second);
}

void text_hex_put(struct bytes data, char *ret_text)
{
    uint8_t *to = (uint8_t *)ret_text, digits[8];
    size_t i = 0;
    for (; i + VECTOR_BYTES <= data.len; i += VECTOR_BYTES)
        hex_put_sixteen(data.data + i, to + 2 * i);
    for (; i + 4 <= data.len; i += 4)
        le64_put(to + 2 * i, hex_digits(le32_get(data.data + i)));
    for (; i < data.len; i++) {
        le64_put(digits, hex_digits(data.data[i]));
        memcpy(to + 2 * i, digits, 2);
    }
    ASSERT(i == data.len);
    to[2 * i] = '\0';
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
#define COMMON_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    static const char plain[] = COMMON_DIGITS "+/", url[] = COMMON_DIGITS "-_";
    const char *digits = form == TEXT_BASE64_URL ? url : plain;
    char *to = ret_text;
    size_t at = 0;

    for (; data.len - at >= 3; at += 3) {
        const uint8_t *from = data.data + at;
        *to++ = digits[from[0] >> 2];
        *to++ = digits[(from[0] & 3) << 4 | from[1] >> 4];
        *to++ = digits[(from[1] & 15) << 2 | from[2] >> 6];
        *to++ = digits[from[2] & 63];
    }
    if (at < data.len) { /* one or two bytes are left */
        unsigned first = data.data[at], second = at + 1 < data.len ? data.data[at + 1] : 0;
        *to++ = digits[first >> 2];
        *to++ = digits[(first & 3) << 4 | second >> 4];
        if (at + 1 < data.len)
            *to++ = digits[(second & 15) << 2];
        while (form == TEXT_BASE64 && (to - ret_text) % 4 != 0)
            *to++ = '=';
    }
    ASSERT((size_t)(to - ret_text) <= TEXT_BASE64_LEN(data.len));
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
    ASSERT(len <= TEXT_BASE64_BYTES(text.len));
    *ret_len = len;
    return ST_OK;
}

enum status text_base64_url_parse(struct bytes text, uint8_t *out, size_t *ret_len)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '+' || text.data[i] == '/' || text.data[i] == '=')
            return ST_INVALID;
    return text_base64_parse(text, out, ret_len);
}
