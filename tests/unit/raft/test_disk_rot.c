/* Rot: flipped bits, lost sectors, lost files, files of another replica. The disk may refuse, with
 * the name of the place, or may find that nothing is missing. It may never forget an entry. */
#include "raft/disk_model.h"

#include "base/mem.h"

#define SEG(n) "d/log/000000000000000" n ".seg"

/* Three segments, the last written by appends alone: nothing follows the newest batch. */
static struct world *world_used(void)
{
    struct world *w = world_begin();
    assert_status(world_set_term(w, 2, 77), ST_OK);
    while (memfs_inode(w->fs, SEG("3")) == NULL || memfs_inode(w->fs, SEG("3"))->now[0] == 0) {
        world_add(w, 4);
        world_run(w);
    }
    world_add(w, 2);
    world_run(w);
    w->fs->dead = true; /* no mark of a clean end */
    world_close(w);
    memfs_exit(w->fs);
    return w;
}

enum outcome { REFUSED, COMPLETE };

/* Open; all the entries are there, or the reason names `where`. Closes again. */
static enum outcome outcome_of(struct world *w, const char *where)
{
    enum status st = world_try_open(w);
    if (st != ST_OK)
        fail_msg("%s: open: %s", where, status_name(st));
    enum outcome o = w->loaded.corrupt ? REFUSED : COMPLETE;
    if (o == REFUSED && strstr(w->loaded.reason.text, where) == NULL)
        fail_msg("%s is damaged, the reason says: %s", where, w->loaded.reason.text);
    if (o == COMPLETE) {
        assert_true(model_matches(&w->loaded, &w->states[w->issued]));
        model_check_content(&w->loaded, &w->states[w->issued]);
        assert_int_equal(w->loaded.term, w->term_done);
        assert_int_equal(w->loaded.vote, w->vote_done);
    } else {
        assert_status(rlog_disk_set_term(w->disk, 100, 0), ST_CORRUPT);
    }
    world_close(w);
    return o;
}

static struct memfs *swap_in_copy(struct world *w, struct memfs *whole)
{
    if (w->fs != whole)
        memfs_free(w->fs);
    w->fs = memfs_copy(whole);
    w->env.fs = &w->fs->fs;
    return w->fs;
}

struct range {
    size_t from, end, step;
};

/* A bit of each byte of the range; how many were refused. */
static unsigned flip_all(struct world *w, const char *path, const char *where, struct range r)
{
    struct memfs *whole = w->fs;
    unsigned refused = 0;
    bool fresh = false;
    for (size_t off = r.from; off < r.end; off += r.step) {
        if (!fresh)
            (void)swap_in_copy(w, whole);
        memfs_flip(w->fs, path, off, (unsigned)(off * 7 % 8));
        fresh = outcome_of(w, where) == REFUSED;
        refused += fresh;
        memfs_exit(w->fs);
        memfs_flip(w->fs, path, off, (unsigned)(off * 7 % 8)); /* what is refused is not changed */
    }
    memfs_free(w->fs);
    w->fs = whole;
    w->env.fs = &whole->fs;
    return refused;
}

static size_t used_bytes(struct world *w, const char *path)
{
    const struct mem_inode *inode = memfs_inode(w->fs, path);
    size_t n = inode->size;
    while (n > 0 && inode->now[n - 1] == 0)
        n--;
    return n;
}

static void a_flip_anywhere_in_the_log_is_refused(void **ctx)
{
    static const char *const paths[] = {SEG("1"), SEG("2"), SEG("3")};
    (void)ctx;
    struct world *w = world_used();
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
        struct range r = {0, used_bytes(w, paths[i]), 7};
        if (i == 0) { /* the very first batch is a mark: it held nothing that could be lost */
            assert_int_equal(flip_all(w, paths[i], "", (struct range){512, 1024, 1}), 0);
            r.from = 1024;
        }
        assert_true(r.end > 2048);
        assert_int_equal(flip_all(w, paths[i], paths[i] + 2, r), (r.end - r.from + 6) / 7);
    }
    world_free(w);
}

static void every_bit_of_the_newest_batch_is_guarded(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    size_t used = used_bytes(w, SEG("3"));
    for (size_t off = used - MEM_SECTOR; off < used; off++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memfs_flip(w->fs, SEG("3"), off, bit);
            assert_int_equal(outcome_of(w, "log/0000000000000003.seg"), REFUSED);
            memfs_flip(w->fs, SEG("3"), off, bit);
        }
    assert_int_equal(outcome_of(w, "log"), COMPLETE);
    world_free(w);
}

static void a_flip_in_unwritten_space_harms_nothing(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    size_t used = used_bytes(w, SEG("3"));
    assert_true(used + 1024 < WORLD_SEGMENT);
    for (size_t off = used; off < WORLD_SEGMENT; off += 61) {
        struct memfs *whole = w->fs;
        (void)swap_in_copy(w, whole);
        memfs_flip(w->fs, SEG("3"), off, (unsigned)(off % 8));
        assert_int_equal(outcome_of(w, "log"), COMPLETE);
        world_open(w);
        world_add(w, 3);
        world_run(w);
        world_reopen(w);
        world_close(w);
        memfs_free(w->fs);
        w->fs = whole;
        w->env.fs = &whole->fs;
        w->states[0].last -= 3;
        w->tag -= 3;
    }
    world_free(w);
}

static void a_flip_in_the_vote_file_falls_back(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    assert_int_equal(flip_all(w, "d/slot", "slot", (struct range){0, 8192, 5}), 0);
    memfs_flip(w->fs, "d/slot", 100, 0);
    world_open(w);
    assert_true(w->loaded.vote_file_fell_back);
    world_reopen(w);
    assert_false(w->loaded.vote_file_fell_back);
    world_free(w);
}

static void a_vote_file_with_two_damaged_copies_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    memfs_flip(w->fs, "d/slot", 1536, 0);
    memfs_flip(w->fs, "d/slot", 5000, 3);
    assert_int_equal(outcome_of(w, "slot: both copies"), REFUSED);
    world_free(w);
}

/* Both copies whole, but of different ages: the disk lost a write that it had acknowledged. */
static void a_vote_file_copy_that_went_back_is_refused(void **ctx)
{
    (void)ctx;
    for (unsigned copy = 0; copy < 2; copy++) {
        struct world *w = world_begin();
        uint8_t old[4096];
        memcpy(old, memfs_inode(w->fs, "d/slot")->now + copy * 4096, 4096);
        assert_status(world_set_term(w, 5, 77), ST_OK);
        assert_status(world_set_term(w, 6, 77), ST_OK);
        world_close(w);
        memcpy(memfs_inode(w->fs, "d/slot")->now + copy * 4096, old, 4096);
        assert_int_equal(outcome_of(w, "slot: the two copies"), REFUSED);
        world_free(w);
    }
}

static void a_vote_file_older_than_the_log_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_begin();
    uint8_t old[8192];
    memcpy(old, memfs_inode(w->fs, "d/slot")->now, sizeof old);
    assert_status(world_set_term(w, 5, 77), ST_OK);
    world_add(w, 1);
    world_run(w);
    world_close(w);
    memfs_put(w->fs, "d/slot", bytes_of(old, sizeof old));
    assert_int_equal(outcome_of(w, "slot: its term 1"), REFUSED);
    world_free(w);
}

static void a_flip_in_the_identity_is_repaired(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    assert_int_equal(flip_all(w, "d/identity", "identity", (struct range){0, 8192, 11}), 0);
    memfs_flip(w->fs, "d/identity", 100, 0);
    assert_int_equal(outcome_of(w, "identity"), COMPLETE);
    memfs_flip(w->fs, "d/identity", 5000, 0); /* the other copy: the first is whole again */
    assert_int_equal(outcome_of(w, "identity"), COMPLETE);
    memfs_flip(w->fs, "d/identity", 100, 0);
    memfs_flip(w->fs, "d/identity", 5000, 0);
    assert_int_equal(outcome_of(w, "identity: both copies"), REFUSED);
    world_free(w);
}

/* A sector that reads as zero was either never written or lost by the disk. In the newest batch
 * that looks like a torn write; anywhere else the loss shows. */
static void a_lost_sector_is_refused_once_something_followed(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    world_open(w);
    world_add(w, 3);
    world_run(w);
    world_sleep(w, 2000);
    world_sleep(w, 2000); /* the mark of a quiet log follows */
    w->fs->dead = true;
    world_close(w);
    memfs_exit(w->fs);
    struct mem_inode *inode = memfs_inode(w->fs, SEG("3"));
    size_t used = used_bytes(w, SEG("3"));
    uint8_t kept[MEM_SECTOR];
    for (size_t off = 0; off + MEM_SECTOR < used; off += MEM_SECTOR) {
        memcpy(kept, inode->now + off, MEM_SECTOR);
        memset(inode->now + off, 0, MEM_SECTOR);
        assert_int_equal(outcome_of(w, "log/0000000000000003.seg"), REFUSED);
        memcpy(inode->now + off, kept, MEM_SECTOR);
    }
    world_free(w);
}

static void a_lost_tail_is_refused_when_the_vote_file_knows_it(void **ctx)
{
    (void)ctx;
    struct world *w = world_begin();
    world_add(w, 3);
    world_run(w);
    world_add(w, 3);
    world_run(w);
    assert_status(world_set_term(w, 2, 0), ST_OK);
    w->fs->dead = true;
    world_close(w);
    memfs_exit(w->fs);
    struct mem_inode *inode = memfs_inode(w->fs, SEG("1"));
    memset(inode->now + 1024, 0, inode->size - 1024);
    assert_int_equal(outcome_of(w, "log: it ends with batch"), REFUSED);
    world_free(w);
}

static void a_lost_file_is_refused(void **ctx)
{
    static const char *const paths[] = {SEG("1"), SEG("2"), SEG("3"), "d/slot", "d/identity"};
    static const char *const where[] = {"log: it begins", "2.seg, offset 0", "3.seg, offset 0",
                                        "slot", "identity"};
    (void)ctx;
    struct world *w = world_used();
    struct memfs *whole = w->fs;
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
        memfs_drop(swap_in_copy(w, whole), paths[i]);
        assert_int_equal(outcome_of(w, where[i]), REFUSED);
    }
    (void)swap_in_copy(w, whole);
    for (unsigned i = 0; i < 3; i++)
        memfs_drop(w->fs, paths[i]);
    memfs_drop(w->fs, SEG("4"));
    assert_int_equal(outcome_of(w, "log: it ends with batch 0"), REFUSED);
    memfs_free(w->fs);
    w->fs = whole;
    w->env.fs = &whole->fs;
    world_free(w);
}

static void a_lost_identity_is_not_an_empty_place(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    memfs_drop(w->fs, "d/identity");
    assert_status(world_create(w), ST_CORRUPT);
    assert_int_equal(outcome_of(w, "identity: the file is missing"), REFUSED);
    assert_status(rlog_disk_wipe(&w->env, "d", &w->reason), ST_OK);
    assert_status(world_create(w), ST_OK);
    world_free(w);
}

static void a_shortened_file_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    for (size_t left = 0; left < WORLD_SEGMENT; left += 700) {
        struct mem_inode *inode = memfs_inode(w->fs, SEG("2"));
        inode->size = left;
        assert_int_equal(outcome_of(w, "log/0000000000000002.seg"), REFUSED);
        inode->size = WORLD_SEGMENT;
    }
    world_free(w);
}

/* Old bytes of a recycled segment, and bytes of another node, have other checksums. */
static void a_segment_of_another_time_or_node_is_not_believed(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    struct mem_inode *one = memfs_inode(w->fs, SEG("1"));
    memfs_put(w->fs, SEG("5"), bytes_of(one->now, one->size));
    assert_int_equal(outcome_of(w, "log/0000000000000005.seg"), REFUSED);
    memfs_drop(w->fs, SEG("5"));
    struct world *other = world_new();
    other->identity.id = 78;
    assert_status(world_create(other), ST_OK);
    world_open(other);
    struct mem_inode *foreign = memfs_inode(other->fs, SEG("1"));
    memfs_put(w->fs, SEG("1"), bytes_of(foreign->now, foreign->size));
    assert_int_equal(outcome_of(w, "log/0000000000000001.seg"), REFUSED);
    world_free(other);
    world_free(w);
}

static void opening_a_corrupt_replica_changes_nothing(void **ctx)
{
    (void)ctx;
    struct world *w = world_used();
    memfs_flip(w->fs, SEG("2"), 3000, 1);
    uint64_t writes = w->fs->writes, syncs = w->fs->syncs;
    assert_int_equal(outcome_of(w, "log/0000000000000002.seg, offset"), REFUSED);
    assert_int_equal(w->fs->writes, writes);
    assert_int_equal(w->fs->syncs, syncs);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flip_anywhere_in_the_log_is_refused),
        cmocka_unit_test(every_bit_of_the_newest_batch_is_guarded),
        cmocka_unit_test(a_flip_in_unwritten_space_harms_nothing),
        cmocka_unit_test(a_flip_in_the_vote_file_falls_back),
        cmocka_unit_test(a_vote_file_with_two_damaged_copies_is_refused),
        cmocka_unit_test(a_vote_file_copy_that_went_back_is_refused),
        cmocka_unit_test(a_vote_file_older_than_the_log_is_refused),
        cmocka_unit_test(a_flip_in_the_identity_is_repaired),
        cmocka_unit_test(a_lost_sector_is_refused_once_something_followed),
        cmocka_unit_test(a_lost_tail_is_refused_when_the_vote_file_knows_it),
        cmocka_unit_test(a_lost_file_is_refused),
        cmocka_unit_test(a_lost_identity_is_not_an_empty_place),
        cmocka_unit_test(a_shortened_file_is_refused),
        cmocka_unit_test(a_segment_of_another_time_or_node_is_not_believed),
        cmocka_unit_test(opening_a_corrupt_replica_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
