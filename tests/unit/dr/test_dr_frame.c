#include "cluster/dr/link/dr_frame.h"

#include "base/mem.h"
#include "dr/dr_frames.h"

#include <stdio.h>

/* Header and payload together, as they travel. */
static void encode_whole(const struct dr_frame *frame, struct buf *out)
{
    struct bytes data;
    dr_frame_encode(frame, out, &data);
    buf_add(out, data);
    assert_status(buf_status(out), ST_OK);
}

static enum status decode_whole(struct bytes wire, enum dr_side from, struct dr_frame *ret_frame)
{
    enum dr_type type;
    uint32_t bytes;
    assert_true(wire.len >= DR_HEADER_BYTES);
    TRY(dr_frame_header(wire.data, from, &type, &bytes));
    assert_int_equal(bytes, wire.len - DR_HEADER_BYTES);
    return dr_frame_decode(type, bytes_from(wire, DR_HEADER_BYTES), ret_frame);
}

/* The wire form, byte for byte: the next version must still understand it. */
static void every_frame_has_its_written_form(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(golden_frames); i++) {
        const struct golden_frame *g = &golden_frames[i];
        CLEANUP(buf_done) struct buf out = {0}, again = {0};
        struct dr_frame back;
        encode_whole(&g->frame, &out);
        if (!bytes_eq(buf_bytes(&out), golden_bytes(g)))
            print_error("frame %zu, type %u\n", i, (unsigned)g->frame.type);
        assert_bytes(buf_bytes(&out), golden_bytes(g));
        assert_status(decode_whole(golden_bytes(g), dr_frame_side(g->frame.type), &back), ST_OK);
        encode_whole(&back, &again);
        assert_bytes(buf_bytes(&again), golden_bytes(g));
    }
}

static void a_decoded_frame_has_its_fields(void **ctx)
{
    struct dr_frame f;
    (void)ctx;
    assert_status(decode_whole(golden_of(DR_HELLO), DR_SECONDARY, &f), ST_OK);
    assert_int_equal(f.hello.feature, 4);
    assert_int_equal(f.hello.purpose, DR_SYNC);
    assert_int_equal(f.hello.epoch, 3);
    assert_int_equal(f.hello.position, 0x0102030405060708);
    assert_string_equal(f.hello.id, "east-1");
    assert_status(decode_whole(golden_of(DR_WELCOME), DR_PRIMARY, &f), ST_OK);
    assert_int_equal(f.welcome.addresses.n, 2);
    assert_string_equal(f.welcome.addresses.at[0], "a:8201");
    assert_string_equal(f.welcome.addresses.at[1], "[::1]:8201");
    assert_int_equal(f.welcome.time_ms, 1000);
    assert_status(decode_whole(golden_of(DR_WAL), DR_PRIMARY, &f), ST_OK);
    assert_int_equal(f.wal.first, 7);
    assert_int_equal(f.wal.last, 9);
    assert_bytes(f.wal.block.data, BYTES("abc"));
    assert_status(decode_whole(golden_of(DR_PONG), DR_PRIMARY, &f), ST_OK);
    assert_true(f.pong.renew && !f.pong.confirm);
}

static enum status header_of(uint32_t bytes, unsigned type, enum dr_side from)
{
    uint8_t header[DR_HEADER_BYTES];
    enum dr_type ret_type;
    uint32_t ret_bytes;
    le32_put(header, bytes);
    header[4] = (uint8_t)type;
    return dr_frame_header(header, from, &ret_type, &ret_bytes);
}

static void every_frame_cut_or_extended_is_refused(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(golden_frames); i++) {
        struct bytes payload = bytes_from(golden_bytes(&golden_frames[i]), DR_HEADER_BYTES);
        enum dr_type type = golden_frames[i].frame.type;
        CLEANUP(buf_done) struct buf more = {0};
        struct dr_frame f;
        /* The length of compressed data is judged when it is decompressed. */
        bool packed = type == DR_SYNC_DATA || type == DR_DIFF_WANT;
        for (size_t len = 0; len < payload.len - (packed ? 6 : 0); len++)
            assert_status(dr_frame_decode(type, bytes_of(payload.data, len), &f), ST_INVALID);
        buf_add(&more, payload);
        buf_add_u8(&more, 0);
        if (header_of((uint32_t)more.len, type, dr_frame_side(type)) == ST_OK && !packed)
            assert_status(dr_frame_decode(type, buf_bytes(&more), &f), ST_INVALID);
    }
}

static void each_side_sends_its_own_types_only(void **ctx)
{
    (void)ctx;
    for (unsigned type = 0; type < 256; type++) {
        bool secondary = type >= DR_HELLO && type <= DR_DIFF_WANT;
        bool primary = type >= DR_WELCOME && type <= DR_DIFFERS;
        assert_status(header_of(8, type, DR_SECONDARY), secondary ? ST_OK : ST_INVALID);
        assert_status(header_of(8, type, DR_PRIMARY), primary ? ST_OK : ST_INVALID);
    }
}

static void a_length_above_the_types_is_refused(void **ctx)
{
    static const struct {
        enum dr_type type;
        uint32_t most;
    } rows[] = {
        {DR_HELLO, 1024},
        {DR_CREDIT, 8},
        {DR_ACK, 16},
        {DR_ROOT, 40},
        {DR_PING, 485},
        {DR_CERT_REQUEST, 1027},
        {DR_WELCOME, 4309},
        {DR_REFUSE, 524},
        {DR_WAL, 1048576 + 29},
        {DR_TOO_OLD, 8},
        {DR_CHECKPOINT, 8},
        {DR_SYNC_BEGIN, 24},
        {DR_SYNC_DATA, 1048576 + 13},
        {DR_SYNC_END, 44},
        {DR_PONG, 4477},
        {DR_CERT, 16387},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum dr_side from = dr_frame_side(rows[i].type);
        assert_status(header_of(rows[i].most, rows[i].type, from), ST_OK);
        assert_status(header_of(rows[i].most + 1, rows[i].type, from), ST_TOO_BIG);
        assert_status(header_of(UINT32_MAX, rows[i].type, from), ST_TOO_BIG);
        assert_status(header_of(0, rows[i].type, from), ST_INVALID);
    }
}

/* Replace `n` bytes of a golden payload. */
struct damage {
    enum dr_type type;
    size_t at, n;
    const char *bytes;
};

static void fields_out_of_bounds_are_refused(void **ctx)
{
    static const struct damage damages[] = {
        {DR_HELLO, 0, 2, "\0\0"},                                /* protocol 0 */
        {DR_HELLO, 2, 2, "\0\0"},                                /* feature 0 */
        {DR_HELLO, 4, 1, "\0"},                                  /* purpose 0 */
        {DR_HELLO, 4, 1, "\6"},                                  /* no such purpose */
        {DR_HELLO, 21, 8, "\0\0\0\0\0\0\0\0"},                   /* epoch 0 */
        {DR_HELLO, 37, 8, "\0\0\0\0\0\0\0\xff"},                 /* a negative time */
        {DR_HELLO, 45, 1, "\0"},                                 /* an id without bytes */
        {DR_HELLO, 46, 1, "-"},                                  /* a bad first character */
        {DR_HELLO, 47, 1, "\0"},                                 /* a zero in the id */
        {DR_HELLO, 48, 1, "/"},                                  /* another path */
        {DR_CREDIT, 0, 8, "\0\0\0\0\0\0\0\0"},                   /* no credit */
        {DR_PING, 32, 8, "\0\0\0\0\0\0\0\xff"},                  /* a negative time */
        {DR_PING, 32, 8, "\0\0\0\0\0\0\1\0"},                    /* a time after the year 9999 */
        {DR_PING, 56, 2, "\x09\x1f"},                            /* a URL that is not printable */
        {DR_PING, 66, 1, "\x4"},                                 /* an address that is cut off */
        {DR_CERT_REQUEST, 0, 1, "\0"},                           /* no key */
        {DR_WELCOME, 0, 2, "\0\0"},                              /* protocol 0 */
        {DR_WELCOME, 0, 2, "\2\0"},                              /* a protocol we do not speak */
        {DR_WELCOME, 2, 2, "\0\0"},                              /* feature 0 */
        {DR_WELCOME, 20, 8, "\0\0\0\0\0\0\0\0"},                 /* epoch 0 */
        {DR_WELCOME, 36, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"}, /* a negative time */
        {DR_WELCOME, 44, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"}, /* a negative time */
        {DR_WELCOME, 52, 1, "\1"},                               /* fewer addresses */
        {DR_WELCOME, 52, 1, "\3"},                               /* more addresses */
        {DR_WELCOME, 54, 6, "a 8201"},                           /* no address */
        {DR_WELCOME, 54, 6, " :8201"},                           /* a space */
        {DR_WELCOME, 54, 6, "a\0:201"},                          /* a zero */
        {DR_REFUSE, 0, 1, "\0"},                                 /* no code */
        {DR_REFUSE, 10, 1, "\x1b"},                              /* a control character */
        {DR_REFUSE, 10, 1, "\xc3"},                              /* not ASCII */
        {DR_WAL, 0, 8, "\0\0\0\0\0\0\0\0"},                      /* version 0 */
        {DR_WAL, 8, 8, "\6\0\0\0\0\0\0\0"},                      /* last below first */
        {DR_WAL, 16, 4, "\2\0\0\0"},                             /* a run shorter than the block */
        {DR_WAL, 16, 4, "\1\0\0\1"},                             /* a run too long */
        {DR_WAL, 20, 4, "\1\0\0\0"},                             /* the block leaves the run */
        {DR_WAL, 20, 4, "\xff\xff\xff\xff"},                     /* an offset that wraps */
        {DR_WAL, 24, 1, "\1"},                                   /* packed, but not smaller */
        {DR_WAL, 24, 1, "\2"},                                   /* no such form */
        {DR_WAL, 25, 4, "\0\0\0\0"},                             /* no content */
        {DR_WAL, 25, 4, "\1\0\20\0"},                            /* above 1 MiB */
        {DR_SYNC_BEGIN, 16, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"}, /* a negative time */
        {DR_SYNC_DATA, 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"},   /* an offset that wraps */
        {DR_SYNC_DATA, 8, 1, "\2"},                                 /* no such form */
        {DR_PONG, 56, 1, "\10"},                                    /* no such flag */
        {DR_PONG, 24, 8, "\0\0\0\0\0\0\0\0"},                       /* no stamp */
        {DR_PONG, 32, 8, "\0\0\0\0\0\0\0\xff"},                     /* a negative time */
        {DR_PONG, 57, 2, "\x09\n"}, /* a URL that is not printable */
        {DR_PONG, 67, 1, "\x11"},   /* 17 addresses */
        {DR_CERT, 0, 1, "\0"},      /* no certificate */
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        const struct damage *d = &damages[i];
        CLEANUP(buf_done) struct buf payload = {0};
        struct dr_frame f;
        buf_add(&payload, bytes_from(golden_of(d->type), DR_HEADER_BYTES));
        assert_true(d->at + d->n <= payload.len);
        memcpy(payload.data + d->at, d->bytes, d->n);
        enum status st = dr_frame_decode(d->type, buf_bytes(&payload), &f);
        if (st != ST_INVALID)
            print_error("damage %zu\n", i);
        assert_status(st, ST_INVALID);
    }
}

static void a_hello_of_a_later_protocol_may_say_more(void **ctx)
{
    CLEANUP(buf_done) struct buf payload = {0};
    struct dr_frame f;
    (void)ctx;
    buf_add(&payload, bytes_from(golden_of(DR_HELLO), DR_HEADER_BYTES));
    buf_add_str(&payload, "and more");
    assert_status(dr_frame_decode(DR_HELLO, buf_bytes(&payload), &f), ST_INVALID);
    payload.data[0] = 2;
    assert_status(dr_frame_decode(DR_HELLO, buf_bytes(&payload), &f), ST_OK);
    assert_int_equal(f.hello.protocol, 2);
    assert_string_equal(f.hello.id, "east-1");
}

static void the_largest_frames_fit(void **ctx)
{
    struct dr_frame f = {.type = DR_WELCOME,
                         .welcome = {.protocol = 1, .feature = 1, .epoch = UINT64_MAX}};
    char address[DR_ADDRESS_MAX];
    CLEANUP(buf_done) struct buf out = {0};
    struct dr_frame back;
    (void)ctx;
    memset(address, 'h', sizeof address);
    (void)snprintf(address + TEXT_HOST_BYTES, sizeof address - TEXT_HOST_BYTES, ":65535");
    for (int i = 0; i < DR_ADDRESSES_MAX; i++)
        assert_status(dr_addresses_add(&f.welcome.addresses, bytes_str(address)), ST_OK);
    assert_status(dr_addresses_add(&f.welcome.addresses, BYTES("one:1")), ST_TOO_BIG);
    encode_whole(&f, &out);
    assert_status(decode_whole(buf_bytes(&out), DR_PRIMARY, &back), ST_OK);
    assert_int_equal(back.welcome.addresses.n, DR_ADDRESSES_MAX);
    assert_string_equal(back.welcome.addresses.at[15], address);
    assert_status(dr_addresses_add(&(struct dr_addresses){0}, bytes_of(address, sizeof address)),
                  ST_INVALID);
}

static void out_of_memory_is_reported(void **ctx)
{
    struct buf out = {0};
    struct bytes data;
    (void)ctx;
    (void)mem_fail_nth(1); /* nothing was requested before */
    dr_frame_encode(&golden_frames[0].frame, &out, &data);
    assert_true(mem_fail_nth(0));
    assert_status(buf_status(&out), ST_NOMEM);
    buf_done(&out);
}

static void refusals_have_texts(void **ctx)
{
    (void)ctx;
    for (unsigned code = DR_REFUSE_REVOKED; code <= DR_REFUSE_DIVERGED; code++)
        assert_string_not_equal(dr_refusal_text(code), dr_refusal_text(0));
    assert_string_equal(dr_refusal_text(DR_REFUSE_DIVERGED + 1), "no known reason");
    assert_string_equal(dr_refusal_text(255), "no known reason");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_has_its_written_form),
        cmocka_unit_test(a_decoded_frame_has_its_fields),
        cmocka_unit_test(every_frame_cut_or_extended_is_refused),
        cmocka_unit_test(each_side_sends_its_own_types_only),
        cmocka_unit_test(a_length_above_the_types_is_refused),
        cmocka_unit_test(fields_out_of_bounds_are_refused),
        cmocka_unit_test(a_hello_of_a_later_protocol_may_say_more),
        cmocka_unit_test(the_largest_frames_fit),
        cmocka_unit_test(out_of_memory_is_reported),
        cmocka_unit_test(refusals_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
