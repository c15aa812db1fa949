#include "raft/snapshot/rlog_archive_tar.h"

#include <stdio.h>
#include <string.h>

/* Fields of a ustar header: offset and length. */
enum {
    NAME_AT = 0,
    MODE_AT = 100,
    UID_AT = 108,
    GID_AT = 116,
    ID_LEN = 8,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    MTIME_AT = 136,
    SUM_AT = 148,
    SUM_LEN = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    OCTAL_DIGITS = 11,
    BINARY_MARK = 0x80, /* in the first byte of a number: big-endian follows, not octal text */
};
static const char magic[] = "ustar\00000";

static void put_octal(uint8_t *at, unsigned digits, uint64_t n)
{
    at[digits] = '\0';
    for (unsigned i = digits; i > 0; i--, n >>= 3)
        at[i - 1] = (uint8_t)('0' + (n & 7));
}

static void put_size(uint8_t *at, uint64_t n)
{
    if (n >> (3 * OCTAL_DIGITS) == 0) {
        put_octal(at, OCTAL_DIGITS, n);
        return;
    }
    memset(at, 0, SIZE_LEN);
    at[0] = BINARY_MARK;
    be64_put(at + SIZE_LEN - 8, n);
}

static unsigned sum_of(const uint8_t block[TAR_BLOCK])
{
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : block[i];
    return sum;
}

void tar_header_make(const struct tar_entry *entry, int64_t mtime_s, uint8_t ret_block[TAR_BLOCK])
{
    size_t n = strlen(entry->name);
    ASSERT(n > 0 && n <= TAR_NAME_MAX);
    ASSERT(mtime_s >= 0);
    memset(ret_block, 0, TAR_BLOCK);
    memcpy(ret_block + NAME_AT, entry->name, n);
    put_octal(ret_block + MODE_AT, ID_LEN - 1, 0600);
    put_octal(ret_block + UID_AT, ID_LEN - 1, 0);
    put_octal(ret_block + GID_AT, ID_LEN - 1, 0);
    put_size(ret_block + SIZE_AT, entry->size);
    put_octal(ret_block + MTIME_AT, OCTAL_DIGITS, (uint64_t)mtime_s);
    ret_block[TYPE_AT] = '0';
    memcpy(ret_block + MAGIC_AT, magic, sizeof magic - 1);
    put_octal(ret_block + SUM_AT, SUM_LEN - 2, sum_of(ret_block));
    ret_block[SUM_AT + SUM_LEN - 1] = ' ';
}

/* Read octal digits, which end with the field, a blank or a zero. */
static enum status get_octal(const uint8_t *at, size_t len, uint64_t *ret_n)
{
    uint64_t n = 0;
    size_t i = 0;
    ASSERT(len <= SIZE_LEN);
    while (i < len && at[i] == ' ')
        i++;
    size_t first = i;
    for (; i < len && at[i] >= '0' && at[i] <= '7'; i++)
        n = n << 3 | (uint64_t)(at[i] - '0'); /* cannot overflow: at most twelve digits */
    if (i == first || (i < len && at[i] != ' ' && at[i] != '\0'))
        return ST_INVALID;
    *ret_n = n;
    return ST_OK;
}

static enum status get_size(const uint8_t *at, uint64_t *ret_n)
{
    if (at[0] != BINARY_MARK)
        return get_octal(at, SIZE_LEN, ret_n);
    for (unsigned i = 1; i < SIZE_LEN - 8; i++)
        if (at[i] != 0)
            return ST_INVALID;
    *ret_n = be64_get(at + SIZE_LEN - 8);
    return *ret_n <= INT64_MAX ? ST_OK : ST_INVALID;
}

static bool is_zero(const uint8_t block[TAR_BLOCK])
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

enum status tar_header_read(const uint8_t block[TAR_BLOCK], struct tar_entry *ret_entry)
{
    struct tar_entry entry = {{0}, 0};
    uint64_t sum = 0;

    if (is_zero(block))
        return ST_NOT_FOUND;
    TRY(get_octal(block + SUM_AT, SUM_LEN, &sum));
    bool regular = block[TYPE_AT] == '0' || block[TYPE_AT] == '\0';
    if (sum != sum_of(block) || !regular || memcmp(block + MAGIC_AT, "ustar", 5) != 0 ||
        block[PREFIX_AT] != '\0')
        return ST_INVALID;
    memcpy(entry.name, block + NAME_AT, TAR_NAME_MAX);
    TRY(get_size(block + SIZE_AT, &entry.size));
    *ret_entry = entry;
    return ST_OK;
}
