#include "text/random.h"
#include "base/mem.h"
#include "base/vector.h"
#include "text/encode.h"

#include <assert.h>

void text_random(struct env *env, char *out, size_t n)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { KINDS = 62, FAIR = 256 / KINDS * KINDS };
    for (size_t i = 0; i < n;) {
        uint8_t pool[32]; /* nearly always enough for the 24 characters of a bearer */
        env_random(env, pool, sizeof pool);
        for (size_t j = 0; j < sizeof pool && i < n; j++)
            if (pool[j] < FAIR)
                out[i++] = digits[pool[j] % KINDS];
        mem_wipe(pool, sizeof pool);
    }
    out[n] = '\0';
}

void text_uuid_of(const uint8_t random[TEXT_UUID_RANDOM], char ret_uuid[TEXT_UUID_LEN + 1])
{
    uint8_t b[TEXT_UUID_RANDOM];
    char hex[TEXT_HEX_LEN(sizeof b) + 1];
    memcpy(b, random, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    text_hex_put(bytes_of(b, sizeof b), hex);
    memset(ret_uuid, '-', TEXT_UUID_LEN); /* the form is 8-4-4-4-12 digits */
    memcpy(ret_uuid, hex, 8);
    memcpy(ret_uuid + 9, hex + 8, 4);
    memcpy(ret_uuid + 14, hex + 12, 4);
    memcpy(ret_uuid + 19, hex + 16, 4);
    memcpy(ret_uuid + 24, hex + 20, 12);
    ret_uuid[TEXT_UUID_LEN] = '\0';
    ASSERT(ret_uuid[14] == '4'); /* the version of the UUID */
}

/* Copy sixteen bytes of a UUID in lower case. False: they have not the form. */
static bool uuid_part(const uint8_t *from, const uint8_t *form, char *to)
{
    const VECTOR_OF(uint8_t) v = vector_at(from), f = vector_at(form);
    const VECTOR_OF(uint8_t) letter = (v | 0x20) - 'a', digit = v - '0';
    const VECTOR_OF(int8_t) is_letter = letter <= 'f' - 'a';
    const VECTOR_OF(uint8_t) lower = v | ((VECTOR_OF(uint8_t))is_letter & 0x20);
    memcpy(to, &lower, sizeof lower);
    return vector_is_all(((f == '-') & (v == '-')) | ((f != '-') & (is_letter | (digit <= 9))));
}

enum status text_uuid_parse(struct bytes text, char ret_uuid[TEXT_UUID_LEN + 1])
{
    static const uint8_t form[] = "00000000-0000-0000-0000-000000000000";
    enum { LAST = TEXT_UUID_LEN - VECTOR_BYTES };
    char lower[TEXT_UUID_LEN + 1];
    static_assert(sizeof form == sizeof lower && LAST <= 2 * VECTOR_BYTES, "three parts");
    if (text.len != TEXT_UUID_LEN || !uuid_part(text.data, form, lower) ||
        !uuid_part(text.data + VECTOR_BYTES, form + VECTOR_BYTES, lower + VECTOR_BYTES) ||
        !uuid_part(text.data + LAST, form + LAST, lower + LAST))
        return ST_INVALID;
    lower[TEXT_UUID_LEN] = '\0';
    memcpy(ret_uuid, lower, sizeof lower);
    return ST_OK;
}

void text_uuid(struct env *env, char ret_uuid[TEXT_UUID_LEN + 1])
{
    uint8_t random[TEXT_UUID_RANDOM];
    env_random(env, random, sizeof random);
    text_uuid_of(random, ret_uuid);
}
