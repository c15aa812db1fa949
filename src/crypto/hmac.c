#include "crypto/hmac.h"

#include "base/mem.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

/* A result. Each tag has one slot: a new entry evicts the old one. */
struct slot {
    bool kept;
    struct siphash_tag tag;
    uint8_t mac[HMAC_BYTES];
};

struct memo {
    uint8_t key[SIPHASH_KEY_BYTES];
    struct slot slots[HMAC_MEMO_SLOTS];
};

struct hmac {
    EVP_MAC_CTX *ctx;
    struct memo *memo; /* NULL: none */
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
    if (h->memo != NULL)
        mem_wipe(h->memo, sizeof *h->memo);
    mem_free(h->memo);
    mem_free(h);
}

enum status hmac_keep_recent(struct hmac *h, const uint8_t key[SIPHASH_KEY_BYTES])
{
    ASSERT(h->memo == NULL);
    h->memo = mem_zalloc(sizeof *h->memo);
    if (h->memo == NULL)
        return ST_NOMEM;
    memcpy(h->memo->key, key, sizeof h->memo->key);
    return ST_OK;
}

static enum status compute(struct hmac *h, struct bytes message, uint8_t ret_mac[HMAC_BYTES])
{
    size_t n = 0;
    ASSERT(h->ctx != NULL);
    if (EVP_MAC_init(h->ctx, NULL, 0, NULL) != 1 || /* uses the kept key */
        (message.len != 0 && EVP_MAC_update(h->ctx, message.data, message.len) != 1) ||
        EVP_MAC_final(h->ctx, ret_mac, &n, HMAC_BYTES) != 1 || n != HMAC_BYTES)
        return ST_CRYPTO;
    return ST_OK;
}

enum status hmac_run(struct hmac *h, struct bytes message, uint8_t ret_mac[HMAC_BYTES])
{
    if (h->memo == NULL || message.len > HMAC_MEMO_MESSAGE_MAX)
        return compute(h, message, ret_mac);
    struct siphash_tag tag = siphash(h->memo->key, message);
    ASSERT(h->ctx != NULL);
    struct slot *slot = &h->memo->slots[tag.words[0] % HMAC_MEMO_SLOTS];
    if (!slot->kept || !siphash_tag_eq(slot->tag, tag)) {
        slot->kept = false; /* until the result is there */
        TRY(compute(h, message, slot->mac));
        slot->tag = tag;
        slot->kept = true;
    }
    ASSERT(slot->kept);
    memcpy(ret_mac, slot->mac, HMAC_BYTES);
    return ST_OK;
}
