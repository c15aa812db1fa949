/* Archives: a written archive is read back; every other archive is refused. */
#include "golden.h"
#include "machine_world.h"

#include "raft/snapshot/rlog_archive.h"
#include "raft/snapshot/rlog_archive_tar.h"
#include "raft/snapshot/rlog_archive_zlib.h"

#include <stdio.h>

#define PROOF "a proof"

/* An archive being read, and what it gave. */
struct source {
    struct bytes bytes;
    size_t at;
    struct buf keys; /* "key=value@created-modified\n" */
    enum status key_fails;
};

static enum status read_some(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct source *s = ctx;
    *ret_n = MIN(n, s->bytes.len - s->at);
    if (*ret_n != 0)
        memcpy(room, s->bytes.data + s->at, *ret_n);
    s->at += *ret_n;
    return ST_OK;
}

static enum status take_key(void *ctx, const struct store_item *item)
{
    struct source *s = ctx;
    if (s->key_fails != ST_OK)
        return s->key_fails;
    buf_add_format(&s->keys, "%.*s=%.*s@%d-%d\n", (int)item->key.len, (const char *)item->key.data,
                   (int)item->value.len, (const char *)item->value.data, (int)item->created,
                   (int)item->modified);
    return ST_OK;
}

static struct rlog_archive_found found;
static struct reason reason;

static enum status read_it(struct source *s, struct bytes bytes, uint64_t state_bytes_max)
{
    const struct rlog_archive_in in = {read_some, take_key, s, state_bytes_max};
    s->bytes = bytes;
    reason = (struct reason){{0}};
    return rlog_archive_read(&in, &found, &reason);
}

static enum status read_bytes(struct bytes bytes)
{
    struct source s = {0};
    enum status st = read_it(&s, bytes, 0);
    buf_done(&s.keys);
    return st;
}

static enum status seal(void *ctx, struct bytes sums, struct buf *out)
{
    (void)ctx;
    assert_true(sums.len > 2 * 64);
    buf_add(out, BYTES(PROOF));
    return ST_OK;
}

static void archive_of(struct world *w, struct buf *ret)
{
    const struct rlog_archive_facts facts = {
        .index = 70, .term = 3, .cluster = "3b0e6a1c-0000-4000-8000-000000000001"};
    const struct rlog_archive_out out = {world_collect, seal, ret};
    struct rlog_machine_dump dump;
    assert_status(rlog_machine_dump_begin(&w->m, &dump), ST_OK);
    dump.replicated_only = true;
    assert_status(rlog_archive_write(&dump, &facts, &out), ST_OK);
    rlog_machine_dump_end(&dump);
}

static void fill(struct world *w)
{
    world_put(w, "s/a", "1");
    world_put(w, "s/b/c", "2");
    world_put(w, "l/mine", "x");
    world_put(w, "s/b/d", "3");
    world_put(w, "s/a", "4");
    world_delete(w, "s/b/d");
}

static void unpack(struct bytes packed, struct buf *out)
{
    static uint8_t room[4096];
    z_stream z = {0};
    zlib_use_mem(&z);
    assert_int_equal(inflateInit2(&z, ZLIB_GZIP_BITS), Z_OK);
    z.next_in = packed.data;
    z.avail_in = (unsigned)packed.len;
    int result = Z_OK;
    while (result == Z_OK) {
        z.next_out = room;
        z.avail_out = sizeof room;
        result = inflate(&z, Z_NO_FLUSH);
        buf_add(out, bytes_of(room, sizeof room - z.avail_out));
    }
    assert_int_equal(result, Z_STREAM_END);
    assert_int_equal(inflateEnd(&z), Z_OK);
}

static void pack(struct bytes plain, struct buf *out)
{
    static uint8_t room[4096];
    z_stream z = {0};
    zlib_use_mem(&z);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, ZLIB_GZIP_BITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = plain.data;
    z.avail_in = (unsigned)plain.len;
    int result = Z_OK;
    while (result == Z_OK) {
        z.next_out = room;
        z.avail_out = sizeof room;
        result = deflate(&z, Z_FINISH);
        buf_add(out, bytes_of(room, sizeof room - z.avail_out));
    }
    assert_int_equal(deflateEnd(&z), Z_OK);
}

static struct world world;
static struct buf made, tar; /* an archive of `fill`, and its tar */

static int open_archive(void **state)
{
    *state = &world;
    world_open(&world);
    fill(&world);
    archive_of(&world, &made);
    unpack(buf_bytes(&made), &tar);
    return 0;
}

static int close_archive(void **state)
{
    (void)state;
    buf_done(&made);
    buf_done(&tar);
    world_close(&world);
    return 0;
}

static void replicated_keys_come_back_with_their_versions(void **state)
{
    (void)state;
    struct source s = {0};
    assert_status(read_it(&s, buf_bytes(&made), 0), ST_OK);
    buf_add_u8(&s.keys, 0);
    assert_string_equal((char *)s.keys.data, "s/a=4@1-4\ns/b/c=2@2-2\n");
    assert_int_equal(found.n_keys, 2);
    assert_int_equal(found.facts.index, 70);
    assert_int_equal(found.facts.term, 3);
    assert_int_equal(found.facts.version, 5);
    assert_int_equal(found.facts.time_ms, 1000);
    assert_string_equal(found.facts.cluster, "3b0e6a1c-0000-4000-8000-000000000001");
    assert_bytes(bytes_of(found.sealed, found.sealed_len), BYTES(PROOF));
    buf_done(&s.keys);
}

static void what_a_cluster_keeps_for_itself_is_not_in_it(void **state)
{
    (void)state;
    assert_null(memmem(tar.data, tar.len, "l/mine", 6));
}

static void an_archive_is_the_same_for_the_same_state(void **state)
{
    (void)state;
    struct buf again = {0};
    archive_of(&world, &again);
    assert_bytes(buf_bytes(&again), buf_bytes(&made));
    buf_done(&again);
}

static void an_empty_state_makes_an_archive_too(void **state)
{
    (void)state;
    struct world empty;
    struct buf b = {0};
    world_open(&empty);
    archive_of(&empty, &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_OK);
    assert_int_equal(found.n_keys, 0);
    buf_done(&b);
    world_close(&empty);
}

static void every_shorter_one_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < made.len; n++) {
        assert_status(read_bytes(bytes_of(made.data, n)), ST_INVALID);
        assert_true(reason.text[0] != '\0');
    }
}

/* Refused, or read as if nothing had happened: some bits of the headers mean nothing. */
static void assert_no_harm(struct bytes bytes, size_t bit)
{
    struct source s = {0};
    enum status st = read_it(&s, bytes, 0);
    buf_add_u8(&s.keys, 0);
    if (st == ST_OK && (found.facts.index != 70 || found.facts.version != 5 ||
                        strcmp((char *)s.keys.data, "s/a=4@1-4\ns/b/c=2@2-2\n") != 0))
        fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
    buf_done(&s.keys);
}

static void no_flipped_bit_does_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < made.len * 8; i++) {
        made.data[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_no_harm(buf_bytes(&made), i);
        made.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

/* Behind the sum of gzip, which whoever forges an archive makes right. */
static void no_flipped_bit_of_the_tar_does_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < tar.len * 8; i += 3) {
        struct buf b = {0};
        tar.data[i / 8] ^= (uint8_t)(1 << i % 8);
        pack(buf_bytes(&tar), &b);
        assert_no_harm(buf_bytes(&b), i);
        tar.data[i / 8] ^= (uint8_t)(1 << i % 8);
        buf_done(&b);
    }
}

static void nothing_may_follow(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_add(&b, buf_bytes(&made));
    buf_add(&b, buf_bytes(&made));
    assert_status(read_bytes(buf_bytes(&b)), ST_INVALID);
    assert_non_null(strstr(reason.text, "behind its end"));
    buf_clear(&b);
    buf_add_u8(&tar, 1);
    pack(buf_bytes(&tar), &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_INVALID);
    assert_non_null(strstr(reason.text, "more in it"));
    buf_done(&b);
}

static void zeros_that_fill_up_a_record_may_follow(void **state)
{
    (void)state;
    struct buf b = {0};
    while (tar.len % (20 * TAR_BLOCK) != 0)
        buf_add_u8(&tar, 0);
    pack(buf_bytes(&tar), &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_OK);
    buf_done(&b);
}

static void a_bomb_of_zeros_is_refused(void **state)
{
    (void)state;
    struct buf b = {0};
    uint8_t *zeros = buf_extend(&tar, 8 * 1024 * 1024);
    assert_non_null(zeros);
    memset(zeros, 0, 8 * 1024 * 1024);
    pack(buf_bytes(&tar), &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_INVALID);
    buf_done(&b);
}

static void a_larger_state_than_allowed_is_refused_by_its_header(void **state)
{
    (void)state;
    struct source s = {.key_fails = ST_INTERNAL}; /* not one key is looked at */
    assert_status(read_it(&s, buf_bytes(&made), 20), ST_TOO_BIG);
    assert_non_null(strstr(reason.text, "state.bin"));
}

static void what_takes_the_keys_may_end_the_reading(void **state)
{
    (void)state;
    struct source s = {.key_fails = ST_CLOSED};
    assert_status(read_it(&s, buf_bytes(&made), 0), ST_CLOSED);
}

/* The text of meta.json, which is the first file, with `from` replaced by `to` of that length. */
static enum status read_with_meta(const char *from, const char *to)
{
    struct buf b = {0};
    assert_int_equal(strlen(from), strlen(to));
    uint8_t *at = memmem(tar.data, tar.len, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    pack(buf_bytes(&tar), &b);
    enum status st = read_bytes(buf_bytes(&b));
    buf_done(&b);
    return st;
}

static void another_format_is_named(void **state)
{
    (void)state;
    assert_status(read_with_meta("\"format\":1", "\"format\":2"), ST_UNSUPPORTED);
    assert_non_null(strstr(reason.text, "format 2"));
}

static void another_programs_snapshot_is_named(void **state)
{
    (void)state;
    assert_status(read_with_meta("\"holdfast\"", "\"Peersss.\""), ST_INVALID);
    assert_non_null(strstr(reason.text, "another program"));
}

static void facts_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    assert_status(read_with_meta("\"Index\":70", "\"Index\":-7"), ST_INVALID);
    assert_non_null(strstr(reason.text, "no number Index"));
}

/* Where nothing is said, nothing may stand: no sum covers it. */
static void what_fills_up_a_file_is_zero(void **state)
{
    (void)state;
    struct buf b = {0};
    size_t end = TAR_BLOCK + strlen((const char *)tar.data + TAR_BLOCK); /* of meta.json */
    assert_true(end % TAR_BLOCK != 0);
    tar.data[end] = 1;
    pack(buf_bytes(&tar), &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_INVALID);
    assert_non_null(strstr(reason.text, "between its files"));
    buf_done(&b);
}

static void other_facts_than_the_summed_ones_are_refused(void **state)
{
    (void)state;
    assert_status(read_with_meta("\"Index\":70", "\"Index\":71"), ST_INVALID);
    assert_non_null(strstr(reason.text, "SHA256SUMS"));
}

static void anything_else_is_no_archive(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_status(read_bytes(BYTES("")), ST_INVALID);
    assert_status(read_bytes(BYTES("PK\003\004 and so on, as a zip file begins")), ST_INVALID);
    pack(BYTES("some text that was compressed"), &b);
    assert_status(read_bytes(buf_bytes(&b)), ST_INVALID);
    buf_done(&b);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    struct source s = {0};
    enum status st = ST_NOMEM;
    uint64_t n = 0;
    for (bool hit = true; hit; buf_done(&s.keys)) {
        s = (struct source){0};
        (void)mem_fail_nth(++n);
        st = read_it(&s, buf_bytes(&made), 0);
        hit = mem_fail_nth(0);
        assert_true(st == ST_OK || (hit && st == ST_NOMEM));
    }
    assert_true(n > 4);
    assert_status(st, ST_OK);
}

static void sizes_beyond_octal_digits_are_kept(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 511, UINT64_C(0x1FFFFFFFF), UINT64_C(0x200000000),
                                     UINT64_C(1) << 40};
    uint8_t block[TAR_BLOCK];
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct tar_entry entry = {"state.bin", sizes[i]}, back;
        tar_header_make(&entry, 12, block);
        assert_status(tar_header_read(block, &back), ST_OK);
        assert_true(back.size == sizes[i]);
        assert_string_equal(back.name, "state.bin");
    }
}

static void links_and_folders_are_no_files(void **state)
{
    (void)state;
    static const char types[] = "12345LKxg";
    uint8_t block[TAR_BLOCK];
    for (const char *type = types; *type != '\0'; type++) {
        struct tar_entry entry = {"meta.json", 5}, back;
        tar_header_make(&entry, 12, block);
        unsigned sum = 0;
        block[156] = (uint8_t)*type;
        memset(block + 148, ' ', 8);
        for (size_t i = 0; i < TAR_BLOCK; i++)
            sum += block[i];
        (void)snprintf((char *)block + 148, 8, "%06o", sum);
        assert_status(tar_header_read(block, &back), ST_INVALID);
    }
}

/* What zlib makes of it may change, what is in it may not. */
static void the_format_has_not_changed(void **state)
{
    (void)state;
    struct buf golden = {0}, plain = {0};
    golden_make("archive-1.tar.gz", buf_bytes(&made));
    golden_read("archive-1.tar.gz", &golden);
    assert_status(read_bytes(buf_bytes(&golden)), ST_OK);
    unpack(buf_bytes(&golden), &plain);
    assert_bytes(buf_bytes(&tar), buf_bytes(&plain));
    buf_done(&golden);
    buf_done(&plain);
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_archive, close_archive)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(replicated_keys_come_back_with_their_versions),
        T(what_a_cluster_keeps_for_itself_is_not_in_it),
        T(an_archive_is_the_same_for_the_same_state),
        T(an_empty_state_makes_an_archive_too),
        T(every_shorter_one_is_refused),
        T(no_flipped_bit_does_harm),
        T(no_flipped_bit_of_the_tar_does_harm),
        T(nothing_may_follow),
        T(zeros_that_fill_up_a_record_may_follow),
        T(a_bomb_of_zeros_is_refused),
        T(a_larger_state_than_allowed_is_refused_by_its_header),
        T(what_takes_the_keys_may_end_the_reading),
        T(another_format_is_named),
        T(another_programs_snapshot_is_named),
        T(facts_that_are_no_numbers_are_refused),
        T(what_fills_up_a_file_is_zero),
        T(other_facts_than_the_summed_ones_are_refused),
        T(anything_else_is_no_archive),
        T(each_allocation_may_fail),
        T(sizes_beyond_octal_digits_are_kept),
        T(links_and_folders_are_no_files),
        T(the_format_has_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
