/* FF1 (SP 800-38G Rev. 1 draft, 5.1).
 *
 * The first numeral is the most significant one. Where a half has at most 96 bits, the number that
 * a round adds has at most 128 bits, and the halves stay numbers over all rounds. Longer halves
 * stay numerals: a round makes the bytes of one half, takes the last numerals of the number that it
 * adds, and adds them numeral by numeral, so no long modulus is needed. */
#include "crypto/fpe/fpe_internal.h"

#include <openssl/crypto.h>

enum {
    ROUNDS = 10,
    NUMBER_MAX = FPE_LONG_BITS / 8, /* bytes of a half's number */
    EXPANDED_MAX = NUMBER_MAX + 4 + FPE_BLOCK,
    LIMBS_MAX = EXPANDED_MAX / 4,
    MESSAGE_MAX = FPE_TWEAK_MAX + FPE_BLOCK + NUMBER_MAX + FPE_BLOCK,
};

/* Everything that all rounds of a value share. */
struct ff1 {
    struct fpe *fpe;
    const struct fpe_job *job;
    unsigned u, v;
    unsigned number_bytes;    /* b of the standard */
    unsigned expanded_bytes;  /* d */
    unsigned message_bytes;   /* of Q */
    uint8_t first[FPE_BLOCK]; /* AES of P */
    uint8_t message[MESSAGE_MAX];
    uint8_t expanded[EXPANDED_MAX];
};

/* The bytes of radix^n - 1. */
static unsigned bytes_of_power(unsigned radix, unsigned n)
{
    uint32_t limbs[LIMBS_MAX] = {1};
    unsigned used = 1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (unsigned k = 0; k < used; k++) {
            carry += (uint64_t)limbs[k] * radix;
            limbs[k] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry != 0)
            limbs[used++] = (uint32_t)carry;
        ASSERT(used < LIMBS_MAX);
    }
    for (unsigned k = 0; k < used && limbs[k]-- == 0; k++) /* minus 1, with borrow */
        ;
    unsigned bytes = 4 * used;
    while (bytes > 0 && (limbs[(bytes - 1) / 4] >> 8 * ((bytes - 1) % 4) & 0xff) == 0)
        bytes--;
    return bytes;
}

static enum status ff1_prepare(struct ff1 *f, struct bytes tweak)
{
    const struct fpe_job *job = f->job;
    uint8_t p[FPE_BLOCK] = {1, 2, 1};
    f->u = job->n / 2;
    f->v = job->n - f->u;
    f->number_bytes = bytes_of_power(job->radix, f->v);
    f->expanded_bytes = (f->number_bytes + 3) / 4 * 4 + 4;
    f->message_bytes = (unsigned)(tweak.len + f->number_bytes + FPE_BLOCK) / FPE_BLOCK * FPE_BLOCK;
    ASSERT(f->message_bytes <= MESSAGE_MAX && f->expanded_bytes <= NUMBER_MAX + 4);
    fpe_wide_put(p + 3, 3, job->radix);
    p[6] = ROUNDS;
    p[7] = (uint8_t)f->u;
    fpe_wide_put(p + 8, 4, job->n);
    fpe_wide_put(p + 12, 4, tweak.len);
    (void)bytes_put(f->message, tweak);
    return fpe_blocks(f->fpe, p, FPE_BLOCK, f->first);
}

/* The bytes of S for round `i`; the number of the other half lies in the message already. */
static enum status expand(struct ff1 *f, unsigned i)
{
    uint8_t mac[FPE_BLOCK], block[FPE_BLOCK];
    f->message[f->message_bytes - f->number_bytes - 1] = (uint8_t)i;
    memcpy(mac, f->first, sizeof mac);
    for (unsigned at = 0; at < f->message_bytes; at += FPE_BLOCK) {
        for (unsigned k = 0; k < FPE_BLOCK; k++)
            mac[k] ^= f->message[at + k];
        TRY(fpe_blocks(f->fpe, mac, FPE_BLOCK, mac));
    }
    memcpy(f->expanded, mac, sizeof mac);
    for (unsigned n = 1; n * FPE_BLOCK < f->expanded_bytes; n++) {
        memcpy(block, mac, sizeof block);
        block[FPE_BLOCK - 1] ^= (uint8_t)n;
        TRY(fpe_blocks(f->fpe, block, FPE_BLOCK, f->expanded + n * FPE_BLOCK));
    }
    return ST_OK;
}

static uint8_t *number_in_message(struct ff1 *f)
{
    return f->message + f->message_bytes - f->number_bytes;
}

static fpe_wide number_of(const uint16_t *numerals, unsigned n, unsigned radix)
{
    fpe_wide v = 0;
    for (unsigned i = 0; i < n; i++)
        v = v * radix + numerals[i];
    return v;
}

static void numerals_of(fpe_wide v, uint16_t *numerals, unsigned n, unsigned radix)
{
    for (unsigned i = n; i > 0; i--)
        numerals[i - 1] = fpe_split(&v, radix);
    ASSERT(v == 0);
}

static enum status run_narrow(struct ff1 *f)
{
    const struct fpe_job *job = f->job;
    const struct fpe_modulus moduli[2] = {fpe_modulus_of(job->radix, f->u),
                                          fpe_modulus_of(job->radix, f->v)};
    fpe_wide parts[2] = {number_of(job->numerals, f->u, job->radix),
                         number_of(job->numerals + f->u, f->v, job->radix)};
    for (unsigned step = 0; step < ROUNDS; step++) {
        unsigned i = job->decrypt ? ROUNDS - 1 - step : step, part = i % 2;
        const struct fpe_modulus *modulus = &moduli[part];
        fpe_wide_put(number_in_message(f), f->number_bytes, parts[1 - part]);
        TRY(expand(f, i));
        fpe_wide y = fpe_reduce(modulus, fpe_wide_get(f->expanded, f->expanded_bytes));
        parts[part] =
            job->decrypt ? fpe_subtract(modulus, parts[part], y) : fpe_add(modulus, parts[part], y);
    }
    numerals_of(parts[0], job->numerals, f->u, job->radix);
    numerals_of(parts[1], job->numerals + f->u, f->v, job->radix);
    return ST_OK;
}

/* How many numerals one step of the long numbers takes, and radix to that power, below 2^32. */
struct step {
    unsigned n;
    uint32_t power;
};

static struct step step_of(unsigned radix, unsigned most)
{
    struct step step = {0, 1};
    while (step.n < most && (uint64_t)step.power * radix <= UINT32_MAX) {
        step.power *= radix;
        step.n++;
    }
    return step;
}

/* Write the number of the numerals as `bytes` bytes, big-endian. */
static void long_number(const uint16_t *numerals, unsigned n, unsigned radix, uint8_t *to,
                        unsigned bytes)
{
    uint32_t limbs[LIMBS_MAX] = {0};
    unsigned used = (bytes + 3) / 4;
    for (unsigned i = 0; i < n;) {
        struct step step = step_of(radix, n - i);
        uint64_t carry = 0;
        for (unsigned end = i + step.n; i < end; i++)
            carry = carry * radix + numerals[i];
        for (unsigned k = 0; k < used; k++) {
            carry += (uint64_t)limbs[k] * step.power;
            limbs[k] = (uint32_t)carry;
            carry >>= 32;
        }
        ASSERT(carry == 0);
    }
    for (unsigned i = 0; i < bytes; i++)
        to[bytes - 1 - i] = (uint8_t)(limbs[i / 4] >> 8 * (i % 4));
    OPENSSL_cleanse(limbs, sizeof limbs);
}

/* Divide a number, whose most significant limb is the first. Returns the remainder. */
static uint32_t divide(uint32_t *limbs, unsigned used, uint32_t by)
{
    uint64_t rest = 0;
    for (unsigned k = 0; k < used; k++) {
        rest = rest << 32 | limbs[k];
        limbs[k] = (uint32_t)(rest / by);
        rest %= by;
    }
    return (uint32_t)rest;
}

/* Add or subtract the number in f->expanded, modulo radix^n: only its last n numerals count. */
static void long_add(struct ff1 *f, uint16_t *numerals, unsigned n)
{
    const struct fpe_job *job = f->job;
    uint32_t limbs[LIMBS_MAX] = {0};
    unsigned used = f->expanded_bytes / 4;
    uint32_t radix = job->radix, carry = 0;
    for (unsigned k = 0; k < used; k++)
        limbs[k] = (uint32_t)fpe_wide_get(f->expanded + 4 * k, 4);
    for (unsigned i = n; i > 0;) {
        struct step step = step_of(radix, i);
        uint32_t part = divide(limbs, used, step.power);
        for (unsigned end = i - step.n; i > end; i--, part /= radix) {
            /* the sum is 0 to 2 * radix - 1, of a difference after radix was added */
            uint32_t own = numerals[i - 1], other = part % radix;
            uint32_t sum = job->decrypt ? radix + own - other - carry : own + other + carry;
            uint32_t reached = 1 - ((sum - radix) >> 31);
            numerals[i - 1] = (uint16_t)(sum - (radix & (0 - reached)));
            carry = job->decrypt ? 1 - reached : reached;
        }
    }
    OPENSSL_cleanse(limbs, sizeof limbs);
}

static enum status run_long(struct ff1 *f)
{
    const struct fpe_job *job = f->job;
    uint16_t *parts[2] = {job->numerals, job->numerals + f->u};
    const unsigned lens[2] = {f->u, f->v};
    for (unsigned step = 0; step < ROUNDS; step++) {
        unsigned i = job->decrypt ? ROUNDS - 1 - step : step, part = i % 2;
        long_number(parts[1 - part], lens[1 - part], job->radix, number_in_message(f),
                    f->number_bytes);
        TRY(expand(f, i));
        long_add(f, parts[part], lens[part]);
    }
    return ST_OK;
}

enum status fpe_ff1_run(struct fpe *fpe, struct bytes tweak, const struct fpe_job *job)
{
    struct ff1 f = {.fpe = fpe, .job = job};
    enum status st = ff1_prepare(&f, tweak);
    if (st == ST_OK)
        st = f.number_bytes <= FPE_NARROW_BITS / 8 ? run_narrow(&f) : run_long(&f);
    OPENSSL_cleanse(&f, sizeof f);
    return st;
}
