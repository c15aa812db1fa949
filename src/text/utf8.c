#include "text/utf8.h"

enum status text_utf8_next(struct bytes b, size_t *at, uint32_t *ret_rune)
{
    static const uint32_t lowest[] = {0, 0x80, 0x800, 0x10000};
    ASSERT(*at < b.len);
    uint8_t head = b.data[*at];
    size_t more = head < 0x80 ? 0 : head < 0xc0 ? 4 : head < 0xe0 ? 1 : head < 0xf0 ? 2 : 3;
    if (more == 4 || head > 0xf4 || more >= b.len - *at)
        return ST_INVALID;
    uint32_t rune = more == 0 ? head : head & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        uint8_t c = b.data[*at + i];
        if ((c & 0xc0) != 0x80)
            return ST_INVALID;
        rune = rune << 6 | (c & 0x3fu);
    }
    if (rune < lowest[more] || rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
        return ST_INVALID;
    *at += more + 1;
    *ret_rune = rune;
    return ST_OK;
}

size_t text_utf8_put(uint32_t rune, uint8_t ret[4])
{
    ASSERT(rune <= 0x10ffff && (rune < 0xd800 || rune > 0xdfff));
    size_t more = rune < 0x80 ? 0 : rune < 0x800 ? 1 : rune < 0x10000 ? 2 : 3;
    static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
    for (size_t i = more; i > 0; i--, rune >>= 6)
        ret[i] = (uint8_t)(0x80 | (rune & 0x3f));
    ret[0] = (uint8_t)(heads[more] | rune);
    return more + 1;
}

bool text_utf8_valid(struct bytes b)
{
    uint32_t rune;
    for (size_t at = 0; at < b.len;)
        if (b.data[at] < 0x80)
            at++;
        else if (text_utf8_next(b, &at, &rune) != ST_OK)
            return false;
    return true;
}

bool text_printable(struct bytes b)
{
    static const uint32_t hidden[][2] = {
        {0x00, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},     {0x61c, 0x61c},
        {0x1680, 0x1680},    {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},
        {0x205f, 0x206f},    {0x3000, 0x3000}, {0xe000, 0xf8ff}, {0xfdd0, 0xfdef},
        {0xfeff, 0xfeff},    {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
        {0xf0000, 0x10ffff},
    };
    uint32_t rune;
    for (size_t at = 0; at < b.len;) {
        if (b.data[at] > 0x1f && b.data[at] < 0x7f) {
            at++;
            continue;
        }
        if (text_utf8_next(b, &at, &rune) != ST_OK)
            return false;
        for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
            if (rune >= hidden[i][0] && rune <= hidden[i][1])
                return false;
    }
    return true;
}
