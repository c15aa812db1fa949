#include "crypto/blake2b.h"
#include "base/mem.h"

#include <blake2.h>

void crypto_blake2b256(const struct bytes *parts, size_t n,
                       uint8_t ret_digest[CRYPTO_BLAKE2B256_BYTES])
{
    blake2b_state state;
    int failed = blake2b_init(&state, CRYPTO_BLAKE2B256_BYTES);
    for (size_t i = 0; i < n; i++)
        if (parts[i].len != 0)
            failed |= blake2b_update(&state, parts[i].data, parts[i].len);
    failed |= blake2b_final(&state, ret_digest, CRYPTO_BLAKE2B256_BYTES);
    ASSERT(failed == 0);
    mem_wipe(&state, sizeof state); /* the message may hold a secret */
}
