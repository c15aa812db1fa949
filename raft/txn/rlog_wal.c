/* The ring is a list of blocks, oldest first, in an array of fixed size. The raft thread fills the
 * newest block without a lock, behind what readers may see, and shows it to them by
 * rlog_wal_publish under the lock. A reader takes a reference to a block under the lock and copies
 * without it, so a reader never delays apply for longer than the search for a block. */
#include "raft/txn/rlog_wal.h"
#include "raft/txn/rlog_txn_read.h"

#include "base/mem.h"

#include <pthread.h>
#include <time.h>

enum {
    BLOCK_BYTES = 64 * 1024,
    BLOCK_BYTES_MIN = 1024,
    BLOCKS_MIN = 16, /* blocks of a small ring, so that it forgets in small steps */
};

struct block {
    unsigned refs;   /* of the ring and of readers; guarded by the lock */
    uint64_t last;   /* version of the newest record that readers see; at first of the one before */
    int64_t last_ms; /* time in that record; 0: not known */
    size_t len;      /* bytes shown to readers */
    size_t cap;
    uint8_t data[];
};

struct rlog_wal {
    /* Of the raft thread. */
    size_t block_bytes;
    uint64_t version; /* of the state, also while the ring is off */
    uint64_t added;   /* version of the newest record; readers see it after a publish */
    int64_t added_ms; /* time in that record; 0: not known */
    struct buf fill;  /* memory of the newest block, filled to `fill.len`; none: no data */
    size_t record;    /* where the record under construction begins */
    uint64_t record_version;
    int64_t record_ms;
    bool lost; /* no memory for the record under construction */
    /* Guarded by `lock`; only the raft thread changes them, but for `waiting`. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned waiting;
    bool on;
    uint64_t base, last;
    int64_t base_ms; /* time in the record of the version `base`; 0: not known */
    uint64_t bytes, bytes_max;
    size_t first, n, room; /* of `blocks`, a ring of `room` places */
    struct block **blocks;
};

static void lock(struct rlog_wal *wal)
{
    (void)pthread_mutex_lock(&wal->lock); /* cannot fail: default mutex, never held twice */
}

static void unlock(struct rlog_wal *wal)
{
    (void)pthread_mutex_unlock(&wal->lock); /* cannot fail: this thread holds the lock */
}

static struct block **block_at(const struct rlog_wal *wal, size_t i)
{
    ASSERT(i < wal->n);
    return &wal->blocks[(wal->first + i) % wal->room];
}

/* The lock is held. */
static void block_unref(struct block *block)
{
    ASSERT(block->refs > 0);
    if (--block->refs == 0)
        mem_free(block); /* no wiping needed: all values are encrypted */
}

static void drop_oldest(struct rlog_wal *wal)
{
    struct block *block = *block_at(wal, 0);
    wal->base = block->last;
    wal->base_ms = block->last_ms;
    wal->bytes -= block->cap;
    wal->first = (wal->first + 1) % wal->room;
    wal->n--;
    block_unref(block);
}

/* Forget all records. The lock is held. */
static void empty(struct rlog_wal *wal, uint64_t version)
{
    while (wal->n > 0)
        drop_oldest(wal);
    ASSERT(wal->bytes == 0);
    wal->fill = (struct buf){0};
    wal->base = wal->last = wal->added = version;
    wal->base_ms = wal->added_ms = 0;
    if (wal->waiting > 0)
        (void)pthread_cond_broadcast(&wal->changed); /* cannot fail: an initialised condition */
}

/* Show readers what the newest block has. The lock is held. */
static void records_show(struct rlog_wal *wal)
{
    if (wal->fill.data != NULL) {
        struct block *block = *block_at(wal, wal->n - 1);
        block->len = wal->record;
        block->last = wal->added;
        block->last_ms = wal->added_ms;
    }
    wal->last = wal->added;
    if (wal->waiting > 0)
        (void)pthread_cond_broadcast(&wal->changed); /* cannot fail: an initialised condition */
}

enum status rlog_wal_new(uint64_t bytes_max, struct rlog_wal **ret_wal)
{
    struct rlog_wal *wal = mem_zalloc(sizeof *wal);
    pthread_condattr_t attr;
    if (wal == NULL)
        return ST_NOMEM;
    bytes_max = MAX(bytes_max, (uint64_t)BLOCK_BYTES_MIN);
    uint64_t block = MIN(bytes_max / BLOCKS_MIN, (uint64_t)BLOCK_BYTES);
    wal->block_bytes = (size_t)MAX(block, (uint64_t)BLOCK_BYTES_MIN);
    wal->bytes_max = bytes_max;
    wal->room = (size_t)(bytes_max / wal->block_bytes);
    wal->blocks = mem_alloc(wal->room * sizeof(struct block *));
    if (wal->blocks == NULL) {
        mem_free(wal);
        return ST_NOMEM;
    }
    wal->on = true;
    ASSERT(pthread_condattr_init(&attr) == 0);
    ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    ASSERT(pthread_cond_init(&wal->changed, &attr) == 0);
    (void)pthread_condattr_destroy(&attr); /* cannot fail: it was initialised */
    ASSERT(pthread_mutex_init(&wal->lock, NULL) == 0);
    *ret_wal = wal;
    return ST_OK;
}

void rlog_wal_free(struct rlog_wal *wal)
{
    if (wal == NULL)
        return;
    ASSERT(wal->waiting == 0);
    lock(wal);
    empty(wal, 0);
    unlock(wal);
    (void)pthread_cond_destroy(&wal->changed); /* no thread waits */
    (void)pthread_mutex_destroy(&wal->lock);   /* no thread holds the lock */
    mem_free(wal->blocks);
    mem_free(wal);
}

/* Readers */

/* The first block whose records reach behind `after`. The lock is held. */
static struct block *block_find(const struct rlog_wal *wal, uint64_t after)
{
    size_t low = 0, high = wal->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((*block_at(wal, middle))->last > after)
            high = middle;
        else
            low = middle + 1;
    }
    return *block_at(wal, low);
}

/* Whether a reader that has everything up to `after` has nothing to do. The lock is held. */
static bool quiet(const struct rlog_wal *wal, uint64_t after)
{
    return wal->on && after >= wal->base && after >= wal->last;
}

/* A reference to the block that has the record behind `after`, and how far it may be read. */
static enum status block_ref(struct rlog_wal *wal, uint64_t after, struct block **ret_block,
                             size_t *ret_len)
{
    enum status st = ST_OK;
    lock(wal);
    if (!wal->on)
        st = ST_CLOSED;
    else if (after < wal->base)
        st = ST_CONFLICT;
    else if (quiet(wal, after))
        st = ST_NOT_FOUND;
    if (st == ST_OK) {
        *ret_block = block_find(wal, after);
        *ret_len = (*ret_block)->len;
        (*ret_block)->refs++;
    }
    unlock(wal);
    return st;
}

/* The records behind *last, about `bytes_max` bytes of them, at least one; *last becomes the
 * version of the last one. ST_CONFLICT: *last lies within a jump. */
static enum status records_behind(struct bytes run, size_t bytes_max, uint64_t *last,
                                  struct bytes *ret_found)
{
    struct rlog_wal_record record;
    struct bytes found = {0};
    while (rlog_wal_next(&run, &record) == ST_OK) {
        if (found.len == 0 && record.version <= *last)
            continue;
        if (record.before != *last)
            break;
        if (found.len != 0 && found.len + record.encoded.len > bytes_max)
            break;
        found.data = found.len != 0 ? found.data : record.encoded.data;
        found.len += record.encoded.len;
        *last = record.version;
    }
    *ret_found = found;
    return found.len > 0 ? ST_OK : ST_CONFLICT;
}

/* Append to `out` what one block has behind *last, at most `left` bytes; if `one` is set, one
 * record may be longer. *last becomes the version of the last record. ST_NOT_FOUND: nothing more
 * fits. */
static enum status block_read(struct rlog_wal *wal, size_t left, bool one, struct buf *out,
                              uint64_t *last)
{
    struct block *block = NULL;
    struct bytes found = {0};
    uint64_t upto = *last;
    size_t len = 0;
    TRY(block_ref(wal, *last, &block, &len));
    enum status st = records_behind(bytes_of(block->data, len), left, &upto, &found);
    if (st == ST_OK && !one && found.len > left)
        st = ST_NOT_FOUND;
    if (st == ST_OK) {
        buf_add(out, found);
        st = buf_status(out);
        *last = upto;
    }
    lock(wal);
    block_unref(block);
    unlock(wal);
    return st;
}

enum status rlog_wal_read(struct rlog_wal *wal, uint64_t after, size_t bytes_max, struct buf *out,
                          uint64_t *ret_last)
{
    uint64_t last = after;
    size_t start = out->len;
    enum status st = buf_status(out);
    while (st == ST_OK) {
        size_t left = bytes_max - MIN(bytes_max, out->len - start);
        st = block_read(wal, left, last == after, out, &last);
    }
    if (st == ST_NOMEM)
        out->len = start;
    if (st == ST_NOMEM || last == after)
        return st;
    *ret_last = last; /* the next read says why there was no more */
    return ST_OK;
}

void rlog_wal_wait(struct rlog_wal *wal, uint64_t after, unsigned timeout_ms,
                   const atomic_bool *stop)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail: the kernel has the clock */
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    lock(wal);
    wal->waiting++;
    while (quiet(wal, after) && !atomic_load(stop))
        if (pthread_cond_timedwait(&wal->changed, &wal->lock, &until) != 0)
            break; /* the time is over */
    wal->waiting--;
    unlock(wal);
}

void rlog_wal_wake(struct rlog_wal *wal)
{
    lock(wal);
    (void)pthread_cond_broadcast(&wal->changed); /* cannot fail: an initialised condition */
    unlock(wal);
}

/* The block that has the record of `version`, referenced; NULL: none needs to be read, and *place
 * is complete. The lock is held. */
static enum status place_find(struct rlog_wal *wal, uint64_t version, struct rlog_wal_place *place,
                              struct block **ret_block, size_t *ret_len)
{
    *place = (struct rlog_wal_place){0};
    *ret_block = NULL;
    if (!wal->on)
        return ST_CLOSED;
    if (version > wal->last)
        return ST_NOT_FOUND;
    struct block *in = version > wal->base ? block_find(wal, version - 1) : NULL;
    for (size_t i = wal->n; i > 0 && *block_at(wal, i - 1) != in; i--)
        place->behind += (*block_at(wal, i - 1))->len;
    if (in != NULL) {
        in->refs++;
        *ret_block = in;
        *ret_len = in->len;
    } else if (version == wal->base)
        place->time_ms = wal->base_ms;
    return version < wal->base ? ST_CONFLICT : ST_OK;
}

enum status rlog_wal_find(struct rlog_wal *wal, uint64_t version, struct rlog_wal_place *ret_place)
{
    struct rlog_wal_record record;
    struct block *block;
    size_t len = 0;
    lock(wal);
    enum status st = place_find(wal, version, ret_place, &block, &len);
    unlock(wal);
    if (block == NULL)
        return st;
    struct bytes rest = bytes_of(block->data, len);
    st = ST_CONFLICT; /* the version lies within a jump */
    while (st == ST_CONFLICT && rlog_wal_next(&rest, &record) == ST_OK)
        if (record.version == version) {
            ret_place->time_ms = record.time_ms;
            st = ST_OK;
        } else if (record.version > version) {
            rest = (struct bytes){record.encoded.data, record.encoded.len + rest.len};
            break;
        }
    ret_place->behind += rest.len;
    lock(wal);
    block_unref(block);
    unlock(wal);
    return st;
}

void rlog_wal_stats(struct rlog_wal *wal, struct rlog_wal_stats *ret_stats)
{
    lock(wal);
    *ret_stats = (struct rlog_wal_stats){.on = wal->on,
                                         .base = wal->base,
                                         .last = wal->last,
                                         .bytes = wal->bytes,
                                         .bytes_max = wal->bytes_max};
    unlock(wal);
}

/* The writer */

void rlog_wal_switch(struct rlog_wal *wal, bool on)
{
    if (wal->on == on)
        return;
    lock(wal);
    wal->on = on;
    empty(wal, wal->version);
    unlock(wal);
}

bool rlog_wal_on(const struct rlog_wal *wal)
{
    return wal->on; /* only this thread changes it */
}

/* Begin a new block of at least `bytes`, and forget old ones for it. */
static void block_begin(struct rlog_wal *wal, size_t bytes)
{
    size_t cap = MAX(bytes, wal->block_bytes);
    struct block *block = cap <= wal->bytes_max ? mem_alloc(sizeof *block + cap) : NULL;
    wal->lost = block == NULL;
    if (block == NULL)
        return;
    *block = (struct block){.refs = 1, .last = wal->added, .last_ms = wal->added_ms, .cap = cap};
    lock(wal);
    records_show(wal);
    while (wal->n > 0 && (wal->bytes + cap > wal->bytes_max || wal->n == wal->room))
        drop_oldest(wal);
    wal->blocks[(wal->first + wal->n++) % wal->room] = block;
    wal->bytes += cap;
    unlock(wal);
    wal->fill = (struct buf){.data = block->data, .cap = cap};
    wal->record = 0;
}

/* Make room for a record, and write its header. */
static void record_begin(struct rlog_wal *wal, size_t bytes, enum rlog_wal_kind kind,
                         uint64_t version, int64_t time_ms)
{
    ASSERT(wal->on && version > wal->added);
    wal->lost = false;
    wal->record_version = version;
    wal->record_ms = time_ms;
    if (wal->fill.data == NULL || wal->fill.cap - wal->fill.len < bytes)
        block_begin(wal, bytes);
    if (wal->lost)
        return;
    wal->record = wal->fill.len;
    buf_add_u8(&wal->fill, (uint8_t)kind);
    buf_add_u64(&wal->fill, version);
    buf_add_u64(&wal->fill, (uint64_t)time_ms);
    buf_add_u32(&wal->fill, 0); /* bytes of operations, known at the end */
}

void rlog_wal_begin(struct rlog_wal *wal, size_t ops_bytes_max, uint64_t version, int64_t time_ms)
{
    size_t bytes = RLOG_WAL_HEADER_BYTES + ops_bytes_max;
    record_begin(wal, bytes, RLOG_WAL_OPS, version, time_ms);
}

void rlog_wal_op(struct rlog_wal *wal, const struct rlog_op *op)
{
    ASSERT(!rlog_key_is_local(op->key));
    if (wal->lost)
        return;
    const uint8_t *data = wal->fill.data;
    rlog_op_encode(op, &wal->fill);
    ASSERT(wal->fill.data == data && !wal->fill.failed); /* there was room: the block is the same */
}

/* Take the record under construction as it is. */
static void record_end(struct rlog_wal *wal)
{
    if (wal->lost || wal->fill.len - wal->record > RLOG_WAL_RECORD_MAX) {
        rlog_wal_reset(wal, wal->record_version);
        return;
    }
    wal->record = wal->fill.len;
    wal->added = wal->record_version;
    wal->added_ms = wal->record_ms;
}

void rlog_wal_end(struct rlog_wal *wal)
{
    if (!wal->lost) {
        size_t bytes = wal->fill.len - wal->record - RLOG_WAL_HEADER_BYTES;
        le32_put(wal->fill.data + wal->record + RLOG_WAL_HEADER_BYTES - 4, (uint32_t)bytes);
    }
    record_end(wal);
}

void rlog_wal_append(struct rlog_wal *wal, const struct rlog_wal_record *record)
{
    if (!wal->on)
        return;
    record_begin(wal, record->encoded.len, record->kind, record->version, record->time_ms);
    if (!wal->lost) {
        wal->fill.len = wal->record;
        buf_add(&wal->fill, record->encoded);
    }
    record_end(wal);
}

void rlog_wal_jump(struct rlog_wal *wal, uint64_t version, int64_t time_ms)
{
    if (!wal->on)
        return;
    record_begin(wal, RLOG_WAL_HEADER_BYTES + 8, RLOG_WAL_JUMP, version, time_ms);
    if (!wal->lost)
        buf_add_u64(&wal->fill, wal->added);
    rlog_wal_end(wal);
}

void rlog_wal_reset(struct rlog_wal *wal, uint64_t version)
{
    lock(wal);
    wal->version = version;
    empty(wal, version);
    unlock(wal);
}

void rlog_wal_publish(struct rlog_wal *wal, uint64_t version)
{
    if (version == wal->version && wal->added == wal->last)
        return;
    wal->version = version;
    if (!wal->on)
        return;
    ASSERT(wal->added == version);
    lock(wal);
    records_show(wal);
    unlock(wal);
}
