/* The move to another seal: key shares and static seals, to and fro, in one transaction. */
#include "state_world.h"

enum { SHARES = 5, THRESHOLD = 3 };

static struct state_world world;
static struct seal other; /* a second static seal */
static const uint8_t key[STATE_RECOVERY_BYTES] = "the key that shares combine to.";

static int setup(void **state)
{
    struct state_txn txn;
    sw_open(&world);
    world.seal.shares = SHARES;
    world.seal.threshold = THRESHOLD;
    sw_init(&world);
    assert_status(seal_static(BYTES("another seal key, of 32 bytes .."), "other", &other, NULL),
                  ST_OK);
    sw_begin(&world, &txn);
    assert_status(state_put(&txn, BYTES(STATE_RECOVERY_KEY), bytes_of(key, sizeof key)), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    seal_done(&other);
    sw_close(*state);
    return 0;
}

static enum status migrate(struct state_world *w, const struct seal *target)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    enum status st = state_migrate(&txn, target, bytes_of(key, sizeof key));
    if (st != ST_OK) {
        state_end(&txn);
        return st;
    }
    return sw_commit(w, &txn);
}

/* What another node finds that unseals by `seal`; NULL: by the shares. */
static enum status opens(struct state_world *w, const struct seal *seal)
{
    struct barrier *b = NULL;
    struct seal by_shares = {0};
    assert_status(seal_shamir(bytes_of(key, sizeof key), SHARES, THRESHOLD, &by_shares), ST_OK);
    assert_status(barrier_new(&b), ST_OK);
    enum status st = state_unseal(w->m.store, b, seal != NULL ? seal : &by_shares, NULL);
    seal_done(&by_shares);
    barrier_free(b);
    return st;
}

static void assert_seal(struct state_world *w, enum seal_type type, const char *id)
{
    struct seal_info info;
    struct state_txn txn;
    assert_status(state_seal_info(w->m.store, &info), ST_OK);
    assert_int_equal(info.type, type);
    assert_string_equal(info.id, id);
    assert_int_equal(info.shares, SHARES);
    assert_int_equal(info.threshold, THRESHOLD);
    sw_begin(w, &txn);
    assert_status(state_check_key(&txn, bytes_of(key, sizeof key)), ST_OK);
    assert_status(state_exists(&txn, BYTES(STATE_RECOVERY_KEY)),
                  type == SEAL_STATIC ? ST_OK : ST_NOT_FOUND);
    state_end(&txn);
}

static void a_seal_is_moved_to_and_fro_and_the_shares_stay_valid(void **state)
{
    struct state_world *w = *state;
    sw_put(w, "s/a", "kept");
    assert_status(migrate(w, NULL), ST_OK);
    assert_seal(w, SEAL_SHAMIR, "shamir");
    assert_status(opens(w, NULL), ST_OK);
    assert_status(opens(w, &w->seal), ST_INVALID);
    assert_status(migrate(w, &other), ST_OK);
    assert_seal(w, SEAL_STATIC, "other");
    assert_status(opens(w, &other), ST_OK);
    assert_status(opens(w, NULL), ST_INVALID);
    assert_status(migrate(w, &w->seal), ST_OK);
    assert_seal(w, SEAL_STATIC, w->seal.id);
    assert_status(opens(w, &other), ST_INVALID);
    assert_status(opens(w, &w->seal), ST_OK);
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "kept");
    state_end(&txn);
}

static void another_key_of_a_static_seal_needs_no_shares(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    const struct seal next = {
        .type = SEAL_STATIC, .id = "next", .key = other.key, .previous = &w->seal};
    unsigned before = w->proposals;
    assert_status(opens(w, &next), ST_OK); /* by the previous key */
    sw_begin(w, &txn);
    assert_status(state_rewrap(&txn, &next), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_int_equal(w->proposals, before + 1);
    assert_seal(w, SEAL_STATIC, "next"); /* the recovery key and its shares stay */
    assert_status(opens(w, &next), ST_OK);
    assert_status(opens(w, &w->seal), ST_INVALID);
    sw_put(w, "s/a", "written by a node that was unsealed before");
}

static void a_migration_is_one_entry(void **state)
{
    struct state_world *w = *state;
    unsigned before = w->proposals;
    assert_status(migrate(w, NULL), ST_OK);
    assert_int_equal(w->proposals, before + 1);
}

static void an_unsealed_node_goes_on_whatever_seal_it_has(void **state)
{
    struct state_world *w = *state;
    assert_status(migrate(w, &other), ST_OK);
    assert_status(state_follow(w->m.store, w->barrier), ST_OK);
    assert_false(barrier_is_sealed(w->barrier));
    sw_put(w, "s/a", "written later");
    barrier_seal(w->barrier);
    struct reason reason = {{0}};
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "wrapped by the seal key 'other'"));
    assert_status(state_unseal(w->m.store, w->barrier, &other, NULL), ST_OK);
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_gets(&txn, "s/a", "written later");
    state_end(&txn);
}

static void shares_of_another_key_move_nothing(void **state)
{
    struct state_world *w = *state;
    const uint8_t wrong[STATE_RECOVERY_BYTES] = {1};
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_migrate(&txn, &other, bytes_of(wrong, sizeof wrong)), ST_DENIED);
    state_end(&txn);
    assert_seal(w, SEAL_STATIC, w->seal.id);
    assert_status(migrate(w, NULL), ST_OK);
    sw_begin(w, &txn);
    assert_status(state_migrate(&txn, &other, bytes_of(wrong, sizeof wrong)), ST_DENIED);
    state_end(&txn);
    assert_seal(w, SEAL_SHAMIR, "shamir");
}

static void without_shares_nothing_authorises_a_migration(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    w->seal.shares = w->seal.threshold = 0;
    sw_begin(w, &txn);
    assert_status(state_reseal(&txn, &w->seal), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(migrate(w, NULL), ST_NOT_FOUND);
}

/* Two active nodes in turn, or a rekey beside it: only the first of two transactions counts. */
static void a_migration_conflicts_with_another_change_of_the_seal(void **state)
{
    struct state_world *w = *state;
    struct state_txn first, second;
    sw_begin(w, &first);
    sw_begin(w, &second);
    assert_status(state_migrate(&first, NULL, bytes_of(key, sizeof key)), ST_OK);
    assert_status(state_migrate(&second, &other, bytes_of(key, sizeof key)), ST_OK);
    assert_status(sw_commit(w, &first), ST_OK);
    assert_status(sw_commit(w, &second), ST_CONFLICT);
    assert_seal(w, SEAL_SHAMIR, "shamir");
    sw_begin(w, &first);
    sw_begin(w, &second);
    assert_status(state_migrate(&first, &other, bytes_of(key, sizeof key)), ST_OK);
    struct seal seal = {0};
    assert_status(seal_shamir(bytes_of(key, sizeof key), SHARES, THRESHOLD, &seal), ST_OK);
    assert_status(state_rekey(&second, &seal, 1), ST_OK);
    seal_done(&seal);
    assert_status(sw_commit(w, &second), ST_OK);
    assert_status(sw_commit(w, &first), ST_CONFLICT);
    assert_seal(w, SEAL_SHAMIR, "shamir");
}

static void running_out_of_memory_moves_nothing(void **state)
{
    struct state_world *w = *state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        const struct seal *targets[] = {NULL, &other};
        struct state_txn txn;
        sw_begin(w, &txn);
        (void)mem_fail_nth(n);
        enum status st = state_migrate(&txn, targets[n % 2], bytes_of(key, sizeof key));
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        state_end(&txn);
        assert_seal(w, SEAL_STATIC, w->seal.id);
        assert_true(n < 100);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_seal_is_moved_to_and_fro_and_the_shares_stay_valid),
        T(another_key_of_a_static_seal_needs_no_shares),
        T(a_migration_is_one_entry),
        T(an_unsealed_node_goes_on_whatever_seal_it_has),
        T(shares_of_another_key_move_nothing),
        T(without_shares_nothing_authorises_a_migration),
        T(a_migration_conflicts_with_another_change_of_the_seal),
        T(running_out_of_memory_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
