/* States as the platform reads them: outputs digit by digit, types, resources; and no half state.
 */
#include "support.h"

#include "api/platform/platform_content.h"

static struct arena arena;

static int teardown(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static enum status read_text(const char *text, struct platform_content *ret_content)
{
    struct reason why = {{0}};
    enum status st = platform_content_read(&arena, bytes_str(text), ret_content, &why);
    assert_true((st == ST_REFUSED) == (why.text[0] != '\0'));
    return st;
}

static void values_of_outputs_keep_every_digit(void **ctx)
{
    struct platform_content content;
    (void)ctx;
    assert_status(read_text("{\"version\":4,\"outputs\":{\"n\":{\"value\":"
                            "12345678901234567890.125,\"type\":\"number\",\"sensitive\":true}}}",
                            &content),
                  ST_OK);
    assert_int_equal(content.n_outputs, 1);
    assert_string_equal(content.outputs[0].name, "n");
    const struct text_value *attrs = content.outputs[0].attrs;
    assert_true(text_is(text_get(attrs, "value")->text, "12345678901234567890.125"));
    assert_true(platform_flag(attrs, "sensitive"));
    assert_int_equal(content.version, 4);
}

static void coarse_types_follow_exact_types(void **ctx)
{
    static const char *const types[][2] = {
        {"\"string\"", "string"},
        {"\"number\"", "number"},
        {"\"bool\"", "boolean"},
        {"[\"list\",\"string\"]", "array"},
        {"[\"set\",\"string\"]", "array"},
        {"[\"tuple\",[\"string\"]]", "array"},
        {"[\"map\",\"string\"]", "object"},
        {"[\"object\",{\"k\":\"string\"}]", "object"},
        {"\"dynamic\"", "null"},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct platform_content content;
        const char *text =
            arena_format(&arena, "{\"outputs\":{\"o\":{\"value\":null,\"type\":%s}}}", types[i][0]);
        assert_status(read_text(text, &content), ST_OK);
        assert_string_equal(platform_text(content.outputs[0].attrs, "type"), types[i][1]);
    }
}

static void resources_are_counted_by_module_and_provider(void **ctx)
{
    struct platform_content content;
    (void)ctx;
    assert_status(
        read_text("{\"resources\":["
                  "{\"mode\":\"managed\",\"type\":\"a\",\"name\":\"x\",\"provider\":\"p\","
                  "\"instances\":[{},{}]},"
                  "{\"mode\":\"data\",\"type\":\"a\",\"name\":\"y\",\"provider\":\"p\","
                  "\"module\":\"module.m\",\"instances\":[{}]},"
                  "{\"mode\":\"managed\",\"type\":\"a\",\"name\":\"z\",\"provider\":\"p\","
                  "\"instances\":[{}]}, 5]}",
                  &content),
        ST_OK);
    assert_int_equal(content.resources, 3);
    const struct text_value *modules = text_get(content.summary, "modules");
    assert_int_equal(platform_number(text_get(modules, "root"), "a"), 3);
    assert_int_equal(platform_number(text_get(modules, "module.m"), "data.a"), 1);
    const struct text_value *provider = text_get(text_get(content.summary, "providers"), "p");
    assert_int_equal(platform_number(provider, "a"), 3);
}

static void bytes_that_are_no_state_are_refused(void **ctx)
{
    static const char *const texts[] = {"",
                                        "x",
                                        "[]",
                                        "5",
                                        "{\"outputs\":[]}",
                                        "{\"outputs\":{\"o\":5}}",
                                        "{\"outputs\":{\"\":{}}}",
                                        "{",
                                        "{\"outputs\":{\"a\\u0000\":{}}}"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct platform_content content;
        assert_status(read_text(texts[i], &content), ST_REFUSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(values_of_outputs_keep_every_digit, teardown),
        cmocka_unit_test_teardown(coarse_types_follow_exact_types, teardown),
        cmocka_unit_test_teardown(resources_are_counted_by_module_and_provider, teardown),
        cmocka_unit_test_teardown(bytes_that_are_no_state_are_refused, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
