#include "crypto/hmac.h"

#include "base/mem.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

struct hmac {
    EVP_MAC_CTX *ctx;
};

static EVP_MAC_CTX *context_new(struct bytes key)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;
    EVP_MAC_free(mac); /* the context holds its own reference */
    if (ctx != NULL && EVP_MAC_init(ctx, key.data, key.len, params) == 1)
        return ctx;
    EVP_MAC_CTX_free(ctx);
    return NULL;
}

enum status hmac_new(struct bytes key, struct hmac **ret_hmac)
{
    ASSERT(key.len > 0);
    struct hmac *h = mem_zalloc(sizeof *h);
    if (h == NULL)
        return ST_NOMEM;
    h->ctx = context_new(key);
    if (h->ctx == NULL) {
        mem_free(h);
        return ST_CRYPTO;
    }
    *ret_hmac = h;
    return ST_OK;
}

void hmac_free(struct hmac *h)
{
    if (h == NULL)
        return;
    EVP_MAC_CTX_free(h->ctx); /* also clears the key */
    mem_free(h);
}

enum status hmac_run(struct hmac *h, struct bytes message, uint8_t ret_mac[HMAC_BYTES])
{
    size_t n = 0;
    ASSERT(h->ctx != NULL);
    if (EVP_MAC_init(h->ctx, NULL, 0, NULL) != 1 || /* uses the kept key */
        (message.len != 0 && EVP_MAC_update(h->ctx, message.data, message.len) != 1) ||
        EVP_MAC_final(h->ctx, ret_mac, &n, HMAC_BYTES) != 1 || n != HMAC_BYTES)
        return ST_CRYPTO;
    return ST_OK;
}
