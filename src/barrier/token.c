#include "barrier/token.h"

#include "text/encode.h"
#include "text/random.h"

void token_make(struct env *env, char ret_token[TOKEN_SERVICE_LEN + 1])
{
    memcpy(ret_token, "hvs.", 4);
    text_random(env, ret_token + 4, TOKEN_RANDOM);
    ASSERT(ret_token[TOKEN_SERVICE_LEN] == '\0');
}

enum status token_name(struct barrier_cipher *cipher, struct bytes token,
                       char ret_name[2 * BARRIER_MAC_BYTES + 1])
{
    uint8_t mac[BARRIER_MAC_BYTES];

    TRY(barrier_mac(cipher, token, mac));
    text_hex_put(bytes_of(mac, sizeof mac), ret_name);
    return ST_OK;
}
