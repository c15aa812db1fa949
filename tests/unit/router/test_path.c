#include "support.h"

#include "base/mem.h"
#include "router/request/path.h"
#include "text/json.h"

#include <stdio.h>

static struct arena arena;
static struct reason why;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    why.text[0] = '\0';
    return 0;
}

static struct path_target target_of(const char *raw)
{
    struct path_target target;
    assert_status(path_canonical(&arena, bytes_str(raw), &target), ST_OK);
    path_set_root(&target, "/v1/");
    return target;
}

static void assert_path(const char *raw, const char *path)
{
    struct path_target have = target_of(raw), again;
    struct bytes sent;
    if (have.fault != NULL)
        fail_msg("%s: %s", raw, have.fault);
    assert_bytes(have.path, bytes_str(path));
    assert_int_equal(have.full.data[have.full.len], 0);
    assert_status(path_encode(&arena, &have, &sent), ST_OK);
    for (size_t i = 0; i < sent.len; i++)
        assert_true(sent.data[i] > ' ' && sent.data[i] < 0x7f && sent.data[i] != '?');
    assert_status(path_canonical(&arena, sent, &again), ST_OK);
    assert_bytes(again.full, have.full);
}

/* Whether the path of a request needs no decoding, judged byte by byte. */
static bool is_plain(const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (path[i] <= ' ' || path[i] > '~' || path[i] == '%' ||
            (path[i] == '/' && i + 1 < len && (path[i + 1] == '/' || path[i + 1] == '.')))
            return false;
    return true;
}

static void a_plain_path_is_known_whatever_its_length(void **ctx)
{
    (void)ctx;
    static const char bytes[] = "/.% a~\x7f\xc3";
    char path[40];
    for (size_t len = 14; len < sizeof path; len++)
        for (size_t at = 1; at + 1 < len; at++)
            for (size_t i = 0; i < 64; i++) {
                struct path_target target;
                memset(path, 'a', sizeof path);
                path[0] = '/';
                path[at] = bytes[i / 8];
                path[at + 1] = bytes[i % 8];
                assert_status(path_canonical(&arena, bytes_of(path, len), &target), ST_OK);
                assert_int_equal(target.as_sent, is_plain(path, len));
                arena_clear(&arena);
            }
}

static void a_path_is_decoded_and_its_slashes_collapsed(void **ctx)
{
    (void)ctx;
    assert_path("/v1/kv/a", "kv/a");
    assert_path("/v1/kv/a/", "kv/a/");
    assert_path("//v1//kv///a//", "kv/a/");
    assert_path("/v1/kv/a%20b%2Fc+d", "kv/a b/c+d");
    assert_path("/v1/kv/k%C3%A4se", "kv/k\xc3\xa4se");
    assert_path("/v1/kv/.hidden/..x/...", "kv/.hidden/..x/...");
    assert_path("/v1/", "");
    assert_path("/%761/a", "a");
    assert_path("/v1/sys/storage/raft/%73nap%73hot", "sys/storage/raft/snapshot");
    assert_path("/v1/a%2Fb%2fc", "a/b/c");
    assert_path("/v1/a%2F/", "a/");
    assert_path("/v1/a;b=c,d&e'(f)!$*@:", "a;b=c,d&e'(f)!$*@:");
    assert_path("/v1/a%3Fb%23c%25%32f", "a?b#c%2f");
}

/* With one character sent as it is, and escaped. */
static void a_path_means_the_same_however_it_is_written(void **ctx)
{
    (void)ctx;
    static const char *const around[][2] = {{"/v1/a", "b"},  {"/v1/a/", "b"},  {"/v1/a/", ""},
                                            {"/v1/a/.", ""}, {"/v1/a/", "/b"}, {"/", "v1/a"}};
    for (unsigned i = 0; i < ARRAY_LEN(around); i++) {
        for (unsigned c = 1; c < 256; c++) {
            const char *raw = arena_format(&arena, "%s%c%s", around[i][0], (char)c, around[i][1]);
            const char *escaped = arena_format(&arena, "%s%%%02x%s", around[i][0], c, around[i][1]);
            struct path_target target = target_of(raw), other = target_of(escaped);
            if (c == '%')
                continue; /* it cannot be sent as it is */
            assert_int_equal(target.fault == NULL, other.fault == NULL);
            assert_true(bytes_eq(target.full, other.full));
        }
    }
}

static void a_path_outside_v1_is_not_found(void **ctx)
{
    (void)ctx;
    static const char *const raws[] = {"/", "", "/v1", "/v2/x", "/ui/", "*", "/V1/x"};
    for (size_t i = 0; i < ARRAY_LEN(raws); i++) {
        assert_null(target_of(raws[i]).fault);
        assert_null(target_of(raws[i]).path.data);
    }
}

static void a_path_that_could_read_as_another_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const raws[] = {
        "/v1/kv/../sys",   "/v1/kv/%2e%2e/sys", "/v1/kv/.",   "/v1/./kv",  "/v1/kv/..",
        "/v1/kv/%2E%2e",   "/v1/kv/..%2fsys",   "/v1/kv/%00", "/v1/a%0ab", "/v1/%7f",
        "/v1/%E2%80%AEx",  "/v1/%ff",           "/v1/%",      "/v1/%2",    "/v1/%zz",
        "/v1/a%E2%80%8Bb", "/../v1/kv",
    };
    for (size_t i = 0; i < ARRAY_LEN(raws); i++) {
        struct path_target target = target_of(raws[i]);
        if (target.fault == NULL || target.full.data != NULL || target.path.data != NULL)
            fail_msg("%s is taken", raws[i]);
    }
}

static void the_length_of_a_path_is_bounded(void **ctx)
{
    (void)ctx;
    char raw[PATH_BYTES_MAX + 3];
    struct path_target target;
    memset(raw, 'x', sizeof raw);
    memcpy(raw, "/v1/", 4);
    assert_status(path_canonical(&arena, bytes_of(raw, PATH_BYTES_MAX + 1), &target), ST_OK);
    assert_null(target.fault);
    assert_status(path_canonical(&arena, bytes_of(raw, PATH_BYTES_MAX + 2), &target), ST_OK);
    assert_non_null(target.fault);
    static char escaped[3 * PATH_BYTES_MAX + 10];
    for (size_t i = 0; i < sizeof escaped; i++)
        escaped[i] = "%78"[i % 3];
    assert_status(path_canonical(&arena, bytes_of(escaped, sizeof escaped), &target), ST_OK);
    assert_non_null(target.fault);
}

static const char *pairs(const char *text)
{
    struct text_value *object;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    if (path_parse_pairs(&arena, bytes_str(text), &object, &why) != ST_OK)
        fail_msg("%s: %s", text, why.text);
    text_put_value(&w, object);
    return arena_str(&arena, buf_bytes(&out));
}

static void parameters_become_strings_and_lists(void **ctx)
{
    (void)ctx;
    assert_string_equal(pairs(""), "{}");
    assert_string_equal(pairs("a=1&b=x+y%26&c&d="),
                        "{\"a\":\"1\",\"b\":\"x y\\u0026\",\"c\":\"\",\"d\":\"\"}");
    assert_string_equal(pairs("a=1&b=2&a=3&a=4"), "{\"a\":[\"1\",\"3\",\"4\"],\"b\":\"2\"}");
    assert_string_equal(pairs("&&a=b=c&"), "{\"a\":\"b=c\"}");
}

static void malformed_parameters_are_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {"a=%", "%zz=1", "a=%ff", "a=%C3"};
    struct text_value *object;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_status(path_parse_pairs(&arena, bytes_str(texts[i]), &object, &why), ST_INVALID);
}

static void the_number_of_parameters_is_bounded(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    struct text_value *object;
    for (int i = 0; i < PATH_PAIRS_MAX; i++)
        buf_add_format(&text, "&k%d=", i);
    assert_status(path_parse_pairs(&arena, buf_bytes(&text), &object, &why), ST_OK);
    buf_add_str(&text, "&k");
    assert_status(path_parse_pairs(&arena, buf_bytes(&text), &object, &why), ST_INVALID);
}

static void a_failed_allocation_is_reported(void **ctx)
{
    (void)ctx;
    struct path_target target;
    struct text_value *object;
    struct bytes sent;
    for (uint64_t n = 1; n < 4; n++) {
        (void)mem_fail_nth(n);
        enum status st = path_canonical(&arena, BYTES("/v1/kv/%41"), &target);
        if (st == ST_OK)
            st = path_encode(&arena, &target, &sent);
        if (st == ST_OK)
            st = path_parse_pairs(&arena, BYTES("a=1&a=2"), &object, &why);
        bool used = mem_fail_nth(0);
        arena_done(&arena);
        assert_status(st, used ? ST_NOMEM : ST_OK);
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_path_means_the_same_however_it_is_written),
        TEST(a_path_is_decoded_and_its_slashes_collapsed),
        TEST(a_plain_path_is_known_whatever_its_length),
        TEST(a_path_outside_v1_is_not_found),
        TEST(a_path_that_could_read_as_another_is_refused),
        TEST(the_length_of_a_path_is_bounded),
        TEST(parameters_become_strings_and_lists),
        TEST(malformed_parameters_are_refused),
        TEST(the_number_of_parameters_is_bounded),
        TEST(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
