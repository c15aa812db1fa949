/* TLS: which peers a connection trusts (names, authorities, ALPN), and TLS contexts. */
#include "crypto/tls_world.h"

#include <pthread.h>

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

static void the_kind_of_distrust_is_told(void **ctx)
{
    const struct tls_target any = {0}, other = {.host = "example.org"};
    const struct {
        struct tls_options server, client;
        const struct tls_target *target;
        enum tls_distrust of_client, of_server;
    } cases[] = {
        {own(&pki.server, NULL), own(NULL, &pki.ca), &localhost, TLS_TRUSTED, TLS_TRUSTED},
        {own(&pki.server, NULL), own(NULL, &pki.ca), &other, TLS_OTHER_HOST, TLS_TRUSTED},
        {own(&pki.server, NULL), own(NULL, &pki.other_ca), &localhost, TLS_UNKNOWN_ISSUER,
         TLS_TRUSTED},
        {mutual(&pki.node), own(&pki.expired, &pki.ca), &any, TLS_TRUSTED, TLS_NOT_NOW},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ends e;
        ends_init(&e, cases[i].server, cases[i].client, cases[i].target);
        shake(&e, 1000);
        assert_int_equal(tls_distrust(e.client), cases[i].of_client);
        assert_int_equal(tls_distrust(e.server), cases[i].of_server);
        ends_done(&e);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_host_name_is_refused),
        cmocka_unit_test(addresses_are_checked_like_names),
        cmocka_unit_test(another_ca_is_refused),
        cmocka_unit_test(a_client_may_choose_not_to_verify),
        cmocka_unit_test(both_sides_know_each_other),
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
        cmocka_unit_test(a_client_of_another_ca_is_refused),
        cmocka_unit_test(an_expired_client_is_refused),
        cmocka_unit_test(the_kind_of_distrust_is_told),
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
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
