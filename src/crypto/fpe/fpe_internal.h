/* Shared by the two algorithms: a block of AES, and numbers of up to 128 bits. */
#ifndef HOLDFAST_CRYPTO_FPE_FPE_INTERNAL_H
#define HOLDFAST_CRYPTO_FPE_FPE_INTERNAL_H

#include "crypto/fpe/fpe.h"

enum { FPE_BLOCK = 16, FPE_NARROW_BITS = 96, FPE_LONG_BITS = 4096 };

typedef unsigned __int128 fpe_wide;

/* A modulus of 2 to 2^96, and floor((2^128 - 1) / modulus). */
struct fpe_modulus {
    fpe_wide m, inverse;
};

/* One value under way. */
struct fpe_job {
    unsigned radix;
    uint16_t *numerals;
    unsigned n;
    bool decrypt;
};

/* Encrypt `n` bytes, a multiple of FPE_BLOCK, block by block. Input and output may be the same. */
NODISCARD enum status fpe_blocks(struct fpe *fpe, const uint8_t *in, size_t n, uint8_t *out);

/* radix^n, which is at most 2^96. */
struct fpe_modulus fpe_modulus_of(unsigned radix, unsigned n);
/* y mod modulus, (a + b) mod modulus and (a - b) mod modulus in constant time; a and b are below
 * the modulus. */
fpe_wide fpe_reduce(const struct fpe_modulus *modulus, fpe_wide y);
fpe_wide fpe_add(const struct fpe_modulus *modulus, fpe_wide a, fpe_wide b);
fpe_wide fpe_subtract(const struct fpe_modulus *modulus, fpe_wide a, fpe_wide b);
/* Split the least numeral off a number below 2^96. */
uint16_t fpe_split(fpe_wide *number, unsigned radix);

static inline fpe_wide fpe_wide_get(const uint8_t *p, size_t n) /* big-endian */
{
    fpe_wide v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static inline void fpe_wide_put(uint8_t *p, size_t n, fpe_wide v) /* big-endian */
{
    for (size_t i = n; i > 0; i--, v >>= 8)
        p[i - 1] = (uint8_t)v;
}

/* FF3 and FF3-1 differ only in how a tweak gives the two halves, of four bytes each. */
NODISCARD enum status fpe_ff3_run(struct fpe *fpe, const uint8_t halves[2][4],
                                  const struct fpe_job *job);
NODISCARD enum status fpe_ff31_run(struct fpe *fpe, struct bytes tweak, const struct fpe_job *job);
NODISCARD enum status fpe_ff1_run(struct fpe *fpe, struct bytes tweak, const struct fpe_job *job);

#endif
