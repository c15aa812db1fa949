#include "crypto/fpe/fpe_internal.h"

#include "base/mem.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { KEY_MAX = 32, DOMAIN_MIN = 1000000 };

struct fpe {
    enum fpe_algorithm algorithm;
    EVP_CIPHER_CTX *aes;
};

/* The greatest n with radix^n <= 2^bits. */
static unsigned digits_within(unsigned radix, unsigned bits)
{
    uint32_t limbs[FPE_LONG_BITS / 32 + 1] = {1};
    unsigned used = 1, n = 0;
    for (;; n++) {
        uint64_t carry = 0;
        for (unsigned k = 0; k < used; k++) {
            carry += (uint64_t)limbs[k] * radix;
            limbs[k] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry != 0)
            limbs[used++] = (uint32_t)carry;
        bool is_above = used > bits / 32;
        bool is_power = is_above && limbs[used - 1] == 1; /* 2^bits itself is within */
        for (unsigned k = 0; is_power && k < used - 1; k++)
            is_power = limbs[k] == 0;
        if (is_above)
            return is_power ? n + 1 : n;
    }
}

struct fpe_limits fpe_limits(enum fpe_algorithm algorithm, unsigned radix)
{
    ASSERT(radix >= FPE_RADIX_MIN && radix <= FPE_RADIX_MAX);
    struct fpe_limits limits = {.min = 1};
    for (uint64_t domain = radix; domain < DOMAIN_MIN; domain *= radix)
        limits.min++;
    unsigned bits = algorithm == FPE_FF1 ? FPE_LONG_BITS : FPE_NARROW_BITS;
    limits.max = MIN(2 * digits_within(radix, bits), (unsigned)FPE_NUMERALS_MAX);
    ASSERT(limits.min >= 2 && limits.min <= limits.max);
    return limits;
}

enum status fpe_new(enum fpe_algorithm algorithm, struct bytes key, struct fpe **ret_fpe)
{
    uint8_t turned[KEY_MAX];
    ASSERT(key.len == 16 || key.len == 24 || key.len == 32);
    const EVP_CIPHER *cipher = key.len == 16   ? EVP_aes_128_ecb()
                               : key.len == 24 ? EVP_aes_192_ecb()
                                               : EVP_aes_256_ecb();
    struct fpe *fpe = mem_zalloc(sizeof *fpe);
    if (fpe == NULL)
        return ST_NOMEM;
    fpe->algorithm = algorithm;
    fpe->aes = EVP_CIPHER_CTX_new();
    for (size_t i = 0; i < key.len; i++) /* FF3 uses the key in the order of REVB */
        turned[i] = key.data[algorithm == FPE_FF1 ? i : key.len - 1 - i];
    bool good = fpe->aes != NULL && EVP_EncryptInit_ex(fpe->aes, cipher, NULL, turned, NULL) == 1 &&
                EVP_CIPHER_CTX_set_padding(fpe->aes, 0) == 1;
    OPENSSL_cleanse(turned, sizeof turned);
    if (!good) {
        fpe_free(fpe);
        return ST_CRYPTO;
    }
    *ret_fpe = fpe;
    return ST_OK;
}

void fpe_free(struct fpe *fpe)
{
    if (fpe == NULL)
        return;
    EVP_CIPHER_CTX_free(fpe->aes); /* also clears the key schedule */
    mem_free(fpe);
}

bool fpe_takes_tweak(enum fpe_algorithm algorithm, size_t bytes)
{
    return algorithm == FPE_FF1 ? bytes <= FPE_TWEAK_MAX : bytes == FPE_TWEAK_BYTES;
}

enum status fpe_blocks(struct fpe *fpe, const uint8_t *in, size_t n, uint8_t *out)
{
    int written = 0;
    ASSERT(n != 0 && n % FPE_BLOCK == 0 && n <= 4096);
    return EVP_EncryptUpdate(fpe->aes, out, &written, in, (int)n) == 1 && (size_t)written == n
               ? ST_OK
               : ST_CRYPTO;
}

static enum status run(struct fpe *fpe, struct bytes tweak, const struct fpe_job *job)
{
    struct fpe_limits limits = fpe_limits(fpe->algorithm, job->radix);
    ASSERT(job->n >= limits.min && job->n <= limits.max);
    ASSERT(fpe_takes_tweak(fpe->algorithm, tweak.len));
    for (unsigned i = 0; i < job->n; i++)
        ASSERT(job->numerals[i] < job->radix);
    return fpe->algorithm == FPE_FF1 ? fpe_ff1_run(fpe, tweak, job) : fpe_ff31_run(fpe, tweak, job);
}

enum status fpe_encrypt(struct fpe *fpe, unsigned radix, struct bytes tweak, uint16_t *numerals,
                        size_t n)
{
    ASSERT(n <= FPE_NUMERALS_MAX);
    return run(fpe, tweak, &(struct fpe_job){radix, numerals, (unsigned)n, false});
}

enum status fpe_decrypt(struct fpe *fpe, unsigned radix, struct bytes tweak, uint16_t *numerals,
                        size_t n)
{
    ASSERT(n <= FPE_NUMERALS_MAX);
    return run(fpe, tweak, &(struct fpe_job){radix, numerals, (unsigned)n, true});
}

struct fpe_modulus fpe_modulus_of(unsigned radix, unsigned n)
{
    struct fpe_modulus modulus = {.m = 1};
    for (unsigned i = 0; i < n; i++) {
        modulus.m *= radix;
        ASSERT(modulus.m <= (fpe_wide)1 << FPE_NARROW_BITS);
    }
    ASSERT(modulus.m >= 2);
    modulus.inverse = ~(fpe_wide)0 / modulus.m;
    return modulus;
}

/* The upper 128 bits of the product. */
static fpe_wide multiply_high(fpe_wide a, fpe_wide b)
{
    uint64_t a0 = (uint64_t)a, a1 = (uint64_t)(a >> 64);
    uint64_t b0 = (uint64_t)b, b1 = (uint64_t)(b >> 64);
    fpe_wide low = (fpe_wide)a0 * b0, middle = (fpe_wide)a1 * b0, other = (fpe_wide)a0 * b1;
    fpe_wide carry = (low >> 64) + (uint64_t)middle + (uint64_t)other;
    return (fpe_wide)a1 * b1 + (middle >> 64) + (other >> 64) + (carry >> 64);
}

/* All ones if a >= b; both below 2^127. */
static fpe_wide mask_not_below(fpe_wide a, fpe_wide b)
{
    return ((a - b) >> 127) - 1;
}

/* Barrett: the estimate of the quotient is at most one too small, because the inverse is less than
 * 2^128 / m by at most 1, and y is below 2^128. */
fpe_wide fpe_reduce(const struct fpe_modulus *modulus, fpe_wide y)
{
    fpe_wide left = y - multiply_high(y, modulus->inverse) * modulus->m;
    return left - (modulus->m & mask_not_below(left, modulus->m));
}

fpe_wide fpe_add(const struct fpe_modulus *modulus, fpe_wide a, fpe_wide b)
{
    fpe_wide sum = a + b;
    return sum - (modulus->m & mask_not_below(sum, modulus->m));
}

fpe_wide fpe_subtract(const struct fpe_modulus *modulus, fpe_wide a, fpe_wide b)
{
    return a - b + (modulus->m & ~mask_not_below(a, b));
}

uint16_t fpe_split(fpe_wide *number, unsigned radix)
{
    uint64_t rest = 0;
    fpe_wide quotient = 0;
    for (int shift = 64; shift >= 0; shift -= 32) {
        uint64_t part = rest << 32 | (uint32_t)(*number >> shift);
        quotient |= (fpe_wide)(part / radix) << shift;
        rest = part % radix;
    }
    *number = quotient;
    return (uint16_t)rest;
}
