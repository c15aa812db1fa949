#include "support.h"

#include "cli/policy_format.h"

static void expect(const char *text, const char *wanted)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct reason why = {{0}};
    assert_status(policy_format(&arena, bytes_str(text), &out, &why), ST_OK);
    assert_bytes(buf_bytes(&out), bytes_str(wanted));
}

static void lines_are_indented_and_equal_signs_aligned(void **ctx)
{
    (void)ctx;
    expect("path   \"a\"  {\ncapabilities=[\"read\"]\n\t\tcomment   =   \"x\"\n}\n",
           "path \"a\" {\n  capabilities = [\"read\"]\n  comment      = \"x\"\n}\n");
    expect("a = 1\nlonger = 2\n\nb = 3", "a      = 1\nlonger = 2\n\nb = 3\n");
    expect("c = [\n1,\n2\n]\nd = 1\n", "c = [\n  1,\n  2\n]\nd = 1\n");
    expect("\n\na = 1\n\n\n\nb = 2\n\n", "a = 1\n\nb = 2\n");
    expect("", "");
}

static void strings_comments_and_heredocs_stay(void **ctx)
{
    (void)ctx;
    expect("a = \"x  { \\\"  # y\" # z   {\n", "a = \"x  { \\\"  # y\" # z   {\n");
    expect("a = <<EOF\n   kept  {\nEOF\nb = 1\n", "a = <<EOF\n   kept  {\nEOF\nb = 1\n");
    /* A marker with blanks before it closes only a heredoc that was begun by "<<-". */
    expect("a = <<EOF\n EOF\n/* t\nEOF\nb  =  1\n", "a = <<EOF\n EOF\n/* t\nEOF\nb = 1\n");
    expect("a = <<-EOF\n   kept  {\n  EOF\nb  =  1\n", "a = <<-EOF\n   kept  {\n  EOF\nb = 1\n");
    expect("/* one\n    two { */\nb = 1\n", "/* one\n    two { */\nb = 1\n");
    expect("// c  {\r\na  = 1\r\n", "// c  {\na = 1\n");
    expect(" {\"a\":  1}", " {\"a\":  1}");
}

static void what_is_not_hcl_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct reason why = {{0}};
    assert_status(policy_format(&arena, BYTES("path {"), &out, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "line 1"));
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_indented_and_equal_signs_aligned),
        cmocka_unit_test(strings_comments_and_heredocs_stay),
        cmocka_unit_test(what_is_not_hcl_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
