#include "crypto/hkdf.h"

#include "base/mem.h"
#include "crypto/hmac.h"

#include <assert.h>

static_assert((int)HKDF_BYTES == (int)HMAC_BYTES, "one block of the expansion is the key");

static enum status mac(struct bytes key, struct bytes message, uint8_t ret_mac[HMAC_BYTES])
{
    struct hmac *h = NULL;
    TRY(hmac_new(key, &h));
    enum status st = hmac_run(h, message, ret_mac);
    hmac_free(h);
    return st;
}

enum status hkdf_derive(struct bytes salt, struct bytes secret, struct bytes info,
                        uint8_t ret_key[HKDF_BYTES])
{
    uint8_t prk[HMAC_BYTES], block[HKDF_INFO_MAX + 1];
    ASSERT(salt.len != 0 && secret.len != 0);
    ASSERT(info.len <= HKDF_INFO_MAX);
    uint8_t *end = bytes_put(block, info);
    *end++ = 1; /* the number of the block */
    ASSERT(end <= block + sizeof block);
    enum status st = mac(salt, secret, prk);
    if (st == ST_OK)
        st = mac(bytes_of(prk, sizeof prk), bytes_of(block, (size_t)(end - block)), ret_key);
    mem_wipe(prk, sizeof prk);
    return st;
}
