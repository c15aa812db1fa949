/* Applying entries: versions, preconditions, request ids, the staged tree. */
#include "dies.h"
#include "machine_world.h"

#include <stdio.h>

static int setup(void **state)
{
    static struct world w;
    world_open(&w);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    return 0;
}

static void each_kind_of_key_counts_versions_of_its_own(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    assert_int_equal(world_put(w, "s/a", "1"), RLOG_APPLIED);
    assert_versions(w, 1, 0);
    assert_int_equal(w->applied.version, 1);
    world_put(w, "l/a", "2");
    assert_versions(w, 1, 1);
    rlog_txn_put(&b, BYTES("s/b"), BYTES("3"));
    rlog_txn_put(&b, BYTES("s/c"), BYTES("4"));
    rlog_txn_put(&b, BYTES("l/b"), BYTES("5"));
    world_apply(w, &b);
    assert_versions(w, 2, 2);
    assert_int_equal(world_get(w, "s/b", NULL), 2);
    assert_int_equal(world_get(w, "s/c", NULL), 2);
    assert_int_equal(world_get(w, "l/a", NULL), 1);
    assert_int_equal(world_get(w, "l/b", NULL), 2);
    world_apply(w, &b); /* nothing */
    assert_versions(w, 2, 2);
    assert_int_equal(w->applied.outcome, RLOG_APPLIED);
    world_delete(w, "s/b");
    assert_absent(w, "s/b");
    assert_versions(w, 3, 2);
    world_delete(w, "s/b"); /* absent: still a change of the log's making */
    assert_versions(w, 4, 2);
}

static void a_prefix_is_deleted_whole(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    world_put(w, "s/d/1", "x");
    world_put(w, "s/d/2", "x");
    world_put(w, "s/e", "x");
    rlog_txn_delete_prefix(&b, BYTES("s/d/"));
    rlog_txn_put(&b, BYTES("s/d/3"), BYTES("after"));
    world_apply(w, &b);
    assert_absent(w, "s/d/1");
    assert_absent(w, "s/d/2");
    assert_value(w, "s/d/3", "after");
    assert_value(w, "s/e", "x");
}

static enum rlog_outcome put_if(struct world *w, const char *need, uint64_t version,
                                const char *put)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_need_key(&b, bytes_str(need), version);
    rlog_txn_put(&b, bytes_str(put), BYTES("done"));
    return world_apply(w, &b);
}

static void a_changed_key_conflicts_and_nothing_happens(void **state)
{
    struct world *w = *state;
    world_put(w, "s/a", "1");
    world_put(w, "s/a", "2");
    assert_int_equal(put_if(w, "s/a", 1, "s/x"), RLOG_CONFLICTED);
    assert_string_equal(w->conflict, "s/a");
    assert_int_equal(w->applied.version, 2);
    assert_absent(w, "s/x");
    assert_versions(w, 2, 0);
    assert_int_equal(put_if(w, "s/a", 0, "s/x"), RLOG_CONFLICTED);
    assert_int_equal(put_if(w, "s/a", 2, "s/x"), RLOG_APPLIED);
    assert_int_equal(put_if(w, "s/none", 0, "s/y"), RLOG_APPLIED);
    assert_int_equal(put_if(w, "s/none", 1, "s/z"), RLOG_CONFLICTED);
    world_delete(w, "s/a");
    assert_int_equal(put_if(w, "s/a", 2, "s/z"), RLOG_CONFLICTED);
    world_put(w, "s/a", "back");
    assert_int_equal(put_if(w, "s/a", 2, "s/z"), RLOG_CONFLICTED);
}

static void preconditions_of_local_keys_count_local_versions(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 5; i++)
        world_put(w, "s/a", "x");
    world_put(w, "l/a", "x");
    assert_int_equal(put_if(w, "l/a", 5, "s/x"), RLOG_CONFLICTED);
    assert_int_equal(put_if(w, "l/a", 1, "s/x"), RLOG_APPLIED);
}

static void a_transaction_sees_those_before_it_in_the_entry(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf first = {0}, second = {0};
    rlog_txn_put(&b, BYTES("s/a"), BYTES("1"));
    assert_status(rlog_txn_encode(&b, &first), ST_OK);
    rlog_txn_done(&b);
    rlog_txn_need_key(&b, BYTES("s/a"), 0);
    rlog_txn_put(&b, BYTES("s/a"), BYTES("2"));
    assert_status(rlog_txn_encode(&b, &second), ST_OK);
    rlog_txn_done(&b);
    world_apply_all(w, (struct bytes[]){buf_bytes(&first), buf_bytes(&second)}, 2);
    assert_int_equal(w->applied.outcome, RLOG_CONFLICTED);
    assert_value(w, "s/a", "1");
    buf_done(&first);
    buf_done(&second);
}

static void put_a(struct rlog_txn_builder *b)
{
    rlog_txn_put(b, BYTES("s/a"), BYTES("2"));
}

static void delete_a(struct rlog_txn_builder *b)
{
    rlog_txn_delete(b, BYTES("s/a"));
}

static void delete_above_a(struct rlog_txn_builder *b)
{
    rlog_txn_delete_prefix(b, BYTES("s/a"));
}

static void replace_all(struct rlog_txn_builder *b)
{
    rlog_txn_stage_begin(b);
    rlog_txn_stage_swap(b);
}

static void put_beside_a(struct rlog_txn_builder *b)
{
    rlog_txn_put(b, BYTES("s/ab"), BYTES("2"));
}

static void put_elsewhere(struct rlog_txn_builder *b)
{
    rlog_txn_put(b, BYTES("s/b"), BYTES("2"));
}

/* An entry of three transactions that all read s/a, or all below it; the one in the middle does
 * `op`, the last one puts s/last. */
static enum rlog_outcome last_of_three(struct world *w, bool below,
                                       void (*op)(struct rlog_txn_builder *b))
{
    struct buf txns[3] = {0};
    world_put(w, "s/a", "1");
    uint64_t version = world_get(w, "s/a", NULL);
    for (int i = 0; i < 3; i++) {
        struct rlog_txn_builder b = {0};
        if (below)
            rlog_txn_need_prefix(&b, BYTES("s/a"), version);
        else
            rlog_txn_need_key(&b, BYTES("s/a"), version);
        if (i == 1)
            op(&b);
        else
            rlog_txn_put(&b, i == 0 ? BYTES("s/first") : BYTES("s/last"), BYTES("x"));
        assert_status(rlog_txn_encode(&b, &txns[i]), ST_OK);
        rlog_txn_done(&b);
    }
    world_apply_all(
        w, (struct bytes[]){buf_bytes(&txns[0]), buf_bytes(&txns[1]), buf_bytes(&txns[2])}, 3);
    for (int i = 0; i < 3; i++)
        buf_done(&txns[i]);
    return w->applied.outcome;
}

static void what_held_for_one_is_looked_at_again_once_it_was_written(void **state)
{
    struct world *w = *state;
    assert_int_equal(last_of_three(w, false, put_beside_a), RLOG_APPLIED);
    assert_int_equal(last_of_three(w, false, put_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, false, delete_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, false, delete_above_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, false, replace_all), RLOG_CONFLICTED);
    world_delete(w, "s/ab");
    assert_int_equal(last_of_three(w, true, put_elsewhere), RLOG_APPLIED);
    assert_int_equal(last_of_three(w, true, put_beside_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, true, put_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, true, delete_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, true, delete_above_a), RLOG_CONFLICTED);
    assert_int_equal(last_of_three(w, true, replace_all), RLOG_CONFLICTED);
}

/* The one in the middle is not applied; the last one refers to it for what it needs, and for its
 * key in part. */
static void a_transaction_may_refer_to_one_that_conflicted(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf txns[3] = {0};
    static const char *const keys[] = {"s/secrets/1", "s/secrets/22", "s/secrets/3"};
    for (int i = 0; i < 3; i++) {
        rlog_txn_need_key(&b, bytes_str(keys[i]), i == 1 ? 9 : 0);
        rlog_txn_need_key(&b, BYTES("s/common"), 0);
        rlog_txn_put(&b, bytes_str(keys[i]), bytes_str(keys[i]));
        assert_status(rlog_txn_encode(&b, &txns[i]), ST_OK);
        rlog_txn_done(&b);
    }
    struct bytes all[] = {buf_bytes(&txns[0]), buf_bytes(&txns[1]), buf_bytes(&txns[2])};
    world_apply_all(w, all, 2);
    assert_int_equal(w->applied.outcome, RLOG_CONFLICTED);
    assert_string_equal(w->conflict, "s/secrets/22");
    world_delete(w, "s/secrets/1");
    world_apply_all(w, all, 3);
    assert_int_equal(w->applied.outcome, RLOG_APPLIED);
    assert_value(w, "s/secrets/1", "s/secrets/1");
    assert_absent(w, "s/secrets/22");
    assert_value(w, "s/secrets/3", "s/secrets/3");
    for (int i = 0; i < 3; i++)
        buf_done(&txns[i]);
}

static void a_staged_tree_may_be_named_by_reference(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf txns[2] = {0};
    rlog_txn_stage_begin(&b);
    world_apply(w, &b);
    for (int i = 0; i < 2; i++) {
        rlog_txn_need_stage(&b, w->m.stage);
        rlog_txn_stage_put(&b, i == 0 ? BYTES("s/1") : BYTES("s/2"), BYTES("x"), 1, 1);
        assert_status(rlog_txn_encode(&b, &txns[i]), ST_OK);
        rlog_txn_done(&b);
    }
    world_apply_all(w, (struct bytes[]){buf_bytes(&txns[0]), buf_bytes(&txns[1])}, 2);
    assert_int_equal(w->applied.outcome, RLOG_APPLIED);
    buf_done(&txns[0]);
    buf_done(&txns[1]);
}

static void put_retain(struct rlog_txn_builder *b, const char *key, const char *begin, size_t from,
                       size_t keep)
{
    uint8_t *room = rlog_txn_put_retain_room(b, bytes_str(key), strlen(begin),
                                             (struct store_retain){.from = from, .len = keep});
    assert_non_null(room);
    memcpy(room, begin, strlen(begin));
}

static void a_put_may_keep_bytes_of_what_is_there(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    world_put(w, "s/a", "0123456789");
    uint64_t created = world_get(w, "s/a", NULL);
    put_retain(&b, "s/a", "new ", 2, 3);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    assert_value(w, "s/a", "new 234");
    assert_true(world_get(w, "s/a", NULL) > created);
    put_retain(&b, "s/a", "x", 5, 100); /* as far as there is */
    world_apply(w, &b);
    assert_value(w, "s/a", "x34");
    put_retain(&b, "s/a", "y", 100, 1);
    world_apply(w, &b);
    assert_value(w, "s/a", "y");
    put_retain(&b, "s/absent", "z", 0, 5);
    world_apply(w, &b);
    assert_value(w, "s/absent", "z");
    put_retain(&b, "s/a", "b", 0, 9); /* twice in one entry */
    put_retain(&b, "s/a", "c", 0, 9);
    world_apply(w, &b);
    assert_value(w, "s/a", "cby");
    world_put(w, "s/a/1", "below");
    put_retain(&b, "s/a", "d", 1, 1);
    world_apply(w, &b);
    assert_value(w, "s/a", "db");
    assert_value(w, "s/a/1", "below");
}

static void what_is_kept_may_be_named_by_place(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf txns[2] = {0};
    world_put(w, "s/keys/1", "one");
    world_put(w, "s/keys/2", "two");
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "s/keys/1" : "s/keys/2";
        rlog_txn_need_key(&b, bytes_str(key), world_get(w, key, NULL));
        put_retain(&b, key, i == 0 ? "1" : "2", 0, 3);
        assert_status(rlog_txn_encode(&b, &txns[i]), ST_OK);
        rlog_txn_done(&b);
    }
    struct bytes both[] = {buf_bytes(&txns[0]), buf_bytes(&txns[1])};
    world_apply_all(w, both, 2);
    assert_value(w, "s/keys/1", "1one");
    assert_value(w, "s/keys/2", "2two");
    world_apply_all(w, both, 2); /* it is another value now */
    assert_int_equal(w->applied.outcome, RLOG_CONFLICTED);
    assert_value(w, "s/keys/2", "2two");
    buf_done(&txns[0]);
    buf_done(&txns[1]);
}

/* Read `prefix` now, let something happen, then commit. */
static enum rlog_outcome phantom(struct world *w, const char *prefix, const char *put,
                                 const char *del)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_need_prefix(&b, bytes_str(prefix), world_newest(w, prefix));
    rlog_txn_put(&b, BYTES("s/mine"), BYTES("x"));
    if (put != NULL)
        world_put(w, put, "x");
    if (del != NULL)
        world_delete(w, del);
    return world_apply(w, &b);
}

static void what_appears_or_vanishes_below_a_read_prefix_conflicts(void **state)
{
    struct world *w = *state;
    world_put(w, "s/d/1", "x");
    world_put(w, "s/d/2", "x");
    world_put(w, "s/e/1", "x");
    assert_int_equal(phantom(w, "s/d/", NULL, NULL), RLOG_APPLIED);
    assert_int_equal(phantom(w, "s/d/", "s/d/3", NULL), RLOG_CONFLICTED);
    assert_string_equal(w->conflict, "s/d/");
    assert_int_equal(phantom(w, "s/d/", NULL, "s/d/3"), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "s/d/", "s/d/1", NULL), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "s/d/", "s/e/2", NULL), RLOG_APPLIED);
    assert_int_equal(phantom(w, "s/d/", NULL, "s/d/1"), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "s/d/", NULL, "s/d/2"), RLOG_CONFLICTED); /* the last one */
    assert_int_equal(phantom(w, "s/d/", "s/d/1", NULL), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "s/", "s/z", NULL), RLOG_CONFLICTED);
}

static void the_first_key_of_an_empty_segment_is_a_phantom_too(void **state)
{
    struct world *w = *state;
    assert_int_equal(phantom(w, "l/", "l/a", NULL), RLOG_CONFLICTED);
    world_delete(w, "l/a");
    for (int i = 0; i < 50; i++) /* the other counter runs ahead */
        world_put(w, "s/a", "x");
    assert_int_equal(phantom(w, "l/none/", "l/none/a", NULL), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "l/none/", NULL, "l/none/a"), RLOG_CONFLICTED);
    assert_int_equal(phantom(w, "l/none/", "s/a", NULL), RLOG_APPLIED);
}

static void cluster_time_never_falls(void **state)
{
    struct world *w = *state;
    w->time_ms = 5000;
    world_put(w, "s/a", "x");
    assert_int_equal(w->m.time_ms, 5000);
    w->time_ms = 4000;
    world_put(w, "s/a", "x");
    assert_int_equal(w->m.time_ms, 5000);
    w->time_ms = 5001;
    world_put(w, "s/a", "x");
    assert_int_equal(w->m.time_ms, 5001);
}

static void readers_see_an_entry_whole(void **state)
{
    struct world *w = *state;
    struct store_pin pin;
    world_put(w, "s/a", "x");
    world_pin(w, &pin);
    assert_int_equal(pin.version, 1);
    store_unpin(&pin);
}

static struct rlog_request_id make_id(uint8_t n, uint64_t issued)
{
    return (struct rlog_request_id){{1, n}, issued};
}

static enum rlog_outcome put_with_id(struct world *w, struct rlog_request_id id, const char *key,
                                     struct bytes response)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_id(&b, &id, response);
    rlog_txn_put(&b, bytes_str(key), BYTES("x"));
    return world_apply(w, &b);
}

static void a_repeated_id_is_answered_and_not_applied(void **state)
{
    struct world *w = *state;
    world_put(w, "s/a", "x");
    assert_int_equal(put_with_id(w, make_id(1, 1), "s/a", BYTES("first answer")), RLOG_APPLIED);
    uint64_t version = w->applied.version;
    world_put(w, "s/b", "x");
    struct rlog_machine before = w->m;
    assert_int_equal(put_with_id(w, make_id(1, 1), "s/c", BYTES("other")), RLOG_REPEATED);
    assert_int_equal(w->applied.version, version);
    assert_string_equal(w->response, "first answer");
    assert_absent(w, "s/c");
    assert_memory_equal(&before, &w->m, sizeof before);
    assert_int_equal(put_with_id(w, make_id(2, 1), "s/c", BYTES("")), RLOG_APPLIED);
    assert_int_equal(put_with_id(w, make_id(2, 1), "s/c", BYTES("")), RLOG_REPEATED);
    assert_string_equal(w->response, "");
}

static void a_repeated_id_in_one_entry_is_noticed(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf txn = {0};
    struct rlog_request_id id = make_id(1, 0);
    rlog_txn_id(&b, &id, BYTES("r"));
    rlog_txn_put(&b, BYTES("s/a"), BYTES("x"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    world_apply_all(w, (struct bytes[]){buf_bytes(&txn), buf_bytes(&txn)}, 2);
    assert_int_equal(w->applied.outcome, RLOG_REPEATED);
    assert_versions(w, 1, 1);
    rlog_txn_done(&b);
    buf_done(&txn);
}

static void a_conflict_is_not_remembered(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct rlog_request_id id = make_id(1, 0);
    rlog_txn_id(&b, &id, BYTES("r"));
    rlog_txn_need_key(&b, BYTES("s/a"), 7);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_int_equal(put_with_id(w, id, "s/a", BYTES("r")), RLOG_APPLIED);
}

static void an_id_always_takes_a_version(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct rlog_request_id id = make_id(1, 0);
    rlog_txn_id(&b, &id, BYTES("r"));
    rlog_txn_put(&b, BYTES("l/a"), BYTES("x"));
    world_apply(w, &b);
    assert_versions(w, 1, 1);
    id = make_id(2, 0);
    rlog_txn_id(&b, &id, BYTES("r"));
    world_apply(w, &b);
    assert_versions(w, 2, 2);
}

static void an_id_from_the_future_is_of_unknown_outcome(void **state)
{
    struct world *w = *state;
    world_put(w, "s/a", "x");
    assert_int_equal(put_with_id(w, make_id(1, 2), "s/b", BYTES("")), RLOG_OUTCOME_UNKNOWN);
    assert_absent(w, "s/b");
    assert_versions(w, 1, 0);
}

/* Advance the version by `n` in entries of many transactions. */
static void advance(struct world *w, uint64_t n)
{
    struct rlog_txn_builder b = {0};
    struct buf txn = {0};
    struct bytes txns[4096];
    rlog_txn_put(&b, BYTES("s/counter"), BYTES("x"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    rlog_txn_done(&b);
    for (size_t i = 0; i < ARRAY_LEN(txns); i++)
        txns[i] = buf_bytes(&txn);
    for (; n > 0; n -= MIN(n, ARRAY_LEN(txns)))
        world_apply_all(w, txns, (unsigned)MIN(n, ARRAY_LEN(txns)));
    buf_done(&txn);
}

static unsigned count_below(struct world *w, const char *prefix)
{
    struct store_pin pin;
    struct store_iter iter;
    unsigned n = 0;
    world_pin(w, &pin);
    store_iter_init(&iter, &pin, bytes_str(prefix), BYTES(""));
    while (store_iter_next(&iter))
        n++;
    store_unpin(&pin);
    return n;
}

static void ids_are_kept_for_the_window_and_then_refused(void **state)
{
    struct world *w = *state;
    assert_int_equal(put_with_id(w, make_id(1, 0), "s/a", BYTES("one")), RLOG_APPLIED);
    assert_int_equal(put_with_id(w, make_id(2, 1), "s/a", BYTES("two")), RLOG_APPLIED);
    assert_int_equal(count_below(w, RLOG_REQUESTS), 4);
    advance(w, RLOG_ID_WINDOW - 1); /* the first is as old as may be */
    assert_int_equal(put_with_id(w, make_id(1, 0), "s/a", BYTES("")), RLOG_REPEATED);
    assert_string_equal(w->response, "one");
    advance(w, 1);
    assert_int_equal(put_with_id(w, make_id(1, 0), "s/a", BYTES("")), RLOG_OUTCOME_UNKNOWN);
    assert_int_equal(put_with_id(w, make_id(2, 1), "s/a", BYTES("")), RLOG_REPEATED);
    assert_int_equal(count_below(w, RLOG_REQUESTS), 2);
    assert_int_equal(w->m.id_bytes, 3);
    advance(w, 1);
    assert_int_equal(put_with_id(w, make_id(2, 1), "s/a", BYTES("")), RLOG_OUTCOME_UNKNOWN);
    assert_int_equal(count_below(w, RLOG_REQUESTS), 0);
    assert_int_equal(w->m.id_bytes, 0);
    /* Never applied, but nobody can tell any more. */
    assert_int_equal(put_with_id(w, make_id(9, 1), "s/a", BYTES("")), RLOG_OUTCOME_UNKNOWN);
    assert_int_equal(put_with_id(w, make_id(9, w->m.id_floor), "s/a", BYTES("")), RLOG_APPLIED);
}

static void long_responses_shorten_the_window(void **state)
{
    struct world *w = *state;
    uint8_t *big = mem_zalloc(RLOG_RESPONSE_MAX);
    unsigned n = RLOG_ID_BYTES_MAX / RLOG_RESPONSE_MAX + 10;
    assert_non_null(big);
    for (unsigned i = 0; i < n; i++) {
        struct rlog_request_id id = {{2, (uint8_t)i, (uint8_t)(i >> 8)}, w->m.version};
        assert_int_equal(put_with_id(w, id, "s/a", bytes_of(big, RLOG_RESPONSE_MAX)), RLOG_APPLIED);
        assert_true(w->m.id_bytes <= RLOG_ID_BYTES_MAX);
    }
    assert_int_equal(count_below(w, RLOG_REQUESTS), 2 * (n - 10));
    struct rlog_request_id id = {{2, 9, 0}, 9}; /* gone, though only just */
    assert_int_equal(put_with_id(w, id, "s/a", BYTES("")), RLOG_OUTCOME_UNKNOWN);
    id = (struct rlog_request_id){{2, 10, 0}, 10};
    assert_int_equal(put_with_id(w, id, "s/a", BYTES("")), RLOG_REPEATED);
    mem_free(big);
}

static void a_staged_tree_replaces_all_but_local_keys(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    world_put(w, "s/old", "x");
    world_put(w, "l/mine", "x");
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/new"), BYTES("n"), 1, 1);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    assert_true(w->m.staging);
    assert_absent(w, "s/new");
    assert_value(w, "s/old", "x");
    assert_versions(w, 1, 2);
    world_put(w, "s/old", "y"); /* life goes on meanwhile */
    rlog_txn_need_stage(&b, w->m.stage);
    rlog_txn_stage_put(&b, BYTES("s/second"), BYTES("n"), 1, 2);
    rlog_txn_stage_swap(&b);
    rlog_txn_put(&b, BYTES("l/swapped"), BYTES("yes"));
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    assert_false(w->m.staging);
    assert_absent(w, "s/old");
    assert_value(w, "s/new", "n");
    assert_value(w, "l/mine", "x");
    assert_value(w, "l/swapped", "yes");
    assert_int_equal(w->m.version, 3);
    assert_int_equal(world_get(w, "s/new", NULL), 1);
    assert_int_equal(phantom(w, "s/dir/", "s/dir/x", NULL), RLOG_CONFLICTED);
}

static void what_was_read_before_a_swap_conflicts_after_it(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0}, reader = {0};
    world_put(w, "s/d/1", "x");
    world_put(w, "s/d/2", "x");
    rlog_txn_need_prefix(&reader, BYTES("s/d/"), world_newest(w, "s/d/"));
    rlog_txn_put(&reader, BYTES("s/mine"), BYTES("x"));
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/d/1"), BYTES("x"), 1, 1);
    rlog_txn_stage_swap(&b);
    world_apply(w, &b);
    assert_int_equal(world_apply(w, &reader), RLOG_CONFLICTED);
}

static void the_version_passes_those_of_a_swapped_in_tree(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    world_put(w, "s/old", "x");
    assert_int_equal(put_with_id(w, make_id(1, 1), "s/a", BYTES("r")), RLOG_APPLIED);
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/new"), BYTES("n"), 900000000000, 1000000000000);
    rlog_txn_stage_swap(&b);
    world_apply(w, &b);
    assert_int_equal(w->m.version, 1000000000001);
    assert_int_equal(w->applied.version, 1000000000001);
    assert_int_equal(count_below(w, RLOG_REQUESTS), 0);
    assert_int_equal(put_with_id(w, make_id(1, 1), "s/a", BYTES("r")), RLOG_OUTCOME_UNKNOWN);
    world_put(w, "s/new", "m");
    assert_int_equal(world_get(w, "s/new", NULL), 1000000000002);
}

static void stage_operations_without_a_stage_conflict(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_put(&b, BYTES("s/a"), BYTES("x"), 1, 1);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_string_equal(w->conflict, "");
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    rlog_txn_stage_drop(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_drop(&b);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_false(w->m.staging);
    rlog_txn_stage_begin(&b);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    rlog_txn_need_stage(&b, w->m.stage);
    rlog_txn_stage_drop(&b);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    assert_false(w->m.staging);
    assert_int_equal(w->m.stage, 0);
}

static void a_staged_tree_that_is_not_named_is_left_alone(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_begin(&b);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    uint64_t stage = w->m.stage;
    assert_int_equal(w->applied.stage, stage);
    rlog_txn_stage_put(&b, BYTES("s/a"), BYTES("x"), 1, 1);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    rlog_txn_stage_drop(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_int_equal(w->applied.stage, stage);
    rlog_txn_need_stage(&b, stage + 1);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_int_equal(w->m.stage, stage);
}

static void of_two_writers_the_later_has_the_staged_tree(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    world_put(w, "s/old", "x");
    rlog_txn_stage_begin(&b);
    world_apply(w, &b);
    uint64_t first = w->applied.stage;
    rlog_txn_need_stage(&b, first);
    rlog_txn_stage_put(&b, BYTES("s/first"), BYTES("1"), 1, 1);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    rlog_txn_stage_begin(&b);
    world_apply(w, &b);
    uint64_t second = w->applied.stage;
    assert_int_not_equal(first, second);
    rlog_txn_need_stage(&b, first);
    rlog_txn_stage_put(&b, BYTES("s/first/2"), BYTES("1"), 1, 1);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    rlog_txn_need_stage(&b, first);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_CONFLICTED);
    assert_value(w, "s/old", "x");
    rlog_txn_need_stage(&b, second);
    rlog_txn_stage_put(&b, BYTES("s/second"), BYTES("2"), 1, 1);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(w, &b), RLOG_APPLIED);
    assert_value(w, "s/second", "2");
    assert_absent(w, "s/first");
    assert_absent(w, "s/old");
}

struct applying {
    struct world *w;
    struct bytes entry;
};

static void apply_entry(void *ctx)
{
    struct applying *a = ctx;
    rlog_machine_apply(&a->w->m, 77, a->entry, NULL, NULL);
}

static bool apply_dies(struct world *w, struct bytes entry, char ret_said[DIES_SAID])
{
    return dies(apply_entry, &(struct applying){w, entry}, ret_said);
}

static void an_entry_it_does_not_understand_stops_the_node(void **state)
{
    struct world *w = *state;
    struct rlog_txn_builder b = {0};
    struct buf txn = {0}, entry = {0};
    char said[DIES_SAID];
    rlog_txn_put(&b, BYTES("s/a"), BYTES("x"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_status(
        rlog_entry_encode(RLOG_FEATURE_FIRST, 1, &(struct bytes){txn.data, txn.len}, 1, &entry),
        ST_OK);
    assert_false(apply_dies(w, buf_bytes(&entry), said));
    entry.data[0] = 3;
    assert_true(apply_dies(w, buf_bytes(&entry), said));
    assert_non_null(strstr(said, "entry 77"));
    assert_non_null(strstr(said, "later version of this program"));
    entry.data[0] = 2;
    entry.data[entry.len - 1] ^= 1; /* the value: nothing to see */
    assert_false(apply_dies(w, buf_bytes(&entry), said));
    assert_true(apply_dies(w, bytes_of(entry.data, entry.len - 1), said));
    assert_non_null(strstr(said, "malformed"));
    rlog_txn_done(&b);
    buf_done(&txn);
    buf_done(&entry);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(each_kind_of_key_counts_versions_of_its_own),
        T(a_prefix_is_deleted_whole),
        T(a_changed_key_conflicts_and_nothing_happens),
        T(preconditions_of_local_keys_count_local_versions),
        T(a_transaction_sees_those_before_it_in_the_entry),
        T(a_transaction_may_refer_to_one_that_conflicted),
        T(a_staged_tree_may_be_named_by_reference),
        T(a_put_may_keep_bytes_of_what_is_there),
        T(what_is_kept_may_be_named_by_place),
        T(what_held_for_one_is_looked_at_again_once_it_was_written),
        T(what_appears_or_vanishes_below_a_read_prefix_conflicts),
        T(the_first_key_of_an_empty_segment_is_a_phantom_too),
        T(cluster_time_never_falls),
        T(readers_see_an_entry_whole),
        T(a_repeated_id_is_answered_and_not_applied),
        T(a_repeated_id_in_one_entry_is_noticed),
        T(a_conflict_is_not_remembered),
        T(an_id_always_takes_a_version),
        T(an_id_from_the_future_is_of_unknown_outcome),
        T(ids_are_kept_for_the_window_and_then_refused),
        T(long_responses_shorten_the_window),
        T(a_staged_tree_replaces_all_but_local_keys),
        T(what_was_read_before_a_swap_conflicts_after_it),
        T(the_version_passes_those_of_a_swapped_in_tree),
        T(stage_operations_without_a_stage_conflict),
        T(a_staged_tree_that_is_not_named_is_left_alone),
        T(of_two_writers_the_later_has_the_staged_tree),
        T(an_entry_it_does_not_understand_stops_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
