#include "barrier/token.h"

#include "base/mem.h"
#include "text/encode.h"

void token_make(struct env *env, char ret_token[TOKEN_SERVICE_LEN + 1])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { BASE = sizeof digits - 1, FAIR = 256 / BASE * BASE };
    uint8_t random[TOKEN_RANDOM];
    size_t n = 0;

    memcpy(ret_token, "hvs.", 4);
    while (n < TOKEN_RANDOM) { /* bytes that would favour some digits are drawn again */
        env_random(env, random, sizeof random);
        for (size_t i = 0; i < sizeof random && n < TOKEN_RANDOM; i++)
            if (random[i] < FAIR)
                ret_token[4 + n++] = digits[random[i] % BASE];
    }
    ASSERT(n == TOKEN_RANDOM);
    ret_token[TOKEN_SERVICE_LEN] = '\0';
    mem_wipe(random, sizeof random);
}

enum status token_name(struct barrier_cipher *cipher, struct bytes token,
                       char ret_name[2 * BARRIER_MAC_BYTES + 1])
{
    uint8_t mac[BARRIER_MAC_BYTES];

    TRY(barrier_mac(cipher, token, mac));
    text_hex_put(bytes_of(mac, sizeof mac), ret_name);
    return ST_OK;
}
