#include "wal_pair.h"

#include "raft/txn/rlog_content.h"
#include "raft/txn/rlog_machine_content.h"
#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

#include <stdlib.h>

enum { RING_BYTES = 16 * 1024, TXNS_MAX = 4, PREFIXES = 40 };

struct side {
    struct rlog_machine m;
    uint64_t index;
    int64_t time_ms;
    struct rlog_applied applied; /* of the last transaction */
};

struct pair {
    uint64_t seed;
    struct side primary, secondary;
    int64_t time_ms; /* cluster time of the primary at its version */
    struct wal_pair_tally *tally;
    const char *wrong; /* the first difference */
};

static void must(bool holds)
{
    if (!holds)
        abort(); /* the test itself is wrong, or without memory */
}

static uint64_t draw(struct pair *p, uint64_t below)
{
    uint64_t z = p->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static void wrong(struct pair *p, const char *what)
{
    if (p->wrong == NULL)
        p->wrong = what;
}

static void on_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    struct side *s = ctx;
    (void)i;
    s->applied = *applied;
}

static void apply_all(struct side *s, const struct bytes *txns, unsigned n)
{
    struct buf entry = {0};
    must(rlog_entry_encode(RLOG_FEATURE_DR, s->time_ms, txns, n, &entry) == ST_OK);
    must(rlog_entry_check(buf_bytes(&entry)) == ST_OK);
    rlog_machine_apply(&s->m, ++s->index, buf_bytes(&entry), on_each, s);
    buf_done(&entry);
}

/* One entry with what `b` holds, which is then empty. */
static enum rlog_outcome apply(struct side *s, struct rlog_txn_builder *b)
{
    struct buf txn = {0};
    must(rlog_txn_encode(b, &txn) == ST_OK);
    struct bytes one = buf_bytes(&txn);
    apply_all(s, &one, 1);
    buf_done(&txn);
    rlog_txn_done(b);
    return s->applied.outcome;
}

/* Few keys, so that they meet; some are prefixes of others. */
static struct bytes random_key(struct pair *p, char room[16], bool prefix)
{
    static const char *const parts[] = {"a", "b", "ab", "abc", "/"};
    size_t n = 2;
    memcpy(room, draw(p, 4) == 0 ? "l/" : "s/", 2);
    for (uint64_t depth = 1 + draw(p, 3); depth > 0; depth--) {
        const char *part = parts[draw(p, ARRAY_LEN(parts))];
        memcpy(room + n, part, strlen(part));
        n += strlen(part);
    }
    for (uint64_t cut = draw(p, 3); prefix && cut > 0 && n > 3; cut--)
        n--;
    return bytes_of(room, n);
}

/* The precondition is what makes entries refer to earlier transactions. */
static void random_put(struct pair *p, struct rlog_txn_builder *b, struct bytes key)
{
    struct store_item item = {0};
    uint8_t value[8];
    uint64_t r = draw(p, UINT64_MAX);
    memcpy(value, &r, sizeof value);
    bool needs = draw(p, 2) == 0;
    if (store_writer_get(p->primary.m.store, key, &item) != ST_OK)
        item.modified = 0;
    if (needs)
        rlog_txn_need_key(b, key, item.modified);
    if (draw(p, 3) != 0) {
        rlog_txn_put(b, key, bytes_of(value, draw(p, sizeof value)));
        return;
    }
    struct store_retain retain = {.from = draw(p, 4), .len = 1 + draw(p, 12)};
    uint8_t *room = rlog_txn_put_retain_room(b, key, 2, retain);
    must(room != NULL);
    memcpy(room, value, 2);
}

/* A restore of other content, at versions that may lie ahead. */
static void random_swap(struct pair *p, struct rlog_txn_builder *b)
{
    char room[16];
    rlog_txn_stage_begin(b);
    for (uint64_t i = draw(p, 5); i > 0; i--) {
        struct bytes key = random_key(p, room, false);
        uint64_t modified = 1 + draw(p, p->primary.m.version + 20);
        if (!rlog_key_is_local(key))
            rlog_txn_stage_put(b, key, BYTES("staged"), 1 + draw(p, modified), modified);
    }
    rlog_txn_stage_swap(b);
}

static void random_txn(struct pair *p, struct buf *out)
{
    struct rlog_txn_builder b = {0};
    char room[16];
    for (uint64_t i = draw(p, draw(p, 20) == 0 ? 20 : 4); i > 0; i--) {
        uint64_t kind = draw(p, 16);
        struct bytes key = random_key(p, room, kind == 0);
        if (kind == 0)
            rlog_txn_delete_prefix(&b, key);
        else if (kind < 6)
            rlog_txn_delete(&b, key);
        else
            random_put(p, &b, key);
    }
    uint64_t more = draw(p, 128);
    if (more < 16) {
        struct rlog_request_id id = {{3, (uint8_t)draw(p, 16)}, p->primary.m.version};
        rlog_txn_id(&b, &id, BYTES("response"));
    } else if (more < 20) {
        rlog_txn_raise(&b, p->primary.m.version + draw(p, 10) + 1);
        p->tally->jumps++;
    } else if (more < 21) {
        random_swap(p, &b);
    }
    must(rlog_txn_encode(&b, out) == ST_OK);
    rlog_txn_done(&b);
}

static void write_primary(struct pair *p)
{
    struct buf room[TXNS_MAX] = {0};
    struct bytes txns[TXNS_MAX];
    unsigned n = 1 + (unsigned)draw(p, TXNS_MAX);
    for (unsigned i = 0; i < n; i++) {
        random_txn(p, &room[i]);
        txns[i] = buf_bytes(&room[i]);
    }
    p->primary.time_ms += (int64_t)draw(p, 1000);
    uint64_t version = p->primary.m.version;
    apply_all(&p->primary, txns, n);
    if (p->primary.m.version != version)
        p->time_ms = p->primary.m.time_ms;
    for (unsigned i = 0; i < n; i++)
        buf_done(&room[i]);
}

static enum status collect(void *ctx, struct bytes content)
{
    buf_add(ctx, content);
    return buf_status(ctx);
}

/* The replicated keys as content, without the header. */
static void dump(struct side *s, struct buf *out)
{
    struct rlog_machine_dump d;
    must(rlog_machine_dump_begin(&s->m, &d) == ST_OK);
    d.replicated_only = true;
    must(rlog_machine_dump_run(&d, collect, out) == ST_OK);
    rlog_machine_dump_end(&d);
}

/* Both states are at one version: they must be the same. */
static void compare(struct pair *p)
{
    uint8_t a[STORE_HASH_BYTES], b[STORE_HASH_BYTES];
    struct store_pin x, y;
    struct buf first = {0}, second = {0};
    char room[16];

    must(store_pin(p->primary.m.store, "pair", 0, &x) == ST_OK);
    must(store_pin(p->secondary.m.store, "pair", 0, &y) == ST_OK);
    store_hash(&x, BYTES("s/"), a);
    store_hash(&y, BYTES("s/"), b);
    if (memcmp(a, b, sizeof a) != 0)
        wrong(p, "the hashes differ");
    for (unsigned i = 0; i < PREFIXES; i++) {
        struct bytes prefix = random_key(p, room, true);
        room[0] = 's';
        if (store_newest(&x, prefix) != store_newest(&y, prefix))
            wrong(p, "newest versions below a prefix differ");
    }
    store_unpin(&x);
    store_unpin(&y);
    dump(&p->primary, &first);
    dump(&p->secondary, &second);
    if (!bytes_eq(bytes_from(buf_bytes(&first), RLOG_CONTENT_HEADER_BYTES),
                  bytes_from(buf_bytes(&second), RLOG_CONTENT_HEADER_BYTES)))
        wrong(p, "the content differs");
    if (p->secondary.m.time_ms < p->time_ms)
        wrong(p, "the cluster time was not taken over");
    buf_done(&first);
    buf_done(&second);
}

/* What a first synchronization does: stage the content of the primary, and swap it in. */
struct sync {
    struct pair *p;
    struct rlog_txn_builder b;
};

static void sync_step(struct sync *s)
{
    struct side *to = &s->p->secondary;
    if (s->b.n_ops > 0 && draw(s->p, 4) == 0)
        must(apply(to, &s->b) == RLOG_APPLIED);
    if (s->b.n_ops == 0)
        rlog_txn_need_stage(&s->b, to->m.stage);
}

static void on_key(void *ctx, const struct store_item *item)
{
    struct sync *s = ctx;
    sync_step(s);
    rlog_txn_stage_put(&s->b, item->key, item->value, item->created, item->modified);
}

static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    struct sync *s = ctx;
    sync_step(s);
    rlog_txn_stage_newest(&s->b, at, version);
}

static void synchronize(struct pair *p)
{
    struct sync s = {.p = p};
    const struct rlog_content_visit visit = {NULL, on_key, on_newest, &s};
    struct rlog_machine_dump d;
    struct rlog_content *reader = NULL;
    struct buf content = {0};

    must(rlog_machine_dump_begin(&p->primary.m, &d) == ST_OK);
    d.replicated_only = true;
    must(rlog_machine_dump_run(&d, collect, &content) == ST_OK);
    for (uint64_t i = draw(p, 4); i > 0; i--) /* the primary goes on meanwhile */
        write_primary(p);
    rlog_txn_stage_begin(&s.b);
    must(apply(&p->secondary, &s.b) == RLOG_APPLIED);
    must(rlog_content_begin(&visit, &reader) == ST_OK);
    must(rlog_content_piece(reader, buf_bytes(&content)) == ST_OK);
    must(rlog_content_end(reader) == ST_OK);
    sync_step(&s);
    rlog_txn_stage_swap_at(&s.b, d.version, d.time_ms);
    if (apply(&p->secondary, &s.b) != RLOG_APPLIED || p->secondary.m.version != d.version)
        wrong(p, "a staged tree was not swapped in at its version");
    rlog_machine_dump_end(&d);
    buf_done(&content);
    p->tally->synced++;
}

/* Propose a run to the secondary, and judge what comes of it. */
static void follow(struct pair *p, struct bytes run)
{
    struct rlog_txn_builder b = {0};
    struct rlog_wal_span span;
    uint64_t version = p->secondary.m.version;

    must(rlog_wal_check(run, &span) == ST_OK);
    rlog_txn_wal(&b, run);
    bool gap = span.before > version;
    enum rlog_outcome outcome = apply(&p->secondary, &b);
    p->tally->runs++;
    p->tally->gaps += gap;
    p->tally->repeats += span.before < version;
    if (gap && (outcome != RLOG_CONFLICTED || p->secondary.m.version != version))
        wrong(p, "a run with a gap before it was applied");
    if (!gap && (outcome != RLOG_APPLIED || p->secondary.m.version != MAX(version, span.last)))
        wrong(p, "a run was not applied");
}

/* Read the ring somewhere near the secondary's version, and follow what it has. */
static void ship(struct pair *p)
{
    struct buf run = {0};
    uint64_t version = p->secondary.m.version, from = version, last = 0;
    uint64_t where = draw(p, 8), by = draw(p, 10);

    if (where == 0)
        from = version - MIN(version, by);
    else if (where == 1)
        from = version + by / 3;
    enum status st = rlog_wal_read(p->primary.m.wal, from, draw(p, 600), &run, &last);
    if (st == ST_OK) {
        follow(p, buf_bytes(&run));
        if (draw(p, 8) == 0)
            follow(p, buf_bytes(&run));
    } else if (st == ST_CONFLICT && from == version) {
        p->tally->lost++;
        synchronize(p);
    }
    buf_done(&run);
}

static void begin_following(struct side *s)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    must(apply(s, &b) == RLOG_APPLIED);
}

static void side_begin(struct side *s, int64_t time_ms)
{
    *s = (struct side){.time_ms = time_ms};
    must(store_new(NULL, &s->m.store) == ST_OK);
    must(rlog_wal_new(RING_BYTES, &s->m.wal) == ST_OK);
}

static void side_end(struct side *s)
{
    store_free(s->m.store);
    rlog_wal_free(s->m.wal);
}

const char *wal_pair_run(uint64_t seed, unsigned steps, struct wal_pair_tally *tally)
{
    struct pair p = {.seed = seed, .tally = tally};
    side_begin(&p.primary, 1000000);
    side_begin(&p.secondary, 500000);
    for (uint64_t i = draw(&p, 30); i > 0 || p.primary.m.version == 0; i -= i > 0)
        write_primary(&p);
    begin_following(&p.secondary);
    synchronize(&p);
    for (unsigned i = 0; i < steps && p.wrong == NULL; i++) {
        if (draw(&p, 3) == 0)
            write_primary(&p);
        else
            ship(&p);
        if (p.primary.m.version == p.secondary.m.version)
            compare(&p);
    }
    while (p.primary.m.version != p.secondary.m.version && p.wrong == NULL)
        ship(&p);
    if (p.wrong == NULL)
        compare(&p);
    side_end(&p.primary);
    side_end(&p.secondary);
    return p.wrong;
}
