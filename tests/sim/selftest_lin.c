#include "core.h"
#include "lin.h"
#include "selftest.h"

enum { STEPS = 2000000, SMALL = 6, LARGE = 400 };

static enum lin_verdict judge(const struct lin_op *ops, size_t n)
{
    struct lin_op copy[LARGE];
    size_t stuck;
    CHECK(n <= LARGE);
    memcpy(copy, ops, n * sizeof *ops);
    return lin_check(copy, n, STEPS, &stuck);
}

/* The definition itself: try every order of every subset that has all operations with an outcome.
 */
static bool brute(const struct lin_op *ops, size_t n, unsigned taken, uint64_t value)
{
    uint64_t first_ret = LIN_NEVER;
    for (size_t i = 0; i < n; i++)
        if ((taken >> i & 1) == 0)
            first_ret = MIN(first_ret, ops[i].ret);
    if (first_ret == LIN_NEVER)
        return true;
    for (size_t i = 0; i < n; i++) {
        if ((taken >> i & 1) != 0 || ops[i].call > first_ret)
            continue;
        const struct lin_op *op = &ops[i];
        bool fits = op->kind == LIN_READ     ? op->value == value
                    : op->kind == LIN_CAS    ? op->expect == value
                    : op->kind == LIN_DIFFER ? op->expect != value
                                             : true;
        bool writes = op->kind == LIN_WRITE || op->kind == LIN_CAS;
        if (fits && brute(ops, n, taken | 1u << i, writes ? op->value : value))
            return true;
    }
    return false;
}

static struct lin_op random_op(struct rng *r, uint64_t unique, uint64_t values)
{
    struct lin_op op = {.kind = (enum lin_kind)rng_below(r, 4), .call = rng_below(r, 30)};
    op.ret = op.call + 1 + rng_below(r, 10);
    op.expect = rng_below(r, values);
    op.value = op.kind == LIN_READ ? rng_below(r, values) : unique;
    if (op.kind != LIN_READ && rng_chance(r, 200))
        op.ret = LIN_NEVER;
    return op;
}

static void small_histories_agree_with_the_definition(void)
{
    struct rng r = rng_make(11, 0);
    unsigned good = 0, bad = 0;
    for (unsigned trial = 0; trial < 40000; trial++) {
        struct lin_op ops[SMALL];
        size_t n = rng_between(&r, 1, SMALL);
        bool doubtful = false;
        for (size_t i = 0; i < n; i++) {
            ops[i] = random_op(&r, i + 1, n + 1);
            doubtful = doubtful || (ops[i].ret == LIN_NEVER && ops[i].kind != LIN_DIFFER);
        }
        bool want = brute(ops, n, 0, 0), have = judge(ops, n) == LIN_GOOD;
        /* Beside an unseen write of unknown outcome a LIN_DIFFER is believed: never a false alarm
         */
        CHECK(want == have || (have && doubtful));
        good += have;
        bad += !have;
    }
    CHECK(good > 2000 && bad > 2000);
}

/* A real register used by several clients, each operation taking effect somewhere in its time. */
static size_t make_good(struct rng *r, struct lin_op *ops, size_t n)
{
    uint64_t free_at[5] = {0}, value = 0, now = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned)rng_below(r, 5);
        now = MAX(now, free_at[c]) + 1 + rng_below(r, 3); /* where it takes effect */
        struct lin_op op = {.client = c, .value = i + 1, .kind = (enum lin_kind)rng_below(r, 3)};
        op.call = now - rng_below(r, MIN(now - free_at[c], 8) + 1);
        op.ret = now + rng_below(r, 8);
        free_at[c] = op.ret + 1;
        if (op.kind == LIN_READ) {
            op.value = value;
        } else if (op.kind == LIN_CAS && value != 0 && rng_chance(r, 600)) {
            op.expect = value;
            value = op.value;
        } else if (op.kind == LIN_CAS) {
            op.kind = LIN_DIFFER;
            op.expect = n + 5;
        } else {
            value = op.value;
        }
        if (op.kind == LIN_WRITE && rng_chance(r, 50))
            op.ret = LIN_NEVER;
        ops[i] = op;
    }
    return n;
}

static void good_histories_pass(void)
{
    struct rng r = rng_make(12, 0);
    for (unsigned trial = 0; trial < 200; trial++) {
        struct lin_op ops[LARGE];
        size_t n = make_good(&r, ops, rng_between(&r, 1, LARGE));
        CHECK(judge(ops, n) == LIN_GOOD);
    }
}

/* Break a good history in a way that cannot be right; false when it offers no place. */
static bool spoil(struct rng *r, struct lin_op *ops, size_t n, unsigned how)
{
    size_t start = rng_below(r, n);
    for (size_t k = 0; k < n; k++) {
        struct lin_op *op = &ops[(start + k) % n];
        if (op->kind != LIN_READ)
            continue;
        if (how == 0) { /* a value nobody wrote */
            op->value = 100000;
            return true;
        }
        for (size_t w = 0; w < n; w++) { /* a value overwritten before the read began */
            const struct lin_op *old = &ops[w];
            if ((old->kind != LIN_WRITE && old->kind != LIN_CAS) || old->ret >= op->call)
                continue;
            for (size_t v = 0; v < n; v++)
                if (ops[v].kind == LIN_WRITE && ops[v].call > old->ret && ops[v].ret < op->call) {
                    op->value = how == 1 ? old->value : 0;
                    return true;
                }
        }
    }
    return false;
}

static void bad_histories_fail(void)
{
    struct rng r = rng_make(13, 0);
    unsigned spoilt = 0;
    for (unsigned trial = 0; trial < 300; trial++) {
        struct lin_op ops[LARGE];
        size_t n = make_good(&r, ops, rng_between(&r, 20, LARGE / 2));
        if (!spoil(&r, ops, n, trial % 3))
            continue;
        spoilt++;
        CHECK(judge(ops, n) == LIN_BAD);
    }
    CHECK(spoilt > 200);
}

static void two_swaps_of_one_value_are_refused(void)
{
    struct lin_op ops[] = {
        {.kind = LIN_WRITE, .call = 1, .ret = 2, .value = 1},
        {.kind = LIN_CAS, .call = 3, .ret = 9, .expect = 1, .value = 2},
        {.kind = LIN_CAS, .call = 3, .ret = 9, .expect = 1, .value = 3},
    };
    CHECK(judge(ops, 3) == LIN_BAD);
    ops[2].ret = LIN_NEVER;
    CHECK(judge(ops, 3) == LIN_GOOD);
}

static void a_write_applied_twice_is_refused(void)
{
    struct lin_op ops[] = {
        {.kind = LIN_WRITE, .call = 1, .ret = 20, .value = 1},
        {.kind = LIN_READ, .call = 2, .ret = 3, .value = 1},
        {.kind = LIN_WRITE, .call = 4, .ret = 5, .value = 2},
        {.kind = LIN_READ, .call = 6, .ret = 7, .value = 2},
        {.kind = LIN_READ, .call = 8, .ret = 9, .value = 1},
    };
    CHECK(judge(ops, 4) == LIN_GOOD && judge(ops, 5) == LIN_BAD);
}

unsigned selftest_lin(void)
{
    small_histories_agree_with_the_definition();
    good_histories_pass();
    bad_histories_fail();
    two_swaps_of_one_value_are_refused();
    a_write_applied_twice_is_refused();
    return 5;
}
