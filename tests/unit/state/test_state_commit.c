/* Commit, repeated requests, confirmation, initialisation, renewal of rings; between two threads.
 */
#include "state_world.h"

#include <stdio.h>

static struct state_world world;

static int setup_bare(void **state)
{
    sw_open(&world);
    *state = &world;
    return 0;
}

static int setup(void **state)
{
    (void)setup_bare(state);
    sw_init(&world);
    return 0;
}

static int teardown(void **state)
{
    sw_close(*state);
    return 0;
}

static void stage(struct state_world *w, struct state_txn *txn, const char *key)
{
    sw_begin(w, txn);
    assert_status(state_put(txn, bytes_str(key), BYTES("x")), ST_OK);
}

static void a_commit_needs_both_threads(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {.c.done = sw_on_commit};
    unsigned before = w->proposals;
    stage(w, &txn, "s/a");
    assert_status(state_commit(&txn, &s.c), ST_OK);
    state_end(&txn);
    fake_env_run(&w->worker);
    assert_int_equal(w->proposals, before); /* not on our thread */
    fake_env_run(&w->raft);
    assert_int_equal(w->proposals, before + 1);
    assert_int_equal(s.calls, 0); /* not on theirs */
    fake_env_run(&w->worker);
    assert_int_equal(s.calls, 1);
    assert_status(s.st, ST_OK);
    assert_int_equal(s.c.version, w->m.version);
    assert_false(s.c.repeated);
    state_commit_done(&s.c);
}

static void one_env_may_be_both(void **state)
{
    struct state_world *w = *state;
    w->log.env = &w->worker.env;
    sw_put(w, "s/a", "x");
    assert_int_equal(w->m.staging, 0);
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "x");
    state_end(&txn);
    w->log.env = &w->raft.env;
}

static void a_failure_of_the_log_is_told(void **state)
{
    struct state_world *w = *state;
    static const enum status all[] = {ST_NOT_LEADER, ST_BUSY,   ST_NO_SPACE,
                                      ST_TOO_BIG,    ST_CLOSED, ST_UNKNOWN_OUTCOME};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct state_txn txn;
        w->propose_status = all[i];
        stage(w, &txn, "s/a");
        assert_status(sw_commit(w, &txn), all[i]);
    }
    w->propose_status = ST_OK;
}

/* What the log is told about a commit that puts at "s/a" and "s/b". */
static bool full_state_takes(struct state_world *w, bool a_anyway, bool b_anyway)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status((a_anyway ? state_put_exempt : state_put)(&txn, BYTES("s/a"), BYTES("x")), ST_OK);
    assert_status((b_anyway ? state_put_exempt : state_put)(&txn, BYTES("s/b"), BYTES("x")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/c")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    return w->upkeep_seen;
}

static void a_full_state_takes_what_is_put_anyway_alone(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    assert_true(full_state_takes(w, true, true));
    assert_false(full_state_takes(w, true, false));
    assert_false(full_state_takes(w, false, true));
    assert_false(full_state_takes(w, false, false));
    sw_begin(w, &txn); /* what is left in the end counts */
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("x")), ST_OK);
    assert_status(state_delete(&txn, BYTES("s/a")), ST_OK);
    assert_status(state_put(&txn, BYTES("s/b"), BYTES("x")), ST_OK);
    assert_status(state_put_exempt(&txn, BYTES("s/b"), BYTES("y")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_true(w->upkeep_seen);
}

static void a_conflict_gives_a_ticket_for_the_next_try(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {0};
    sw_put(w, "s/a", "1");
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "1");
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("3")), ST_OK);
    sw_put(w, "s/a", "2");
    assert_status(sw_commit_with(w, &txn, &s), ST_CONFLICT);
    assert_int_equal(s.c.ticket, 77);
    assert_int_equal(s.c.version, w->m.version);
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "2");
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("3")), ST_OK);
    assert_status(sw_commit_with(w, &txn, &s), ST_OK);
    assert_int_equal(w->ticket_seen, 77);
    assert_int_equal(s.c.ticket, 0);
    state_commit_done(&s.c);
    sw_run(w);
    assert_int_equal(w->ticket_dropped, 0); /* it was used */
}

static void a_ticket_that_is_not_used_is_given_back(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {0};
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/a");
    assert_status(state_put(&txn, BYTES("s/b"), BYTES("x")), ST_OK);
    sw_put(w, "s/a", "x");
    assert_status(sw_commit_with(w, &txn, &s), ST_CONFLICT);
    state_commit_done(&s.c);
    assert_int_equal(w->ticket_dropped, 0);
    sw_run(w);
    assert_int_equal(w->ticket_dropped, 77);
}

/* Request ids */

static enum status commit_with_id(struct state_world *w, struct sw_commit *s, const char *key,
                                  struct bytes answer)
{
    struct state_txn txn;
    stage(w, &txn, key);
    s->c.answer = answer;
    return sw_commit_with(w, &txn, s);
}

static void a_repeated_request_gets_the_first_reply(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {.c.id = {{1, 2, 3}, 0}};
    assert_status(commit_with_id(w, &s, "s/a", BYTES("the first answer")), ST_OK);
    assert_false(s.c.repeated);
    uint64_t version = s.c.version;
    assert_null(memmem(w->last_txn.data, w->last_txn.len, "first", 5));
    sw_put(w, "s/other", "x");
    assert_status(commit_with_id(w, &s, "s/b", BYTES("another answer")), ST_OK);
    assert_true(s.c.repeated);
    assert_true(s.c.has_response);
    assert_bytes(s.c.response, BYTES("the first answer"));
    assert_int_equal(s.c.version, version);
    state_commit_done(&s.c);
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/b");
    state_end(&txn);
}

static void a_reply_too_long_to_keep_is_said_to_be_missing(void **state)
{
    struct state_world *w = *state;
    enum { MOST = RLOG_RESPONSE_MAX - BARRIER_OVERHEAD };
    uint8_t *big = mem_zalloc(MOST + 1);
    assert_non_null(big);
    struct sw_commit s = {.c.id = {{1}, 0}};
    assert_status(commit_with_id(w, &s, "s/a", bytes_of(big, MOST)), ST_OK);
    assert_status(commit_with_id(w, &s, "s/a", BYTES("")), ST_OK);
    assert_true(s.c.repeated && s.c.has_response);
    assert_int_equal(s.c.response.len, MOST);
    s.c.id.bytes[0] = 2;
    assert_status(commit_with_id(w, &s, "s/a", bytes_of(big, MOST + 1)), ST_OK);
    assert_status(commit_with_id(w, &s, "s/a", BYTES("")), ST_OK);
    assert_true(s.c.repeated);
    assert_false(s.c.has_response);
    s.c.id.bytes[0] = 3;
    assert_status(commit_with_id(w, &s, "s/a", BYTES("")), ST_OK);
    assert_status(commit_with_id(w, &s, "s/a", BYTES("")), ST_OK);
    assert_true(s.c.repeated && s.c.has_response);
    assert_int_equal(s.c.response.len, 0);
    state_commit_done(&s.c);
    mem_free(big);
}

static void an_id_nobody_remembers_is_of_unknown_outcome(void **state)
{
    struct state_world *w = *state;
    struct sw_commit s = {.c.id = {{1}, w->m.version + 1}};
    assert_status(commit_with_id(w, &s, "s/a", BYTES("")), ST_UNKNOWN_OUTCOME);
    state_commit_done(&s.c);
}

/* Reads and confirmation */

struct read_result {
    struct state_read read;
    struct state_confirm confirm;
    unsigned calls;
    enum status st;
};

static void on_read(struct state_read *read, enum status st)
{
    struct read_result *r = CONTAINER_OF(read, struct read_result, read);
    r->calls++;
    r->st = st;
}

static void on_confirm(struct state_confirm *confirm, enum status st)
{
    struct read_result *r = CONTAINER_OF(confirm, struct read_result, confirm);
    r->calls++;
    r->st = st;
}

static void a_read_asks_the_raft_thread_first(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct read_result r = {.read.done = on_read};
    state_read_begin(w->state, &r.read);
    fake_env_run(&w->worker);
    assert_int_equal(w->reads, 0);
    assert_int_equal(r.calls, 0);
    sw_run(w);
    assert_int_equal(r.calls, 1);
    assert_status(r.st, ST_OK);
    assert_true(r.read.confirmed);
    assert_int_equal(r.read.time_ms, 4711);
    assert_status(state_begin(w->state, &w->arena, &r.read, &txn), ST_OK);
    state_end(&txn);
    w->read_status = ST_NO_LEADER;
    state_read_begin(w->state, &r.read);
    sw_run(w);
    assert_status(r.st, ST_NO_LEADER);
    assert_false(r.read.confirmed);
    w->read_status = ST_OK;
}

static enum status confirm(struct state_world *w, struct state_txn *txn)
{
    struct read_result r = {.confirm.done = on_confirm};
    state_confirm(txn, &r.confirm);
    assert_int_equal(r.calls, 0);
    sw_run(w);
    assert_int_equal(r.calls, 1);
    state_end(txn);
    return r.st;
}

static void a_reply_is_confirmed_by_a_majority(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/a");
    unsigned before = w->reads;
    assert_status(confirm(w, &txn), ST_OK);
    assert_int_equal(w->reads, before + 1);
    sw_begin(w, &txn);
    w->read_status = ST_TIMEOUT;
    assert_status(confirm(w, &txn), ST_TIMEOUT);
    w->read_status = ST_OK;
}

static void a_reply_that_changed_meanwhile_is_not_confirmed(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_iter iter;
    sw_put(w, "s/d/1", "x");
    sw_begin(w, &txn);
    assert_gets(&txn, "s/d/1", "x");
    sw_put(w, "s/other", "x"); /* not read */
    assert_status(confirm(w, &txn), ST_OK);

    sw_begin(w, &txn);
    assert_gets(&txn, "s/d/1", "x");
    sw_put(w, "s/d/1", "y");
    assert_status(confirm(w, &txn), ST_CONFLICT);

    sw_begin(w, &txn);
    assert_gets_none(&txn, "s/d/2");
    sw_put(w, "s/d/2", "y");
    assert_status(confirm(w, &txn), ST_CONFLICT);

    sw_begin(w, &txn);
    assert_status(state_scan(&txn, BYTES("s/d/"), BYTES(""), &iter), ST_OK);
    sw_delete(w, "s/d/2");
    assert_status(confirm(w, &txn), ST_CONFLICT);
}

static void what_began_confirmed_needs_no_second_round(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct read_result r = {.read.done = on_read};
    state_read_begin(w->state, &r.read);
    sw_run(w);
    assert_status(state_begin(w->state, &w->arena, &r.read, &txn), ST_OK);
    assert_gets_none(&txn, "s/a");
    sw_put(w, "s/a", "later"); /* is in no order with the read */
    unsigned before = w->reads;
    assert_status(confirm(w, &txn), ST_OK);
    assert_int_equal(w->reads, before);
}

/* The barrier in the state */

static void a_cluster_is_initialised_once(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn, rival;
    struct state_init init, other;
    assert_status(state_is_initialized(w->m.store), ST_NOT_FOUND);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_NOT_FOUND);
    sw_begin(w, &txn);
    sw_begin(w, &rival);
    assert_status(state_init_begin(&txn, &w->seal, 500, &init), ST_OK);
    assert_status(state_init_begin(&rival, &w->seal, 500, &other), ST_OK);
    assert_status(state_put(&txn, BYTES("s/root"), BYTES("token")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(sw_commit(w, &rival), ST_CONFLICT);
    state_init_done(&init);
    state_init_done(&other);
    assert_true(barrier_is_sealed(w->barrier));
    assert_status(state_is_initialized(w->m.store), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_init_begin(&txn, &w->seal, 500, &init), ST_EXISTS);
    assert_false(state_staged(&txn));
    state_end(&txn);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    sw_begin(w, &txn);
    assert_gets(&txn, "s/root", "token");
    state_end(&txn);
}

static void a_sealed_node_neither_reads_nor_writes(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct state_value value;
    struct state_iter iter;
    struct bytes plain;
    sw_put(w, "s/a", "x");
    barrier_seal(w->barrier);
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_SEALED);
    assert_status(state_exists(&txn, BYTES("s/a")), ST_OK);
    assert_status(state_scan(&txn, BYTES("s/a"), BYTES(""), &iter), ST_OK);
    assert_true(state_iter_next(&iter));
    assert_status(state_iter_value(&iter, &plain), ST_SEALED);
    assert_status(state_put(&txn, BYTES("s/b"), BYTES("x")), ST_OK);
    unsigned before = w->proposals;
    assert_status(sw_commit(w, &txn), ST_SEALED);
    assert_int_equal(w->proposals, before);
}

static struct barrier_ring_info info_of(struct state_world *w, enum barrier_ring ring)
{
    struct barrier_ring_info info;
    assert_status(barrier_ring_info(w->barrier, ring, &info), ST_OK);
    return info;
}

static void rings_are_renewed_beside_commits(void **state)
{
    struct state_world *w = *state; /* whose first commit was made */
    assert_int_equal(info_of(w, BARRIER_SHARED).uses, BARRIER_USES_FIRST);
    assert_int_equal(info_of(w, BARRIER_LOCAL).uses, BARRIER_USES_FIRST);
    assert_false(barrier_upkeep_due(w->barrier, BARRIER_SHARED));
    barrier_seal(w->barrier); /* a restart: what was granted is gone */
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    unsigned before = w->proposals;
    state_upkeep(w->state);
    sw_run(w);
    assert_int_equal(w->proposals, before); /* nor is a new grant yet */
    w->propose_status = ST_NOT_LEADER;
    struct state_txn txn;
    stage(w, &txn, "s/a");
    assert_status(sw_commit(w, &txn), ST_NOT_LEADER);
    assert_true(barrier_upkeep_due(w->barrier, BARRIER_SHARED));
    w->propose_status = ST_OK;
    sw_put(w, "s/a", "x");
    assert_false(barrier_upkeep_due(w->barrier, BARRIER_SHARED));
    assert_int_equal(info_of(w, BARRIER_SHARED).uses, 2 * BARRIER_USES_FIRST);
    assert_true(state_idle(w->state));
}

/* Another node of the cluster: a barrier and a worker of its own over the same store. */
static void values_of_a_term_another_node_made_are_read(void **state)
{
    struct state_world *w = *state;
    CLEANUP(buf_done) struct buf record = {0};
    struct barrier *other_barrier = NULL;
    struct state *other = NULL;
    struct state_txn txn;
    assert_status(barrier_new(&other_barrier), ST_OK);
    assert_status(state_unseal(w->m.store, other_barrier, &w->seal, NULL), ST_OK);
    assert_status(state_new(&w->worker.env, &w->log, other_barrier, &other), ST_OK);

    assert_status(barrier_upkeep(w->barrier, &w->worker.env, BARRIER_SHARED, 0, 1, &record), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_put_raw(&txn, BYTES(BARRIER_KEYRING), buf_bytes(&record)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(state_follow(w->m.store, w->barrier), ST_OK);
    sw_put(w, "s/a", "of term two");
    assert_int_equal(info_of(w, BARRIER_SHARED).term, 2);

    assert_status(state_begin(other, &w->arena, NULL, &txn), ST_OK);
    assert_gets(&txn, "s/a", "of term two");
    state_end(&txn);
    state_free(other);
    barrier_free(other_barrier);
}

static void a_worker_freed_during_renewal_goes_after_it(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {.c.done = sw_on_commit};
    barrier_seal(w->barrier);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    stage(w, &txn, "s/a");
    assert_status(state_commit(&txn, &s.c), ST_OK);
    state_end(&txn);
    assert_false(state_idle(w->state));
    while (s.calls == 0)
        assert_true(fake_env_step(&w->worker) || fake_env_step(&w->raft));
    state_commit_done(&s.c);
    state_free(w->state);
    w->state = NULL;
    sw_run(w); /* a leak or a use after free would show */
}

static void a_renewal_that_ends_after_the_replica_leaves_it_alone(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct sw_commit s = {.c.done = sw_on_commit};
    barrier_seal(w->barrier);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    stage(w, &txn, "s/a");
    assert_status(state_commit(&txn, &s.c), ST_OK);
    state_end(&txn);
    while (fake_env_step(&w->raft))
        continue; /* committed; the worker has not heard of it */
    assert_false(state_idle(w->state));
    state_close(w->state);
    struct store *store = w->log.store;
    w->log.store = NULL; /* gone with the replica */
    sw_run(w);
    w->log.store = store;
    assert_int_equal(s.calls, 1);
    assert_true(state_idle(w->state));
    assert_true(barrier_upkeep_due(w->barrier, BARRIER_SHARED));
    state_commit_done(&s.c);
}

/* Memory */

static enum status everything(struct state_world *w, struct sw_commit *s)
{
    struct state_txn txn;
    struct state_iter iter;
    struct state_value value;
    struct arena arena = {0};
    struct bytes name;
    enum status st = state_begin(w->state, &arena, NULL, &txn);
    struct state_mark mark = state_mark(&txn);
    if (st == ST_OK)
        st = state_put(&txn, BYTES("s/n/a"), BYTES("x"));
    if (st == ST_OK)
        st = state_get(&txn, BYTES("s/n/b"), &value);
    if (st == ST_OK)
        st = state_scan(&txn, BYTES("s/n/"), BYTES(""), &iter);
    while (st == ST_OK)
        st = state_iter_name(&iter, &name);
    if (st == ST_NOT_FOUND)
        st = state_rollback(&txn, mark);
    if (st == ST_OK)
        st = state_delete_prefix(&txn, BYTES("s/gone/"));
    if (st == ST_OK)
        st = state_put(&txn, BYTES("s/n/b"), BYTES("y"));
    if (st == ST_OK)
        st = state_commit(&txn, &s->c);
    state_end(&txn);
    arena_done(&arena);
    if (st == ST_OK) {
        sw_run(w);
        st = s->st;
    }
    return st;
}

static void running_out_of_memory_is_told_and_harmless(void **state)
{
    struct state_world *w = *state;
    bool failed = true;
    sw_put(w, "s/n/b", "x");
    sw_put(w, "s/n/c/1", "x");
    for (uint64_t n = 1; failed; n++) {
        struct sw_commit s = {.c = {.done = sw_on_commit, .id = {{5, (uint8_t)n}, w->m.version}}};
        s.c.answer = BYTES("answer");
        (void)mem_fail_nth(n); /* arms it */
        enum status st = everything(w, &s);
        failed = mem_fail_nth(0);
        assert_true(st == ST_OK || (failed && st == ST_NOMEM));
        assert_true(failed || st == ST_OK);
        state_commit_done(&s.c);
        assert_true(n < 200);
    }
}

static void a_lost_read_forbids_the_commit(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct arena arena = {.bytes_max = 1500};
    enum status st = ST_NOT_FOUND;
    char key[16];
    assert_status(state_begin(w->state, &arena, NULL, &txn), ST_OK);
    for (int i = 0; st == ST_NOT_FOUND; i++) {
        (void)snprintf(key, sizeof key, "s/%d", i);
        st = state_exists(&txn, bytes_str(key));
    }
    assert_status(st, ST_NOMEM);
    assert_status(confirm(w, &txn), ST_NOMEM);
    assert_status(state_begin(w->state, &arena, NULL, &txn), ST_OK);
    assert_status(state_exists(&txn, bytes_str(key)), ST_NOMEM);
    assert_status(sw_commit(w, &txn), ST_NOMEM);
    arena_done(&arena);
}

/* Even what was decided without a look at anything: it is encrypted for a state that has gone. */
static void what_was_staged_before_a_restore_conflicts_after_it(void **state)
{
    struct state_world *w = *state;
    struct state_txn early, restore;
    sw_begin(w, &early);
    assert_status(state_put(&early, BYTES("s/blind"), BYTES("x")), ST_OK);
    sw_begin(w, &restore);
    assert_status(state_put_raw(&restore, BYTES(STATE_RESTORED), BYTES("mark")), ST_OK);
    assert_status(sw_commit(w, &restore), ST_OK);
    assert_status(sw_commit(w, &early), ST_CONFLICT);
    sw_put(w, "s/blind", "y");
    assert_true(barrier_restored(w->barrier) != 0); /* followed before anything was encrypted */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_commit_needs_both_threads),
        T(one_env_may_be_both),
        T(a_failure_of_the_log_is_told),
        T(a_full_state_takes_what_is_put_anyway_alone),
        T(a_conflict_gives_a_ticket_for_the_next_try),
        T(a_ticket_that_is_not_used_is_given_back),
        T(a_repeated_request_gets_the_first_reply),
        T(a_reply_too_long_to_keep_is_said_to_be_missing),
        T(an_id_nobody_remembers_is_of_unknown_outcome),
        T(a_read_asks_the_raft_thread_first),
        T(a_reply_is_confirmed_by_a_majority),
        T(a_reply_that_changed_meanwhile_is_not_confirmed),
        T(what_began_confirmed_needs_no_second_round),
        cmocka_unit_test_setup_teardown(a_cluster_is_initialised_once, setup_bare, teardown),
        T(a_sealed_node_neither_reads_nor_writes),
        T(rings_are_renewed_beside_commits),
        T(values_of_a_term_another_node_made_are_read),
        T(a_worker_freed_during_renewal_goes_after_it),
        T(a_renewal_that_ends_after_the_replica_leaves_it_alone),
        T(running_out_of_memory_is_told_and_harmless),
        T(a_lost_read_forbids_the_commit),
        T(what_was_staged_before_a_restore_conflicts_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
