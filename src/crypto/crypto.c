#include "crypto/crypto.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <limits.h>
#include <pthread.h>

enum {
    /* Every handshake in progress holds an ephemeral key here: 4 MiB is room for some 50,000. */
    SECURE_HEAP_BYTES = 4 * 1024 * 1024,
    SECURE_BLOCK_BYTES_MIN = 32,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready, locked;

static void init_once(void)
{
    int heap = CRYPTO_secure_malloc_init(SECURE_HEAP_BYTES, SECURE_BLOCK_BYTES_MIN);
    locked = heap == 1; /* result 2: usable, but its pages are not locked or guarded */
    ready = heap != 0 && OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL) == 1;
}

enum status crypto_init(bool *ret_locked)
{
    if (pthread_once(&once, init_once) != 0 || !ready)
        return ST_CRYPTO;
    if (ret_locked != NULL)
        *ret_locked = locked;
    return ST_OK;
}

enum status crypto_random(void *out, size_t n)
{
    ASSERT(out != NULL || n == 0);
    ASSERT(n <= INT_MAX);
    return n == 0 || RAND_bytes(out, (int)n) == 1 ? ST_OK : ST_CRYPTO;
}

enum status secret_new(size_t len, struct secret *ret_secret)
{
    ASSERT(len > 0);
    if (len > SECRET_BYTES_MAX)
        return ST_TOO_BIG;
    uint8_t *data = OPENSSL_secure_zalloc(len);
    if (data == NULL)
        return ST_NOMEM;
    *ret_secret = (struct secret){data, len};
    return ST_OK;
}

enum status secret_dup(struct bytes from, struct secret *ret_secret)
{
    struct secret copy;
    TRY(secret_new(from.len, &copy));
    memcpy(copy.data, from.data, from.len);
    *ret_secret = copy;
    return ST_OK;
}

enum status secret_random(size_t len, struct secret *ret_secret)
{
    struct secret made;
    TRY(secret_new(len, &made));
    if (RAND_priv_bytes(made.data, (int)len) != 1) {
        secret_done(&made);
        return ST_CRYPTO;
    }
    *ret_secret = made;
    return ST_OK;
}

void secret_done(struct secret *secret)
{
    OPENSSL_secure_clear_free(secret->data, secret->len);
    *secret = (struct secret){0};
}
