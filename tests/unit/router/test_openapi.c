#include "api/cubbyhole/cubbyhole.h"
#include "base/mem.h"
#include "router/openapi/openapi.h"
#include "router/openapi/openapi_cache.h"
#include "router/openapi/shape.h"
#include "router/pipe_world.h"
#include "router/pipeline/worker.h"

static void assert_shape_of(const char *shape, const struct schema *reply, const char *wanted)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer wr = {.out = &out};
    shape_write(shape, reply, &wr);
    buf_add_u8(&out, 0);
    assert_status(buf_status(&out), ST_OK);
    assert_string_equal((const char *)out.data, wanted);
}

static void assert_shape(const char *shape, const char *wanted)
{
    assert_shape_of(shape, NULL, wanted);
}

static void a_shape_becomes_a_schema(void **ctx)
{
    (void)ctx;
    assert_shape("str", "{\"type\":\"string\"}");
    assert_shape("num", "{\"type\":\"number\"}");
    assert_shape("any", "{}");
    assert_shape("[int]~",
                 "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"nullable\":true}");
    assert_shape("map", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}");
    assert_shape("{a:str b?:{c:bool} *:[str]}",
                 "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
                 "\"string\"},\"b\":{\"type\":\"object\",\"required\":[\"c\"],\"properties\":{"
                 "\"c\":{\"type\":\"boolean\"}},\"additionalProperties\":false}},"
                 "\"additionalProperties\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}");
    assert_shape("{}", "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}");
}

struct told {
    const char *name;
    int64_t size;
    struct field_map rules;
};
static const struct field told_fields[] = {
    FIELD(struct told, name, STRING),
    FIELD(struct told, size, INT, .omit = true),
    FIELD(struct told, rules, MAP, .null = true, .help = "Rules."),
};
static const struct schema told_schema = SCHEMA(struct told, told_fields);

#define TOLD                                                                              \
    "\"name\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},\"rules\":{\"type\":" \
    "\"object\",\"additionalProperties\":{\"type\":\"string\"},\"nullable\":true,"        \
    "\"description\":\"Rules.\"}"

static void a_shape_takes_the_fields_of_the_reply_in(void **ctx)
{
    (void)ctx;
    assert_shape_of("{*:{@}}", &told_schema,
                    "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":{\"type\":"
                    "\"object\",\"required\":[\"name\",\"rules\"],\"properties\":{" TOLD "},"
                    "\"additionalProperties\":false}}");
    assert_shape_of("{a:str @ b?:int}", &told_schema,
                    "{\"type\":\"object\",\"required\":[\"a\",\"name\",\"rules\"],\"properties\":{"
                    "\"a\":{\"type\":\"string\"}," TOLD ",\"b\":{\"type\":\"integer\"}},"
                    "\"additionalProperties\":false}");
}

struct count {
    const char *mount;
    int64_t count;
};
static const struct field count_fields[] = {FIELD_ITSELF(struct count, count, INT)};
static const struct schema count_schema = SCHEMA_NAMED(struct count, mount, count_fields);
struct counts {
    struct field_list list, table, others;
    int64_t since_ms;
};
static const struct field counts_fields[] = {
    FIELD(struct counts, list, LIST, .sub = &count_schema),
    FIELD(struct counts, table, TABLE, .sub = &count_schema, .omit = true),
    FIELD_NAMED("since", struct counts, since_ms, TIME, .null = true),
    FIELD_NAMED("", struct counts, others, OTHERS, .sub = &count_schema),
};
static const struct schema counts_schema = SCHEMA(struct counts, counts_fields);

static void a_reply_of_lists_and_maps_becomes_a_schema(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer wr = {.out = &out};
    shape_write_fields(&counts_schema, true, NULL, NULL, &wr);
    assert_bytes(buf_bytes(&out),
                 BYTES("{\"type\":\"object\",\"required\":[\"list\",\"since\"],\"properties\":{"
                       "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},"
                       "\"table\":{\"type\":\"object\",\"properties\":{},"
                       "\"additionalProperties\":{\"type\":\"integer\"}},"
                       "\"since\":{\"type\":\"string\",\"nullable\":true}},"
                       "\"additionalProperties\":{\"type\":\"integer\"}}"));
}

static void a_shape_may_be_one_of_several(void **ctx)
{
    (void)ctx;
    assert_shape(
        "{a:([int]|{b:str})~ c:bool}",
        "{\"type\":\"object\",\"required\":[\"a\",\"c\"],\"properties\":{\"a\":{\"oneOf\":["
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},{\"type\":\"object\","
        "\"required\":[\"b\"],\"properties\":{\"b\":{\"type\":\"string\"}},"
        "\"additionalProperties\":false}],\"nullable\":true},\"c\":{\"type\":\"boolean\"}},"
        "\"additionalProperties\":false}");
}

static void the_kinds_of_a_shape_are_told_apart(void **ctx)
{
    (void)ctx;
    assert_true(shape_has("{a:str}|text", "text"));
    assert_false(shape_has("{text:str}", "text"));
    assert_true(shape_has("gzip", "gzip"));
    assert_null(shape_type("gzip|text"));
    assert_true(shape_has("{*:(int|text)}|gzip", "gzip"));
    assert_false(shape_has("{*:(int|text)}|gzip", "text"));
    assert_string_equal(shape_type("text|{a:[str]}"), "{a:[str]}");
}

static bool is_sound(const struct route *route)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer wr = {.out = &out};
    struct arena arena = {0};
    const struct text_value *v;
    const char *type = route->shape != NULL ? shape_type(route->shape) : NULL;
    if (type == NULL)
        return true;
    shape_write(type, route->reply, &wr); /* asserts that the text is well formed */
    enum status st = text_json_parse(&arena, buf_bytes(&out), &v, NULL);
    arena_done(&arena);
    return st == ST_OK;
}

static void every_shape_of_the_tables_is_well_formed(void **ctx)
{
    (void)ctx;
    const struct module_list list = {modules + 1, ARRAY_LEN(modules) - 1}; /* not the test's own */
    struct module_walk place = {0};
    const struct route_api *api;
    const struct route *route;
    while ((api = module_next_api(&list, &place)) != NULL)
        for (size_t k = 0; (route = route_at(api, k)) != NULL; k++) {
            assert_true(is_sound(route));
            assert_non_null(route->help);
            if (route->shape != NULL && route->reply != NULL)
                assert_non_null(strchr(route->shape, '@'));
        }
}

static void help_describes_the_path_from_where_it_was_asked(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/named/x?help=1", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"paths\":{\"/\":{\"post\":{");
    assert_body_has(t, "\"servers\":[{\"url\":\"/v1/test/named/x\"}]");
    t = world_request(&w, METHOD_GET, "/v1/test?help=true", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"/named/{name}\":{\"parameters\":[{\"name\":\"name\",\"in\":\"path\"");
    assert_int_equal(runs, 0);
}

static void help_is_not_for_writes_and_not_for_what_is_not_there(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/named/x?help=1", "{}")->http, 200);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/none/x?help=1", NULL)->http, 404);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/none/x?help=1", NULL)->http, 404);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count?help=x", NULL)->http, 400);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count?help=0", NULL)->http, 200);
    assert_int_equal(runs, 1 + 0);
    w.token[0] = 'x';
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count?help=1", NULL)->http, 403);
}

static void a_document_without_memory_is_an_error(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {"/v1/sys/internal/specs/openapi", "/v1/test?help=1"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        bool used = true;
        for (uint64_t n = 1; used; n++) {
            struct test_request t;
            test_request_init(&t, METHOD_GET, targets[i], NULL);
            test_request_header(&t, "x-vault-token", w.token);
            (void)mem_fail_nth(n);
            world_take(&w, &t);
            used = mem_fail_nth(0);
            clock_run(&w.env);
            assert_int_equal(t.replies, 1);
            assert_true(t.http == 200 || (used && t.http == 500));
            test_request_done(&t);
        }
    }
}

#define SPECS "/v1/sys/internal/specs/openapi"

static struct test_request *ask_anonymous(const char *encoding)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, METHOD_GET, SPECS, NULL);
    if (encoding != NULL)
        test_request_header(&t, "accept-encoding", encoding);
    world_handle(&w, &t);
    assert_int_equal(t.http, 200);
    assert_string_equal(t.type, "application/json");
    return &t;
}

static void the_anonymous_document_is_rendered_once_for_each_change_of_mounts(void **ctx)
{
    (void)ctx;
    static const char mount[] =
        "{\"type\":\"kv-v1\",\"config\":{\"listing_visibility\":\"unauth\"}}";
    struct shared *const *kept = &w.worker->docs.named.text;
    size_t len = ask_anonymous(NULL)->body.len;
    assert_int_equal((*kept)->text.len + 1, len);
    const uint8_t *at = (*kept)->text.data;
    assert_int_equal(ask_anonymous(NULL)->body.len, len);
    assert_ptr_equal((*kept)->text.data, at);
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/sys/mounts/shown", mount)->http, 204);
    assert_body_has(ask_anonymous(NULL), "\"/shown/{path}\"");
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/sys/mounts/shown", NULL)->http, 204);
    assert_int_equal(ask_anonymous(NULL)->body.len, len);
}

static void the_anonymous_document_is_compressed_for_those_that_take_it(void **ctx)
{
    (void)ctx;
    static const char *const plain[] = {"", "br", "gzip;q=0", "gzip ; q=0.00", "xgzip", ",;,"};
    static const char *const gzip[] = {"gzip", "br, GZip;q=0.5", "gzip;q=1,*;q=0"};
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        assert_null(strstr(ask_anonymous(plain[i])->told, "Content-Encoding"));
    size_t len = ask_anonymous(NULL)->body.len;
    for (size_t i = 0; i < ARRAY_LEN(gzip); i++) {
        struct test_request *t = ask_anonymous(gzip[i]);
        assert_non_null(strstr(t->told, "Content-Encoding: gzip\n"));
        assert_non_null(strstr(t->told, "Vary: Accept-Encoding\n"));
        assert_true(t->body.len < len / 4);
        assert_memory_equal(t->body.data, "\x1f\x8b", 2);
    }
}

static void a_kept_document_without_memory_is_an_error(void **ctx)
{
    (void)ctx;
    bool used = true;
    for (uint64_t n = 1; used; n++) {
        struct test_request t;
        openapi_cache_done(&w.worker->docs);
        test_request_init(&t, METHOD_GET, SPECS, NULL);
        (void)mem_fail_nth(n);
        world_take(&w, &t);
        used = mem_fail_nth(0);
        clock_run(&w.env);
        assert_int_equal(t.replies, 1);
        assert_true(t.http == 200 || (used && t.http == 500));
        test_request_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_anonymous_document_is_rendered_once_for_each_change_of_mounts, open_world,
            close_world),
        cmocka_unit_test_setup_teardown(the_anonymous_document_is_compressed_for_those_that_take_it,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_kept_document_without_memory_is_an_error, open_world,
                                        close_world),
        cmocka_unit_test(a_shape_becomes_a_schema),
        cmocka_unit_test(a_shape_takes_the_fields_of_the_reply_in),
        cmocka_unit_test(a_reply_of_lists_and_maps_becomes_a_schema),
        cmocka_unit_test(a_shape_may_be_one_of_several),
        cmocka_unit_test(the_kinds_of_a_shape_are_told_apart),
        cmocka_unit_test(every_shape_of_the_tables_is_well_formed),
        cmocka_unit_test_setup_teardown(help_describes_the_path_from_where_it_was_asked, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(help_is_not_for_writes_and_not_for_what_is_not_there,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_document_without_memory_is_an_error, open_world,
                                        close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
