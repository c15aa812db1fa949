/* Secondary clusters at the cluster port of a node. */
#include "mesh/mesh_raw.h"

#include "cluster/dr/link/dr_conn.h"

#include <pthread.h>

static struct {
    struct dr_name name;
    struct cert_pair ca, pair;             /* authority and a secondary of its */
    struct cert_pair other_ca, other_pair; /* another authority of the same set */
    struct cert_pair node_ca, node;        /* authority of the cluster, and n2 */
} pki;

/* A secondary's connection that the node handed over. */
static struct {
    unsigned came;
    struct mesh_http last;
    char uri[CERT_URI_MAX];
} handed;

static void on_dr(void *ctx, struct mesh_http connection, const char *peer_uri)
{
    (void)ctx;
    if (handed.came++ != 0)
        mesh_http_drop(&handed.last);
    handed.last = connection;
    (void)snprintf(handed.uri, sizeof handed.uri, "%s", peer_uri);
}

static void make_pair(const struct cert_pair *ca, const struct dr_name *name, int64_t now_s,
                      struct cert_pair *pair)
{
    CLEANUP(buf_done) struct buf public = {0};
    cert_pair_done(pair);
    assert_status(cert_key_make(&pair->key, &public), ST_OK);
    const struct dr_cert_order order = {name, buf_bytes(&public), now_s};
    assert_status(dr_cert_sign(ca, &order, &pair->cert, NULL), ST_OK);
}

static int pki_init(void **ctx)
{
    struct mesh_identity n2;
    int64_t now_s = time(NULL);
    assert_int_equal(world_init(ctx), 0);
    struct world *w = *ctx;
    pki.name = (struct dr_name){.set = {0x5e, 7}, .epoch = 3, .id = "east"};
    assert_status(mesh_identity_read(file(w, "a", "n2", ".pem"), &n2, NULL), ST_OK);
    memcpy(pki.name.cluster, n2.cluster, sizeof n2.cluster);
    assert_status(dr_cert_ca_make(&pki.name, now_s, &pki.ca, NULL), ST_OK);
    assert_status(dr_cert_ca_make(&pki.name, now_s, &pki.other_ca, NULL), ST_OK);
    make_pair(&pki.ca, &pki.name, now_s, &pki.pair);
    make_pair(&pki.other_ca, &pki.name, now_s, &pki.other_pair);
    assert_status(tls_pem_read(file(w, "a", "ca", ".pem"), &pki.node_ca.cert, NULL), ST_OK);
    assert_status(tls_pem_read(file(w, "a", "n2", ".pem"), &pki.node.cert, NULL), ST_OK);
    assert_status(tls_pem_read(file(w, "a", "n2", "-key.pem"), &pki.node.key, NULL), ST_OK);
    return 0;
}

static int pki_done(void **ctx)
{
    struct cert_pair *all[] = {&pki.ca,         &pki.pair,    &pki.other_ca,
                               &pki.other_pair, &pki.node_ca, &pki.node};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        cert_pair_done(all[i]);
    return world_done(ctx);
}

static int each_done(void **ctx)
{
    if (handed.came != 0)
        mesh_http_drop(&handed.last);
    memset(&handed, 0, sizeof handed);
    return nodes_done(ctx);
}

/* Start n1, open to secondaries and to peers without a certificate. */
static void start_open(struct world *w)
{
    struct mesh_options options = options_of(w, 0, "a");
    options.events.unauthenticated = on_unauthenticated;
    options.events.dr = on_dr;
    start_with(w, 0, &options);
}

static void trust(struct world *w, const struct cert_pair *ca)
{
    struct reason reason = {""};
    struct bytes pem = ca != NULL ? buf_bytes(&ca->cert) : (struct bytes){0};
    assert_status(mesh_dr_trust(w->nodes[0].mesh, pem, &reason), ST_OK);
}

static struct tls_options showing(const struct cert_pair *pair, const char *alpn)
{
    struct tls_options options = {.ca.text = buf_bytes(&pki.node_ca.cert), .alpn = alpn};
    if (pair != NULL) {
        options.cert.text = buf_bytes(&pair->cert);
        options.key.text = buf_bytes(&pair->key);
    }
    return options;
}

static bool was_handed(void *ctx)
{
    struct raw *raw = ctx;
    if (raw != NULL)
        raw_step(raw);
    return handed.came != 0;
}

static void assert_served(struct world *w, const struct cert_pair *pair)
{
    struct raw raw;
    unsigned before = handed.came;
    if (before != 0)
        mesh_http_drop(&handed.last);
    handed.came = 0;
    raw_connect(&raw, w, 0);
    raw_tls(&raw, showing(pair, DR_ALPN));
    run_until(w, was_handed, &raw);
    assert_int_equal(handed.came, 1);
    raw_done(&raw);
}

/* The connection ends, for this reason, and reaches none of the node's parts. */
static void assert_refused(struct world *w, const struct cert_pair *pair, const char *alpn,
                           const char *why)
{
    struct raw raw;
    unsigned before = handed.came;
    logged[0] = '\0';
    raw_connect(&raw, w, 0);
    raw_tls(&raw, showing(pair, alpn));
    run_until(w, raw_ended, &raw);
    if (strstr(logged, why) == NULL)
        print_error("\"%s\" is not in the log:\n%s", why, logged);
    assert_non_null(strstr(logged, why));
    assert_int_equal(handed.came, before);
    assert_int_equal(w->nodes[0].http, 0);
    assert_int_equal(w->nodes[0].unauthenticated, 0);
    assert_int_equal(w->nodes[0].received, 0);
    raw_done(&raw);
}

/* A whole conversation: a secondary's thread, the loop, and frames both ways. */

struct dialling {
    struct dr_conn *conn;
    struct tls_ctx *tls;
    char address[MESH_ADDRESS_MAX];
    enum status st;
};

static void *dial_node(void *ctx)
{
    struct dialling *d = ctx;
    struct dr_frame f = {.type = DR_PING, .ping = {.stamp = 7}};
    int64_t until_ms = dr_conn_now_ms() + PATIENCE_MS;
    d->st = dr_conn_dial(d->conn, d->address, d->tls, until_ms);
    if (d->st == ST_OK)
        d->st = dr_conn_send(d->conn, &f, until_ms);
    if (d->st == ST_OK)
        d->st = dr_conn_receive(d->conn, until_ms, &f);
    if (d->st == ST_OK && (f.type != DR_PONG || f.pong.stamp != 7))
        d->st = ST_INTERNAL;
    return NULL;
}

static void a_secondary_is_handed_over(void **ctx)
{
    struct world *w = *ctx;
    struct dialling d = {0};
    struct dr_conn *primary;
    struct dr_cert_peer peer;
    struct dr_frame f;
    pthread_t thread;
    char uri[DR_URI_MAX];
    const struct dr_cert_own own = {buf_bytes(&pki.node_ca.cert), buf_bytes(&pki.pair.cert),
                                    buf_bytes(&pki.pair.key)};
    start_open(w);
    trust(w, &pki.ca);
    memcpy(d.address, w->nodes[0].member.address, sizeof d.address);
    assert_status(dr_cert_tls(&own, &d.tls, NULL), ST_OK);
    assert_status(dr_conn_new(DR_SECONDARY, 0, &d.conn), ST_OK);
    assert_int_equal(pthread_create(&thread, NULL, dial_node, &d), 0);
    run_until(w, was_handed, NULL);
    dr_name_uri(&pki.name, uri);
    assert_string_equal(handed.uri, uri);
    assert_string_equal(handed.last.peer_name, "");
    assert_memory_equal(handed.last.peer_address, "127.0.0.1:", 10);
    assert_status(dr_conn_new(DR_PRIMARY, 0, &primary), ST_OK);
    dr_conn_adopt(primary, &handed.last);
    assert_status(dr_conn_peer(primary, &peer), ST_OK);
    assert_memory_equal(&peer.name, &pki.name, sizeof peer.name);
    int64_t until_ms = dr_conn_now_ms() + PATIENCE_MS;
    assert_status(dr_conn_receive(primary, until_ms, &f), ST_OK);
    assert_int_equal(f.type, DR_PING);
    f = (struct dr_frame){.type = DR_PONG, .pong = {.stamp = f.ping.stamp, .own = 1}};
    assert_status(dr_conn_send(primary, &f, until_ms), ST_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(dr_conn_error(d.conn), "");
    assert_status(d.st, ST_OK);
    assert_int_equal(stats(&w->nodes[0]).http_accepted, 0);
    assert_int_equal(stats(&w->nodes[0]).accepts_refused, 0);
    dr_conn_free(d.conn);
    dr_conn_free(primary);
    tls_ctx_unref(d.tls);
}

static void without_an_authority_secondaries_are_refused(void **ctx)
{
    struct world *w = *ctx;
    start_open(w);
    assert_refused(w, &pki.pair, DR_ALPN, "no application protocol");
    trust(w, NULL);
    assert_refused(w, &pki.pair, DR_ALPN, "no application protocol");
}

static void the_authority_can_be_replaced_and_taken_back(void **ctx)
{
    struct world *w = *ctx;
    start_open(w);
    trust(w, &pki.ca);
    assert_served(w, &pki.pair);
    assert_refused(w, &pki.other_pair, DR_ALPN, "certificate");
    trust(w, &pki.other_ca);
    assert_served(w, &pki.other_pair);
    assert_refused(w, &pki.pair, DR_ALPN, "certificate");
    assert_status(mesh_reload(w->nodes[0].mesh, NULL), ST_OK);
    assert_served(w, &pki.other_pair);
    assert_refused(w, &pki.pair, DR_ALPN, "certificate");
    trust(w, NULL);
    assert_refused(w, &pki.other_pair, DR_ALPN, "no application protocol");
}

/* The connection was accepted under the authority that is taken back before the handshake. */
static void a_connection_on_its_way_counts_as_refused(void **ctx)
{
    struct world *w = *ctx;
    struct raw raw;
    start_open(w);
    trust(w, &pki.ca);
    raw_connect(&raw, w, 0);
    run_for(w, 100);
    assert_int_equal(stats(&w->nodes[0]).accepts, 1);
    trust(w, NULL);
    raw_tls(&raw, showing(&pki.pair, DR_ALPN));
    run_until(w, raw_ended, &raw);
    assert_non_null(strstr(logged, "secondary clusters are not served here"));
    assert_int_equal(handed.came, 0);
    raw_done(&raw);
}

static void only_secondaries_speak_the_protocol(void **ctx)
{
    struct world *w = *ctx;
    struct dr_name other_set = pki.name;
    CLEANUP(cert_pair_done) struct cert_pair old = {0}, ca = {0}, foreign = {0};
    start_open(w);
    trust(w, &pki.ca);
    assert_refused(w, NULL, DR_ALPN, "peer did not return a certificate");
    assert_refused(w, &pki.node, DR_ALPN, "certificate in certificate chain");
    assert_refused(w, &pki.node, "holdfast-dr/1,http/1.1", "certificate in certificate chain");
    assert_refused(w, &pki.node, "holdfast-raft/1,holdfast-dr/1",
                   "certificate in certificate chain");
    assert_refused(w, &pki.ca, DR_ALPN, "unsuitable certificate purpose");
    make_pair(&pki.ca, &pki.name, time(NULL) - (DR_CERT_DAYS + 1) * 86400, &old);
    assert_refused(w, &old, DR_ALPN, "certificate has expired");
    other_set.set[3] ^= 1;
    assert_status(dr_cert_ca_make(&other_set, time(NULL), &ca, NULL), ST_OK);
    make_pair(&ca, &other_set, time(NULL), &foreign);
    assert_refused(w, &foreign, DR_ALPN, "certificate");
}

/* The authority signs a name of another set: the name decides. */
static void a_name_outside_the_set_is_refused(void **ctx)
{
    struct world *w = *ctx;
    struct dr_name name = pki.name;
    char uri[DR_URI_MAX];
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    name.set[0] ^= 1;
    dr_name_uri(&name, uri);
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {.common_name = "east",
                                         .sans = &san,
                                         .n_sans = 1,
                                         .not_before_s = time(NULL) - 60,
                                         .not_after_s = time(NULL) + 3600,
                                         .client = true};
    assert_status(cert_make(&request, &pki.ca, &pair, NULL), ST_OK);
    start_open(w);
    trust(w, &pki.ca);
    assert_refused(w, &pair, DR_ALPN, "the peer's certificate is not for holdfast://");
}

static void a_secondary_is_no_node_and_no_stranger(void **ctx)
{
    static const char *const alpns[] = {"http/1.1", "holdfast-raft/1", "http/1.1,holdfast-raft/1"};
    struct world *w = *ctx;
    start_open(w);
    trust(w, &pki.ca);
    for (size_t i = 0; i < ARRAY_LEN(alpns); i++)
        assert_refused(w, &pki.pair, alpns[i], "certificate");
}

static void a_node_that_serves_no_secondaries_refuses_them(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0); /* has no event for them */
    trust(w, &pki.ca);
    assert_refused(w, &pki.pair, DR_ALPN, "secondary clusters are not served here");
}

static void nodes_link_as_before(void **ctx)
{
    struct world *w = *ctx;
    start_open(w);
    trust(w, &pki.ca);
    start(w, 1);
    introduce(w, 0);
    introduce(w, 1);
    run_until(w, all_linked, w);
    send_str(&w->nodes[1], 1, "hello", false);
    run_until(w, received_one, &w->nodes[0]);
    assert_string_equal(w->nodes[0].from_name, "n2");
}

static void another_authority_is_not_taken(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_identity b;
    struct dr_name elsewhere = pki.name;
    struct reason reason = {""};
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    start_open(w);
    trust(w, &pki.ca);
    assert_status(mesh_identity_read(file(w, "b", "n2", ".pem"), &b, NULL), ST_OK);
    memcpy(elsewhere.cluster, b.cluster, sizeof b.cluster);
    assert_status(dr_cert_ca_make(&elsewhere, time(NULL), &ca, NULL), ST_OK);
    const struct bytes wrong[] = {buf_bytes(&ca.cert), buf_bytes(&pki.node_ca.cert),
                                  buf_bytes(&pki.node.cert), buf_bytes(&pki.pair.cert),
                                  BYTES("rubbish")};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_status(mesh_dr_trust(w->nodes[0].mesh, wrong[i], &reason), ST_INVALID);
        assert_string_equal(reason.text, "this is not a replication authority of this cluster");
    }
    assert_served(w, &pki.pair); /* as before */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, nodes_init, each_done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_secondary_is_handed_over),
        TEST(without_an_authority_secondaries_are_refused),
        TEST(the_authority_can_be_replaced_and_taken_back),
        TEST(a_connection_on_its_way_counts_as_refused),
        TEST(only_secondaries_speak_the_protocol),
        TEST(a_name_outside_the_set_is_refused),
        TEST(a_secondary_is_no_node_and_no_stranger),
        TEST(a_node_that_serves_no_secondaries_refuses_them),
        TEST(nodes_link_as_before),
        TEST(another_authority_is_not_taken),
    };
    return cmocka_run_group_tests(tests, pki_init, pki_done);
}
