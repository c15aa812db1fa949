/* Saving and restoring the whole state, over a log that applies at once. Every step fails in turn.
 */
#include "snapshot/snapshot_world.h"

/* Snapshots */

struct saved {
    struct fs_file *file;
    uint64_t bytes;
};

static struct saved save(void)
{
    struct saved s = {0};
    why = (struct reason){{0}};
    assert_status(snapshot_save(&part, &s.file, &s.bytes, &why), ST_OK);
    assert_true(s.bytes > 0);
    return s;
}

static enum status restore(const struct saved *s, bool force)
{
    const struct snapshot_source source = {s->file, s->bytes, force};
    why = (struct reason){{0}};
    proposals = 0;
    return snapshot_restore(&part, &w.env.env, &source, &why);
}

/* A snapshot of a state that has changed since; large: of several transactions. */
static struct saved changed_since(bool large)
{
    static char body[LARGE_BYTES + 32];
    if (large) {
        memset(body, 'x', sizeof body);
        memcpy(body, "{\"v\":\"", 6);
        (void)snprintf(body + LARGE_BYTES, sizeof body - LARGE_BYTES, "\"}");
    }
    for (unsigned i = 0; large && i < LARGE_VALUES; i++) {
        char path[40];
        (void)snprintf(path, sizeof path, "/v1/kv/large/%u", i);
        put(path, body);
    }
    put("/v1/kv/a", OLD);
    struct saved s = save();
    put("/v1/kv/a", NEW);
    put("/v1/kv/later", NEW);
    return s;
}

static void expect_restored(void)
{
    expect("/v1/kv/a", OLD);
    expect("/v1/kv/later", NULL);
    assert_false(w.m.staging);
    assert_true(has(STATE_RESTORED));
}

/* Nothing was changed, and what was staged goes. */
static void expect_unchanged(const uint8_t before[STORE_HASH_BYTES])
{
    uint8_t after[STORE_HASH_BYTES];
    struct rlog_status status;
    hash(after);
    assert_memory_equal(after, before, sizeof after);
    assert_false(part.busy);
    rlog_status(NULL, &status);
    snapshot_part.changed(&part, &status);
    assert_false(w.m.staging);
    expect("/v1/kv/a", NEW);
}

static void what_was_saved_is_restored(void **ctx)
{
    (void)ctx;
    for (unsigned large = 0; large < 2; large++) {
        struct saved s = changed_since(large != 0);
        uint64_t version = w.m.version;
        bool local = has(BARRIER_LOCAL_KEYRING);
        assert_true(local);
        assert_status(restore(&s, false), ST_OK);
        assert_string_equal(why.text, "");
        assert_true(proposals >= (large != 0 ? 4U : 3U)); /* begin, put, swap */
        assert_true(w.m.version > version);
        expect_restored();
        assert_true(has(BARRIER_LOCAL_KEYRING));
        put("/v1/kv/after", NEW);
        expect("/v1/kv/after", NEW);
        fs_close(s.file);
    }
}

/* Members of an older build could not read the records of a later feature level. */
static void a_snapshot_of_a_later_feature_level_waits_for_that_level(void **ctx)
{
    (void)ctx;
    uint8_t before[STORE_HASH_BYTES];
    w.m.feature = RLOG_FEATURE;
    struct saved s = changed_since(false);
    host.feature = RLOG_FEATURE_FIRST;
    hash(before);
    for (unsigned force = 0; force < 2; force++) {
        assert_status(restore(&s, force != 0), ST_INVALID);
        assert_string_equal(why.text,
                            "the snapshot is refused: it is of feature level 6, this cluster is "
                            "at level 1; upgrade every member first");
        assert_int_equal(proposals, 0);
    }
    expect_unchanged(before);
    host.feature = RLOG_FEATURE;
    assert_status(restore(&s, false), ST_OK);
    expect_restored();
    fs_close(s.file);
}

/* How many a restore makes; the state is another one again, of this hash. */
static unsigned proposals_of(struct saved *s, uint8_t ret_before[STORE_HASH_BYTES])
{
    assert_status(restore(s, false), ST_OK);
    unsigned all = proposals;
    put("/v1/kv/a", NEW);
    hash(ret_before);
    return all;
}

static void a_proposal_that_fails_leaves_the_state_as_it_was(void **ctx)
{
    (void)ctx;
    static const enum status fails[][2] = {{ST_NOT_LEADER, ST_BUSY},
                                           {ST_CONFLICT, ST_BUSY},
                                           {ST_NO_SPACE, ST_NO_SPACE},
                                           {ST_CLOSED, ST_CLOSED}};
    struct saved s = changed_since(true);
    uint8_t before[STORE_HASH_BYTES];
    const unsigned all = proposals_of(&s, before);
    for (size_t i = 0; i < ARRAY_LEN(fails); i++)
        for (fail_at = 1; fail_at <= all; fail_at++) {
            fail_with = fails[i][0];
            assert_status(restore(&s, false), fails[i][1]);
            assert_int_equal(proposals, fail_at);
            assert_non_null(strstr(why.text, "nothing was changed"));
            expect_unchanged(before);
        }
    fail_at = 0;
    assert_status(restore(&s, false), ST_OK);
    expect_restored();
    fs_close(s.file);
}

/* Before the swap it cannot have happened; with it, it may. */
static void an_unknown_outcome_is_one_only_of_the_swap(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(true);
    uint8_t before[STORE_HASH_BYTES];
    const unsigned all = proposals_of(&s, before);
    fail_with = ST_UNKNOWN_OUTCOME;
    for (unsigned done = 0; done < 2; done++) {
        applied_anyway = done != 0;
        for (fail_at = 1; fail_at < all; fail_at++) {
            assert_status(restore(&s, false), ST_BUSY);
            assert_non_null(strstr(why.text, "nothing was changed"));
            expect_unchanged(before);
        }
        assert_status(restore(&s, false), ST_UNKNOWN_OUTCOME);
        assert_null(strstr(why.text, "nothing"));
        if (done == 0)
            expect_unchanged(before);
        else
            expect_restored();
    }
    fs_close(s.file);
}

static void another_restore_that_took_the_tree_ends_this_one(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(true);
    uint8_t before[STORE_HASH_BYTES];
    const unsigned all = proposals_of(&s, before);
    stage_taken = true;
    for (fail_at = 2; fail_at <= all; fail_at++) {
        assert_status(restore(&s, false), ST_BUSY);
        assert_non_null(strstr(why.text, "another restore took its place"));
        expect_unchanged(before);
    }
    fs_close(s.file);
}

static void a_file_that_cannot_be_read_changes_nothing(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(true);
    uint8_t before[STORE_HASH_BYTES];
    uint64_t calls = disk->calls;
    assert_status(restore(&s, false), ST_OK);
    const uint64_t all = disk->calls - calls;
    assert_true(all >= 2); /* it is read twice */
    put("/v1/kv/a", NEW);
    hash(before);
    disk->fail_with = ST_IO;
    for (uint64_t i = 1; i <= all; i++) {
        disk->fail_at = disk->calls + i;
        assert_status(restore(&s, false), ST_IO);
        expect_unchanged(before);
    }
    fs_close(s.file);
}

static void an_archive_cut_short_changes_nothing(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(false);
    uint8_t before[STORE_HASH_BYTES];
    hash(before);
    assert_status(fs_set_size(s.file, s.bytes / 2), ST_OK);
    assert_status(restore(&s, false), ST_INVALID);
    assert_non_null(strstr(why.text, "refused"));
    assert_int_equal(proposals, 0);
    expect_unchanged(before);
    fs_close(s.file);
}

static void no_memory_changes_nothing(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(false);
    uint8_t before[STORE_HASH_BYTES];
    enum status st = ST_NOMEM;
    uint64_t nth = 0;
    hash(before);
    for (bool hit = true; hit;) {
        (void)mem_fail_nth(++nth);
        st = restore(&s, false);
        hit = proposals == 0 && mem_fail_nth(0); /* staging is begun by what was checked */
        if (hit) {
            assert_status(st, ST_NOMEM);
            expect_unchanged(before);
        }
    }
    assert_true(nth > 4);
    assert_status(st, ST_OK);
    expect_restored();
    fs_close(s.file);
}

static void saving_needs_memory_room_and_a_disk_that_writes(void **ctx)
{
    (void)ctx;
    struct saved s = {0};
    enum status st = ST_NOMEM;
    uint64_t nth = 0;
    for (bool hit = true; hit;) {
        (void)mem_fail_nth(++nth);
        st = snapshot_save(&part, &s.file, &s.bytes, &why);
        hit = mem_fail_nth(0);
        if (hit)
            assert_status(st, ST_NOMEM);
    }
    assert_true(nth > 2);
    assert_status(st, ST_OK);
    fs_close(s.file);
    uint64_t calls = disk->calls;
    s = save();
    fs_close(s.file);
    const uint64_t all = disk->calls - calls;
    disk->fail_with = ST_IO;
    for (uint64_t i = 4; i <= all; i++) { /* once the file has no name */
        disk->fail_at = disk->calls + i;
        assert_status(snapshot_save(&part, &s.file, &s.bytes, &why), ST_IO);
        assert_false(part.busy);
    }
    disk->room = 100;
    assert_status(snapshot_save(&part, &s.file, &s.bytes, &why), ST_NO_SPACE);
    assert_false(part.busy);
    disk->room = UINT64_MAX;
    s = save();
    fs_close(s.file);
    assert_int_equal(disk->now.n, 0); /* files without a name */
}

static void there_is_room_above_the_reserve(void **ctx)
{
    (void)ctx;
    disk->room = 100 << 20;
    assert_false(snapshot_room(&part)); /* the reserve where none is configured is more */
    part.reserve_bytes = 10 << 20;
    assert_true(snapshot_room(&part));
    disk->room = 15 << 20;
    assert_false(snapshot_room(&part));
    disk->room = UINT64_MAX;
    disk->dead = true;
    assert_false(snapshot_room(&part));
}

static void a_file_takes_the_name_of_one_that_was_left(void **ctx)
{
    (void)ctx;
    struct fs_file *left = NULL, *file = NULL;
    part.files = 7;
    assert_status(fs_open(host.fs, "snapshot-7", FS_WRITE | FS_CREATE, &left), ST_OK);
    fs_close(left);
    assert_status(snapshot_file(&part, &file), ST_OK);
    assert_int_equal(disk->now.n, 0);
    fs_close(file);
    disk->fail_with = ST_IO;
    for (unsigned i = 1; i <= 3; i++) {
        disk->fail_at = disk->calls + i;
        assert_status(snapshot_file(&part, &file), ST_IO);
    }
}

static void one_at_a_time(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(false), other = {0};
    part.busy = true;
    assert_status(snapshot_save(&part, &other.file, &other.bytes, &why), ST_BUSY);
    assert_non_null(strstr(why.text, "another snapshot"));
    assert_status(restore(&s, false), ST_BUSY);
    assert_non_null(strstr(why.text, "another snapshot"));
    assert_true(part.busy);
    part.busy = false;
    take_stage(); /* of a restore on another node */
    assert_status(snapshot_save(&part, &other.file, &other.bytes, &why), ST_BUSY);
    assert_non_null(strstr(why.text, "is being restored"));
    assert_status(restore(&s, false), ST_OK);
    fs_close(s.file);
}

static void a_node_that_ends_does_neither(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(false), other = {0};
    uint8_t before[STORE_HASH_BYTES];
    hash(before);
    bool *const ends[] = {&host.stopping, &host.replica_closed};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        *ends[i] = true;
        assert_status(snapshot_save(&part, &other.file, &other.bytes, &why), ST_CLOSED);
        assert_status(restore(&s, false), ST_CLOSED);
        assert_int_equal(proposals, 0);
        *ends[i] = false;
    }
    expect_unchanged(before);
    fs_close(s.file);
}

static void a_state_that_may_not_be_so_large_is_refused(void **ctx)
{
    (void)ctx;
    struct saved s = changed_since(true);
    uint8_t before[STORE_HASH_BYTES];
    hash(before);
    part.state_bytes_max = LARGE_BYTES;
    assert_status(restore(&s, true), ST_TOO_BIG);
    assert_int_equal(proposals, 0);
    expect_unchanged(before);
    part.state_bytes_max = 2 * LARGE_VALUES * LARGE_BYTES;
    assert_status(restore(&s, true), ST_OK);
    fs_close(s.file);
}

/* `seal`, `former`: the configured seals, one of which opens what comes if `opens`. */
static void take_a_foreign_one(const struct seal *seal, const struct seal *former, bool opens)
{
    struct saved s = changed_since(false);
    uint8_t before[STORE_HASH_BYTES];
    world_close(&w);
    open_as(7);
    put("/v1/kv/a", NEW);
    hash(before);
    assert_status(restore(&s, false), ST_INVALID);
    assert_non_null(strstr(why.text, "snapshot-force"));
    assert_int_equal(proposals, 0);
    expect_unchanged(before);
    part.seal = seal;
    part.former_seal = former;
    assert_status(restore(&s, true), ST_OK);
    assert_int_equal(has(BARRIER_LOCAL_KEYRING), opens);
    assert_true(has(STATE_RESTORED));
    fs_close(s.file);
}

static void a_foreign_one_needs_force_and_the_local_keys_are_wrapped_anew(void **ctx)
{
    (void)ctx;
    take_a_foreign_one(&w.seal, NULL, true);
}

static void without_the_foreign_ones_key_the_local_keys_go(void **ctx)
{
    (void)ctx;
    take_a_foreign_one(NULL, NULL, false);
}

static void the_disabled_seal_opens_a_foreign_one_too(void **ctx)
{
    (void)ctx;
    CLEANUP(seal_done) struct seal other = {0};
    uint8_t key[SEAL_KEY_BYTES] = {3};
    assert_status(seal_static(bytes_of(key, sizeof key), "other", &other, &why), ST_OK);
    take_a_foreign_one(&other, &w.seal, true);
    world_close(&w);
    open_as(42);
    take_a_foreign_one(&other, NULL, false);
}

/* A stored record of the state, whatever it is. */
static void put_raw(const char *key, struct bytes value)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf txn = {0};
    rlog_txn_put(&b, bytes_str(key), value);
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    apply(buf_bytes(&txn), NULL);
}

/* An archive whose sums were made anew after `key` in it was damaged: its last byte is another, or
 * it is cut. */
static struct saved damaged(const char *key, bool cut)
{
    CLEANUP(barrier_created_done) struct barrier_created other = {0};
    uint8_t record[512];
    struct store_pin pin;
    struct store_item item;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    assert_status(store_get(&pin, bytes_str(key), &item), ST_OK);
    size_t len = item.value.len;
    assert_true(len > 1 && len <= sizeof record);
    memcpy(record, item.value.data, len);
    store_unpin(&pin);
    record[len - 1] ^= 1;
    put_raw(key, bytes_of(record, cut ? len - 1 : len));
    assert_status(barrier_create(&w.env.env, &w.seal, 0, &other), ST_OK);
    host.barrier = other.barrier; /* so that the proof is not ours */
    struct saved s = save();
    host.barrier = w.barrier;
    record[len - 1] ^= 1;
    put_raw(key, bytes_of(record, len));
    return s;
}

/* `told`: what is said; NULL: it is restored. */
static void force_damaged(const struct saved *s, const char *told)
{
    uint8_t before[STORE_HASH_BYTES];
    hash(before);
    assert_status(restore(s, false), ST_INVALID);
    assert_status(restore(s, true), told != NULL ? ST_INVALID : ST_OK);
    fs_close(s->file);
    if (told == NULL) {
        assert_true(has(STATE_RESTORED));
        return;
    }
    assert_non_null(strstr(why.text, "is refused"));
    if (strstr(why.text, told) == NULL)
        fail_msg("%s: %s", told, why.text);
    assert_int_equal(proposals, 0);
    expect_unchanged(before);
}

static void our_own_keys_damaged_are_refused_with_force_too(void **ctx)
{
    (void)ctx;
    static const char *const cases[][2] = {
        {BARRIER_SEAL, "seal"}, {BARRIER_KEYRING, "key ring"}, {BARRIER_SALT, "salt"}};
    put("/v1/kv/a", NEW);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (unsigned cut = 0; cut < 2; cut++)
            for (unsigned seal = 0; seal < 2; seal++) {
                struct saved s = damaged(cases[i][0], cut != 0);
                part.seal = seal != 0 ? &w.seal : NULL;
                force_damaged(&s, cases[i][1]);
            }
}

static void our_own_keys_whole_stay_ours_whoever_made_the_sums(void **ctx)
{
    (void)ctx;
    CLEANUP(barrier_created_done) struct barrier_created other = {0};
    put("/v1/kv/a", OLD);
    assert_status(barrier_create(&w.env.env, &w.seal, 0, &other), ST_OK);
    host.barrier = other.barrier;
    struct saved s = save();
    host.barrier = w.barrier;
    put("/v1/kv/a", NEW);
    part.seal = NULL;
    force_damaged(&s, NULL);
    assert_true(has(BARRIER_LOCAL_KEYRING));
    expect("/v1/kv/a", OLD);
}

/* Where the seal opens the foreign root key, all must open; where nobody can, all must have the
 * form. */
static void foreign_keys_damaged_are_refused_as_far_as_one_can_tell(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *key;
        bool cut, seal;
        const char *told;
    } cases[] = {
        {BARRIER_KEYRING, false, true, "key ring"}, {BARRIER_KEYRING, true, true, "key ring"},
        {BARRIER_SALT, false, true, "salt"},        {BARRIER_SALT, true, true, "salt"},
        {BARRIER_SEAL, true, true, "seal"},         {BARRIER_KEYRING, true, false, "key ring"},
        {BARRIER_SALT, true, false, "salt"},        {BARRIER_SEAL, true, false, "seal"},
        {BARRIER_KEYRING, false, false, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct saved s = damaged(cases[i].key, cases[i].cut);
        world_close(&w);
        open_as(7 + i);
        put("/v1/kv/a", NEW);
        part.seal = cases[i].seal ? &w.seal : NULL;
        force_damaged(&s, cases[i].told);
    }
}

static void a_staged_tree_whose_owner_has_gone_is_dropped_once(void **ctx)
{
    (void)ctx;
    struct rlog_status status;
    take_stage();
    rlog_status(NULL, &status);
    part.busy = true; /* it is this node's own */
    snapshot_part.changed(&part, &status);
    part.busy = false;
    part.host->staging = true; /* a sync of disaster recovery fills it */
    snapshot_part.changed(&part, &status);
    part.host->staging = false;
    status.ready = false;
    snapshot_part.changed(&part, &status);
    assert_int_equal(writes, 0);
    assert_true(w.m.staging);
    status.ready = true;
    snapshot_part.changed(&part, &status);
    assert_int_equal(writes, 1);
    assert_false(w.m.staging);
    take_stage(); /* begun while the first was being dropped: not the one that was meant */
    snapshot_part.changed(&part, &status);
    assert_int_equal(writes, 1);
    assert_true(w.m.staging);
    rlog_status(NULL, &status);
    snapshot_part.changed(&part, &status);
    assert_int_equal(writes, 2);
    assert_false(w.m.staging);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_saved_is_restored),
        TEST(a_snapshot_of_a_later_feature_level_waits_for_that_level),
        TEST(a_proposal_that_fails_leaves_the_state_as_it_was),
        TEST(an_unknown_outcome_is_one_only_of_the_swap),
        TEST(another_restore_that_took_the_tree_ends_this_one),
        TEST(a_file_that_cannot_be_read_changes_nothing),
        TEST(an_archive_cut_short_changes_nothing),
        TEST(no_memory_changes_nothing),
        TEST(saving_needs_memory_room_and_a_disk_that_writes),
        TEST(there_is_room_above_the_reserve),
        TEST(a_file_takes_the_name_of_one_that_was_left),
        TEST(one_at_a_time),
        TEST(a_node_that_ends_does_neither),
        TEST(a_state_that_may_not_be_so_large_is_refused),
        TEST(a_foreign_one_needs_force_and_the_local_keys_are_wrapped_anew),
        TEST(without_the_foreign_ones_key_the_local_keys_go),
        TEST(the_disabled_seal_opens_a_foreign_one_too),
        TEST(our_own_keys_damaged_are_refused_with_force_too),
        TEST(our_own_keys_whole_stay_ours_whoever_made_the_sums),
        TEST(foreign_keys_damaged_are_refused_as_far_as_one_can_tell),
        TEST(a_staged_tree_whose_owner_has_gone_is_dropped_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
