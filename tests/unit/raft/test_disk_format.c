/* Sectors and batches in memory: which states are told apart, and which content is refused although
 * its checksums are right. */
#include "support.h"

#include "raft/disk/rlog_disk_internal.h"

enum { IMAGE = 16 * SECTOR, ID = 77, NUMBER = 3 };

struct image {
    uint8_t data[IMAGE];
    struct segment_image view;
    uint64_t end, seq, chain;
};

static void image_init(struct image *im)
{
    *im = (struct image){.end = SECTOR, .seq = 5, .chain = 99};
    im->view = (struct segment_image){im->data, IMAGE, segment_salt(ID, NUMBER)};
}

/* A batch of one entry with `len` bytes; `chain` is what its header says. */
static void image_add(struct image *im, size_t len, uint64_t chain)
{
    static uint8_t content[4096];
    struct rlog_entry e = {.term = 2, .type = RLOG_COMMAND, .data = bytes_of(content, len)};
    struct sector_writer w = {.at = im->data + im->end,
                              .number = im->end / SECTOR,
                              .chain = im->chain,
                              .salt = im->view.salt};
    struct batch_header h = {.seq = ++im->seq,
                             .first = im->seq,
                             .prev_term = 2,
                             .chain = chain,
                             .n = 1,
                             .bytes = (uint32_t)(ENTRY_HEADER + len)};
    memset(content, 'c', sizeof content);
    batch_header_write(&w, &h);
    entry_header_write(&w, &e);
    sector_put(&w, e.data);
    sector_flush(&w);
    im->end = (uint64_t)(w.at - im->data);
    im->chain = w.chain;
}

static struct batch_found find(const struct image *im, uint64_t off, uint64_t seq, uint64_t chain)
{
    return batch_find(&im->view, &(struct batch_want){off, IMAGE, seq, chain, false});
}

static void a_sector_belongs_to_its_place(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 10, 99);
    const uint8_t *s = im.data + SECTOR;
    assert_int_equal(sector_read(s, segment_salt(ID, NUMBER), 1).state, SECTOR_WHOLE);
    assert_int_equal(sector_read(s, segment_salt(ID, NUMBER), 2).state, SECTOR_DAMAGED);
    assert_int_equal(sector_read(s, segment_salt(ID, NUMBER + 1), 1).state, SECTOR_DAMAGED);
    assert_int_equal(sector_read(s, segment_salt(ID + 1, NUMBER), 1).state, SECTOR_DAMAGED);
}

static void every_flip_shows_as_damage(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 10, 99);
    uint8_t *s = im.data + SECTOR;
    for (unsigned bit = 0; bit < SECTOR * 8; bit++) {
        s[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(sector_read(s, im.view.salt, 1).state, SECTOR_DAMAGED);
        s[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static void flips_in_empty_space_leave_it_empty(void **ctx)
{
    uint8_t s[SECTOR] = {0};
    (void)ctx;
    for (unsigned bit = 0; bit < SECTOR * 8; bit++) {
        s[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(sector_read(s, 1, 1).state, SECTOR_UNWRITTEN);
        s[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static void batches_follow_one_another(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 1000, 99);
    uint64_t at = im.end, chain = im.chain;
    image_add(&im, 10, chain);
    struct batch_found b = find(&im, SECTOR, 6, 99);
    assert_int_equal(b.state, BATCH_OK);
    assert_int_equal(b.end, at);
    assert_int_equal(b.chain_after, chain);
    b = find(&im, at, 7, chain);
    assert_int_equal(b.state, BATCH_OK);
    assert_int_equal(find(&im, b.end, 8, b.chain_after).state, BATCH_END);
}

static void a_batch_with_another_past_is_damage(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 10, 98); /* the sums are right, the chain is not */
    struct batch_found b = find(&im, SECTOR, 6, 99);
    assert_int_equal(b.state, BATCH_DAMAGED);
    assert_string_equal(b.why, "a batch does not follow the one before it");
}

static void an_older_batch_in_the_way_is_damage(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 10, 99);
    assert_int_equal(find(&im, SECTOR, 7, 99).state, BATCH_DAMAGED);
}

static void a_missing_batch_before_a_later_one_is_damage(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 1000, 99);
    uint64_t at = im.end;
    image_add(&im, 10, im.chain);
    memset(im.data + SECTOR, 0, at - SECTOR);
    struct batch_found b = find(&im, SECTOR, 6, 99);
    assert_int_equal(b.state, BATCH_DAMAGED);
    assert_int_equal(b.resume_at, at);
}

/* Any of its sectors may be missing; unless all are there, it is a torn write. */
static void any_part_of_the_last_batch_is_a_torn_write(void **ctx)
{
    struct image im, part;
    (void)ctx;
    image_init(&im);
    image_add(&im, 1800, 99);
    unsigned n = (unsigned)(im.end / SECTOR) - 1;
    assert_int_equal(n, 4);
    for (unsigned have = 0; have < 1U << n; have++) {
        part = im;
        part.view.data = part.data;
        for (unsigned s = 0; s < n; s++)
            if ((have >> s & 1) == 0)
                memset(part.data + (s + 1) * SECTOR, 0, SECTOR);
        enum batch_state want = have == 0               ? BATCH_END
                                : have == (1U << n) - 1 ? BATCH_OK
                                                        : BATCH_TORN;
        assert_int_equal(find(&part, SECTOR, 6, 99).state, want);
    }
}

static void rot_in_a_torn_write_is_damage(void **ctx)
{
    struct image im;
    (void)ctx;
    image_init(&im);
    image_add(&im, 1800, 99);
    memset(im.data + 2 * SECTOR, 0, SECTOR);
    assert_int_equal(find(&im, SECTOR, 6, 99).state, BATCH_TORN);
    im.data[3 * SECTOR + 7] ^= 1;
    assert_int_equal(find(&im, SECTOR, 6, 99).state, BATCH_DAMAGED);
}

static void a_header_that_contradicts_itself_is_refused(void **ctx)
{
    struct segment_header h = {.id = 1, .number = 1, .size = 8192, .start = 1, .seq = 1}, back;
    uint8_t sector[SECTOR];
    (void)ctx;
    struct sector_writer w = {.at = sector};
    segment_header_write(&w, &h);
    assert_status(segment_header_read(sector, &back), ST_OK);
    assert_int_equal(back.size, 8192);
    static const size_t fields[] = {0, 8, 12, 32, 40, 56, 72};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) { /* magic, version, flags, size, … */
        uint8_t bad[SECTOR];
        memcpy(bad, sector, SECTOR);
        memset(bad + fields[i], i < 3 ? 0xFF : 0, i < 3 ? 1 : 8);
        if (fields[i] == 72)
            bad[72] = 1; /* not at a sector */
        assert_status(segment_header_read(bad, &back), ST_CORRUPT);
    }
}

static void names_are_read_strictly(void **ctx)
{
    static const char *const bad[] = {"",
                                      "1.seg",
                                      "000000000000000A.seg",
                                      "0000000000000000.seg",
                                      "0000000000000001.seg2",
                                      "00000000000000001.seg",
                                      "0000000000000001.snap"};
    uint64_t number = 0;
    (void)ctx;
    assert_true(segment_name_parse("00000000000000ff.seg", &number));
    assert_int_equal(number, 255);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(segment_name_parse(bad[i], &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sector_belongs_to_its_place),
        cmocka_unit_test(every_flip_shows_as_damage),
        cmocka_unit_test(flips_in_empty_space_leave_it_empty),
        cmocka_unit_test(batches_follow_one_another),
        cmocka_unit_test(a_batch_with_another_past_is_damage),
        cmocka_unit_test(an_older_batch_in_the_way_is_damage),
        cmocka_unit_test(a_missing_batch_before_a_later_one_is_damage),
        cmocka_unit_test(any_part_of_the_last_batch_is_a_torn_write),
        cmocka_unit_test(rot_in_a_torn_write_is_damage),
        cmocka_unit_test(a_header_that_contradicts_itself_is_refused),
        cmocka_unit_test(names_are_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
