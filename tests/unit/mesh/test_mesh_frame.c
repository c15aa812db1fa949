#include "cluster/mesh/mesh_frame.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_status(expression, expected) \
    assert_string_equal(status_name(expression), status_name(expected))

static void add_frame(struct buf *out, enum mesh_kind kind, struct bytes payload)
{
    uint8_t header[MESH_HEADER_BYTES];
    mesh_header_encode(kind, (uint32_t)payload.len, header);
    buf_add(out, bytes_of(header, sizeof header));
    buf_add(out, payload);
}

static void frames_are_found_however_they_are_cut(void **ctx)
{
    CLEANUP(buf_done) struct buf stream = {0};
    (void)ctx;
    add_frame(&stream, MESH_DATA, BYTES("first"));
    add_frame(&stream, MESH_DATA, BYTES(""));
    add_frame(&stream, MESH_REFUSE, BYTES("third frame"));
    for (size_t step = 1; step <= stream.len; step++) {
        CLEANUP(mesh_frames_done) struct mesh_frames f = {.payload_max = 11};
        struct mesh_frame frame;
        static const struct mesh_frame expected[] = {
            {MESH_DATA, {(const uint8_t *)"first", 5}},
            {MESH_DATA, {(const uint8_t *)"", 0}},
            {MESH_REFUSE, {(const uint8_t *)"third frame", 11}},
        };
        unsigned n = 0;
        for (size_t at = 0; at < stream.len; at += step) {
            mesh_frames_push(&f, bytes_of(stream.data + at, MIN(step, stream.len - at)));
            while (mesh_frames_next(&f, &frame) == ST_OK) {
                assert_true(n < ARRAY_LEN(expected));
                assert_int_equal(frame.kind, expected[n].kind);
                assert_true(bytes_eq(frame.payload, expected[n].payload));
                n++;
            }
        }
        assert_int_equal(n, 3);
        assert_int_equal(f.partial.len, 0);
    }
}

/* Give a frame of `bytes` in two parts, and take it. */
static void pass_frame(struct mesh_frames *f, uint32_t bytes)
{
    CLEANUP(buf_done) struct buf stream = {0};
    struct mesh_frame frame;
    uint8_t *header = buf_extend(&stream, MESH_HEADER_BYTES);
    mesh_header_encode(MESH_DATA, bytes, header);
    memset(buf_extend(&stream, bytes), 's', bytes);
    size_t half = stream.len / 2;
    mesh_frames_push(f, bytes_of(stream.data, half));
    assert_status(mesh_frames_next(f, &frame), ST_NOT_FOUND);
    mesh_frames_push(f, bytes_of(stream.data + half, stream.len - half));
    assert_status(mesh_frames_next(f, &frame), ST_OK);
    assert_int_equal(frame.payload.len, bytes);
    assert_status(mesh_frames_next(f, &frame), ST_NOT_FOUND);
}

static void memory_of_a_large_frame_serves_the_next(void **ctx)
{
    (void)ctx;
    CLEANUP(mesh_frames_done) struct mesh_frames f = {.payload_max = MESH_FRAME_MAX};
    pass_frame(&f, MESH_FRAMES_KEPT / 2);
    const uint8_t *kept = f.partial.data;
    assert_non_null(kept);
    for (size_t i = 0; i < MESH_HEADER_BYTES + MESH_FRAMES_KEPT / 2; i++)
        assert_int_equal(kept[i], 0); /* what was in the frame may be a secret */
    pass_frame(&f, MESH_FRAMES_KEPT / 2 - 1);
    assert_ptr_equal(f.partial.data, kept);
    pass_frame(&f, MESH_FRAMES_KEPT + 1);
    assert_null(f.partial.data);
}

static enum status first_of(struct bytes stream, uint32_t payload_max)
{
    CLEANUP(mesh_frames_done) struct mesh_frames f = {.payload_max = payload_max};
    struct mesh_frame frame;
    mesh_frames_push(&f, stream);
    enum status whole = mesh_frames_next(&f, &frame);

    CLEANUP(mesh_frames_done) struct mesh_frames g = {.payload_max = payload_max};
    enum status bytewise = ST_NOT_FOUND;
    for (size_t i = 0; i < stream.len && bytewise == ST_NOT_FOUND; i++) {
        mesh_frames_push(&g, bytes_of(stream.data + i, 1));
        bytewise = mesh_frames_next(&g, &frame);
    }
    assert_status(bytewise, whole);
    return whole;
}

static void what_is_no_frame_is_refused(void **ctx)
{
    (void)ctx;
    assert_status(first_of(BYTES("\x02\0\0\0\x01\x03ok"), 2), ST_OK);
    assert_status(first_of(BYTES("\x02\0\0\0\x01\x03o"), 2), ST_NOT_FOUND);
    assert_status(first_of(BYTES("\x03\0\0\0\x01\x03okk"), 2), ST_TOO_BIG);
    assert_status(first_of(BYTES("\xff\xff\xff\xff\x01\x03"), MESH_FRAME_MAX), ST_TOO_BIG);
    assert_status(first_of(BYTES("\0\0\0\0\x02\x03"), 2), ST_INVALID);
    assert_status(first_of(BYTES("\0\0\0\0\x01\x04"), 2), ST_INVALID);
    assert_status(first_of(BYTES("\0\0\0\0\x01\0"), 2), ST_INVALID);
}

static struct mesh_hello hello_of(const char *name)
{
    struct mesh_hello hello = {
        .protocol = 2, .id = 0x1122334455667788, .wanted = 2, .bulk = true, .feature = 0x0102};
    memset(hello.identity.cluster, 0xAB, sizeof hello.identity.cluster);
    memcpy(hello.identity.name, name, strlen(name));
    return hello;
}

/* The wire form, byte for byte: a node of the next version must still understand it. */
static void a_hello_has_its_written_form(void **ctx)
{
    static const char wire[] = "\x02\x00"
                               "\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB"
                               "\x88\x77\x66\x55\x44\x33\x22\x11"
                               "\x02\x00\x00\x00\x00\x00\x00\x00"
                               "\x01"
                               "\x02n1"
                               "\x02\x01";
    struct mesh_hello hello = hello_of("n1"), back;
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    mesh_hello_encode(&hello, &out);
    assert_true(bytes_eq(buf_bytes(&out), bytes_of(wire, sizeof wire - 1)));
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_OK);
    assert_memory_equal(&back.identity, &hello.identity, sizeof hello.identity);
    assert_int_equal(back.id, hello.id);
    assert_int_equal(back.wanted, 2);
    assert_true(back.bulk);
    assert_int_equal(back.feature, 0x0102);
}

/* A build of the first protocol sends no feature level: it understands the first one. */
static void a_hello_of_the_first_protocol_is_of_the_first_feature_level(void **ctx)
{
    struct mesh_hello hello = hello_of("n1"), back;
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    hello.protocol = 1;
    mesh_hello_encode(&hello, &out);
    assert_true(bytes_eq(bytes_of(out.data + out.len - 3, 3), BYTES("\x02n1")));
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_OK);
    assert_int_equal(back.feature, 1);
    buf_add_u16(&out, 2);
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_INVALID);
}

static void feature_level_zero_is_refused(void **ctx)
{
    struct mesh_hello hello = hello_of("n1"), back;
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    mesh_hello_encode(&hello, &out);
    out.data[out.len - 2] = out.data[out.len - 1] = 0;
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_INVALID);
}

static void a_hello_cut_anywhere_is_refused(void **ctx)
{
    struct mesh_hello hello = hello_of("n1"), back;
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    mesh_hello_encode(&hello, &out);
    for (size_t len = 0; len < out.len; len++)
        assert_status(mesh_hello_decode(bytes_of(out.data, len), &back), ST_INVALID);
    buf_add_u8(&out, 0);
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_INVALID);
}

static void a_later_protocol_may_say_more(void **ctx)
{
    struct mesh_hello hello = hello_of("n1"), back;
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    hello.protocol = 3;
    mesh_hello_encode(&hello, &out);
    buf_add_str(&out, "and more");
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_OK);
    assert_int_equal(back.protocol, 3);
}

static void names_in_a_hello_are_checked(void **ctx)
{
    enum { NAME_AT = 2 + MESH_CLUSTER_ID_BYTES + 8 + 8 + 1 };
    static const char *const bad[] = {"", "a b", "../x", "-n", "n\n1"};
    struct mesh_hello back;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct mesh_hello good = hello_of("n");
        CLEANUP(buf_done) struct buf out = {0};
        mesh_hello_encode(&good, &out);
        out.len = NAME_AT;
        buf_add_block(&out, bytes_str(bad[i]));
        buf_add_u16(&out, good.feature);
        assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_INVALID);
    }
    struct mesh_hello hello = hello_of("n1");
    CLEANUP(buf_done) struct buf out = {0};
    mesh_hello_encode(&hello, &out);
    out.data[out.len - 3] = '\0'; /* "n" and a zero, before the feature level */
    assert_status(mesh_hello_decode(buf_bytes(&out), &back), ST_INVALID);
}

static void a_frame_that_does_not_fit_memory_is_reported(void **ctx)
{
    CLEANUP(mesh_frames_done) struct mesh_frames f = {.payload_max = 100};
    struct mesh_frame frame;
    (void)ctx;
    mesh_frames_push(&f, BYTES("\x09\0\0"));
    (void)mem_fail_nth(1); /* nothing was requested before */
    assert_status(mesh_frames_next(&f, &frame), ST_NOMEM);
    assert_true(mem_fail_nth(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_found_however_they_are_cut),
        cmocka_unit_test(memory_of_a_large_frame_serves_the_next),
        cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(a_hello_has_its_written_form),
        cmocka_unit_test(a_hello_cut_anywhere_is_refused),
        cmocka_unit_test(a_later_protocol_may_say_more),
        cmocka_unit_test(a_hello_of_the_first_protocol_is_of_the_first_feature_level),
        cmocka_unit_test(feature_level_zero_is_refused),
        cmocka_unit_test(names_in_a_hello_are_checked),
        cmocka_unit_test(a_frame_that_does_not_fit_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
