/* Recovery from a lost majority, on files in memory: what is refused, what survives, and a power
 * loss or a failed call at every single call. */
#include "raft/disk_world.h"
#include "slice.h"

#include "cluster/membership/recovery/recovery.h"
#include "raft/core/rlog_core.h"
#include "raft/txn/rlog_txn.h"

enum { ENTRIES = 20, SNAPSHOT_AT = 8, OWN = 1, NEW = 0x1234 };

static const char *const names[] = {"n1", "n2", "n3"};

static void conf_of(unsigned n, struct rlog_conf_bytes *ret)
{
    struct rlog_conf conf = {.n = n};
    for (unsigned i = 0; i < n; i++) {
        struct rlog_member *m = &conf.members[i];
        *m = (struct rlog_member){.id = i + 1, .role = RLOG_VOTER};
        (void)snprintf(m->name, sizeof m->name, "%s", names[i]);
        (void)snprintf(m->address, sizeof m->address, "%s:1", names[i]);
    }
    assert_status(rlog_conf_encode(&conf, ret), ST_OK);
}

static struct rlog_entry make_entry(enum rlog_entry_type type, uint64_t term, struct bytes data)
{
    struct rlog_block *block = rlog_block_new(data.len);
    assert_non_null(block);
    memcpy(rlog_block_data(block), data.data, data.len);
    return (struct rlog_entry){term, type, bytes_of(rlog_block_data(block), data.len), block};
}

static struct rlog_entry command(uint64_t term, unsigned number)
{
    struct rlog_txn_builder b = {0};
    struct buf txn = {0}, entry = {0};
    char value[16];
    (void)snprintf(value, sizeof value, "%u", number);
    rlog_txn_put(&b, BYTES("s/key"), bytes_str(value));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    struct bytes part = buf_bytes(&txn);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, number, &part, 1, &entry), ST_OK);
    struct rlog_entry made = make_entry(RLOG_COMMAND, term, buf_bytes(&entry));
    rlog_txn_done(&b);
    buf_done(&txn);
    buf_done(&entry);
    return made;
}

static void append(struct world *w, uint64_t index, struct rlog_entry entry)
{
    w->issued++;
    assert_int_equal(rlog_disk_append(w->disk, index, &entry, 1), w->issued);
    rlog_disk_write(w->disk);
    rlog_block_unref(entry.block);
    world_run(w);
}

static void snapshot(struct world *w, const struct rlog_conf_bytes *conf)
{
    struct rlog_snapshot_meta meta = {
        .index = SNAPSHOT_AT, .term = 1, .conf_index = 1, .conf_len = conf->len};
    struct rlog_snap_writer *s;
    uint64_t bytes;
    memcpy(meta.conf, conf->bytes, conf->len);
    assert_status(rlog_snap_create(w->disk, &meta, &s), ST_OK);
    assert_status(rlog_snap_write(s, BYTES("everything so far")), ST_OK);
    assert_status(rlog_snap_commit(s, &bytes), ST_OK);
}

static void save_step(struct world *w, const struct step_record *record)
{
    struct initial_members none;
    static const uint8_t no_nonce[INITIAL_NONCE_BYTES];
    initial_members_init(&none, NULL, 0, 0, no_nonce);
    assert_status(step_file_save(&w->fs->fs, record, &none), ST_OK);
}

/* The data directory of member `id` of three: a configuration, commands, perhaps a snapshot; the
 * last entries have term 2. */
static struct world *survivor(unsigned id, unsigned entries, bool with_snapshot)
{
    struct world *w = world_new();
    struct rlog_conf_bytes conf;
    struct rlog_identity identity = w->identity;
    struct rlog_disk_options o = {.env = &w->env,
                                  .dir = MEMBER_RAFT_DIR,
                                  .ops = {world_written, world_fatal, w},
                                  .segment_bytes = WORLD_SEGMENT,
                                  .reserve_bytes = 1};
    identity.id = id;
    (void)snprintf(identity.name, sizeof identity.name, "%s", names[id - 1]);
    assert_status(rlog_disk_create(&w->env, MEMBER_RAFT_DIR, &identity, &w->reason), ST_OK);
    assert_status(rlog_disk_open(&o, NULL, &w->disk, &identity, &w->loaded, &w->reason), ST_OK);
    assert_status(rlog_disk_set_term(w->disk, 5, 2), ST_OK);
    conf_of(3, &conf);
    append(w, 1, make_entry(RLOG_CHANGE, 1, bytes_of(conf.bytes, conf.len)));
    for (unsigned i = 2; i <= entries; i++)
        append(w, i, command(i <= 12 ? 1 : 2, i));
    if (with_snapshot)
        snapshot(w, &conf);
    world_close(w);
    save_step(w, &(struct step_record){.step = STEP_STARTED, .id = id});
    return w;
}

static struct recovery *opened(struct world *w)
{
    struct recovery *r = NULL;
    assert_status(recovery_open(&w->fs->fs, &r, &w->reason), ST_OK);
    return r;
}

static void say_lost(struct recovery *r, struct reason *reason)
{
    assert_status(recovery_lost(r, "n2", reason), ST_OK);
    assert_status(recovery_lost(r, "n3", reason), ST_OK);
}

/* One attempt of the command. */
static enum status attempt(struct world *w)
{
    struct recovery *r = NULL;
    enum status st = recovery_open(&w->fs->fs, &r, &w->reason);
    if (st != ST_OK)
        return st;
    if (recovery_survey(r)->n_members == 1) {
        recovery_close(r);
        return ST_EXISTS;
    }
    say_lost(r, &w->reason);
    st = recovery_run(r, NEW, &w->reason);
    recovery_close(r);
    return st;
}

static void word_of(struct world *w, char word[RECOVERY_WORD_MAX])
{
    struct recovery *r = opened(w);
    recovery_word(r, word);
    recovery_close(r);
}

/* The recovered replica has the entries of the former one, under ids that are all new. */
static void check_recovered(struct world *w, unsigned entries)
{
    struct recovery *r = opened(w);
    const struct rlog_survey *s = recovery_survey(r);
    assert_int_equal(s->n_members, 1);
    assert_true(s->identity.id > 16);
    assert_int_equal(s->members[0].id, s->identity.id);
    assert_string_equal(s->members[0].name, "n1");
    assert_int_equal(s->members[0].role, RLOG_VOTER);
    assert_int_equal(s->last.index, entries + 2);
    assert_int_equal(s->last.term, 6); /* above the term that the survivor has seen */
    assert_int_equal(s->conf_index, entries + 1);
    assert_string_equal(recovery_folder(r), "raft-0000000000000001");
    for (unsigned i = 0; i < w->fs->now.n; i++) { /* nothing is left of other attempts */
        const char *path = w->fs->now.all[i].path;
        bool known = strcmp(path, "raft") == 0 || strncmp(path, "raft/", 5) == 0 ||
                     strncmp(path, recovery_folder(r), strlen(recovery_folder(r))) == 0 ||
                     strncmp(path, STEP_FILE, strlen(STEP_FILE)) == 0;
        assert_true(known);
    }
    recovery_close(r);
}

static void everything_in_the_log_survives(void **ctx)
{
    (void)ctx;
    for (unsigned with_snapshot = 0; with_snapshot < 2; with_snapshot++) {
        struct world *w = survivor(OWN, ENTRIES, with_snapshot != 0);
        assert_status(attempt(w), ST_OK);
        check_recovered(w, ENTRIES);
        char folder[MEMBER_RAFT_DIR_MAX];
        struct recovery *r = opened(w);
        (void)snprintf(folder, sizeof folder, "%s", recovery_folder(r));
        recovery_close(r);
        struct rlog_disk_options o = {.env = &w->env,
                                      .dir = folder,
                                      .ops = {world_written, world_fatal, w},
                                      .reserve_bytes = 1};
        struct rlog_identity identity;
        assert_status(rlog_disk_open(&o, NULL, &w->disk, &identity, &w->loaded, &w->reason), ST_OK);
        assert_false(w->loaded.corrupt);
        assert_int_equal(w->loaded.term, 6);
        assert_int_equal(w->loaded.vote, identity.id);
        assert_int_equal(w->loaded.snapshot.index, with_snapshot != 0 ? SNAPSHOT_AT : 0);
        for (uint64_t i = 0; i < w->loaded.n; i++) {
            const struct rlog_entry *e = &w->loaded.entries[i];
            uint64_t index = w->loaded.first + i;
            struct rlog_entry want = command(index <= 12 ? 1 : 2, (unsigned)index);
            if (e->type == RLOG_COMMAND && index <= ENTRIES) {
                assert_int_equal(e->term, want.term);
                assert_bytes(e->data, want.data);
            }
            rlog_block_unref(want.block);
        }
        assert_int_equal(w->loaded.first + w->loaded.n - 1, ENTRIES + 2);
        world_free(w);
    }
}

static void a_second_run_says_that_the_first_is_done(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true);
    assert_status(attempt(w), ST_OK);
    struct recovery *r = opened(w);
    assert_status(recovery_check(r, &w->reason), ST_EXISTS);
    assert_non_null(strstr(w->reason.text, "recovered already"));
    assert_status(recovery_run(r, NEW, &w->reason), ST_EXISTS);
    recovery_close(r);
    world_free(w);
}

static void every_member_must_be_mentioned_once(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true);
    struct recovery *r = opened(w);
    assert_status(recovery_run(r, NEW, &w->reason), ST_DENIED);
    assert_status(recovery_lost(r, "n9", &w->reason), ST_INVALID);
    assert_status(recovery_lost(r, "n2", &w->reason), ST_OK);
    assert_status(recovery_lost(r, "n2", &w->reason), ST_INVALID);
    assert_status(recovery_run(r, NEW, &w->reason), ST_DENIED);
    assert_non_null(strstr(w->reason.text, "n3 was not mentioned"));
    assert_status(recovery_lost(r, "n3", &w->reason), ST_OK);
    assert_status(recovery_check(r, &w->reason), ST_OK);
    assert_status(recovery_lost(r, "n1", &w->reason), ST_OK);
    assert_status(recovery_check(r, &w->reason), ST_DENIED); /* this node itself is not lost */
    recovery_close(r);
    world_free(w);
}

static void positions_are_judged_strictly(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true), *other = survivor(2, ENTRIES, false);
    char word[RECOVERY_WORD_MAX], bad[RECOVERY_WORD_MAX];
    word_of(other, word);
    for (size_t i = 0; word[i] != '\0'; i++) { /* any mistyped character */
        struct recovery *r = opened(w);
        memcpy(bad, word, sizeof bad);
        bad[i] = bad[i] == '1' ? '2' : '1';
        assert_status(recovery_survivor(r, bad, &w->reason), ST_INVALID);
        recovery_close(r);
        r = opened(w);
        bad[i] = '\0'; /* or cut there */
        assert_status(recovery_survivor(r, bad, &w->reason), ST_INVALID);
        recovery_close(r);
    }
    struct recovery *r = opened(w);
    assert_status(recovery_survivor(r, word, &w->reason), ST_OK);
    assert_status(recovery_survivor(r, word, &w->reason), ST_INVALID);
    assert_status(recovery_lost(r, "n3", &w->reason), ST_OK);
    assert_status(recovery_check(r, &w->reason), ST_DENIED); /* two of three are a majority */
    assert_non_null(strstr(w->reason.text, "majority"));
    recovery_word(r, word);
    assert_status(recovery_survivor(r, word, &w->reason), ST_INVALID); /* its own */
    recovery_close(r);
    world_free(w);
    world_free(other);
}

static void the_log_that_goes_on_is_the_better_one(void **ctx)
{
    (void)ctx;
    const struct rlog_position mine = {.term = 3, .index = 10, .check = 7};
    static const struct {
        struct rlog_position other;
        enum status st;
    } cases[] = {
        {{3, 10, 7}, ST_OK},      {{3, 9, 1}, ST_OK},        {{2, 11, 1}, ST_OK},
        {{3, 10, 0}, ST_OK},      {{3, 11, 1}, ST_CONFLICT}, {{4, 1, 1}, ST_CONFLICT},
        {{3, 10, 8}, ST_CORRUPT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_status(rlog_position_judge(&mine, &cases[i].other), cases[i].st);
}

static void joining_needs_a_log_that_is_not_better(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true), *ahead = survivor(2, ENTRIES + 3, false);
    char word[RECOVERY_WORD_MAX];
    word_of(w, word);
    struct recovery *r = opened(ahead);
    assert_status(recovery_join(r, NEW, &w->reason), ST_DENIED);
    assert_status(recovery_survivor(r, word, &w->reason), ST_OK);
    assert_status(recovery_join(r, NEW, &w->reason), ST_CONFLICT);
    recovery_close(r);
    word_of(ahead, word);
    r = opened(w);
    assert_status(recovery_survivor(r, word, &w->reason), ST_OK);
    assert_status(recovery_join(r, NEW, &w->reason), ST_OK);
    recovery_close(r);
    struct initial_members none;
    struct step_record step;
    initial_members_init(&none, names, 3, 0, (const uint8_t[INITIAL_NONCE_BYTES]){0});
    assert_status(step_file_load(&w->fs->fs, &step, &none), ST_OK);
    assert_int_equal(step.step, STEP_JOINING);
    assert_int_not_equal(step.folder, 0);
    r = NULL;
    assert_status(recovery_open(&w->fs->fs, &r, &w->reason), ST_NOT_FOUND); /* it joins now */
    world_free(w);
    world_free(ahead);
}

static void a_superseded_node_is_told_to_join(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, false);
    for (unsigned superseded = 0; superseded < 2; superseded++) {
        save_step(w, &(struct step_record){
                         .step = STEP_REMOVED, .id = OWN, .superseded = superseded != 0});
        struct recovery *r = opened(w);
        say_lost(r, &w->reason);
        assert_status(recovery_check(r, &w->reason), ST_DENIED);
        assert_non_null(strstr(w->reason.text, superseded != 0 ? "recovered without n1"
                                                               : "was removed from its cluster"));
        assert_int_equal(strstr(w->reason.text, "-join") != NULL, superseded != 0);
        recovery_close(r);
    }
    world_free(w);
}

static void a_replica_in_use_or_damaged_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true);
    struct recovery *r = opened(w), *again = NULL;
    assert_status(recovery_open(&w->fs->fs, &again, &w->reason), ST_BUSY);
    recovery_close(r);
    memfs_flip(w->fs, "raft/log/0000000000000001.seg", 7000, 3);
    assert_status(recovery_open(&w->fs->fs, &again, &w->reason), ST_CORRUPT);
    assert_non_null(strstr(w->reason.text, "raft/log/0000000000000001.seg"));
    memfs_flip(w->fs, "raft/log/0000000000000001.seg", 7000, 3);
    memfs_flip(w->fs, "founding", 3, 3);
    assert_status(recovery_open(&w->fs->fs, &again, &w->reason), ST_CORRUPT);
    world_free(w);
}

static void looking_changes_nothing(void **ctx)
{
    (void)ctx;
    struct world *w = survivor(OWN, ENTRIES, true);
    uint64_t writes = w->fs->writes, syncs = w->fs->syncs;
    unsigned n_names = w->fs->now.n;
    struct recovery *r = opened(w);
    say_lost(r, &w->reason);
    assert_status(recovery_check(r, &w->reason), ST_OK);
    recovery_close(r);
    assert_int_equal(w->fs->writes, writes);
    assert_int_equal(w->fs->syncs, syncs);
    assert_int_equal(w->fs->now.n, n_names);
    world_free(w);
}

static void a_crash_at_any_call_leaves_the_old_or_the_new(void **ctx)
{
    (void)ctx;
    const struct slice slice = slice_of_run();
    struct world *w = survivor(OWN, ENTRIES, true);
    w->fs->calls = 0;
    assert_status(attempt(w), ST_OK);
    uint64_t calls = w->fs->calls, again = 0, done = 0;
    world_free(w);
    assert_true(calls > 50);
    for (uint64_t n = 1 + slice.number; n <= calls; n += slice.count)
        for (uint64_t mode = 0; mode < 2; mode++) { /* the power is lost, or the call fails */
            w = survivor(OWN, ENTRIES, true);
            w->fs->calls = 0;
            if (mode == 0)
                w->fs->crash_at = n;
            else
                w->fs->fail_at = n;
            w->fs->fail_with = ST_IO;
            enum status st = attempt(w);
            if (mode == 0)
                memfs_crash(w->fs, n);
            else
                memfs_exit(w->fs);
            enum status second = attempt(w);
            assert_true(second == ST_OK || second == ST_EXISTS);
            if (st == ST_OK)
                assert_status(second, ST_EXISTS); /* what was reported as done stays done */
            again += second == ST_OK;
            done += second == ST_EXISTS;
            check_recovered(w, ENTRIES);
            world_free(w);
        }
    assert_true(again * slice.count > 50);
    assert_true(done > 0 || slice.count > 1); /* few calls come after the one that counts */
}

static void the_step_file_reads_back_and_names_its_folder(void **ctx)
{
    (void)ctx;
    struct world *w = world_new();
    struct initial_members none;
    char folder[MEMBER_RAFT_DIR_MAX];
    initial_members_init(&none, names, 3, 0, (const uint8_t[INITIAL_NONCE_BYTES]){0});
    for (unsigned i = 0; i < 8; i++) {
        bool removed = i >= 4, flag = i % 2 != 0;
        struct step_record back, record = {.step = removed ? STEP_REMOVED : STEP_JOINED,
                                           .id = 99,
                                           .folder = i % 4 < 2 ? 0 : 0xabc,
                                           .non_voter = flag && !removed,
                                           .superseded = flag && removed};
        save_step(w, &record);
        assert_status(step_file_load(&w->fs->fs, &back, &none), ST_OK);
        assert_int_equal(back.step, record.step);
        assert_int_equal(back.id, record.id);
        assert_int_equal(back.folder, record.folder);
        assert_int_equal(back.non_voter, record.non_voter);
        assert_int_equal(back.superseded, record.superseded);
        step_folder(back.folder, folder);
        assert_string_equal(folder, i % 4 < 2 ? "raft" : "raft-0000000000000abc");
        memfs_flip(w->fs, STEP_FILE, i, 1);
        assert_status(step_file_load(&w->fs->fs, &back, &none), ST_CORRUPT);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_in_the_log_survives),
        cmocka_unit_test(a_second_run_says_that_the_first_is_done),
        cmocka_unit_test(every_member_must_be_mentioned_once),
        cmocka_unit_test(positions_are_judged_strictly),
        cmocka_unit_test(the_log_that_goes_on_is_the_better_one),
        cmocka_unit_test(joining_needs_a_log_that_is_not_better),
        cmocka_unit_test(a_superseded_node_is_told_to_join),
        cmocka_unit_test(a_replica_in_use_or_damaged_is_refused),
        cmocka_unit_test(looking_changes_nothing),
        cmocka_unit_test(a_crash_at_any_call_leaves_the_old_or_the_new),
        cmocka_unit_test(the_step_file_reads_back_and_names_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
