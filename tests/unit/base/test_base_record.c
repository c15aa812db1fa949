/* Records that a table describes: every form, bound and format. */
#include "support.h"

#include "base/mem.h"
#include "base/record.h"

enum kind { KIND_A = 1, KIND_B = 2 };

struct pair {
    const char *name, *value;
};

struct sample {
    enum kind kind;
    uint16_t port;
    uint32_t count;
    int64_t time_ms;
    uint64_t amount, limit;
    bool on, left, right;
    uint8_t id[4];
    struct bytes block;
    struct buf copy;
    char name[8];
    const char *text, *place;
    struct pair *pairs;
    size_t n_pairs;
    char words[3][5];
    uint8_t n_words;
    uint8_t more;
    struct bytes rest;
};

static const struct record_field pair_fields[] = {
    RECORD_FIELD(struct pair, name, TEXT0, .min = 1),
    RECORD_FIELD(struct pair, value, TEXT0),
};
static const struct record pair_record = {RECORD(struct pair, pair_fields), .name = "test/pair"};
static const struct record_field word_fields[] = {RECORD_ITSELF("word", char[5], TEXT, .min = 1)};
static const struct record word_record = {RECORD(char[5], word_fields), .name = "test/word"};

static bool starts_with_b(struct bytes block)
{
    return block.len != 0 && block.data[0] == 'b';
}

static bool limit_after_amount(const void *from)
{
    const struct sample *s = from;
    return s->limit == 0 || s->limit >= s->amount;
}

static const struct record_field sample_fields[] = {
    RECORD_FIELD(struct sample, kind, U8, .min = KIND_A, .max = KIND_B, .help = "a | b"),
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct sample, left, FLAG, .mask = 1),
    RECORD_FIELD(struct sample, right, FLAG, .mask = 2),
    RECORD_FIELD(struct sample, limit, VARINT, .mask = 4),
    RECORD_FIELD(struct sample, port, U16),
    RECORD_FIELD(struct sample, count, U32),
    RECORD_FIELD(struct sample, time_ms, U64),
    RECORD_FIELD(struct sample, amount, VARINT, .max = 300),
    RECORD_FIELD(struct sample, on, U8),
    RECORD_FIELD(struct sample, id, FIXED),
    RECORD_FIELD(struct sample, block, BLOCK, .check = starts_with_b),
    RECORD_FIELD(struct sample, copy, BLOCK, .secret = true, .max = 4),
    RECORD_FIELD(struct sample, name, TEXT, .min = 1),
    RECORD_FIELD(struct sample, text, TEXT),
    RECORD_FIELD(struct sample, place, TEXT0),
    RECORD_ITEMS("pairs", struct sample, pairs, n_pairs, LIST, &pair_record),
    RECORD_ARRAY("words", struct sample, words, n_words, LIST8, &word_record),
    RECORD_FIELD(struct sample, more, U8, .since = 2, .preset = 7),
    RECORD_FIELD(struct sample, rest, REST, .since = 3),
};
static const struct record sample_record = {RECORD(struct sample, sample_fields),
                                            .name = "test/sample", .key = "l/sample/*/at/",
                                            .newest = 3, .valid = limit_after_amount};
RECORD_LISTED(sample_record);

#define SAMPLE_HEAD                                \
    "\2\5\x14\x0a\x20\x09\0\0\0\5\0\0\0\0\0\0\0\7" \
    "\1"                                           \
    "wxyz"                                         \
    "\2by\3key\2me\0\4go/\0\1\2n\0\1\0\2\3abc\4defg"

static struct pair pairs[] = {{"n", ""}};

static struct sample sample_of(void)
{
    struct sample s = {.kind = KIND_B,
                       .port = 0x200a,
                       .count = 9,
                       .time_ms = 5,
                       .amount = 7,
                       .limit = 20,
                       .on = true,
                       .left = true,
                       .id = {'w', 'x', 'y', 'z'},
                       .block = BYTES("by"),
                       .name = "me",
                       .text = "",
                       .place = "go/",
                       .pairs = pairs,
                       .n_pairs = 1,
                       .words = {"abc", "defg"},
                       .n_words = 2,
                       .more = 7};
    buf_add_str(&s.copy, "key");
    return s;
}

static void a_record_has_the_bytes_of_its_table(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct sample s = sample_of();
    (void)ctx;
    assert_status(record_encode(&sample_record, &s, &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\1" SAMPLE_HEAD));
    buf_done(&s.copy);
}

static void a_record_decodes_to_what_was_encoded(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct sample s = {0};
    (void)ctx;
    assert_status(record_decode(&sample_record, BYTES("\1" SAMPLE_HEAD), &arena, &s), ST_OK);
    assert_int_equal(s.kind, KIND_B);
    assert_int_equal(s.limit, 20);
    assert_int_equal(s.port, 0x200a);
    assert_true(s.left && !s.right && s.on);
    assert_bytes(s.block, BYTES("by"));
    assert_bytes(buf_bytes(&s.copy), BYTES("key"));
    assert_string_equal(s.name, "me");
    assert_string_equal(s.text, "");
    assert_string_equal(s.place, "go/");
    assert_int_equal(s.n_pairs, 1);
    assert_string_equal(s.pairs[0].name, "n");
    assert_int_equal(s.n_words, 2);
    assert_string_equal(s.words[1], "defg");
    assert_int_equal(s.more, 7);
    record_done(&sample_record, &s);
    assert_int_equal(s.copy.cap, 0);
}

/* The lowest format that has every field with a value. */
static void a_record_is_written_in_the_lowest_format_that_holds_it(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct sample s = sample_of();
    (void)ctx;
    s.more = 8;
    assert_status(record_encode(&sample_record, &s, &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\2" SAMPLE_HEAD "\x08"));
    buf_clear(&out);
    s.rest = BYTES("rest");
    assert_status(record_encode(&sample_record, &s, &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\3" SAMPLE_HEAD "\x08"
                                        "rest"));
    buf_clear(&out);
    assert_status(record_encode_head(&sample_record, &s, &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\3" SAMPLE_HEAD "\x08"));
    buf_done(&s.copy);
}

/* `bytes` is refused, and *ret keeps what it had. */
static void refuse_bytes(struct bytes bytes)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct sample s = {.port = 77, .name = "kept"};
    assert_status(record_decode(&sample_record, bytes, &arena, &s), ST_CORRUPT);
    assert_int_equal(s.port, 77);
    assert_string_equal(s.name, "kept");
}

static void every_cut_of_a_record_is_refused(void **ctx)
{
    const struct bytes whole = BYTES("\2" SAMPLE_HEAD "\x08");
    (void)ctx;
    for (size_t len = 0; len < whole.len; len++)
        refuse_bytes(bytes_of(whole.data, len));
    refuse_bytes(BYTES("\2" SAMPLE_HEAD "\x08\x09"));
}

/* Each row changes one byte of the sample. */
static void every_value_out_of_its_bounds_is_refused(void **ctx)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *what;
    } rows[] = {
        {0, 0, "format 0"},
        {0, 4, "format of a later build"},
        {0, 2, "format 2 without its field"},
        {1, 0, "kind below its minimum"},
        {1, 3, "kind above its maximum"},
        {2, 13, "an unknown bit"},
        {3, 6, "limit before amount"},
        {17, 0x80, "negative time"},
        {19, 2, "a bool that is 2"},
        {25, 'c', "a block that its check refuses"},
        {27, 5, "a block above its maximum"},
        {32, 0, "a zero byte in a text"},
        {35, 5, "a text that does not end in a zero byte"},
        {41, 1, "an item that does not end in a zero byte"},
        {46, 4, "more items than the array holds"},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t bytes[] = "\1" SAMPLE_HEAD;
        bytes[rows[i].at] = rows[i].value;
        print_message("%s\n", rows[i].what);
        refuse_bytes(bytes_of(bytes, sizeof bytes - 1));
    }
}

static void a_count_that_the_input_cannot_hold_allocates_nothing(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    static const struct record_field fields[] = {
        RECORD_ITEMS("pairs", struct sample, pairs, n_pairs, LIST, &pair_record)};
    static const struct record record = {RECORD(struct sample, fields), .name = "test/list"};
    struct sample s = {0};
    (void)ctx;
    assert_status(record_decode(&record, BYTES("\xff\xff\xff\xff\x0f"), &arena, &s), ST_CORRUPT);
    assert_int_equal(arena.bytes, 0);
}

static void an_optional_field_that_is_present_and_zero_is_refused(void **ctx)
{
    static const struct record_field fields[] = {
        RECORD_BITS_BYTE, RECORD_FIELD(struct sample, limit, VARINT, .mask = 4)};
    static const struct record record = {RECORD(struct sample, fields), .name = "test/optional"};
    struct sample s = {.limit = 3};
    (void)ctx;
    assert_status(record_decode(&record, BYTES("\4\0"), NULL, &s), ST_CORRUPT);
    assert_status(record_decode(&record, BYTES("\4\1"), NULL, &s), ST_OK);
    assert_int_equal(s.limit, 1);
    assert_status(record_decode(&record, BYTES("\0"), NULL, &s), ST_OK);
    assert_int_equal(s.limit, 0);
}

struct hello {
    uint16_t protocol;
    uint16_t level;
    uint8_t id;
};
static const struct record_field hello_fields[] = {
    RECORD_FIELD(struct hello, protocol, U16, .min = 1),
    RECORD_FIELD(struct hello, id, U8),
    RECORD_FIELD(struct hello, level, U16, .since = 2, .preset = 1, .min = 1),
};
static const struct record hello_record = {RECORD(struct hello, hello_fields), .name = "test/hello",
                                           .protocol = 2};

static void a_later_protocol_may_add_fields_at_the_end(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct hello h = {0};
    (void)ctx;
    assert_status(record_decode(&hello_record, BYTES("\1\0\5"), NULL, &h), ST_OK);
    assert_int_equal(h.level, 1);
    assert_status(record_decode(&hello_record, BYTES("\2\0\5\7\0"), NULL, &h), ST_OK);
    assert_int_equal(h.level, 7);
    assert_status(record_decode(&hello_record, BYTES("\2\0\5\7\0more"), NULL, &h), ST_CORRUPT);
    assert_status(record_decode(&hello_record, BYTES("\1\0\5\7\0"), NULL, &h), ST_CORRUPT);
    assert_status(record_decode(&hello_record, BYTES("\3\0\5\x09\0more"), NULL, &h), ST_OK);
    assert_int_equal(h.protocol, 3);
    assert_int_equal(h.level, 9);
    assert_status(record_encode(&hello_record, &h, &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\3\0\5\x09\0"));
}

struct list {
    struct pair *pairs;
    uint32_t n;
};

static void a_list_up_to_the_end_has_as_many_items_as_bytes_hold(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    static const struct record_field fields[] = {
        RECORD_ITEMS("pairs", struct list, pairs, n, LIST_END, &pair_record, .max = 3)};
    static const struct record record = {RECORD(struct list, fields), .name = "test/end"};
    struct list list = {0};
    (void)ctx;
    assert_status(record_decode(&record, BYTES(""), &arena, &list), ST_OK);
    assert_int_equal(list.n, 0);
    const struct bytes three = BYTES("\2a\0\1\0\2b\0\2c\0\2d\0\1\0");
    assert_status(record_decode(&record, three, &arena, &list), ST_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.pairs[1].value, "c");
    assert_string_equal(list.pairs[2].name, "d");
    assert_status(record_encode(&record, &list, &out), ST_OK);
    assert_bytes(buf_bytes(&out), three);
    buf_add_str(&out, "\2e");
    assert_status(record_decode(&record, buf_bytes(&out), &arena, &list), ST_CORRUPT);
}

static void a_dump_shows_values_and_no_secret(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    record_dump(&sample_record, BYTES("\1" SAMPLE_HEAD), &out);
    buf_add_u8(&out, 0);
    assert_string_equal((const char *)out.data,
                        "kind 2, left true, right false, limit 20, port 8202, count 9, time_ms 5, "
                        "amount 7, on true, id 0x7778797a, block \"by\", copy (3 bytes), name "
                        "\"me\", text \"\", place \"go/\", pairs [name \"n\", value \"\"], words "
                        "[word \"abc\"; word \"defg\"], more 7, rest \"\"");
    buf_clear(&out);
    record_dump(&sample_record, BYTES("\1"), &out);
    assert_bytes(buf_bytes(&out), BYTES("malformed"));
}

static void a_drawing_shows_bytes_bounds_and_formats(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    static const char *const rows[] = {
        "| bytes | field | meaning |",
        "| 1 | format | 1 to 3 |",
        "| 1 | kind | a \\| b; 1 to 2 |",
        "| 1 | bits | 1: left; 2: right; 4: limit is there |",
        "| varint | limit, if its bit is set |  |",
        "| varint | amount | at most 300 |",
        "| 1 | on | 0 or 1 |",
        "| 4 | id |  |",
        "| block | copy | at most 4 bytes (secret) |",
        "| block | name | 1 to 7 bytes |",
        "| 1, items | words | at most 3 items |",
        "| each: block | word | 1 to 4 bytes |",
        "| 1 | more, from format 2 on |  |",
        "| … | rest, from format 3 on |  |",
    };
    (void)ctx;
    record_draw(&sample_record, &out);
    buf_add_u8(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strstr((const char *)out.data, rows[i]) == NULL)
            fail_msg("no row \"%s\" in\n%s", rows[i], (const char *)out.data);
}

static void a_record_is_found_by_name_and_key(void **ctx)
{
    (void)ctx;
    assert_ptr_equal(record_of_name(BYTES("test/sample")), &sample_record);
    assert_null(record_of_name(BYTES("test/sampl")));
    assert_ptr_equal(record_of_key(BYTES("l/sample/one/at/here")), &sample_record);
    assert_ptr_equal(record_of_key(BYTES("l/sample/one/at/")), &sample_record);
    assert_null(record_of_key(BYTES("l/sample//at/here")));
    assert_null(record_of_key(BYTES("l/sample/one/a")));
    assert_null(record_of_key(BYTES("l/sample/one/two/at/x")));
}

static void a_record_without_memory_is_not_decoded(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct sample s = {.port = 77};
        (void)mem_fail_nth(n);
        enum status st = record_decode(&sample_record, BYTES("\1" SAMPLE_HEAD), &arena, &s);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            record_done(&sample_record, &s);
            assert_true(n > 2);
            break;
        }
        assert_status(st, ST_NOMEM);
        assert_int_equal(s.port, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_the_bytes_of_its_table),
        cmocka_unit_test(a_record_decodes_to_what_was_encoded),
        cmocka_unit_test(a_record_is_written_in_the_lowest_format_that_holds_it),
        cmocka_unit_test(every_cut_of_a_record_is_refused),
        cmocka_unit_test(every_value_out_of_its_bounds_is_refused),
        cmocka_unit_test(a_count_that_the_input_cannot_hold_allocates_nothing),
        cmocka_unit_test(an_optional_field_that_is_present_and_zero_is_refused),
        cmocka_unit_test(a_later_protocol_may_add_fields_at_the_end),
        cmocka_unit_test(a_list_up_to_the_end_has_as_many_items_as_bytes_hold),
        cmocka_unit_test(a_dump_shows_values_and_no_secret),
        cmocka_unit_test(a_drawing_shows_bytes_bounds_and_formats),
        cmocka_unit_test(a_record_is_found_by_name_and_key),
        cmocka_unit_test(a_record_without_memory_is_not_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
