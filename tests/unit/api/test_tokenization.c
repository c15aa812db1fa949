/* The ends of tokens and the rotation of keys in cluster time, which these tests set. */
#include "api/api_world.h"
#include "api/transform/transform.h"
#include "api/transform/transform_token.h"

enum { HOUR_MS = 3600 * 1000 };

static int open_tokens(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &transform_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    world_raise();
    (void)snprintf(root, sizeof root, "%s", w.token);
    request(METHOD_POST, "/v1/sys/mounts/transform", "{\"type\":\"transform\"}", 204);
    request(METHOD_POST, "/v1/transform/transformations/tokenization/any",
            "{\"allowed_roles\":\"*\"}", 204);
    request(METHOD_POST, "/v1/transform/transformations/tokenization/same",
            "{\"allowed_roles\":\"*\",\"convergent\":true}", 204);
    request(METHOD_POST, "/v1/transform/role/any", "{\"transformations\":\"any\"}", 204);
    request(METHOD_POST, "/v1/transform/role/same", "{\"transformations\":\"same\"}", 204);
    w.later_ms = 0;
    return 0;
}

#define TOKEN_TEST(f) cmocka_unit_test_setup_teardown(f, open_tokens, close_world)

/* Encode by a role with these fields. */
static void encode(const char *role, const char *fields, char ret_token[256])
{
    static const char name[] = "\"encoded_value\":\"";
    char target[100];
    (void)snprintf(target, sizeof target, "/v1/transform/encode/%s", role);
    const char *at = strstr(text(request(METHOD_POST, target, fields, 200)), name);
    assert_non_null(at);
    at += sizeof name - 1;
    size_t len = strcspn(at, "\"");
    assert_true(len > 50 && len < 256);
    memcpy(ret_token, at, len);
    ret_token[len] = '\0';
}

static struct test_request *ask(const char *call, const char *role, const char *value, int http)
{
    char target[100], body[400];
    (void)snprintf(target, sizeof target, "/v1/transform/%s/%s", call, role);
    (void)snprintf(body, sizeof body, "{\"value\":\"%s\"}", value);
    return request(METHOD_POST, target, body, http);
}

static void run_upkeep(void)
{
    unsigned rounds = 0;
    while (upkeep())
        assert_true(++rounds < 100);
}

static void a_token_ends_to_the_millisecond_and_its_row_is_deleted(void **ctx)
{
    static const char *const roles[] = {"any", "same"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        char token[256];
        w.later_ms = 5;
        run_upkeep();
        unsigned before = count_keys();
        encode(roles[i], "{\"value\":\"x\",\"ttl\":\"1h\",\"metadata\":\"a=1\"}", token);
        assert_int_equal(count_keys(), before + 3); /* row, fingerprint, end */
        w.later_ms = HOUR_MS + 4;
        run_upkeep();
        assert_int_equal(count_keys(), before + 3);
        assert_body_has(ask("decode", roles[i], token, 200), "\"decoded_value\":\"x\"");
        assert_body_has(ask("tokenized", roles[i], "x", 200), "\"tokenized\":true");
        w.later_ms = HOUR_MS + 5;
        assert_body_has(ask("decode", roles[i], token, 400), "the token has expired");
        assert_body_has(ask("tokenized", roles[i], "x", 200), "\"tokenized\":false");
        assert_body_has(ask("validate", roles[i], token, 200), "\"valid\":false");
        run_upkeep();
        assert_int_equal(count_keys(), before);
        assert_body_has(ask("decode", roles[i], token, 400), "the token has expired");
    }
}

static void a_deleted_token_leaves_no_key(void **ctx)
{
    char token[256], target[400];
    unsigned before = count_keys();
    (void)ctx;
    encode("any", "{\"value\":\"x\",\"ttl\":\"1h\"}", token);
    (void)snprintf(target, sizeof target, "/v1/transform/tokens/any?token=%s", token);
    request(METHOD_DELETE, target, NULL, 204);
    assert_int_equal(count_keys(), before);
}

static void a_convergent_row_is_one_and_an_equal_encode_stages_nothing(void **ctx)
{
    static const char *const fields =
        "{\"value\":\"x\",\"expiration\":\"2040-01-01T00:00:00Z\",\"metadata\":\"a=1\"}";
    char token[256], again[256];
    unsigned before = count_keys();
    (void)ctx;
    encode("same", fields, token);
    encode("same", fields, again);
    assert_string_equal(token, again);
    assert_int_equal(count_keys(), before + 3);
    uint64_t index = w.index;
    encode("same", "{\"value\":\"x\",\"expiration\":\"2040-01-01T00:00:00Z\"}", again);
    assert_string_equal(token, again);
    assert_int_equal(w.index, index);
}

static void a_batch_is_one_entry_of_the_log(void **ctx)
{
    static const char *const roles[] = {"any", "same"};
    char target[100], body[8000] = "{\"batch_input\":[";
    size_t len = strlen(body);
    (void)ctx;
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, "%s{\"value\":\"value %d\"}",
                                i != 0 ? "," : "", i);
    (void)snprintf(body + len, sizeof body - len, "]}");
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        uint64_t index = w.index;
        unsigned before = count_keys();
        (void)snprintf(target, sizeof target, "/v1/transform/encode/%s", roles[i]);
        request(METHOD_POST, target, body, 200);
        assert_int_equal(w.index, index + 1);
        assert_int_equal(count_keys(), before + 200);
    }
}

static struct test_request *keys_of(const char *name)
{
    char target[100];
    (void)snprintf(target, sizeof target, "/v1/transform/tokenization/keys/%s", name);
    return request(METHOD_GET, target, NULL, 200);
}

static void a_key_is_rotated_when_its_period_has_passed_and_not_before(void **ctx)
{
    static const char path[] = "/v1/transform/tokenization/keys/any/config";
    char first[256], second[256];
    (void)ctx;
    encode("any", "{\"value\":\"x\"}", first);
    request(METHOD_POST, path, "{\"auto_rotate_period\":\"2h\"}", 204);
    w.later_ms = 2 * HOUR_MS - 1;
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":1");
    w.later_ms = 2 * HOUR_MS + 100;
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":2");
    w.later_ms = 4 * HOUR_MS + 99; /* from the last rotation on */
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":2");
    w.later_ms = 100 * HOUR_MS; /* late: one version is enough */
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":3");
    encode("any", "{\"value\":\"y\"}", second);
    assert_body_has(ask("decode", "any", first, 200), "\"decoded_value\":\"x\"");
    assert_body_has(ask("decode", "any", second, 200), "\"decoded_value\":\"y\"");
    unsigned before = count_keys();
    request(METHOD_POST, path, "{\"auto_rotate_period\":0}", 204);
    assert_int_equal(count_keys(), before - 1); /* the entry of the next rotation */
    w.later_ms = 500 * HOUR_MS;
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":3");
}

static void a_rotation_by_hand_begins_the_period_anew(void **ctx)
{
    (void)ctx;
    request(METHOD_POST, "/v1/transform/tokenization/keys/any/config",
            "{\"auto_rotate_period\":\"2h\"}", 204);
    w.later_ms = HOUR_MS;
    request(METHOD_POST, "/v1/transform/tokenization/keys/any/rotate", "{}", 204);
    w.later_ms = 2 * HOUR_MS + 1;
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":2");
    w.later_ms = 3 * HOUR_MS;
    run_upkeep();
    assert_body_has(keys_of("any"), "\"latest_version\":3");
}

static void a_deleted_transformation_leaves_no_key(void **ctx)
{
    char token[256];
    (void)ctx;
    unsigned before = count_keys();
    request(METHOD_POST, "/v1/transform/transformations/tokenization/gone",
            "{\"allowed_roles\":\"*\"}", 204);
    request(METHOD_POST, "/v1/transform/role/gone", "{\"transformations\":\"gone\"}", 204);
    request(METHOD_POST, "/v1/transform/tokenization/keys/gone/config",
            "{\"auto_rotate_period\":\"2h\"}", 204);
    request(METHOD_POST, "/v1/transform/tokenization/keys/gone/rotate", "{}", 204);
    encode("gone", "{\"value\":\"x\",\"ttl\":\"1h\"}", token);
    request(METHOD_DELETE, "/v1/transform/role/gone", NULL, 204);
    request(METHOD_DELETE, "/v1/transform/transformation/gone", NULL, 204);
    w.later_ms = HOUR_MS + 1;
    run_upkeep(); /* the entry of the row's end */
    assert_int_equal(count_keys(), before);
}

static void tokens_end_and_keys_rotate_in_a_full_state_where_nothing_is_encoded(void **ctx)
{
    char token[256];
    (void)ctx;
    unsigned before = count_keys();
    encode("any", "{\"value\":\"x\",\"ttl\":\"1h\"}", token);
    request(METHOD_POST, "/v1/transform/tokenization/keys/any/config",
            "{\"auto_rotate_period\":\"1h\"}", 204);
    set_full(true);
    request(METHOD_POST, "/v1/transform/encode/any", "{\"value\":\"y\"}", 507);
    assert_body_has(ask("decode", "any", token, 200), "\"decoded_value\":\"x\"");
    w.later_ms = HOUR_MS;
    run_upkeep();
    assert_int_equal(count_keys(), before + 2); /* the new version, the entry of the next one */
    assert_body_has(keys_of("any"), "\"latest_version\":2");
}

static int open_low(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &transform_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    request(METHOD_POST, "/v1/sys/mounts/transform", "{\"type\":\"transform\"}", 204);
    return 0;
}

static void nothing_is_stored_below_the_feature_level(void **ctx)
{
    static const char type[] = "{\"type\":\"tokenization\"}";
    unsigned before = count_keys();
    (void)ctx;
    w.node.raft.feature = TRANSFORM_TOKEN_FEATURE - 1;
    request(METHOD_POST, "/v1/transform/transformations/tokenization/any", "{}", 503);
    request(METHOD_POST, "/v1/transform/transformation/any", type, 503);
    request(METHOD_GET, "/v1/transform/wrapping_key", NULL, 503);
    assert_int_equal(count_keys(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKEN_TEST(a_token_ends_to_the_millisecond_and_its_row_is_deleted),
        TOKEN_TEST(a_deleted_token_leaves_no_key),
        TOKEN_TEST(a_convergent_row_is_one_and_an_equal_encode_stages_nothing),
        TOKEN_TEST(a_batch_is_one_entry_of_the_log),
        TOKEN_TEST(a_key_is_rotated_when_its_period_has_passed_and_not_before),
        TOKEN_TEST(a_rotation_by_hand_begins_the_period_anew),
        TOKEN_TEST(a_deleted_transformation_leaves_no_key),
        cmocka_unit_test_setup_teardown(nothing_is_stored_below_the_feature_level, open_low,
                                        close_world),
        TOKEN_TEST(tokens_end_and_keys_rotate_in_a_full_state_where_nothing_is_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
