#include "text/base58.h"

#include <assert.h>

static const char digits[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

enum { BASE = 58 };
static_assert(sizeof digits == BASE + 1, "a character for each digit");

size_t text_base58_put(struct bytes data, char ret_text[TEXT_BASE58_LEN_MAX + 1])
{
    uint8_t number[TEXT_BASE58_LEN_MAX]; /* digits, the least significant first */
    size_t n = 0, zeros = 0, len = 0;
    ASSERT(data.len <= TEXT_BASE58_BYTES_MAX);
    while (zeros < data.len && data.data[zeros] == 0)
        zeros++;
    for (size_t i = zeros; i < data.len; i++) {
        unsigned carry = data.data[i];
        for (size_t k = 0; k < n || carry != 0; k++) {
            ASSERT(k < sizeof number);
            carry += k < n ? (unsigned)number[k] * 256 : 0;
            number[k] = (uint8_t)(carry % BASE);
            carry /= BASE;
            n = MAX(n, k + 1);
        }
    }
    while (len < zeros)
        ret_text[len++] = digits[0];
    while (n > 0)
        ret_text[len++] = digits[number[--n]];
    ret_text[len] = '\0';
    return len;
}

enum status text_base58_parse(struct bytes text, uint8_t out[TEXT_BASE58_BYTES_MAX],
                              size_t *ret_len)
{
    uint8_t number[TEXT_BASE58_BYTES_MAX]; /* bytes, the least significant first */
    size_t n = 0, zeros = 0;
    if (text.len > TEXT_BASE58_LEN_MAX)
        return ST_INVALID;
    while (zeros < text.len && text.data[zeros] == digits[0])
        zeros++;
    for (size_t i = zeros; i < text.len; i++) {
        const char *digit = text.data[i] != 0 ? strchr(digits, text.data[i]) : NULL;
        if (digit == NULL)
            return ST_INVALID;
        unsigned carry = (unsigned)(digit - digits);
        for (size_t k = 0; k < n || carry != 0; k++) {
            if (k == sizeof number)
                return ST_INVALID;
            carry += k < n ? (unsigned)number[k] * BASE : 0;
            number[k] = (uint8_t)carry;
            carry >>= 8;
            n = MAX(n, k + 1);
        }
    }
    ASSERT(n <= sizeof number);
    if (zeros + n > TEXT_BASE58_BYTES_MAX)
        return ST_INVALID;
    memset(out, 0, zeros);
    for (size_t i = 0; i < n; i++)
        out[zeros + i] = number[n - 1 - i];
    *ret_len = zeros + n;
    return ST_OK;
}
