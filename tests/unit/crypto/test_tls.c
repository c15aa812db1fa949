#include "crypto/tls_pair.h"

#include "base/mem.h"

#include <openssl/err.h>
#include <pthread.h>

static struct pki pki;

static int setup(void **ctx)
{
    (void)ctx;
    pki_init(&pki);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx;
    pki_done(&pki);
    return 0;
}

static const struct tls_target localhost = {.host = "localhost"};

static void write_str(struct tls_conn *conn, const char *text)
{
    struct bytes part = bytes_str(text);
    assert_status(tls_write(conn, &part, 1), ST_OK);
}

static void assert_got(struct buf *got, const char *text)
{
    assert_int_equal(got->len, strlen(text));
    assert_memory_equal(got->data, text, got->len);
    buf_clear(got);
}

static void assert_open(const struct ends *e)
{
    assert_string_equal(tls_error(e->client), "");
    assert_string_equal(tls_error(e->server), "");
    assert_int_equal(tls_conn_phase(e->client), TLS_OPEN);
    assert_int_equal(tls_conn_phase(e->server), TLS_OPEN);
}

/* A client of TLS 1.2, which names no newer version. */
static const char hello_12[] = "\x16\x03\x01\x00\x45\x01\x00\x00\x41\x03\x03"
                               "0123456789abcdef0123456789abcdef"
                               "\x00\x00\x02\xc0\x2b\x01\x00" /* ECDHE-ECDSA-AES128-GCM */
                               "\x00\x16"
                               "\x00\x0a\x00\x04\x00\x02\x00\x17"  /* P-256 */
                               "\x00\x0b\x00\x02\x01\x00"          /* uncompressed */
                               "\x00\x0d\x00\x04\x00\x02\x04\x03"; /* ECDSA, SHA-256 */

static void tls_12_is_for_clients_only(void **ctx)
{
    struct tls_options server = own(&pki.server, NULL);
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    for (int strict = 0; strict < 2; strict++) {
        struct ends e;
        server.tls13_only = strict == 1;
        ends_init(&e, server, own(NULL, &pki.ca), &localhost);
        assert_status(tls_feed(e.server, bytes_of(hello_12, sizeof hello_12 - 1)), ST_OK);
        assert_status(drain(e.server, &got), strict ? ST_CRYPTO : ST_OK);
        assert_string_equal(tls_error(e.server), strict ? "unsupported protocol" : "");
        ends_done(&e);
    }
}

static void plaintext_passes_both_ways(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_open(&e);
    assert_string_equal(tls_version(e.client), "TLSv1.3");
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    assert_got(&got, "question");
    write_str(e.server, "answer");
    assert_status(carry(e.server, e.client, 1000, &got), ST_OK);
    assert_got(&got, "answer");
    ends_done(&e);
}

static void the_handshake_may_be_split_at_every_byte(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1);
    assert_open(&e);
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1, &got), ST_OK);
    assert_got(&got, "question");
    ends_done(&e);
}

static void records_that_come_together_are_all_read(void **ctx)
{
    struct ends e;
    enum { RECORDS = 300 };
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_status(drain(e.server, &got), ST_OK); /* nothing waits */
    for (unsigned i = 0; i < RECORDS; i++)
        write_str(e.client, "a line and another\n");
    tls_close_notify(e.client);
    assert_status(carry(e.client, e.server, SIZE_MAX / 2, &got), ST_CLOSED);
    assert_int_equal(got.len, RECORDS * strlen("a line and another\n"));
    ends_done(&e);
}

/* What another use of the library left behind is not taken for a failure of the connection. */
static void errors_of_others_do_not_count(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "question");
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(e.client, &out);
    assert_status(tls_feed(e.server, bytes_of(out.data, 3)), ST_OK); /* half a record */
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    assert_status(drain(e.server, &got), ST_OK);
    assert_int_equal(got.len, 0);
    assert_status(tls_feed(e.server, bytes_of(out.data + 3, out.len - 3)), ST_OK);
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "question");
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    write_str(e.server, "answer");
    ERR_clear_error();
    got.len = 0;
    assert_status(carry(e.server, e.client, SIZE_MAX / 2, &got), ST_OK);
    assert_got(&got, "answer");
    ends_done(&e);
}

/* What is lent may be written over as soon as tls_keep was called. */
static void lent_input_is_kept_where_it_was_not_read(void **ctx)
{
    struct ends e;
    uint8_t place[4096], plain[100];
    size_t n = 0, half;
    CLEANUP(buf_done) struct buf out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "one ");
    write_str(e.client, "two ");
    write_str(e.client, "three");
    tls_take_out(e.client, &out);
    assert_true(out.len < sizeof place);
    half = out.len / 2;
    for (unsigned part = 0; part < 2; part++) { /* nothing is read of the first */
        struct bytes from = bytes_from(buf_bytes(&out), part * half);
        from.len = part == 0 ? half : from.len;
        memcpy(place, from.data, from.len);
        assert_status(tls_lend(e.server, bytes_of(place, from.len)), ST_OK);
        if (part == 1)
            assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        assert_status(tls_keep(e.server), ST_OK);
        memset(place, 0xff, sizeof place);
    }
    buf_add(&got, bytes_of(plain, n));
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "one two three");
    ends_done(&e);
}

static void input_may_be_lent_byte_by_byte(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "first");
    write_str(e.client, " second");
    tls_close_notify(e.client);
    tls_take_out(e.client, &out);
    enum status st = ST_OK;
    for (size_t i = 0; i < out.len; i++) {
        uint8_t byte = out.data[i];
        assert_status(st, ST_OK);
        assert_status(tls_lend(e.server, bytes_of(&byte, 1)), ST_OK);
        st = drain(e.server, &got);
        assert_status(tls_keep(e.server), ST_OK);
        byte = 0xff;
    }
    assert_status(st, ST_CLOSED);
    assert_got(&got, "first second");
    ends_done(&e);
}

static void lent_input_is_bounded_too(void **ctx)
{
    struct ends e;
    static uint8_t zeroes[TLS_INPUT_MAX + 1];
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_lend(e.server, bytes_of(zeroes, TLS_INPUT_MAX + 1)), ST_TOO_BIG);
    assert_status(tls_lend(e.server, bytes_of(zeroes, TLS_INPUT_MAX)), ST_OK);
    assert_status(tls_keep(e.server), ST_OK);
    assert_status(tls_lend(e.server, bytes_of(zeroes, 1)), ST_TOO_BIG);
    ends_done(&e);
}

static void output_goes_to_lent_room(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf spare = {0}, out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_status(buf_reserve(&spare, 1000), ST_OK);
    const uint8_t *room = spare.data;
    tls_lend_out(e.client, &spare);
    assert_null(spare.data);
    assert_int_equal(tls_out_len(e.client), 0);
    write_str(e.client, "there");
    assert_status(buf_reserve(&spare, 1000), ST_OK);
    tls_lend_out(e.client, &spare); /* some waits already */
    assert_non_null(spare.data);
    tls_take_out(e.client, &out);
    assert_ptr_equal(out.data, room);
    assert_status(tls_feed(e.server, buf_bytes(&out)), ST_OK);
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "there");
    ends_done(&e);
}

/* Also with a record of which some bytes have come: the head alone, or a part of it. */
static void a_connection_rests_between_records(void **ctx)
{
    (void)ctx;
    struct ends e;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_false(tls_rest(e.server)); /* the handshake is not over */
    shake(&e, SIZE_MAX / 2);
    assert_open(&e);
    assert_true(tls_rest(e.server));
    for (size_t first = 1; first <= 40; first++) {
        CLEANUP(buf_done) struct buf cipher = {0};
        uint8_t plain[64];
        size_t n = 0;
        write_str(e.client, "some words");
        tls_take_out(e.client, &cipher);
        struct bytes whole = buf_bytes(&cipher);
        size_t split = MIN(first, whole.len);
        assert_status(tls_feed(e.server, bytes_of(whole.data, split)), ST_OK);
        assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        assert_int_equal(tls_rest(e.server), split == whole.len);
        if (split < whole.len) {
            assert_int_equal(n, 0);
            assert_status(tls_feed(e.server, bytes_from(whole, split)), ST_OK);
            assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        }
        assert_memory_equal(plain, "some words", n);
        assert_int_equal(n, strlen("some words"));
        assert_true(tls_rest(e.server));
    }
    ends_done(&e);
}

static void many_parts_share_records(void **ctx)
{
    struct ends e;
    enum { LARGE = 3 * TLS_RECORD_MAX + 100 };
    static uint8_t large[LARGE];
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 100);
    memset(large, 'x', sizeof large);
    struct bytes parts[] = {BYTES("a"), {0}, BYTES("bc"), bytes_of(large, LARGE), BYTES("d")};
    assert_status(tls_write(e.client, parts, ARRAY_LEN(parts)), ST_OK);
    assert_true(tls_out_len(e.client) < LARGE + 4 + 4 * 30);
    assert_status(carry(e.client, e.server, 777, &got), ST_OK);
    assert_int_equal(got.len, LARGE + 4);
    assert_memory_equal(got.data, "abcxxx", 6);
    assert_memory_equal(got.data + LARGE, "xxxd", 4);
    ends_done(&e);
}

static void writing_waits_for_the_handshake_and_for_room(void **ctx)
{
    struct ends e;
    static uint8_t large[TLS_OUTPUT_MAX];
    struct bytes part = bytes_of(large, sizeof large);
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_write(e.server, &part, 1), ST_BUSY);
    shake(&e, 1000);
    assert_status(tls_write(e.server, &part, 1), ST_OK);
    assert_status(tls_write(e.server, &part, 1), ST_BUSY);
    tls_take_out(e.server, &out);
    assert_status(tls_write(e.server, &part, 1), ST_OK);
    ends_done(&e);
}

static void input_beyond_the_bound_is_refused(void **ctx)
{
    struct ends e;
    static uint8_t zeroes[TLS_INPUT_MAX];
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_feed(e.server, bytes_of(zeroes, TLS_INPUT_MAX)), ST_OK);
    assert_status(tls_feed(e.server, bytes_of(zeroes, 1)), ST_TOO_BIG);
    ends_done(&e);
}

static void close_notify_ends_reading_cleanly(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "last");
    tls_close_notify(e.client);
    tls_close_notify(e.client);
    assert_status(carry(e.client, e.server, 1000, &got), ST_CLOSED);
    assert_got(&got, "last");
    tls_feed_end(e.server);
    assert_status(drain(e.server, &got), ST_CLOSED);
    write_str(e.server, "still heard"); /* half-closed */
    assert_status(carry(e.server, e.client, 1000, &got), ST_OK);
    assert_got(&got, "still heard");
    ends_done(&e);
}

static void a_cut_connection_is_told_from_a_closed_one(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "cut short");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    tls_feed_end(e.server);
    assert_status(drain(e.server, &got), ST_IO);
    assert_string_equal(tls_error(e.server), "the connection was cut");
    ends_done(&e);
}

static void a_flipped_bit_fails_the_connection(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0}, out = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "important");
    tls_take_out(e.client, &out);
    out.data[out.len - 3] ^= 1;
    assert_status(tls_feed(e.server, buf_bytes(&out)), ST_OK);
    assert_status(drain(e.server, &got), ST_CRYPTO);
    assert_int_equal(got.len, 0);
    assert_true(tls_out_len(e.server) > 0); /* the alert */
    assert_status(drain(e.server, &got), ST_CRYPTO);
    ends_done(&e);
}

static void garbage_fails_the_handshake(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_feed(e.server, BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ST_OK);
    assert_status(drain(e.server, &got), ST_CRYPTO);
    assert_string_equal(tls_error(e.server), "http request");
    ends_done(&e);
}

static void assert_client_refuses(struct tls_options server, struct tls_options client,
                                  const struct tls_target *target, const char *why)
{
    struct ends e;
    ends_init(&e, server, client, target);
    shake(&e, 1000);
    assert_int_equal(tls_conn_phase(e.client), TLS_FAILED);
    assert_string_equal(tls_error(e.client), why);
    assert_int_equal(tls_conn_phase(e.server), TLS_FAILED);
    ends_done(&e);
}

static void assert_server_refuses(struct tls_options server, struct tls_options client,
                                  const char *why)
{
    struct ends e;
    struct tls_target any = {0};
    ends_init(&e, server, client, &any);
    shake(&e, 1000);
    assert_int_equal(tls_conn_phase(e.server), TLS_FAILED);
    assert_string_equal(tls_error(e.server), why);
    assert_int_equal(tls_conn_phase(e.client), TLS_FAILED);
    ends_done(&e);
}

static void another_host_name_is_refused(void **ctx)
{
    struct tls_target other = {.host = "example.org"};
    (void)ctx;
    assert_client_refuses(own(&pki.server, NULL), own(NULL, &pki.ca), &other, "hostname mismatch");
}

static void addresses_are_checked_like_names(void **ctx)
{
    static const char *const good[] = {"127.0.0.1", "::1"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct ends e;
        struct tls_target target = {.host = good[i]};
        ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &target);
        shake(&e, 1000);
        assert_open(&e);
        ends_done(&e);
    }
    struct tls_target other = {.host = "127.0.0.2"};
    assert_client_refuses(own(&pki.server, NULL), own(NULL, &pki.ca), &other,
                          "IP address mismatch");
}

static void another_ca_is_refused(void **ctx)
{
    (void)ctx;
    assert_client_refuses(own(&pki.server, NULL), own(NULL, &pki.other_ca), &localhost,
                          "unable to get local issuer certificate");
}

static void a_client_may_choose_not_to_verify(void **ctx)
{
    struct ends e;
    struct tls_peer peer;
    struct tls_options client = own(NULL, &pki.other_ca);
    (void)ctx;
    client.insecure = true;
    ends_init(&e, own(&pki.server, NULL), client, &localhost);
    shake(&e, 1000);
    assert_open(&e);
    assert_status(tls_conn_peer(e.client, &peer), ST_OK);
    assert_false(peer.verified);
    ends_done(&e);
}

static struct tls_options mutual(const struct cert_pair *pair)
{
    struct tls_options options = own(pair, &pki.ca);
    options.tls13_only = options.no_tickets = true;
    options.client_cert = TLS_CLIENT_CERT_REQUIRED;
    options.peer_uri_start = "holdfast://aa/node/";
    return options;
}

static void both_sides_know_each_other(void **ctx)
{
    struct ends e;
    struct tls_peer peer;
    struct tls_target n1 = {.uri = "holdfast://aa/node/n1"};
    uint8_t fingerprint[TLS_FINGERPRINT_BYTES];
    CLEANUP(buf_done) struct buf der = {0};
    (void)ctx;
    ends_init(&e, mutual(&pki.node), mutual(&pki.node), &n1);
    shake(&e, 1);
    assert_open(&e);
    assert_status(tls_conn_peer(e.server, &peer), ST_OK);
    assert_true(peer.verified);
    assert_string_equal(peer.uri, "holdfast://aa/node/n1");
    assert_string_equal(peer.common_name, "n1");
    assert_true(peer.not_after_s > time(NULL));
    assert_status(cert_fingerprint(buf_bytes(&pki.node.cert), fingerprint), ST_OK);
    assert_memory_equal(peer.fingerprint, fingerprint, sizeof fingerprint);
    assert_status(tls_conn_peer_der(e.client, &der), ST_OK);
    assert_true(der.len > 200);
    ends_done(&e);
}

static void a_client_without_a_certificate_is_refused(void **ctx)
{
    (void)ctx;
    assert_server_refuses(mutual(&pki.node), own(NULL, &pki.ca),
                          "peer did not return a certificate");
}

static void a_client_of_another_ca_is_refused(void **ctx)
{
    (void)ctx;
    assert_server_refuses(mutual(&pki.node), own(&pki.other_node, &pki.ca),
                          "unable to get local issuer certificate");
}

static void an_expired_client_is_refused(void **ctx)
{
    (void)ctx;
    assert_server_refuses(mutual(&pki.node), own(&pki.expired, &pki.ca), "certificate has expired");
}

static void a_certificate_for_servers_is_no_client(void **ctx)
{
    (void)ctx;
    assert_server_refuses(mutual(&pki.node), own(&pki.server, &pki.ca),
                          "unsuitable certificate purpose");
}

static void a_peer_with_another_uri_is_refused(void **ctx)
{
    struct tls_options strict = mutual(&pki.node);
    struct tls_target n2 = {.uri = "holdfast://aa/node/n2"};
    (void)ctx;
    strict.peer_uri_start = "holdfast://bb/node/";
    assert_server_refuses(strict, own(&pki.node, &pki.ca),
                          "the peer's certificate is not for holdfast://bb/node/");
    assert_client_refuses(mutual(&pki.node), mutual(&pki.node), &n2,
                          "the peer's certificate is not for holdfast://aa/node/n2");
}

static void a_node_without_a_uri_is_refused(void **ctx)
{
    struct tls_target any = {0};
    (void)ctx;
    assert_client_refuses(own(&pki.server, NULL), mutual(&pki.node), &any,
                          "the peer's certificate is not for holdfast://aa/node/");
}

static void two_uris_count_as_none(void **ctx)
{
    static const struct cert_san sans[] = {{CERT_SAN_URI, "holdfast://aa/node/n1"},
                                           {CERT_SAN_URI, "holdfast://aa/node/n2"}};
    struct cert_request request = {
        .common_name = "n1", .sans = sans, .n_sans = 2, .server = true, .client = true};
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    (void)ctx;
    make(request, &pki.ca, &pair);
    assert_server_refuses(mutual(&pki.node), own(&pair, &pki.ca),
                          "the peer's certificate is not for holdfast://aa/node/");
}

static void optional_certificates_are_accepted_or_absent(void **ctx)
{
    struct ends e;
    struct tls_peer peer;
    struct tls_options server = own(&pki.server, NULL);
    (void)ctx;
    server.client_cert = TLS_CLIENT_CERT_OPTIONAL;
    ends_init(&e, server, own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    assert_open(&e);
    assert_status(tls_conn_peer(e.server, &peer), ST_NOT_FOUND);
    ends_done(&e);

    ends_init(&e, server, own(&pki.other_node, &pki.ca), &localhost); /* no CA: judged later */
    shake(&e, 1000);
    assert_open(&e);
    assert_status(tls_conn_peer(e.server, &peer), ST_OK);
    assert_false(peer.verified);
    ends_done(&e);

    server.ca = pem_of(&pki.ca.cert);
    ends_init(&e, server, own(&pki.other_node, &pki.ca), &localhost);
    shake(&e, 1000);
    assert_int_equal(tls_conn_phase(e.server), TLS_FAILED);
    ends_done(&e);
}

static void alpn_is_agreed_in_the_servers_order(void **ctx)
{
    struct ends e;
    struct tls_options server = own(&pki.server, NULL);
    struct tls_target target = {.host = "localhost", .alpn = "http/1.1,h2"};
    (void)ctx;
    server.alpn = "h2,http/1.1";
    ends_init(&e, server, own(NULL, &pki.ca), &target);
    shake(&e, 1000);
    assert_open(&e);
    assert_string_equal(tls_alpn(e.client), "h2");
    assert_string_equal(tls_alpn(e.server), "h2");
    ends_done(&e);
}

static void alpn_without_a_common_name_is_refused(void **ctx)
{
    struct tls_options server = own(&pki.server, NULL), client = own(NULL, &pki.ca);
    (void)ctx;
    server.alpn = "http/1.1";
    client.alpn = "h2";
    assert_client_refuses(server, client, &localhost, "tlsv1 alert no application protocol");
}

static void a_peer_without_alpn_is_refused_where_it_is_required(void **ctx)
{
    struct ends e;
    struct tls_options server = own(&pki.server, NULL), client = own(NULL, &pki.ca);
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    server.alpn = "h2";
    server.alpn_required = true;
    ends_init(&e, server, client, &localhost);
    shake(&e, 1000);
    assert_string_equal(tls_error(e.server), "the peer agreed on no protocol (ALPN)");
    assert_status(drain(e.server, &got), ST_CRYPTO);
    ends_done(&e);

    server.alpn = NULL;
    server.alpn_required = false;
    client.alpn = "h2";
    client.alpn_required = true;
    ends_init(&e, server, client, &localhost);
    shake(&e, 1000);
    assert_string_equal(tls_error(e.client), "the peer agreed on no protocol (ALPN)");
    ends_done(&e);
}

static void a_reload_changes_new_connections_only(void **ctx)
{
    struct ends e;
    struct reason reason = {""};
    struct tls_options next = own(&pki.server, NULL), broken = next;
    struct tls_conn *late = NULL;
    (void)ctx;
    ends_init(&e, own(&pki.node, NULL), own(NULL, &pki.ca), NULL);
    next.server = broken.server = true;
    broken.key = pem_of(&pki.node.key);
    assert_status(tls_ctx_reload(e.server_ctx, &broken, &reason), ST_INVALID);
    assert_string_equal(reason.text, "given PEM text: the key does not belong to the certificate");
    assert_status(tls_ctx_reload(e.server_ctx, &next, &reason), ST_OK);
    shake(&e, 1000);
    assert_open(&e);
    struct tls_peer peer;
    assert_status(tls_conn_peer(e.client, &peer), ST_OK);
    assert_string_equal(peer.common_name, "n1");

    tls_conn_free(e.client);
    tls_conn_free(e.server);
    assert_status(tls_conn_new(e.client_ctx, &localhost, &e.client), ST_OK);
    assert_status(tls_conn_new(e.server_ctx, NULL, &late), ST_OK);
    e.server = late;
    shake(&e, 1000);
    assert_open(&e);
    assert_status(tls_conn_peer(e.client, &peer), ST_OK);
    assert_string_equal(peer.common_name, "server");
    ends_done(&e);
}

struct sharing {
    struct tls_ctx *server, *client;
    unsigned open;
};

static void *shake_hands(void *ctx)
{
    struct sharing *sharing = ctx;
    for (int i = 0; i < 20; i++) {
        struct ends e = {.server_ctx = tls_ctx_ref(sharing->server),
                         .client_ctx = tls_ctx_ref(sharing->client)};
        if (tls_conn_new(e.server_ctx, NULL, &e.server) == ST_OK &&
            tls_conn_new(e.client_ctx, &localhost, &e.client) == ST_OK) {
            shake(&e, 1000);
            sharing->open += tls_conn_phase(e.client) == TLS_OPEN;
        }
        ends_done(&e);
    }
    return NULL;
}

static void contexts_are_shared_by_threads(void **ctx)
{
    enum { THREADS = 3 };
    struct tls_options server = own(&pki.server, NULL);
    struct sharing sharing[THREADS];
    pthread_t threads[THREADS];
    (void)ctx;
    server.server = true;
    struct tls_ctx *ours = ctx_of(server), *theirs = ctx_of(own(NULL, &pki.ca));
    for (int i = 0; i < THREADS; i++) {
        sharing[i] = (struct sharing){ours, theirs, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, shake_hands, &sharing[i]), 0);
    }
    for (int i = 0; i < 20; i++)
        assert_status(tls_ctx_reload(ours, &server, NULL), ST_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(sharing[i].open, 20);
    }
    tls_ctx_unref(ours);
    tls_ctx_unref(theirs);
}

static void bad_options_are_explained(void **ctx)
{
    struct tls_ctx *made = NULL;
    struct reason reason;
    struct tls_options options = {.server = true};
    (void)ctx;
    assert_status(tls_ctx_new(&options, &made, &reason), ST_INVALID);
    assert_string_equal(reason.text, "a TLS server needs a certificate and a key");
    options = own(&pki.server, NULL);
    options.server = true;
    options.client_cert = TLS_CLIENT_CERT_REQUIRED;
    assert_status(tls_ctx_new(&options, &made, &reason), ST_INVALID);
    assert_string_equal(reason.text, "requiring client certificates needs a CA");
    options = (struct tls_options){.ca = {.path = "/nonexistent/ca.pem"}};
    assert_status(tls_ctx_new(&options, &made, &reason), ST_NOT_FOUND);
    assert_string_equal(reason.text, "/nonexistent/ca.pem: not found");
    options = (struct tls_options){.ca = {.text = BYTES("rubbish")}};
    assert_status(tls_ctx_new(&options, &made, &reason), ST_INVALID);
    assert_string_equal(reason.text, "given PEM text: no PEM certificate found");
    options = own(NULL, &pki.ca);
    options.alpn = "h2,,x";
    assert_status(tls_ctx_new(&options, &made, &reason), ST_INVALID);
    assert_null(made);
}

/* One exchange in which every step may run out of memory. */
static bool exchange(struct ends *e)
{
    struct tls_options server = own(&pki.server, NULL), client = own(NULL, &pki.ca);
    struct bytes part = BYTES("x");
    struct buf out = {0};
    uint8_t plain[10];
    size_t n = 0;
    *e = (struct ends){0};
    server.server = true;
    bool ok = tls_ctx_new(&server, &e->server_ctx, NULL) == ST_OK &&
              tls_ctx_new(&client, &e->client_ctx, NULL) == ST_OK &&
              tls_conn_new(e->server_ctx, NULL, &e->server) == ST_OK &&
              tls_conn_new(e->client_ctx, &localhost, &e->client) == ST_OK;
    for (int i = 0; ok && i < 6; i++) {
        struct tls_conn *from = i % 2 == 0 ? e->client : e->server;
        struct tls_conn *to = i % 2 == 0 ? e->server : e->client;
        tls_take_out(from, &out);
        ok = tls_lend(to, buf_bytes(&out)) == ST_OK && tls_read(to, plain, 10, &n) == ST_OK &&
             tls_keep(to) == ST_OK;
        buf_done(&out);
    }
    return ok && tls_write(e->client, &part, 1) == ST_OK;
}

static void running_out_of_memory_is_survived_anywhere(void **ctx)
{
    bool used = true;
    (void)ctx;
    for (uint64_t n = 1; used; n++) {
        struct ends e;
        assert_true(n < 1000);
        (void)mem_fail_nth(n); /* nothing was requested before */
        bool ok = exchange(&e);
        used = mem_fail_nth(0);
        assert_int_equal(ok, !used);
        ends_done(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_12_is_for_clients_only),
        cmocka_unit_test(plaintext_passes_both_ways),
        cmocka_unit_test(the_handshake_may_be_split_at_every_byte),
        cmocka_unit_test(records_that_come_together_are_all_read),
        cmocka_unit_test(errors_of_others_do_not_count),
        cmocka_unit_test(lent_input_is_kept_where_it_was_not_read),
        cmocka_unit_test(input_may_be_lent_byte_by_byte),
        cmocka_unit_test(lent_input_is_bounded_too),
        cmocka_unit_test(output_goes_to_lent_room),
        cmocka_unit_test(a_connection_rests_between_records),
        cmocka_unit_test(many_parts_share_records),
        cmocka_unit_test(writing_waits_for_the_handshake_and_for_room),
        cmocka_unit_test(input_beyond_the_bound_is_refused),
        cmocka_unit_test(close_notify_ends_reading_cleanly),
        cmocka_unit_test(a_cut_connection_is_told_from_a_closed_one),
        cmocka_unit_test(a_flipped_bit_fails_the_connection),
        cmocka_unit_test(garbage_fails_the_handshake),
        cmocka_unit_test(another_host_name_is_refused),
        cmocka_unit_test(addresses_are_checked_like_names),
        cmocka_unit_test(another_ca_is_refused),
        cmocka_unit_test(a_client_may_choose_not_to_verify),
        cmocka_unit_test(both_sides_know_each_other),
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
        cmocka_unit_test(a_client_of_another_ca_is_refused),
        cmocka_unit_test(an_expired_client_is_refused),
        cmocka_unit_test(a_certificate_for_servers_is_no_client),
        cmocka_unit_test(a_peer_with_another_uri_is_refused),
        cmocka_unit_test(a_node_without_a_uri_is_refused),
        cmocka_unit_test(two_uris_count_as_none),
        cmocka_unit_test(optional_certificates_are_accepted_or_absent),
        cmocka_unit_test(alpn_is_agreed_in_the_servers_order),
        cmocka_unit_test(alpn_without_a_common_name_is_refused),
        cmocka_unit_test(a_peer_without_alpn_is_refused_where_it_is_required),
        cmocka_unit_test(a_reload_changes_new_connections_only),
        cmocka_unit_test(contexts_are_shared_by_threads),
        cmocka_unit_test(bad_options_are_explained),
        cmocka_unit_test(running_out_of_memory_is_survived_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
