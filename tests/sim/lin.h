/* Is a history of one register linearizable?
 *
 * The search of Wing and Gong with Lowe's memory of visited states: pick an operation that may be
 * next, check it against the register, go on with the rest, go back when stuck. Keys are
 * independent (linearizability is local), so each is checked by itself. Every written value is
 * unique and not 0; 0 is the absent key. */
#ifndef HOLDFAST_SIM_LIN_H
#define HOLDFAST_SIM_LIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lin_kind {
    LIN_READ,   /* saw `value` */
    LIN_WRITE,  /* wrote `value` */
    LIN_CAS,    /* replaced `expect` by `value` */
    LIN_DIFFER, /* the reply: the register does not hold `expect` */
};

struct lin_op {
    enum lin_kind kind;
    uint64_t call, ret; /* LIN_NEVER: the outcome is unknown, it may take effect later or never */
    uint64_t value, expect;
    unsigned client; /* for reports */
};

#define LIN_NEVER UINT64_MAX

enum lin_verdict { LIN_GOOD, LIN_BAD, LIN_TOO_HARD };

/* `ops` in any order; it is sorted. At most `steps_max` states are visited, then LIN_TOO_HARD.
 * LIN_BAD sets *ret_stuck to the operation that no order explains. */
enum lin_verdict lin_check(struct lin_op *ops, size_t n, uint64_t steps_max, size_t *ret_stuck);

#endif
