/* sys/config/ui/headers: headers for web pages. */
#include "api/api_world.h"

#define PATH "/v1/sys/config/ui/headers"

static void a_header_is_shown_by_its_canonical_name(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_LIST, PATH, NULL, 404);
    (void)request(METHOD_GET, PATH "/X-Frame-Options", NULL, 404);
    (void)request(METHOD_POST, PATH "/x-fRAME-options", "{\"values\":[\"DENY\"]}", 204);
    assert_body_has(request(METHOD_GET, PATH "/X-Frame-Options", NULL, 200),
                    "\"data\":{\"value\":\"DENY\"}");
    assert_body_has(request(METHOD_LIST, PATH, NULL, 200), "{\"keys\":[\"X-Frame-Options\"]}");
    assert_body_has(request(METHOD_LIST, PATH "/", NULL, 200), "{\"keys\":[\"X-Frame-Options\"]}");
    (void)request(METHOD_DELETE, PATH "/X-FRAME-OPTIONS", NULL, 204);
    (void)request(METHOD_DELETE, PATH "/X-Frame-Options", NULL, 204);
    (void)request(METHOD_LIST, PATH, NULL, 404);
}

static void a_header_may_have_several_values(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_PUT, PATH "/Link", "{\"values\":[\"a, b\",\"c\"],\"multivalue\":true}",
                  204);
    assert_body_has(request(METHOD_GET, PATH "/Link", NULL, 200), "\"data\":{\"value\":\"a, b\"}");
    assert_body_has(request(METHOD_GET, PATH "/Link?multivalue=true", NULL, 200),
                    "\"data\":{\"values\":[\"a, b\",\"c\"]}");
    (void)request(METHOD_POST, PATH "/Link", "{\"values\":\"x, y\"}", 204); /* replaces both */
    assert_body_has(request(METHOD_GET, PATH "/Link?multivalue=true", NULL, 200),
                    "\"data\":{\"values\":[\"x, y\"]}");
    (void)request(METHOD_GET, PATH "/Link?multivalue=perhaps", NULL, 400);
}

static void names_that_clients_may_not_set_are_refused(void **ctx)
{
    (void)ctx;
    static const char body[] = "{\"values\":[\"a\"]}";
    assert_body_has(request(METHOD_POST, PATH "/x-vault-Token", body, 400),
                    "X-Vault headers cannot be set");
    assert_body_has(request(METHOD_POST, PATH "/X-SECRETS-Token", body, 400),
                    "X-Secrets headers cannot be set");
    static const char *const own[] = {"connection",        "Content-Length", "TE",     "upgrade",
                                      "transfer-ENCODING", "Keep-Alive",     "Trailer"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        char path[128];
        (void)snprintf(path, sizeof path, PATH "/%s", own[i]);
        assert_body_has(request(METHOD_POST, path, body, 400), "cannot be set");
    }
    static const char *const odd[] = {"a/b", "a%20b", "a:b", "a%22b", "%C3%A4"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        char path[128];
        (void)snprintf(path, sizeof path, PATH "/%s", odd[i]);
        assert_body_has(request(METHOD_POST, path, body, 400), "invalid header name");
        (void)request(METHOD_GET, path, NULL, 400);
        (void)request(METHOD_DELETE, path, NULL, 400);
    }
    (void)request(METHOD_LIST, PATH, NULL, 404);
}

static void a_long_name_is_refused(void **ctx)
{
    (void)ctx;
    char path[256] = PATH "/";
    memset(path + strlen(path), 'a', 128);
    (void)request(METHOD_POST, path, "{\"values\":[\"a\"]}", 204);
    path[strlen(path)] = 'a';
    assert_body_has(request(METHOD_POST, path, "{\"values\":[\"a\"]}", 400), "1 to 128");
}

static void values_are_printable_and_short(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {
        "{}",
        "{\"values\":[]}",
        "{\"values\":\"\"}",
        "{\"values\":[\"a\\r\\nSet-Cookie: x\"]}",
        "{\"values\":\"a\\u0000b\"}",
        "{\"values\":[\"a\\u0000b\"]}",
        "{\"values\":\"\xC3\xA4\"}",
        "{\"values\":{\"a\":1}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        (void)request(METHOD_POST, PATH "/X-A", bodies[i], 400);
    char body[4200] = "{\"values\":\"";
    size_t start = strlen(body);
    memset(body + start, 'a', 4095);
    memcpy(body + start + 4095, "\"}", 3);
    (void)request(METHOD_POST, PATH "/X-A", body, 204);
    memcpy(body + start + 4095, "a\"}", 4);
    assert_body_has(request(METHOD_POST, PATH "/X-A", body, 400), "values: more than 4096 bytes");
}

static void there_are_at_most_64_headers(void **ctx)
{
    (void)ctx;
    char path[128];
    for (int i = 0; i < 64; i++) {
        (void)snprintf(path, sizeof path, PATH "/X-%d", i);
        (void)request(METHOD_POST, path, "{\"values\":[\"a\"]}", 204);
    }
    assert_body_has(request(METHOD_POST, PATH "/X-64", "{\"values\":[\"a\"]}", 400),
                    "more than 64 headers");
    (void)request(METHOD_POST, PATH "/X-63", "{\"values\":[\"b\"]}", 204);
    (void)request(METHOD_DELETE, PATH "/X-0", NULL, 204);
    (void)request(METHOD_POST, PATH "/X-64", "{\"values\":[\"a\"]}", 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_header_is_shown_by_its_canonical_name),
        TEST(a_header_may_have_several_values),
        TEST(names_that_clients_may_not_set_are_refused),
        TEST(a_long_name_is_refused),
        TEST(values_are_printable_and_short),
        TEST(there_are_at_most_64_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
