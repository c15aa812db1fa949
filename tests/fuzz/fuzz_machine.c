/* Snapshot content from elsewhere: loading never crashes, and what loads is dumped again as a state
 * that loads to the same dump. */
#include "raft/txn/rlog_txn.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status collect(void *ctx, struct bytes content)
{
    buf_add(ctx, content);
    return buf_status(ctx);
}

static enum status load(struct rlog_machine *m, struct bytes content, size_t piece)
{
    struct rlog_machine_load *l = NULL;
    if (rlog_machine_load_begin(m, &l) != ST_OK)
        abort();
    for (size_t at = 0; at < content.len; at += piece) {
        struct bytes part = bytes_from(content, at);
        part.len = MIN(part.len, piece);
        if (rlog_machine_load_piece(l, part) != ST_OK)
            break;
    }
    return rlog_machine_load_end(l);
}

static void dump(struct rlog_machine *m, struct buf *out)
{
    struct rlog_machine_dump d;
    if (rlog_machine_dump_begin(m, &d) != ST_OK || rlog_machine_dump_run(&d, collect, out) != ST_OK)
        abort();
    rlog_machine_dump_end(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    struct rlog_machine m = {0};
    CLEANUP(buf_done) struct buf first = {0}, second = {0};

    if (store_new(NULL, &m.store) != ST_OK)
        abort();
    if (load(&m, input, 17) == ST_OK) {
        dump(&m, &first);
        if (load(&m, buf_bytes(&first), 1000) != ST_OK)
            abort();
        dump(&m, &second);
        if (!bytes_eq(buf_bytes(&first), buf_bytes(&second)))
            abort();
    }
    store_free(m.store);
    return 0;
}
