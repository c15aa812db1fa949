/* Two random states, and what their difference moves. */
#include "support.h"

#include "base/mem.h"
#include "cluster/dr/diff/dr_diff.h"
#include "raft/txn/rlog_content.h"
#include "raft/txn/rlog_machine_content.h"
#include "raft/txn/rlog_txn_read.h"

#include <stdio.h>
#include <stdlib.h>

struct side {
    struct rlog_machine m;
    uint64_t index, restored;
    struct rlog_applied applied;
};

struct world {
    uint64_t seed;
    struct side primary, secondary;
    uint64_t asked_bytes, nodes_bytes, content_bytes; /* of the last sync */
    uint64_t gone;                                    /* keys that were told to go */
    struct dr_diff_counts counts;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    uint64_t z = w->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static void on_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    (void)i;
    ((struct side *)ctx)->applied = *applied;
}

static enum rlog_outcome apply(struct side *s, struct rlog_txn_builder *b)
{
    struct buf txn = {0}, entry = {0};
    assert_status(rlog_txn_encode(b, &txn), ST_OK);
    assert_status(
        rlog_entry_encode(RLOG_FEATURE_DR, 1000, &(struct bytes){txn.data, txn.len}, 1, &entry),
        ST_OK);
    rlog_machine_apply(&s->m, ++s->index, buf_bytes(&entry), on_each, s);
    buf_done(&txn);
    buf_done(&entry);
    rlog_txn_done(b);
    return s->applied.outcome;
}

static void world_open(struct world *w, uint64_t seed)
{
    struct rlog_txn_builder b = {0};
    *w = (struct world){.seed = seed};
    assert_status(store_new(NULL, &w->primary.m.store), ST_OK);
    assert_status(store_new(NULL, &w->secondary.m.store), ST_OK);
    rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    assert_int_equal(apply(&w->secondary, &b), RLOG_APPLIED);
}

static void world_close(struct world *w)
{
    store_free(w->primary.m.store);
    store_free(w->secondary.m.store);
}

static struct bytes random_key(struct world *w, char room[16], bool prefix)
{
    static const char *const parts[] = {"a", "b", "ab", "abc", "/", "c", "d/"};
    size_t n = 2;
    memcpy(room, "s/", 2);
    for (uint64_t depth = 1 + draw(w, 4); depth > 0; depth--) {
        const char *part = parts[draw(w, ARRAY_LEN(parts))];
        memcpy(room + n, part, strlen(part));
        n += strlen(part);
    }
    for (uint64_t cut = draw(w, 3); prefix && cut > 0 && n > 3; cut--)
        n--;
    return bytes_of(room, n);
}

/* Values never repeat, as encrypted values do not. */
static void random_put(struct world *w, struct rlog_txn_builder *b, struct bytes key)
{
    uint8_t value[24];
    size_t len = 8 + draw(w, sizeof value - 8);
    memset(value, 'x', sizeof value);
    le64_put(value, draw(w, UINT64_MAX));
    rlog_txn_put(b, key, bytes_of(value, len));
}

/* A restore: keys with older versions, and some with versions ahead. */
static void restore(struct world *w, struct side *s)
{
    struct rlog_txn_builder b = {0};
    char room[16];
    rlog_txn_stage_begin(&b);
    for (uint64_t i = draw(w, 12); i > 0; i--) {
        uint64_t modified = 1 + draw(w, s->m.version + 20);
        uint8_t value[8];
        le64_put(value, draw(w, UINT64_MAX));
        rlog_txn_stage_put(&b, random_key(w, room, false), bytes_of(value, sizeof value),
                           1 + draw(w, modified), modified);
    }
    rlog_txn_stage_swap(&b);
    assert_int_equal(apply(s, &b), RLOG_APPLIED);
    s->restored = s->m.version;
}

static void write_side(struct world *w, struct side *s, uint64_t restore_in)
{
    struct rlog_txn_builder b = {0};
    char room[16];
    if (restore_in != 0 && draw(w, restore_in) == 0) {
        restore(w, s);
        return;
    }
    for (uint64_t i = 1 + draw(w, 3); i > 0; i--) {
        uint64_t kind = draw(w, 20);
        struct bytes key = random_key(w, room, kind == 0);
        if (kind == 0)
            rlog_txn_delete_prefix(&b, key);
        else if (kind < 7)
            rlog_txn_delete(&b, key);
        else
            random_put(w, &b, key);
    }
    assert_int_equal(apply(s, &b), RLOG_APPLIED);
}

static enum status collect(void *ctx, struct bytes content)
{
    buf_add(ctx, content);
    return buf_status(ctx);
}

static void dump(struct side *s, struct dr_diff_parts *parts, struct buf *out)
{
    struct rlog_machine_dump d;
    assert_status(rlog_machine_dump_begin(&s->m, &d), ST_OK);
    d.replicated_only = true;
    if (parts != NULL) {
        d.parted = true;
        d.parts = parts->parts;
        d.n_parts = parts->n;
    }
    assert_status(rlog_machine_dump_run(&d, collect, out), ST_OK);
    rlog_machine_dump_end(&d);
}

/* The answer in pieces, each with its length. */
static enum status on_nodes(void *ctx, struct bytes nodes)
{
    buf_add_block(ctx, nodes);
    return buf_status(ctx);
}

static void compare(struct world *w, struct dr_diff *diff, const struct store_pin *theirs,
                    uint64_t floor)
{
    for (;;) {
        struct buf ask = {0}, nodes = {0};
        if (!dr_diff_ask(diff, &ask))
            return;
        assert_status(buf_status(&ask), ST_OK);
        assert_status(dr_diff_answer(theirs, floor, buf_bytes(&ask), on_nodes, &nodes), ST_OK);
        w->asked_bytes += ask.len;
        w->nodes_bytes += nodes.len;
        struct reader r = reader_of(buf_bytes(&nodes));
        while (dr_diff_waits(diff))
            assert_status(dr_diff_take(diff, reader_block(&r)), ST_OK);
        assert_status(reader_end(&r), ST_OK);
        buf_done(&ask);
        buf_done(&nodes);
    }
}

struct fetch {
    struct world *w;
    struct dr_diff *diff;
    struct rlog_txn_builder b;
    uint64_t stage;
};

static void step(struct fetch *f, bool last)
{
    struct side *s = &f->w->secondary;
    if (f->b.n_ops > 0 && (last || draw(f->w, 4) == 0))
        assert_int_equal(apply(s, &f->b), RLOG_APPLIED);
    if (!last && f->b.n_ops == 0)
        rlog_txn_need_stage(&f->b, f->stage);
}

static void on_key(void *ctx, const struct store_item *item)
{
    struct fetch *f = ctx;
    assert_true(dr_diff_got(f->diff, item));
    step(f, false);
    rlog_txn_stage_put(&f->b, item->key, item->value, item->created, item->modified);
}

static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    struct fetch *f = ctx;
    step(f, false);
    rlog_txn_stage_newest(&f->b, at, version);
}

static void change_rest(struct fetch *f)
{
    struct bytes key;
    uint64_t version;
    while (dr_diff_deleted(f->diff, &key)) {
        step(f, false);
        rlog_txn_stage_delete(&f->b, key);
    }
    while (dr_diff_newest(f->diff, &key, &version)) {
        step(f, false);
        rlog_txn_stage_newest(&f->b, key, version);
    }
}

static void fetch(struct fetch *f)
{
    const struct rlog_content_visit visit = {NULL, on_key, on_newest, f};
    struct dr_diff_parts parts = {0};
    struct rlog_content *reader = NULL;
    struct buf content = {0};
    for (bool last = false; !last;) {
        struct buf want = {0};
        assert_status(dr_diff_want(f->diff, &want, &last), ST_OK);
        assert_status(dr_diff_parts_add(&parts, buf_bytes(&want)), ST_OK);
        f->w->asked_bytes += want.len;
        buf_done(&want);
    }
    assert_status(dr_diff_parts_end(&parts), ST_OK);
    dump(&f->w->primary, &parts, &content);
    f->w->content_bytes = content.len;
    rlog_txn_stage_clone(&f->b);
    assert_int_equal(apply(&f->w->secondary, &f->b), RLOG_APPLIED);
    f->stage = f->w->secondary.applied.stage;
    assert_status(rlog_content_begin(&visit, &reader), ST_OK);
    assert_status(rlog_content_piece(reader, buf_bytes(&content)), ST_OK);
    assert_status(rlog_content_end(reader), ST_OK);
    assert_status(dr_diff_end(f->diff), ST_OK);
    change_rest(f);
    step(f, true);
    dr_diff_parts_done(&parts);
    buf_done(&content);
}

static void on_goes(void *ctx, const struct store_item *item)
{
    (void)item;
    ((struct world *)ctx)->gone++;
}

static void assert_staged_is(struct world *w, const uint8_t *root)
{
    uint8_t staged[STORE_HASH_BYTES];
    struct store_pin pin;
    assert_status(store_pin_staged(w->secondary.m.store, "test", 0, &pin), ST_OK);
    store_hash(&pin, BYTES("s/"), staged);
    store_unpin(&pin);
    assert_memory_equal(staged, root, sizeof staged);
}

/* One difference sync. `apart`: the histories differ. */
static void sync_once(struct world *w, bool apart)
{
    struct side *to = &w->secondary;
    struct store_pin ours, theirs;
    uint8_t root[STORE_HASH_BYTES];
    struct fetch f = {.w = w};
    assert_status(store_pin(to->m.store, "test", 0, &ours), ST_OK);
    assert_status(store_pin(w->primary.m.store, "test", 0, &theirs), ST_OK);
    uint64_t version = theirs.version, floor = apart ? version : w->primary.restored;
    const struct dr_diff_input in = {&ours, version, floor, on_goes, w};
    w->asked_bytes = w->nodes_bytes = w->gone = 0;
    assert_status(dr_diff_new(&in, &f.diff), ST_OK);
    compare(w, f.diff, &theirs, floor);
    fetch(&f);
    w->counts = *dr_diff_counts(f.diff);
    assert_int_equal(w->gone, w->counts.replaced + w->counts.deleted);
    store_hash(&theirs, BYTES("s/"), root);
    assert_staged_is(w, root);
    rlog_txn_need_stage(&f.b, f.stage);
    rlog_txn_stage_swap_floor(&f.b, version, 2000, floor);
    assert_int_equal(apply(to, &f.b), RLOG_APPLIED);
    assert_int_equal(to->m.version, version);
    dr_diff_free(f.diff);
    store_unpin(&ours);
    store_unpin(&theirs);
}

/* Values, versions of keys and newest versions are the same: the whole content is. */
static void assert_same(struct world *w)
{
    struct buf a = {0}, b = {0};
    dump(&w->primary, NULL, &a);
    dump(&w->secondary, NULL, &b);
    assert_bytes(bytes_from(buf_bytes(&b), RLOG_CONTENT_HEADER_BYTES),
                 bytes_from(buf_bytes(&a), RLOG_CONTENT_HEADER_BYTES));
    buf_done(&a);
    buf_done(&b);
}

/* Keys, values and versions are the same, and no newest version is below the primary's. */
static void assert_not_older(struct world *w)
{
    struct store_pin ours, theirs;
    struct store_iter *iter = mem_must_alloc(sizeof *iter);
    struct store_item item;
    char room[16];
    assert_status(store_pin(w->secondary.m.store, "test", 0, &ours), ST_OK);
    assert_status(store_pin(w->primary.m.store, "test", 0, &theirs), ST_OK);
    assert_int_equal(store_count(&ours, BYTES("s/")), store_count(&theirs, BYTES("s/")));
    store_iter_init(iter, &theirs, BYTES("s/"), BYTES(""));
    while (store_iter_next(iter)) {
        assert_status(store_get(&ours, iter->item.key, &item), ST_OK);
        assert_bytes(item.value, iter->item.value);
    }
    for (unsigned i = 0; i < 20; i++) {
        struct bytes at = random_key(w, room, true);
        assert_true(store_newest(&ours, at) >= store_newest(&theirs, at));
    }
    mem_free(iter);
    store_unpin(&ours);
    store_unpin(&theirs);
}

static unsigned rounds(unsigned quick, unsigned lengthy)
{
    const char *text = getenv("HOLDFAST_LONG");
    return text != NULL && strcmp(text, "1") == 0 ? lengthy : quick;
}

static void a_state_that_fell_behind_becomes_the_same(void **state)
{
    (void)state;
    unsigned n = rounds(600, 20000);
    for (unsigned seed = 1; seed <= n; seed++) {
        struct world w;
        world_open(&w, seed);
        for (unsigned i = 0; i < 6; i++) {
            for (uint64_t more = draw(&w, 30) + (i == 0); more > 0; more--)
                write_side(&w, &w.primary, seed % 2 == 0 ? 60 : 0);
            sync_once(&w, false);
            assert_same(&w);
        }
        sync_once(&w, false); /* nothing is left */
        assert_true(w.counts.wanted <= 1); /* the key of the segment */
        assert_int_equal(w.counts.deleted + w.gone, 0);
        assert_true(w.counts.opened <= 1);
        world_close(&w);
    }
}

static void follow_again(struct side *s, bool follow)
{
    struct rlog_txn_builder b = {0};
    if (follow)
        rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    else
        rlog_txn_delete(&b, BYTES(RLOG_FOLLOWING));
    assert_int_equal(apply(s, &b), RLOG_APPLIED);
}

static void states_that_went_apart_become_the_same(void **state)
{
    (void)state;
    unsigned n = rounds(600, 20000);
    for (unsigned seed = 1; seed <= n; seed++) {
        struct world w;
        world_open(&w, seed);
        for (unsigned i = 0; i < 4; i++) {
            for (uint64_t more = 1 + draw(&w, 20); more > 0; more--)
                write_side(&w, &w.primary, 0);
            follow_again(&w.secondary, false);
            for (uint64_t more = draw(&w, 20); more > 0; more--)
                write_side(&w, &w.secondary, 40);
            follow_again(&w.secondary, true);
            struct rlog_txn_builder b = {0};
            rlog_txn_raise(&b, w.secondary.m.version + 1); /* as the activation does */
            assert_int_equal(apply(&w.primary, &b), RLOG_APPLIED);
            sync_once(&w, true);
            assert_not_older(&w);
        }
        world_close(&w);
    }
}

static void fill(struct world *w, unsigned from, unsigned n, unsigned every)
{
    uint8_t value[120];
    char key[48];
    memset(value, 'v', sizeof value);
    for (unsigned i = from; i < n; i += every) {
        struct rlog_txn_builder b = {0};
        le64_put(value, draw(w, UINT64_MAX));
        int len = snprintf(key, sizeof key, "s/kv/data/secrets/%08u", i * 7919 % 100000007);
        rlog_txn_put(&b, bytes_of(key, (size_t)len), bytes_of(value, sizeof value));
        assert_int_equal(apply(&w->primary, &b), RLOG_APPLIED);
    }
}

static void few_changes_move_few_bytes(void **state)
{
    (void)state;
    struct world w;
    struct buf whole = {0};
    world_open(&w, 1);
    fill(&w, 0, 20000, 1);
    sync_once(&w, false);
    assert_same(&w);
    dump(&w.primary, NULL, &whole);
    fill(&w, 50, 20000, 100); /* 1 % */
    sync_once(&w, false);
    assert_same(&w);
    uint64_t bytes = w.asked_bytes + w.nodes_bytes + w.content_bytes;
    assert_true(bytes * 100 < whole.len * 4);
    assert_int_equal(w.counts.fetched, 200 + 1); /* and the key of the segment */
    buf_done(&whole);
    world_close(&w);
}

/* Answers of another process, damaged anywhere, are refused or lead to a state that the root tells
 * from the primary's; they do no harm. */
static void damaged_answers_do_no_harm(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 7);
    for (unsigned i = 0; i < 60; i++)
        write_side(&w, &w.primary, 0);
    sync_once(&w, false);
    for (unsigned i = 0; i < 30; i++)
        write_side(&w, &w.primary, 0);
    for (unsigned round = 0; round < 3000; round++) {
        struct store_pin ours, theirs;
        struct buf ask = {0}, nodes = {0};
        struct dr_diff *diff = NULL;
        assert_status(store_pin(w.secondary.m.store, "test", 0, &ours), ST_OK);
        assert_status(store_pin(w.primary.m.store, "test", 0, &theirs), ST_OK);
        const struct dr_diff_input in = {&ours, theirs.version, 0, NULL, NULL};
        assert_status(dr_diff_new(&in, &diff), ST_OK);
        for (unsigned depth = 0; depth < 50 && dr_diff_ask(diff, &ask); depth++) {
            assert_status(dr_diff_answer(&theirs, 0, buf_bytes(&ask), collect, &nodes), ST_OK);
            if (draw(&w, 2) == 0)
                nodes.data[draw(&w, nodes.len)] ^= (uint8_t)(1U << draw(&w, 8));
            if (draw(&w, 8) == 0)
                nodes.len -= draw(&w, nodes.len);
            enum status st = dr_diff_take(diff, buf_bytes(&nodes));
            if (st != ST_OK)
                assert_status(st, ST_INVALID);
            if (st != ST_OK || dr_diff_waits(diff))
                break;
            buf_clear(&ask);
            buf_clear(&nodes);
        }
        dr_diff_free(diff);
        buf_done(&ask);
        buf_done(&nodes);
        store_unpin(&ours);
        store_unpin(&theirs);
    }
    world_close(&w);
}

static void malformed_questions_are_refused(void **state)
{
    (void)state;
    struct world w;
    struct store_pin pin;
    struct buf nodes = {0};
    static const struct bytes bad[] = {
        BYTES(""),         BYTES("\0"),           BYTES("\1"),       BYTES("\1\0\2s"),
        BYTES("\1\0\4l/"), BYTES("\1\0\5s/"),     BYTES("\1\1\4s/"), BYTES("\2\0\4s/"),
        BYTES("\1\0\6s/"), BYTES("\1\0\4s/\0\0"), BYTES("\1\0\2s"),  BYTES("\1\0\xFF\xFF\x7Fs/"),
    };
    world_open(&w, 1);
    write_side(&w, &w.primary, 0);
    assert_status(store_pin(w.primary.m.store, "test", 0, &pin), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(dr_diff_answer(&pin, 0, bad[i], collect, &nodes), ST_INVALID);
    assert_status(dr_diff_answer(&pin, 0, BYTES("\1\0\4s/"), collect, &nodes), ST_OK);
    static const struct bytes bad_wants[] = {
        BYTES(""),
        BYTES("\1"),
        BYTES("\1\0\4l/"),
        BYTES("\2\0\4s/\2\2a"),  /* within the place before */
        BYTES("\2\0\6s/b\2\2a"), /* not ascending */
        BYTES("\2\0\7s/b\3\1"),  /* the same twice */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad_wants); i++) {
        struct dr_diff_parts parts = {0};
        assert_status(dr_diff_parts_add(&parts, bad_wants[i]), ST_INVALID);
        dr_diff_parts_done(&parts);
    }
    struct dr_diff_parts parts = {0};
    assert_status(dr_diff_parts_add(&parts, BYTES("\2\0\7s/b\3\2a")), ST_OK);
    assert_status(dr_diff_parts_add(&parts, BYTES("\0")), ST_OK);
    assert_status(dr_diff_parts_add(&parts, BYTES("\1\0\6s/b")), ST_INVALID);
    dr_diff_parts_done(&parts);
    buf_done(&nodes);
    store_unpin(&pin);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_that_fell_behind_becomes_the_same),
        cmocka_unit_test(states_that_went_apart_become_the_same),
        cmocka_unit_test(few_changes_move_few_bytes),
        cmocka_unit_test(damaged_answers_do_no_harm),
        cmocka_unit_test(malformed_questions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
