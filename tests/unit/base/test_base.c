#include "support.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/env.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>

static void status_codes_have_names_and_http_statuses(void **ctx)
{
    (void)ctx;
    assert_string_equal(status_name(ST_NOT_FOUND), "ST_NOT_FOUND");
    assert_int_equal(status_http(ST_SEALED), 503);
    assert_string_equal(status_name((enum status)9999), "ST_?");
    assert_int_equal(status_http((enum status)9999), 500);
}

static void numbers_read_back_as_written(void **ctx)
{
    (void)ctx;
    static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    struct buf b = {0};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        buf_add_varint(&b, values[i]);
        buf_add_u64(&b, values[i]);
        buf_add_u16(&b, (uint16_t)values[i]);
    }
    buf_add_block(&b, BYTES("block"));
    assert_status(buf_status(&b), ST_OK);
    struct reader r = reader_of(buf_bytes(&b));
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        assert_true(reader_varint(&r) == values[i]);
        assert_true(reader_u64(&r) == values[i]);
        assert_int_equal(reader_u16(&r), (uint16_t)values[i]);
    }
    assert_bytes(reader_block(&r), BYTES("block"));
    assert_status(reader_end(&r), ST_OK);
    buf_done(&b);
}

static void a_short_or_padded_input_fails_the_reader_for_good(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {{"", 0},
               {"\x80", 1},
               {"\x80\x00", 2},                                  /* padded */
               {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10}, /* beyond 64 bits */
               {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct reader r = reader_of(bytes_of(bad[i].bytes, bad[i].len));
        assert_true(reader_varint(&r) == 0);
        assert_true(r.failed);
        assert_int_equal(reader_u8(&r), 0);
        assert_status(reader_end(&r), ST_INVALID);
    }
    struct reader r = reader_of(bytes_of("\x05"
                                         "abc",
                                         4));
    assert_true(reader_block(&r).len == 0);
    assert_true(r.failed);
}

static void bytes_left_over_are_an_error(void **ctx)
{
    (void)ctx;
    struct reader r = reader_of(BYTES("ab"));
    assert_int_equal(reader_u8(&r), 'a');
    assert_status(reader_end(&r), ST_INVALID);
}

static void a_buffer_that_ran_out_of_memory_stays_failed_and_whole(void **ctx)
{
    (void)ctx;
    struct buf b = {0};
    buf_add_str(&b, "kept");
    mem_fail_nth(1);
    buf_add_format(&b, "%0400d", 7);
    mem_fail_nth(0);
    assert_status(buf_status(&b), ST_NOMEM);
    assert_bytes(buf_bytes(&b), BYTES("kept"));
    buf_add_str(&b, "more");
    assert_bytes(buf_bytes(&b), BYTES("kept"));
    buf_done(&b);
}

static void consuming_keeps_the_rest(void **ctx)
{
    (void)ctx;
    struct buf b = {0};
    buf_add_str(&b, "abcdef");
    buf_consume(&b, 4);
    assert_bytes(buf_bytes(&b), BYTES("ef"));
    buf_consume(&b, 2);
    assert_true(b.len == 0);
    buf_done(&b);
}

static void an_arena_is_bounded_and_copies(void **ctx)
{
    (void)ctx;
    struct arena a = {.bytes_max = 10000};
    char *text = arena_str(&a, BYTES("hello"));
    assert_string_equal(text, "hello");
    assert_string_equal(arena_format(&a, "%d-%s", 5, text), "5-hello");
    assert_string_equal(arena_number(&a, 0), "0");
    assert_string_equal(arena_number(&a, UINT64_MAX), "18446744073709551615");
    assert_string_equal(arena_concat(&a, text, "/x"), "hello/x");
    assert_string_equal(arena_concat(&a, "", ""), "");
    assert_null(arena_alloc(&a, 20000));
    assert_null(arena_alloc(&a, SIZE_MAX / 2));
    unsigned n = 0;
    while (arena_alloc(&a, 100) != NULL)
        n++;
    assert_in_range(n, 80, 100);
    arena_done(&a);
    assert_non_null(arena_alloc(&a, 100));
    arena_done(&a);
}

static void an_arena_can_be_used_again_with_the_memory_it_has(void **ctx)
{
    (void)ctx;
    struct arena a = {.block_bytes = 1024};
    uint8_t *first = arena_dup(&a, BYTES("a secret"));
    for (unsigned i = 0; i < 10; i++)
        assert_non_null(arena_alloc(&a, 500));
    arena_clear(&a);
    mem_fail_nth(1); /* what it has is enough */
    uint8_t *again = arena_alloc(&a, 900);
    assert_ptr_equal(again, first);
    for (size_t i = 0; i < sizeof "a secret"; i++)
        assert_int_equal(again[i], 0);
    assert_null(arena_alloc(&a, 900));
    arena_done(&a);
}

static void an_arena_gives_what_it_has_to_the_last_byte(void **ctx)
{
    (void)ctx;
    struct arena a = {.block_bytes = 1024};
    assert_non_null(arena_alloc(&a, 0)); /* without a block, too */
    volatile size_t huge = SIZE_MAX - 3;
    assert_null(arena_alloc(&a, huge)); /* also when it is rounded up */
    size_t left = 1024 - 32;            /* the head of a block */
    uint8_t *first = arena_alloc(&a, 1);
    uint8_t *rest = arena_alloc(&a, left - 16);
    assert_true(rest == first + 16);
    uint8_t *other = arena_alloc(&a, 1); /* of another block */
    assert_true(other < first || other >= first + left);
    assert_int_equal(a.bytes, left + 16);
    arena_done(&a);
}

static void an_arena_keeps_no_block_that_was_made_for_one_thing(void **ctx)
{
    (void)ctx;
    struct arena a = {0};
    assert_non_null(arena_alloc(&a, 100000));
    arena_clear(&a);
    mem_fail_nth(1);
    assert_null(arena_alloc(&a, 10));
    arena_clear(&a);
    assert_non_null(arena_alloc(&a, 10));
    arena_done(&a);
}

static void byte_runs_sort_as_unsigned_with_prefixes_first(void **ctx)
{
    (void)ctx;
    assert_true(bytes_cmp(BYTES("a"), BYTES("ab")) < 0);
    assert_true(bytes_cmp(BYTES("\xff"), BYTES("a")) > 0);
    assert_true(bytes_cmp(BYTES(""), BYTES("")) == 0);
    assert_true(bytes_eq_secret(BYTES("same"), BYTES("same")));
    assert_false(bytes_eq_secret(BYTES("same"), BYTES("sama")));
    assert_false(bytes_eq_secret(BYTES("same"), BYTES("samee")));
}

struct item {
    struct list link;
    int value;
};

static void lists_keep_order_and_survive_removal_in_a_loop(void **ctx)
{
    (void)ctx;
    struct list head, other;
    struct item items[4];
    list_init(&head);
    list_init(&other);
    for (int i = 0; i < 4; i++) {
        items[i].value = i;
        list_push(i < 2 ? &head : &other, &items[i].link);
    }
    list_splice(&head, &other);
    assert_true(list_empty(&other));
    LIST_FOR_SAFE (at, after, &head)
        if (CONTAINER_OF(at, struct item, link)->value % 2 == 1)
            list_remove(at);
    assert_ptr_equal(list_pop(&head), &items[0].link);
    assert_ptr_equal(list_pop(&head), &items[2].link);
    assert_null(list_pop(&head));
}

static void nothing(struct env_timer *timer)
{
    (void)timer;
}

static void timers_come_in_order_of_time_then_of_setting(void **ctx)
{
    (void)ctx;
    enum { N = 200 };
    static struct env_timer timers[N];
    struct timer_heap heap = {0};
    uint64_t x = 12345;
    for (unsigned i = 0; i < N; i++) {
        timers[i] = (struct env_timer){.fire = nothing};
        x = x * 6364136223846793005u + 1442695040888963407u;
        timer_heap_set(&heap, &timers[i], (x >> 33) % 50);
    }
    for (unsigned i = 0; i < N; i += 3)
        timer_heap_stop(&heap, &timers[i]);
    for (unsigned i = 1; i < N; i += 7)
        timer_heap_set(&heap, &timers[i], 25);
    uint64_t at = 0, seq = 0;
    for (struct env_timer *t = timer_heap_first(&heap); t != NULL; t = timer_heap_first(&heap)) {
        assert_true(t->at_ms > at || (t->at_ms == at && t->seq >= seq));
        at = t->at_ms;
        seq = t->seq;
        timer_heap_stop(&heap, t);
        timer_heap_stop(&heap, t);
    }
    timer_heap_done(&heap);
}

static unsigned lines;

static void count_line(enum trace_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    (void)text;
    lines++;
}

static void the_reason_of_an_end_is_written_whatever_the_level(void **ctx)
{
    (void)ctx;
    enum trace_level before = trace_level();
    lines = 0;
    trace_set_sink(count_line);
    trace_set_level(TRACE_OFF);
    trace(TRACE_ERROR, "test", "not written");
    assert_int_equal(lines, 0);
    trace_end(TRACE_INFO, "test", "written");
    assert_int_equal(lines, 1);
    trace_set_level(before);
    trace_set_sink(NULL);
}

/* Those that may fail and those that may not are counted apart. */
static void the_nth_allocation_fails_and_no_other(void **ctx)
{
    (void)ctx;
    (void)mem_fail_nth(2);
    (void)mem_fail_must_nth(1000);
    mem_free(mem_must_alloc(1));
    void *first = mem_alloc(1), *second = mem_alloc(1), *third = mem_alloc(1);
    assert_true(mem_fail_nth(0));
    assert_false(mem_fail_must_nth(0));
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    mem_free(first);
    mem_free(third);
}

enum { PLACES = 4096 };

static const char *const formats[] = {"%u",
                                      "s/ns/root/mount/kv%u",
                                      "%u/data",
                                      "%08x",
                                      "%08xtail",
                                      "a longer text %u, and more",
                                      "%u padded to be of many words: ..............."};

/* Of the hashes of 4096 texts, as a table of as many places uses them: 2589 are expected. */
static size_t places_taken(size_t form, unsigned shift)
{
    bool taken[PLACES] = {0};
    size_t n = 0;
    for (unsigned i = 0; i < PLACES; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, formats[form], i);
        bool *at = &taken[(bytes_hash(bytes_str(text)) >> shift) % PLACES];
        n += !*at;
        *at = true;
    }
    return n;
}

static void hashes_of_like_texts_fill_a_table(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        for (unsigned shift = 0; shift <= 52; shift += 13)
            assert_in_range(places_taken(i, shift), 2400, 2800);
}

static void hashes_tell_every_byte_and_length(void **ctx)
{
    (void)ctx;
    uint8_t text[40] = {0};
    for (size_t len = 0; len < sizeof text; len++) {
        uint64_t hash = bytes_hash(bytes_of(text, len));
        assert_true(hash != bytes_hash(bytes_of(text, len + 1)));
        assert_true(hash != bytes_hash_from(1, bytes_of(text, len)));
        for (size_t bit = 0; bit < 8 * len; bit++) {
            text[bit / 8] ^= (uint8_t)(1u << bit % 8);
            uint64_t other = bytes_hash(bytes_of(text, len));
            assert_true(other % PLACES != hash % PLACES || other >> 52 != hash >> 52);
            text[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_codes_have_names_and_http_statuses),
        cmocka_unit_test(numbers_read_back_as_written),
        cmocka_unit_test(hashes_of_like_texts_fill_a_table),
        cmocka_unit_test(hashes_tell_every_byte_and_length),
        cmocka_unit_test(a_short_or_padded_input_fails_the_reader_for_good),
        cmocka_unit_test(bytes_left_over_are_an_error),
        cmocka_unit_test(a_buffer_that_ran_out_of_memory_stays_failed_and_whole),
        cmocka_unit_test(consuming_keeps_the_rest),
        cmocka_unit_test(an_arena_is_bounded_and_copies),
        cmocka_unit_test(an_arena_gives_what_it_has_to_the_last_byte),
        cmocka_unit_test(an_arena_can_be_used_again_with_the_memory_it_has),
        cmocka_unit_test(an_arena_keeps_no_block_that_was_made_for_one_thing),
        cmocka_unit_test(byte_runs_sort_as_unsigned_with_prefixes_first),
        cmocka_unit_test(lists_keep_order_and_survive_removal_in_a_loop),
        cmocka_unit_test(timers_come_in_order_of_time_then_of_setting),
        cmocka_unit_test(the_reason_of_an_end_is_written_whatever_the_level),
        cmocka_unit_test(the_nth_allocation_fails_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
