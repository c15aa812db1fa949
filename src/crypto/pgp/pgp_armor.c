/* A key as clients send it:
 *
 *   binary                     the first byte has its highest bit set
 *   -----BEGIN PGP PUBLIC ...  header lines, an empty line, base64, =checksum, -----END PGP ...
 *   base64 of either           what JSON carries */
#include "crypto/pgp/pgp_armor.h"
#include "crypto/pgp/pgp.h"
#include "text/encode.h"

#define BEGIN "-----BEGIN PGP "
#define END "-----END PGP "
#define PUBLIC "-----BEGIN PGP PUBLIC KEY BLOCK-----"
#define PRIVATE "-----BEGIN PGP PRIVATE KEY BLOCK-----"

enum { CRC24_START = 0xB704CE, CRC24_POLYNOMIAL = 0x1864CFB, CRC24_BYTES = 3 };

static enum status invalid(struct reason *reason, const char *what)
{
    reason_set(reason, "the key %s", what);
    return ST_INVALID;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && is_space(text.data[0]))
        text = bytes_from(text, 1);
    while (text.len > 0 && is_space(text.data[text.len - 1]))
        text.len--;
    return text;
}

/* Cut one line off the front of `text`. */
static struct bytes next_line(struct bytes *text)
{
    const uint8_t *end = text->len != 0 ? memchr(text->data, '\n', text->len) : NULL;
    struct bytes line = *text;
    if (end != NULL)
        line.len = (size_t)(end - text->data);
    *text = bytes_from(*text, MIN(line.len + 1, text->len));
    return trim(line);
}

static enum status decode_base64(struct bytes text, struct buf *out)
{
    CLEANUP(buf_drop) struct buf dense = {0};
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        if (!is_space(text.data[i]))
            buf_add_u8(&dense, text.data[i]);
    size_t before = out->len;
    uint8_t *room = buf_extend(out, TEXT_BASE64_BYTES(dense.len));
    if (room == NULL || dense.failed)
        return ST_NOMEM;
    enum status st = text_base64_parse(buf_bytes(&dense), room, &n);
    ASSERT(n <= TEXT_BASE64_BYTES(dense.len));
    out->len = before + (st == ST_OK ? n : 0);
    return st;
}

static uint32_t crc24(struct bytes data)
{
    uint32_t crc = CRC24_START;
    for (size_t i = 0; i < data.len; i++) {
        crc ^= (uint32_t)data.data[i] << 16;
        for (int bit = 0; bit < 8; bit++) {
            crc <<= 1;
            if ((crc & 0x1000000) != 0)
                crc ^= CRC24_POLYNOMIAL;
        }
    }
    return crc & 0xFFFFFF;
}

/* `line` is "=" and four characters of base64. */
static enum status check_crc(struct bytes line, struct bytes binary, struct reason *reason)
{
    uint8_t sum[TEXT_BASE64_BYTES(4)];
    size_t n = 0;
    if (line.len != 5 || text_base64_parse(bytes_from(line, 1), sum, &n) != ST_OK ||
        n != CRC24_BYTES)
        return invalid(reason, "has a malformed checksum line in its armour");
    uint32_t crc = (uint32_t)sum[0] << 16 | (uint32_t)sum[1] << 8 | sum[2];
    return crc == crc24(binary) ? ST_OK
                                : invalid(reason, "was damaged: its armour's checksum is wrong");
}

/* Read the lines behind the first one of an armour. */
static enum status read_block(struct bytes *text, struct buf *out, struct reason *reason)
{
    struct bytes line = next_line(text), crc = {0};
    CLEANUP(buf_drop) struct buf body = {0};

    while (line.len != 0 && text->len != 0) /* header lines, which mean nothing here */
        line = next_line(text);
    do {
        line = next_line(text);
        if (line.len > 0 && line.data[0] == '=')
            crc = line;
        else if (!bytes_has_prefix(line, BYTES(END)))
            buf_add(&body, line);
    } while (text->len != 0 && !bytes_has_prefix(line, BYTES(END)));
    TRY(buf_status(&body));
    if (!bytes_has_prefix(line, BYTES(END)))
        return invalid(reason, "is cut off: its armour has no END line");
    enum status st = decode_base64(buf_bytes(&body), out);
    if (st == ST_INVALID)
        return invalid(reason, "has an armour that holds something else than base64");
    TRY(st);
    return crc.len != 0 ? check_crc(crc, buf_bytes(out), reason) : ST_OK;
}

static enum status decode_armor(struct bytes text, struct buf *out, struct reason *reason)
{
    struct bytes first = next_line(&text);
    ASSERT(out->len == 0);
    if (bytes_eq(first, BYTES(PRIVATE)))
        return invalid(reason, "is a private key: send the public key only, and treat the private "
                               "key as disclosed");
    if (!bytes_eq(first, BYTES(PUBLIC)))
        return invalid(reason, "is not a public key: its armour holds something else");
    TRY(read_block(&text, out, reason));
    if (trim(text).len != 0)
        return invalid(reason, "must come alone: the input goes on behind its armour");
    return ST_OK;
}

static enum status decode_text(struct bytes text, struct buf *out, struct reason *reason)
{
    CLEANUP(buf_drop) struct buf inner = {0};
    if (bytes_has_prefix(text, BYTES(BEGIN)))
        return decode_armor(text, out, reason);
    enum status st = decode_base64(text, &inner);
    if (st == ST_INVALID)
        return invalid(reason, "is neither base64 nor ASCII armour");
    TRY(st);
    struct bytes decoded = trim(buf_bytes(&inner));
    if (bytes_has_prefix(decoded, BYTES(BEGIN)))
        return decode_armor(decoded, out, reason);
    buf_add(out, buf_bytes(&inner));
    return buf_status(out);
}

enum status pgp_armor_decode(struct bytes text, struct buf *ret_binary, struct reason *reason)
{
    ASSERT(ret_binary->len == 0);
    if (text.len > PGP_TEXT_MAX)
        return invalid(reason, "is too long: 512 KiB of text are the most");
    if (text.len > 0 && (text.data[0] & 0x80) != 0) {
        buf_add(ret_binary, text);
        TRY(buf_status(ret_binary));
    } else {
        struct bytes trimmed = trim(text);
        if (trimmed.len == 0)
            return invalid(reason, "is empty");
        TRY(decode_text(trimmed, ret_binary, reason));
    }
    if (ret_binary->len > PGP_BINARY_MAX)
        return invalid(reason, "is too long: 256 KiB are the most; export it without the "
                               "signatures of others");
    return ST_OK;
}
