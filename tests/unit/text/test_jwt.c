#include "support.h"

#include "base/mem.h"
#include "text/bounded_json.h"
#include "text/encode.h"
#include "text/jwt.h"

#include <stdio.h>

static struct arena arena;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static const char *encoded(const char *text)
{
    char *to = arena_alloc(&arena, TEXT_BASE64_LEN(strlen(text)) + 1);
    assert_non_null(to);
    (void)text_base64_put(bytes_str(text), TEXT_BASE64_URL, to);
    return to;
}

/* The token with this header, the claims {} and the signature "sig". */
static enum status split_header(const char *header)
{
    struct jwt jwt;
    const char *token = arena_format(&arena, "%s.e30.c2ln", encoded(header));
    return jwt_split(&arena, bytes_str(token), "ES512", &jwt);
}

static enum status split(const char *token)
{
    struct jwt jwt;
    return jwt_split(&arena, bytes_str(token), "ES512", &jwt);
}

#define HEADER "eyJhbGciOiJFUzUxMiIsInR5cCI6IkpXVCJ9"

static void what_is_written_is_taken_apart(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf token = {0};
    struct jwt jwt;
    jwt_put_input(&token, "ES512", BYTES("{\"a\":\"?\"}"));
    assert_bytes(buf_bytes(&token), BYTES(HEADER ".eyJhIjoiPyJ9"));
    jwt_put_signature(&token, BYTES("\xFB\xFF"));
    assert_bytes(buf_bytes(&token), BYTES(HEADER ".eyJhIjoiPyJ9.-_8"));
    assert_true(jwt_is(buf_bytes(&token)));
    assert_status(jwt_split(&arena, buf_bytes(&token), "ES512", &jwt), ST_OK);
    assert_bytes(jwt.input, BYTES(HEADER ".eyJhIjoiPyJ9"));
    assert_bytes(jwt.claims, BYTES("{\"a\":\"?\"}"));
    assert_bytes(jwt.signature, BYTES("\xFB\xFF"));
}

static void bearers_of_the_server_are_no_jwt(void **ctx)
{
    (void)ctx;
    static const char *const other[] = {"",     "hvs.CAESI", "hvs.a.b", "a.b.c",
                                        "ey.a", "eyJ.a.b.c", "..",      "Eyja.b.c"};
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        assert_false(jwt_is(bytes_str(other[i])));
    assert_true(jwt_is(BYTES("eyJ..")));
}

static void only_the_header_of_the_algorithm_is_taken(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        "{\"alg\":\"none\",\"typ\":\"JWT\"}",
        "{\"alg\":\"ES256\",\"typ\":\"JWT\"}",
        "{\"alg\":\"es512\",\"typ\":\"JWT\"}",
        "{\"alg\":\"HS512\",\"typ\":\"JWT\"}",
        "{\"alg\":\"ES512\"}",
        "{\"alg\":\"ES512\",\"typ\":\"JOSE\"}",
        "{\"alg\":\"ES512\",\"typ\":\"JWT\",\"kid\":\"1\"}",
        "{\"alg\":\"ES512\",\"typ\":\"JWT\",\"crit\":[\"exp\"]}",
        "{\"alg\":\"none\",\"alg\":\"ES512\",\"typ\":\"JWT\"}",
        "{\"alg\":\"ES512\",\"alg\":\"ES512\",\"typ\":\"JWT\"}",
        "{\"alg\":[\"ES512\"],\"typ\":\"JWT\"}",
        "{\"alg\":\"ES512\\u0000\",\"typ\":\"JWT\"}",
        "{\"alg\":\"ES512\",\"typ\":\"JWT\"} {}",
        "{\"alg\":\"ES512\",\"typ\":\"JWT\"",
        "{}",
        "{\"a\":[[[[[[[[[[1]]]]]]]]]]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (split_header(bad[i]) != ST_INVALID)
            fail_msg("%s was taken", bad[i]);
    assert_status(split_header("{\"alg\":\"ES512\",\"typ\":\"JWT\"}"), ST_OK);
    assert_status(split_header("{ \"typ\":\"JWT\", \"alg\":\"ES512\" }"), ST_OK);
}

static void each_part_has_one_spelling(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        HEADER ".e30=.c2ln",        /* padding */
        HEADER ".e30.c2ln=",        /* padding where none is due */
        HEADER ".e31.c2ln",         /* a bit behind the last byte */
        HEADER ".e30.c2l",          /* such bits in the signature */
        HEADER ".e30.c2lnc",        /* six bits alone */
        HEADER ".e30.c2+n",         /* the other alphabet */
        HEADER ".e30.c2/n",         /* the other alphabet */
        HEADER ".e 30.c2ln",        /* a space */
        HEADER ".e30.c2ln\n",       /* a line's end */
        HEADER "..c2ln",            /* no claims */
        HEADER ".e30.",             /* no signature */
        ".e30.c2ln",                /* no header */
        HEADER ".e30",              /* two parts */
        HEADER ".e30.c2ln.c2ln",    /* four parts */
        "eyJhbGciOiJub25lIn0.e30.", /* RFC 7515 A.5 */
    };
    assert_status(split(HEADER ".e30.c2ln"), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (split(bad[i]) != ST_INVALID)
            fail_msg("%s was taken", bad[i]);
}

static void a_token_has_a_longest_length(void **ctx)
{
    (void)ctx;
    char token[JWT_BYTES_MAX + 2];
    struct jwt jwt;
    static const char front[] = HEADER ".e30.";
    memset(token, 'A', sizeof token);
    memcpy(token, front, sizeof front - 1);
    size_t n = JWT_BYTES_MAX - (JWT_BYTES_MAX - (sizeof front - 1)) % 4;
    assert_status(jwt_split(&arena, bytes_of(token, n), "ES512", &jwt), ST_OK);
    assert_status(jwt_split(&arena, bytes_of(token, n + 4), "ES512", &jwt), ST_INVALID);
}

/* The reader that looks at header and claims */

static enum status parse(const char *text)
{
    json_t *object = NULL;
    enum status st = bounded_json_parse(bytes_str(text), &object);
    assert_true((st == ST_OK) == (object != NULL));
    json_decref(object);
    return st;
}

static void claims_are_one_object_within_bounds(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf large = {0};
    assert_status(parse("{\"a\":9223372036854775807,\"b\":[{\"c\":\"[[[[[[[[[[[[\\\"[[[[\"}]}"),
                  ST_OK);
    assert_status(parse("{\"a\":[[[[[[[1]]]]]]]}"), ST_OK);
    json_malloc_t allocates;
    json_free_t releases;
    json_get_alloc_funcs(&allocates, &releases); /* those that wipe */
    assert_true(allocates != malloc && releases != free);
    assert_status(parse("{\"a\":[[[[[[[[1]]]]]]]]}"), ST_TOO_BIG);
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1}x",
        "{a}",
        "{\"a\":\"\x80\"}",
        "{\"a\":9223372036854775808}",
        "{\"a\":\"\\u0000\"}",
        "{\"\\u0000\":1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (parse(bad[i]) != ST_INVALID)
            fail_msg("%s was taken", bad[i]);
    buf_add_str(&large, "{\"a\":\"");
    while (large.len < BOUNDED_JSON_BYTES_MAX)
        buf_add_u8(&large, 'a');
    buf_add_str(&large, "\"}");
    buf_add_u8(&large, 0);
    assert_status(parse((const char *)large.data), ST_TOO_BIG);
}

static void a_failed_allocation_is_told_and_leaks_nothing(void **ctx)
{
    (void)ctx;
    static const char text[] = HEADER ".eyJhIjoiPyJ9.c2ln";
    assert_status(split(text), ST_OK);
    unsigned failures = 0;
    for (uint64_t n = 1;; n++) {
        struct jwt jwt;
        CLEANUP(arena_done) struct arena own = {0};
        mem_fail_nth(n);
        enum status st = jwt_split(&own, bytes_str(text), "ES512", &jwt);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            break;
        }
        failures++;
        assert_status(st, ST_NOMEM);
    }
    assert_true(failures > 5);
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_taken_apart),
        TEST(bearers_of_the_server_are_no_jwt),
        TEST(only_the_header_of_the_algorithm_is_taken),
        TEST(each_part_has_one_spelling),
        TEST(a_token_has_a_longest_length),
        TEST(claims_are_one_object_within_bounds),
        TEST(a_failed_allocation_is_told_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
