/* acl/bootstrap: once, again by the reset file, and by the configured secret. */
#include "api/registry_world.h"

#include <stddef.h>
#include <unistd.h>

#define REFUSED "Permission denied: ACL bootstrap no longer allowed (reset index: "
#define RESET_FILE "acl-bootstrap-reset"

static char data_dir[64];

static int open_with_data(void **ctx)
{
    (void)open_registry(ctx);
    (void)snprintf(data_dir, sizeof data_dir, "/tmp/holdfast-bootstrap-XXXXXX");
    assert_non_null(mkdtemp(data_dir));
    w.host.data_dir = data_dir;
    return 0;
}

static const char *reset_path(void)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/" RESET_FILE, data_dir);
    return path;
}

static int close_with_data(void **ctx)
{
    (void)unlink(reset_path()); /* most tests leave none */
    assert_int_equal(rmdir(data_dir), 0);
    return close_world(ctx);
}

static void write_reset(const char *content)
{
    FILE *file = fopen(reset_path(), "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct test_request *bootstrap(const char *body)
{
    return ask_as(NULL, METHOD_PUT, "acl/bootstrap", body);
}

/* The number in a refusal. */
static long reset_index(const struct test_request *t)
{
    if (t->http != 403 || strncmp(text(t), REFUSED, strlen(REFUSED)) != 0)
        fail_msg("%d %s", t->http, text(t));
    return strtol(text(t) + strlen(REFUSED), NULL, 10);
}

static void the_first_token_has_every_right(void **ctx)
{
    (void)ctx;
    char secret[64], accessor[64];
    struct test_request *t = bootstrap("");
    assert_has(t, 200, "{\"ID\":\"");
    assert_has(t, 200,
               "\"Description\":\"Bootstrap Token (Global "
               "Management)\",\"Policies\":[{\"ID\":\"" MANAGEMENT_ID
               "\",\"Name\":\"global-management\"}],\"Local\":false");
    (void)member_of(t, "SecretID", secret);
    assert_string_equal(member_of(t, "ID", accessor), secret);
    (void)member_of(t, "AccessorID", accessor);
    assert_has(ask_as(secret, METHOD_GET, "acl/tokens", NULL), 200, accessor);
    assert_has(ask_as(secret, METHOD_GET, "acl/token/" REGISTRY_ANONYMOUS, NULL), 200,
               "\"SecretID\":\"anonymous\",\"Description\":\"Anonymous Token\",\"Local\":false");
}

static void a_second_bootstrap_is_refused_with_the_reset_index(void **ctx)
{
    (void)ctx;
    struct test_request *t = bootstrap("{}");
    assert_int_equal(t->http, 200);
    long index = number_of(t, "CreateIndex");
    unsigned before = w.proposals;
    assert_int_equal(reset_index(bootstrap("{\"BootstrapSecret\":\"" S1 "\"}")), index);
    assert_int_equal(ask(METHOD_PUT, "acl/token", "{}")->http, 200); /* changes nothing of it */
    assert_int_equal(reset_index(bootstrap("")), index);
    assert_int_equal(w.proposals, before + 1);
}

static void the_client_may_choose_the_secret(void **ctx)
{
    (void)ctx;
    (void)create_first("");
    assert_reply(bootstrap("{\"BootstrapSecret\":\"x\"}"), 500,
                 "BootstrapSecret - not a valid UUID");
    assert_reply(bootstrap("{\"BootstrapSecret\":\"" S1 "\"}"), 500,
                 "Provided token cannot be used because a token with that secret already exists.");
    assert_reply(bootstrap("{\"BootstrapSecret\":\"" A1 "\"}"), 500,
                 "Provided token cannot be used because a token with that secret already exists.");
    assert_reply(bootstrap("{\"X\":1}"), 400, "Request decoding failed: json: unknown field \"X\"");
    assert_has(bootstrap("{\"BootstrapSecret\":\"" S2 "\"}"), 200, "{\"ID\":\"" S2 "\"");
    assert_int_equal(ask_as(S2, METHOD_GET, "acl/tokens", NULL)->http, 200);
}

/* Another client's bootstrap is committed first. */
static void come_first(struct world *world)
{
    static struct test_request other;
    test_request_done(&other);
    test_request_init(&other, METHOD_PUT, "/v1/acl/bootstrap", "");
    world_take(world, &other);
    clock_run(&world->env);
    assert_int_equal(other.http, 200);
}

static void the_loser_of_a_race_learns_the_reset_index(void **ctx)
{
    (void)ctx;
    w.before_propose = come_first;
    assert_true(reset_index(bootstrap("")) > 0);
}

static void the_reset_file_allows_one_more(void **ctx)
{
    (void)ctx;
    char first[64], second[64], number[32];
    struct test_request *t = bootstrap("");
    (void)member_of(t, "SecretID", first);
    long index = number_of(t, "CreateIndex");
    static const char *const wrong[] = {
        "", "x", "-1", "0", "999999", "1 2", "18446744073709551616"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        write_reset(wrong[i]);
        assert_int_equal(reset_index(bootstrap("")), index);
        assert_int_equal(access(reset_path(), F_OK), 0);
    }
    (void)snprintf(number, sizeof number, "%ld\n", index);
    write_reset(number);
    t = bootstrap("");
    assert_int_equal(t->http, 200);
    (void)member_of(t, "SecretID", second);
    assert_string_not_equal(first, second);
    long next = number_of(t, "CreateIndex");
    assert_int_not_equal(access(reset_path(), F_OK), 0);
    assert_int_equal(ask_as(first, METHOD_GET, "acl/tokens", NULL)->http, 200);
    assert_int_equal(ask_as(second, METHOD_GET, "acl/tokens", NULL)->http, 200);
    assert_int_equal(reset_index(bootstrap("")), next);
    write_reset(number); /* the old number */
    assert_int_equal(reset_index(bootstrap("")), next);
}

static void the_configured_secret_makes_the_first_token(void **ctx)
{
    (void)ctx;
    registry_settings_set(
        &(struct registry_settings){.acl = true, .datacenter = "dc1", .initial_management = S1});
    assert_true(round_of(registry_bootstrap_upkeep));
    assert_false(round_of(registry_bootstrap_upkeep));
    struct test_request *t = ask_as(S1, METHOD_GET, "acl/token/self", NULL);
    assert_has(t, 200, "\"Name\":\"global-management\"");
    assert_lacks(t, "\"ID\":\"" S1);
    (void)reset_index(bootstrap(""));
}

static void a_configured_secret_comes_too_late_after_a_bootstrap(void **ctx)
{
    (void)ctx;
    assert_int_equal(bootstrap("")->http, 200);
    registry_settings_set(
        &(struct registry_settings){.acl = true, .datacenter = "dc1", .initial_management = S1});
    assert_false(round_of(registry_bootstrap_upkeep));
    assert_int_equal(ask_as(S1, METHOD_GET, "acl/token/self", NULL)->http, 403);
}

static void a_configured_secret_that_is_taken_makes_nothing(void **ctx)
{
    (void)ctx;
    (void)create_first("");
    registry_settings_set(
        &(struct registry_settings){.acl = true, .datacenter = "dc1", .initial_management = S1});
    assert_true(round_of(registry_bootstrap_upkeep)); /* the anonymous token */
    assert_false(round_of(registry_bootstrap_upkeep));
    assert_int_equal(bootstrap("")->http, 200);
}

static void the_duty_makes_the_anonymous_token(void **ctx)
{
    (void)ctx;
    assert_reply(ask(METHOD_GET, "acl/token/" REGISTRY_ANONYMOUS, NULL), 403, MISSING);
    assert_true(round_of(registry_bootstrap_upkeep));
    assert_false(round_of(registry_bootstrap_upkeep));
    char id[64];
    (void)policy_of("reader", "acl = \\\"read\\\"", id);
    assert_int_equal(ask_as(NULL, METHOD_GET, "acl/policies", NULL)->http, 403);
    struct test_request *t = ask(METHOD_PUT, "acl/token/" REGISTRY_ANONYMOUS,
                                 "{\"Description\":\"a\",\"Policies\":[{\"Name\":\"reader\"}]}");
    assert_has(t, 200, "\"SecretID\":\"anonymous\"");
    assert_int_equal(ask_as(NULL, METHOD_GET, "acl/policies", NULL)->http, 200);
    assert_int_equal(ask_as("anonymous", METHOD_GET, "acl/policies", NULL)->http, 200);
    assert_false(round_of(registry_bootstrap_upkeep)); /* what clients changed stays */
}

/* The reason for which the configuration is refused; NULL: it is not. */
static const char *block_fault(const char *json)
{
    CLEANUP(arena_done) struct arena arena = {0};
    _Alignas(max_align_t) char fields[256];
    struct schema_fault fault;
    const struct text_value *tree;
    assert_true(registry_block.schema->size <= sizeof fields);
    assert_status(text_json_parse(&arena, bytes_str(json), &tree, NULL), ST_OK);
    assert_status(schema_decode(registry_block.schema, tree, &arena, fields, &fault), ST_OK);
    return registry_block.check(fields);
}

static void the_configured_secret_is_a_uuid(void **ctx)
{
    (void)ctx;
    assert_null(block_fault("{}"));
    assert_null(block_fault("{\"initial_management\":\"" S1 "\"}"));
    assert_string_equal(block_fault("{\"initial_management\":\"secret\"}"),
                        "initial_management: a UUID is expected");
    assert_string_equal(block_fault("{\"initial_management\":\"\"}"),
                        "initial_management: a UUID is expected");
}

static void without_acls_there_is_no_bootstrap(void **ctx)
{
    (void)ctx;
    registry_settings_set(&(struct registry_settings){.datacenter = "dc1"});
    assert_reply(bootstrap(""), 401, "ACL support disabled");
    assert_false(round_of(registry_bootstrap_upkeep));
}

#define DATA_TEST(f) cmocka_unit_test_setup_teardown(f, open_with_data, close_with_data)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REGISTRY_TEST(the_first_token_has_every_right),
        REGISTRY_TEST(a_second_bootstrap_is_refused_with_the_reset_index),
        REGISTRY_TEST(the_client_may_choose_the_secret),
        REGISTRY_TEST(the_loser_of_a_race_learns_the_reset_index),
        DATA_TEST(the_reset_file_allows_one_more),
        REGISTRY_TEST(the_configured_secret_makes_the_first_token),
        REGISTRY_TEST(a_configured_secret_comes_too_late_after_a_bootstrap),
        REGISTRY_TEST(a_configured_secret_that_is_taken_makes_nothing),
        REGISTRY_TEST(the_duty_makes_the_anonymous_token),
        REGISTRY_TEST(the_configured_secret_is_a_uuid),
        REGISTRY_TEST(without_acls_there_is_no_bootstrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
