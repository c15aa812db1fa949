/* Keys of a DR secondary: every row of the seal matrix through sync, rekeys of the primary,
 * restarts, promotion and failback. */
#include "dr_steps.h"

static const struct dr_row rows[] = {{false, false}, {false, true}, {true, false}, {true, true}};

static struct dr_world world;

#define FOR_ROWS(w)                                                                 \
    for (size_t row_ = 0; row_ < ARRAY_LEN(rows) && (dr_open(w, rows[row_]), true); \
         dr_close(w), row_++)

static const struct seal *seal_if(bool is_static, const struct seal *seal)
{
    return is_static ? seal : NULL;
}

static void assert_shown(struct dr_world *w)
{
    struct seal_info info;
    assert_status(state_seal_info(w->s.m.store, &info), ST_OK);
    assert_int_equal(info.type, w->row.secondary_static ? SEAL_STATIC : SEAL_SHAMIR);
    assert_string_equal(info.id, w->row.secondary_static ? "s" : "shamir");
    assert_int_equal(info.shares, DR_SHARES);
    assert_int_equal(info.threshold, DR_THRESHOLD);
}

static void after_the_first_sync_the_own_seal_opens_the_primary_s_state(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        dr_sync(w);
        dr_assert_reads(&w->s, "of the primary", "local");
        assert_true(barrier_restored(w->s.barrier) != 0);
        assert_status(state_follow(w->s.m.store, w->standby), ST_OK); /* without unsealing */
        assert_false(barrier_is_behind(w->standby));
        assert_shown(w);
        assert_int_equal(dr_count(&w->s, STATE_DR_SEAL), 1);
        dr_restart(&w->s, dr_own(w), primary_key);
        dr_assert_reads(&w->s, "of the primary", "local");
        bool by_shares = !w->row.secondary_static;
        assert_status(dr_opens_by(&w->s, primary_key), by_shares ? ST_OK : ST_INVALID);
        assert_status(dr_opens_by(&w->s, secondary_key), ST_INVALID);
        if (w->row.primary_static)
            assert_status(dr_opens(&w->s, &w->p.seal), ST_INVALID);
        if (w->row.secondary_static)
            assert_status(dr_opens(&w->s, &w->s.seal), ST_OK);
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        assert_status(dr_check_key(&w->s, secondary_key), ST_DENIED);
        struct reason why = {{0}};
        assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
    }
}

static void a_sealed_node_takes_the_primary_s_shares(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct reason why = {{0}};
        dr_sync(w);
        if (!w->row.secondary_static)
            continue;
        barrier_seal(w->s.barrier);
        assert_status(state_check_recovery(w->s.m.store, &w->s.worker.env, &w->s.seal,
                                           bytes_of(primary_key, sizeof primary_key), &why),
                      ST_OK);
        assert_status(state_check_recovery(w->s.m.store, &w->s.worker.env, &w->s.seal,
                                           bytes_of(secondary_key, sizeof secondary_key), &why),
                      ST_DENIED);
    }
}

static void rekeyed_twice_while_away(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
        const uint8_t *shares = w->row.primary_static ? primary_key : later_key;
        struct reason why = {{0}};
        uint64_t settled = 0;
        dr_sync(w);
        assert_status(state_follow(w->s.m.store, w->standby), ST_OK);
        assert_status(dr_rekey(&w->p, primary, secondary_key), ST_OK);
        assert_status(dr_rekey(&w->p, primary, later_key), ST_OK);
        sw_put(&w->p, "s/secret", "of later");
        dr_expire(&w->p, settled); /* an hour old, and not confirmed */
        assert_int_equal(dr_count(&w->p, BARRIER_LINKS), 2);
        dr_ship(&w->p, &w->s);

        assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
        dr_assert_reads(&w->s, "of later", "local");
        sw_put(&w->s, "l/own", "written while behind");
        /* Every node starts anew, before anything was renewed. */
        dr_restart(&w->s, dr_own(w), primary_key);
        dr_assert_reads(&w->s, "of later", "written while behind");
        assert_status(dr_check_key(&w->s, shares), ST_OK);

        assert_false(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
        assert_string_equal(why.text, "");
        assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
        assert_false(barrier_is_behind(w->s.barrier));
        settled = w->s.m.version;
        assert_true(settled != 0);
        dr_expire(&w->p, UINT64_MAX);
        assert_int_equal(dr_count(&w->p, BARRIER_LINKS), 0);
        dr_ship(&w->p, &w->s);
        /* The standby slept through it all: the local link leads it on. */
        assert_status(state_follow(w->s.m.store, w->standby), ST_OK);
        assert_false(barrier_is_behind(w->standby));
        dr_restart(&w->s, dr_own(w), shares);
        dr_assert_reads(&w->s, "of later", "written while behind");
        assert_shown(w);
        if (!w->row.primary_static)
            assert_status(dr_check_key(&w->s, primary_key), ST_DENIED);
        assert_true(dr_count(&w->s, BARRIER_LOCAL_LINKS) != 0);
        assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS + DR_HOUR_MS, &why));
        assert_int_equal(dr_count(&w->s, BARRIER_LOCAL_LINKS), 0);
    }
}

static void rekeyed_between_activation_and_sync(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        CLEANUP(secret_done) struct secret root = {0};
        const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
        struct reason why = {{0}};
        dr_root(&w->p, &root);
        assert_status(dr_rekey(&w->p, primary, later_key), ST_OK);
        assert_status(dr_adopt(&w->p, &w->s, dr_own(w), &root, &why), ST_OK);
        assert_status(state_follow(w->s.m.store, w->standby), ST_OK);
        assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
        assert_false(barrier_is_behind(w->s.barrier));
        dr_restart(&w->s, dr_own(w), w->row.primary_static ? primary_key : later_key);
        dr_assert_reads(&w->s, "of the primary", "local");
    }
}

static void new_shares_of_the_primary_reach_the_own_seal(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct state_txn txn;
        struct reason why = {{0}};
        struct seal seal = {0};
        struct seal_info info;
        dr_sync(w);
        /* A ceremony on the primary: other shares, of the same root key. */
        sw_begin(&w->p, &txn);
        if (w->row.primary_static) {
            assert_status(
                state_put(&txn, BYTES(STATE_RECOVERY_KEY), bytes_of(later_key, sizeof later_key)),
                ST_OK);
            seal = w->p.seal;
        } else {
            dr_shares(later_key, &seal);
        }
        seal.shares = 7;
        seal.threshold = 4;
        assert_status(state_reseal(&txn, &seal), ST_OK);
        assert_status(sw_commit(&w->p, &txn), ST_OK);
        if (!w->row.primary_static)
            seal_done(&seal);
        dr_ship(&w->p, &w->s);
        assert_false(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
        assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
        assert_status(state_seal_info(w->s.m.store, &info), ST_OK);
        assert_int_equal(info.shares, 7);
        assert_int_equal(info.threshold, 4);
        assert_status(dr_check_key(&w->s, later_key), ST_OK);
        assert_status(dr_check_key(&w->s, primary_key), ST_DENIED);
        if (w->row.secondary_static) {
            assert_status(dr_opens(&w->s, &w->s.seal), ST_OK);
            continue;
        }
        assert_status(seal_shamir(bytes_of(later_key, sizeof later_key), 7, 4, &seal), ST_OK);
        assert_status(dr_opens(&w->s, &seal), ST_OK);
        seal_done(&seal);
        assert_status(dr_opens_by(&w->s, primary_key), ST_INVALID);
    }
}

static void promotion_makes_the_own_seal_the_cluster_s(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct reason why = {{0}};
        dr_sync(w);
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        assert_int_equal(dr_count(&w->s, STATE_DR_SEAL), 0);
        assert_shown(w);
        dr_restart(&w->s, dr_own(w), primary_key);
        dr_assert_reads(&w->s, "of the primary", "local");
        assert_status(dr_opens_by(&w->s, primary_key),
                      w->row.secondary_static ? ST_INVALID : ST_OK);
        assert_status(dr_opens_by(&w->s, secondary_key), ST_INVALID);
        if (w->row.primary_static)
            assert_status(dr_opens(&w->s, &w->p.seal), ST_INVALID);
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        assert_status(dr_check_key(&w->s, secondary_key), ST_DENIED);
        assert_int_equal(dr_count(&w->s, STATE_RECOVERY_KEY), w->row.secondary_static);
        sw_put(&w->s, "s/secret", "written by a primary");
        dr_assert_reads(&w->s, "written by a primary", "local");
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK); /* again: nothing to do */
    }
}

static void promotion_before_the_renewal_loses_nothing(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
        const uint8_t *shares = w->row.primary_static ? primary_key : later_key;
        struct reason why = {{0}};
        dr_sync(w);
        assert_status(dr_rekey(&w->p, primary, later_key), ST_OK);
        dr_ship(&w->p, &w->s);
        assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        dr_expire(&w->s, STATE_NO_SECONDARY);
        assert_int_equal(dr_count(&w->s, BARRIER_LINKS), 0);
        assert_int_equal(dr_count(&w->s, BARRIER_LOCAL_LINKS), 0);
        dr_restart(&w->s, dr_own(w), shares);
        dr_assert_reads(&w->s, "of the primary", "local");
        assert_status(dr_check_key(&w->s, shares), ST_OK);
    }
}

/* Learn the recovery key from given shares, as every ceremony does. */
static void learn(struct state_world *w, const uint8_t key[SEAL_KEY_BYTES])
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_check_key(&txn, bytes_of(key, SEAL_KEY_BYTES)), ST_OK);
    assert_status(state_learn_key(&txn, bytes_of(key, SEAL_KEY_BYTES)), ST_OK);
    if (state_staged(&txn))
        assert_status(sw_commit(w, &txn), ST_OK);
    else
        state_end(&txn);
}

static void the_primary_s_shares_serve_ceremonies_after_promotion(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct reason why = {{0}};
        struct state_txn txn;
        bool unknown = !w->row.primary_static && w->row.secondary_static;
        dr_sync(w);
        learn(&w->s, primary_key);
        assert_false(dr_has(&w->s, BYTES(STATE_RECOVERY_KEY), NULL) &&
                     !w->row.primary_static); /* nothing is staged on a secondary */
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        if (w->row.secondary_static) {
            barrier_seal(w->s.barrier);
            assert_status(state_check_recovery(w->s.m.store, &w->s.worker.env, &w->s.seal,
                                               bytes_of(primary_key, sizeof primary_key), &why),
                          ST_OK);
            dr_restart(&w->s, dr_own(w), primary_key);
        }
        /* The seal that stands for the recovery key wraps the present root key. */
        assert_status(dr_rekey(&w->s, dr_own(w), later_key), unknown ? ST_DENIED : ST_OK);
        if (unknown) {
            learn(&w->s, primary_key);
            assert_status(dr_check_key(&w->s, primary_key), ST_OK);
            assert_status(dr_check_key(&w->s, secondary_key), ST_DENIED);
            assert_status(dr_rekey(&w->s, dr_own(w), later_key), ST_OK);
        }
        const uint8_t *shares = w->row.secondary_static ? primary_key : later_key;
        dr_restart(&w->s, dr_own(w), shares);
        assert_status(dr_check_key(&w->s, shares), ST_OK);
        /* A recovery key that is made anew replaces either form. */
        if (!w->row.secondary_static)
            continue;
        sw_begin(&w->s, &txn);
        assert_status(
            state_put(&txn, BYTES(STATE_RECOVERY_KEY), bytes_of(later_key, sizeof later_key)),
            ST_OK);
        assert_status(sw_commit(&w->s, &txn), ST_OK);
        assert_status(dr_check_key(&w->s, later_key), ST_OK);
        assert_status(dr_check_key(&w->s, primary_key), ST_DENIED);
    }
}

static void a_promoted_cluster_moves_its_seal(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct reason why = {{0}};
        struct state_txn txn;
        if (!w->row.secondary_static)
            continue;
        dr_sync(w);
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        sw_begin(&w->s, &txn);
        assert_status(state_migrate(&txn, NULL, bytes_of(secondary_key, SEAL_KEY_BYTES)),
                      ST_DENIED);
        state_end(&txn);
        sw_begin(&w->s, &txn);
        assert_status(state_migrate(&txn, NULL, bytes_of(primary_key, SEAL_KEY_BYTES)), ST_OK);
        assert_status(sw_commit(&w->s, &txn), ST_OK);
        dr_restart(&w->s, NULL, primary_key);
        assert_int_equal(dr_count(&w->s, STATE_RECOVERY_KEY), 0);
    }
}

/* A secondary of the promoted cluster: the old primary, demoted, rejoins. */
static void failback(struct dr_world *w, bool rekeyed)
{
    CLEANUP(secret_done) struct secret root = {0};
    const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
    struct reason why = {{0}};
    struct state_txn txn;
    bool unknown = !w->row.primary_static && w->row.secondary_static;
    const uint8_t *shares = rekeyed && !w->row.secondary_static ? later_key : primary_key;
    dr_sync(w);
    assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
    if (rekeyed) {
        if (unknown)
            learn(&w->s, primary_key);
        assert_status(dr_rekey(&w->s, dr_own(w), later_key), ST_OK);
        dr_expire(&w->s, STATE_NO_SECONDARY);
        assert_int_equal(dr_count(&w->s, BARRIER_LINKS), 0);
    }
    sw_put(&w->s, "s/secret", "of the new primary");
    sw_put(&w->p, "l/own", "local to the first");
    sw_begin(&w->p, &txn);
    assert_status(state_dr_demote(&txn), ST_OK);
    assert_status(state_put_raw(&txn, BYTES(STATE_FOLLOWING), BYTES("")), ST_OK);
    assert_status(sw_commit(&w->p, &txn), ST_OK);
    dr_restart(&w->p, primary, primary_key);
    dr_assert_reads(&w->p, "of the primary", "local to the first");
    dr_root(&w->s, &root);
    assert_status(dr_adopt(&w->s, &w->p, primary, &root, &why), ST_OK);
    assert_status(state_follow(w->p.m.store, w->p.barrier), ST_OK);
    dr_restart(&w->p, primary, shares);
    dr_assert_reads(&w->p, "of the new primary", "local to the first");
    assert_status(dr_check_key(&w->p, shares), ST_OK);
    assert_true(dr_upkeep(&w->p, primary, DR_NOW_MS, &why));
    if (w->row.secondary_static)
        assert_status(dr_opens(&w->p, &w->s.seal), ST_INVALID);
    /* And back. */
    assert_status(dr_promote(&w->p, primary, &why), ST_OK);
    dr_restart(&w->p, primary, shares);
    assert_status(dr_check_key(&w->p, shares), ST_OK);
}

static void the_old_primary_rejoins_and_is_promoted_again(void **ctx)
{
    (void)ctx;
    for (int rekeyed = 0; rekeyed < 2; rekeyed++)
        FOR_ROWS(&world)
    failback(&world, rekeyed != 0);
}

/* Without an activation: the links of the primary lead from this cluster's root key to its own. */
static void links_lead_a_demoted_cluster_to_the_new_primary_s_root_key(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
        struct reason why = {{0}};
        dr_sync(w);
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        if (!w->row.primary_static && w->row.secondary_static)
            learn(&w->s, primary_key);
        assert_status(dr_rekey(&w->s, dr_own(w), later_key), ST_OK);
        assert_status(dr_rekey(&w->s, dr_own(w), later_key), ST_OK);
        assert_status(dr_adopt(&w->s, &w->p, primary, NULL, &why), ST_OK);
        assert_status(state_follow(w->p.m.store, w->p.barrier), ST_OK);
        dr_restart(&w->p, primary, w->row.secondary_static ? primary_key : later_key);
        dr_assert_reads(&w->p, "of the primary", NULL);
    }
}

static void a_primary_moves_its_seal(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct state_txn txn;
        struct reason why = {{0}};
        struct seal file = {0};
        assert_status(seal_static(BYTES("a seal key that is new, 32 bytes"), "n", &file, NULL),
                      ST_OK);
        dr_sync(w);
        sw_begin(&w->p, &txn);
        assert_status(state_migrate(&txn, w->row.primary_static ? NULL : &file,
                                    bytes_of(primary_key, SEAL_KEY_BYTES)),
                      ST_OK);
        assert_status(sw_commit(&w->p, &txn), ST_OK);
        dr_ship(&w->p, &w->s);
        dr_restart(&w->s, dr_own(w), primary_key);
        (void)dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why);
        assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
        dr_restart(&w->s, dr_own(w), primary_key);
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        assert_status(dr_promote(&w->s, dr_own(w), &why), ST_OK);
        dr_restart(&w->s, dr_own(w), primary_key);
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        seal_done(&file);
    }
}

static void a_secondary_moves_its_own_seal(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct state_txn txn;
        struct reason why = {{0}};
        struct seal file = {0};
        assert_status(seal_static(BYTES("a seal key that is new, 32 bytes"), "n", &file, NULL),
                      ST_OK);
        const struct seal *target = w->row.secondary_static ? NULL : &file;
        dr_sync(w);
        if (w->row.primary_static) { /* a new root key comes between */
            assert_status(dr_rekey(&w->p, &w->p.seal, NULL), ST_OK);
            dr_ship(&w->p, &w->s);
            assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
        }
        sw_begin(&w->s, &txn);
        assert_status(state_migrate(&txn, target, bytes_of(secondary_key, SEAL_KEY_BYTES)),
                      ST_DENIED);
        state_end(&txn);
        uint64_t version = w->s.m.version;
        sw_begin(&w->s, &txn);
        assert_status(state_migrate(&txn, target, bytes_of(primary_key, SEAL_KEY_BYTES)), ST_OK);
        assert_status(sw_commit(&w->s, &txn), ST_OK);
        assert_int_equal(w->s.m.version, version); /* nothing that is replicated */
        dr_restart(&w->s, target, primary_key);
        assert_true(dr_upkeep(&w->s, target, DR_NOW_MS, &why));
        assert_status(dr_promote(&w->s, target, &why), ST_OK);
        dr_restart(&w->s, target, primary_key);
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        seal_done(&file);
    }
}

/* A node with the new key and the previous one goes on under the previous one until state_rewrap.
 */
static void a_secondary_changes_the_key_of_its_own_seal(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        struct state_txn txn;
        struct reason why = {{0}};
        struct seal next = {0};
        CLEANUP(secret_done) struct secret root = {0};
        if (!w->row.secondary_static)
            continue;
        assert_status(seal_static(BYTES("a seal key that is new, 32 bytes"), "n", &next, NULL),
                      ST_OK);
        next.previous = &w->s.seal;
        dr_root(&w->p, &root);
        assert_status(dr_adopt(&w->p, &w->s, &next, &root, &why), ST_OK);
        assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
        assert_status(dr_opens(&w->s, &w->s.seal), ST_OK);
        assert_true(dr_upkeep(&w->s, &next, DR_NOW_MS, &why));
        assert_string_equal(why.text, "");
        uint64_t version = w->s.m.version;
        sw_begin(&w->s, &txn);
        assert_status(state_rewrap(&txn, &next), ST_OK);
        assert_status(sw_commit(&w->s, &txn), ST_OK);
        assert_int_equal(w->s.m.version, version); /* nothing that is replicated */
        assert_status(dr_opens(&w->s, &w->s.seal), ST_INVALID);
        next.previous = NULL;
        dr_restart(&w->s, &next, primary_key);
        assert_true(dr_upkeep(&w->s, &next, DR_NOW_MS, &why));
        assert_status(dr_check_key(&w->s, primary_key), ST_OK);
        assert_status(dr_promote(&w->s, &next, &why), ST_OK);
        dr_restart(&w->s, &next, primary_key);
        seal_done(&next);
    }
}

static void without_a_recovery_key_shares_cannot_open_a_secondary(void **ctx)
{
    struct dr_world *w = &world;
    struct reason why = {{0}};
    struct state_txn txn;
    CLEANUP(secret_done) struct secret root = {0};
    (void)ctx;
    dr_open(w, (struct dr_row){true, false});
    sw_delete(&w->p, STATE_RECOVERY_KEY);
    struct seal seal = w->p.seal;
    seal.shares = seal.threshold = 0;
    sw_begin(&w->p, &txn);
    assert_status(state_reseal(&txn, &seal), ST_OK);
    assert_status(sw_commit(&w->p, &txn), ST_OK);
    dr_root(&w->p, &root);
    assert_status(dr_adopt(&w->p, &w->s, NULL, &root, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "give this cluster a static seal"));
    assert_int_equal(dr_count(&w->s, STATE_DR_SEAL), 0);
    dr_close(w);
}

static void another_root_key_is_refused(void **ctx)
{
    struct dr_world *w = &world;
    struct reason why = {{0}};
    CLEANUP(secret_done) struct secret root = {0};
    (void)ctx;
    dr_open(w, (struct dr_row){true, true});
    dr_root(&w->p, &root);
    root.data[3] ^= 1;
    assert_status(dr_adopt(&w->p, &w->s, &w->s.seal, &root, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "the keys of the primary do not open"));
    assert_status(dr_adopt(&w->p, &w->s, &w->s.seal, NULL, &why), ST_INVALID);
    barrier_seal(w->s.barrier);
    root.data[3] ^= 1;
    assert_status(dr_adopt(&w->p, &w->s, &w->s.seal, &root, &why), ST_SEALED);
    dr_close(w);
}

static void adopt_needs_a_later_version_and_the_ring_that_it_read(void **ctx)
{
    struct dr_world *w = &world;
    struct reason why = {{0}};
    struct state_dr_source source = {0};
    struct rlog_txn_builder txn = {0};
    CLEANUP(secret_done) struct secret root = {0};
    CLEANUP(buf_done) struct buf ring = {0};
    struct state_txn other;
    struct state_value stored;
    (void)ctx;
    dr_open(w, (struct dr_row){true, true});
    dr_sync(w);
    dr_root(&w->p, &root);
    dr_walk(&w->p, dr_source_add, &source);
    struct state_dr_adopt in = {.store = w->s.m.store,
                                .barrier = w->s.barrier,
                                .env = &w->s.worker.env,
                                .source = &source,
                                .root = &root,
                                .own = &w->s.seal,
                                .version = barrier_restored(w->s.barrier),
                                .now_ms = DR_NOW_MS};
    assert_status(state_dr_adopt(&in, &txn, &why), ST_CONFLICT);
    in.version++;
    assert_status(state_dr_adopt(&in, &txn, &why), ST_OK);
    sw_begin(&w->s, &other); /* the local ring is renewed meanwhile */
    assert_status(state_get_raw(&other, BYTES(BARRIER_LOCAL_KEYRING), &stored), ST_OK);
    assert_status(
        barrier_upkeep(w->s.barrier, &w->s.worker.env, BARRIER_LOCAL, 10, DR_NOW_MS, &ring), ST_OK);
    assert_status(state_put_raw(&other, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&ring)), ST_OK);
    assert_status(sw_commit(&w->s, &other), ST_OK);
    assert_int_equal(dr_apply(&w->s, &txn, NULL), RLOG_CONFLICTED);
    state_dr_source_done(&source);
    dr_close(w);
}

static void a_node_with_another_seal_says_so(void **ctx)
{
    struct dr_world *w = &world;
    struct reason why = {{0}};
    (void)ctx;
    dr_open(w, (struct dr_row){false, true});
    dr_sync(w);
    assert_status(dr_rekey(&w->p, NULL, later_key), ST_OK);
    dr_ship(&w->p, &w->s);
    assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
    assert_false(dr_upkeep(&w->s, NULL, DR_NOW_MS, &why));
    assert_non_null(strstr(why.text, "configured for key shares"));
    assert_status(dr_promote(&w->s, NULL, &why), ST_INVALID);
    assert_status(dr_promote(&w->s, &w->p.seal, &why), ST_INVALID);
    assert_false(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
    assert_true(dr_upkeep(&w->s, dr_own(w), DR_NOW_MS, &why));
    dr_close(w);
}

/* What was decided and encrypted before the sync is refused after it. */
static void a_commit_from_before_the_sync_conflicts(void **ctx)
{
    struct dr_world *w = &world;
    struct state_txn txn;
    (void)ctx;
    dr_open(w, (struct dr_row){true, true});
    sw_begin(&w->s, &txn);
    assert_status(state_put(&txn, BYTES("l/blind"), BYTES("x")), ST_OK);
    dr_sync(w);
    assert_status(sw_commit(&w->s, &txn), ST_CONFLICT);
    dr_close(w);
}

static void running_out_of_memory_is_told_and_harmless(void **ctx)
{
    struct dr_world *w = &world;
    (void)ctx;
    FOR_ROWS(w)
    {
        CLEANUP(secret_done) struct secret root = {0};
        const struct seal *primary = seal_if(w->row.primary_static, &w->p.seal);
        struct reason why = {{0}};
        struct state_dr_source source = {0};
        bool failed = true;
        dr_root(&w->p, &root);
        assert_status(dr_rekey(&w->p, primary, later_key), ST_OK);
        dr_walk(&w->p, dr_source_add, &source);
        const struct state_dr_adopt in = {.store = w->s.m.store,
                                          .barrier = w->s.barrier,
                                          .env = &w->s.worker.env,
                                          .source = &source,
                                          .root = &root,
                                          .own = dr_own(w),
                                          .version = w->s.m.version + 1,
                                          .now_ms = DR_NOW_MS};
        for (uint64_t n = 1; failed; n++) {
            CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
            CLEANUP(buf_done) struct buf out = {0};
            (void)mem_fail_nth(n);
            enum status st = state_dr_adopt(&in, &txn, &why);
            if (st == ST_OK) /* the builder reports its own lack when it encodes */
                st = rlog_txn_encode(&txn, &out);
            failed = mem_fail_nth(0);
            assert_status(st, failed ? ST_NOMEM : ST_OK);
            assert_true(n < 200);
        }
        state_dr_source_done(&source);
        dr_sync(w);
        assert_status(dr_rekey(&w->p, primary, later_key), ST_OK);
        dr_ship(&w->p, &w->s);
        failed = true;
        for (uint64_t n = 1; failed; n++) {
            struct state_txn txn;
            struct state_dr_keys keys;
            sw_begin(&w->s, &txn);
            (void)mem_fail_nth(n);
            enum status st = state_dr_upkeep(&txn, dr_own(w), DR_NOW_MS, &keys);
            if (st == ST_OK)
                st = state_dr_promote(&txn, dr_own(w), DR_NOW_MS, &why);
            failed = mem_fail_nth(0);
            assert_status(st, failed ? ST_NOMEM : ST_OK);
            state_end(&txn);
            assert_true(n < 400);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_first_sync_the_own_seal_opens_the_primary_s_state),
        cmocka_unit_test(a_sealed_node_takes_the_primary_s_shares),
        cmocka_unit_test(rekeyed_twice_while_away),
        cmocka_unit_test(rekeyed_between_activation_and_sync),
        cmocka_unit_test(new_shares_of_the_primary_reach_the_own_seal),
        cmocka_unit_test(promotion_makes_the_own_seal_the_cluster_s),
        cmocka_unit_test(promotion_before_the_renewal_loses_nothing),
        cmocka_unit_test(the_primary_s_shares_serve_ceremonies_after_promotion),
        cmocka_unit_test(a_promoted_cluster_moves_its_seal),
        cmocka_unit_test(the_old_primary_rejoins_and_is_promoted_again),
        cmocka_unit_test(links_lead_a_demoted_cluster_to_the_new_primary_s_root_key),
        cmocka_unit_test(a_primary_moves_its_seal),
        cmocka_unit_test(a_secondary_moves_its_own_seal),
        cmocka_unit_test(a_secondary_changes_the_key_of_its_own_seal),
        cmocka_unit_test(without_a_recovery_key_shares_cannot_open_a_secondary),
        cmocka_unit_test(another_root_key_is_refused),
        cmocka_unit_test(adopt_needs_a_later_version_and_the_ring_that_it_read),
        cmocka_unit_test(a_node_with_another_seal_says_so),
        cmocka_unit_test(a_commit_from_before_the_sync_conflicts),
        cmocka_unit_test(running_out_of_memory_is_told_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
