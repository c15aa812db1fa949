/* Which peers get through the handshake, on both sides. */
#include "dr/dr_frames.h"
#include "dr/dr_pair.h"

static struct dr_certs certs, others; /* others: the same names, other keys */

static int start(void **ctx)
{
    (void)ctx;
    dr_certs_init(&certs);
    dr_certs_init(&others);
    return 0;
}

static int stop(void **ctx)
{
    (void)ctx;
    dr_certs_done(&certs);
    dr_certs_done(&others);
    return 0;
}

/* TLS 1.3 lets a client finish before the server has judged it: the first receive tells. */
static enum status dial_and_hear(struct dr_port *port, struct dr_conn *conn, struct tls_ctx *tls)
{
    struct dr_frame f;
    assert_int_equal(pthread_create(&port->thread, NULL, port_accept, port), 0);
    enum status st = dr_conn_dial(conn, port->address, tls, soon());
    if (st == ST_OK)
        st = dr_conn_receive(conn, soon(), &f);
    assert_int_equal(pthread_join(port->thread, NULL), 0);
    tls_ctx_unref(tls);
    return st;
}

static void assert_port_refuses(struct tls_options options, struct tls_ctx *tls, const char *why)
{
    struct dr_port port;
    struct dr_conn *conn;
    port_open(&port, options);
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dial_and_hear(&port, conn, tls), ST_CRYPTO);
    if (strstr(port.error.text, why) == NULL)
        print_error("port: \"%s\"\nsecondary: \"%s\"\n", port.error.text, dr_conn_error(conn));
    assert_non_null(strstr(port.error.text, why));
    assert_non_null(strstr(dr_conn_error(conn), "alert"));
    dr_conn_free(conn);
    port_close(&port);
}

static void assert_secondary_refuses(struct tls_options options, const char *why)
{
    struct dr_port port;
    struct dr_conn *conn;
    port_open(&port, options);
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dial(&port, conn, context_of(&certs, &certs.secondary)), ST_CRYPTO);
    if (strstr(dr_conn_error(conn), why) == NULL)
        print_error("\"%s\"\n", dr_conn_error(conn));
    assert_non_null(strstr(dr_conn_error(conn), why));
    dr_conn_free(conn);
    port_close(&port);
}

static struct tls_ctx *loose_context(struct tls_options options)
{
    struct tls_ctx *tls = NULL;
    options.tls13_only = true;
    options.ca.text = buf_bytes(&certs.cluster_ca.cert);
    assert_status(tls_ctx_new(&options, &tls, NULL), ST_OK);
    return tls;
}

static struct tls_ctx *context_with(const struct cert_pair *pair, const char *alpn)
{
    return loose_context((struct tls_options){
        .cert.text = buf_bytes(&pair->cert), .key.text = buf_bytes(&pair->key), .alpn = alpn});
}

static void a_secondary_without_a_certificate_is_refused(void **ctx)
{
    (void)ctx;
    assert_port_refuses(port_options(&certs), loose_context((struct tls_options){.alpn = DR_ALPN}),
                        "peer did not return a certificate");
}

static void a_secondary_of_another_authority_is_refused(void **ctx)
{
    (void)ctx;
    assert_port_refuses(port_options(&certs), context_of(&certs, &others.secondary),
                        "unable to get local issuer certificate");
}

static void a_node_of_the_cluster_is_no_secondary(void **ctx)
{
    (void)ctx;
    assert_port_refuses(port_options(&certs), context_with(&certs.node, DR_ALPN),
                        "self-signed certificate in certificate chain");
}

/* The authority of replication signed it, but not for this set, or not as a secondary. */
static void a_name_outside_the_set_is_refused(void **ctx)
{
    struct dr_name name = east;
    char uri[DR_URI_MAX], node[MESH_URI_MAX];
    struct mesh_identity n1 = {DR_TEST_CLUSTER, "n1"};
    const char *uris[] = {uri, node};
    (void)ctx;
    name.set[0] ^= 1;
    dr_name_uri(&name, uri);
    mesh_uri(&n1, node);
    for (size_t i = 0; i < ARRAY_LEN(uris); i++) {
        CLEANUP(cert_pair_done) struct cert_pair pair = {0};
        make_named(uris[i], &certs.ca, &pair);
        assert_port_refuses(port_options(&certs), context_with(&pair, DR_ALPN),
                            "the peer's certificate is not for holdfast://");
    }
}

/* TLS passes every name of the set; the name itself is judged by the reader of the certificate. */
static void a_malformed_name_of_the_set_is_denied(void **ctx)
{
    char uri[DR_URI_MAX + 8];
    struct dr_port port;
    struct dr_conn *conn, *primary;
    struct dr_cert_peer peer;
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    (void)ctx;
    dr_name_authority_uri(&east, uri);
    memcpy(uri + strlen(uri), "/03/east", 9);
    make_named(uri, &certs.ca, &pair);
    port_open(&port, port_options(&certs));
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dr_conn_new(DR_PRIMARY, 0, &primary), ST_OK);
    assert_status(dial(&port, conn, context_with(&pair, DR_ALPN)), ST_OK);
    dr_conn_adopt(primary, &port.got);
    assert_status(dr_conn_peer(primary, &peer), ST_DENIED);
    dr_conn_free(conn);
    dr_conn_free(primary);
    port_close(&port);
}

static void an_expired_secondary_is_refused(void **ctx)
{
    CLEANUP(cert_pair_done) struct cert_pair old = {0};
    (void)ctx;
    make_secondary(&certs.ca, &east, now_s() - (DR_CERT_DAYS + 1) * 86400, &old);
    assert_port_refuses(port_options(&certs), context_of(&certs, &old), "certificate has expired");
}

static void a_secondary_without_the_protocol_is_refused(void **ctx)
{
    struct dr_port port;
    struct dr_conn *conn;
    (void)ctx;
    port_open(&port, port_options(&certs));
    assert_status(dr_conn_new(DR_SECONDARY, 0, &conn), ST_OK);
    assert_status(dial(&port, conn, context_with(&certs.secondary, NULL)), ST_CRYPTO);
    assert_string_equal(dr_conn_error(conn), "the peer agreed on another protocol (ALPN)");
    assert_string_equal(port.error.text, "the peer agreed on no protocol (ALPN)");
    dr_conn_free(conn);
    port_close(&port);
}

static void a_primary_of_another_authority_is_refused(void **ctx)
{
    struct tls_options options = port_options(&certs);
    (void)ctx;
    options.cert.text = buf_bytes(&others.node.cert);
    options.key.text = buf_bytes(&others.node.key);
    assert_secondary_refuses(options, "unable to get local issuer certificate");
}

static void a_primary_that_is_no_node_is_refused(void **ctx)
{
    struct tls_options options = port_options(&certs);
    static const char *const uris[] = {"holdfast://c1020304050607080910111213141516/node/n1",
                                       "holdfast://c1020304050607080910111213141516/dr/x"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(uris); i++) {
        CLEANUP(cert_pair_done) struct cert_pair pair = {0};
        make_named(uris[i], &certs.cluster_ca, &pair);
        options.cert.text = buf_bytes(&pair.cert);
        options.key.text = buf_bytes(&pair.key);
        assert_secondary_refuses(options, "the peer's certificate is not for holdfast://");
    }
}

static void an_expired_primary_is_refused(void **ctx)
{
    struct tls_options options = port_options(&certs);
    struct mesh_identity n1 = {DR_TEST_CLUSTER, "n1"};
    CLEANUP(cert_pair_done) struct cert_pair old = {0};
    char uri[MESH_URI_MAX];
    (void)ctx;
    mesh_uri(&n1, uri);
    make_named_at(uri, &certs.cluster_ca, now_s() - 2 * 3600, &old);
    options.cert.text = buf_bytes(&old.cert);
    options.key.text = buf_bytes(&old.key);
    assert_secondary_refuses(options, "certificate has expired");
}

static void a_primary_without_the_protocol_is_refused(void **ctx)
{
    struct tls_options options = port_options(&certs);
    (void)ctx;
    options.alpn = NULL;
    options.alpn_required = false;
    assert_secondary_refuses(options, "the peer agreed on no protocol (ALPN)");
    options.alpn = "http/1.1";
    assert_secondary_refuses(options, "no application protocol");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secondary_without_a_certificate_is_refused),
        cmocka_unit_test(a_secondary_of_another_authority_is_refused),
        cmocka_unit_test(a_node_of_the_cluster_is_no_secondary),
        cmocka_unit_test(a_name_outside_the_set_is_refused),
        cmocka_unit_test(a_malformed_name_of_the_set_is_denied),
        cmocka_unit_test(an_expired_secondary_is_refused),
        cmocka_unit_test(a_secondary_without_the_protocol_is_refused),
        cmocka_unit_test(a_primary_of_another_authority_is_refused),
        cmocka_unit_test(a_primary_that_is_no_node_is_refused),
        cmocka_unit_test(an_expired_primary_is_refused),
        cmocka_unit_test(a_primary_without_the_protocol_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
