/* Public keys: names, lines, and whether the numbers are those of a sound key. */
#include "crypto/ssh_key.h"
#include "crypto/ssh_wire.h"
#include "text/encode.h"
#include "text/value.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>

enum { ED25519_BYTES = 32, EXPONENT_BYTES_MAX = 8, APPLICATION_MAX = 1024 };

static const struct {
    const char *name, *cert;
    const char *curve; /* on the wire */
    int nid;
} kinds[] = {
    [SSH_RSA] = {"ssh-rsa", "ssh-rsa-cert-v01@openssh.com", NULL, 0},
    [SSH_ECDSA_256] = {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256-cert-v01@openssh.com",
                       "nistp256", NID_X9_62_prime256v1},
    [SSH_ECDSA_384] = {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384-cert-v01@openssh.com",
                       "nistp384", NID_secp384r1},
    [SSH_ECDSA_521] = {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521-cert-v01@openssh.com",
                       "nistp521", NID_secp521r1},
    [SSH_ED25519] = {"ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com", NULL, 0},
    [SSH_SK_ECDSA] = {"sk-ecdsa-sha2-nistp256@openssh.com",
                      "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com", "nistp256",
                      NID_X9_62_prime256v1},
    [SSH_SK_ED25519] = {"sk-ssh-ed25519@openssh.com", "sk-ssh-ed25519-cert-v01@openssh.com", NULL,
                        0},
};

const char *ssh_kind_name(enum ssh_kind kind)
{
    ASSERT(kind < ARRAY_LEN(kinds));
    return kinds[kind].name;
}

const char *ssh_kind_cert_name(enum ssh_kind kind)
{
    ASSERT(kind < ARRAY_LEN(kinds));
    return kinds[kind].cert;
}

static enum status invalid(struct reason *why, const char *text)
{
    reason_set(why, "%s", text);
    return ST_INVALID;
}

static enum status kind_of_name(struct bytes name, enum ssh_kind *ret_kind, struct reason *why)
{
    static const char cert[] = "-cert-v01@openssh.com";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!text_is(name, kinds[i].name))
            continue;
        *ret_kind = (enum ssh_kind)i;
        return ST_OK;
    }
    if (text_is(name, "ssh-dss"))
        return invalid(why, "DSA keys are not supported: use an Ed25519, ECDSA or RSA key");
    if (name.len > strlen(cert) && text_is(bytes_from(name, name.len - strlen(cert)), cert))
        return invalid(why, "this is a certificate: a public key is expected");
    return invalid(why, "unknown type of key: a line \"TYPE BASE64 COMMENT\" of a .pub file is "
                        "expected, without options");
}

/* Numbers */

static unsigned bits_of(struct bytes number)
{
    ASSERT(number.len != 0 && number.data[0] != 0);
    unsigned bits = (unsigned)number.len * 8;
    for (unsigned bit = 0x80; (number.data[0] & bit) == 0; bit >>= 1)
        bits--;
    return bits;
}

static enum status read_rsa_numbers(struct reader *r, struct ssh_public *key, struct reason *why)
{
    struct bytes e = ssh_take_mpint(r), n = ssh_take_mpint(r);
    ASSERT(key->kind == SSH_RSA);
    if (r->failed)
        return invalid(why, "the numbers of the RSA key are malformed");
    key->bits = bits_of(n);
    if (key->bits < SSH_RSA_BITS_MIN || key->bits > SSH_RSA_BITS_MAX) {
        reason_set(why, "an RSA key of %u bits: %d to %d are expected", key->bits, SSH_RSA_BITS_MIN,
                   SSH_RSA_BITS_MAX);
        return ST_INVALID;
    }
    if ((n.data[n.len - 1] & 1) == 0)
        return invalid(why, "the modulus of the RSA key is even");
    bool small = e.len == 1 && e.data[0] < 3;
    if (small || e.len > EXPONENT_BYTES_MAX || (e.data[e.len - 1] & 1) == 0)
        return invalid(why, "the exponent of the RSA key is even, below 3, or above 64 bits");
    return ST_OK;
}

/* Whether the point lies on the curve, is not infinity, and has the uncompressed form. */
static bool is_point(int nid, struct bytes point)
{
    EC_GROUP *group = EC_GROUP_new_by_curve_name(nid);
    ASSERT(nid != 0);
    EC_POINT *p = group != NULL ? EC_POINT_new(group) : NULL;
    bool ok = p != NULL && point.len != 0 && point.data[0] == POINT_CONVERSION_UNCOMPRESSED &&
              EC_POINT_oct2point(group, p, point.data, point.len, NULL) == 1 &&
              EC_POINT_is_at_infinity(group, p) == 0;
    EC_POINT_free(p);
    EC_GROUP_free(group);
    ERR_clear_error(); /* the result tells the failure */
    return ok;
}

static enum status read_ecdsa(struct reader *r, struct ssh_public *key, struct reason *why)
{
    struct bytes curve = ssh_take_string(r), point = ssh_take_string(r);
    ASSERT(kinds[key->kind].curve != NULL);
    if (r->failed || !text_is(curve, kinds[key->kind].curve))
        return invalid(why, "the curve of the key is not that of its type");
    if (!is_point(kinds[key->kind].nid, point))
        return invalid(why, "the point of the key does not lie on its curve");
    key->bits = key->kind == SSH_ECDSA_384 ? 384 : key->kind == SSH_ECDSA_521 ? 521 : 256;
    return ST_OK;
}

/* Points of order 1, 2, 4 and 8, and 0 and 1 above the field's prime, without the bit of the sign:
 * anyone can make signatures that such a key verifies. RFC 8032 5.1.3 decodes them. */
static const uint8_t small_order[][ED25519_BYTES] = {
    {0},
    {1},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
     0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
     0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
     0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
     0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    {0xec, [1 ... 30] = 0xff, 0x7f},
    {0xed, [1 ... 30] = 0xff, 0x7f},
    {0xee, [1 ... 30] = 0xff, 0x7f},
};

static bool is_small_order(struct bytes point)
{
    uint8_t last = point.data[ED25519_BYTES - 1] & 0x7f;
    ASSERT(point.len == ED25519_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(small_order); i++)
        if (memcmp(point.data, small_order[i], ED25519_BYTES - 1) == 0 &&
            last == small_order[i][ED25519_BYTES - 1])
            return true;
    return false;
}

static enum status read_ed25519(struct reader *r, struct ssh_public *key, struct reason *why)
{
    struct bytes point = ssh_take_string(r);
    if (point.len != ED25519_BYTES)
        return invalid(why, "an Ed25519 key has 32 bytes");
    if (is_small_order(point))
        return invalid(why, "the point of the key has a small order: anyone could sign for it");
    key->bits = 256;
    return ST_OK;
}

static enum status read_application(struct reader *r, struct reason *why)
{
    struct bytes name = ssh_take_string(r);
    if (r->failed || name.len == 0 || name.len > APPLICATION_MAX)
        return invalid(why, "the application of the key is malformed");
    return ST_OK;
}

enum status ssh_public_read(struct bytes blob, struct ssh_public *ret_key, struct reason *why)
{
    struct reader r = reader_of(blob);
    struct ssh_public key = {.blob = blob};
    struct bytes name = ssh_take_string(&r);
    if (r.failed)
        return invalid(why, "the key is cut off");
    TRY(kind_of_name(name, &key.kind, why));
    key.fields = bytes_of(r.at, reader_left(&r));
    if (key.kind == SSH_RSA)
        TRY(read_rsa_numbers(&r, &key, why));
    else if (kinds[key.kind].curve != NULL)
        TRY(read_ecdsa(&r, &key, why));
    else
        TRY(read_ed25519(&r, &key, why));
    if (key.kind == SSH_SK_ECDSA || key.kind == SSH_SK_ED25519)
        TRY(read_application(&r, why));
    if (reader_end(&r) != ST_OK)
        return invalid(why, "there are bytes behind the key");
    ASSERT(key.bits >= 256 && key.fields.len < blob.len);
    *ret_key = key;
    return ST_OK;
}

/* Lines */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static struct bytes trim(struct bytes line)
{
    while (line.len != 0 && is_blank(line.data[0]))
        line = bytes_from(line, 1);
    while (line.len != 0 && (is_blank(line.data[line.len - 1]) || line.data[line.len - 1] == '\n' ||
                             line.data[line.len - 1] == '\r'))
        line.len--;
    return line;
}

static struct bytes take_word(struct bytes *line)
{
    size_t n = 0;
    while (n < line->len && !is_blank(line->data[n]))
        n++;
    struct bytes word = bytes_of(line->data, n);
    while (n < line->len && is_blank(line->data[n]))
        n++;
    *line = bytes_from(*line, n);
    return word;
}

static bool has_control(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < ' ' && text.data[i] != '\t')
            return true;
    return false;
}

enum status ssh_public_parse(struct arena *arena, struct bytes line, struct ssh_public *ret_key,
                             struct reason *why)
{
    enum ssh_kind kind;
    size_t len;
    if (line.len > SSH_LINE_MAX)
        return invalid(why, "the line is longer than 16 KiB");
    line = trim(line);
    if (line.len == 0)
        return invalid(why, "the line is empty");
    if (bytes_has_prefix(line, BYTES("-----BEGIN")))
        return invalid(why, "this is a PEM file: a line of a .pub file is expected");
    if (has_control(line))
        return invalid(why, "one line is expected, without control characters");
    struct bytes name = take_word(&line), base64 = take_word(&line);
    TRY(kind_of_name(name, &kind, why));
    ASSERT(kind <= SSH_SK_ED25519);
    uint8_t *blob = arena_alloc(arena, TEXT_BASE64_BYTES(base64.len));
    if (blob == NULL)
        return ST_NOMEM;
    if (base64.len == 0 || memchr(base64.data, '-', base64.len) != NULL ||
        memchr(base64.data, '_', base64.len) != NULL ||
        text_base64_parse(base64, blob, &len) != ST_OK)
        return invalid(why, "the key is not base64");
    TRY(ssh_public_read(bytes_of(blob, len), ret_key, why));
    if (ret_key->kind != kind)
        return invalid(why, "the type in front of the key is not that of the key");
    return ST_OK;
}

enum status ssh_public_line(struct bytes blob, struct buf *out)
{
    struct reader r = reader_of(blob);
    struct bytes name = ssh_take_string(&r);
    ASSERT(!r.failed);
    buf_add(out, name);
    buf_add_u8(out, ' ');
    uint8_t *at = buf_extend(out, TEXT_BASE64_LEN(blob.len) + 1);
    if (at == NULL)
        return buf_status(out);
    size_t len = text_base64_put(blob, TEXT_BASE64, (char *)at);
    ASSERT(len <= TEXT_BASE64_LEN(blob.len));
    out->len -= TEXT_BASE64_LEN(blob.len) + 1 - len;
    return buf_status(out);
}
