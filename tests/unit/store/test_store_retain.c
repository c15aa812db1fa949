/* The format, the limits and the pieces of a retained suffix. */
#include "store/store.h"

#include "support.h"

static void the_frame_is_split_as_it_was_written(void **ctx)
{
    (void)ctx;
    uint8_t room[16];
    struct store_retain_parts parts;
    uint8_t *head = store_retain_frame(room, 3);
    memcpy(head, "newoldest", 9);
    assert_memory_equal(room, "\x50\3\0\0\0newoldest", STORE_RETAIN_FRAME + 9);
    assert_status(store_retain_split(bytes_of(room, STORE_RETAIN_FRAME + 9), &parts), ST_OK);
    assert_bytes(parts.head, BYTES("new"));
    assert_bytes(parts.suffix, BYTES("oldest"));
    assert_status(store_retain_split(bytes_of(room, STORE_RETAIN_FRAME + 3), &parts), ST_OK);
    assert_bytes(parts.head, BYTES("new"));
    assert_int_equal(parts.suffix.len, 0);
    assert_status(store_retain_split(bytes_of(room, STORE_RETAIN_FRAME + 2), &parts), ST_CORRUPT);
}

static void a_value_without_a_frame_is_all_head(void **ctx)
{
    (void)ctx;
    struct store_retain_parts parts;
    const struct bytes values[] = {BYTES(""), BYTES("abcdef"), BYTES("\x50\1\0\0")};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        assert_status(store_retain_split(values[i], &parts), ST_OK);
        assert_bytes(parts.head, values[i]);
        assert_int_equal(parts.suffix.len, 0);
    }
}

static void a_range_is_two_varints(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct store_retain retain = {.from = 5, .len = 300};
    store_retain_encode(&retain, &out);
    assert_bytes(buf_bytes(&out), BYTES("\x05\xac\x02"));
    struct reader r = reader_of(buf_bytes(&out));
    struct store_retain back = store_retain_decode(&r);
    assert_status(reader_end(&r), ST_OK);
    assert_int_equal(back.from, 5);
    assert_int_equal(back.len, 300);
}

static void a_range_above_the_limits_is_invalid(void **ctx)
{
    (void)ctx;
    enum { MOST = STORE_VALUE_MAX };
    assert_true(store_retain_valid(&(struct store_retain){MOST, 1}, MOST - 1));
    assert_true(store_retain_valid(&(struct store_retain){0, MOST}, 0));
    assert_false(store_retain_valid(&(struct store_retain){0, 2}, MOST - 1));
    assert_false(store_retain_valid(&(struct store_retain){0, SIZE_MAX}, 1));
    assert_false(store_retain_valid(&(struct store_retain){MOST + 1, 1}, 0));
    assert_false(store_retain_valid(&(struct store_retain){0, 0}, (size_t)MOST + 1));
}

static void a_range_is_cut_at_the_end_of_the_value(void **ctx)
{
    (void)ctx;
    struct bytes value = BYTES("abcdef");
    assert_bytes(store_retain_cut(&(struct store_retain){2, 3}, value), BYTES("cde"));
    assert_bytes(store_retain_cut(&(struct store_retain){4, 30}, value), BYTES("ef"));
    assert_int_equal(store_retain_cut(&(struct store_retain){6, 1}, value).len, 0);
    assert_int_equal(store_retain_cut(&(struct store_retain){60, 1}, value).len, 0);
}

static void adjacent_pieces_are_one_range(void **ctx)
{
    (void)ctx;
    CLEANUP(store_retain_done) struct store_retain_suffix suffix = {0};
    struct bytes value = BYTES("abcdef");
    store_retain_add(&suffix, bytes_of(value.data + 1, 2));
    store_retain_add(&suffix, bytes_of(value.data + 3, 1));
    assert_int_equal(suffix.copy.len, 0);
    assert_bytes(suffix.run, BYTES("bcd"));
    struct store_retain range = store_retain_range(suffix.run, value);
    assert_int_equal(range.from, 1);
    assert_int_equal(range.len, 3);
}

static void scattered_pieces_are_a_copy(void **ctx)
{
    (void)ctx;
    CLEANUP(store_retain_done) struct store_retain_suffix suffix = {0};
    struct bytes value = BYTES("abcdef");
    store_retain_add(&suffix, bytes_of(value.data, 2));
    store_retain_add(&suffix, bytes_of(value.data + 3, 1));
    store_retain_add(&suffix, bytes_of(value.data + 4, 1));
    assert_status(buf_status(&suffix.copy), ST_OK);
    assert_int_equal(suffix.run.len, 0);
    assert_bytes(buf_bytes(&suffix.copy), BYTES("abde"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_frame_is_split_as_it_was_written),
        cmocka_unit_test(a_value_without_a_frame_is_all_head),
        cmocka_unit_test(a_range_is_two_varints),
        cmocka_unit_test(a_range_above_the_limits_is_invalid),
        cmocka_unit_test(a_range_is_cut_at_the_end_of_the_value),
        cmocka_unit_test(adjacent_pieces_are_one_range),
        cmocka_unit_test(scattered_pieces_are_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
