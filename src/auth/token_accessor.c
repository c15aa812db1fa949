#include "auth/token_accessor.h"
#include "text/encode.h"

enum { BASE = 62, GROUP = 10, TOP = AUTH_ACCESSOR_LEN - 2 * GROUP };

/* Ten digits fit into 64 bits. Arithmetic with 128 bits is slow, so digits are handled in groups:
 * four digits, ten, ten. */
static const uint64_t group_end = UINT64_C(839299365868340224); /* 62 to the power of 10 */

static char *put_digits(uint64_t group, size_t n, char *to)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static_assert(sizeof digits - 1 == BASE, "one character for each digit");
    for (size_t i = n; i-- > 0; group /= BASE)
        to[i] = digits[group % BASE];
    ASSERT(group == 0);
    return to + n;
}

static void put_number(unsigned __int128 id, char ret_accessor[AUTH_ACCESSOR_LEN + 1])
{
    unsigned __int128 upper = id / group_end, top = upper / group_end;
    char *to = put_digits((uint64_t)top, TOP, ret_accessor);
    to = put_digits((uint64_t)(upper - top * group_end), GROUP, to);
    to = put_digits((uint64_t)(id - upper * group_end), GROUP, to);
    ASSERT(to == ret_accessor + AUTH_ACCESSOR_LEN);
    *to = '\0';
}

static void put_id(unsigned __int128 id, char ret_id[AUTH_TOKEN_ID_LEN + 1])
{
    uint8_t bytes[AUTH_TOKEN_ID_LEN / 2];
    static_assert(sizeof bytes == sizeof id, "an id fills the number");
    for (size_t i = sizeof bytes; i-- > 0; id >>= 8)
        bytes[i] = (uint8_t)id;
    text_hex_put(bytes_of(bytes, sizeof bytes), ret_id);
}

/* The value of sixteen hex digits of lower case. */
static enum status read_half(const uint8_t *at, uint64_t *ret_half)
{
    uint64_t half = 0;
    for (size_t i = 0; i < AUTH_TOKEN_ID_LEN / 2; i++) {
        uint8_t c = at[i];
        unsigned digit = c >= 'a' && c <= 'f' ? c - 'a' + 10U : c - (unsigned)'0';
        if (digit > (c >= 'a' ? 15 : 9))
            return ST_INVALID;
        half = half << 4 | digit;
    }
    *ret_half = half;
    return ST_OK;
}

enum status token_accessor_of(struct bytes id, char ret_accessor[AUTH_ACCESSOR_LEN + 1])
{
    uint64_t high, low;
    if (id.len != AUTH_TOKEN_ID_LEN)
        return ST_INVALID;
    TRY(read_half(id.data, &high));
    TRY(read_half(id.data + AUTH_TOKEN_ID_LEN / 2, &low));
    put_number((unsigned __int128)high << 64 | low, ret_accessor);
    return ST_OK;
}

/* The value of `n` digits. ST_INVALID: a character is not a digit. */
static enum status read_group(const uint8_t *at, size_t n, uint64_t *ret_group)
{
    uint64_t group = 0;
    ASSERT(n <= GROUP);
    for (size_t i = 0; i < n; i++) {
        uint8_t c = at[i];
        unsigned digit = c >= '0' && c <= '9'   ? c - (unsigned)'0'
                         : c >= 'A' && c <= 'Z' ? c - 'A' + 10U
                         : c >= 'a' && c <= 'z' ? c - 'a' + 36U
                                                : BASE;
        if (digit >= BASE)
            return ST_INVALID;
        group = group * BASE + digit;
    }
    *ret_group = group;
    return ST_OK;
}

enum status token_accessor_id(struct bytes accessor, char ret_id[AUTH_TOKEN_ID_LEN + 1])
{
    char last[AUTH_ACCESSOR_LEN + 1];
    uint64_t top, middle, low;

    if (accessor.len != AUTH_ACCESSOR_LEN)
        return ST_INVALID;
    TRY(read_group(accessor.data, TOP, &top));
    TRY(read_group(accessor.data + TOP, GROUP, &middle));
    TRY(read_group(accessor.data + TOP + GROUP, GROUP, &low));
    ASSERT(middle < group_end && low < group_end);
    put_number(~(unsigned __int128)0, last);
    if (memcmp(accessor.data, last, AUTH_ACCESSOR_LEN) > 0) /* the number has more than 128 bits */
        return ST_INVALID;
    put_id(((unsigned __int128)top * group_end + middle) * group_end + low, ret_id);
    return ST_OK;
}

/* The bits of the id are found one by one, the highest first: a bit is 1 if the accessor with it is
 * still not behind the text. */
enum status token_accessor_before(struct bytes text, char ret_id[AUTH_TOKEN_ID_LEN + 1])
{
    char accessor[AUTH_ACCESSOR_LEN + 1];
    unsigned __int128 id = 0;

    for (unsigned __int128 bit = (unsigned __int128)1 << 127; bit != 0; bit >>= 1) {
        put_number(id | bit, accessor);
        if (bytes_cmp(bytes_of(accessor, AUTH_ACCESSOR_LEN), text) <= 0)
            id |= bit;
    }
    put_number(id, accessor);
    if (bytes_cmp(bytes_of(accessor, AUTH_ACCESSOR_LEN), text) > 0)
        return ST_NOT_FOUND;
    ASSERT(text.len != 0); /* every accessor comes behind an empty text */
    put_id(id, ret_id);
    return ST_OK;
}
