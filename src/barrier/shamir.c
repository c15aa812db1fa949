#include "barrier/shamir.h"

#include "base/mem.h"

/* a · b modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, 4.2), without a branch or a
 * table look-up that depends on a or b. */
static uint8_t multiply(uint8_t a, uint8_t b)
{
    unsigned product = 0, left = a;
    for (unsigned i = 0; i < 8; i++) {
        product ^= left & (0U - ((unsigned)b >> i & 1U));
        left = (left << 1) ^ (0x11BU & (0U - (left >> 7 & 1U)));
    }
    return (uint8_t)product;
}

/* Invert in the field: a^254; 0 for 0. */
static uint8_t invert(uint8_t a)
{
    uint8_t result = 1, power = a;
    for (unsigned i = 0; i < 7; i++) {
        power = multiply(power, power);
        result = multiply(result, power);
    }
    return result;
}

/* The points 1..255 in random order, so that a share does not tell how many shares there are. */
static void choose_points(struct env *env, uint8_t points[SHAMIR_SHARES_MAX])
{
    for (unsigned i = 0; i < SHAMIR_SHARES_MAX; i++)
        points[i] = (uint8_t)(i + 1);
    for (unsigned i = SHAMIR_SHARES_MAX - 1; i > 0; i--) {
        uint8_t wide[8];
        env_random(env, wide, sizeof wide);
        unsigned j = (unsigned)(le64_get(wide) % (i + 1));
        uint8_t kept = points[i];
        points[i] = points[j];
        points[j] = kept;
    }
}

void shamir_split(struct env *env, struct bytes secret, unsigned n, unsigned threshold,
                  uint8_t *ret_shares)
{
    uint8_t points[SHAMIR_SHARES_MAX], terms[SHAMIR_SHARES_MAX];
    size_t share_bytes = secret.len + 1;

    ASSERT(secret.len > 0 && secret.len <= SHAMIR_BYTES_MAX);
    ASSERT(threshold >= 2 && threshold <= n && n <= SHAMIR_SHARES_MAX);
    choose_points(env, points);
    for (unsigned i = 0; i < n; i++)
        ret_shares[i * share_bytes + secret.len] = points[i];
    for (size_t at = 0; at < secret.len; at++) {
        terms[0] = secret.data[at];
        env_random(env, terms + 1, threshold - 1);
        for (unsigned i = 0; i < n; i++) {
            uint8_t value = 0;
            for (unsigned k = threshold; k-- > 0;)
                value = (uint8_t)(multiply(value, points[i]) ^ terms[k]);
            ret_shares[i * share_bytes + at] = value;
        }
    }
    mem_wipe(terms, sizeof terms);
}

static enum status check_points(const uint8_t *shares, unsigned n, size_t share_bytes)
{
    bool seen[SHAMIR_SHARES_MAX + 1] = {true};
    for (unsigned i = 0; i < n; i++) {
        uint8_t point = shares[(i + 1) * share_bytes - 1];
        if (seen[point])
            return ST_INVALID;
        seen[point] = true;
    }
    return ST_OK;
}

/* The factor of share `i` in the value at 0 (Lagrange). */
static uint8_t weight(const uint8_t *shares, unsigned n, size_t share_bytes, unsigned i)
{
    uint8_t own = shares[(i + 1) * share_bytes - 1], above = 1, below = 1;
    for (unsigned j = 0; j < n; j++) {
        uint8_t other = shares[(j + 1) * share_bytes - 1];
        if (j == i)
            continue;
        above = multiply(above, other);
        below = multiply(below, own ^ other);
    }
    ASSERT(below != 0); /* no two shares have the same point */
    return multiply(above, invert(below));
}

enum status shamir_combine(const uint8_t *shares, unsigned n, size_t share_bytes,
                           uint8_t *ret_secret)
{
    ASSERT(n >= 2 && n <= SHAMIR_SHARES_MAX);
    ASSERT(share_bytes >= 2 && share_bytes <= SHAMIR_BYTES_MAX + 1);
    TRY(check_points(shares, n, share_bytes));
    memset(ret_secret, 0, share_bytes - 1);
    for (unsigned i = 0; i < n; i++) {
        uint8_t part = weight(shares, n, share_bytes, i);
        for (size_t at = 0; at + 1 < share_bytes; at++)
            ret_secret[at] ^= multiply(shares[i * share_bytes + at], part);
    }
    return ST_OK;
}
