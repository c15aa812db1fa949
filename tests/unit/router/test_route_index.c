/* Modules that share a prefix, paths that no table has, rows that exclude each other. */
#include "support.h"

#include "router/request/dialect.h"
#include "router/table/route_index.h"

static enum status never(struct req *req)
{
    (void)req;
    return ST_INTERNAL;
}

static const struct dialect first_dialect = {.name = "first"}, second_dialect = {.name = "second"},
                            without_tables = {.name = "third"};
#define GET(text)                                              \
    {                                                          \
        .method = METHOD_GET, .path = (text), .handler = never \
    }
#define POST(text)                                              \
    {                                                           \
        .method = METHOD_POST, .path = (text), .handler = never \
    }

static const struct route seal_rows[] = {GET("seal"), POST("seal"), GET("tools/:name")};
static const struct route mount_rows[] = {
    GET("mounts"),
    GET("tools/hash"),
    POST("mounts/+path"),
    {.method = METHOD_GET, .path = "*rest", .handler = never, .kind = ROW_ABSENT}};
static const struct route deep_rows[] = {GET("below")}, one_row[] = {GET("")},
                          odd_row[] = {GET("x")};

static const struct route_api seal_api = {.dialect = &first_dialect,
                                          .prefix = "sys/",
                                          .type = "a",
                                          .routes = seal_rows,
                                          .n = ARRAY_LEN(seal_rows)};
static const struct route_api mount_api = {.dialect = &first_dialect,
                                           .prefix = "sys/",
                                           .type = "b",
                                           .routes = mount_rows,
                                           .n = ARRAY_LEN(mount_rows)};
static const struct route_api deep_api = {
    .dialect = &first_dialect, .prefix = "sys/deep/", .type = "c", .routes = deep_rows, .n = 1};
static const struct route_api one_api = {
    .dialect = &first_dialect, .prefix = "agent/self", .type = "d", .routes = one_row, .n = 1};
static const struct route_api other_api = {
    .dialect = &second_dialect, .prefix = "sys/", .type = "e", .routes = odd_row, .n = 1};

/* The most literal pattern serves a path alone. */
static const struct route narrow_rows[] = {
    POST("token"),
    GET("token/self"),
    GET("token/*id"),
    {.method = METHOD_DELETE, .path = "token/*id", .handler = never}};
static const struct route_api narrow_api = {.dialect = &first_dialect,
                                            .prefix = "acl/",
                                            .type = "f",
                                            .narrow = true,
                                            .routes = narrow_rows,
                                            .n = ARRAY_LEN(narrow_rows)};

static struct route_index *made;
static struct arena arena;

static enum status make(const struct route_api *const *apis, size_t n, struct reason *why)
{
    const struct module module = {.name = "t", .apis = apis, .n_apis = n};
    const struct module *const modules[] = {&module};
    const struct module_list list = {modules, 1};
    return route_index_new(&list, why, &made);
}

static int make_all(void **ctx)
{
    static const struct route_api *const apis[] = {&seal_api, &deep_api,  &mount_api,
                                                   &one_api,  &other_api, &narrow_api};
    struct reason why = {{0}};
    (void)ctx;
    if (make(apis, ARRAY_LEN(apis), &why) != ST_OK)
        fail_msg("%s", why.text);
    return 0;
}

static int wipe(void **ctx)
{
    (void)ctx;
    route_index_free(made);
    made = NULL;
    arena_done(&arena);
    return 0;
}

static void assert_found(enum http_method method, const char *path, const struct route_api *api,
                         const struct route *route)
{
    struct route_found found;
    enum status st = route_find(made, &first_dialect, method, bytes_str(path), &arena, &found);
    if (st != ST_OK || found.api != api || found.route != route)
        fail_msg("%s: %s", path, status_text(st));
}

static void modules_share_a_prefix(void **ctx)
{
    (void)ctx;
    assert_found(METHOD_GET, "sys/seal", &seal_api, &seal_rows[0]);
    assert_found(METHOD_PUT, "sys/seal", &seal_api, &seal_rows[1]);
    assert_found(METHOD_GET, "sys/mounts", &mount_api, &mount_rows[0]);
    assert_found(METHOD_GET, "sys/deep/below", &deep_api, &deep_rows[0]);
    /* the more literal row, although the other module comes first */
    assert_found(METHOD_GET, "sys/tools/hash", &mount_api, &mount_rows[1]);
    assert_found(METHOD_GET, "sys/tools/x", &seal_api, &seal_rows[2]);
    assert_found(METHOD_DELETE, "sys/unknown", &mount_api, &mount_rows[3]);
}

static void the_methods_of_a_path_are_those_of_all_modules(void **ctx)
{
    struct route_found found;
    (void)ctx;
    assert_status(
        route_find(made, &first_dialect, METHOD_DELETE, BYTES("sys/seal"), &arena, &found),
        ST_UNSUPPORTED);
    assert_int_equal(found.others.methods, 1u << METHOD_GET | 1u << METHOD_POST | 1u << METHOD_PUT);
}

static void a_wider_pattern_of_a_narrow_api_serves_no_other_method(void **ctx)
{
    static const char *const paths[] = {"acl/token", "acl/token/self"};
    struct route_found found;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_status(
            route_find(made, &first_dialect, METHOD_DELETE, bytes_str(paths[i]), &arena, &found),
            ST_UNSUPPORTED);
        assert_int_equal(found.others.methods,
                         i == 0 ? 1u << METHOD_POST | 1u << METHOD_PUT : 1u << METHOD_GET);
    }
    assert_found(METHOD_DELETE, "acl/token/selfish", &narrow_api, &narrow_rows[3]);
    /* with a slash at its end the path is the empty name of the wider pattern */
    assert_found(METHOD_DELETE, "acl/token/", &narrow_api, &narrow_rows[3]);
}

static void a_path_belongs_to_the_tables_that_have_its_prefix(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *path;
        const struct route_api *owner;
    } paths[] = {{"sys/x/y", &seal_api}, {"sys/", &seal_api},       {"sys", NULL},
                 {"system", NULL},       {"sys/deep/x", &deep_api}, {"agent/self", &one_api},
                 {"agent/self/x", NULL}, {"agent/self/", NULL},     {"agent", NULL},
                 {"secret/data/x", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (route_owner(made, &first_dialect, bytes_str(paths[i].path)) != paths[i].owner)
            fail_msg("%s", paths[i].path);
}

static void each_dialect_has_its_own_paths(void **ctx)
{
    struct route_found found;
    (void)ctx;
    assert_status(route_find(made, &second_dialect, METHOD_GET, BYTES("sys/x"), &arena, &found),
                  ST_OK);
    assert_ptr_equal(found.api, &other_api);
    assert_status(route_find(made, &second_dialect, METHOD_GET, BYTES("sys/seal"), &arena, &found),
                  ST_NOT_FOUND);
    assert_status(route_find(made, &without_tables, METHOD_GET, BYTES("sys/x"), &arena, &found),
                  ST_NOT_FOUND);
    assert_null(found.api);
}

static void a_search_without_an_arena_captures_nothing(void **ctx)
{
    struct route_found found;
    (void)ctx;
    assert_status(route_find(made, &first_dialect, METHOD_GET, BYTES("sys/tools/x"), NULL, &found),
                  ST_OK);
    assert_int_equal(found.params.n, 0);
}

static void rows_that_exclude_each_other_are_refused(void **ctx)
{
    static const char *const pairs[][2] = {
        {"a/b", "a/b"}, {"a/:b", "a/:c"}, {"a/*b", "a/*c"}, {"a/+b", "a/+c"}, {"*a/x", "*b/x"}};
    static const char *const fine[][2] = {
        {"a/b", "a/:b"}, {"a/*b", "a/+b"}, {"*a/x", "*a/y"}, {"*a/x", "*a"}};
    struct reason why = {{0}};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(pairs) + ARRAY_LEN(fine); i++) {
        bool wrong = i < ARRAY_LEN(pairs);
        const char *const *pair = wrong ? pairs[i] : fine[i - ARRAY_LEN(pairs)];
        const struct route rows[] = {GET(pair[0]), POST(pair[0]), GET(pair[1])};
        const struct route_api api = {.type = "t", .routes = rows, .n = ARRAY_LEN(rows)};
        const struct route_api *const apis[] = {&api};
        enum status st = make(apis, 1, &why);
        if (st != (wrong ? ST_INVALID : ST_OK))
            fail_msg("%s and %s: %s", pair[0], pair[1], status_text(st));
        if (wrong && strstr(why.text, pair[1]) == NULL)
            fail_msg("%s", why.text);
        route_index_free(made);
        made = NULL;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_all, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(modules_share_a_prefix),
        TEST(the_methods_of_a_path_are_those_of_all_modules),
        TEST(a_wider_pattern_of_a_narrow_api_serves_no_other_method),
        TEST(a_path_belongs_to_the_tables_that_have_its_prefix),
        TEST(each_dialect_has_its_own_paths),
        TEST(a_search_without_an_arena_captures_nothing),
        cmocka_unit_test(rows_that_exclude_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
