#include "support.h"

#include "api/kv/kv2_record.h"
#include "base/mem.h"
#include "text/time.h"

static struct arena arena;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

enum { T0 = 1700000000 };

static const char *const pairs[] = {"owner", "me", "empty", ""};

static struct kv2_record sample(struct kv2_version versions[4])
{
    int64_t at = (int64_t)T0 * 1000;
    versions[0] = (struct kv2_version){.created_ms = at + 5, .place = KV2_DESTROYED};
    versions[1] = (struct kv2_version){
        .created_ms = at + 5, .deleted_ms = at + 5, .ended = true, .place = KV2_SEPARATE};
    versions[2] = (struct kv2_version){.created_ms = at + 900,
                                       .deleted_ms = at + 1000000000,
                                       .place = KV2_APPENDED,
                                       .sealed.len = 200};
    versions[3] = (struct kv2_version){
        .created_ms = at + 901, .place = KV2_INLINE, .data = BYTES("{\"a\":1}")};
    return (struct kv2_record){.newest = 300,
                               .created_ms = at,
                               .updated_ms = at + 2000,
                               .max_versions = 7,
                               .delete_after_s = 3600,
                               .metadata_version = 200,
                               .metadata_cas_required = true,
                               .cas_required = true,
                               .custom = {.pairs = pairs, .n = 2},
                               .versions = versions,
                               .n = 4};
}

static void encode(const struct kv2_record *record, struct buf *out)
{
    buf_clear(out);
    assert_status(kv2_record_encode(record, out), ST_OK);
}

static void a_record_is_read_as_it_was_written(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct kv2_version versions[4];
    struct kv2_record in = sample(versions), r;
    encode(&in, &out);
    assert_status(kv2_record_decode(buf_bytes(&out), &arena, &r), ST_OK);
    assert_true(r.newest == 300 && r.n == 4 && r.max_versions == 7 && r.delete_after_s == 3600);
    assert_true(r.created_ms == in.created_ms && r.updated_ms == in.updated_ms && r.cas_required);
    assert_true(r.metadata_version == 200 && r.metadata_cas_required);
    assert_int_equal(r.custom.n, 2);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(r.custom.pairs[i], pairs[i]);
    for (size_t i = 0; i < 4; i++) {
        assert_true(r.versions[i].created_ms == versions[i].created_ms);
        assert_true(r.versions[i].deleted_ms == versions[i].deleted_ms);
        assert_int_equal(r.versions[i].ended, versions[i].ended);
        assert_int_equal(r.versions[i].place, versions[i].place);
        assert_bytes(r.versions[i].data, versions[i].data);
        assert_int_equal(r.versions[i].sealed.len, versions[i].sealed.len);
    }
}

static void a_new_secret_takes_few_bytes_beside_its_data(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    int64_t at = (int64_t)T0 * 1000;
    struct kv2_version version = {
        .created_ms = at, .place = KV2_INLINE, .data = BYTES("{\"a\":1}")};
    struct kv2_record r = {
        .newest = 1, .created_ms = at, .updated_ms = at, .versions = &version, .n = 1};
    encode(&r, &out);
    assert_int_equal(out.len, 13 + version.data.len);
}

static void a_version_is_found_by_its_number(void **ctx)
{
    (void)ctx;
    struct kv2_version versions[4];
    struct kv2_record r = sample(versions);
    for (uint64_t i = 0; i < 4; i++)
        assert_ptr_equal(kv2_record_version(&r, 297 + i), &versions[i]);
    assert_null(kv2_record_version(&r, 296));
    assert_null(kv2_record_version(&r, 301));
    assert_null(kv2_record_version(&r, 0));
    assert_null(kv2_record_version(&r, UINT64_MAX));
    r.newest = r.n = 0;
    assert_null(kv2_record_version(&r, 0));
    assert_null(kv2_record_version(&r, 1));
}

static void a_version_ends_at_its_time(void **ctx)
{
    (void)ctx;
    struct kv2_version v = {.created_ms = 5, .deleted_ms = 10, .place = KV2_INLINE};
    assert_true(kv2_version_lives(&v, 9));
    assert_false(kv2_version_lives(&v, 10));
    assert_false(kv2_version_lives(&v, 11));
    v.ended = true; /* by request: a clock that is behind does not bring it back */
    assert_false(kv2_version_lives(&v, 9));
    v.ended = false;
    v.deleted_ms = 0;
    assert_true(kv2_version_lives(&v, INT64_MAX));
    v.place = KV2_DESTROYED;
    assert_false(kv2_version_lives(&v, 9));
}

/* Every part of a good record is refused, and every bit that changes it changes what is read. */
static void what_is_cut_or_changed_is_noticed(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf again = {0};
    struct kv2_version versions[4];
    struct kv2_record in = sample(versions), r;
    encode(&in, &out);
    for (size_t len = 0; len < out.len; len++)
        assert_status(kv2_record_decode(bytes_of(out.data, len), &arena, &r), ST_CORRUPT);
    for (size_t i = 0; i < 8 * out.len; i++) {
        out.data[i / 8] ^= (uint8_t)(1 << i % 8);
        if (kv2_record_decode(buf_bytes(&out), &arena, &r) == ST_OK) {
            encode(&r, &again);
            assert_bytes(buf_bytes(&again), buf_bytes(&out));
        }
        out.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    buf_add_u8(&out, 0);
    assert_status(kv2_record_decode(buf_bytes(&out), &arena, &r), ST_CORRUPT);
}

#define HEAD "\x03\x00"
#define CREATED "\x80\xd0\x95\xff\xbc\x31"

static void bounds_are_held(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
#define CASE(literal) {(literal), sizeof(literal) - 1}
        CASE("\x02\x00\x00\x00" CREATED "\x00"),     /* another format */
        CASE("\x03\x40\x00\x00" CREATED "\x00"),     /* an unknown flag */
        CASE("\x03\x20\x00\x00" CREATED "\x00\x00"), /* settings never written, and so said */
        CASE("\x03\x20\x00\x00" CREATED "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        CASE("\x03\x02\x00\x00" CREATED "\x00\x00"),                      /* a limit of nothing */
        CASE("\x03\x08\x00\x00" CREATED "\x00\x00"),                      /* no pairs */
        CASE("\x03\x08\x00\x00" CREATED "\x00\xff\xff\x03"),              /* too many */
        CASE("\x03\x08\x00\x00" CREATED "\x00\x01\x01k\x02v\x00"),        /* no text */
        CASE(HEAD "\x00\x00\x00\x00"),                                    /* no time */
        CASE(HEAD "\x00\x01" CREATED "\x00\x00"),                         /* more than were made */
        CASE(HEAD "\x01\x01" CREATED "\x00\x03\x00"),                     /* nothing behind */
        CASE(HEAD "\x01\x01" CREATED "\x00\x03\x81\x10"),                 /* too much */
        CASE(HEAD "\x02\x02" CREATED "\x00\x01\x02{}\x00"),               /* inside, not newest */
        CASE(HEAD "\x01\x01" CREATED "\x00\x0a"),                         /* ended, but never */
        CASE(HEAD "\xff\xff\xff\xff\x0f\xff\xff\x03" CREATED "\x00\x00"), /* more than is there */
        CASE(HEAD "\x01\x01" CREATED "\x00\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* far off */
        CASE(HEAD "\x01\x01" CREATED "\x00\x01\x05{}"),               /* data beyond the end */
        CASE(HEAD "\x00\x00\x80\xe0\xba\xd3\x87\xce\x39\x00"),        /* made in the year 9999 */
        CASE(HEAD "\x00\x00" CREATED "\x80\x90\xa5\xd4\xca\x9c\x39"), /* changed in it */
#undef CASE
    };
    static const char good[] = HEAD "\x02\x02" CREATED "\x00\x03\x80\x10\x01\x02{}";
    static const char last[] = HEAD "\x00\x00" CREATED "\xff\x8f\xa5\xd4\xca\x9c\x39";
    struct kv2_record r;
    assert_status(kv2_record_decode(bytes_of(good, sizeof good - 1), &arena, &r), ST_OK);
    assert_status(kv2_record_decode(bytes_of(last, sizeof last - 1), &arena, &r), ST_OK);
    assert_int_equal(r.updated_ms, TEXT_CLOCK_END - 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (kv2_record_decode(bytes_of(bad[i].text, bad[i].len), &arena, &r) != ST_CORRUPT)
            fail_msg("case %zu is taken", i);
}

static void without_memory_nothing_is_half_read(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct kv2_version versions[4];
    struct kv2_record in = sample(versions), r;
    encode(&in, &out);
    for (uint64_t n = 1;; n++) {
        r = (struct kv2_record){0};
        arena_done(&arena);
        mem_fail_nth(n);
        enum status st = kv2_record_decode(buf_bytes(&out), &arena, &r);
        bool failed = mem_fail_nth(0);
        if (!failed) {
            assert_status(st, ST_OK);
            break;
        }
        assert_status(st, ST_NOMEM);
        assert_null(r.versions);
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_is_read_as_it_was_written),
        TEST(a_new_secret_takes_few_bytes_beside_its_data),
        TEST(a_version_is_found_by_its_number),
        TEST(a_version_ends_at_its_time),
        TEST(what_is_cut_or_changed_is_noticed),
        TEST(bounds_are_held),
        TEST(without_memory_nothing_is_half_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
