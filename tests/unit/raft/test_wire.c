/* Frames between replicas: each kind is encoded and decoded, and every malformed frame is refused.
 * */
#include "golden.h"

#include "base/mem.h"
#include "raft/replica/rlog_wire.h"
#include "text/time.h"

static uint8_t payload[] = "payload";

static const struct rlog_entry two[2] = {
    {.term = 8, .type = RLOG_COMMAND, .data = {payload, sizeof payload}},
    {.term = 300, .type = RLOG_BARRIER, .data = {payload, 3}},
};

#define CORE(raft_type, member, ...)                                                      \
    {                                                                                     \
        .kind = RLOG_FRAME_CORE, .core.raft = {.type = raft_type, .member = __VA_ARGS__ } \
    }

/* One frame of every kind. */
static const struct rlog_frame samples[] = {
    {.kind = RLOG_FRAME_CORE,
     .core = {.raft = {.type = RAFT_APPEND_ENTRIES,
                       .append_entries = {.term = 9,
                                          .prev_log_index = 700,
                                          .prev_log_term = 8,
                                          .leader_commit = 690,
                                          .n_entries = 2}},
              .entries = two}},
    CORE(RAFT_APPEND_ENTRIES, append_entries, {.term = 9}),
    CORE(RAFT_APPEND_ENTRIES_RESULT, append_entries_result,
         {.term = 9, .rejected = 5, .last_log_index = 4}),
    CORE(RAFT_REQUEST_VOTE, request_vote,
         {.term = 9,
          .candidate_id = 3,
          .last_log_index = 70,
          .last_log_term = 8,
          .disrupt_leader = true}),
    CORE(RAFT_REQUEST_VOTE_RESULT, request_vote_result,
         {.term = 9, .vote_granted = true, .pre_vote = true}),
    CORE(RAFT_TIMEOUT_NOW, timeout_now, {.term = 9, .last_log_index = 70, .last_log_term = 8}),
    {.kind = RLOG_FRAME_ASK,
     .ask = {.term = 9, .round = 77, .commit = 69, .time_ms = 1700000000000}},
    {.kind = RLOG_FRAME_REPLY, .ask = {.term = 9, .round = 77, .time_ms = 1700000000001}},
    {.kind = RLOG_FRAME_READ, .read = {.number = 12}},
    {.kind = RLOG_FRAME_READ_INDEX,
     .read = {.number = 12, .term = 9, .index = 69, .time_ms = 1700000000000}},
    {.kind = RLOG_FRAME_CHUNK,
     .chunk = {.term = 9,
               .transfer = 4,
               .index = 50,
               .snap_term = 7,
               .size = 1000,
               .offset = 100,
               .data = {payload, sizeof payload}}},
    {.kind = RLOG_FRAME_CHUNK_REPLY,
     .chunk_reply = {.transfer = 4, .offset = 108, .state = RLOG_CHUNK_DONE}},
    {.kind = RLOG_FRAME_COMMIT, .ask = {.term = 9, .commit = 69}},
};

enum { APPEND = 0, VOTE_RESULT = 4, TIMEOUT_NOW = 5, ASK = 6, READ_INDEX = 9, CHUNK = 10 };

static void encode(const struct rlog_frame *f, struct buf *out)
{
    rlog_wire_encode(f, out);
    if (f->kind == RLOG_FRAME_CORE && f->core.raft.type == RAFT_APPEND_ENTRIES)
        for (unsigned i = 0; i < f->core.raft.append_entries.n_entries; i++)
            buf_add(out, f->core.entries[i].data);
    if (f->kind == RLOG_FRAME_CHUNK)
        buf_add(out, f->chunk.data);
    assert_status(buf_status(out), ST_OK);
}

static void every_kind_comes_back_as_it_went(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf out = {0}, again = {0};
        struct rlog_frame f = samples[i], back;
        encode(&f, &out);
        assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_OK);
        assert_int_equal(back.kind, f.kind);
        encode(&back, &again);
        assert_bytes(buf_bytes(&again), buf_bytes(&out));
        rlog_frame_done(&back);
        buf_done(&out);
        buf_done(&again);
    }
}

static void frames_of_a_time_after_the_year_9998_are_refused(void **ctx)
{
    (void)ctx;
    static const uint64_t late[] = {TEXT_CLOCK_END, INT64_MAX / 2, INT64_MAX, UINT64_MAX};
    for (unsigned i = ASK; i <= READ_INDEX; i++) {
        CLEANUP(buf_done) struct buf out = {0};
        struct rlog_frame back;
        if (samples[i].kind == RLOG_FRAME_READ)
            continue; /* has no time */
        encode(&samples[i], &out);
        uint8_t *time = out.data + out.len - 8; /* last in each of them */
        le64_put(time, TEXT_CLOCK_END - 1);
        assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_OK);
        for (size_t j = 0; j < ARRAY_LEN(late); j++) {
            le64_put(time, late[j]);
            assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
        }
    }
}

static void entries_come_back_in_one_block(void **ctx)
{
    (void)ctx;
    struct buf out = {0};
    struct rlog_frame f = samples[APPEND], back;
    encode(&f, &out);
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_OK);
    assert_int_equal(back.core.raft.append_entries.n_entries, 2);
    assert_int_equal(back.entries[1].term, 300);
    assert_int_equal(back.entries[1].type, RLOG_BARRIER);
    assert_bytes(back.entries[0].data, two[0].data);
    assert_bytes(back.entries[1].data, two[1].data);
    assert_ptr_equal(back.entries[0].block, back.entries[1].block);
    rlog_frame_done(&back);
    buf_done(&out);
}

static void no_shorter_or_longer_frame_is_taken(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf out = {0};
        struct rlog_frame f = samples[i], back;
        encode(&f, &out);
        for (size_t len = 0; len < out.len; len++)
            if (f.kind != RLOG_FRAME_CHUNK || len < out.len - sizeof payload)
                assert_status(rlog_wire_decode(bytes_of(out.data, len), &back), ST_INVALID);
        buf_add_u8(&out, 0);
        if (f.kind != RLOG_FRAME_CHUNK)
            assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
        buf_done(&out);
    }
}

static void a_later_version_is_refused(void **ctx)
{
    (void)ctx;
    struct buf out = {0};
    struct rlog_frame f = samples[TIMEOUT_NOW], back;
    encode(&f, &out);
    out.data[0] = 2;
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
    buf_done(&out);
}

static void a_flag_is_zero_or_one(void **ctx)
{
    (void)ctx;
    struct buf out = {0};
    struct rlog_frame f = samples[VOTE_RESULT], back;
    encode(&f, &out);
    out.data[out.len - 1] = 2;
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
    buf_done(&out);
}

static void counts_and_lengths_are_bounded(void **ctx)
{
    (void)ctx;
    struct buf out = {0};
    struct rlog_frame f = samples[APPEND], back;
    encode(&f, &out);
    le32_put(out.data + 2 + 32, 0xffffffff);
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
    le32_put(out.data + 2 + 32, 3);
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
    buf_done(&out);

    f = samples[CHUNK];
    f.chunk.offset = 990; /* beyond the size */
    encode(&f, &out);
    f.chunk.offset = 993;
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_OK);
    le64_put(out.data + 2 + 40, 993);
    assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
    buf_done(&out);
}

/* The sample with one byte, or eight, of other content. */
static enum status changed(unsigned sample, size_t at, size_t n, uint64_t value)
{
    struct buf out = {0};
    struct rlog_frame f = samples[sample], back;
    encode(&f, &out);
    assert_true(at + n <= out.len);
    if (n == 1)
        out.data[at] = (uint8_t)value;
    else
        le64_put(out.data + at, value);
    enum status st = rlog_wire_decode(buf_bytes(&out), &back);
    if (st == ST_OK)
        rlog_frame_done(&back);
    buf_done(&out);
    return st;
}

static void what_no_node_would_say_is_refused(void **ctx)
{
    (void)ctx;
    enum { BODY = 2, TERM = BODY, INDEX = BODY + 16, SNAP_TERM = BODY + 24, SIZE = BODY + 32 };
    assert_status(changed(CHUNK, TERM, 8, 7), ST_OK);
    assert_status(changed(CHUNK, TERM, 8, 6), ST_INVALID); /* a snapshot of a later term */
    assert_status(changed(CHUNK, TERM, 8, 0), ST_INVALID);
    assert_status(changed(CHUNK, INDEX, 8, 0), ST_INVALID);
    assert_status(changed(CHUNK, SNAP_TERM, 8, 0), ST_INVALID);
    assert_status(changed(CHUNK, SIZE, 8, 100 + sizeof payload), ST_OK);
    assert_status(changed(CHUNK, SIZE, 8, 100 + sizeof payload - 1), ST_INVALID);
    assert_status(changed(CHUNK, SIZE, 8, 99), ST_INVALID);
    assert_status(changed(CHUNK + 1, BODY + 16, 1, RLOG_CHUNK_REFUSED), ST_OK);
    assert_status(changed(CHUNK + 1, BODY + 16, 1, RLOG_CHUNK_REFUSED + 1), ST_INVALID);
    /* The kind of the first entry, behind its term; kinds of frames. */
    size_t kind = BODY + 36 + (two[0].term < 128 ? 1 : 2);
    assert_status(changed(APPEND, kind, 1, two[0].type), ST_OK);
    assert_status(changed(APPEND, kind, 1, RLOG_COMMAND - 1), ST_INVALID);
    assert_status(changed(APPEND, kind, 1, RLOG_CHANGE + 1), ST_INVALID);
    assert_status(changed(TIMEOUT_NOW, 1, 1, RAFT_INSTALL_SNAPSHOT), ST_INVALID);
    assert_status(changed(TIMEOUT_NOW, 1, 1, 0), ST_INVALID);
    assert_status(changed(TIMEOUT_NOW, 1, 1, RLOG_FRAME_COMMIT + 1), ST_INVALID);
}

/* Lengths whose sum is right only because it wrapped. */
static void no_entry_is_longer_than_entries_are(void **ctx)
{
    (void)ctx;
    static const uint64_t lengths[][2] = {{UINT64_MAX - 4, 16}, {16, UINT64_MAX - 4}};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct buf whole = {0}, out = {0};
        struct rlog_frame f = samples[APPEND], back;
        encode(&f, &whole);
        buf_add(&out, bytes_of(whole.data, 2 + 36));
        for (int j = 0; j < 2; j++) {
            buf_add_varint(&out, 8);
            buf_add_u8(&out, RLOG_COMMAND);
            buf_add_varint(&out, lengths[i][j]);
        }
        buf_add(&out, bytes_of(payload, 8));
        buf_add(&out, bytes_of(payload, 3));
        assert_status(rlog_wire_decode(buf_bytes(&out), &back), ST_INVALID);
        buf_done(&whole);
        buf_done(&out);
    }
}

static void decoding_survives_each_failed_allocation(void **ctx)
{
    (void)ctx;
    struct buf out = {0};
    struct rlog_frame f = samples[APPEND], back;
    encode(&f, &out);
    for (uint64_t n = 1;; n++) {
        (void)mem_fail_nth(n);
        enum status st = rlog_wire_decode(buf_bytes(&out), &back);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            rlog_frame_done(&back);
            break;
        }
        assert_status(st, ST_NOMEM);
    }
    buf_done(&out);
}

static void the_bytes_are_those_of_version_1(void **ctx)
{
    (void)ctx;
    struct buf all = {0}, golden = {0};
    for (unsigned i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf out = {0};
        struct rlog_frame f = samples[i];
        encode(&f, &out);
        buf_add_block(&all, buf_bytes(&out));
        buf_done(&out);
    }
    golden_make("frames-1.bin", buf_bytes(&all));
    golden_read("frames-1.bin", &golden);
    assert_bytes(buf_bytes(&all), buf_bytes(&golden));
    buf_done(&all);
    buf_done(&golden);
}

static struct rlog_conf three(void)
{
    struct rlog_conf conf = {.n = 3};
    for (unsigned i = 0; i < 3; i++) {
        conf.members[i].id = i + 1;
        conf.members[i].role = i == 2 ? RLOG_STANDBY : RLOG_VOTER;
        (void)snprintf(conf.members[i].name, sizeof conf.members[i].name, "node%u", i);
        (void)snprintf(conf.members[i].address, sizeof conf.members[i].address, "h%u:8201", i);
    }
    return conf;
}

static void a_configuration_comes_back_and_libraft_reads_it(void **ctx)
{
    (void)ctx;
    struct rlog_conf conf = three(), back;
    struct rlog_conf_bytes encoded;
    struct raft_configuration raft;
    assert_status(rlog_conf_encode(&conf, &encoded), ST_OK);
    assert_status(rlog_conf_decode(bytes_of(encoded.bytes, encoded.len), &back), ST_OK);
    assert_memory_equal(&conf, &back, sizeof conf);
    struct raft_buffer in = {encoded.bytes, encoded.len}, out;
    assert_int_equal(raft_configuration_decode(&in, &raft), 0);
    assert_int_equal(raft.n, 3);
    assert_int_equal(raft.servers[2].role, RAFT_STANDBY);
    assert_int_equal(raft_configuration_encode(&raft, &out), 0);
    assert_bytes(bytes_of(out.base, out.len), bytes_of(encoded.bytes, encoded.len));
    raft_free(out.base);
    raft_configuration_close(&raft);
}

static void no_cut_or_changed_configuration_breaks_the_decoder(void **ctx)
{
    (void)ctx;
    struct rlog_conf conf = three(), back;
    struct rlog_conf_bytes encoded;
    assert_status(rlog_conf_encode(&conf, &encoded), ST_OK);
    for (uint32_t len = 0; len < encoded.len; len++) {
        uint8_t *exact = mem_alloc(len); /* so that a read behind the end is seen */
        memcpy(exact, encoded.bytes, len);
        assert_status(rlog_conf_decode(bytes_of(exact, len), &back), ST_INVALID);
        mem_free(exact);
    }
    for (uint32_t at = 0; at < encoded.len * 8; at++) {
        struct rlog_conf_bytes changed = encoded;
        changed.bytes[at / 8] ^= (uint8_t)(1 << at % 8);
        enum status st = rlog_conf_decode(bytes_of(changed.bytes, changed.len), &back);
        assert_true(st == ST_OK || st == ST_INVALID);
    }
}

static void a_configuration_without_a_voter_is_refused(void **ctx)
{
    (void)ctx;
    struct rlog_conf conf = three();
    struct rlog_conf_bytes encoded;
    conf.members[0].role = conf.members[1].role = RLOG_SPARE;
    assert_status(rlog_conf_encode(&conf, &encoded), ST_INVALID);
    conf = three();
    conf.members[1].id = 1;
    assert_status(rlog_conf_encode(&conf, &encoded), ST_INVALID);
    conf = three();
    conf.members[1].name[2] = ' ';
    assert_status(rlog_conf_encode(&conf, &encoded), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_went),
        cmocka_unit_test(frames_of_a_time_after_the_year_9998_are_refused),
        cmocka_unit_test(entries_come_back_in_one_block),
        cmocka_unit_test(no_shorter_or_longer_frame_is_taken),
        cmocka_unit_test(a_later_version_is_refused),
        cmocka_unit_test(a_flag_is_zero_or_one),
        cmocka_unit_test(counts_and_lengths_are_bounded),
        cmocka_unit_test(what_no_node_would_say_is_refused),
        cmocka_unit_test(no_entry_is_longer_than_entries_are),
        cmocka_unit_test(decoding_survives_each_failed_allocation),
        cmocka_unit_test(the_bytes_are_those_of_version_1),
        cmocka_unit_test(a_configuration_comes_back_and_libraft_reads_it),
        cmocka_unit_test(no_cut_or_changed_configuration_breaks_the_decoder),
        cmocka_unit_test(a_configuration_without_a_voter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
