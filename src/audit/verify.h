/* Checking the hash chain (chain.h) of audit files, offline: `holdfast audit verify`. One thread.
 */
#ifndef HOLDFAST_AUDIT_VERIFY_H
#define HOLDFAST_AUDIT_VERIFY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { VERIFY_TIME_MAX = 32, VERIFY_HASH_LEN = 64 };

struct audit_verdict {
    const char *wrong; /* why the line at `file`, `line` does not fit; NULL: all lines fit */
    const char *file;  /* one of the given names */
    uint64_t line;     /* from 1 */
    bool goes_on; /* the line behind it follows the last line that fits: one line is in excess */
    /* The lines that fit, before the one that does not. `lines` 0: the others are not set. */
    uint64_t lines, first, last;     /* the count; the numbers of two */
    char begin[VERIFY_TIME_MAX + 1]; /* the time in the first line; "" if none is found */
    char end[VERIFY_TIME_MAX + 1];   /* the time in the last line */
    char last_hash[VERIFY_HASH_LEN + 1];
};

/* Check the lines of `n` files, in the order given. ST_OK with a verdict; ST_IO with a reason: a
 * file cannot be read; ST_NOMEM. */
NODISCARD enum status audit_verify(const char *const *files, size_t n,
                                   struct audit_verdict *ret_verdict, struct reason *why);

#endif
