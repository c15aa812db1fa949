/* A certificate: string type name, string nonce, the fields of the key, u64 serial, u32 type,
 * string key id, string of strings (principals), u64 valid after, u64 valid before, string critical
 * options, string extensions, string reserved, string key of the authority, string signature. */
#include "crypto/ssh_cert.h"
#include "crypto/ssh_wire.h"

static enum status put_principals(const struct ssh_cert *cert, struct buf *out)
{
    CLEANUP(buf_done) struct buf list = {0};
    ASSERT(cert->n_principals <= SSH_PRINCIPALS_MAX);
    for (size_t i = 0; i < cert->n_principals; i++)
        ssh_put_string(&list, bytes_str(cert->principals[i]));
    TRY(buf_status(&list));
    ssh_put_string(out, buf_bytes(&list));
    return ST_OK;
}

/* A value is a string within a string; an empty value is the empty string. */
static enum status put_options(const struct ssh_options *options, struct buf *out)
{
    CLEANUP(buf_done) struct buf list = {0};
    for (size_t i = 0; i < options->n; i++) {
        struct bytes name = bytes_str(options->pairs[2 * i]);
        struct bytes value = bytes_str(options->pairs[2 * i + 1]);
        ASSERT(name.len != 0);
        ASSERT(i == 0 || bytes_cmp(bytes_str(options->pairs[2 * i - 2]), name) < 0);
        ssh_put_string(&list, name);
        ssh_put_u32(&list, value.len != 0 ? (uint32_t)value.len + 4 : 0);
        if (value.len != 0)
            ssh_put_string(&list, value);
    }
    TRY(buf_status(&list));
    ssh_put_string(out, buf_bytes(&list));
    return ST_OK;
}

enum status ssh_cert_body(const struct ssh_cert *cert, struct bytes authority, struct buf *out)
{
    ASSERT(cert->serial != 0 && cert->key_id != NULL);
    ASSERT(cert->valid_after_s >= 0 && cert->valid_after_s < cert->valid_before_s);
    ASSERT(cert->valid_before_s <= SSH_TIME_MAX);
    ssh_put_string(out, bytes_str(ssh_kind_cert_name(cert->key->kind)));
    ssh_put_string(out, bytes_of(cert->nonce, sizeof cert->nonce));
    buf_add(out, cert->key->fields);
    ssh_put_u64(out, cert->serial);
    ssh_put_u32(out, (uint32_t)cert->type);
    ssh_put_string(out, bytes_str(cert->key_id));
    TRY(put_principals(cert, out));
    ssh_put_u64(out, (uint64_t)cert->valid_after_s);
    ssh_put_u64(out, (uint64_t)cert->valid_before_s);
    TRY(put_options(&cert->critical, out));
    TRY(put_options(&cert->extensions, out));
    ssh_put_string(out, BYTES(""));
    ssh_put_string(out, authority);
    return buf_status(out);
}

enum status ssh_cert_sign(struct bytes body, const struct ssh_private *authority,
                          enum ssh_digest digest, struct buf *out)
{
    CLEANUP(buf_done) struct buf whole = {0};
    buf_add(&whole, body);
    TRY(ssh_sign(authority, digest, body, &whole));
    return ssh_public_line(buf_bytes(&whole), out);
}
