#include "crypto/pgp/pgp_packet.h"

enum { NEW_FORMAT = 0x40, PACKET = 0x80, OLD_INDEFINITE = 3 };

uint16_t pgp_u16(struct reader *r)
{
    struct bytes b = reader_take(r, 2);
    if (b.len != 2)
        return 0;
    return (uint16_t)(b.data[0] << 8 | b.data[1]);
}

uint32_t pgp_u32(struct reader *r)
{
    uint32_t high = pgp_u16(r);
    return high << 16 | pgp_u16(r);
}

void pgp_u16_add(struct buf *out, uint16_t v)
{
    buf_add_u8(out, (uint8_t)(v >> 8));
    buf_add_u8(out, (uint8_t)v);
}

void pgp_u32_add(struct buf *out, uint32_t v)
{
    pgp_u16_add(out, (uint16_t)(v >> 16));
    pgp_u16_add(out, (uint16_t)v);
}

static struct bytes without_zeros(struct bytes number)
{
    while (number.len > 0 && number.data[0] == 0)
        number = bytes_from(number, 1);
    return number;
}

struct bytes pgp_mpi(struct reader *r)
{
    size_t bits = pgp_u16(r);
    return without_zeros(reader_take(r, (bits + 7) / 8));
}

void pgp_mpi_add(struct buf *out, struct bytes number)
{
    struct bytes n = without_zeros(number);
    ASSERT(n.len < 0x2000);
    size_t bits = n.len * 8;
    for (unsigned first = n.len != 0 ? n.data[0] : 0x80u; (first & 0x80) == 0; first <<= 1)
        bits--;
    pgp_u16_add(out, (uint16_t)bits);
    buf_add(out, n);
}

bool pgp_mpi_pad(struct bytes number, uint8_t *out, size_t len)
{
    if (number.len > len)
        return false;
    memset(out, 0, len - number.len);
    if (number.len != 0)
        memcpy(out + len - number.len, number.data, number.len);
    return true;
}

size_t pgp_length_read(struct reader *r)
{
    uint8_t first = reader_u8(r);
    if (first < 192)
        return first;
    if (first < 224)
        return ((size_t)(first - 192) << 8) + reader_u8(r) + 192;
    if (first < 255)
        r->failed = true; /* a partial length: only data may have one */
    return first == 255 ? pgp_u32(r) : 0;
}

static size_t old_length(struct reader *r, unsigned type)
{
    if (type == OLD_INDEFINITE)
        r->failed = true;
    return type == 0 ? reader_u8(r) : type == 1 ? pgp_u16(r) : type == 2 ? pgp_u32(r) : 0;
}

enum status pgp_packet_read(struct reader *r, struct pgp_packet *ret_packet)
{
    struct pgp_packet packet = {0};
    uint8_t header = reader_u8(r);
    size_t len;
    if ((header & PACKET) == 0)
        return ST_INVALID;
    if ((header & NEW_FORMAT) != 0) {
        packet.tag = header & 0x3F;
        len = pgp_length_read(r);
    } else {
        packet.tag = header >> 2 & 0x0F;
        len = old_length(r, header & 3);
    }
    packet.body = reader_take(r, len);
    if (r->failed || packet.tag == 0)
        return ST_INVALID;
    ASSERT(packet.body.len == len);
    *ret_packet = packet;
    return ST_OK;
}

void pgp_packet_begin(struct buf *out, enum pgp_tag tag, size_t body_len)
{
    ASSERT(body_len <= UINT32_MAX);
    buf_add_u8(out, (uint8_t)(PACKET | NEW_FORMAT | tag));
    if (body_len < 192) {
        buf_add_u8(out, (uint8_t)body_len);
    } else if (body_len < 8384) {
        buf_add_u8(out, (uint8_t)(((body_len - 192) >> 8) + 192));
        buf_add_u8(out, (uint8_t)(body_len - 192));
    } else {
        buf_add_u8(out, 255);
        pgp_u32_add(out, (uint32_t)body_len);
    }
}
