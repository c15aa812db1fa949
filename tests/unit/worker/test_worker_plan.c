#include "support.h"

#include "base/buf.h"
#include "worker/worker_internal.h"

#define CHANGE(actions) "{\"address\":\"a\",\"change\":{\"actions\":[" actions "]}}"

static void actions_are_counted(void **ctx)
{
    struct plan_facts facts;
    (void)ctx;
    static const char plan[] =
        "{\"resource_changes\":[" CHANGE("\"create\"") "," CHANGE("\"update\"") "," CHANGE("\"delet"
                                                                                           "e\","
                                                                                           "\"creat"
                                                                                           "e\"") "," CHANGE(
            "\"create\",\"delete\"") "," CHANGE("\"no-op\"") "," CHANGE("\"read\"") ","
                                                                                    "{\"change\":{"
                                                                                    "\"actions\":["
                                                                                    "\"no-op\"],"
                                                                                    "\"importing\":"
                                                                                    "{\"id\":\"x\"}"
                                                                                    "}}]}";
    assert_status(worker_plan_count(bytes_str(plan), &facts), ST_OK);
    assert_int_equal(facts.additions, 3);
    assert_int_equal(facts.changes, 1);
    assert_int_equal(facts.destructions, 2);
    assert_int_equal(facts.imports, 1);
    assert_status(worker_plan_count(BYTES("{}"), &facts), ST_OK);
    assert_int_equal(facts.additions + facts.changes + facts.destructions + facts.imports, 0);
}

static void what_is_no_plan_is_refused(void **ctx)
{
    static const char *const rows[] = {"", "[]", "{\"resource_changes\":{}}", "{", "null"};
    struct plan_facts facts;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_status(worker_plan_count(bytes_str(rows[i]), &facts), ST_INVALID);
    /* strange members are passed over */
    assert_status(
        worker_plan_count(BYTES("{\"resource_changes\":[1,null,{\"change\":7},{\"change\":"
                                "{\"actions\":\"create\"}}]}"),
                          &facts),
        ST_OK);
    assert_int_equal(facts.additions, 0);
}

static void sensitive_values_are_taken_out(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    assert_status(
        worker_plan_redact(
            BYTES("{\"format_version\":\"1.2\",\"prior_state\":{\"x\":\"s3cret\"},"
                  "\"variables\":{\"v\":{\"value\":\"s3cret\"}},"
                  "\"resource_changes\":[{\"address\":\"a\",\"change\":{\"actions\":[\"update\"],"
                  "\"before\":{\"t\":\"s3cret1\",\"n\":1,\"l\":[\"s3cret\",\"b\"],\"o\":{\"p\":"
                  "\"s3cret\"},\"u\":\"same\"},"
                  "\"after\":{\"t\":\"s3cret2\",\"n\":1,\"l\":[\"s3cret\",\"c\"],\"o\":{\"p\":"
                  "\"s3cret\"},\"u\":\"same\"},"
                  "\"before_sensitive\":{\"t\":true,\"n\":true,\"l\":[true,false],\"o\":true},"
                  "\"after_sensitive\":{\"t\":true,\"n\":true,\"l\":[true],\"o\":{\"p\":true}}}}],"
                  "\"output_changes\":{\"o\":{\"actions\":[\"create\"],\"before\":null,\"after\":"
                  "\"s3cret\","
                  "\"before_sensitive\":true,\"after_sensitive\":true}}}"),
            BYTES("{\"format_version\":\"1.0\",\"provider_schemas\":{\"p\":{\"n\":1.50}}}"), &out),
        ST_OK);
    assert_bytes(
        buf_bytes(&out),
        BYTES(
            "{\"plan_format_version\":\"1.2\",\"resource_changes\":[{\"address\":\"a\",\"change\":{"
            "\"actions\":[\"update\"],\"before\":{\"t\":\"(sensitive value)\",\"n\":null,"
            "\"l\":[\"(sensitive value)\",\"b\"],\"o\":null,\"u\":\"same\"},"
            "\"after\":{\"t\":\"(sensitive value, changed)\",\"n\":null,\"l\":[\"(sensitive "
            "value)\",\"c\"],"
            "\"o\":{\"p\":\"(sensitive value)\"},\"u\":\"same\"},"
            "\"before_sensitive\":{\"t\":true,\"n\":true,\"l\":[true,false],\"o\":true},"
            "\"after_sensitive\":{\"t\":true,\"n\":true,\"l\":[true],\"o\":{\"p\":true}}}}],"
            "\"resource_drift\":[],\"relevant_attributes\":null,"
            "\"output_changes\":{\"o\":{\"actions\":[\"create\"],\"before\":null,\"after\":\"("
            "sensitive value)\","
            "\"before_sensitive\":true,\"after_sensitive\":true}},"
            "\"provider_format_version\":\"1.0\",\"provider_schemas\":{\"p\":{\"n\":1.50}}}"));
}

/* A value may be nested as deep as the reader allows, which is deeper than the writer. */
static void deep_values_are_cut(void **ctx)
{
    CLEANUP(buf_done) struct buf plan = {0}, out = {0};
    (void)ctx;
    buf_add_str(&plan, "{\"resource_changes\":[{\"change\":{\"after\":");
    for (unsigned i = 0; i < 150; i++)
        buf_add_str(&plan, i % 2 ? "[" : "{\"a\":");
    buf_add_str(&plan, "1");
    for (unsigned i = 150; i-- != 0;)
        buf_add_str(&plan, i % 2 ? "]" : "}");
    buf_add_str(&plan, "}}]}");
    assert_status(worker_plan_redact(buf_bytes(&plan), BYTES("{}"), &out), ST_OK);
    assert_non_null(memmem(out.data, out.len, "null", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actions_are_counted),
        cmocka_unit_test(what_is_no_plan_is_refused),
        cmocka_unit_test(sensitive_values_are_taken_out),
        cmocka_unit_test(deep_values_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
