#include "cluster/dr/check.h"

#include "base/trace.h"
#include "raft/txn/rlog_txn.h"
#include "store/shape.h"

#include <inttypes.h>

enum { PIN_MS = 10 * 60 * 1000 };

struct run {
    struct dr *dr;
    struct dr_check_tree *tree;
    uint64_t before; /* keys of the trees that are done */
    bool mend;
};

static void on_bad(void *ctx, struct bytes at)
{
    struct run *r = ctx;
    uint8_t page = at.len > 2 ? at.data[2] : 0, subpage = at.len > 3 ? at.data[3] : 0;
    r->tree->corrupted = true;
    r->tree->subpages[page][subpage / 8] |= (uint8_t)(1U << subpage % 8);
    if (r->tree->n++ < DR_CHECK_NAMED)
        trace(TRACE_ERROR, "dr", "the hash of the tree at %.*s is not that of its content%s",
              (int)MIN(at.len, (size_t)256), (const char *)at.data,
              r->mend ? ", and is computed anew" : "");
}

static bool on_progress(void *ctx, uint64_t keys)
{
    struct run *r = ctx;
    struct dr_facts *facts = dr_live_begin(&r->dr->live);
    facts->check.done = r->before + keys;
    dr_live_end(&r->dr->live);
    return !r->dr->host->stopping;
}

static enum status check_trees(struct run *r, const struct store_pin *pin, struct dr_check *ret)
{
    const struct store_check check = {
        .mend = r->mend, .bad = on_bad, .goes_on = on_progress, .ctx = r};
    r->tree = &ret->replicated;
    TRY(store_check_run(pin, BYTES(RLOG_REPLICATED), &check));
    r->before = store_count(pin, BYTES(RLOG_REPLICATED));
    r->tree = &ret->local;
    TRY(store_check_run(pin, BYTES(RLOG_LOCAL), &check));
    store_hash(pin, BYTES(RLOG_REPLICATED), ret->replicated.root);
    store_hash(pin, BYTES(RLOG_LOCAL), ret->local.root);
    ret->keys = store_count(pin, BYTES(""));
    return ST_OK;
}

/* Only one check at a time: a second one would tell other progress. */
static enum status begin_check(struct run *r, uint64_t total)
{
    struct dr_facts *facts = dr_live_begin(&r->dr->live);
    bool busy = facts->check.total != 0;
    if (!busy) {
        facts->check.total = total;
        facts->check.done = 0;
        facts->check.reindexes = r->mend;
    }
    dr_live_end(&r->dr->live);
    return busy ? ST_BUSY : ST_OK;
}

static void end_check(struct run *r, enum status st, const struct dr_check *check)
{
    struct dr_facts *facts = dr_live_begin(&r->dr->live);
    facts->check.total = 0;
    facts->check.reindexes = false;
    if (st == ST_OK) {
        facts->check.corrupted =
            !r->mend && (check->replicated.corrupted || check->local.corrupted);
        facts->check.checked_ms = check->ended_ms;
        if (r->mend)
            facts->check.reindexed_ms = check->ended_ms;
    }
    dr_live_end(&r->dr->live);
}

enum status dr_check_store(struct dr *dr, struct store *store, bool mend,
                           struct dr_check *ret_check)
{
    struct run r = {.dr = dr, .mend = mend};
    struct store_pin pin;
    memset(ret_check, 0, sizeof *ret_check);
    TRY(store_pin(store, "dr check", PIN_MS, &pin));
    enum status st = begin_check(&r, MAX(store_count(&pin, BYTES("")), (uint64_t)1));
    if (st == ST_OK) {
        st = check_trees(&r, &pin, ret_check);
        if (mend)
            atomic_store(&dr->host->root_mended, true);
        ret_check->ended_ms = dr->host->calls->time_ms(dr->host);
        end_check(&r, st, ret_check);
    }
    store_unpin(&pin);
    return st;
}

enum status dr_check_run(struct dr *dr, bool mend, struct dr_check *ret_check)
{
    if (dr->host->rlog == NULL || dr->host->replica_closed || dr->host->stopping)
        return ST_CLOSED;
    return dr_check_store(dr, rlog_store(dr->host->rlog), mend, ret_check);
}
