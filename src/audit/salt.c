#include "audit/salt.h"
#include "base/mem.h"
#include "crypto/crypto.h"

/* Tokens and accessors repeat: recent results are kept. */
static enum status make_hmac(struct salt *salt)
{
    uint8_t key[SIPHASH_KEY_BYTES];
    TRY(hmac_new(bytes_of(salt->key, sizeof salt->key), &salt->hmac));
    enum status st = crypto_random(key, sizeof key);
    if (st == ST_OK)
        st = hmac_keep_recent(salt->hmac, key);
    mem_wipe(key, sizeof key);
    return st;
}

enum status salt_new(const uint8_t key[AUDIT_SALT_BYTES], struct salt **ret_salt)
{
    struct salt *salt = mem_zalloc(sizeof *salt);
    if (salt == NULL)
        return ST_NOMEM;
    atomic_init(&salt->refs, 1);
    memcpy(salt->key, key, sizeof salt->key);
    enum status st = make_hmac(salt);
    ASSERT(st != ST_OK || salt->hmac != NULL);
    if (st == ST_OK)
        *ret_salt = salt;
    else
        salt_unref(salt);
    return st;
}

void salt_unref(struct salt *salt)
{
    if (salt == NULL)
        return;
    unsigned before = atomic_fetch_sub(&salt->refs, 1);
    ASSERT(before > 0);
    if (before > 1)
        return;
    hmac_free(salt->hmac);
    mem_wipe(salt->key, sizeof salt->key);
    mem_free(salt);
}

enum status salt_hash(const struct salt *salt, struct bytes input,
                      char ret_text[AUDIT_HMAC_LEN + 1])
{
    struct hmac *hmac = NULL;
    if (salt == NULL)
        return ST_NOT_FOUND;
    TRY(hmac_new(bytes_of(salt->key, sizeof salt->key), &hmac));
    enum status st = audit_hmac(hmac, input, ret_text);
    hmac_free(hmac);
    return st;
}
