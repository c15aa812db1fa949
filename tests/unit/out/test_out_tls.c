/* Which servers a request trusts. OpenSSL's own configuration allows old protocols here, so that
 * only the client's options keep them out. */
#include "crypto/tls_pair.h"

#include "out/with_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct pki pki;
static struct cert_pair elsewhere, stale; /* of the CA: for another host; expired */
static char folder[] = "/tmp/holdfast-out-XXXXXX", ca_path[64], other_path[64];
static struct peer peer;

static void write_file(const char *path, struct bytes text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
}

static void run(const char *format, const char *path)
{
    char command[256];
    (void)snprintf(command, sizeof command, format, path);
    assert_int_equal(system(command), 0);
}

static int group_setup(void **ctx)
{
    static const struct cert_san sans[] = {{CERT_SAN_DNS, "elsewhere.test"},
                                           {CERT_SAN_IP, "192.0.2.1"}};
    (void)ctx; /* static */
    pki_init(&pki);
    make(
        (struct cert_request){
            .common_name = "localhost", .sans = sans, .n_sans = 2, .server = true},
        &pki.ca, &elsewhere);
    make((struct cert_request){.common_name = "localhost",
                               .sans = server_sans,
                               .n_sans = 3,
                               .server = true,
                               .not_after_s = 1000},
         &pki.ca, &stale);
    (void)snprintf(ca_path, sizeof ca_path, "%s/ca.pem", folder);
    (void)snprintf(other_path, sizeof other_path, "%s/other.pem", folder);
    write_file(ca_path, buf_bytes(&pki.ca.cert));
    write_file(other_path, buf_bytes(&pki.other_ca.cert));
    return 0;
}

static int group_teardown(void **ctx)
{
    (void)ctx; /* static */
    cert_pair_done(&elsewhere);
    cert_pair_done(&stale);
    pki_done(&pki);
    run("rm -rf %s", folder);
    return 0;
}

static int setup(void **ctx)
{
    (void)ctx; /* static */
    peer = (struct peer){.script = BYTES(OK_HELLO)};
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    peer_down(&peer);
    tls_ctx_unref(peer.tls);
    return 0;
}

static void serve_as(const struct cert_pair *pair)
{
    struct tls_options options = own(pair, &pki.ca);
    options.server = true;
    peer_up(&peer, serve_script, ctx_of(options));
}

static void assert_hello(const struct out_request *request)
{
    struct out_reply reply = {0};
    struct reason reason = {""};
    enum status st = out_request(request, &reply, NULL, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    assert_bytes(buf_bytes(&reply.body), BYTES("hello"));
    out_reply_done(&reply);
}

/* The request fails, and its method, headers and body stay here. */
static void assert_refused(const struct out_request *request, enum status st, const char *why)
{
    struct out_reply reply = {0};
    struct reason reason = {""};
    bool sent = true;
    assert_status(out_request(request, &reply, &sent, &reason), st);
    assert_has_text(reason.text, why);
    assert_false(sent);
}

static struct out_request request_to(const char *host)
{
    return (struct out_request){.method = "GET", .url = url_of(&peer, "https", host)};
}

static void a_server_of_the_given_authority_is_trusted(void **ctx)
{
    (void)ctx; /* static */
    serve_as(&pki.server);
    struct out_request request = request_to("localhost");
    request.tls.ca_file = ca_path;
    assert_hello(&request);
    request.tls.ca_path = ""; /* as if absent */
    assert_hello(&request);
    request.tls = (struct out_tls){.ca_pem = buf_bytes(&pki.ca.cert)};
    assert_hello(&request);
    request.url = url_of(&peer, "https", "127.0.0.1");
    assert_hello(&request);

    CLEANUP(buf_done) struct buf both = {0};
    buf_add(&both, buf_bytes(&pki.other_ca.cert));
    buf_add(&both, buf_bytes(&pki.ca.cert));
    request.tls.ca_pem = buf_bytes(&both);
    assert_hello(&request);
}

static void a_folder_of_authorities_is_read(void **ctx)
{
    char good[80], bad[80];
    (void)ctx; /* static */
    serve_as(&pki.server);
    (void)snprintf(good, sizeof good, "%s/good", folder);
    (void)snprintf(bad, sizeof bad, "%s/bad", folder);
    /* names as people give them, beside files that are no certificates; no `openssl rehash` */
    run("cd %s && mkdir good bad empty good/deep && cp ca.pem 'good/our authority' && "
        "cp other.pem bad/0-other.crt && cp other.pem good/a.pem && touch empty/none.pem",
        folder);
    run("cd %s/good && echo text > README && ln -s nowhere link && mkfifo pipe && "
        "printf -- '-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----' > 0-broken.pem",
        folder);
    struct out_request request = request_to("localhost");
    request.tls.ca_path = good;
    assert_hello(&request);
    request.tls.ca_path = bad;
    assert_refused(&request, ST_CRYPTO, "is not trusted");
    request.tls.ca_file = ca_path; /* either is enough */
    assert_hello(&request);
    (void)snprintf(bad, sizeof bad, "%s/empty", folder);
    assert_refused(&request, ST_INVALID, "has no certificate in PEM form");
}

static void another_authority_is_not_trusted(void **ctx)
{
    (void)ctx; /* static */
    serve_as(&pki.server);
    struct out_request request = request_to("localhost");
    request.tls.ca_file = other_path;
    assert_refused(&request, ST_CRYPTO, "is not trusted");
    request.tls = (struct out_tls){.ca_pem = buf_bytes(&pki.other_ca.cert)};
    assert_refused(&request, ST_CRYPTO, "is not trusted");
    request.tls = (struct out_tls){0}; /* the system's authorities */
    assert_refused(&request, ST_CRYPTO, "self-signed certificate in certificate chain");
    assert_int_equal(peer.heard.len, 0);
}

static void a_certificate_of_another_host_is_refused(void **ctx)
{
    (void)ctx; /* static */
    serve_as(&elsewhere);
    struct out_request request = request_to("localhost"); /* only its common name fits */
    request.tls.ca_file = ca_path;
    assert_refused(&request, ST_CRYPTO, "is for another host");
    request.url = url_of(&peer, "https", "127.0.0.1");
    assert_refused(&request, ST_CRYPTO, "is for another host");
    assert_int_equal(peer.heard.len, 0);
}

static void an_expired_certificate_is_refused(void **ctx)
{
    (void)ctx; /* static */
    serve_as(&stale);
    struct out_request request = request_to("localhost");
    request.tls.ca_file = ca_path;
    assert_refused(&request, ST_CRYPTO, "certificate has expired");
}

static void serve_after_hello(struct link *link)
{
    while (link->peer->heard.len < 5 && link_hear(link, "\x16\x03"))
        (void)usleep(1000);
    (void)link_say(link, BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"));
}

static void a_server_without_tls_is_refused(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_after_hello, NULL);
    struct out_request request = request_to("localhost");
    request.tls.ca_file = ca_path;
    assert_refused(&request, ST_CRYPTO, "no TLS with localhost:");
}

static void certificates_that_cannot_be_read_are_refused(void **ctx)
{
    (void)ctx; /* static */
    serve_as(&pki.server);
    struct out_request request = request_to("localhost");
    request.tls.ca_file = "/nonexistent/ca.pem";
    assert_refused(&request, ST_INVALID, "/nonexistent/ca.pem");
    request.tls.ca_file = "/dev/null";
    assert_refused(&request, ST_INVALID, "/dev/null");
    request.tls = (struct out_tls){.ca_pem = BYTES("no certificate")};
    assert_refused(&request, ST_INVALID, "the given text");
    request.tls = (struct out_tls){.ca_path = "/nonexistent"};
    assert_refused(&request, ST_INVALID, "/nonexistent");
    request.tls = (struct out_tls){.ca_path = ca_path};
    assert_refused(&request, ST_INVALID, ca_path);
    request.tls = (struct out_tls){.ca_file = ca_path, .ca_pem = buf_bytes(&pki.ca.cert)};
    assert_refused(&request, ST_INVALID, "not both");
    request.tls = (struct out_tls){.ca_file = ca_path, .cert_pem = buf_bytes(&pki.node.cert)};
    assert_refused(&request, ST_INVALID, "needs its key");
    request.tls = (struct out_tls){.ca_file = ca_path, .key_pem = buf_bytes(&pki.node.key)};
    assert_refused(&request, ST_INVALID, "needs its key");
    request.tls = (struct out_tls){.ca_file = ca_path,
                                   .cert_pem = buf_bytes(&pki.node.cert),
                                   .key_pem = buf_bytes(&pki.server.key)};
    assert_refused(&request, ST_INVALID, "client certificate");
}

static void a_client_certificate_is_shown(void **ctx)
{
    (void)ctx; /* static */
    struct tls_options options = own(&pki.server, &pki.ca);
    options.server = true;
    options.client_cert = TLS_CLIENT_CERT_REQUIRED;
    peer_up(&peer, serve_script, ctx_of(options));
    struct out_request request = request_to("localhost");
    request.tls = (struct out_tls){.ca_file = ca_path,
                                   .cert_pem = buf_bytes(&pki.node.cert),
                                   .key_pem = buf_bytes(&pki.node.key)};
    assert_hello(&request);
    request.tls = (struct out_tls){.ca_file = ca_path};
    struct out_reply reply = {0};
    struct reason reason = {""};
    assert_status(out_request(&request, &reply, NULL, &reason), ST_BAD_GATEWAY);
    assert_has_text(reason.text, "alert certificate required");
}

/* The versions in the ClientHello's extension supported_versions (RFC 8446 4.2.1). */
static void no_version_below_1_2_is_offered(void **ctx)
{
    static const uint8_t two[] = {0x00, 0x2b, 0x00, 0x05, 0x04, 0x03, 0x04, 0x03, 0x03};
    (void)ctx; /* static */
    peer_up(&peer, serve_after_hello, NULL);
    struct out_request request = request_to("localhost");
    struct out_reply reply = {0};
    assert_status(out_request(&request, &reply, NULL, NULL), ST_CRYPTO);
    assert_non_null(memmem(peer.heard.data, peer.heard.len, two, sizeof two));
}

/* Old protocols are allowed, as on a machine whose administrator needs them. */
static bool allow_old_protocols(void)
{
    char path[64];
    if (mkdtemp(folder) == NULL)
        return false;
    (void)snprintf(path, sizeof path, "%s/openssl.cnf", folder);
    FILE *file = fopen(path, "w");
    return file != NULL &&
           fputs("openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = old\n[old]\n"
                 "MinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n",
                 file) >= 0 &&
           fclose(file) == 0 && setenv("OPENSSL_CONF", path, 1) == 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_server_of_the_given_authority_is_trusted),
        TEST(a_folder_of_authorities_is_read),
        TEST(another_authority_is_not_trusted),
        TEST(a_certificate_of_another_host_is_refused),
        TEST(an_expired_certificate_is_refused),
        TEST(a_server_without_tls_is_refused),
        TEST(certificates_that_cannot_be_read_are_refused),
        TEST(a_client_certificate_is_shown),
        TEST(no_version_below_1_2_is_offered),
    };
    if (!allow_old_protocols())
        return 1;
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
