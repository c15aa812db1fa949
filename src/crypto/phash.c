#include "crypto/phash.h"
#include "base/mem.h"
#include "crypto/crypto.h"

#include <argon2.h>
#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SALT_BYTES = 16,
    HASH_BYTES = 32,
    MEMORY_KIB_MAX = 256 * 1024, /* of texts that were made elsewhere */
    PASSES_MAX = 16,
    LANES_MAX = 16,
    BCRYPT_COST_MAX = 14,
    BCRYPT_LEN = 60,
};

/* Salt and hash of 16 and 32 bytes that came from no password. */
const char phash_of_nothing[] = "$argon2id$v=19$m=19456,t=2,p=1$"
                                "aG9sZGZhc3Qgbm8gdXNlcg$"
                                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

static enum status status_of(int code)
{
    return code == ARGON2_MEMORY_ALLOCATION_ERROR ? ST_NOMEM : ST_CRYPTO;
}

enum status phash_make(struct bytes password, char ret_text[PHASH_TEXT_MAX])
{
    uint8_t salt[SALT_BYTES];
    ASSERT(password.len <= PHASH_PASSWORD_MAX);
    TRY(crypto_random(salt, sizeof salt));
    int code = argon2id_hash_encoded(PHASH_PASSES, PHASH_MEMORY_KIB, 1, password.data, password.len,
                                     salt, sizeof salt, HASH_BYTES, ret_text, PHASH_TEXT_MAX);
    return code == ARGON2_OK ? ST_OK : status_of(code);
}

struct cost {
    unsigned long memory_kib, passes, lanes;
};

/* Read "m=19456,t=2,p=1$" and the two parts behind it. */
static bool read_argon2(const char *text, struct cost *ret_cost)
{
    static const char head[] = "$argon2id$v=19$m=";
    char *end;
    if (strncmp(text, head, sizeof head - 1) != 0)
        return false;
    const char *at = text + sizeof head - 1;
    unsigned long *const numbers[] = {&ret_cost->memory_kib, &ret_cost->passes, &ret_cost->lanes};
    static const char *const behind[] = {",t=", ",p=", "$"};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 9)
            return false;
        *numbers[i] = strtoul(at, &end, 10);
        if (strncmp(end, behind[i], strlen(behind[i])) != 0)
            return false;
        at = end + strlen(behind[i]);
    }
    size_t salt = strcspn(at, "$"), hash = at[salt] == '$' ? strlen(at + salt + 1) : 0;
    return salt >= 11 && salt <= 64 && hash >= 16 && hash <= 88; /* base64 of 8 and 12 bytes on */
}

static bool is_argon2(const char *text, struct cost *ret_cost)
{
    return strlen(text) < PHASH_TEXT_MAX && read_argon2(text, ret_cost) && ret_cost->lanes >= 1 &&
           ret_cost->lanes <= LANES_MAX && ret_cost->passes >= 1 &&
           ret_cost->passes <= PASSES_MAX && ret_cost->memory_kib >= 8 * ret_cost->lanes &&
           ret_cost->memory_kib <= MEMORY_KIB_MAX;
}

static bool is_bcrypt(const char *text)
{
    static const char alphabet[] =
        "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (strlen(text) != BCRYPT_LEN || text[0] != '$' || text[1] != '2' ||
        strchr("aby", text[2]) == NULL || text[3] != '$' || text[6] != '$')
        return false;
    bool digits = text[4] >= '0' && text[4] <= '9' && text[5] >= '0' && text[5] <= '9';
    int cost = (text[4] - '0') * 10 + (text[5] - '0');
    return digits && cost >= 4 && cost <= BCRYPT_COST_MAX &&
           strspn(text + 7, alphabet) == BCRYPT_LEN - 7;
}

bool phash_is_known(const char *text)
{
    struct cost cost;
    return is_argon2(text, &cost) || is_bcrypt(text);
}

bool phash_is_ours(const char *text)
{
    struct cost cost;
    return is_argon2(text, &cost) && cost.memory_kib == PHASH_MEMORY_KIB &&
           cost.passes == PHASH_PASSES && cost.lanes == 1;
}

static enum status check_bcrypt(const char *text, struct bytes password, bool *ret_same)
{
    char phrase[PHASH_PASSWORD_MAX + 1];
    struct crypt_data *work = mem_zalloc(sizeof *work);
    if (work == NULL)
        return ST_NOMEM;
    memcpy(phrase, password.data, password.len);
    phrase[password.len] = '\0';
    const char *made = crypt_r(phrase, text, work);
    *ret_same = made != NULL && strlen(made) == strlen(text) &&
                bytes_eq_secret(bytes_str(made), bytes_str(text));
    mem_wipe(phrase, sizeof phrase);
    mem_wipe(work, sizeof *work);
    mem_free(work);
    return ST_OK;
}

enum status phash_check(const char *text, struct bytes password, bool *ret_same)
{
    struct cost cost;
    ASSERT(password.len <= PHASH_PASSWORD_MAX);
    if (is_bcrypt(text)) {
        bool whole = password.len == 0 || memchr(password.data, 0, password.len) == NULL;
        return whole ? check_bcrypt(text, password, ret_same) : ST_INVALID;
    }
    if (!is_argon2(text, &cost))
        return ST_INVALID;
    int code = argon2id_verify(text, password.data, password.len);
    if (code == ARGON2_OK || code == ARGON2_VERIFY_MISMATCH) {
        *ret_same = code == ARGON2_OK;
        return ST_OK;
    }
    return code == ARGON2_MEMORY_ALLOCATION_ERROR ? ST_NOMEM : ST_INVALID;
}
