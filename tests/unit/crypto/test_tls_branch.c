/* A server that serves clients of one protocol by another context. */
#include "crypto/tls_world.h"

/* The usual context shows "server" and asks for nothing; the other one shows the node, demands a
 * certificate of the other CA and speaks "special" only. */
struct branching {
    struct ends ends;
    struct tls_ctx *other;
};

static struct tls_options special_options(void)
{
    struct tls_options options = own(&pki.node, NULL);
    options.server = true;
    options.client_cert = TLS_CLIENT_CERT_REQUIRED;
    options.ca = pem_of(&pki.other_ca.cert);
    options.alpn = "special";
    options.alpn_required = true;
    return options;
}

static void branching_init(struct branching *b, struct tls_options client)
{
    struct tls_options server = own(&pki.server, NULL);
    server.server = true;
    server.alpn = "plain,other";
    *b = (struct branching){.other = ctx_of(special_options())};
    b->ends.server_ctx = ctx_of(server);
    b->ends.client_ctx = ctx_of(client);
    tls_ctx_branch(b->ends.server_ctx, b->other);
}

/* Make a connection with what the contexts are now, and shake hands. */
static void branching_shake(struct branching *b)
{
    struct tls_target any = {0};
    tls_conn_free(b->ends.server);
    tls_conn_free(b->ends.client);
    b->ends.server = b->ends.client = NULL;
    assert_status(tls_conn_new(b->ends.server_ctx, NULL, &b->ends.server), ST_OK);
    assert_status(tls_conn_new(b->ends.client_ctx, &any, &b->ends.client), ST_OK);
    shake(&b->ends, 1000);
}

static void branching_done(struct branching *b)
{
    ends_done(&b->ends);
    tls_ctx_unref(b->other);
}

static struct tls_options client_of(const struct cert_pair *pair, const char *alpn)
{
    struct tls_options options = own(pair, &pki.ca);
    options.alpn = alpn;
    return options;
}

static void assert_server_shows(struct branching *b, const char *common_name, const char *alpn)
{
    struct tls_peer peer;
    assert_open(&b->ends);
    assert_status(tls_conn_peer(b->ends.client, &peer), ST_OK);
    assert_string_equal(peer.common_name, common_name);
    assert_string_equal(tls_alpn(b->ends.client), alpn);
    assert_string_equal(tls_alpn(b->ends.server), alpn);
}

static void the_protocol_chooses_the_context(void **ctx)
{
    static const char *const special[] = {"special", "plain,special", "special,plain", "x,special"};
    struct branching b;
    struct tls_peer peer;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(special); i++) {
        branching_init(&b, client_of(&pki.other_node, special[i]));
        branching_shake(&b);
        assert_server_shows(&b, "n1", "special");
        assert_status(tls_conn_peer(b.ends.server, &peer), ST_OK);
        assert_true(peer.verified);
        branching_done(&b);
    }
    branching_init(&b, client_of(NULL, "plain"));
    branching_shake(&b);
    assert_server_shows(&b, "server", "plain");
    branching_done(&b);
    branching_init(&b, client_of(NULL, NULL));
    branching_shake(&b);
    assert_server_shows(&b, "server", "");
    branching_done(&b);
}

static void names_that_only_begin_alike_are_others(void **ctx)
{
    static const char *const names[] = {"specia,plain", "special1,plain", "Special,plain"};
    struct branching b;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        branching_init(&b, client_of(NULL, names[i]));
        branching_shake(&b);
        assert_server_shows(&b, "server", "plain");
        branching_done(&b);
    }
}

static void the_other_context_demands_its_own_certificates(void **ctx)
{
    static const struct {
        const struct cert_pair *pair;
        const char *why;
    } cases[] = {
        {NULL, "peer did not return a certificate"},
        {&pki.node, "self-signed certificate in certificate chain"},
    };
    struct branching b;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        branching_init(&b, client_of(cases[i].pair, "special"));
        branching_shake(&b);
        assert_string_equal(tls_error(b.ends.server), cases[i].why);
        branching_done(&b);
    }
}

static void the_names_that_the_other_context_wants_count(void **ctx)
{
    struct branching b;
    struct tls_options strict = special_options();
    (void)ctx;
    strict.peer_uri_start = "holdfast://bb/";
    branching_init(&b, client_of(&pki.other_node, "special"));
    assert_status(tls_ctx_reload(b.other, &strict, NULL), ST_OK);
    branching_shake(&b);
    assert_string_equal(tls_error(b.ends.server),
                        "the peer's certificate is not for holdfast://bb/");
    branching_done(&b);
}

/* A connection keeps the choice that it was made with; the next one has the new choice. */
static void the_other_context_may_come_and_go(void **ctx)
{
    struct branching b;
    struct tls_target any = {0};
    (void)ctx;
    branching_init(&b, client_of(&pki.other_node, "special"));
    assert_status(tls_conn_new(b.ends.server_ctx, NULL, &b.ends.server), ST_OK);
    assert_status(tls_conn_new(b.ends.client_ctx, &any, &b.ends.client), ST_OK);
    tls_ctx_branch(b.ends.server_ctx, NULL);
    shake(&b.ends, 1000);
    assert_server_shows(&b, "n1", "special");
    branching_shake(&b);
    assert_string_equal(tls_error(b.ends.server), "no application protocol");
    tls_ctx_branch(b.ends.server_ctx, b.other);
    branching_shake(&b);
    assert_server_shows(&b, "n1", "special");
    branching_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_protocol_chooses_the_context),
        cmocka_unit_test(names_that_only_begin_alike_are_others),
        cmocka_unit_test(the_other_context_demands_its_own_certificates),
        cmocka_unit_test(the_names_that_the_other_context_wants_count),
        cmocka_unit_test(the_other_context_may_come_and_go),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
