#include "support.h"

#include "auth/namespace.h"
#include "auth/policy.h"
#include "auth/token.h"
#include "state/fake_env.h"

static struct fake_env env;
static struct arena arena;

static int open_env(void **ctx)
{
    (void)ctx;
    fake_env_init(&env, 1);
    return 0;
}

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static void random_text_uses_every_digit_equally(void **ctx)
{
    (void)ctx;
    enum { N = 62000 };
    static char text[N + 1];
    unsigned seen[256] = {0};
    auth_random_text(&env.env, text, N);
    assert_int_equal(strlen(text), N);
    for (size_t i = 0; i < N; i++)
        seen[(uint8_t)text[i]]++;
    unsigned kinds = 0;
    for (size_t i = 0; i < 256; i++) {
        kinds += seen[i] != 0;
        assert_true(seen[i] == 0 || (seen[i] > 800 && seen[i] < 1200));
    }
    assert_int_equal(kinds, 62);
}

static void a_uuid_is_of_version_4(void **ctx)
{
    (void)ctx;
    char first[AUTH_UUID_LEN + 1], second[AUTH_UUID_LEN + 1];
    auth_uuid(&env.env, first);
    auth_uuid(&env.env, second);
    assert_string_not_equal(first, second);
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_non_null(strchr("89ab", first[19]));
    assert_int_equal(strspn(first, "0123456789abcdef-"), 36);
    assert_true(first[8] == '-' && first[13] == '-' && first[18] == '-' && first[23] == '-');
}

static void only_the_root_namespace_is_found(void **ctx)
{
    (void)ctx;
    static const char *const found[] = {"", "/", "root", "root/", "//root//"};
    static const char *const none[] = {"Root", "roo", "root/x", "x", "..", "root\xff"};
    const char *id = NULL;
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        assert_status(auth_namespace_find(bytes_str(found[i]), &id), ST_OK);
        assert_string_equal(id, "root");
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_status(auth_namespace_find(bytes_str(none[i]), &id), ST_NOT_FOUND);
}

static void the_root_policy_works_only_alone(void **ctx)
{
    (void)ctx;
    static const char *const alone[] = {"root"}, *const both[] = {"root", "default"},
                             *const other[] = {"default"};
    struct auth_token token = {.policies = {.items = alone, .n = 1}};
    assert_status(auth_authorize(&token, BYTES("sys/seal"), CAP_UPDATE | CAP_SUDO), ST_OK);
    token.policies = (struct field_strings){.items = both, .n = 2};
    assert_status(auth_authorize(&token, BYTES("kv/a"), CAP_READ), ST_DENIED);
    token.policies = (struct field_strings){.items = other, .n = 1};
    assert_status(auth_authorize(&token, BYTES("kv/a"), CAP_READ), ST_DENIED);
    token.policies = (struct field_strings){0};
    assert_status(auth_authorize(&token, BYTES("kv/a"), CAP_READ), ST_DENIED);
}

static void a_root_token_never_expires_and_has_no_parent(void **ctx)
{
    (void)ctx;
    struct auth_token token;
    const char *bearer;
    assert_status(auth_token_make_root(&env.env, &arena, 1700000000, &token, &bearer), ST_OK);
    assert_int_equal(strlen(bearer), 28);
    assert_true(strncmp(bearer, "hvs.", 4) == 0);
    assert_int_equal(strlen(token.accessor), AUTH_ACCESSOR_LEN);
    assert_int_equal(token.expire_time_s, 0);
    assert_true(token.orphan);
    assert_int_equal(token.creation_time_s, 1700000000);
}

static void a_token_is_stored_with_every_field(void **ctx)
{
    (void)ctx;
    static const char *const policies[] = {"a", "b"}, *const meta[] = {"k", "v"};
    struct auth_token in = {.accessor = "acc",
                            .display_name = "d",
                            .path = "p",
                            .type = "batch",
                            .entity_id = "e",
                            .policies = {policies, 2, true},
                            .meta = {meta, 1, true},
                            .creation_time_s = 1,
                            .creation_ttl_s = 2,
                            .explicit_max_ttl_s = 3,
                            .expire_time_s = 4,
                            .num_uses = 5,
                            .orphan = true,
                            .renewable = true},
                      out;
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record};
    const struct text_value *v;
    struct schema_fault fault;
    schema_encode(&auth_token_schema, &in, &w);
    assert_status(text_json_parse(&arena, buf_bytes(&record), &v, NULL), ST_OK);
    assert_null(schema_unknown(&auth_token_schema, v, NULL));
    assert_status(schema_decode(&auth_token_schema, v, &arena, &out, &fault), ST_OK);
    assert_string_equal(out.accessor, "acc");
    assert_string_equal(out.type, "batch");
    assert_string_equal(out.entity_id, "e");
    assert_int_equal(out.policies.n, 2);
    assert_string_equal(out.policies.items[1], "b");
    assert_string_equal(out.meta.pairs[1], "v");
    assert_int_equal(out.creation_time_s, 1);
    assert_int_equal(out.creation_ttl_s, 2);
    assert_int_equal(out.explicit_max_ttl_s, 3);
    assert_int_equal(out.expire_time_s, 4);
    assert_int_equal(out.num_uses, 5);
    assert_true(out.orphan && out.renewable);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_env, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(random_text_uses_every_digit_equally),
        TEST(a_uuid_is_of_version_4),
        TEST(only_the_root_namespace_is_found),
        TEST(the_root_policy_works_only_alone),
        TEST(a_root_token_never_expires_and_has_no_parent),
        TEST(a_token_is_stored_with_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
