/* Format-preserving encryption: FF3-1 and FF1 (SP 800-38G Rev. 1, draft of 2019) with AES and a
 * kept cipher context. A value is a list of numerals below the radix; its encryption is another
 * list of the same length.
 *
 * 1. What runs does not depend on the key or the tweak, only on algorithm, radix and length: no
 *    branch and no look-up uses a secret. Divisions that make the numerals of a result do work on
 *    that result.
 * 2. FPE has no integrity: another key or tweak gives another value, never an error.
 *
 * One struct by one thread at a time. */
#ifndef HOLDFAST_CRYPTO_FPE_FPE_H
#define HOLDFAST_CRYPTO_FPE_FPE_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    FPE_RADIX_MIN = 2,
    FPE_RADIX_MAX = 65536,
    FPE_NUMERALS_MAX = 2048, /* of a value of any radix and algorithm */
    FPE_TWEAK_BYTES = 7,     /* of FF3-1 */
    FPE_TWEAK_MAX = 128,     /* of FF1; 0 is allowed */
};

enum fpe_algorithm { FPE_FF3_1, FPE_FF1 };

struct fpe;

/* The least and the greatest length of a value. The least is the least n with radix^n >= 1,000,000
 * (5.1, 5.2). The greatest is 2 * floor(log_radix(2^96)) for FF3-1 (5.2). FF1 allows any length;
 * ours ends at 2 * floor(log_radix(2^4096)), and at FPE_NUMERALS_MAX. */
struct fpe_limits {
    unsigned min, max;
};
struct fpe_limits fpe_limits(enum fpe_algorithm algorithm, unsigned radix);

/* `key` has 16, 24 or 32 bytes and is not kept by reference. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status fpe_new(enum fpe_algorithm algorithm, struct bytes key, struct fpe **ret_fpe);
void fpe_free(struct fpe *fpe); /* wipes the key schedule; NULL is allowed */

/* Whether a tweak of this length fits the algorithm. */
bool fpe_takes_tweak(enum fpe_algorithm algorithm, size_t bytes);

/* Encrypt or decrypt in place `n` numerals below `radix`. `n` lies within fpe_limits, the tweak
 * fits (fpe_takes_tweak). ST_CRYPTO. */
NODISCARD enum status fpe_encrypt(struct fpe *fpe, unsigned radix, struct bytes tweak,
                                  uint16_t *numerals, size_t n);
NODISCARD enum status fpe_decrypt(struct fpe *fpe, unsigned radix, struct bytes tweak,
                                  uint16_t *numerals, size_t n);

#endif
