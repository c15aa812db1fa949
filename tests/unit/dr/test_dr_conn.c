#include "cluster/dr/link/dr_conn.h"

#include "base/mem.h"
#include "cluster/dr/link/dr_conn_internal.h"
#include "cluster/dr/link/dr_run.h"
#include "dr/dr_frames.h"
#include "dr/dr_pair.h"

static struct dr_certs certs;

static int start(void **ctx)
{
    (void)ctx;
    dr_certs_init(&certs);
    return 0;
}

static int stop(void **ctx)
{
    (void)ctx;
    dr_certs_done(&certs);
    return 0;
}

static const struct dr_frame *frame_of(enum dr_type type)
{
    for (size_t i = 0; i < ARRAY_LEN(golden_frames); i++)
        if (golden_frames[i].frame.type == type)
            return &golden_frames[i].frame;
    fail_msg("no frame of type %u", (unsigned)type);
    return NULL;
}

static void frames_travel_both_ways(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    struct dr_cert_peer peer;
    struct dr_conn_stats stats;
    unsigned n[2] = {0, 0};
    (void)ctx;
    pair_open(&p, &certs);
    assert_status(dr_conn_peer(p.primary, &peer), ST_OK);
    assert_memory_equal(&peer.name, &east, sizeof east);
    assert_status(dr_conn_peer(p.secondary, &peer), ST_DENIED); /* a node */
    for (size_t i = 0; i < ARRAY_LEN(golden_frames); i++) {
        const struct golden_frame *g = &golden_frames[i];
        bool down = dr_frame_side(g->frame.type) == DR_PRIMARY;
        CLEANUP(buf_done) struct buf again = {0};
        struct bytes data;
        assert_status(dr_conn_send(down ? p.primary : p.secondary, &g->frame, soon()), ST_OK);
        assert_status(dr_conn_receive(down ? p.secondary : p.primary, soon(), &f), ST_OK);
        dr_frame_encode(&f, &again, &data);
        buf_add(&again, data);
        assert_bytes(buf_bytes(&again), golden_bytes(g));
        n[down]++;
    }
    dr_conn_stats(p.primary, &stats);
    assert_int_equal(stats.frames_sent, n[1]);
    assert_int_equal(stats.frames_received, n[0]);
    assert_int_equal(stats.data_sent, sizeof "abclz4 lz4nodes" - 1);
    assert_true(stats.wire_sent > stats.data_sent);
    dr_conn_stats(p.secondary, &stats);
    assert_int_equal(stats.data_received, sizeof "abclz4 lz4nodes" - 1);
    assert_string_equal(dr_conn_address(p.secondary), p.port.address);
    pair_done(&p);
}

static void bytes_that_came_before_the_handover_count(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    struct bytes hello = golden_of(DR_HELLO);
    (void)ctx;
    pair_by_hand(&p, &certs, 0);
    buf_add(&p.port.got.early, hello);
    buf_add(&p.port.got.early, bytes_of(golden_of(DR_PING).data, 7));
    assert_status(dr_conn_new(DR_PRIMARY, 0, &p.primary), ST_OK);
    dr_conn_adopt(p.primary, &p.port.got);
    assert_status(dr_conn_receive(p.primary, soon(), &f), ST_OK);
    assert_string_equal(f.hello.id, "east-1");
    assert_status(dr_conn_receive(p.primary, shortly(), &f), ST_TIMEOUT);
    pair_done(&p);
}

/* The frame that was returned stays as it is while this side sends and the peer's next frame
 * comes. */
static void a_frame_is_borrowed_until_the_next_one(void **ctx)
{
    struct dr_pair p;
    struct dr_frame first, f = *frame_of(DR_REFUSE);
    (void)ctx;
    pair_open(&p, &certs);
    assert_status(dr_conn_send(p.primary, &f, soon()), ST_OK);
    f.refuse.text = BYTES("other text");
    assert_status(dr_conn_send(p.primary, &f, soon()), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &first), ST_OK);
    assert_status(dr_conn_send(p.secondary, frame_of(DR_ACK), soon()), ST_OK);
    assert_bytes(first.refuse.text, BYTES("too old"));
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_bytes(f.refuse.text, BYTES("other text"));
    pair_done(&p);
}

/* Content of several frames */

struct sending {
    struct dr_conn *conn;
    struct bytes records;
    enum status st;
};

static void *send_run(void *ctx)
{
    struct sending *s = ctx;
    s->st = dr_conn_send_run(s->conn, &(struct dr_wal){.first = 5, .last = 9}, s->records, soon());
    return NULL;
}

static void long_runs_arrive_whole(void **ctx)
{
    enum { LEN = 3 * DR_RAW_MAX + 77 };
    struct dr_pair p;
    struct dr_frame f;
    struct bytes got;
    pthread_t thread;
    CLEANUP(dr_run_done) struct dr_run run = {0};
    CLEANUP(buf_done) struct buf records = {0};
    enum status st = ST_NOT_FOUND;
    (void)ctx;
    uint8_t *at = buf_extend(&records, LEN);
    assert_status(crypto_random(at, LEN / 2), ST_OK);
    memset(at + LEN / 2, 'x', LEN - LEN / 2);
    pair_open(&p, &certs);
    struct sending s = {.conn = p.primary, .records = buf_bytes(&records)};
    assert_int_equal(pthread_create(&thread, NULL, send_run, &s), 0);
    while (st == ST_NOT_FOUND) {
        assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
        assert_int_equal(f.type, DR_WAL);
        st = dr_run_add(&run, &f.wal, &got);
    }
    assert_status(st, ST_OK);
    assert_bytes(got, buf_bytes(&records));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(s.st, ST_OK);
    pair_done(&p);
}

static void data_of_a_sync_arrives(void **ctx)
{
    static uint8_t raw[1000], to[1000];
    struct dr_pair p;
    struct dr_frame f;
    (void)ctx;
    memset(raw, 'y', sizeof raw);
    pair_open(&p, &certs);
    assert_status(dr_conn_send_data(p.primary, 12345, bytes_of(raw, sizeof raw), soon()), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_int_equal(f.sync_data.offset, 12345);
    assert_true(f.sync_data.block.packed);
    assert_int_equal(f.sync_data.block.raw_bytes, sizeof raw);
    assert_status(dr_block_unpack(&f.sync_data.block, to), ST_OK);
    assert_memory_equal(to, raw, sizeof raw);
    pair_done(&p);
}

/* Whether a piece of a sync with this content arrives compressed. */
static bool piece_is_packed(const struct dr_pair *p, struct bytes raw)
{
    static uint8_t to[1000];
    struct dr_frame f;
    assert_status(dr_conn_send_data(p->primary, 0, raw, soon()), ST_OK);
    assert_status(dr_conn_receive(p->secondary, soon(), &f), ST_OK);
    assert_status(dr_block_unpack(&f.sync_data.block, to), ST_OK);
    assert_memory_equal(to, raw.data, raw.len);
    return f.sync_data.block.packed;
}

static void content_that_does_not_compress_is_tried_now_and_then(void **ctx)
{
    static uint8_t dense[1000], thin[1000];
    struct dr_pair p;
    (void)ctx;
    assert_status(crypto_random(dense, sizeof dense), ST_OK);
    memset(thin, 'y', sizeof thin);
    pair_open(&p, &certs);
    assert_true(piece_is_packed(&p, bytes_of(thin, sizeof thin)));
    for (int round = 0; round < 3; round++) {
        assert_false(piece_is_packed(&p, bytes_of(dense, sizeof dense)));
        for (int i = 0; i < 15; i++)
            assert_false(piece_is_packed(&p, bytes_of(thin, sizeof thin)));
        assert_true(piece_is_packed(&p, bytes_of(thin, sizeof thin)));
        assert_true(piece_is_packed(&p, bytes_of(thin, sizeof thin)));
    }
    pair_done(&p);
}

enum { ROUNDS = 4, REQUESTS = 100, KERNEL_BYTES = 8192 };

/* The secondary's part: many small frames, then the primary's large one. */
static void *answer_large(void *ctx)
{
    struct sending *s = ctx;
    static uint8_t pem[DR_PUBLIC_MAX];
    struct dr_frame f,
        request = {.type = DR_CERT_REQUEST, .cert_request = {bytes_of(pem, sizeof pem)}};
    for (int round = 0; round < ROUNDS && s->st == ST_OK; round++) {
        for (int i = 0; i < REQUESTS && s->st == ST_OK; i++)
            s->st = dr_conn_send(s->conn, &request, soon());
        if (s->st == ST_OK)
            s->st = dr_conn_receive(s->conn, soon(), &f);
        if (s->st == ST_OK && (f.type != DR_WAL || f.wal.block.raw_bytes != DR_RAW_MAX))
            s->st = ST_INTERNAL;
    }
    return NULL;
}

/* Buffers of the kernel hold far less than each side sends before it reads. */
static void large_frames_travel_both_ways_at_once(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    pthread_t thread;
    CLEANUP(buf_done) struct buf records = {0};
    (void)ctx;
    assert_status(crypto_random(buf_extend(&records, DR_RAW_MAX), DR_RAW_MAX), ST_OK);
    p = (struct dr_pair){0};
    port_open(&p.port, port_options(&certs));
    p.port.send_bytes = KERNEL_BYTES;
    small_buffer(p.port.listener, SO_RCVBUF, KERNEL_BYTES);
    assert_status(dr_conn_new(DR_SECONDARY, 0, &p.secondary), ST_OK);
    assert_status(dial(&p.port, p.secondary, context_of(&certs, &certs.secondary)), ST_OK);
    small_buffer(p.secondary->fd, SO_SNDBUF, KERNEL_BYTES);
    assert_status(dr_conn_new(DR_PRIMARY, 0, &p.primary), ST_OK);
    dr_conn_adopt(p.primary, &p.port.got);
    struct sending s = {.conn = p.secondary, .st = ST_OK};
    assert_int_equal(pthread_create(&thread, NULL, answer_large, &s), 0);
    for (int round = 0; round < ROUNDS; round++) {
        assert_status(dr_conn_send_run(p.primary, &(struct dr_wal){.first = 1, .last = 1},
                                       buf_bytes(&records), soon()),
                      ST_OK);
        for (int i = 0; i < REQUESTS; i++) {
            assert_status(dr_conn_receive(p.primary, soon(), &f), ST_OK);
            assert_int_equal(f.type, DR_CERT_REQUEST);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(s.st, ST_OK);
    pair_done(&p);
}

/* Peers that break the protocol */

static void what_is_no_frame_ends_the_connection(void **ctx)
{
    static const struct {
        const char *wire;
        size_t bytes;
        enum status st;
        const char *why;
    } cases[] = {
        {"\xff\xff\xff\xff\x12", 5, ST_TOO_BIG, "the peer sent a frame that is too long"},
        {"\x1e\x00\x10\x00\x12", 5, ST_TOO_BIG, "the peer sent a frame that is too long"},
        {"\x09\0\0\0\x14", 5, ST_TOO_BIG, "the peer sent a frame that is too long"},
        {"\x08\0\0\0\x02", 5, ST_INVALID, "the peer sent what is no frame"}, /* our own side's */
        {"\x08\0\0\0\xff", 5, ST_INVALID, "the peer sent what is no frame"},
        {"\0\0\0\0\x14", 5, ST_INVALID, "the peer sent what is no frame"},
        {"\x07\0\0\0\x14xxxxxxx", 12, ST_INVALID, "the peer sent a malformed frame"},
        /* content that says it has 256 MiB */
        {"\x1e\0\0\0\x12\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\x10z", 35,
         ST_INVALID, "the peer sent a malformed frame"},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct dr_pair p;
        struct dr_frame f;
        pair_by_hand(&p, &certs, 0);
        by_hand(&p, bytes_of(cases[i].wire, cases[i].bytes));
        assert_status(dr_conn_receive(p.secondary, soon(), &f), cases[i].st);
        assert_string_equal(dr_conn_error(p.secondary), cases[i].why);
        assert_status(dr_conn_receive(p.secondary, soon(), &f), cases[i].st); /* for good */
        pair_done(&p);
    }
}

/* A block that says it has a whole mebibyte passes as a frame, and ends where it is opened. */
static void a_bomb_is_refused_when_it_is_opened(void **ctx)
{
    static const char wire[] = "\x27\0\0\0\x12\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0"
                               "\1\0\0\x10\0\x1fx\1\0\xff\xff\xff\xff\xff\0";
    struct dr_pair p;
    struct dr_frame f;
    struct bytes got;
    CLEANUP(dr_run_done) struct dr_run run = {0};
    (void)ctx;
    pair_by_hand(&p, &certs, 0);
    by_hand(&p, bytes_of(wire, sizeof wire - 1));
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_int_equal(f.wal.block.raw_bytes, DR_RAW_MAX);
    assert_status(dr_run_add(&run, &f.wal, &got), ST_INVALID);
    pair_done(&p);
}

static void half_a_frame_waits_for_its_other_half(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    struct bytes wire = golden_of(DR_WELCOME);
    (void)ctx;
    pair_by_hand(&p, &certs, 0);
    by_hand(&p, bytes_of(wire.data, 3));
    assert_status(dr_conn_receive(p.secondary, shortly(), &f), ST_TIMEOUT);
    by_hand(&p, bytes_of(wire.data + 3, 20));
    assert_status(dr_conn_receive(p.secondary, shortly(), &f), ST_TIMEOUT);
    assert_status(dr_conn_receive(p.secondary, 0, &f), ST_TIMEOUT);
    by_hand(&p, bytes_from(wire, 23));
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_int_equal(f.welcome.version, 99);
    pair_done(&p);
}

static void half_a_frame_does_not_wait_for_ever(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    enum status st = ST_TIMEOUT;
    (void)ctx;
    pair_by_hand(&p, &certs, 300);
    assert_status(dr_conn_receive(p.secondary, dr_conn_now_ms() + 500, &f),
                  ST_TIMEOUT); /* silence is no frame */
    by_hand(&p, bytes_of(golden_of(DR_WELCOME).data, 20));
    int64_t began_ms = dr_conn_now_ms();
    for (int i = 0; i < 1000 && st == ST_TIMEOUT; i++) {
        struct timespec pause = {.tv_nsec = 20000000}; /* time of ours does not count */
        (void)nanosleep(&pause, NULL);
        st = dr_conn_receive(p.secondary, dr_conn_now_ms() + 20, &f);
    }
    assert_status(st, ST_IO);
    assert_true(dr_conn_now_ms() - began_ms >= 450);
    assert_string_equal(dr_conn_error(p.secondary), "the peer stopped within a frame");
    pair_done(&p);
}

/* Ends */

static void a_peer_that_closes_between_frames_has_closed(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    (void)ctx;
    pair_by_hand(&p, &certs, 0);
    by_hand(&p, golden_of(DR_CHECKPOINT));
    tls_close_notify(p.port.got.tls);
    assert_true(by_hand_flush(&p.port.got));
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_CLOSED);
    assert_string_equal(dr_conn_error(p.secondary), "the peer closed the connection");
    pair_done(&p);
}

static void a_peer_that_closes_within_a_frame_is_cut(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    (void)ctx;
    for (size_t len = 1; len < 12; len += 5) {
        pair_by_hand(&p, &certs, 0);
        by_hand(&p, bytes_of(golden_of(DR_CHECKPOINT).data, len));
        tls_close_notify(p.port.got.tls);
        assert_true(by_hand_flush(&p.port.got));
        assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_IO);
        assert_string_equal(dr_conn_error(p.secondary), "the peer closed within a frame");
        pair_done(&p);
    }
}

static void a_peer_that_says_no_goodbye_is_cut(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    (void)ctx;
    pair_by_hand(&p, &certs, 0);
    by_hand(&p, golden_of(DR_CHECKPOINT));
    assert_int_equal(shutdown(p.port.got.fd, SHUT_WR), 0);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_IO);
    assert_string_equal(dr_conn_error(p.secondary), "the connection was cut");
    pair_done(&p);
}

/* The primary refuses and closes while the secondary sends: the refusal must not be lost. */
static void a_refusal_is_received_after_the_peer_closed(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    enum status st = ST_OK;
    (void)ctx;
    pair_open(&p, &certs);
    assert_status(dr_conn_send(p.primary, frame_of(DR_REFUSE), soon()), ST_OK);
    dr_conn_close(p.primary);
    for (int i = 0; i < 100000 && st == ST_OK; i++)
        st = dr_conn_send(p.secondary, frame_of(DR_PING), soon());
    assert_status(st, ST_IO);
    assert_status(dr_conn_send(p.secondary, frame_of(DR_PING), soon()), ST_IO);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);
    assert_int_equal(f.refuse.code, DR_REFUSE_EPOCH);
    assert_bytes(f.refuse.text, BYTES("too old"));
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_CLOSED);
    pair_done(&p);
}

static void a_peer_that_does_not_read_times_out(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    enum status st = ST_OK;
    CLEANUP(buf_done) struct buf records = {0};
    (void)ctx;
    assert_status(crypto_random(buf_extend(&records, DR_RAW_MAX), DR_RAW_MAX), ST_OK);
    pair_open(&p, &certs);
    for (int i = 0; i < 100 && st == ST_OK; i++)
        st = dr_conn_send_run(p.primary, &(struct dr_wal){.first = 1, .last = 1},
                              buf_bytes(&records), shortly());
    assert_status(st, ST_TIMEOUT);
    assert_string_equal(dr_conn_error(p.primary), "the peer does not read");
    /* Half a frame is on its way: nothing may follow, and waiting is of no use. */
    assert_status(dr_conn_send(p.primary, frame_of(DR_CHECKPOINT), soon()), ST_IO);
    assert_status(dr_conn_receive(p.primary, soon(), &f), ST_IO);
    pair_done(&p);
}

/* Other threads */

struct poking {
    struct dr_conn *conn;
    void (*poke)(struct dr_conn *conn);
};

static void *poke_soon(void *ctx)
{
    const struct poking *p = ctx;
    struct timespec pause = {.tv_nsec = 100000000};
    (void)nanosleep(&pause, NULL);
    p->poke(p->conn);
    return NULL;
}

static void another_thread_ends_a_wait(void **ctx)
{
    struct dr_pair p;
    struct dr_frame f;
    pthread_t thread;
    (void)ctx;
    pair_open(&p, &certs);
    struct poking poking = {p.secondary, dr_conn_wake};
    assert_int_equal(pthread_create(&thread, NULL, poke_soon, &poking), 0);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_TIMEOUT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    dr_conn_wake(p.secondary); /* counts for the next receive, once, and ends no send */
    assert_status(dr_conn_send(p.secondary, frame_of(DR_PING), soon()), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_TIMEOUT);
    assert_status(dr_conn_send(p.primary, frame_of(DR_CHECKPOINT), soon()), ST_OK);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_OK);

    poking.poke = dr_conn_cancel;
    int64_t began_ms = dr_conn_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, poke_soon, &poking), 0);
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_CLOSED);
    assert_true(dr_conn_now_ms() - began_ms < PATIENCE_MS / 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(dr_conn_error(p.secondary), "cancelled");
    assert_status(dr_conn_receive(p.secondary, soon(), &f), ST_CLOSED);
    assert_status(dr_conn_send(p.secondary, frame_of(DR_PING), soon()), ST_CLOSED);
    pair_done(&p);
}

static void another_thread_ends_a_send(void **ctx)
{
    struct dr_pair p;
    enum status st = ST_OK;
    pthread_t thread;
    CLEANUP(buf_done) struct buf records = {0};
    (void)ctx;
    assert_status(crypto_random(buf_extend(&records, DR_RAW_MAX), DR_RAW_MAX), ST_OK);
    pair_open(&p, &certs);
    struct poking poking = {p.primary, dr_conn_cancel};
    assert_int_equal(pthread_create(&thread, NULL, poke_soon, &poking), 0);
    for (int i = 0; i < 1000 && st == ST_OK; i++)
        st = dr_conn_send_run(p.primary, &(struct dr_wal){.first = 1, .last = 1},
                              buf_bytes(&records), soon());
    assert_status(st, ST_CLOSED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_done(&p);
}

/* A port that accepts TCP and says nothing. */
static void a_dial_ends_at_its_deadline_or_when_cancelled(void **ctx)
{
    struct dr_port port;
    struct dr_conn *conn;
    pthread_t thread;
    struct tls_ctx *tls = context_of(&certs, &certs.secondary);
    (void)ctx;
    port_open(&port, port_options(&certs));
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dr_conn_dial(conn, port.address, tls, shortly()), ST_TIMEOUT);
    assert_string_equal(dr_conn_error(conn), "the TLS handshake timed out");
    struct poking poking = {conn, dr_conn_cancel};
    assert_int_equal(pthread_create(&thread, NULL, poke_soon, &poking), 0);
    assert_status(dr_conn_dial(conn, port.address, tls, soon()), ST_CLOSED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(dr_conn_dial(conn, port.address, tls, soon()), ST_CLOSED);
    dr_conn_free(conn);
    tls_ctx_unref(tls);
    port_close(&port);
}

static void a_dial_that_failed_may_be_tried_again(void **ctx)
{
    struct dr_port port;
    struct dr_conn *conn;
    struct tls_ctx *tls = context_of(&certs, &certs.secondary);
    (void)ctx;
    port_open(&port, port_options(&certs));
    assert_int_equal(close(port.listener), 0);
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dr_conn_dial(conn, port.address, tls, soon()), ST_IO);
    assert_string_equal(dr_conn_error(conn), "connecting failed: Connection refused");
    assert_status(dr_conn_dial(conn, "no port", tls, soon()), ST_INVALID);
    assert_status(dr_conn_dial(conn, "a.host.invalid:1", tls, soon()), ST_IO);
    port_open(&port, port_options(&certs));
    assert_status(dial(&port, conn, tls), ST_OK);
    assert_string_equal(dr_conn_error(conn), "");
    dr_conn_free(conn);
    port_close(&port);
}

/* Memory: every allocation of a conversation fails in turn. */
static void allocations_that_fail_are_reported(void **ctx)
{
    bool failed = true;
    (void)ctx;
    for (uint64_t n = 1; failed; n++) {
        struct dr_pair p;
        struct dr_frame f;
        assert_true(n < 100);
        pair_open(&p, &certs);
        (void)mem_fail_nth(n); /* nothing was requested before */
        enum status sent = dr_conn_send_data(p.primary, 0, BYTES("content"), soon());
        enum status got = sent == ST_OK ? dr_conn_receive(p.secondary, soon(), &f) : ST_NOMEM;
        failed = mem_fail_nth(0);
        assert_status(got, failed ? ST_NOMEM : ST_OK);
        pair_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_travel_both_ways),
        cmocka_unit_test(bytes_that_came_before_the_handover_count),
        cmocka_unit_test(a_frame_is_borrowed_until_the_next_one),
        cmocka_unit_test(long_runs_arrive_whole),
        cmocka_unit_test(data_of_a_sync_arrives),
        cmocka_unit_test(content_that_does_not_compress_is_tried_now_and_then),
        cmocka_unit_test(large_frames_travel_both_ways_at_once),
        cmocka_unit_test(what_is_no_frame_ends_the_connection),
        cmocka_unit_test(a_bomb_is_refused_when_it_is_opened),
        cmocka_unit_test(half_a_frame_waits_for_its_other_half),
        cmocka_unit_test(half_a_frame_does_not_wait_for_ever),
        cmocka_unit_test(a_peer_that_closes_between_frames_has_closed),
        cmocka_unit_test(a_peer_that_closes_within_a_frame_is_cut),
        cmocka_unit_test(a_peer_that_says_no_goodbye_is_cut),
        cmocka_unit_test(a_refusal_is_received_after_the_peer_closed),
        cmocka_unit_test(a_peer_that_does_not_read_times_out),
        cmocka_unit_test(another_thread_ends_a_wait),
        cmocka_unit_test(another_thread_ends_a_send),
        cmocka_unit_test(a_dial_ends_at_its_deadline_or_when_cancelled),
        cmocka_unit_test(a_dial_that_failed_may_be_tried_again),
        cmocka_unit_test(allocations_that_fail_are_reported),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
