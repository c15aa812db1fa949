#include "support.h"

#include "base/mem.h"
#include "text/hcl.h"
#include "text/json.h"

static struct arena arena;
static struct reason why;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

/* The tree as JSON, blocks written like attributes. */
static const char *tree(const char *text)
{
    const struct text_value *v = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    if (text_hcl_parse(&arena, bytes_str(text), &v, &why) != ST_OK)
        fail_msg("%s: %s", text, why.text);
    text_put_value(&w, v);
    return arena_str(&arena, buf_bytes(&out));
}

static void refused(const char *text, const char *part)
{
    const struct text_value *v = NULL;
    assert_status(text_hcl_parse(&arena, bytes_str(text), &v, &why), ST_INVALID);
    assert_null(v);
    if (strstr(why.text, part) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, why.text, part);
}

static void attributes_have_values_of_every_kind(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree("a = \"x\"\nb = 12\nc = -1.5e3\nd = true\ne = false\n"
                             "f = [1, \"two\", [], ]\ng = { h = 1, i = 2 }\nj = 0x1F\n"),
                        "{\"a\":\"x\",\"b\":12,\"c\":-1.5e3,\"d\":true,\"e\":false,"
                        "\"f\":[1,\"two\",[]],\"g\":{\"h\":1,\"i\":2},\"j\":31}");
}

static void labels_nest_blocks(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree("listener \"tcp\" {\n  address = \"x\"\n}\nseal { }\n"),
                        "{\"listener\":{\"tcp\":{\"address\":\"x\"}},\"seal\":{}}");
}

static void blocks_may_be_repeated_and_stand_on_one_line(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree("path \"a\" { x = 1 } path \"a\" { x = 2 }"),
                        "{\"path\":{\"a\":{\"x\":1}},\"path\":{\"a\":{\"x\":2}}}");
}

static void comments_are_skipped(void **ctx)
{
    (void)ctx;
    assert_string_equal(
        tree("# one\n// two\n/* three\n\"x = 1 */ a = 1 # four\nb = [ /* five */ 2 ]"),
        "{\"a\":1,\"b\":[2]}");
}

static void strings_know_their_escapes(void **ctx)
{
    (void)ctx;
    assert_string_equal(
        tree("a = \"q\\\"b\\\\n\\n\\t \\x41\\101\\u00e4\\U0001f512 ${x} \xc3\xa4\""),
        "{\"a\":\"q\\\"b\\\\n\\n\\t AA\xc3\xa4\xf0\x9f\x94\x92 ${x} \xc3\xa4\"}");
}

static void heredocs_keep_their_lines(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree("a = <<EOF\nline 1\n  line 2\nEOF\nb = 1"),
                        "{\"a\":\"line 1\\n  line 2\\n\",\"b\":1}");
    assert_string_equal(tree("a = <<-EOF\n    line 1\n\n      line 2\n    EOF\n"),
                        "{\"a\":\"line 1\\n\\n  line 2\\n\"}");
    assert_string_equal(tree("a = <<-EOF\n  less\n    EOF\n"), "{\"a\":\"  less\\n\"}");
    assert_string_equal(tree("a = <<X\nX"), "{\"a\":\"\"}");
}

static void json_gives_the_same_tree(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree(" \n\n{\"listener\": {\"tcp\": {\"address\": \"x\"}}}"),
                        tree("listener \"tcp\" { address = \"x\" }"));
}

static void an_empty_text_is_an_empty_object(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree(""), "{}");
    assert_string_equal(tree("\n# nothing\n"), "{}");
    const struct text_value *v = NULL;
    assert_status(text_hcl_parse(&arena, (struct bytes){0}, &v, &why), ST_OK);
    assert_true(v->kind == TEXT_OBJECT && v->n == 0);
}

static void errors_name_the_line(void **ctx)
{
    (void)ctx;
    refused("a = 1\nb = yes\n", "line 2: \"yes\" is not a value");
    refused("a = 1\n\n\na = 2\n", "line 4: \"a\" is repeated");
    refused("a {\n}\na = 2\n", "line 3: \"a\" is repeated");
    refused("x {\n  y {\n    z = 1\n  }\n", "the block that began on line 1 does not end");
    refused("a = \"open\nb = 1", "line 1: a string does not end");
    refused("a = 1\n/* never", "line 2: a comment does not end");
    refused("a = 1\nb = <<EOF\nc\n", "line 2: a heredoc does not end");
}

static void malformed_text_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "a",
        "a b",
        "= 1",
        "a = ",
        "a = [1 2]",
        "a = [1",
        "a = 01",
        "a = 1s",
        "a = 0x",
        "a = 0x1g",
        "a = 1.",
        "a = \"\\q\"",
        "a = \"\\u12\"",
        "a = \"\\ud800\"",
        "a = \"\xff\"",
        "a = \"\\x00\"",
        "a = <<",
        "a = << X\nX",
        "a \"b\" \"c\" \"d\" \"e\" \"f\" {}",
        "}",
        "1 = 2",
        "a.b = {",
        "a = \"\\U00110000\"",
        "a = \"\x01\"",
        "a = 0x1234567890abcdef0",
        "a = \"\\1\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        refused(texts[i], "line 1: ");
}

static void depth_is_bounded(void **ctx)
{
    (void)ctx;
    char text[3 * TEXT_HCL_DEPTH_MAX + 16] = "a = ";
    memset(text + 4, '[', TEXT_HCL_DEPTH_MAX + 1);
    refused(text, "nested deeper");
    memset(text, 0, sizeof text);
    for (int i = 0; i <= TEXT_HCL_DEPTH_MAX; i++)
        memcpy(text + 2 * i, "a{", 2);
    refused(text, "nested deeper");
}

static void lines_are_those_of_the_source(void **ctx)
{
    (void)ctx;
    const struct text_value *v = NULL;
    assert_status(text_hcl_parse(&arena, BYTES("a = <<E\n1\nE\nb = 2\n\nc { d = 3 }"), &v, &why),
                  ST_OK);
    assert_int_equal(text_get(v, "b")->line, 4);
    assert_int_equal(text_get(text_get(v, "c"), "d")->line, 6);
    assert_true(text_get(v, "c")->block && !text_get(v, "b")->block);
}

static void a_failed_allocation_is_reported(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    const struct text_value *v = NULL;
    for (int i = 0; i < 100; i++)
        buf_add_format(&text, "k%d = [\"%d\", <<E\nx\nE\n]\nb \"l\" { c = 0x%x }\n", i, i, i);
    for (uint64_t n = 1;; n++) {
        (void)mem_fail_nth(n);
        enum status st = text_hcl_parse(&arena, buf_bytes(&text), &v, NULL);
        bool used = mem_fail_nth(0);
        arena_done(&arena);
        assert_status(st, used ? ST_NOMEM : ST_OK);
        if (!used) {
            assert_true(n > 3);
            break;
        }
    }
}

static void a_byte_order_mark_at_the_start_is_skipped(void **ctx)
{
    (void)ctx;
    assert_string_equal(tree("\xEF\xBB\xBF"
                             "a = 1"),
                        "{\"a\":1}");
    assert_string_equal(tree("\xEF\xBB\xBF\r\n{\"a\":1}"), "{\"a\":1}");
    assert_string_equal(tree("\xEF\xBB\xBF"), "{}");
    refused("a = 1\n\xEF\xBB\xBF"
            "b = 2",
            "line 2: ");
    refused("\xEF\xBB\xBF\xEF\xBB\xBF"
            "a = 1",
            "line 1: ");
    refused("\xEF\xBB"
            "a = 1",
            "line 1: ");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, NULL, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attributes_have_values_of_every_kind),
        TEST(labels_nest_blocks),
        TEST(blocks_may_be_repeated_and_stand_on_one_line),
        TEST(comments_are_skipped),
        TEST(strings_know_their_escapes),
        TEST(heredocs_keep_their_lines),
        TEST(json_gives_the_same_tree),
        TEST(a_byte_order_mark_at_the_start_is_skipped),
        TEST(an_empty_text_is_an_empty_object),
        TEST(errors_name_the_line),
        TEST(malformed_text_is_refused),
        TEST(depth_is_bounded),
        TEST(lines_are_those_of_the_source),
        TEST(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
