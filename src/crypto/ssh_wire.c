#include "crypto/ssh_wire.h"

void ssh_put_u32(struct buf *out, uint32_t n)
{
    const uint8_t raw[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    buf_add(out, bytes_of(raw, sizeof raw));
}

void ssh_put_u64(struct buf *out, uint64_t n)
{
    uint8_t raw[8];
    be64_put(raw, n);
    buf_add(out, bytes_of(raw, sizeof raw));
}

void ssh_put_string(struct buf *out, struct bytes text)
{
    ASSERT(text.len <= UINT32_MAX);
    ssh_put_u32(out, (uint32_t)text.len);
    buf_add(out, text);
}

void ssh_put_mpint(struct buf *out, struct bytes number)
{
    while (number.len != 0 && number.data[0] == 0)
        number = bytes_from(number, 1);
    bool high = number.len != 0 && (number.data[0] & 0x80) != 0;
    ASSERT(number.len < UINT32_MAX);
    ssh_put_u32(out, (uint32_t)number.len + high);
    if (high)
        buf_add_u8(out, 0); /* without it, the number would be negative */
    buf_add(out, number);
}

uint32_t ssh_take_u32(struct reader *r)
{
    struct bytes raw = reader_take(r, 4);
    if (raw.len != 4)
        return 0;
    return (uint32_t)raw.data[0] << 24 | (uint32_t)raw.data[1] << 16 | (uint32_t)raw.data[2] << 8 |
           raw.data[3];
}

struct bytes ssh_take_string(struct reader *r)
{
    return reader_take(r, ssh_take_u32(r));
}

struct bytes ssh_take_mpint(struct reader *r)
{
    struct bytes number = ssh_take_string(r);
    if (number.len == 0 || (number.data[0] & 0x80) != 0) {
        r->failed = true;
        return BYTES("");
    }
    if (number.data[0] != 0)
        return number;
    if (number.len < 2 || (number.data[1] & 0x80) == 0) {
        r->failed = true;
        return BYTES("");
    }
    return bytes_from(number, 1);
}
