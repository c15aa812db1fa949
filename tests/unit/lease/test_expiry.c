/* The expiry index: order, what cannot be followed, unfinished work, keys of builds before. */
#include "lease/expiry.h"
#include "state/ns_key.h"
#include "state/state_world.h"
#include "text/value.h"

#include <stdio.h>

enum { NOW_MS = 1000000, HOUR_MS = 3600 * 1000 };

#define NEW "s/expire/"
#define UNFINISHED "s/unfinished/"
#define FORMER "s/ns/root/eggend/"
#define FORMER_MARKS "s/ns/root/eggmark/"

static struct state_world world;
static struct expiry_counts counts;
static char ended[4096]; /* ids in the order of their ends */

/* The record of a thing is the time of its end. */
static enum status record_key(struct state_txn *txn, const char *ns, const char *id,
                              struct bytes *ret_key)
{
    return state_ns_key(txn->arena, ns, "thing", bytes_str(id), NULL, ret_key);
}

static enum status thing_end(const struct expiry_task *task)
{
    struct state_value stored;
    struct bytes key;
    int64_t end_ms;
    TRY(record_key(task->txn, task->ns, task->id, &key));
    TRY(state_get(task->txn, key, &stored));
    TRY(state_delete(task->txn, key));
    if (text_int_parse(stored.value, &end_ms) != ST_OK)
        return ST_CORRUPT;
    if (end_ms > task->now_ms) {
        TRY(state_put_exempt(task->txn, key, stored.value));
        return ST_NOT_FOUND;
    }
    if (strlen(ended) + strlen(task->id) + 2 <= sizeof ended) {
        (void)strcat(ended, task->id);
        (void)strcat(ended, " ");
    }
    return ST_OK;
}

static enum status egg_go_on(const struct expiry_task *task, unsigned *steps);

static const struct expiry_kind egg = {.name = "egg",
                                       .former_end = "eggend",
                                       .former_mark = "eggmark",
                                       .end = thing_end,
                                       .go_on = egg_go_on};
static const struct expiry_kind fig = {.name = "fig", .former_end = "figend", .end = thing_end};
static const struct expiry_kinds kinds = {.items = {&egg, &fig}, .n = 2, .counts = &counts};

/* The work of a mark takes as many steps as its value says. */
static enum status egg_go_on(const struct expiry_task *task, unsigned *steps)
{
    struct state_value stored;
    struct bytes mark;
    int64_t work;
    char text[24];
    TRY(expiry_mark_key(task->txn, &egg, task->ns, task->id, &mark));
    TRY(state_get(task->txn, mark, &stored));
    TRY(state_put_exempt(task->txn, BYTES("s/ns/root/thing/touched"), BYTES("1")));
    if (text_int_parse(stored.value, &work) != ST_OK)
        return ST_CORRUPT;
    int64_t now = MIN(work, (int64_t)*steps);
    *steps -= (unsigned)now;
    if (now == work)
        return state_delete(task->txn, mark);
    (void)snprintf(text, sizeof text, "%lld", (long long)(work - now));
    return state_put_exempt(task->txn, mark, bytes_str(text));
}

static int open_former(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    memset(&counts, 0, sizeof counts);
    ended[0] = '\0';
    return 0;
}

static int open_raised(void **ctx)
{
    (void)open_former(ctx);
    sw_raise(&world);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static void stage_thing(struct state_txn *txn, const struct expiry_kind *kind, const char *ns,
                        const char *id, int64_t end_ms)
{
    struct bytes key;
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)end_ms);
    assert_status(record_key(txn, ns, id, &key), ST_OK);
    assert_status(state_put(txn, key, bytes_str(text)), ST_OK);
    assert_status(expiry_put(txn, kind, ns, end_ms, id), ST_OK);
}

static void make_in(const struct expiry_kind *kind, const char *ns, const char *id, int64_t end_ms)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    stage_thing(&txn, kind, ns, id, end_ms);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void make(const struct expiry_kind *kind, const char *id, int64_t end_ms)
{
    make_in(kind, STATE_NS_ROOT, id, end_ms);
}

static void stage_end(struct state_txn *txn, const char *id, int64_t end_ms)
{
    struct bytes key;
    assert_status(record_key(txn, STATE_NS_ROOT, id, &key), ST_OK);
    assert_status(state_exists(txn, key), ST_OK);
    assert_status(state_delete(txn, key), ST_OK);
    assert_status(expiry_drop(txn, &egg, STATE_NS_ROOT, end_ms, id), ST_OK);
}

/* One round of the duty; false: it staged nothing. */
static bool round_of(int64_t now_ms, unsigned steps)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    assert_status(expiry_upkeep(&kinds, &txn, now_ms, steps), ST_OK);
    if (!state_staged(&txn)) {
        state_end(&txn);
        return false;
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
    expiry_committed(&kinds);
    return true;
}

/* Rounds of the duty until it stages nothing. */
static unsigned upkeep_at(int64_t now_ms)
{
    unsigned rounds = 0;
    while (round_of(now_ms, EXPIRY_STEPS)) {
        rounds++;
        assert_true(rounds < 100);
    }
    return rounds;
}

static unsigned keys_below(const char *prefix)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    unsigned n = (unsigned)state_count(&txn, bytes_str(prefix));
    state_end(&txn);
    return n;
}

static void put_mark(const char *id, const char *work)
{
    struct state_txn txn;
    struct bytes key;
    sw_begin(&world, &txn);
    assert_status(expiry_mark_key(&txn, &egg, STATE_NS_ROOT, id, &key), ST_OK);
    assert_status(state_put_exempt(&txn, key, bytes_str(work)), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

/* At any level */

static void make_some(void)
{
    make(&egg, "c", NOW_MS + 30);
    make(&fig, "b/1/2", NOW_MS + 20);
    make(&egg, "a", NOW_MS + 10);
    make(&fig, "d", NOW_MS + 40);
}

static void everything_ends_in_the_order_of_time(void **ctx)
{
    (void)ctx;
    make_some();
    assert_int_equal(upkeep_at(NOW_MS + 9), 0);
    assert_int_equal(upkeep_at(NOW_MS + 30), 1);
    assert_string_equal(ended, "a b/1/2 c ");
    assert_int_equal(upkeep_at(NOW_MS + 40), 1);
    assert_string_equal(ended, "a b/1/2 c d ");
    assert_int_equal(keys_below("s/ns/root/") + keys_below(NEW), 0);
}

static void an_entry_whose_thing_is_gone_or_ends_later_is_dropped(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    make(&egg, "later", NOW_MS + 10);
    make(&egg, "later", NOW_MS + 50); /* the earlier entry stays */
    sw_begin(&world, &txn);
    assert_status(expiry_put(&txn, &egg, STATE_NS_ROOT, NOW_MS + 10, "gone"), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(upkeep_at(NOW_MS + 20), 1);
    assert_string_equal(ended, "");
    assert_int_equal(keys_below(NEW) + keys_below(FORMER), 1);
    assert_int_equal(upkeep_at(NOW_MS + 50), 1);
    assert_string_equal(ended, "later ");
    assert_int_equal(atomic_load(&counts.dropped), 2);
    assert_int_equal(atomic_load(&counts.ended), 1);
    assert_int_equal(keys_below("s/ns/root/") + keys_below(NEW), 0);
}

static void one_transaction_ends_a_bounded_number(void **ctx)
{
    (void)ctx;
    char id[16];
    for (unsigned i = 0; i <= EXPIRY_STEPS; i++) {
        (void)snprintf(id, sizeof id, "n%u", i);
        make(&egg, id, NOW_MS);
    }
    assert_int_equal(upkeep_at(NOW_MS), 2);
    assert_int_equal(atomic_load(&counts.ended), EXPIRY_STEPS + 1);
}

static void a_run_takes_no_more_steps_than_it_may(void **ctx)
{
    (void)ctx;
    char id[16];
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "n%u", i);
        make(&egg, id, NOW_MS);
    }
    assert_true(round_of(NOW_MS, 3));
    assert_int_equal(atomic_load(&counts.ended), 3);
    assert_true(round_of(NOW_MS, 1));
    assert_int_equal(atomic_load(&counts.ended), 4);
    assert_false(expiry_asked(&kinds));
    put_mark("m", "10");
    assert_true(round_of(NOW_MS, 4)); /* three things, and one step of work */
    assert_int_equal(atomic_load(&counts.ended), 7);
    assert_true(expiry_asked(&kinds));
    assert_true(round_of(NOW_MS, 1));
    assert_int_equal(atomic_load(&counts.ended), 8);
    assert_true(round_of(NOW_MS, 10));
    assert_int_equal(atomic_load(&counts.ended), 10);
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 1);
    assert_true(round_of(NOW_MS, 1)); /* the tenth step */
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 0);
}

static void what_was_staged_counts_once_it_is_committed(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    make(&egg, "a", NOW_MS);
    sw_begin(&world, &txn);
    assert_status(expiry_upkeep(&kinds, &txn, NOW_MS, EXPIRY_STEPS), ST_OK);
    state_end(&txn); /* the commit failed */
    assert_int_equal(atomic_load(&counts.ended), 0);
    assert_int_equal(upkeep_at(NOW_MS), 1);
    assert_int_equal(atomic_load(&counts.ended), 1);
    expiry_committed(&kinds);
    assert_int_equal(atomic_load(&counts.ended), 1);
}

enum { LONG_KEY = 3000 };

/* Things with keys of so many bytes. */
static void make_long(const char *first, unsigned n)
{
    char id[LONG_KEY + 1];
    memset(id, '0', LONG_KEY);
    id[LONG_KEY] = '\0';
    memcpy(id, first, strlen(first));
    for (unsigned i = 0; i < n; i++) {
        char number[11];
        int digits = snprintf(number, sizeof number, "%u", i);
        memcpy(id + LONG_KEY - digits, number, (size_t)digits);
        make(&egg, id, NOW_MS);
    }
}

static void long_keys_make_a_run_shorter(void **ctx)
{
    (void)ctx;
    enum { THINGS = 50 };
    struct state_txn txn;
    uint64_t before = 0;
    make_long("n", THINGS);
    for (unsigned rounds = 0; atomic_load(&counts.ended) < THINGS; rounds++) {
        assert_true(rounds < THINGS);
        sw_begin(&world, &txn);
        assert_status(expiry_upkeep(&kinds, &txn, NOW_MS, EXPIRY_STEPS), ST_OK);
        assert_true(state_size(&txn) < EXPIRY_BYTES + 10 * LONG_KEY);
        assert_status(sw_commit(&world, &txn), ST_OK);
        assert_true(world.last_txn.len < EXPIRY_BYTES + 10 * LONG_KEY);
        expiry_committed(&kinds);
        assert_true(atomic_load(&counts.ended) > before);
        before = atomic_load(&counts.ended);
    }
    assert_int_equal(keys_below("s/ns/root/thing/"), 0);
}

static void long_keys_of_things_leave_room_for_unfinished_work(void **ctx)
{
    (void)ctx;
    make_long("n", 100);
    put_mark("m", "1");
    assert_true(round_of(NOW_MS, EXPIRY_STEPS));
    assert_true(atomic_load(&counts.ended) < 100);
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 0);
}

static void marks_take_turns(void **ctx)
{
    (void)ctx;
    put_mark("a", "1000");
    put_mark("b", "1");
    put_mark("c", "2000");
    assert_true(round_of(NOW_MS, 10));
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 3);
    assert_true(round_of(NOW_MS, 10)); /* the mark of b, then a part of c */
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 2);
    for (unsigned i = 0; i < 199; i++) /* both alike: a has 990, c has 1991 */
        assert_true(round_of(NOW_MS, 10));
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 1);
}

static void marks_that_cannot_be_followed_hold_up_no_other(void **ctx)
{
    (void)ctx;
    char id[16];
    struct state_txn txn;
    sw_begin(&world, &txn);
    for (unsigned i = 0; i < EXPIRY_MARKS_MAX + 10; i++) {
        struct bytes key;
        (void)snprintf(id, sizeof id, "bad%u", i);
        assert_status(expiry_mark_key(&txn, &egg, STATE_NS_ROOT, id, &key), ST_OK);
        assert_status(state_put_exempt(&txn, key, BYTES("no number")), ST_OK);
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
    put_mark("good", "1");
    assert_int_equal(upkeep_at(NOW_MS), 0);
    assert_int_equal(atomic_load(&counts.put_off), EXPIRY_MARKS_MAX);
    assert_false(
        expiry_asked(&kinds)); /* else duties would keep that pace as long as they lie there */
    assert_int_equal(upkeep_at(NOW_MS), 1);
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), EXPIRY_MARKS_MAX + 10);
}

static void a_record_that_cannot_be_read_does_not_stop_the_others(void **ctx)
{
    (void)ctx;
    char id[16];
    for (unsigned i = 0; i < 2 * EXPIRY_STEPS; i++) {
        (void)snprintf(id, sizeof id, "%s%u", i == 0 ? "bad" : "n", i);
        make(&egg, id, NOW_MS);
    }
    make(&fig, "good", NOW_MS + 1);
    sw_put(&world, "s/ns/root/thing/bad0", "no number");
    make(&egg, "mended", NOW_MS);
    sw_put(&world, "s/ns/root/thing/mended", "no number");
    (void)upkeep_at(NOW_MS + 1);
    assert_int_equal(atomic_load(&counts.ended), 2 * EXPIRY_STEPS);
    assert_int_equal(atomic_load(&counts.put_off), 2);
    assert_int_equal(keys_below("s/ns/root/thing/good"), 0);
    assert_int_equal(keys_below("s/ns/root/thing/"), 2); /* what `end` staged is undone */
    assert_int_equal(keys_below(NEW) + keys_below(FORMER), 2);
    sw_put(&world, "s/ns/root/thing/mended", "5");
    assert_int_equal(upkeep_at(NOW_MS + EXPIRY_AGAIN_MS), 0);
    assert_int_equal(upkeep_at(NOW_MS + 1 + EXPIRY_AGAIN_MS), 1);
    assert_int_equal(atomic_load(&counts.put_off), 3);
    assert_int_equal(keys_below(NEW) + keys_below(FORMER), 1);
}

static void work_goes_on_until_nothing_is_left(void **ctx)
{
    (void)ctx;
    char id[16];
    put_mark("short", "1");
    put_mark("long", "250");
    put_mark("bad", "no number");
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 3);
    assert_int_equal(upkeep_at(NOW_MS), 3);
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 1);
    assert_true(atomic_load(&counts.put_off) > 0);
    for (unsigned i = 0; i < 2 * EXPIRY_STEPS; i++) { /* the end of things leaves steps for work */
        (void)snprintf(id, sizeof id, "n%u", i);
        make(&egg, id, NOW_MS);
    }
    put_mark("next", "1");
    assert_true(round_of(NOW_MS, EXPIRY_STEPS));
    assert_int_equal(keys_below(UNFINISHED) + keys_below(FORMER_MARKS), 1);
    assert_int_equal(atomic_load(&counts.ended), EXPIRY_STEPS - EXPIRY_STEPS / EXPIRY_MARK_PART);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    enum status st = ST_NOMEM;
    make_some();
    put_mark("m", "3");
    sw_put(&world, FORMER "0000000f4240/former", "");
    sw_put(&world, FORMER_MARKS "former", "1");
    for (uint64_t n = 1; st != ST_OK; n++) {
        struct state_txn txn;
        struct arena arena = {.block_bytes = 64};
        assert_true(n < 1000);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = expiry_upkeep(&kinds, &txn, NOW_MS + 25, EXPIRY_STEPS);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
    assert_int_equal(atomic_load(&counts.put_off), 0); /* no memory is not damage */
}

/* The former keys */

static void below_the_level_the_former_keys_are_written(void **ctx)
{
    (void)ctx;
    make_some();
    put_mark("m", "3");
    assert_int_equal(keys_below(NEW) + keys_below(UNFINISHED), 0);
    assert_int_equal(keys_below(FORMER), 2);
    assert_int_equal(keys_below("s/ns/root/figend/"), 2);
    assert_int_equal(keys_below(FORMER "0000000f424a/a"), 1);
    assert_int_equal(keys_below(FORMER_MARKS "m"), 1);
    assert_int_equal(upkeep_at(NOW_MS + 15), 1);
    assert_int_equal(keys_below(NEW) + keys_below(UNFINISHED), 0);
    assert_string_equal(ended, "a ");
}

static void from_the_level_on_the_new_keys_are_written(void **ctx)
{
    (void)ctx;
    make_some();
    put_mark("m", "3");
    assert_int_equal(keys_below(NEW "0000000f424a/root/egg/a"), 1);
    assert_int_equal(keys_below(NEW "0000000f4254/root/fig/b/1/2"), 1);
    assert_int_equal(keys_below(UNFINISHED "root/egg/m"), 1);
    assert_int_equal(keys_below(FORMER) + keys_below(FORMER_MARKS), 0);
}

static void a_transaction_staged_before_the_raise_conflicts_after_it(void **ctx)
{
    (void)ctx;
    struct state_txn put, drop, mark, other;
    struct bytes key;
    make(&egg, "old", NOW_MS + 10);
    sw_begin(&world, &put);
    stage_thing(&put, &egg, STATE_NS_ROOT, "late", NOW_MS + 10);
    sw_begin(&world, &drop);
    stage_end(&drop, "old", NOW_MS + 10);
    sw_begin(&world, &mark);
    assert_status(expiry_mark_key(&mark, &egg, STATE_NS_ROOT, "m", &key), ST_OK);
    assert_status(state_put_exempt(&mark, key, BYTES("1")), ST_OK);
    sw_begin(&world, &other);
    assert_status(state_put(&other, BYTES("s/ns/root/thing/x"), BYTES("1")), ST_OK);
    sw_raise(&world);
    assert_status(sw_commit(&world, &put), ST_CONFLICT);
    assert_status(sw_commit(&world, &drop), ST_CONFLICT);
    assert_status(sw_commit(&world, &mark), ST_CONFLICT);
    assert_status(sw_commit(&world, &other), ST_OK);
}

static void former_keys_are_moved_by_and_by(void **ctx)
{
    (void)ctx;
    char id[16];
    for (unsigned i = 0; i < 2 * EXPIRY_STEPS; i++) {
        (void)snprintf(id, sizeof id, "n%u", i);
        make(&egg, id, NOW_MS + HOUR_MS + i);
    }
    make(&fig, "b/1/2", NOW_MS + HOUR_MS);
    put_mark("bad", "no number");
    assert_int_equal(upkeep_at(NOW_MS), 0);
    sw_raise(&world);
    struct state_txn txn;
    sw_begin(&world, &txn);
    assert_status(expiry_upkeep(&kinds, &txn, NOW_MS, EXPIRY_STEPS), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(keys_below(NEW), EXPIRY_STEPS);
    assert_int_equal(keys_below(FORMER), EXPIRY_STEPS);
    assert_int_equal(upkeep_at(NOW_MS), 2);
    assert_int_equal(keys_below(FORMER) + keys_below("s/ns/root/figend/"), 0);
    assert_int_equal(keys_below(FORMER_MARKS), 0);
    assert_int_equal(keys_below(UNFINISHED "root/egg/bad"), 1);
    assert_int_equal(keys_below(NEW), 2 * EXPIRY_STEPS + 1);
    sw_delete(&world, UNFINISHED "root/egg/bad");
    assert_int_equal(upkeep_at(NOW_MS), 0);
    (void)upkeep_at(NOW_MS + 2 * HOUR_MS);
    assert_int_equal(atomic_load(&counts.ended), 2 * EXPIRY_STEPS + 1);
    assert_int_equal(keys_below("s/ns/root/thing/") + keys_below(NEW), 0);
}

static void what_is_due_ends_before_it_was_moved(void **ctx)
{
    (void)ctx;
    make_some();
    sw_raise(&world);
    make(&egg, "new", NOW_MS + 25);
    make_in(&egg, "team", "other", NOW_MS + 15);
    assert_int_equal(upkeep_at(NOW_MS + 30), 1);
    assert_string_equal(ended, "a other b/1/2 new c ");
    assert_int_equal(keys_below(NEW), 1);
    assert_int_equal(upkeep_at(NOW_MS + 40), 1);
    assert_int_equal(keys_below("s/ns/") + keys_below(NEW), 0);
}

static void no_key_stays_when_a_thing_ends_while_its_entry_is_moved(void **ctx)
{
    (void)ctx;
    struct state_txn before, after, move;
    make(&egg, "x", NOW_MS + 10);
    make(&egg, "y", NOW_MS + 10);
    sw_raise(&world);
    sw_begin(&world, &before);
    sw_begin(&world, &move);
    sw_begin(&world, &after);
    stage_end(&before, "x", NOW_MS + 10);
    stage_end(&after, "y", NOW_MS + 10);
    assert_status(expiry_upkeep(&kinds, &move, NOW_MS, EXPIRY_STEPS), ST_OK);
    assert_status(sw_commit(&world, &before), ST_OK);
    assert_status(sw_commit(&world, &move), ST_CONFLICT);
    assert_int_equal(upkeep_at(NOW_MS), 1);
    assert_int_equal(keys_below(NEW), 1);
    assert_status(sw_commit(&world, &after), ST_OK);
    assert_int_equal(keys_below("s/ns/") + keys_below(NEW), 0);
}

/* The state of an older snapshot has former keys while the level stays. */
static void former_keys_of_a_restored_state_are_moved(void **ctx)
{
    (void)ctx;
    make(&egg, "kept", NOW_MS + 10);
    assert_int_equal(upkeep_at(NOW_MS), 0);
    sw_put(&world, "s/ns/root/thing/back", "1000020");
    sw_put(&world, FORMER "0000000f4254/back", "");
    sw_put(&world, FORMER "nonsense", "");
    sw_put(&world, FORMER_MARKS "back", "250");
    assert_true(upkeep_at(NOW_MS) > 0);
    assert_int_equal(keys_below(FORMER) + keys_below(FORMER_MARKS) + keys_below(UNFINISHED), 0);
    assert_int_equal(keys_below(NEW "0000000f4254/root/egg/back"), 1);
    (void)upkeep_at(NOW_MS + 20);
    assert_string_equal(ended, "kept back ");
}

static void what_this_server_does_not_know_is_put_off(void **ctx)
{
    (void)ctx;
    sw_put(&world, NEW "000000000001/root/later/x", "");
    sw_put(&world, NEW "000000000001/root/egg", "");
    sw_put(&world, NEW "000000000001//egg/x", "");
    sw_put(&world, NEW "00000000001/root/egg/x", "");
    sw_put(&world, NEW "00000000000g/root/egg/x", "");
    sw_put(&world, NEW "0", "");
    sw_put(&world, UNFINISHED "root/later/x", "");
    sw_put(&world, UNFINISHED "root", "");
    make(&egg, "good", NOW_MS);
    put_mark("good", "1");
    assert_int_equal(upkeep_at(NOW_MS), 1);
    assert_string_equal(ended, "good ");
    assert_int_equal(keys_below(NEW), 1);
    assert_int_equal(keys_below(NEW "0000004630c0/root/later/x"), 1);
    assert_int_equal(keys_below(UNFINISHED), 2);
    assert_true(atomic_load(&counts.put_off) >= 8);
}

int main(void)
{
#define BOTH(f)                                                   \
    cmocka_unit_test_setup_teardown(f, open_former, close_world), \
        cmocka_unit_test_setup_teardown(f, open_raised, close_world)
#define BEFORE(f) cmocka_unit_test_setup_teardown(f, open_former, close_world)
#define RAISED(f) cmocka_unit_test_setup_teardown(f, open_raised, close_world)
    const struct CMUnitTest tests[] = {
        BOTH(everything_ends_in_the_order_of_time),
        BOTH(an_entry_whose_thing_is_gone_or_ends_later_is_dropped),
        BOTH(one_transaction_ends_a_bounded_number),
        BOTH(a_run_takes_no_more_steps_than_it_may),
        BOTH(what_was_staged_counts_once_it_is_committed),
        BOTH(long_keys_make_a_run_shorter),
        BOTH(long_keys_of_things_leave_room_for_unfinished_work),
        BOTH(marks_take_turns),
        BOTH(marks_that_cannot_be_followed_hold_up_no_other),
        BOTH(a_record_that_cannot_be_read_does_not_stop_the_others),
        BOTH(work_goes_on_until_nothing_is_left),
        BOTH(every_lack_of_memory_is_told),
        BEFORE(below_the_level_the_former_keys_are_written),
        RAISED(from_the_level_on_the_new_keys_are_written),
        BEFORE(a_transaction_staged_before_the_raise_conflicts_after_it),
        BEFORE(former_keys_are_moved_by_and_by),
        BEFORE(what_is_due_ends_before_it_was_moved),
        BEFORE(no_key_stays_when_a_thing_ends_while_its_entry_is_moved),
        RAISED(former_keys_of_a_restored_state_are_moved),
        RAISED(what_this_server_does_not_know_is_put_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
