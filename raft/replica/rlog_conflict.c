/* Detects conflicts before transactions are replicated (R5). If a transaction has a precondition on
 * a key that a pending transaction writes, it can succeed only if the pending transaction fails. So
 * it is held until the pending transaction is applied. If that one succeeded, the held transaction
 * gets ST_CONFLICT without an entry of its own.
 *
 * Pending writes are counted by hash: of the key, and of each of its prefixes that end in '/'. A
 * collision only holds a transaction for a moment. */
#include "base/mem.h"
#include "raft/replica/rlog_internal.h"

enum { COUNTS_MIN = 256 };

/* A hash over words. On the way to the hash of a key it gives the hashes of the key's prefixes. */
struct key_hash {
    uint64_t h;
    size_t at; /* bytes of the key hashed so far, in whole words */
};

static uint64_t hash_step(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The hash of the first `len` bytes of the key. `len` never falls from one call to the next. */
static uint64_t hash_upto(struct key_hash *hash, struct bytes key, size_t len)
{
    uint64_t last = 0;
    for (; len - hash->at >= 8; hash->at += 8)
        hash->h = hash_step(hash->h, le64_get(key.data + hash->at));
    if (len >= 8)
        last = le64_get(key.data + len - 8);
    else
        for (size_t i = 0; i < len; i++)
            last = last << 8 | key.data[i];
    return hash_step(hash->h ^ len, last) | 1; /* a hash is never 0, which marks a free slot */
}

uint64_t rlog_key_hash(struct bytes key)
{
    return hash_upto(&(struct key_hash){0}, key, key.len);
}

/* The prefix of the key up to its last '/': only prefixes that end in '/' have hashes. */
struct bytes rlog_key_folder(struct bytes key)
{
    while (key.len > 0 && key.data[key.len - 1] != '/')
        key.len--;
    return key;
}

/* rlog_key_hashes without the prefixes up to `skip`, which is empty or one of them. */
static bool key_hashes_below(struct bytes key, struct bytes skip,
                             bool (*each)(void *ctx, uint64_t hash), void *ctx)
{
    struct key_hash hash = {0};
    const uint8_t *at = key.data + skip.len, *slash;
    ASSERT(key.len > 0);
    ASSERT(skip.len <= key.len);
    for (; (slash = memchr(at, '/', key.len - (size_t)(at - key.data))) != NULL; at = slash + 1) {
        size_t len = (size_t)(slash - key.data) + 1;
        if (len < key.len && each(ctx, hash_upto(&hash, key, len)))
            return true;
    }
    return each(ctx, hash_upto(&hash, key, key.len));
}

/* Call `each` with the hash of every prefix that ends in '/', then with the hash of the key. Stops
 * and returns true when `each` returns true. */
bool rlog_key_hashes(struct bytes key, bool (*each)(void *ctx, uint64_t hash), void *ctx)
{
    return key_hashes_below(key, (struct bytes){0}, each, ctx);
}

static size_t counts_slot(const struct rlog_counts *c, uint64_t hash)
{
    size_t i = hash >> 1 & (c->cap - 1);
    while (c->hashes[i] != 0 && c->hashes[i] != hash)
        i = (i + 1) & (c->cap - 1);
    return i;
}

static void counts_grow(struct rlog_counts *c)
{
    struct rlog_counts old = *c;
    c->cap = old.cap != 0 ? old.cap * 2 : COUNTS_MIN;
    c->hashes = mem_must_alloc(c->cap * sizeof *c->hashes);
    c->counts = mem_must_alloc(c->cap * sizeof *c->counts);
    memset(c->hashes, 0, c->cap * sizeof *c->hashes);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.hashes[i] == 0)
            continue;
        size_t at = counts_slot(c, old.hashes[i]);
        c->hashes[at] = old.hashes[i];
        c->counts[at] = old.counts[i];
    }
    ASSERT((c->cap & (c->cap - 1)) == 0);
    mem_free(old.hashes);
    mem_free(old.counts);
}

static void counts_add(struct rlog_counts *c, uint64_t hash)
{
    if (c->used * 2 >= c->cap)
        counts_grow(c);
    ASSERT(c->used < c->cap);
    size_t i = counts_slot(c, hash);
    if (c->hashes[i] == 0) {
        c->hashes[i] = hash;
        c->counts[i] = 0;
        c->used++;
    }
    c->counts[i]++;
}

/* Closes the gap, so that probing never meets a deleted slot. */
static void counts_erase(struct rlog_counts *c, size_t gap)
{
    size_t mask = c->cap - 1;
    ASSERT(gap < c->cap);
    ASSERT(c->used > 0);
    for (size_t i = (gap + 1) & mask; c->hashes[i] != 0; i = (i + 1) & mask) {
        size_t home = c->hashes[i] >> 1 & mask;
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        c->hashes[gap] = c->hashes[i];
        c->counts[gap] = c->counts[i];
        gap = i;
    }
    c->hashes[gap] = 0;
    c->used--;
}

static void counts_remove(struct rlog_counts *c, uint64_t hash)
{
    size_t i = counts_slot(c, hash);
    ASSERT(c->hashes[i] == hash && c->counts[i] > 0);
    if (--c->counts[i] == 0)
        counts_erase(c, i);
}

bool rlog_counts_has(const struct rlog_counts *c, uint64_t hash)
{
    return c->cap != 0 && c->hashes[counts_slot(c, hash)] == hash;
}

static void counts_done(struct rlog_counts *c)
{
    mem_free(c->hashes);
    mem_free(c->counts);
    *c = (struct rlog_counts){0};
}

struct marking {
    struct rlog_conflicts *conflicts;
    struct rlog_propose *proposal;
    struct bytes last; /* key of the write before */
    bool add;
    bool more; /* proposal->marks does not hold everything that was counted */
};

static bool mark_hash(void *ctx, uint64_t hash)
{
    struct marking *m = ctx;
    struct rlog_propose *p = m->proposal;
    (m->add ? counts_add : counts_remove)(&m->conflicts->writes, hash);
    m->more = m->more || p->n_marks == RLOG_MARKS_MAX;
    if (m->add && !m->more)
        p->marks[p->n_marks++] = hash;
    return false;
}

static void mark_touch(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct marking *m = ctx;
    switch (touch) {
    case RLOG_TOUCH_NEED_KEY:
    case RLOG_TOUCH_NEED_PREFIX: return;
    case RLOG_TOUCH_ALL:
        m->more = true;
        m->conflicts->all += m->add ? 1 : UINT64_MAX;
        return;
    case RLOG_TOUCH_DELETE_PREFIX:
        m->more = true;
        (m->add ? counts_add : counts_remove)(&m->conflicts->sweeps,
                                              rlog_key_hash(rlog_key_folder(key)));
        break;
    case RLOG_TOUCH_PUT:
    case RLOG_TOUCH_DELETE: break;
    }
    /* Prefixes that the write before has too are counted with that write: keys of a transaction
     * come in order, and share many. */
    struct bytes shared = bytes_of(key.data, bytes_common_len(m->last, key));
    (void)key_hashes_below(key, rlog_key_folder(shared), mark_hash, m); /* never stops the walk */
    m->last = key;
}

/* From now on, until rlog_conflicts_unmark, the proposal's writes are pending. */
void rlog_conflicts_mark(struct rlog *r, struct rlog_propose *p)
{
    struct marking m = {.conflicts = &r->conflicts_pending, .proposal = p, .add = true};
    ASSERT(!p->marked);
    p->marked = true;
    p->n_marks = 0;
    rlog_txn_touch_ops(p->txn, mark_touch, &m);
    if (m.more)
        p->n_marks = 0; /* rlog_conflicts_unmark reads the transaction again */
}

void rlog_conflicts_unmark(struct rlog *r, struct rlog_propose *p)
{
    struct marking m = {.conflicts = &r->conflicts_pending, .proposal = p};
    if (!p->marked)
        return;
    p->marked = false;
    ASSERT(p->n_marks <= RLOG_MARKS_MAX);
    for (unsigned i = 0; i < p->n_marks; i++)
        counts_remove(&r->conflicts_pending.writes, p->marks[i]);
    if (p->n_marks == 0)
        rlog_txn_touch_ops(p->txn, mark_touch, &m);
}

struct search {
    const struct rlog_conflicts *conflicts;
    bool found;
};

static bool swept(void *ctx, uint64_t hash)
{
    struct search *s = ctx;
    return s->found = rlog_counts_has(&s->conflicts->sweeps, hash);
}

static void search_touch(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct search *s = ctx;
    if (s->found)
        return;
    if (touch == RLOG_TOUCH_NEED_PREFIX)
        key = rlog_key_folder(key);
    s->found = s->conflicts->all > 0 || rlog_counts_has(&s->conflicts->writes, rlog_key_hash(key));
    if (!s->found && s->conflicts->sweeps.used > 0)
        (void)rlog_key_hashes(key, swept, s); /* sets found */
}

/* Whether a pending write touches what the transaction needs. */
bool rlog_conflicts_doomed(const struct rlog *r, struct bytes txn)
{
    struct search s = {.conflicts = &r->conflicts_pending};
    if (s.conflicts->all == 0 && s.conflicts->writes.used == 0)
        return false;
    rlog_txn_touch_needs(txn, search_touch, &s);
    return s.found;
}

bool rlog_conflicts_pending_key(const struct rlog *r, uint64_t hash)
{
    return r->conflicts_pending.all > 0 || rlog_counts_has(&r->conflicts_pending.writes, hash);
}

void rlog_conflicts_done(struct rlog *r)
{
    counts_done(&r->conflicts_pending.writes);
    counts_done(&r->conflicts_pending.sweeps);
}
