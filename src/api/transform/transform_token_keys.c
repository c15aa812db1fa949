/* Derived keys, macs, ids, look-up keys and seals of tokens. No state. */
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/crypto.h"

enum { LABEL_MAX = 32, AAD = TRANSFORM_SCOPE + TRANSFORM_DIGEST + 8 + 1 };

enum status transform_token_derive(const uint8_t key[TRANSFORM_KEY_BYTES],
                                   const uint8_t scope[TRANSFORM_SCOPE], const char *label,
                                   uint8_t ret_key[HKDF_BYTES])
{
    static const char head[] = "holdfast token ";
    uint8_t info[sizeof head + LABEL_MAX];
    ASSERT(strlen(label) <= LABEL_MAX);
    uint8_t *end = bytes_put(bytes_put(info, bytes_str(head)), bytes_str(label));
    return hkdf_derive(bytes_of(scope, TRANSFORM_SCOPE), bytes_of(key, TRANSFORM_KEY_BYTES),
                       bytes_of(info, (size_t)(end - info)), ret_key);
}

enum status transform_token_hmac(const uint8_t key[TRANSFORM_KEY_BYTES],
                                 const uint8_t scope[TRANSFORM_SCOPE], const char *label,
                                 struct hmac **ret_hmac)
{
    uint8_t derived[HKDF_BYTES];
    enum status st = transform_token_derive(key, scope, label, derived);
    if (st == ST_OK)
        st = hmac_new(bytes_of(derived, sizeof derived), ret_hmac);
    mem_wipe(derived, sizeof derived);
    return st;
}

enum status transform_token_key_init(struct transform_token_key *key)
{
    ASSERT(key->mac == NULL && key->lookup == NULL);
    TRY(transform_token_hmac(key->key, key->scope, "mac", &key->mac));
    return transform_token_hmac(key->key, key->scope, "lookup", &key->lookup);
}

void transform_token_key_done(struct transform_token_key *key)
{
    hmac_free(key->mac);
    hmac_free(key->lookup);
    key->mac = key->lookup = NULL;
    mem_wipe(key->key, sizeof key->key);
}

static enum status mac_of(const struct transform_token_key *key,
                          const struct transform_token *token, uint8_t ret_mac[HMAC_BYTES])
{
    uint8_t header[TRANSFORM_TOKEN_HEADER_MAX];
    ASSERT(key->mac != NULL && key->version == token->key_version);
    size_t len = transform_token_header(token, header);
    return hmac_run(key->mac, bytes_of(header, len), ret_mac);
}

enum status transform_token_sign(const struct transform_token_key *key,
                                 struct transform_token *token)
{
    uint8_t mac[HMAC_BYTES];
    TRY(mac_of(key, token, mac));
    memcpy(token->mac, mac, sizeof token->mac);
    return ST_OK;
}

enum status transform_token_verify(const struct transform_token_key *key,
                                   const struct transform_token *token)
{
    uint8_t mac[HMAC_BYTES];
    TRY(mac_of(key, token, mac));
    bool same =
        bytes_eq_secret(bytes_of(mac, sizeof token->mac), bytes_of(token->mac, sizeof token->mac));
    return same ? ST_OK : ST_INVALID;
}

enum status transform_token_converge(struct hmac *ids, struct bytes value, int64_t expire_ms,
                                     uint8_t ret_id[TRANSFORM_DIGEST])
{
    CLEANUP(buf_done) struct buf message = {0};
    ASSERT(expire_ms >= 0);
    buf_add_u64(&message, value.len);
    buf_add(&message, value);
    buf_add_u64(&message, (uint64_t)expire_ms);
    TRY(buf_status(&message));
    return hmac_run(ids, buf_bytes(&message), ret_id);
}

enum status transform_tokens_lookup(const struct transform_token_key *key,
                                    const struct transform_token *token,
                                    uint8_t ret_lookup[TRANSFORM_DIGEST])
{
    ASSERT(key->lookup != NULL && key->version == token->key_version);
    return hmac_run(key->lookup, bytes_of(token->id, token->id_len), ret_lookup);
}

/* The cipher of a part. The key of the value and its metadata needs the token: no row opens without
 * it. */
static enum status part_cipher(const struct transform_sealer *s, enum transform_part part,
                               struct aead **ret_cipher)
{
    uint8_t key[HKDF_BYTES];
    ASSERT(part == TRANSFORM_ID || s->id.len != 0);
    enum status st = part == TRANSFORM_ID
                         ? transform_token_derive(s->key, s->scope, "export", key)
                         : hkdf_derive(s->id, bytes_of(s->key, TRANSFORM_KEY_BYTES),
                                       BYTES("holdfast token data"), key);
    if (st == ST_OK)
        st = aead_new(bytes_of(key, sizeof key), ret_cipher);
    mem_wipe(key, sizeof key);
    return st;
}

static struct bytes aad_of(const struct transform_sealer *s, enum transform_part part,
                           uint8_t aad[AAD])
{
    uint8_t *to = bytes_put(aad, bytes_of(s->scope, TRANSFORM_SCOPE));
    to = bytes_put(to, bytes_of(s->lookup, TRANSFORM_DIGEST));
    le64_put(to, (uint64_t)s->expire_ms);
    to[8] = (uint8_t)part;
    ASSERT(to + 9 == aad + AAD);
    return bytes_of(aad, AAD);
}

enum status transform_seal(const struct transform_sealer *s, enum transform_part part,
                           struct bytes plain, struct buf *out)
{
    struct aead *cipher = NULL;
    uint8_t aad[AAD];
    uint8_t *to = buf_extend(out, plain.len + TRANSFORM_SEAL_OVERHEAD);
    if (to == NULL)
        return ST_NOMEM;
    TRY(part_cipher(s, part, &cipher));
    enum status st = crypto_random(to, AEAD_NONCE_BYTES);
    if (st == ST_OK)
        st = aead_seal(cipher, to, aad_of(s, part, aad), plain, to + AEAD_NONCE_BYTES,
                       to + AEAD_NONCE_BYTES + plain.len);
    aead_free(cipher);
    return st;
}

enum status transform_open(const struct transform_sealer *s, enum transform_part part,
                           struct bytes sealed, struct buf *out)
{
    struct aead *cipher = NULL;
    uint8_t aad[AAD];
    if (sealed.len < TRANSFORM_SEAL_OVERHEAD)
        return ST_CORRUPT;
    size_t len = sealed.len - TRANSFORM_SEAL_OVERHEAD;
    uint8_t *to = buf_extend(out, len);
    if (to == NULL)
        return ST_NOMEM;
    TRY(part_cipher(s, part, &cipher));
    const uint8_t *text = sealed.data + AEAD_NONCE_BYTES;
    enum status st =
        aead_open(cipher, sealed.data, aad_of(s, part, aad), bytes_of(text, len), text + len, to);
    aead_free(cipher);
    return st;
}
