/* One transformation, ready to use: pattern compiled, alphabet indexed, key set. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_VALUE_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_VALUE_H

#include "api/transform/transform_record.h"
#include "base/buf.h"
#include "text/regex.h"

struct transform_tokens;

enum {
    TRANSFORM_STEPS_MAX = 16 * 1024 * 1024, /* of matching, in one request: below 0.3 s */
    TRANSFORM_PROGRAMS_MAX = 64 * 1024,     /* instructions of the patterns of one request */
    TRANSFORM_SYMBOLS_MAX = 256 * 1024,     /* symbols of the alphabets of one request */
};

/* An alphabet, indexed once for all transformations of a request. */
struct transform_symbols {
    const char *name;
    /* The symbols in order, and, for look-ups, runes with their numerals, sorted by rune. */
    const uint32_t *symbols;
    const uint64_t *by_rune;
    unsigned radix;
    const struct transform_symbols *next;
};

/* The costs of one request, in time of its worker and in memory. */
struct transform_cost {
    size_t steps;    /* bytes of values times the sizes of the programs that match them */
    size_t programs; /* sizes of the programs that were compiled */
    size_t symbols;  /* of the alphabets */
    const struct transform_symbols *alphabets;
};

struct transform_shape {
    struct transform_transformation transformation;
    struct transform_template template;
    struct transform_secret secret;
    enum fpe_algorithm algorithm;
    struct regex *regex;
    struct fpe *fpe;                          /* NULL: masking or tokenization */
    const struct transform_symbols *alphabet; /* of fpe */
    struct transform_tokens *tokens;          /* NULL: no tokenization */
    struct req_cleanup cleanup;
};

/* Load the transformation with everything that it needs. It is freed when the transaction ends.
 * ST_INVALID with the request's error: template or alphabet is missing, or cannot be used; the
 * request has cost enough. */
NODISCARD enum status transform_shape_load(struct req *req, const char *name,
                                           struct transform_cost *cost,
                                           struct transform_shape **ret_shape);

/* Count a match of the value. ST_INVALID with the reason: the request has cost enough. */
NODISCARD enum status transform_charge(struct transform_cost *cost,
                                       const struct transform_shape *shape, size_t value_bytes,
                                       struct reason *why);

/* A value that was encoded or decoded. */
struct transform_made {
    struct buf text;
    bool is_lost; /* an encoded value that the pattern does not take again: it cannot be decoded */
};

static inline void transform_made_done(struct transform_made *made)
{
    buf_done(&made->text);
}

/* Encode or decode `value` into `made`, which is empty. `tweak` fits the algorithm; ignored by
 * masking. `format` NULL: the text around the groups stays. ST_INVALID with the reason; ST_NOMEM,
 * ST_CRYPTO. */
NODISCARD enum status transform_value(const struct transform_shape *shape, struct bytes value,
                                      struct bytes tweak, bool decode, const char *format,
                                      struct transform_made *made, struct reason *why);

#endif
