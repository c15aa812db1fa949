#include "support.h"

#include "router/table/route_index.h"

static enum status never(struct req *req)
{
    (void)req;
    return ST_INTERNAL;
}

static const struct route rows[] = {
    {.method = METHOD_GET, .path = "health", .handler = never, .flags = ROUTE_HEAD},
    {.method = METHOD_POST, .path = "health", .handler = never},
    {.method = METHOD_LIST, .path = "roles", .handler = never},
    {.method = METHOD_GET, .path = "roles/:name", .handler = never},
    {.method = METHOD_DELETE, .path = "roles/:name/keys/:key", .handler = never},
    {.method = METHOD_GET, .path = "data/*name/tail", .handler = never},
    {.method = METHOD_GET, .path = "data/latest", .handler = never},
    {.method = METHOD_GET, .path = "data/*path", .handler = never},
    {.method = METHOD_PATCH, .path = "data/*path", .handler = never, .flags = ROUTE_SUDO},
    {.method = METHOD_POST, .path = "data/+path", .handler = never},
    {.method = METHOD_DELETE, .path = "lost/found", .handler = never},
    {.method = METHOD_GET, .path = "lost/*path", .handler = never, .kind = ROW_ASTRAY},
    {.method = METHOD_POST, .path = "lost/*path", .handler = never, .kind = ROW_ASTRAY},
    {.method = METHOD_GET, .path = "open", .handler = never, .who = WHO_ANYONE},
    {.method = METHOD_POST, .path = "open", .handler = never, .who = WHO_ANYONE},
    {.method = METHOD_GET, .path = "half", .handler = never, .who = WHO_ANYONE},
    {.method = METHOD_POST, .path = "half", .handler = never},
    {.method = METHOD_LIST, .path = "gone/list", .handler = never},
    {.method = METHOD_GET, .path = "gone/*path", .handler = never, .kind = ROW_ABSENT},
    {.method = METHOD_GET, .path = "users/:user@/keys", .handler = never},
};
enum { OWN_ROWS = 3 };
static const struct route_table none = {rows, 0},
                                rest = {rows + OWN_ROWS, ARRAY_LEN(rows) - OWN_ROWS};
static const struct route_table *const more[] = {&none, &rest};
static const struct route_api api = {
    .type = "t", .routes = rows, .n = OWN_ROWS, .more = more, .n_more = ARRAY_LEN(more)};

static const struct route_api *const apis[] = {&api};
static const struct module module = {.name = "t", .apis = apis, .n_apis = 1};
static const struct module *const modules[] = {&module};
static const struct module_list list = {modules, 1};

static struct arena arena;
static struct route_index *made;
static struct route_params params;
static struct route_others others;

static int make(void **ctx)
{
    struct reason why = {{0}};
    (void)ctx;
    if (route_index_new(&list, &why, &made) != ST_OK)
        fail_msg("%s", why.text);
    return 0;
}

static int wipe(void **ctx)
{
    (void)ctx;
    route_index_free(made);
    arena_done(&arena);
    return 0;
}

static enum status match(enum http_method method, const char *path, const struct route **ret_route)
{
    struct route_found found;
    enum status st = route_find_below(made, &api, method, bytes_str(path), &arena, &found);
    *ret_route = found.route;
    params = found.params;
    others = found.others;
    return st;
}

static void assert_row(enum http_method method, const char *path, size_t row)
{
    const struct route *route = NULL;
    if (match(method, path, &route) != ST_OK)
        fail_msg("%s does not match", path);
    if (route != &rows[row])
        fail_msg("%s matches row %zu", path, (size_t)(route - rows));
}

static void the_most_literal_row_serves(void **ctx)
{
    (void)ctx;
    assert_row(METHOD_GET, "health", 0);
    assert_row(METHOD_HEAD, "health", 0);
    assert_row(METHOD_POST, "health", 1);
    assert_row(METHOD_PUT, "health", 1);
    assert_row(METHOD_LIST, "roles/", 2);
    assert_row(METHOD_GET, "data/latest", 6);
    assert_row(METHOD_GET, "data/latest/x", 7);
    assert_row(METHOD_PATCH, "data/latest", 8);
}

static void a_parameter_is_found_by_its_name(void **ctx)
{
    (void)ctx;
    assert_row(METHOD_DELETE, "roles/my-role.1/keys/k_2", 4);
    assert_int_equal(params.n, 2);
    assert_bytes(params.items[0].name, BYTES("name"));
    assert_string_equal(params.items[0].value, "my-role.1");
    assert_bytes(params.items[1].name, BYTES("key"));
    assert_string_equal(params.items[1].value, "k_2");
}

static void a_literal_may_follow_the_rest(void **ctx)
{
    (void)ctx;
    static const char *const paths[][2] = {
        {"data/a/tail", "a"}, {"data/a/b/tail/", "a/b"}, {"data/tail/tail", "tail"}};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_row(METHOD_GET, paths[i][0], 5);
        assert_bytes(params.items[0].name, BYTES("name"));
        assert_string_equal(params.items[0].value, paths[i][1]);
    }
    assert_row(METHOD_GET, "data/tail", 7);
    assert_row(METHOD_GET, "data/a/retail", 7);
    assert_row(METHOD_PATCH, "data/a/tail", 8);
}

static void the_rest_of_a_path_is_captured_as_it_is(void **ctx)
{
    (void)ctx;
    static const char *const rests[] = {"a", "a/b c/", "", "@x/y"};
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        const char *path = arena_format(&arena, "data/%s", rests[i]);
        assert_row(METHOD_GET, path, 7);
        assert_string_equal(params.items[0].value, rests[i]);
    }
}

static void a_segment_that_is_no_name_is_not_captured(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"roles/-a", "roles/a.",  "roles/a b", "roles/a@b",
                                        "roles/",   "roles/a/b", "role",      "roles/.."};
    const struct route *route;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (match(METHOD_GET, paths[i], &route) == ST_OK)
            fail_msg("%s matches", paths[i]);
    assert_row(METHOD_GET, "roles/k\xc3\xa4se", 3);
}

static void a_name_may_have_an_at_sign_where_the_pattern_says_so(void **ctx)
{
    static const char *const paths[] = {"users/@a/keys", "users/a@/keys", "users/a b/keys"};
    const struct route *route;
    (void)ctx;
    assert_row(METHOD_GET, "users/ann@example.org/keys", ARRAY_LEN(rows) - 1);
    assert_bytes(params.items[0].name, BYTES("user"));
    assert_string_equal(params.items[0].value, "ann@example.org");
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (match(METHOD_GET, paths[i], &route) == ST_OK)
            fail_msg("%s matches", paths[i]);
}

static void a_rest_with_plus_is_never_empty(void **ctx)
{
    (void)ctx;
    const struct route *route;
    assert_row(METHOD_POST, "data/x", 9);
    assert_status(match(METHOD_POST, "data/", &route), ST_UNSUPPORTED);
    assert_status(match(METHOD_POST, "data", &route), ST_UNSUPPORTED);
}

static void an_astray_row_serves_what_no_other_row_takes(void **ctx)
{
    (void)ctx;
    const struct route *route;
    assert_row(METHOD_GET, "lost/x", 11);
    assert_row(METHOD_POST, "lost/x", 12);
    assert_int_equal(others.methods, 0);
    assert_row(METHOD_DELETE, "lost/found", 10);
    assert_status(match(METHOD_GET, "lost/found", &route), ST_UNSUPPORTED);
    assert_int_equal(others.methods, 1u << METHOD_DELETE);
    assert_status(match(METHOD_DELETE, "lost/x", &route), ST_UNSUPPORTED);
    assert_int_equal(others.methods, 1u << METHOD_GET | 1u << METHOD_POST | 1u << METHOD_PUT);
}

static void an_absent_path_refuses_every_method(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        unsigned cap;
    } asked[] = {{METHOD_GET, CAP_READ},    {METHOD_HEAD, CAP_READ},    {METHOD_LIST, CAP_LIST},
                 {METHOD_SCAN, CAP_SCAN},   {METHOD_POST, CAP_UPDATE},  {METHOD_PUT, CAP_UPDATE},
                 {METHOD_PATCH, CAP_PATCH}, {METHOD_DELETE, CAP_DELETE}};
    const struct route *route;
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        assert_row(asked[i].method, "gone/x/y", 18);
        assert_int_equal(route_caps(&rows[18], asked[i].method), asked[i].cap);
    }
    assert_row(METHOD_GET, "gone", 18);
    assert_row(METHOD_LIST, "gone/list", 17);
    assert_status(match(METHOD_DELETE, "gone/list", &route), ST_UNSUPPORTED);
    assert_int_equal(others.methods, 1u << METHOD_LIST);
    assert_status(match(METHOD_OPTIONS, "gone/x", &route), ST_UNSUPPORTED);
}

static void unknown_paths_and_methods_differ(void **ctx)
{
    (void)ctx;
    const struct route *route;
    char text[ROUTE_METHODS_TEXT];
    assert_status(match(METHOD_GET, "none", &route), ST_NOT_FOUND);
    assert_status(match(METHOD_GET, "", &route), ST_NOT_FOUND);
    assert_status(match(METHOD_GET, "health/x", &route), ST_NOT_FOUND);
    assert_status(match(METHOD_DELETE, "health", &route), ST_UNSUPPORTED);
    route_methods_text(others.methods, text);
    assert_string_equal(text, "GET, HEAD, POST, PUT");
    assert_status(match(METHOD_HEAD, "data/x", &route), ST_UNSUPPORTED);
    route_methods_text(others.methods, text);
    assert_string_equal(text, "GET, POST, PUT, PATCH");
}

static void a_path_without_tokens_is_open_by_every_method(void **ctx)
{
    (void)ctx;
    const struct route *route;
    assert_status(match(METHOD_DELETE, "open", &route), ST_UNSUPPORTED);
    assert_true(others.open);
    assert_status(match(METHOD_DELETE, "half", &route), ST_UNSUPPORTED);
    assert_false(others.open);
    assert_status(match(METHOD_DELETE, "none", &route), ST_NOT_FOUND);
    assert_false(others.open);
}

static void the_method_implies_the_capability(void **ctx)
{
    (void)ctx;
    assert_int_equal(route_caps(&rows[0], METHOD_GET), CAP_READ);
    assert_int_equal(route_caps(&rows[1], METHOD_GET), CAP_UPDATE);
    assert_int_equal(route_caps(&rows[2], METHOD_GET), CAP_LIST);
    assert_int_equal(route_caps(&rows[2], METHOD_SCAN), CAP_SCAN);
    assert_int_equal(route_caps(&rows[4], METHOD_GET), CAP_DELETE);
    assert_int_equal(route_caps(&rows[8], METHOD_GET), CAP_PATCH | CAP_SUDO);
    struct route both = rows[1];
    both.caps = CAP_CREATE | CAP_UPDATE;
    assert_int_equal(route_caps(&both, METHOD_POST), CAP_CREATE | CAP_UPDATE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_most_literal_row_serves),
        TEST(a_parameter_is_found_by_its_name),
        TEST(a_literal_may_follow_the_rest),
        TEST(the_rest_of_a_path_is_captured_as_it_is),
        TEST(a_segment_that_is_no_name_is_not_captured),
        TEST(a_name_may_have_an_at_sign_where_the_pattern_says_so),
        TEST(a_rest_with_plus_is_never_empty),
        TEST(an_astray_row_serves_what_no_other_row_takes),
        TEST(an_absent_path_refuses_every_method),
        TEST(unknown_paths_and_methods_differ),
        TEST(a_path_without_tokens_is_open_by_every_method),
        TEST(the_method_implies_the_capability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
