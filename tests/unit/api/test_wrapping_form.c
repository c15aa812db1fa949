/* A wrapping token that a client gets in the form of a JSON Web Token. */
#include "api/token_world.h"

#include "auth/wrapping_jwt.h"

enum { ROOM = JWT_BYTES_MAX + 1 };

/* A request that asks for wrapping and for a form of the token; NULL: there is no such header. */
static struct test_request *ask(const char *form, const char *ttl, enum http_method method,
                                const char *path, const char *body)
{
    static struct test_request t;
    static char target[100];
    test_request_done(&t);
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_init(&t, method, target, body);
    test_request_header(&t, "x-secrets-token", root);
    if (ttl != NULL)
        test_request_header(&t, "x-secrets-wrap-ttl", ttl);
    if (form != NULL)
        test_request_header(&t, "x-vault-wrap-format", form);
    world_handle(&w, &t);
    return &t;
}

/* POST of a verb of sys/wrapping with the token in the body. */
static struct test_request *verb(const char *name, const char *token)
{
    static struct test_request t;
    static char target[100], body[ROOM + 20];
    test_request_done(&t);
    (void)snprintf(target, sizeof target, "/v1/sys/wrapping/%s", name);
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    test_request_init(&t, METHOD_POST, target, body);
    if (strcmp(name, "lookup") != 0)
        test_request_header(&t, "x-secrets-token", root);
    world_handle(&w, &t);
    return &t;
}

static void read_claims(const char *token, struct arena *arena, struct wrapping_jwt *ret_jwt)
{
    assert_status(wrapping_jwt_read(arena, bytes_str(token), ret_jwt), ST_OK);
}

/* A reply of kv as a JWT that lives for a minute. */
static void wrap_a_secret(char out[ROOM])
{
    expect(post(root, "kv/a", "{\"n\":1.10}"), 204, NULL);
    struct test_request *t = expect(ask("jwt", "60s", METHOD_GET, "kv/a", NULL), 200, NULL);
    copy_member(t, "token", out, ROOM);
    assert_true(jwt_is(bytes_str(out)));
}

static void the_reply_describes_a_jwt(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    struct wrapping_jwt jwt;
    char token[ROOM], accessor[64];
    wrap_a_secret(token);
    struct test_request *t = expect(ask("jwt", "60s", METHOD_GET, "kv/a", NULL), 200,
                                    "\"ttl\":60,\"creation_time\":\"2023-11-14T22:13:20Z\","
                                    "\"creation_path\":\"kv/a\"},\"warnings\":null");
    copy_member(t, "token", token, sizeof token);
    read_claims(token, &arena, &jwt);
    assert_int_equal(strncmp(jwt.jti, "hvs.", 4), 0);
    assert_string_equal(jwt.addr, "https://node1:8200");
    assert_string_equal(jwt.accessor, "");
    assert_true(jwt.iat_s == 1700000000 && jwt.exp_s == 1700000060 && jwt.nbf_s == 1699999995);
    copy_member(t, "accessor", accessor, sizeof accessor);
    expect(post(root, "auth/token/lookup-accessor", about("accessor", accessor)), 200,
           "\"policies\":[\"response-wrapping\"]");
}

static void the_jwt_of_a_login_names_the_accessor_of_its_token(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    struct wrapping_jwt jwt;
    char token[ROOM], accessor[64];
    struct test_request *t =
        expect(ask("jwt", "60", METHOD_POST, "auth/token/create", "{}"), 200, NULL);
    copy_member(t, "token", token, sizeof token);
    copy_member(t, "wrapped_accessor", accessor, sizeof accessor);
    read_claims(token, &arena, &jwt);
    assert_string_equal(jwt.accessor, accessor);
    expect(verb("unwrap", token), 200, accessor);
}

static void a_jwt_is_taken_wherever_a_wrapping_token_is(void **ctx)
{
    (void)ctx;
    char token[ROOM];
    wrap_a_secret(token);
    expect(verb("lookup", token), 200, "\"data\":{\"creation_path\":\"kv/a\"");
    expect(as(token, METHOD_GET, "sys/wrapping/lookup", NULL), 200, "\"creation_ttl\":60");
    expect(verb("unwrap", token), 200, "\"data\":{\"n\":1.10}");
    wrap_a_secret(token);
    expect(as(token, METHOD_POST, "sys/wrapping/unwrap", NULL), 200, "\"data\":{\"n\":1.10}");
    wrap_a_secret(token);
    struct test_request t;
    char bearer[ROOM + 10];
    (void)snprintf(bearer, sizeof bearer, "Bearer %s", token);
    test_request_init(&t, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL);
    test_request_header(&t, "authorization", bearer);
    world_handle(&w, &t);
    expect(&t, 200, "\"data\":{\"n\":1.10}");
    test_request_done(&t);
}

static void a_jwt_and_its_bearer_are_spent_together(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    struct wrapping_jwt jwt;
    char token[ROOM];
    wrap_a_secret(token);
    read_claims(token, &arena, &jwt);
    expect(verb("unwrap", token), 200, NULL);
    expect(verb("unwrap", token), 400, "wrapping token is not valid or does not exist");
    expect(verb("unwrap", jwt.jti), 400, "not valid");
    wrap_a_secret(token);
    read_claims(token, &arena, &jwt);
    expect(verb("unwrap", jwt.jti), 200, NULL);
    expect(verb("lookup", token), 400, "not valid");
}

static void a_jwt_is_no_token_for_other_paths(void **ctx)
{
    (void)ctx;
    char token[ROOM];
    wrap_a_secret(token);
    expect(as(token, METHOD_GET, "cubbyhole/response", NULL), 403, NULL);
    expect(as(token, METHOD_GET, "auth/token/lookup-self", NULL), 403, NULL);
    expect(post(root, "auth/token/lookup", about("token", token)), 403, NULL);
    expect(verb("unwrap", token), 200, NULL);
}

/* The last digit but one of the signature, and a digit of the claims. */
static void a_forged_jwt_is_like_no_wrapping_token(void **ctx)
{
    (void)ctx;
    static const char *const verbs[] = {"unwrap", "rewrap", "lookup"};
    char token[ROOM], forged[ROOM];
    wrap_a_secret(token);
    const size_t places[] = {strlen(token) - 2, (size_t)(strchr(token, '.') - token) + 9};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        for (size_t k = 0; k < ARRAY_LEN(verbs); k++) {
            memcpy(forged, token, sizeof forged);
            forged[places[i]] = forged[places[i]] == 'A' ? 'B' : 'A';
            expect(verb(verbs[k], forged), 400, "wrapping token is not valid or does not exist");
        }
    *strrchr(forged, '.') = '\0';
    expect(verb("unwrap", forged), 400, "not valid");
    expect(verb("unwrap", token), 200, NULL);
}

static void an_expired_jwt_is_like_no_wrapping_token(void **ctx)
{
    (void)ctx;
    char token[ROOM];
    wrap_a_secret(token);
    w.later_ms = 59999;
    expect(verb("lookup", token), 200, NULL);
    w.later_ms = 60000;
    expect(verb("unwrap", token), 400, "wrapping token is not valid or does not exist");
}

static void a_rewrapped_jwt_is_a_jwt(void **ctx)
{
    (void)ctx;
    char first[ROOM], second[ROOM], plain[ROOM];
    wrap_a_secret(first);
    struct test_request *t = expect(verb("rewrap", first), 200, "\"creation_path\":\"kv/a\"");
    copy_member(t, "token", second, sizeof second);
    assert_true(jwt_is(bytes_str(second)));
    expect(verb("unwrap", first), 400, NULL);
    expect(verb("unwrap", second), 200, "1.10");
    t = expect(ask(NULL, "60", METHOD_GET, "kv/a", NULL), 200, NULL);
    copy_member(t, "token", plain, sizeof plain);
    copy_member(expect(verb("rewrap", plain), 200, NULL), "token", plain, sizeof plain);
    assert_false(jwt_is(bytes_str(plain)));
    t = expect(ask("jwt", NULL, METHOD_POST, "sys/wrapping/rewrap", about("token", plain)), 200,
               NULL);
    copy_member(t, "token", second, sizeof second);
    assert_true(jwt_is(bytes_str(second)));
    expect(verb("unwrap", second), 200, "1.10");
}

static void the_header_alone_wraps_nothing(void **ctx)
{
    (void)ctx;
    expect(post(root, "kv/a", "{\"n\":1}"), 204, NULL);
    expect(ask("jwt", NULL, METHOD_GET, "kv/a", NULL), 200, "\"data\":{\"n\":1}");
    expect(ask("", "60", METHOD_GET, "kv/a", NULL), 200, "\"token\":\"hvs.");
    static const char *const forms[] = {"JWT", "jwt ", "opaque", "jwt,jwt"};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        expect(ask(forms[i], "60", METHOD_GET, "kv/a", NULL), 400, "X-Secrets-Wrap-Format");
}

static void a_missing_address_is_told(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    struct wrapping_jwt jwt;
    char token[ROOM];
    expect(post(root, "kv/a", "{\"n\":1}"), 204, NULL);
    w.node.leader_address[0] = '\0';
    struct test_request *t = expect(ask("jwt", "60", METHOD_GET, "kv/a", NULL), 200,
                                    "\"warnings\":[\"the wrapping token names no address");
    copy_member(t, "token", token, sizeof token);
    read_claims(token, &arena, &jwt);
    assert_string_equal(jwt.addr, "");
    expect(ask(NULL, "60", METHOD_GET, "kv/a", NULL), 200, "\"warnings\":null");
    expect(verb("unwrap", token), 200, NULL);
}

/* A build of an earlier level, which may become active, takes no JWT. */
static void a_jwt_waits_for_the_feature_level(void **ctx)
{
    (void)ctx;
    char token[ROOM];
    expect(post(root, "kv/a", "{\"n\":1}"), 204, NULL);
    w.node.raft.feature = WRAPPING_JWT_FEATURE - 1;
    expect(ask("jwt", "60", METHOD_GET, "kv/a", NULL), 503, "this needs feature level 4");
    copy_member(expect(ask(NULL, "60", METHOD_GET, "kv/a", NULL), 200, NULL), "token", token,
                sizeof token);
    expect(ask("jwt", NULL, METHOD_POST, "sys/wrapping/rewrap", about("token", token)), 503,
           "this needs feature level 4");
    expect(verb("unwrap", token), 200, NULL); /* the refusal did not use the token */
    w.node.raft.feature = WRAPPING_JWT_FEATURE;
    wrap_a_secret(token);
}

static void a_standby_forwards_and_looks_up_a_jwt(void **ctx)
{
    (void)ctx;
    char token[ROOM];
    wrap_a_secret(token);
    world_standby(&w, true);
    expect(ask("jwt", "60", METHOD_GET, "kv/a", NULL), 299, NULL);
    expect(verb("unwrap", token), 299, NULL);
    expect(verb("lookup", token), 200, "kv/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_reply_describes_a_jwt),
        TEST(the_jwt_of_a_login_names_the_accessor_of_its_token),
        TEST(a_jwt_is_taken_wherever_a_wrapping_token_is),
        TEST(a_jwt_and_its_bearer_are_spent_together),
        TEST(a_jwt_is_no_token_for_other_paths),
        TEST(a_forged_jwt_is_like_no_wrapping_token),
        TEST(an_expired_jwt_is_like_no_wrapping_token),
        TEST(a_rewrapped_jwt_is_a_jwt),
        TEST(the_header_alone_wraps_nothing),
        TEST(a_missing_address_is_told),
        TEST(a_jwt_waits_for_the_feature_level),
        TEST(a_standby_forwards_and_looks_up_a_jwt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
