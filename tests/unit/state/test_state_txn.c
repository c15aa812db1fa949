/* Transactions: own writes, preconditions, walks, rollback, limits. */
#include "state_world.h"

#include "raft/txn/rlog_txn_read.h"
#include "state/following.h"

#include <stdio.h>
#include <stdlib.h>

static struct state_world world;

static int setup(void **state)
{
    sw_open(&world);
    sw_init(&world);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    sw_close(*state);
    return 0;
}

static void a_transaction_sees_its_own_writes(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    sw_put(w, "s/a", "old");
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "old");
    assert_false(state_staged(&txn));
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("new")), ST_OK);
    assert_true(state_staged(&txn));
    assert_gets(&txn, "s/a", "new");
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
    assert_int_equal(value.modified, 0);
    assert_status(state_delete(&txn, BYTES("s/a")), ST_OK);
    assert_gets_none(&txn, "s/a");
    assert_status(state_exists(&txn, BYTES("s/a")), ST_NOT_FOUND);
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("")), ST_OK);
    assert_gets(&txn, "s/a", "");
    state_end(&txn);
    sw_begin(w, &txn); /* nothing of it happened */
    assert_gets(&txn, "s/a", "old");
    state_end(&txn);
}

static void a_committed_write_is_read_with_its_versions(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    sw_put(w, "s/a", "1");
    uint64_t first = w->m.version;
    sw_put(w, "s/a", "2");
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
    assert_bytes(value.value, BYTES("2"));
    assert_int_equal(value.created, first);
    assert_int_equal(value.modified, w->m.version);
    assert_int_equal(state_version(&txn), w->m.version);
    state_end(&txn);
    sw_put(w, "l/a", "local");
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("l/a"), &value), ST_OK);
    assert_bytes(value.value, BYTES("local"));
    assert_int_equal(value.modified, w->m.local_version);
    state_end(&txn);
}

/* Put a value of one letter at s/a with pieces [first, first + n) of the stored value as its
 * suffix: piece 0 is the present head. */
static void put_pieces(struct state_world *w, const char *value, size_t first, size_t n)
{
    CLEANUP(store_retain_done) struct store_retain_suffix suffix = {0};
    struct state_txn txn;
    struct state_value now;
    size_t one = 1 + BARRIER_OVERHEAD;
    sw_begin(w, &txn);
    if (n != 0)
        assert_status(state_get(&txn, BYTES("s/a"), &now), ST_OK);
    for (size_t i = first; i < first + n; i++)
        store_retain_add(&suffix, i == 0 ? now.stored.head
                                         : bytes_of(now.stored.suffix.data + (i - 1) * one, one));
    assert_status(state_put_retain(&txn, BYTES("s/a"), bytes_str(value), &suffix, false), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    state_end(&txn);
}

/* The letters of the value at s/a and of its suffix. */
static void assert_pieces(struct state_world *w, const char *wanted)
{
    struct state_txn txn;
    struct state_value value;
    struct bytes plain;
    char all[64];
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
    struct bytes suffix = value.stored.suffix;
    size_t n = 0, one = 1 + BARRIER_OVERHEAD;
    assert_int_equal(suffix.len % one, 0);
    assert_status(state_open(&txn, BYTES("s/a"), value.stored.head, &plain), ST_OK);
    all[n++] = (char)plain.data[0];
    for (size_t at = 0; at < suffix.len; at += one) {
        assert_status(state_open(&txn, BYTES("s/a"), bytes_of(suffix.data + at, one), &plain),
                      ST_OK);
        all[n++] = (char)plain.data[0];
    }
    all[n] = '\0';
    assert_string_equal(all, wanted);
    assert_bytes(value.value, bytes_of(wanted, 1));
    state_end(&txn);
}

static void earlier_values_may_stay_as_a_suffix(void **state)
{
    struct state_world *w = *state;
    put_pieces(w, "1", 0, 0);
    assert_pieces(w, "1");
    put_pieces(w, "2", 0, 1);
    assert_pieces(w, "21");
    put_pieces(w, "3", 0, 2);
    assert_pieces(w, "321");
    put_pieces(w, "4", 1, 1); /* in place of the newest, and without the oldest */
    assert_pieces(w, "42");
    put_pieces(w, "5", 0, 0);
    assert_pieces(w, "5");
}

static void pieces_that_are_no_range_stay_too(void **state)
{
    CLEANUP(store_retain_done) struct store_retain_suffix suffix = {0};
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    size_t one = 1 + BARRIER_OVERHEAD;
    put_pieces(w, "1", 0, 0);
    put_pieces(w, "2", 0, 1);
    put_pieces(w, "3", 0, 2);
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
    store_retain_add(&suffix, value.stored.head);
    store_retain_add(&suffix, bytes_from(value.stored.suffix, one));
    assert_status(state_put_retain(&txn, BYTES("s/a"), BYTES("4"), &suffix, true), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    state_end(&txn);
    assert_pieces(w, "431");
}

static void a_suffix_above_the_limit_is_refused(void **state)
{
    static const uint8_t far_too_much[STORE_RETAIN_SUFFIX_MAX + 1];
    struct store_retain_suffix suffix = {0};
    struct state_world *w = *state;
    struct state_txn txn;
    store_retain_add(&suffix, bytes_of(far_too_much, sizeof far_too_much));
    sw_begin(w, &txn);
    assert_status(state_put_retain(&txn, BYTES("s/a"), BYTES("8"), &suffix, true), ST_TOO_BIG);
    state_end(&txn);
}

/* Even if the transaction did not read the key itself: the range is of the version it saw. */
static void a_retained_range_is_a_precondition(void **state)
{
    struct store_retain_suffix suffix = {0};
    struct state_world *w = *state;
    struct state_txn reader, txn;
    struct state_value value;
    put_pieces(w, "1", 0, 0);
    sw_begin(w, &reader);
    sw_begin(w, &txn);
    assert_status(state_get(&reader, BYTES("s/a"), &value), ST_OK);
    store_retain_add(&suffix, value.stored.head);
    assert_status(state_put_retain(&txn, BYTES("s/a"), BYTES("3"), &suffix, false), ST_OK);
    put_pieces(w, "2", 0, 0);
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
    state_end(&txn);
    state_end(&reader);
    assert_pieces(w, "2");
}

static void a_cut_value_with_a_suffix_is_damage(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    sw_begin(w, &txn);
    assert_status(state_put_raw(&txn, BYTES("s/a"), BYTES("\x50\7\0\0\0 short")), ST_OK);
    assert_status(state_put_raw(&txn, BYTES("s/b"), BYTES("\x50\3\0\0\0 short")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_CORRUPT);
    assert_status(state_get(&txn, BYTES("s/b"), &value), ST_CORRUPT);
    state_end(&txn);
}

static void a_reader_keeps_its_version(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_put(w, "s/a", "before");
    sw_begin(w, &txn);
    sw_put(w, "s/a", "after");
    sw_put(w, "s/b", "after");
    assert_gets(&txn, "s/a", "before");
    assert_gets_none(&txn, "s/b");
    state_end(&txn);
}

static void what_is_stored_is_not_what_was_put(void **state)
{
    struct state_world *w = *state;
    struct store_pin pin;
    struct store_item item;
    sw_put(w, "s/a", "correct horse battery");
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    assert_status(store_get(&pin, BYTES("s/a"), &item), ST_OK);
    assert_int_equal(item.value.len, 21 + BARRIER_OVERHEAD);
    assert_null(memmem(item.value.data, item.value.len, "horse", 5));
    assert_null(memmem(w->last_txn.data, w->last_txn.len, "horse", 5));
    store_unpin(&pin);
}

static void a_value_moved_to_another_key_is_corrupt(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value raw;
    sw_put(w, "s/a", "value");
    sw_begin(w, &txn);
    assert_status(state_get_raw(&txn, BYTES("s/a"), &raw), ST_OK);
    assert_status(state_put_raw(&txn, BYTES("s/b"), raw.value), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/b"), &raw), ST_CORRUPT);
    assert_gets(&txn, "s/a", "value");
    state_end(&txn);
}

static size_t stored_len(struct state_world *w, struct bytes key)
{
    struct store_pin pin;
    struct store_item item;
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    assert_status(store_get(&pin, key, &item), ST_OK);
    store_unpin(&pin);
    return item.value.len;
}

static void put_names(struct state_world *w)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_put_name(&txn, BYTES("s/n/a"), false), ST_OK);
    assert_false(state_is_exempt(&txn));
    assert_status(state_put_name(&txn, BYTES("s/n/a"), true), ST_OK);
    assert_true(state_is_exempt(&txn));
    assert_gets(&txn, "s/n/a", ""); /* staged */
    assert_status(sw_commit(w, &txn), ST_OK);
}

static void assert_name(struct state_world *w, enum status st)
{
    struct state_txn txn;
    struct state_value value;
    sw_begin(w, &txn);
    assert_status(state_exists(&txn, BYTES("s/n/a")), ST_OK);
    assert_status(state_get(&txn, BYTES("s/n/a"), &value), st);
    assert_status(state_get_or_name(&txn, BYTES("s/n/a"), &value), ST_OK);
    assert_int_equal(value.value.len, 0);
    assert_true(value.modified != 0);
    state_end(&txn);
}

static void a_key_that_says_everything_is_not_encrypted_from_its_level_on(void **state)
{
    struct state_world *w = *state;
    put_names(w);
    assert_int_equal(stored_len(w, BYTES("s/n/a")), BARRIER_OVERHEAD);
    assert_name(w, ST_OK);
    sw_raise(w);
    put_names(w);
    assert_int_equal(stored_len(w, BYTES("s/n/a")), 0);
    assert_name(w, ST_CORRUPT); /* no other reader takes what is not encrypted */
}

static void a_key_staged_below_its_level_conflicts_with_the_raise(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_put_name(&txn, BYTES("s/n/a"), false), ST_OK);
    sw_raise(w);
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
}

static void preconditions_come_in_the_order_of_the_reads(void **state)
{
    static const char *const keys[] = {STATE_RESTORED, STATE_SYNCED, "s/z", "s/a", "s/m"};
    struct state_world *w = *state;
    struct state_txn txn;
    struct rlog_txn_view view;
    struct rlog_need need;
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/z");
    assert_gets_none(&txn, "s/a");
    assert_gets_none(&txn, "s/z");
    assert_gets_none(&txn, "s/m");
    assert_status(state_put(&txn, BYTES("s/b"), BYTES("1")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(rlog_txn_open(buf_bytes(&w->last_txn), &view), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        assert_status(rlog_need_next(&view.needs, &need), ST_OK);
        assert_bytes(need.key, bytes_str(keys[i]));
    }
    assert_status(rlog_need_next(&view.needs, &need), ST_NOT_FOUND);
}

static void who_only_looks_records_nothing(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    uint64_t newest;
    sw_put(w, "s/d/a", "1");
    sw_begin_looking(w, &txn);
    assert_true(state_is_read_only(&txn));
    assert_gets(&txn, "s/d/a", "1");
    assert_gets_none(&txn, "s/d/b");
    assert_status(state_newest(&txn, BYTES("s/d/"), &newest), ST_OK);
    assert_int_equal(newest, w->m.version);
    assert_status(state_scan(&txn, BYTES("s/d/"), BYTES(""), &iter), ST_OK);
    assert_true(state_iter_next(&iter));
    assert_int_equal(txn.keys.n + txn.prefixes.n, 0);
    state_end(&txn);
}

static void equal_views_are_of_one_state(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn, same, recorded, later;
    sw_put(w, "s/a", "1");
    sw_begin_looking(w, &txn);
    sw_begin_looking(w, &same);
    sw_begin(w, &recorded);
    assert_int_not_equal(state_view(&txn), 0);
    assert_int_equal(state_view(&same), state_view(&txn));
    assert_int_equal(state_view(&recorded), 0);
    sw_put(w, "l/b", "1");
    sw_begin_looking(w, &later);
    assert_int_not_equal(state_view(&later), 0);
    assert_int_not_equal(state_view(&later), state_view(&txn));
    assert_status(state_put(&same, BYTES("s/a"), BYTES("2")), ST_OK);
    assert_int_equal(state_view(&same), 0); /* it sees what it staged */
    state_end(&txn);
    state_end(&same);
    state_end(&recorded);
    state_end(&later);
}

/* Preconditions */

static void a_key_that_was_read_and_changed_conflicts(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_put(w, "s/a", "1");
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "1");
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    sw_put(w, "s/a", "2");
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/x");
    assert_gets_none(&txn, "s/none");
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    sw_put(w, "s/none", "appeared");
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
    sw_begin(w, &txn);
    assert_status(state_exists(&txn, BYTES("s/a")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    sw_delete(w, "s/a");
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
}

static void what_was_not_read_does_not_conflict(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    sw_begin(w, &txn);
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("mine")), ST_OK);
    assert_gets(&txn, "s/a", "mine"); /* its own: not a read of the state */
    assert_status(state_delete_prefix(&txn, BYTES("s/d/")), ST_OK);
    assert_status(state_get(&txn, BYTES("s/d/1"), &value), ST_NOT_FOUND);
    sw_put(w, "s/a", "theirs");
    sw_put(w, "s/d/1", "theirs");
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "mine");
    assert_gets_none(&txn, "s/d/1");
    state_end(&txn);
}

static void a_count_is_of_the_pinned_state_and_no_precondition(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_put(w, "s/d/1", "x");
    sw_put(w, "s/d/2", "x");
    sw_put(w, "s/e", "x");
    sw_begin(w, &txn);
    assert_status(state_put(&txn, BYTES("s/d/3"), BYTES("x")), ST_OK);
    sw_put(w, "s/d/4", "x");
    assert_int_equal(state_count(&txn, BYTES("s/d/")), 2);
    assert_int_equal(state_count(&txn, BYTES("s/d/1")), 1);
    assert_int_equal(state_count(&txn, BYTES("s/d/3")), 0);
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_int_equal(state_count(&txn, BYTES("s/d/")), 4);
    state_end(&txn);
}

static void a_walk_skips_what_begins_with_a_prefix(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    static struct state_walk walk;
    sw_put(w, "s/d/1", "x");
    sw_put(w, "s/d/2", "x");
    sw_put(w, "s/e", "x");
    sw_begin(w, &txn);
    state_walk(&txn, BYTES("s/d"), &walk);
    assert_true(state_walk_next(&walk));
    state_walk_skip(&walk, BYTES("s/d/"));
    assert_false(state_walk_next(&walk));
    state_walk_from(&txn, BYTES("s/"), BYTES("s/d/"), &walk);
    assert_true(state_walk_next(&walk));
    state_walk_skip(&walk, BYTES("s/d/"));
    assert_true(state_walk_next(&walk));
    assert_int_equal(bytes_cmp(walk.key, BYTES("s/e")), 0);
    state_end(&txn);
}

static void a_scanned_prefix_that_changed_conflicts(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    static const char *const changes[] = {"s/d/0", "s/d/1", "s/d/9"};
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        sw_put(w, "s/d/1", "x");
        sw_begin(w, &txn);
        assert_status(state_scan(&txn, BYTES("s/d/"), BYTES("s/d/5"), &iter), ST_OK);
        assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
        sw_put(w, changes[i], "x");
        assert_status(sw_commit(w, &txn), ST_CONFLICT);
    }
    sw_begin(w, &txn);
    assert_status(state_scan(&txn, BYTES("s/d/"), BYTES(""), &iter), ST_OK);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    sw_put(w, "s/e", "x");
    assert_status(sw_commit(w, &txn), ST_OK);
}

static void reads_below_a_scanned_prefix_cost_one_precondition(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    char key[32];
    for (int i = 0; i < 20; i++) {
        (void)snprintf(key, sizeof key, "s/d/%02d", i);
        sw_put(w, key, "x");
    }
    sw_begin(w, &txn);
    assert_status(state_scan(&txn, BYTES("s/d/1"), BYTES(""), &iter), ST_OK);
    assert_status(state_scan(&txn, BYTES("s/d/"), BYTES(""), &iter), ST_OK);
    assert_status(state_scan(&txn, BYTES("s/d/0"), BYTES(""), &iter), ST_OK);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(key, sizeof key, "s/d/%02d", i);
        assert_status(state_exists(&txn, bytes_str(key)), ST_OK);
    }
    assert_int_equal(txn.keys.n, 0);
    assert_int_equal(txn.prefixes.n, 1);
    assert_status(state_exists(&txn, BYTES("s/e")), ST_NOT_FOUND);
    assert_status(state_exists(&txn, BYTES("s/e")), ST_NOT_FOUND);
    assert_int_equal(txn.keys.n, 1);
    state_end(&txn);
}

static void the_newest_version_below_a_prefix_is_a_read_too(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    uint64_t newest = 0;
    sw_put(w, "s/d/1", "x");
    uint64_t version = w->m.version;
    sw_put(w, "s/e", "x");
    sw_begin(w, &txn);
    assert_status(state_newest(&txn, BYTES("s/d/"), &newest), ST_OK);
    assert_int_equal(newest, version);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    sw_put(w, "s/d/2", "x");
    assert_status(sw_commit(w, &txn), ST_CONFLICT);
}

/* Walks */

/* Keys of a walk, joined by spaces, without their common start. */
static const char *walk(struct state_txn *txn, const char *prefix, const char *from)
{
    static char out[512];
    struct state_iter iter;
    out[0] = '\0';
    assert_status(state_scan(txn, bytes_str(prefix), bytes_str(from), &iter), ST_OK);
    while (state_iter_next(&iter)) {
        struct bytes value;
        assert_status(state_iter_value(&iter, &value), ST_OK);
        size_t n = strlen(out);
        (void)snprintf(out + n, sizeof out - n, "%s%.*s=%.*s", n > 0 ? " " : "",
                       (int)(iter.key.len - strlen(prefix)),
                       (const char *)iter.key.data + strlen(prefix), (int)value.len,
                       (const char *)value.data);
    }
    return out;
}

static void a_walk_shows_staged_writes_in_their_place(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_put(w, "s/d/b", "1");
    sw_put(w, "s/d/d", "2");
    sw_put(w, "s/d/f", "3");
    sw_put(w, "s/e", "4");
    sw_begin(w, &txn);
    assert_string_equal(walk(&txn, "s/d/", ""), "b=1 d=2 f=3");
    assert_string_equal(walk(&txn, "s/d/", "s/d/c"), "d=2 f=3");
    assert_string_equal(walk(&txn, "s/d/", "s/d/d"), "d=2 f=3");
    assert_string_equal(walk(&txn, "s/d/", "s/d/g"), "");
    assert_string_equal(walk(&txn, "s/d/", "s/a"), "b=1 d=2 f=3");
    assert_string_equal(walk(&txn, "s/d/", "s/z"), "");
    assert_status(state_put(&txn, BYTES("s/d/a"), BYTES("A")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/d"), BYTES("D")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/e"), BYTES("E")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/g"), BYTES("G")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/d/f")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/d/none")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d"), BYTES("outside")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d0"), BYTES("outside")), ST_OK);
    assert_string_equal(walk(&txn, "s/d/", ""), "a=A b=1 d=D e=E g=G");
    assert_string_equal(walk(&txn, "s/d/", "s/d/c"), "d=D e=E g=G");
    assert_status(state_delete_prefix(&txn, BYTES("s/d/")), ST_OK);
    assert_string_equal(walk(&txn, "s/d/", ""), "");
    assert_status(state_put(&txn, BYTES("s/d/d"), BYTES("again")), ST_OK);
    assert_string_equal(walk(&txn, "s/d/", ""), "d=again");
    assert_string_equal(walk(&txn, "s/d", ""), "=outside /d=again 0=outside");
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_string_equal(walk(&txn, "s/d", ""), "=outside /d=again 0=outside");
    state_end(&txn);
}

static void what_is_staged_during_a_walk_is_met_ahead_of_it(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    sw_put(w, "s/d/b", "1");
    sw_put(w, "s/d/d", "2");
    sw_put(w, "s/d/f", "3");
    sw_put(w, "s/d/g/1", "4");
    sw_put(w, "s/d/h", "5");
    sw_begin(w, &txn);
    assert_status(state_scan(&txn, BYTES("s/d/"), BYTES(""), &iter), ST_OK);
    assert_true(state_iter_next(&iter));
    assert_bytes(iter.key, BYTES("s/d/b"));
    assert_status(state_put(&txn, BYTES("s/d/a"), BYTES("behind")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/c"), BYTES("ahead")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/d/d")), ST_OK);
    assert_true(state_iter_next(&iter));
    assert_bytes(iter.key, BYTES("s/d/c"));
    assert_status(state_delete(&txn, BYTES("s/d/c")), ST_OK); /* the current one */
    assert_true(state_iter_next(&iter));
    assert_bytes(iter.key, BYTES("s/d/f"));
    assert_status(state_delete_prefix(&txn, BYTES("s/d/g/")), ST_OK);
    assert_true(state_iter_next(&iter));
    assert_bytes(iter.key, BYTES("s/d/h"));
    assert_false(state_iter_next(&iter));
    assert_false(state_iter_next(&iter));
    state_end(&txn);
}

static const char *list(struct state_txn *txn, const char *prefix)
{
    static char out[512];
    struct state_iter iter;
    struct bytes name;
    enum status st;
    out[0] = '\0';
    assert_status(state_scan(txn, bytes_str(prefix), BYTES(""), &iter), ST_OK);
    while ((st = state_iter_name(&iter, &name)) == ST_OK) {
        size_t n = strlen(out);
        (void)snprintf(out + n, sizeof out - n, "%s%.*s", n > 0 ? " " : "", (int)name.len,
                       (const char *)name.data);
    }
    assert_status(st, ST_NOT_FOUND);
    return out;
}

static void a_listing_folds_folders(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    static const char *const keys[] = {"s/d/",    "s/d/a",     "s/d/a/1", "s/d/a/2/x",
                                       "s/d/a/3", "s/d/a-z",   "s/d/b/1", "s/d/c",
                                       "s/d/e//", "s/d/e//x/", "s/d0"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        sw_put(w, keys[i], "x");
    sw_begin(w, &txn);
    assert_string_equal(list(&txn, "s/d/"), "a a-z a/ b/ c e/");
    assert_string_equal(list(&txn, "s/d/a/"), "1 2/ 3");
    assert_string_equal(list(&txn, "s/d/e/"), "/");
    assert_string_equal(list(&txn, "s/d/none/"), "");
    assert_status(state_put(&txn, BYTES("s/d/a/0"), BYTES("x")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/b/0"), BYTES("x")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/bb/0"), BYTES("x")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/bb/1"), BYTES("x")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/z"), BYTES("x")), ST_OK);
    assert_string_equal(list(&txn, "s/d/"), "a a-z a/ b/ bb/ c e/ z");
    assert_status(state_delete(&txn, BYTES("s/d/b/0")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/d/b/1")), ST_OK);
    assert_status(state_delete_prefix(&txn, BYTES("s/d/a/")), ST_OK);
    assert_string_equal(list(&txn, "s/d/"), "a a-z bb/ c e/ z");
    state_end(&txn);
}

static void the_segments_own_keys_are_not_shown(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    unsigned n = 0;
    sw_begin(w, &txn);
    assert_status(state_scan(&txn, BYTES("s/"), BYTES(""), &iter), ST_OK);
    for (; state_iter_next(&iter); n++)
        assert_true(iter.key.len > 2);
    assert_int_equal(n, 3); /* keyring, salt, seal */
    assert_string_equal(list(&txn, "s/"), "core/");
    state_end(&txn);
}

/* Limits and misuse */

static void what_is_no_key_is_refused(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    struct state_iter iter;
    uint64_t version;
    uint8_t *big = mem_zalloc(STATE_KEY_MAX + 1);
    assert_non_null(big);
    memcpy(big, "s/", 2);
    struct bytes bad[] = {BYTES(""),
                          BYTES("s"),
                          BYTES("s/"),
                          BYTES("a/b"),
                          BYTES("l/req/ix"),
                          BYTES("l/"),
                          {big, STATE_KEY_MAX + 1}};
    sw_begin(w, &txn);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_status(state_get(&txn, bad[i], &value), ST_INVALID);
        assert_status(state_exists(&txn, bad[i]), ST_INVALID);
        assert_status(state_put(&txn, bad[i], BYTES("x")), ST_INVALID);
        assert_status(state_delete(&txn, bad[i]), ST_INVALID);
        assert_status(state_delete_prefix(&txn, bad[i]), ST_INVALID);
    }
    assert_status(state_delete_prefix(&txn, BYTES("l/r")), ST_INVALID);
    assert_status(state_scan(&txn, BYTES("s"), BYTES(""), &iter), ST_INVALID);
    assert_status(state_scan(&txn, bytes_of(big, STATE_KEY_MAX + 1), BYTES(""), &iter), ST_INVALID);
    assert_status(state_scan(&txn, BYTES("s/"), bytes_of(big, STATE_KEY_MAX + 1), &iter),
                  ST_INVALID);
    assert_status(state_newest(&txn, BYTES(""), &version), ST_INVALID);
    assert_false(state_staged(&txn));
    assert_status(state_put(&txn, bytes_of(big, STATE_KEY_MAX), BYTES("x")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    mem_free(big);
}

static void values_and_transactions_are_bounded(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    char key[16];
    uint8_t *big = mem_zalloc(STATE_VALUE_MAX + 1);
    assert_non_null(big);
    sw_begin(w, &txn);
    assert_status(state_put(&txn, BYTES("s/a"), bytes_of(big, STATE_VALUE_MAX + 1)), ST_TOO_BIG);
    assert_false(state_staged(&txn));
    assert_status(state_put(&txn, BYTES("s/a"), bytes_of(big, STATE_VALUE_MAX)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
    assert_int_equal(value.value.len, STATE_VALUE_MAX);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(key, sizeof key, "s/%d", i);
        assert_status(state_put(&txn, bytes_str(key), bytes_of(big, STATE_VALUE_MAX)), ST_OK);
    }
    assert_status(sw_commit(w, &txn), ST_TOO_BIG);
    mem_free(big);
}

static void going_back_drops_what_was_staged_since(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_put(w, "s/d/1", "1");
    sw_begin(w, &txn);
    struct state_mark start = state_mark(&txn);
    assert_status(state_put(&txn, BYTES("s/used"), BYTES("count")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/d/2"), BYTES("2")), ST_OK);
    struct state_mark mark = state_mark(&txn);
    assert_status(state_put(&txn, BYTES("s/used"), BYTES("changed")), ST_OK);
    assert_status(state_delete_prefix(&txn, BYTES("s/d/")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    assert_gets_none(&txn, "s/y"); /* a read stays */
    assert_status(state_rollback(&txn, mark), ST_OK);
    assert_gets(&txn, "s/used", "count");
    assert_string_equal(walk(&txn, "s/d/", ""), "1=1 2=2");
    assert_gets_none(&txn, "s/x");
    assert_status(state_put(&txn, BYTES("s/z"), BYTES("z")), ST_OK);
    assert_status(state_rollback(&txn, mark), ST_OK);
    assert_gets_none(&txn, "s/z");
    sw_put(w, "s/y", "appeared");
    assert_status(sw_commit(w, &txn), ST_CONFLICT);

    sw_begin(w, &txn);
    start = state_mark(&txn);
    assert_status(state_put(&txn, BYTES("s/x"), BYTES("x")), ST_OK);
    assert_status(state_rollback(&txn, start), ST_OK);
    assert_false(state_staged(&txn));
    assert_status(state_put(&txn, BYTES("s/v"), BYTES("v")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/x");
    assert_gets(&txn, "s/v", "v");
    state_end(&txn);
}

static void ending_twice_is_allowed(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_begin(w, &txn);
    state_end(&txn);
    state_end(&txn);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_transaction_sees_its_own_writes),
        T(a_committed_write_is_read_with_its_versions),
        T(a_reader_keeps_its_version),
        T(earlier_values_may_stay_as_a_suffix),
        T(pieces_that_are_no_range_stay_too),
        T(a_suffix_above_the_limit_is_refused),
        T(a_retained_range_is_a_precondition),
        T(a_cut_value_with_a_suffix_is_damage),
        T(who_only_looks_records_nothing),
        T(equal_views_are_of_one_state),
        T(what_is_stored_is_not_what_was_put),
        T(a_value_moved_to_another_key_is_corrupt),
        T(a_key_that_says_everything_is_not_encrypted_from_its_level_on),
        T(a_key_staged_below_its_level_conflicts_with_the_raise),
        T(preconditions_come_in_the_order_of_the_reads),
        T(a_key_that_was_read_and_changed_conflicts),
        T(what_was_not_read_does_not_conflict),
        T(a_count_is_of_the_pinned_state_and_no_precondition),
        T(a_walk_skips_what_begins_with_a_prefix),
        T(a_scanned_prefix_that_changed_conflicts),
        T(reads_below_a_scanned_prefix_cost_one_precondition),
        T(the_newest_version_below_a_prefix_is_a_read_too),
        T(a_walk_shows_staged_writes_in_their_place),
        T(what_is_staged_during_a_walk_is_met_ahead_of_it),
        T(a_listing_folds_folders),
        T(the_segments_own_keys_are_not_shown),
        T(what_is_no_key_is_refused),
        T(values_and_transactions_are_bounded),
        T(going_back_drops_what_was_staged_since),
        T(ending_twice_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
