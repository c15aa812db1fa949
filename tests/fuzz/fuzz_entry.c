/* Entries and transactions from elsewhere: the check never crashes, and what it accepts applies. */
#include "raft/txn/rlog_describe.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(void *ctx, enum rlog_touch kind, struct bytes key)
{
    size_t *bytes = ctx;
    (void)kind;
    *bytes += key.len;
}

static void line(void *ctx, const char *text)
{
    *(size_t *)ctx += text[0] != '\0';
}

static void apply(struct bytes entry)
{
    struct rlog_machine m = {0};
    if (store_new(NULL, &m.store) != ST_OK)
        abort();
    rlog_machine_apply(&m, 1, entry, NULL, NULL);
    rlog_machine_apply(&m, 2, entry, NULL, NULL); /* again, onto what it left */
    store_free(m.store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    struct rlog_entry_header header;
    size_t touched = 0, n_lines = 0;
    const struct rlog_lines lines = {line, &n_lines};

    rlog_entry_describe(input, &lines);
    if (n_lines == 0)
        abort();
    bool peeked = rlog_entry_peek(input, &header) == ST_OK;
    if (rlog_entry_check(input) == ST_OK) {
        if (!peeked)
            abort();
        apply(input);
    }
    if (rlog_txn_check(input) == ST_OK) {
        CLEANUP(buf_done) struct buf entry = {0};
        rlog_txn_touch_needs(input, touch, &touched);
        rlog_txn_touch_ops(input, touch, &touched);
        if (touched > size ||
            rlog_entry_encode(RLOG_FEATURE_FIRST, 1, &input, 1, &entry) != ST_OK ||
            rlog_entry_check(buf_bytes(&entry)) != ST_OK)
            abort();
    }
    return 0;
}
