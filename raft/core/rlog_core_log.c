/* The log in memory: one contiguous array with room at both ends, references to counted blocks. */
#include "base/mem.h"
#include "raft/core/rlog_core.h"

static void entry_ref(const struct rlog_entry *e)
{
    if (e->block != NULL)
        rlog_block_ref(e->block);
}

static void entry_unref(const struct rlog_entry *e)
{
    if (e->block != NULL)
        rlog_block_unref(e->block);
}

void rlog_core_log_reset(struct rlog_core_log *log, uint64_t first)
{
    ASSERT(first > 0);
    for (size_t i = 0; i < log->n; i++)
        entry_unref(&log->base[log->skip + i]);
    log->first = first;
    log->n = log->bytes = 0;
    log->skip = 0;
    log->n_changes = 0;
}

void rlog_core_log_done(struct rlog_core_log *log)
{
    rlog_core_log_reset(log, 1);
    mem_free(log->base);
    mem_free(log->changes);
    *log = (struct rlog_core_log){.first = 1};
}

/* Make room for one more entry: first by closing the gap in front, if the gap is half of the
 * array. */
static void log_make_room(struct rlog_core_log *log)
{
    if (log->skip + log->n < log->cap)
        return;
    if (log->skip > log->cap / 2) {
        memmove(log->base, log->base + log->skip, (size_t)log->n * sizeof *log->base);
        log->skip = 0;
        return;
    }
    log->cap = log->cap != 0 ? log->cap * 2 : 256;
    log->base = mem_must_realloc(log->base, log->cap * sizeof *log->base);
}

void rlog_core_log_append(struct rlog_core_log *log, const struct rlog_entry *entry)
{
    ASSERT(log->first > 0);
    log_make_room(log);
    if (entry->type == RLOG_CHANGE) {
        if (log->n_changes == log->cap_changes) {
            log->cap_changes = log->cap_changes != 0 ? log->cap_changes * 2 : 16;
            log->changes = mem_must_realloc(log->changes, log->cap_changes * sizeof *log->changes);
        }
        log->changes[log->n_changes++] = log->first + log->n;
    }
    entry_ref(entry);
    log->base[log->skip + log->n++] = *entry;
    log->bytes += entry->data.len;
}

void rlog_core_log_truncate(struct rlog_core_log *log, uint64_t from)
{
    ASSERT(from >= log->first);
    while (log->n > 0 && rlog_core_log_last(log) >= from) {
        const struct rlog_entry *e = rlog_core_log_at(log, rlog_core_log_last(log));
        log->bytes -= e->data.len;
        entry_unref(e);
        log->n--;
    }
    while (log->n_changes > 0 && log->changes[log->n_changes - 1] >= from)
        log->n_changes--;
}

void rlog_core_log_drop_prefix(struct rlog_core_log *log, uint64_t upto)
{
    size_t gone = 0;
    ASSERT(rlog_core_log_has(log, upto));
    while (log->first <= upto) {
        const struct rlog_entry *e = rlog_core_log_at(log, log->first);
        log->bytes -= e->data.len;
        entry_unref(e);
        log->first++;
        log->skip++;
        log->n--;
    }
    while (gone < log->n_changes && log->changes[gone] <= upto)
        gone++;
    log->n_changes -= gone;
    if (gone > 0 && log->n_changes > 0)
        memmove(log->changes, log->changes + gone, log->n_changes * sizeof *log->changes);
}
