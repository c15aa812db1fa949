#include "mesh/mesh_raw.h"

static void start_waiting(struct world *w, unsigned greeting_ms)
{
    struct mesh_options options = options_of(w, 0, "a");
    options.greeting_ms = greeting_ms;
    options.small_queue_bytes = 64 * 1024;
    options.bulk_queue_bytes = 1024 * 1024;
    start_with(w, 0, &options);
}

static void start_first(struct world *w)
{
    start_waiting(w, PATIENCE_MS);
}

static void assert_logged(const char *why)
{
    if (strstr(logged, why) == NULL)
        print_error("\"%s\" is not in the log:\n%s", why, logged);
    assert_non_null(strstr(logged, why));
}

/* What was sent must end the connection, for this reason, and nothing reach the node. */
static void assert_dropped(struct raw *raw, const char *why)
{
    struct world *w = raw->w;
    run_until(w, raw_ended, raw);
    assert_logged(why);
    assert_int_equal(w->nodes[0].received, 0);
    assert_int_equal(stats(&w->nodes[0]).links_in, 0);
    raw_done(raw);
}

static void assert_refused(struct raw *raw, enum mesh_refusal refusal)
{
    run_until(raw->w, raw_answered, raw);
    assert_int_equal(raw->got.data[5], MESH_REFUSE);
    assert_int_equal(raw->got.data[MESH_HEADER_BYTES], refusal);
    assert_dropped(raw, mesh_refusal_text(refusal));
    assert_int_equal(stats(&raw->w->nodes[0]).accepts_refused, 1);
}

/* A link of n2 that n1 believes in. */
static void raw_linked(struct raw *raw, struct world *w, bool bulk)
{
    struct mesh_hello hello = good_hello(w);
    hello.bulk = bulk;
    raw_node(raw, w, "a", "n2");
    raw_hello(raw, &hello);
    run_until(w, raw_answered, raw);
    assert_int_equal(raw->got.data[5], MESH_HELLO);
    buf_clear(&raw->got);
}

static void garbage_before_tls_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_connect(&raw, w, 0);
    raw_say(&raw, BYTES("SSH-2.0-OpenSSH_9.2\r\nrubbish"));
    assert_dropped(&raw, "wrong version number");
}

static void plain_http_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_connect(&raw, w, 0);
    raw_say(&raw, BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_dropped(&raw, "http request");
}

static void garbage_after_tls_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_node(&raw, w, "a", "n2");
    raw_say(&raw, BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
    assert_dropped(&raw, "what came is no frame");
}

static void a_frame_too_long_for_a_greeting_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    uint8_t header[MESH_HEADER_BYTES];
    start_first(w);
    raw_node(&raw, w, "a", "n2");
    mesh_header_encode(MESH_HELLO, MESH_GREETING_MAX + 1, header);
    raw_say(&raw, bytes_of(header, sizeof header));
    assert_dropped(&raw, "a frame is too long");
}

static void data_before_hello_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_node(&raw, w, "a", "n2");
    raw_frame(&raw, MESH_DATA, BYTES("vote for me"));
    assert_dropped(&raw, "the first frame is not a hello");
}

static void a_broken_hello_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_node(&raw, w, "a", "n2");
    raw_frame(&raw, MESH_HELLO, BYTES("\x01"));
    assert_dropped(&raw, "the first frame is not a hello");
}

static bool one_link(void *ctx)
{
    raw_step(ctx);
    return stats(&((struct raw *)ctx)->w->nodes[0]).links_in == 1;
}

static void an_oversized_frame_ends_a_link(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    static const uint8_t header[] = {1, 0, 0x90, 0, 1, MESH_DATA}; /* MESH_FRAME_MAX + 1 */
    start_first(w);
    raw_linked(&raw, w, false);
    run_until(w, one_link, &raw);
    raw_say(&raw, bytes_of(header, sizeof header));
    assert_dropped(&raw, "a frame is too long");
}

static void a_second_hello_ends_a_link(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    raw_linked(&raw, w, false);
    raw_hello(&raw, &hello);
    assert_dropped(&raw, "an unexpected frame came");
}

static void a_silent_connection_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_waiting(w, 300);
    raw_connect(&raw, w, 0);
    assert_dropped(&raw, "the greeting timed out");
}

static void a_half_open_handshake_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_waiting(w, 300);
    raw_connect(&raw, w, 0);
    raw_say(&raw, BYTES("\x16\x03\x01\x02")); /* the first bytes of a ClientHello */
    assert_dropped(&raw, "the greeting timed out");
}

static void a_node_that_says_no_hello_is_dropped(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_waiting(w, 1000);
    raw_node(&raw, w, "a", "n2");
    assert_dropped(&raw, "the greeting timed out");
}

static void too_many_silent_connections_push_out_the_oldest(void **ctx)
{
    enum { CROWD = 70 };
    struct world *w = *ctx;
    static struct raw crowd[CROWD];
    struct raw raw;
    start_first(w);
    uint64_t before_ms = env_mono_ms(w->env);
    for (unsigned i = 0; i < CROWD; i++)
        raw_connect(&crowd[i], w, 0);
    run_until(w, raw_ended, &crowd[0]);
    assert_true(env_mono_ms(w->env) - before_ms >= 1000); /* it had its time */
    assert_logged("too many unknown connections");
    raw_linked(&raw, w, false); /* a node still gets in */
    raw_done(&raw);
    for (unsigned i = 0; i < CROWD; i++)
        raw_done(&crowd[i]);
}

static void the_log_of_refusals_is_bounded(void **ctx)
{
    enum { CROWD = 40 };
    struct world *w = *ctx;
    static struct raw crowd[CROWD];
    start_first(w);
    uint64_t before_ms = env_mono_ms(w->env);
    for (unsigned i = 0; i < CROWD; i++) {
        raw_connect(&crowd[i], w, 0);
        raw_say(&crowd[i], BYTES("rubbish rubbish"));
    }
    for (unsigned i = 0; i < CROWD; i++)
        run_until(w, raw_ended, &crowd[i]);
    unsigned lines = 0;
    for (const char *at = logged; (at = strstr(at, "refused a connection")) != NULL; at++)
        lines++;
    uint64_t windows = 1 + (env_mono_ms(w->env) - before_ms) / 10000;
    assert_in_range(lines, 10, 10 * windows);
    assert_int_equal(stats(&w->nodes[0]).accepts_refused, CROWD);
    for (unsigned i = 0; i < CROWD; i++)
        raw_done(&crowd[i]);
}

static void assert_handshake_refused(struct world *w, struct tls_options options, const char *why)
{
    struct raw raw;
    start_first(w);
    raw_connect(&raw, w, 0);
    raw_tls(&raw, options);
    assert_dropped(&raw, why);
}

static void a_client_without_a_certificate_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct tls_options options = {.ca.path = file(w, "a", "ca", ".pem"), .alpn = "http/1.1"};
    assert_handshake_refused(w, options, "peer did not return a certificate");
}

static void start_for_unauthenticated(struct world *w)
{
    struct mesh_options options = options_of(w, 0, "a");
    options.events.unauthenticated = on_unauthenticated;
    start_with(w, 0, &options);
}

static bool unauthenticated_came(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return raw->w->nodes[0].unauthenticated != 0;
}

static void a_stranger_that_knows_the_cas_hash_may_speak_http(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    uint8_t hash[32];
    CLEANUP(buf_done) struct buf pem = {0};
    assert_status(tls_pem_read(file(w, "a", "ca", ".pem"), &pem, NULL), ST_OK);
    assert_status(cert_fingerprint(buf_bytes(&pem), hash), ST_OK);
    start_for_unauthenticated(w);
    raw_connect(&raw, w, 0);
    raw_tls(&raw, (struct tls_options){.ca_sha256 = hash, .alpn = "http/1.1"});
    run_until(w, unauthenticated_came, &raw);
    assert_int_equal(w->nodes[0].http, 0);
    raw_done(&raw);
}

static bool raw_failed(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return tls_conn_phase(raw->tls) == TLS_FAILED;
}

static void a_stranger_that_knows_another_cas_hash_says_nothing(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    uint8_t hash[32];
    CLEANUP(buf_done) struct buf pem = {0};
    /* Nor is the node's own certificate an authority; and every byte counts. */
    static const char *const names[] = {"tls-ca", "n1", "ca"};
    start_for_unauthenticated(w);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        buf_clear(&pem);
        assert_status(tls_pem_read(file(w, "a", names[i], ".pem"), &pem, NULL), ST_OK);
        assert_status(cert_fingerprint(buf_bytes(&pem), hash), ST_OK);
        hash[31] ^= i == 2 ? 1 : 0;
        raw_connect(&raw, w, 0);
        raw_tls(&raw, (struct tls_options){.ca_sha256 = hash, .alpn = "http/1.1"});
        run_until(w, raw_failed, &raw);
        raw_done(&raw);
    }
    assert_int_equal(w->nodes[0].unauthenticated, 0);
}

static void a_stranger_may_not_speak_raft(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_for_unauthenticated(w);
    raw_connect(&raw, w, 0);
    raw_tls(&raw,
            (struct tls_options){.ca.path = file(w, "a", "ca", ".pem"), .alpn = "holdfast-raft/1"});
    assert_dropped(&raw, "the certificate names no node");
    assert_int_equal(w->nodes[0].unauthenticated, 0);
}

static void a_certificate_of_another_cluster_is_no_strangers(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_for_unauthenticated(w);
    raw_connect(&raw, w, 0);
    raw_tls(&raw, raw_options(w, "b", "n2", "http/1.1"));
    assert_dropped(&raw, "unable to get local issuer certificate");
    assert_int_equal(w->nodes[0].unauthenticated, 0);
}

static void a_node_of_another_cluster_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_handshake_refused(w, raw_options(w, "b", "n2", "holdfast-raft/1"),
                             "unable to get local issuer certificate");
}

static void an_expired_node_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_handshake_refused(w, raw_options(w, "old", "n2", "http/1.1"), "certificate has expired");
}

static void a_certificate_of_the_clients_ca_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_handshake_refused(w, raw_options(w, "a", "tls-n2", "http/1.1"),
                             "unable to get local issuer certificate");
}

static void an_unknown_protocol_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_handshake_refused(w, raw_options(w, "a", "n2", "h2"), "no application protocol");
}

static void a_node_without_a_protocol_is_refused(void **ctx)
{
    struct world *w = *ctx;
    assert_handshake_refused(w, raw_options(w, "a", "n2", NULL), "(ALPN)");
}

/* The CA's own key signs a node of a cluster it is not the CA of: the name decides. */
static void the_right_ca_with_another_cluster_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct reason reason = {""};
    static const struct cert_san san = {CERT_SAN_URI,
                                        "holdfast://00000000000000000000000000000000/node/n2"};
    struct cert_request request = {.common_name = "n2",
                                   .sans = &san,
                                   .n_sans = 1,
                                   .not_before_s = time(NULL) - 60,
                                   .not_after_s = time(NULL) + 60,
                                   .client = true};
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    CLEANUP(cert_pair_done) struct cert_pair n2 = {0};
    assert_status(tls_pem_read(file(w, "a", "ca", ".pem"), &ca.cert, &reason), ST_OK);
    assert_status(tls_pem_read(file(w, "a", "ca-key", ".pem"), &ca.key, &reason), ST_OK);
    assert_status(cert_make(&request, &ca, &n2, &reason), ST_OK);
    struct tls_options options = {.ca.path = file(w, "a", "ca", ".pem"),
                                  .cert.text = buf_bytes(&n2.cert),
                                  .key.text = buf_bytes(&n2.key),
                                  .alpn = "holdfast-raft/1"};
    assert_handshake_refused(w, options, "the peer's certificate is not for holdfast://");
}

static void a_hello_of_another_cluster_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    hello.identity.cluster[3] ^= 1;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_CLUSTER);
}

static void a_hello_with_anothers_name_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    hello.identity.name[1] = '3';
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_NAME);
}

static void a_node_with_our_own_name_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    hello.identity.name[1] = '1';
    raw_node(&raw, w, "a", "n1");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_NAME);
}

static void an_id_of_another_name_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    w->nodes[0].refuse_id = 2;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_ID);
}

static void a_removed_node_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    w->nodes[0].removed = "n2";
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_REMOVED);
}

/* But a node that has no replica yet looks for any raft id, and may call with an old one. */
static void a_raft_id_from_before_a_recovery_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    w->nodes[0].superseded = 2;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_SUPERSEDED);
    hello.wanted = 0;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    run_until(w, raw_answered, &raw);
    assert_int_equal(raw.got.data[5], MESH_HELLO);
    raw_done(&raw);
}

static void a_node_of_an_older_feature_level_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    w->nodes[0].feature = 3;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_FEATURE);
}

/* A build of the first protocol knows no refusal because of the feature level. */
static void a_node_of_the_first_protocol_is_refused_in_its_own_terms(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    w->nodes[0].feature = 2;
    hello.protocol = 1;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    run_until(w, raw_answered, &raw);
    assert_int_equal(raw.got.data[5], MESH_REFUSE);
    assert_int_equal(raw.got.data[MESH_HEADER_BYTES], MESH_REFUSE_VERSION);
    assert_dropped(&raw, mesh_refusal_text(MESH_REFUSE_FEATURE));
}

static void our_own_id_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    hello.id = 1;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_ID);
}

static void a_caller_who_looks_for_another_id_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    hello.wanted = 5;
    raw_node(&raw, w, "a", "n2");
    raw_hello(&raw, &hello);
    assert_refused(&raw, MESH_REFUSE_WANTED);
}

static bool node_received(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return raw->w->nodes[0].received != 0;
}

static void the_sender_is_the_connections(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_first(w);
    raw_linked(&raw, w, false);
    raw_frame(&raw, MESH_DATA, BYTES("I am 3"));
    run_until(w, node_received, &raw);
    assert_int_equal(w->nodes[0].from, 2);
    assert_string_equal(w->nodes[0].from_name, "n2");
    raw_done(&raw);
}

static void a_newer_link_takes_the_place_of_the_old(void **ctx)
{
    struct world *w = *ctx;
    struct raw old, bulk, newer;
    start_first(w);
    raw_linked(&old, w, false);
    raw_linked(&bulk, w, true);
    raw_linked(&newer, w, false);
    run_until(w, raw_ended, &old);
    assert_logged("a newer link took its place");
    assert_int_equal(stats(&w->nodes[0]).links_in, 2);
    assert_false(bulk.ended);
    raw_done(&old);
    raw_done(&bulk);
    raw_done(&newer);
}

static void an_id_in_use_by_another_name_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw n2, n3;
    struct mesh_hello hello = good_hello(w);
    start_first(w);
    raw_linked(&n2, w, false);
    hello.identity.name[1] = '3';
    raw_node(&n3, w, "a", "n3");
    raw_hello(&n3, &hello);
    run_until(w, raw_answered, &n3);
    assert_int_equal(n3.got.data[5], MESH_REFUSE);
    assert_int_equal(n3.got.data[MESH_HEADER_BYTES], MESH_REFUSE_ID);
    assert_int_equal(stats(&w->nodes[0]).links_in, 1);
    raw_done(&n2);
    raw_done(&n3);
}

static bool small_arrived(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return raw->got.len == MESH_HEADER_BYTES + 5;
}

static void a_reader_that_stands_still_costs_bounded_memory(void **ctx)
{
    struct world *w = *ctx;
    struct raw bulk, small;
    static uint8_t zeroes[256 * 1024];
    struct bytes frame = bytes_of(zeroes, sizeof zeroes);
    start_first(w);
    raw_linked(&bulk, w, true);
    raw_linked(&small, w, false);
    bulk.deaf = true;
    for (unsigned i = 0; stats(&w->nodes[0]).frames_dropped_full < 20; i++) {
        assert_true(i < 1000); /* the kernel's buffers end somewhere */
        mesh_send(w->nodes[0].mesh, 2, &frame, 1, true);
        run_for(w, 1);
    }
    send_str(&w->nodes[0], 2, "small", false);
    run_until(w, small_arrived, &small);
    assert_int_equal(stats(&w->nodes[0]).links_in, 2);
    raw_done(&bulk);
    raw_done(&small);
}

static bool got_http(void *ctx)
{
    struct raw *raw = ctx;
    if (raw->tls != NULL)
        raw_step(raw);
    return raw->w->nodes[0].http != 0;
}

/* Read everything the new owner of the connection can. */
static void read_web(struct mesh_http *web, struct buf *got)
{
    uint8_t chunk[1000];
    size_t n = 0;
    buf_add(got, buf_bytes(&web->early));
    for (;;) {
        while (tls_read(web->tls, chunk, sizeof chunk, &n) == ST_OK && n != 0)
            buf_add(got, bytes_of(chunk, n));
        ssize_t len = TEMP_FAILURE_RETRY(recv(web->fd, chunk, sizeof chunk, 0));
        if (len <= 0)
            return;
        assert_status(tls_feed(web->tls, bytes_of(chunk, (size_t)len)), ST_OK);
    }
}

static bool said_all(void *ctx)
{
    struct raw *raw = ctx;
    if (tls_conn_phase(raw->tls) == TLS_HANDSHAKE) {
        raw_step(raw);
        return false;
    }
    raw_say(raw, BYTES("GET /v1/sys/health HTTP/1.1\r\n"));
    raw_step(raw);
    return true;
}

static void http_is_handed_over_with_all_its_bytes(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    CLEANUP(buf_done) struct buf got = {0}, out = {0};
    static const char request[] = "GET /v1/sys/health HTTP/1.1\r\n\r\n";
    start_first(w);
    raw_connect(&raw, w, 0);
    raw_tls(&raw, raw_options(w, "a", "n2", "http/1.1"));
    run_until(w, said_all, &raw);
    run_until(w, got_http, &raw);
    raw_say(&raw, BYTES("\r\n"));
    raw_step(&raw);
    struct mesh_http *web = &w->nodes[0].web;
    assert_string_equal(web->peer_name, "n2");
    assert_memory_equal(web->peer_address, "127.0.0.1:", 10);
    for (unsigned tries = 0; got.len < sizeof request - 1; tries++) {
        assert_true(tries < 5000);
        buf_clear(&got);
        read_web(web, &got);
        web->early.len = 0;
        run_for(w, 1);
    }
    assert_true(bytes_eq(buf_bytes(&got), BYTES("GET /v1/sys/health HTTP/1.1\r\n\r\n")));

    struct bytes answer = BYTES("HTTP/1.1 200 OK\r\n\r\n");
    assert_status(tls_write(web->tls, &answer, 1), ST_OK);
    tls_take_out(web->tls, &out);
    assert_int_equal(TEMP_FAILURE_RETRY(send(web->fd, out.data, out.len, 0)), out.len);
    run_until(w, raw_answered, &raw);
    assert_true(bytes_eq(buf_bytes(&raw.got), answer));
    assert_int_equal(stats(&w->nodes[0]).http_accepted, 1);
    assert_int_equal(stats(&w->nodes[0]).accepts_refused, 0);
    raw_done(&raw);
}

static void http_is_refused_where_it_is_not_served(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_options options = options_of(w, 0, "a");
    struct raw raw;
    options.events.http = NULL;
    start_with(w, 0, &options);
    raw_connect(&raw, w, 0);
    raw_tls(&raw, raw_options(w, "a", "n2", "http/1.1"));
    assert_dropped(&raw, "HTTP is not served here");
}

static void the_client_for_http_trusts_the_named_node_only(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_identity n2 = *mesh_identity((start(w, 0), start(w, 1), w->nodes[1].mesh));
    struct raw raw;
    char uri[MESH_URI_MAX];
    mesh_uri(&n2, uri);
    struct tls_target target = {.uri = uri};
    for (unsigned to = 0; to < 2; to++) {
        raw_connect(&raw, w, to);
        raw.ctx = tls_ctx_ref(mesh_tls_client(w->nodes[0].mesh));
        assert_status(tls_conn_new(raw.ctx, &target, &raw.tls), ST_OK);
        if (to == 1) {
            run_until(w, raw_open, &raw);
            assert_string_equal(tls_alpn(raw.tls), "http/1.1");
        } else {
            run_until(w, raw_ended, &raw);
            assert_int_equal(tls_conn_phase(raw.tls), TLS_FAILED);
        }
        raw_done(&raw);
    }
}

#define node_test(f) cmocka_unit_test_setup_teardown(f, nodes_init, nodes_done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        node_test(garbage_before_tls_is_dropped),
        node_test(plain_http_is_dropped),
        node_test(garbage_after_tls_is_dropped),
        node_test(a_frame_too_long_for_a_greeting_is_dropped),
        node_test(data_before_hello_is_dropped),
        node_test(a_broken_hello_is_dropped),
        node_test(an_oversized_frame_ends_a_link),
        node_test(a_second_hello_ends_a_link),
        node_test(a_silent_connection_is_dropped),
        node_test(a_half_open_handshake_is_dropped),
        node_test(a_node_that_says_no_hello_is_dropped),
        node_test(too_many_silent_connections_push_out_the_oldest),
        node_test(the_log_of_refusals_is_bounded),
        node_test(a_client_without_a_certificate_is_refused),
        node_test(a_stranger_that_knows_the_cas_hash_may_speak_http),
        node_test(a_stranger_that_knows_another_cas_hash_says_nothing),
        node_test(a_stranger_may_not_speak_raft),
        node_test(a_certificate_of_another_cluster_is_no_strangers),
        node_test(a_removed_node_is_refused),
        node_test(a_raft_id_from_before_a_recovery_is_refused),
        node_test(a_node_of_an_older_feature_level_is_refused),
        node_test(a_node_of_the_first_protocol_is_refused_in_its_own_terms),
        node_test(a_node_of_another_cluster_is_refused),
        node_test(an_expired_node_is_refused),
        node_test(a_certificate_of_the_clients_ca_is_refused),
        node_test(an_unknown_protocol_is_refused),
        node_test(a_node_without_a_protocol_is_refused),
        node_test(the_right_ca_with_another_cluster_is_refused),
        node_test(a_hello_of_another_cluster_is_refused),
        node_test(a_hello_with_anothers_name_is_refused),
        node_test(a_node_with_our_own_name_is_refused),
        node_test(an_id_of_another_name_is_refused),
        node_test(our_own_id_is_refused),
        node_test(a_caller_who_looks_for_another_id_is_refused),
        node_test(the_sender_is_the_connections),
        node_test(a_newer_link_takes_the_place_of_the_old),
        node_test(an_id_in_use_by_another_name_is_refused),
        node_test(a_reader_that_stands_still_costs_bounded_memory),
        node_test(http_is_handed_over_with_all_its_bytes),
        node_test(http_is_refused_where_it_is_not_served),
        node_test(the_client_for_http_trusts_the_named_node_only),
    };
    return cmocka_run_group_tests(tests, world_init, world_done);
}
