/* Leases whose kind stores no record of its own: the record, one lease, many leases, upkeep. */
#include "lease/lease.h"
#include "state/ns_key.h"
#include "state/state_world.h"

#include <stdio.h>

enum { NOW_MS = 1000000, HOUR_MS = 3600 * 1000 };

static struct state_world world;
static unsigned ended;
static char last_data[32]; /* of the lease that was ended last */

static enum status lamp_renew(const struct lease_scope *s, struct lease *lease, int64_t wanted_s,
                              struct reason *why)
{
    if (wanted_s > 7200) {
        reason_set(why, "too long");
        return ST_INVALID;
    }
    lease->expire_ms = s->now_ms + (wanted_s != 0 ? wanted_s * 1000 : HOUR_MS);
    lease->data = BYTES("renewed");
    return ST_OK;
}

static enum status lamp_end(const struct lease_scope *s, const struct lease *lease)
{
    assert_int_equal(lease->data.len > 0, 1);
    (void)snprintf(last_data, sizeof last_data, "%.*s", (int)lease->data.len,
                   (const char *)lease->data.data);
    ended++;
    return state_put(s->txn, BYTES("s/ns/root/config/dark"), BYTES("1"));
}

static const struct lease_kind lamp_kind = {.name = "lamp", .renew = lamp_renew, .end = lamp_end};
static const struct lease_kind plain_kind = {.name = "plain"};
static struct lease_kinds kinds;

static int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    kinds = (struct lease_kinds){0};
    lease_kinds_add(&kinds, &plain_kind);
    lease_kinds_add(&kinds, &lamp_kind);
    ended = 0;
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static struct lease_scope scope_at(struct state_txn *txn, int64_t now_ms)
{
    return (struct lease_scope){.txn = txn, .ns = STATE_NS_ROOT, .kinds = &kinds, .now_ms = now_ms};
}

/* Create and commit `n` leases of an hour; the id of the last one lies in the world's arena. */
static const char *lent(const char *path, unsigned n)
{
    struct state_txn txn;
    struct lease lease = {0};
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    for (unsigned i = 0; i < n; i++) {
        lease = (struct lease){.kind = &lamp_kind,
                               .expire_ms = NOW_MS + HOUR_MS,
                               .renewable = true,
                               .data = BYTES("first")};
        assert_status(lease_create(&scope, &world.worker.env, path, &lease), ST_OK);
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
    return lease.id;
}

static enum status found(const char *id, int64_t now_ms, struct lease *ret_lease)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, now_ms);
    enum status st = lease_find(&scope, id, ret_lease);
    state_end(&txn);
    return st;
}

/* Rounds of the active node's work until nothing is left. */
static unsigned upkeep_at(int64_t now_ms)
{
    unsigned rounds = 0;
    for (bool more = true; more;) {
        struct state_txn txn;
        sw_begin(&world, &txn);
        assert_status(lease_upkeep(&kinds, &txn, now_ms), ST_OK);
        more = state_staged(&txn);
        if (more)
            assert_status(sw_commit(&world, &txn), ST_OK);
        else
            state_end(&txn);
        rounds += more;
        assert_true(rounds < 100);
    }
    return rounds;
}

static unsigned keys_below(const char *prefix)
{
    struct state_txn txn;
    struct state_walk *walk = arena_alloc(&world.arena, sizeof *walk);
    unsigned n = 0;
    sw_begin(&world, &txn);
    for (state_walk(&txn, bytes_str(prefix), walk); state_walk_next(walk);)
        n++;
    state_end(&txn);
    return n;
}

#define LEASES "s/ns/root/lease/"
#define ENDS "s/ns/root/leaseend/"

static void a_lease_is_found_until_its_time(void **ctx)
{
    (void)ctx;
    struct lease lease;
    const char *id = lent("lamps/take/", 1);
    assert_int_equal(strncmp(id, "lamps/take/", 11), 0);
    assert_int_equal(strlen(id), 11 + LEASE_ID_LEN);
    assert_status(found(id, NOW_MS + HOUR_MS - 1, &lease), ST_OK);
    assert_ptr_equal(lease.kind, &lamp_kind);
    assert_true(lease.issued_ms == NOW_MS && lease.expire_ms == NOW_MS + HOUR_MS);
    assert_true(lease.renewed_ms == 0 && lease.renewable);
    assert_true(bytes_eq(lease.data, BYTES("first")));
    assert_status(found(id, NOW_MS + HOUR_MS, &lease), ST_NOT_FOUND);
    assert_status(found("lamps/take", NOW_MS, &lease), ST_NOT_FOUND);
    assert_status(found("", NOW_MS, &lease), ST_NOT_FOUND);
}

static void a_renewal_moves_the_end(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct lease lease;
    struct state_txn txn;
    const char *id = lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS + 1000);
    assert_status(lease_find(&scope, id, &lease), ST_OK);
    assert_status(lease_renew(&scope, &lease, 9000, &why), ST_INVALID);
    assert_string_equal(why.text, "too long");
    assert_status(lease_renew(&scope, &lease, 7200, &why), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(found(id, NOW_MS + 2 * HOUR_MS, &lease), ST_OK);
    assert_true(lease.renewed_ms == NOW_MS + 1000 && bytes_eq(lease.data, BYTES("renewed")));
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS + 1), 0);
    assert_int_equal(keys_below(ENDS), 1);
    assert_int_equal(upkeep_at(NOW_MS + 2 * HOUR_MS + 1000), 1);
    assert_int_equal(ended, 1);
    assert_string_equal(last_data, "renewed");
}

static void a_kind_without_renewal_refuses(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease plain = {.kind = &plain_kind, .renewable = true};
    assert_status(lease_create(&scope, &world.worker.env, "plain", &plain), ST_OK);
    assert_status(lease_renew(&scope, &plain, 0, &why), ST_INVALID);
    assert_string_equal(why.text, "lease is not renewable");
    struct lease fixed = {.kind = &lamp_kind, .data = BYTES("x")};
    assert_status(lease_create(&scope, &world.worker.env, "fixed", &fixed), ST_OK);
    assert_status(lease_renew(&scope, &fixed, 0, &why), ST_INVALID);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(keys_below(ENDS), 0); /* neither ever expires */
    assert_int_equal(keys_below(LEASES), 2);
}

static void an_ended_lease_leaves_no_key(void **ctx)
{
    (void)ctx;
    struct lease lease;
    struct state_txn txn;
    const char *id = lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_find(&scope, id, &lease), ST_OK);
    assert_status(lease_end(&scope, &lease), ST_OK);
    assert_status(lease_find(&scope, id, &lease), ST_NOT_FOUND);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(ended, 1);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS), 0);
    assert_int_equal(keys_below("s/ns/root/config/dark"), 1); /* staged by the kind */
}

static void expired_leases_end_by_themselves(void **ctx)
{
    (void)ctx;
    (void)lent("lamps/take", LEASE_UPKEEP_STEPS + 1);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS - 1), 0);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS), 2);
    assert_int_equal(ended, LEASE_UPKEEP_STEPS + 1);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS), 0);
}

static void all_leases_below_a_path_end_but_no_later_one(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    bool all = true;
    (void)lent("lamps/take", LEASE_STEPS_MAX + LEASE_UPKEEP_STEPS + 1);
    (void)lent("lamps2/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "lamps/", &all), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_false(all);
    assert_int_equal(ended, LEASE_STEPS_MAX);
    sw_begin(&world, &txn);
    const struct lease_scope later = scope_at(&txn, NOW_MS + 1);
    struct lease lease = {.kind = &lamp_kind, .data = BYTES("late")};
    assert_status(lease_create(&later, &world.worker.env, "lamps/take", &lease), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(upkeep_at(NOW_MS + 2), 2);
    assert_int_equal(keys_below(LEASES), 2); /* the late one, and that of lamps2 */
    assert_int_equal(ended, LEASE_STEPS_MAX + LEASE_UPKEEP_STEPS + 1);
}

static void a_record_without_its_kind_is_corrupt(void **ctx)
{
    (void)ctx;
    struct lease lease;
    const char *id = lent("lamps/take", 1);
    kinds = (struct lease_kinds){0};
    lease_kinds_add(&kinds, &plain_kind);
    assert_status(found(id, NOW_MS, &lease), ST_CORRUPT);
}

static enum status read_stored(const uint8_t *record, size_t len)
{
    struct state_txn txn;
    struct lease lease;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(state_put(&txn, BYTES(LEASES "a/b"), bytes_of(record, len)), ST_OK);
    enum status st = lease_find(&scope, "a/b", &lease);
    state_end(&txn);
    return st;
}

/* The bytes of the format (lease.h) as this build writes them. */
static void the_record_has_its_format(void **ctx)
{
    (void)ctx;
    const uint8_t good[] = {1, 1, 1, 0, 2, 4, 'l', 'a', 'm', 'p', 'd'};
    uint8_t bad[sizeof good];
    assert_status(read_stored(good, sizeof good), ST_OK);
    for (size_t len = 0; len < 10; len++) /* the data may be empty, nothing else */
        assert_status(read_stored(good, len), ST_CORRUPT);
    for (size_t at = 0; at < 2; at++) {
        memcpy(bad, good, sizeof bad);
        bad[at] = 2; /* another format; an unknown flag */
        assert_status(read_stored(bad, sizeof bad), ST_CORRUPT);
    }
}

static enum status make_renew_end(struct state_txn *txn)
{
    const struct lease_scope scope = scope_at(txn, NOW_MS);
    struct lease lease = {
        .kind = &lamp_kind, .expire_ms = NOW_MS + 1, .renewable = true, .data = BYTES("x")};
    struct reason why;
    bool all;
    TRY(lease_create(&scope, &world.worker.env, "a", &lease));
    TRY(lease_find(&scope, lease.id, &lease));
    TRY(lease_renew(&scope, &lease, 0, &why));
    TRY(lease_end(&scope, &lease));
    TRY(lease_end_below(&scope, "lamps/", &all));
    return lease_upkeep(&kinds, txn, NOW_MS + 2 * HOUR_MS);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    enum status st = ST_NOMEM;
    (void)lent("lamps/take", 2);
    (void)lent("other", 2);
    for (uint64_t n = 1; st != ST_OK; n++) {
        struct state_txn txn;
        struct arena arena = {.block_bytes = 64};
        assert_true(n < 1000);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = make_renew_end(&txn);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
    assert_true(ended > 5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

/* The walk of what is to end must not miss a lease that is issued at the same time. */
static void a_lease_issued_meanwhile_makes_the_end_of_all_run_again(void **ctx)
{
    struct state_txn txn;
    bool all = false;
    (void)ctx;
    (void)lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "lamps/", &all), ST_OK);
    assert_true(all);
    (void)lent("lamps/take", 1);
    assert_status(sw_commit(&world, &txn), ST_CONFLICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lease_is_found_until_its_time),
        TEST(a_renewal_moves_the_end),
        TEST(a_kind_without_renewal_refuses),
        TEST(an_ended_lease_leaves_no_key),
        TEST(expired_leases_end_by_themselves),
        TEST(all_leases_below_a_path_end_but_no_later_one),
        TEST(a_lease_issued_meanwhile_makes_the_end_of_all_run_again),
        TEST(a_record_without_its_kind_is_corrupt),
        TEST(the_record_has_its_format),
        TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
