#include "api/api_world.h"
#include "api/ssh/ssh.h"

#define ED_KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2lMrc1M64j125BsXWWMLhWTmPpoasWb5mACfLYtLov"

static int open_ssh(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &ssh_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    world_raise();
    (void)snprintf(root, sizeof root, "%s", w.token);
    ssh_settings_in(&(struct ssh_settings){.key_id_prefix = ""});
    request(METHOD_POST, "/v1/sys/mounts/ssh", "{\"type\":\"ssh\"}", 204);
    request(METHOD_POST, "/v1/ssh/config/ca", "{\"key_type\":\"ed25519\"}", 200);
    return 0;
}

/* Write the role "r" for these users. */
static void role_of(const char *users, const char *fields)
{
    char body[600];
    (void)snprintf(
        body, sizeof body,
        "{\"key_type\":\"ca\",\"allow_user_certificates\":true,\"allowed_users\":\"%s\"%s}", users,
        fields);
    request(METHOD_POST, "/v1/ssh/roles/r", body, 204);
}

static void role(void)
{
    role_of("*", "");
}

static struct test_request *sign(const char *token, const char *fields)
{
    char body[600];
    (void)snprintf(body, sizeof body, "{\"public_key\":\"" ED_KEY "\"%s}", fields);
    return as(token, METHOD_POST, "ssh/sign/r", body);
}

/* A token whose policy has these capabilities for the path of sign. */
static void token_with(const char *capabilities, char ret_token[64])
{
    char body[400];
    (void)snprintf(body, sizeof body,
                   "{\"policy\":\"path \\\"ssh/sign/r\\\" { capabilities = [%s] }\"}",
                   capabilities);
    request(METHOD_PUT, "/v1/sys/policies/acl/p", body, 204);
    struct test_request *t =
        request(METHOD_POST, "/v1/auth/token/create", "{\"policies\":\"p\"}", 200);
    const char *at = strstr(text(t), "\"client_token\":\"");
    assert_non_null(at);
    at += strlen("\"client_token\":\"");
    (void)snprintf(ret_token, 64, "%.*s", (int)strcspn(at, "\""), at);
}

static void the_checks_are_made_in_their_order(void **ctx)
{
    (void)ctx;
    role_of("u", ",\"allowed_user_key_lengths\":{\"rsa\":2048},\"max_ttl\":60");
    /* everything is wrong; each step corrects one thing */
    expect(sign(root, ",\"key_id\":\"k\",\"cert_type\":\"x\",\"ttl\":90"), 400, "not allowed");
    role_of("u", ",\"max_ttl\":60");
    expect(sign(root, ",\"key_id\":\"k\",\"cert_type\":\"x\",\"ttl\":90"), 400, "key_id");
    expect(sign(root, ",\"cert_type\":\"x\",\"ttl\":90"), 400, "cert_type");
    expect(sign(root, ",\"ttl\":90,\"critical_options\":{\"a=\":\"\"}"), 400, "globally-valid");
    expect(sign(root, ",\"valid_principals\":\"v\",\"ttl\":90"), 400, "valid_principals");
    expect(sign(root, ",\"valid_principals\":\"u\",\"ttl\":90,\"extensions\":{\"x\":\"\"}"), 400,
           "ttl");
    expect(sign(root, ",\"valid_principals\":\"u\",\"critical_options\":{\"a=\":\"\"},"
                      "\"extensions\":{\"x\":\"\"}"),
           400, "critical_options");
    expect(sign(root, ",\"valid_principals\":\"u\",\"extensions\":{\"x\":\"\"}"), 400,
           "extensions");
    expect(sign(root, ",\"valid_principals\":\"u\""), 200, "ssh-ed25519-cert-v01@openssh.com ");
}

static void signing_stages_nothing(void **ctx)
{
    (void)ctx;
    role();
    unsigned before = count_keys(), proposals = w.proposals;
    expect(sign(root, ",\"valid_principals\":\"u\""), 200, "\"serial_number\":");
    request(METHOD_POST, "/v1/ssh/issue/r", "{\"key_type\":\"ed25519\",\"valid_principals\":\"u\"}",
            200);
    assert_int_equal(count_keys(), before);
    assert_int_equal(w.proposals, proposals);
}

static void create_is_needed_too_where_the_configuration_says_so(void **ctx)
{
    char updates[64], both[64];
    (void)ctx;
    role();
    token_with("\\\"update\\\"", updates);
    expect(sign(updates, ",\"valid_principals\":\"u\""), 200, NULL);
    ssh_settings_in(&(struct ssh_settings){.sign_requires_create = true, .key_id_prefix = ""});
    expect(sign(updates, ",\"valid_principals\":\"u\""), 403, NULL);
    token_with("\\\"create\\\", \\\"update\\\"", both);
    expect(sign(both, ",\"valid_principals\":\"u\""), 200, NULL);
}

static void fips_mode_refuses_ed25519(void **ctx)
{
    (void)ctx;
    role();
    ssh_settings_in(&(struct ssh_settings){.fips = true, .key_id_prefix = ""});
    expect(sign(root, ",\"valid_principals\":\"u\""), 400, "FIPS");
    request(METHOD_POST, "/v1/ssh/config/ca", "{\"key_type\":\"ed25519\"}", 400);
    expect(world_request(&w, METHOD_POST, "/v1/ssh/roles/f",
                         "{\"key_type\":\"ca\",\"allow_user_certificates\":true,"
                         "\"allowed_user_key_lengths\":{\"ed25519\":0}}"),
           400, "FIPS");
}

static const char *lend(char ret_otp[64])
{
    struct test_request *t = request(METHOD_POST, "/v1/ssh/creds/o", "{\"ip\":\"10.0.0.1\"}", 200);
    const char *at = strstr(text(t), "\"key\":\"");
    assert_non_null(at);
    at += strlen("\"key\":\"");
    (void)snprintf(ret_otp, 64, "{\"otp\":\"%.*s\"}", (int)strcspn(at, "\""), at);
    return ret_otp;
}

static void a_verified_password_leaves_nothing(void **ctx)
{
    char otp[64];
    (void)ctx;
    request(METHOD_POST, "/v1/ssh/roles/o",
            "{\"key_type\":\"otp\",\"default_user\":\"u\",\"cidr_list\":\"10.0.0.0/8\"}", 204);
    unsigned before = count_keys();
    lend(otp);
    assert_true(count_keys() > before);
    expect(as("", METHOD_POST, "ssh/verify", otp), 200, "\"username\":\"u\"");
    assert_int_equal(count_keys(), before);
    expect(as("", METHOD_POST, "ssh/verify", otp), 400, "OTP not found");
}

static void an_expired_password_is_not_good(void **ctx)
{
    char otp[64];
    (void)ctx;
    request(METHOD_POST, "/v1/ssh/roles/o",
            "{\"key_type\":\"otp\",\"default_user\":\"u\",\"cidr_list\":\"10.0.0.0/8\",\"ttl\":60}",
            204);
    unsigned before = count_keys();
    lend(otp);
    w.later_ms += 61000;
    expect(as("", METHOD_POST, "ssh/verify", otp), 400, "OTP not found");
    while (upkeep())
        continue;
    assert_int_equal(count_keys(), before);
}

static void a_full_state_verifies_and_lends_nothing(void **ctx)
{
    char otp[64];
    (void)ctx;
    request(METHOD_POST, "/v1/ssh/roles/o",
            "{\"key_type\":\"otp\",\"default_user\":\"u\",\"cidr_list\":\"10.0.0.0/8\"}", 204);
    lend(otp);
    set_full(true);
    request(METHOD_POST, "/v1/ssh/creds/o", "{\"ip\":\"10.0.0.1\"}", 507);
    expect(as("", METHOD_POST, "ssh/verify", otp), 200, NULL);
    set_full(false);
}

static void a_role_replaced_by_another_leaves_no_blocks(void **ctx)
{
    (void)ctx;
    unsigned before = count_keys();
    request(METHOD_POST, "/v1/ssh/roles/o",
            "{\"key_type\":\"otp\",\"default_user\":\"u\",\"cidr_list\":\"10.0.0.0/8,fd00::/8\","
            "\"exclude_cidr_list\":\"10.1.0.0/16\"}",
            204);
    assert_int_equal(count_keys(), before + 4);
    request(METHOD_POST, "/v1/ssh/roles/o",
            "{\"key_type\":\"otp\",\"default_user\":\"u\",\"cidr_list\":\"10.0.0.0/9\"}", 204);
    assert_int_equal(count_keys(), before + 2);
    request(METHOD_DELETE, "/v1/ssh/roles/o", NULL, 204);
    assert_int_equal(count_keys(), before);
}

static void templates_are_checked_when_a_role_is_written(void **ctx)
{
    (void)ctx;
    assert_true(ssh_template_is_sound("a"));
    assert_true(ssh_template_is_sound("a-{{identity.entity.name}}-{{ identity.entity.id }}"));
    assert_false(ssh_template_is_sound("{{"));
    assert_false(ssh_template_is_sound("{{}}"));
    assert_false(ssh_template_is_sound("{{name}}"));
    assert_false(ssh_template_is_sound("{{identity.{{identity.x}}}}"));
    assert_false(ssh_template_is_sound("{{identity.a b}}"));
}

#define SSH_TEST(f) cmocka_unit_test_setup_teardown(f, open_ssh, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SSH_TEST(the_checks_are_made_in_their_order),
        SSH_TEST(signing_stages_nothing),
        SSH_TEST(create_is_needed_too_where_the_configuration_says_so),
        SSH_TEST(fips_mode_refuses_ed25519),
        SSH_TEST(a_verified_password_leaves_nothing),
        SSH_TEST(an_expired_password_is_not_good),
        SSH_TEST(a_full_state_verifies_and_lends_nothing),
        SSH_TEST(a_role_replaced_by_another_leaves_no_blocks),
        SSH_TEST(templates_are_checked_when_a_role_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
