/* Runs of the WAL from elsewhere: the check never crashes. What it accepts, a cluster that follows
 * applies once, and has in its own ring as it came. */
#include "raft/txn/rlog_wal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static enum status collect(void *ctx, struct bytes content)
{
    buf_add(ctx, content);
    return buf_status(ctx);
}

static void dump(struct rlog_machine *m, struct buf *out)
{
    struct rlog_machine_dump d;
    must(rlog_machine_dump_begin(m, &d) == ST_OK);
    must(rlog_machine_dump_run(&d, collect, out) == ST_OK);
    rlog_machine_dump_end(&d);
}

static void on_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    (void)i;
    *(enum rlog_outcome *)ctx = applied->outcome;
}

static enum rlog_outcome apply(struct rlog_machine *m, struct rlog_txn_builder *b)
{
    CLEANUP(buf_done) struct buf txn = {0}, entry = {0};
    enum rlog_outcome outcome = RLOG_OUTCOME_UNKNOWN;
    must(rlog_txn_encode(b, &txn) == ST_OK);
    rlog_txn_done(b);
    struct bytes one = buf_bytes(&txn);
    must(rlog_entry_encode(RLOG_FEATURE_DR, 1, &one, 1, &entry) == ST_OK);
    must(rlog_entry_check(buf_bytes(&entry)) == ST_OK);
    rlog_machine_apply(m, 1, buf_bytes(&entry), on_each, &outcome);
    return outcome;
}

/* A machine that follows, at this version. */
static void machine_begin(struct rlog_machine *m, uint64_t version)
{
    struct rlog_txn_builder b = {0};
    *m = (struct rlog_machine){0};
    must(store_new(NULL, &m->store) == ST_OK);
    must(rlog_wal_new(1024 * 1024, &m->wal) == ST_OK);
    rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    must(apply(m, &b) == RLOG_APPLIED);
    if (version == 0)
        return;
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_swap_at(&b, version, 0);
    must(apply(m, &b) == RLOG_APPLIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf ring = {0}, once = {0}, twice = {0};
    struct bytes run = bytes_of(data, size);
    struct rlog_txn_builder b = {0};
    struct rlog_wal_span span;
    struct rlog_machine m;
    uint64_t last;

    if (rlog_wal_check(run, &span) != ST_OK)
        return 0;
    machine_begin(&m, span.before);
    rlog_txn_wal(&b, run);
    must(apply(&m, &b) == RLOG_APPLIED && m.version == span.last);
    if (rlog_wal_read(m.wal, span.before, SIZE_MAX, &ring, &last) == ST_OK) /* or it was too long */
        must(bytes_eq(buf_bytes(&ring), run) && last == span.last);
    dump(&m, &once);
    rlog_txn_wal(&b, run);
    must(apply(&m, &b) == RLOG_APPLIED && m.version == span.last);
    dump(&m, &twice);
    must(bytes_eq(buf_bytes(&once), buf_bytes(&twice)));
    store_free(m.store);
    rlog_wal_free(m.wal);
    return 0;
}
