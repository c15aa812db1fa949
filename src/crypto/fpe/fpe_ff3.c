/* FF3-1 (SP 800-38G Rev. 1 draft, 5.2).
 *
 * The standard reverses the numerals before it takes their number, so the first numeral is the
 * least significant one: the halves stay numbers over all rounds, and no numerals are reversed. */
#include "crypto/fpe/fpe_internal.h"

#include <openssl/crypto.h>

enum { ROUNDS = 8, WORD = 4, NUMBER = 12 };

static fpe_wide number_of(const uint16_t *numerals, unsigned n, unsigned radix)
{
    fpe_wide v = 0;
    for (unsigned i = n; i > 0; i--)
        v = v * radix + numerals[i - 1];
    return v;
}

static void numerals_of(fpe_wide v, uint16_t *numerals, unsigned n, unsigned radix)
{
    for (unsigned i = 0; i < n; i++)
        numerals[i] = fpe_split(&v, radix);
    ASSERT(v == 0);
}

/* The number that a round adds: of the block W xor i, then the number of the other half, all bytes
 * reversed before and after AES. */
static enum status round_number(struct fpe *fpe, const uint8_t half[WORD], unsigned i,
                                fpe_wide number, fpe_wide *ret_y)
{
    uint8_t p[FPE_BLOCK], turned[FPE_BLOCK];
    memcpy(p, half, WORD);
    p[WORD - 1] ^= (uint8_t)i;
    fpe_wide_put(p + WORD, NUMBER, number);
    for (unsigned k = 0; k < FPE_BLOCK; k++)
        turned[k] = p[FPE_BLOCK - 1 - k];
    TRY(fpe_blocks(fpe, turned, FPE_BLOCK, p));
    fpe_wide y = 0;
    for (unsigned k = FPE_BLOCK; k > 0; k--)
        y = y << 8 | p[k - 1];
    *ret_y = y;
    return ST_OK;
}

enum status fpe_ff3_run(struct fpe *fpe, const uint8_t halves[2][WORD], const struct fpe_job *job)
{
    unsigned u = (job->n + 1) / 2, v = job->n - u;
    const struct fpe_modulus moduli[2] = {fpe_modulus_of(job->radix, u),
                                          fpe_modulus_of(job->radix, v)};
    /* parts[0] has u numerals and changes in even rounds, with the right half of the tweak */
    fpe_wide parts[2] = {number_of(job->numerals, u, job->radix),
                         number_of(job->numerals + u, v, job->radix)};
    for (unsigned step = 0; step < ROUNDS; step++) {
        unsigned i = job->decrypt ? ROUNDS - 1 - step : step, part = i % 2;
        const struct fpe_modulus *modulus = &moduli[part];
        fpe_wide y;
        TRY(round_number(fpe, halves[1 - part], i, parts[1 - part], &y));
        y = fpe_reduce(modulus, y);
        parts[part] =
            job->decrypt ? fpe_subtract(modulus, parts[part], y) : fpe_add(modulus, parts[part], y);
    }
    numerals_of(parts[0], job->numerals, u, job->radix);
    numerals_of(parts[1], job->numerals + u, v, job->radix);
    return ST_OK;
}

enum status fpe_ff31_run(struct fpe *fpe, struct bytes tweak, const struct fpe_job *job)
{
    const uint8_t *t = tweak.data;
    ASSERT(tweak.len == FPE_TWEAK_BYTES);
    const uint8_t halves[2][WORD] = {{t[0], t[1], t[2], t[3] & 0xf0},
                                     {t[4], t[5], t[6], (uint8_t)(t[3] << 4)}};
    return fpe_ff3_run(fpe, halves, job);
}
