/* Lists of a difference sync, of another process: questions and wants on a primary, answers on a
 * secondary. The first byte chooses. The states are small and always the same. */
#include "base/mem.h"
#include "cluster/dr/diff/dr_diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_QUESTION, AS_WANT, AS_ANSWER, KINDS };

static struct store *make_store(bool other)
{
    static const char *const keys[] = {"s/",    "s/a",   "s/a/1", "s/a/2", "s/ab",
                                       "s/b/1", "s/b/2", "s/c",   "s/c/1"};
    struct store *store = NULL;
    ASSERT(store_new(NULL, &store) == ST_OK);
    for (size_t i = other; i < ARRAY_LEN(keys) - other; i++)
        store_put(store, bytes_str(keys[i]), other && i % 3 == 0 ? BYTES("y") : BYTES("x"), i);
    store_publish(store, 20);
    return store;
}

static enum status count(void *ctx, struct bytes nodes)
{
    ASSERT(nodes.len > 0);
    (*(size_t *)ctx)++;
    return ST_OK;
}

static void as_question(const struct store_pin *pin, struct bytes list)
{
    size_t n = 0;
    enum status st = dr_diff_answer(pin, 3, list, count, &n);
    ASSERT(st == ST_INVALID || (st == ST_OK && n > 0));
}

static void as_want(const struct store_pin *pin, struct bytes list)
{
    struct dr_diff_parts parts = {0};
    (void)pin;
    if (dr_diff_parts_add(&parts, list) == ST_OK) {
        ASSERT(dr_diff_parts_end(&parts) == ST_OK);
        for (size_t i = 1; i < parts.n; i++)
            ASSERT(bytes_cmp(parts.parts[i - 1].at, parts.parts[i].at) < 0);
    }
    dr_diff_parts_done(&parts);
}

/* The input is cut into answers by its own bytes. */
static void as_answer(const struct store_pin *pin, struct bytes list)
{
    const struct dr_diff_input in = {pin, 20, 3, NULL, NULL};
    CLEANUP(buf_done) struct buf out = {0};
    struct dr_diff *diff = NULL;
    bool last = false;
    enum status st = dr_diff_new(&in, &diff);
    ASSERT(st == ST_OK);
    while (st == ST_OK && list.len > 1 && dr_diff_ask(diff, &out)) {
        while (st == ST_OK && list.len > 1 && dr_diff_waits(diff)) {
            size_t n = MIN((size_t)list.data[0], list.len - 1);
            st = dr_diff_take(diff, bytes_of(list.data + 1, n));
            list = bytes_from(list, n + 1);
        }
        if (dr_diff_waits(diff))
            st = ST_INVALID;
    }
    if (st == ST_OK && !dr_diff_ask(diff, &out)) {
        while (!last)
            ASSERT(dr_diff_want(diff, &out, &last) == ST_OK);
        ASSERT(dr_diff_end(diff) == ST_OK);
    }
    dr_diff_free(diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const as[KINDS])(const struct store_pin *, struct bytes) = {
        as_question, as_want, as_answer};
    struct store_pin pin;
    if (size == 0)
        return 0;
    struct store *store = make_store(data[0] % KINDS == AS_ANSWER);
    ASSERT(store_pin(store, "fuzz", 0, &pin) == ST_OK);
    as[data[0] % KINDS](&pin, bytes_of(data + 1, size - 1));
    store_unpin(&pin);
    store_free(store);
    return 0;
}
