#include "support.h"

#include "client/client.h"
#include "worker/worker_vars.h"

#include <stdio.h>

static const struct text_value *parse(struct arena *arena, const char *json)
{
    const struct text_value *v = NULL;
    struct reason why = {{0}};
    assert_status(text_json_parse(arena, bytes_str(json), &v, &why), ST_OK);
    return v;
}

static void an_expression_ends_where_its_value_ends(void **ctx)
{
    static const struct {
        const char *value;
        enum status wanted;
    } rows[] = {
        {"1", ST_OK},
        {"\"a\"", ST_OK},
        {"  [1, 2]\n", ST_OK},
        {"{\n  a = 1\n  b = \"}\"\n}", ST_OK},
        {"\"${upper(\"a\")} $${x} %%{y\"", ST_OK},
        {"<<EOT\n{ not closed\nEOT", ST_OK},
        {"{ a = <<-E\n  x\n  E\n}", ST_OK},
        {"1 == 2", ST_OK},
        {"3 >= 2 && 1 != 2", ST_OK},
        {"{ a : 1 } /* why */", ST_OK},
        {"{ # why\n }", ST_OK},
        {"", ST_INVALID},
        {" \n ", ST_INVALID},
        {"1\nother = 2", ST_INVALID},
        {"1 other = 2", ST_INVALID},
        {"{", ST_INVALID},
        {"}", ST_INVALID},
        {"[}", ST_INVALID},
        {"([)]", ST_INVALID},
        {"\"a", ST_INVALID},
        {"\"a\nb\"", ST_INVALID},
        {"\"${a\"", ST_INVALID},
        {"1 # more", ST_INVALID},
        {"1 // more", ST_INVALID},
        {"<<EOT\nno end", ST_INVALID},
        {"<<\nx\n", ST_INVALID},
        {"\"\\", ST_INVALID},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reason why = {{0}};
        enum status st = worker_hcl_check(bytes_str(rows[i].value), &why);
        if (st != rows[i].wanted)
            print_error("row %zu: %s: %s\n", i, rows[i].value, why.text);
        assert_status(st, rows[i].wanted);
        assert_true((st == ST_OK) == (why.text[0] == '\0'));
    }
}

static void deep_brackets_are_refused(void **ctx)
{
    char deep[200];
    (void)ctx;
    memset(deep, '[', sizeof deep);
    assert_status(worker_hcl_check(bytes_of(deep, sizeof deep), NULL), ST_INVALID);
}

static void texts_are_quoted_so_that_nothing_in_them_is_an_expression(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    assert_status(worker_hcl_quote(BYTES("a\"b\\c\n${d} %{e} $$ \xc3\xa9"), &out), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("\"a\\\"b\\\\c\\u000a\\u0024{d} \\u0025{e} $$ \xc3\xa9\""));
    assert_status(worker_hcl_quote(bytes_of("a\0b", 3), &out), ST_INVALID);
}

static void the_file_has_each_variable_once(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct reason why = {{0}};
    (void)ctx;
    const struct text_value *list =
        parse(&arena, "[{\"key\":\"a\",\"value\":\"1\",\"category\":\"terraform\",\"hcl\":false},"
                      "{\"key\":\"b\",\"value\":\"[1]\",\"category\":\"terraform\",\"hcl\":true},"
                      "{\"key\":\"a\",\"value\":\"2\",\"category\":\"env\",\"hcl\":false},"
                      "{\"key\":\"a\",\"value\":\"3\",\"category\":\"terraform\",\"hcl\":true}]");
    assert_status(worker_variables_file(list, &out, &why), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("b = [1]\na = 3\n"));
    assert_status(worker_variables_file(NULL, &out, &why), ST_OK);
}

static void a_wrong_variable_is_named_and_its_value_is_not(void **ctx)
{
    static const char *const rows[] = {
        "[{\"key\":\"k\\ney\",\"value\":\"s3cret\",\"category\":\"terraform\",\"hcl\":false}]",
        "[{\"key\":\"\",\"value\":\"s3cret\",\"category\":\"terraform\",\"hcl\":false}]",
        "[{\"key\":\"1a\",\"value\":\"s3cret\",\"category\":\"terraform\",\"hcl\":false}]",
        "[{\"key\":\"key\",\"value\":\"{s3cret\",\"category\":\"terraform\",\"hcl\":true}]",
        "[{\"key\":\"key\",\"value\":\"s3cret\\u0000\",\"category\":\"terraform\",\"hcl\":false}]",
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf out = {0};
        struct reason why = {{0}};
        assert_status(worker_variables_file(parse(&arena, rows[i]), &out, &why), ST_INVALID);
        assert_non_null(strstr(why.text, "variable"));
        assert_null(strstr(why.text, "s3cret"));
        assert_null(strchr(why.text, '\n'));
    }
}

static void the_environment_keeps_what_the_worker_relies_on(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct worker_env env;
    struct reason why = {{0}};
    (void)ctx;
    assert_status(worker_env_init(&env, &arena), ST_OK);
    assert_status(worker_env_set(&env, "TF_INPUT", "0"), ST_OK);
    assert_status(worker_env_set(&env, "A", "1"), ST_OK);
    assert_status(
        worker_env_variables(
            &env,
            parse(&arena, "[{\"key\":\"A\",\"value\":\"2\",\"category\":\"env\"},"
                          "{\"key\":\"TF_INPUT\",\"value\":\"1\",\"category\":\"env\"},"
                          "{\"key\":\"TF_CLI_CONFIG_FILE\",\"value\":\"/x\",\"category\":\"env\"},"
                          "{\"key\":\"B\",\"value\":\"a=b\",\"category\":\"env\"},"
                          "{\"key\":\"C\",\"value\":\"\",\"category\":\"terraform\"}]"),
            &why),
        ST_OK);
    assert_int_equal(env.n, 3);
    assert_string_equal(env.items[0], "TF_INPUT=0");
    assert_string_equal(env.items[1], "A=2");
    assert_string_equal(env.items[2], "B=a=b");
    assert_null(env.items[3]);
    assert_status(
        worker_env_variables(
            &env, parse(&arena, "[{\"key\":\"A=B\",\"value\":\"\",\"category\":\"env\"}]"), &why),
        ST_INVALID);
    assert_status(worker_env_variables(
                      &env,
                      parse(&arena, "[{\"key\":\"A\",\"value\":\"\\u0000\",\"category\":\"env\"}]"),
                      &why),
                  ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_ends_where_its_value_ends),
        cmocka_unit_test(deep_brackets_are_refused),
        cmocka_unit_test(texts_are_quoted_so_that_nothing_in_them_is_an_expression),
        cmocka_unit_test(the_file_has_each_variable_once),
        cmocka_unit_test(a_wrong_variable_is_named_and_its_value_is_not),
        cmocka_unit_test(the_environment_keeps_what_the_worker_relies_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
