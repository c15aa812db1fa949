#include "support.h"

#include "base/mem.h"
#include "text/json.h"
#include "text/merge.h"

static struct arena arena;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static const struct text_value *parse(const char *text)
{
    const struct text_value *v = NULL;
    assert_status(text_json_parse(&arena, bytes_str(text), &v, NULL), ST_OK);
    return v;
}

static void assert_merged(const char *target, const char *patch, const char *wanted)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    const struct text_value *v;
    const struct text_value *old = target != NULL ? parse(target) : NULL;
    assert_status(text_merge_patch(&arena, old, parse(patch), &v), ST_OK);
    text_put_value(&w, v);
    assert_bytes(buf_bytes(&out), bytes_str(wanted));
}

/* RFC 7396, appendix A. */
static void the_examples_of_the_standard(void **ctx)
{
    (void)ctx;
    static const char *const cases[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_merged(cases[i][0], cases[i][1], cases[i][2]);
}

static void what_is_not_there_is_an_empty_object(void **ctx)
{
    (void)ctx;
    assert_merged(NULL, "{\"a\":{\"b\":null,\"c\":1},\"d\":null}", "{\"a\":{\"c\":1}}");
}

static void numbers_stay_as_they_were_written(void **ctx)
{
    (void)ctx;
    assert_merged("{\"a\":9007199254740993,\"b\":1.10}", "{\"c\":18446744073709551617,\"d\":1E400}",
                  "{\"a\":9007199254740993,\"b\":1.10,\"c\":18446744073709551617,\"d\":1E400}");
}

static void neither_operand_is_changed(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    const struct text_value *old = parse("{\"o\":{\"x\":1,\"y\":2},\"z\":3}");
    const struct text_value *patch = parse("{\"o\":{\"y\":null,\"w\":4},\"z\":null}"), *v;
    assert_status(text_merge_patch(&arena, old, patch, &v), ST_OK);
    text_put_value(&w, old);
    text_put_value(&w, patch);
    assert_bytes(buf_bytes(&out), BYTES("{\"o\":{\"x\":1,\"y\":2},\"z\":3},"
                                        "{\"o\":{\"y\":null,\"w\":4},\"z\":null}"));
}

/* A product of the sizes would be 10^10 comparisons. */
static void large_objects_take_no_square_of_time(void **ctx)
{
    (void)ctx;
    enum { MEMBERS = 100000 };
    CLEANUP(buf_done) struct buf a = {0};
    CLEANUP(buf_done) struct buf b = {0};
    const struct text_value *v;
    buf_add_u8(&a, '{');
    buf_add_u8(&b, '{');
    for (int i = 0; i < MEMBERS; i++) {
        buf_add_format(&a, "%s\"%d\":0", i > 0 ? "," : "", i);
        buf_add_format(&b, "%s\"%d\":1", i > 0 ? "," : "", 3 * MEMBERS / 2 - 1 - i);
    }
    buf_add(&a, bytes_of("}", 2));
    buf_add(&b, bytes_of("}", 2));
    assert_status(
        text_merge_patch(&arena, parse((const char *)a.data), parse((const char *)b.data), &v),
        ST_OK);
    assert_int_equal(v->n, 3 * MEMBERS / 2);
    assert_bytes(v->first->text, BYTES("0"));
    assert_bytes(v->last->text, BYTES("1"));
}

static void running_out_of_memory_is_said(void **ctx)
{
    (void)ctx;
    const struct text_value *old = parse("{\"o\":{\"x\":1}}"), *patch = parse("{\"o\":{\"y\":2}}");
    for (uint64_t n = 1;; n++) {
        const struct text_value *v = NULL;
        CLEANUP(arena_done) struct arena own = {0};
        mem_fail_nth(n);
        enum status st = text_merge_patch(&own, old, patch, &v);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            break;
        }
        assert_status(st, ST_NOMEM);
        assert_null(v);
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_examples_of_the_standard),         TEST(what_is_not_there_is_an_empty_object),
        TEST(numbers_stay_as_they_were_written),    TEST(neither_operand_is_changed),
        TEST(large_objects_take_no_square_of_time), TEST(running_out_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
