/* A JSON Web Token, its claims alone, and a signature in the DER form. A token that is taken apart
 * is written again as it was; no key made the signature. */
#include "auth/wrapping_jwt.h"
#include "crypto/es512.h"
#include "text/bounded_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_token(struct bytes input)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf again = {0};
    struct wrapping_jwt claims;
    struct jwt jwt;
    if (jwt_split(&arena, input, "ES512", &jwt) != ST_OK) {
        ASSERT(wrapping_jwt_read(&arena, input, &claims) == ST_INVALID);
        return;
    }
    jwt_put_input(&again, "ES512", jwt.claims);
    size_t header = (size_t)((const uint8_t *)memchr(again.data, '.', again.len) - again.data);
    const uint8_t *dot = memchr(input.data, '.', input.len);
    ASSERT(bytes_eq(bytes_from(buf_bytes(&again), header),
                    bytes_from(jwt.input, (size_t)(dot - input.data))));
    buf_clear(&again);
    buf_add(&again, jwt.input);
    jwt_put_signature(&again, jwt.signature);
    ASSERT(bytes_eq(buf_bytes(&again), input));
    if (wrapping_jwt_read(&arena, input, &claims) == ST_OK)
        ASSERT(claims.jti[0] != '\0' && claims.exp_s > 0 && claims.nbf_s >= 0);
}

static void as_claims(struct bytes input)
{
    CLEANUP(bounded_json_done) json_t *object = NULL;
    if (bounded_json_parse(input, &object) == ST_OK)
        ASSERT(json_is_object(object));
}

static void as_signature(struct bytes input)
{
    static struct es512_key key;
    if (key.key == NULL)
        ASSERT(es512_key_new(&key) == ST_OK);
    ASSERT(es512_verify(&key, BYTES("message"), input) == ST_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_token(bytes_of(data, size));
    as_claims(bytes_of(data, size));
    as_signature(bytes_of(data, size));
    return 0;
}
