#include "crypto/tls_pair.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

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

static void pairs_are_pem_text(void **ctx)
{
    static const char cert[] = "-----BEGIN CERTIFICATE-----\n";
    static const char key[] = "-----BEGIN PRIVATE KEY-----\n";
    (void)ctx;
    assert_memory_equal(pki.node.cert.data, cert, sizeof cert - 1);
    assert_memory_equal(pki.node.key.data, key, sizeof key - 1);
}

static void two_certificates_of_one_request_differ(void **ctx)
{
    uint8_t a[32], b[32];
    (void)ctx;
    assert_status(cert_fingerprint(buf_bytes(&pki.ca.cert), a), ST_OK);
    assert_status(cert_fingerprint(buf_bytes(&pki.other_ca.cert), b), ST_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

static void validity_is_as_asked(void **ctx)
{
    struct cert_request request = {
        .common_name = "x", .not_before_s = 5, .not_after_s = 1000000000};
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    int64_t until = 0;
    (void)ctx;
    assert_status(cert_make(&request, NULL, &pair, NULL), ST_OK);
    assert_status(cert_not_after(buf_bytes(&pair.cert), &until), ST_OK);
    assert_int_equal(until, 1000000000);
}

static const struct cert_request signable = {
    .common_name = "x", .not_before_s = 1000, .not_after_s = 4000000000, .client = true};

static void a_key_is_signed_without_being_shown(void **ctx)
{
    CLEANUP(buf_done) struct buf key = {0}, public = {0}, again = {0}, cert = {0}, other = {0};
    CLEANUP(buf_done) struct buf other_public = {0};
    int64_t since = 0;
    (void)ctx;
    assert_status(cert_key_make(&key, &public), ST_OK);
    assert_status(cert_key_public(buf_bytes(&key), &again), ST_OK);
    assert_true(bytes_eq(buf_bytes(&public), buf_bytes(&again)));
    assert_status(cert_sign(&signable, &pki.ca, buf_bytes(&public), &cert, NULL), ST_OK);
    assert_status(cert_not_before(buf_bytes(&cert), &since), ST_OK);
    assert_int_equal(since, 1000);
    struct bytes made = buf_bytes(&cert), ca = buf_bytes(&pki.ca.cert);
    assert_status(cert_matches(made, ca, buf_bytes(&public)), ST_OK);
    assert_status(cert_matches(made, buf_bytes(&pki.other_ca.cert), buf_bytes(&public)),
                  ST_INVALID);
    assert_status(cert_key_make(&other, &other_public), ST_OK);
    assert_status(cert_matches(made, ca, buf_bytes(&other_public)), ST_INVALID);
    assert_status(cert_matches(BYTES("x"), ca, buf_bytes(&public)), ST_INVALID);
}

static void only_keys_of_our_kind_are_signed(void **ctx)
{
    CLEANUP(buf_done) struct buf cert = {0}, public = {0};
    struct reason reason = {""};
    static uint8_t much[100000];
    /* Curve P-384. */
    static const char other[] = "-----BEGIN PUBLIC KEY-----\n"
                                "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEmEkXYBLQdKreDBK068laMstUymVd8kHu\n"
                                "ATwRgVoXns/mxx4kuHGiG7cPl1042+/RrnkM/xuaD50TsrD0LZDV6uHRCncnaCRO\n"
                                "IU2lua5ezguKHg3yOotZywAAKVaM92G+\n"
                                "-----END PUBLIC KEY-----\n";
    const struct bytes bad[] = {BYTES(""),
                                BYTES("x"),
                                bytes_str(other),
                                buf_bytes(&pki.ca.cert),
                                buf_bytes(&pki.ca.key),
                                bytes_of(much, sizeof much)};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(cert_sign(&signable, &pki.ca, bad[i], &cert, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "public key"));
    assert_status(cert_key_public(BYTES("x"), &public), ST_INVALID);
    assert_status(cert_key_public(buf_bytes(&pki.ca.cert), &public), ST_INVALID);
}

static void an_authority_has_its_own_key(void **ctx)
{
    struct cert_pair crossed = {.cert = pki.ca.cert, .key = pki.other_ca.key};
    struct reason reason = {""};
    (void)ctx;
    assert_status(cert_check_ca(&pki.ca, &reason), ST_OK);
    assert_status(cert_check_ca(&pki.node, &reason), ST_INVALID);
    assert_status(cert_check_ca(&crossed, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "issuer"));
}

static void assert_refused(struct cert_request request, const struct cert_pair *issuer,
                           const char *why)
{
    struct cert_pair pair = {0};
    struct reason reason = {""};
    assert_status(cert_make(&request, issuer, &pair, &reason), ST_INVALID);
    assert_string_equal(reason.text, why);
    assert_null(pair.key.data);
}

static void bad_requests_are_explained(void **ctx)
{
    static const struct cert_san address[] = {{CERT_SAN_IP, "300.1.1.1"}};
    static const struct cert_san space[] = {{CERT_SAN_DNS, "a b"}};
    struct cert_request good = {.common_name = "x", .not_before_s = 1, .not_after_s = 2}, bad;
    (void)ctx;
    bad = good, bad.common_name = "";
    assert_refused(bad, NULL, "certificate common name: 1 to 64 characters");
    char name[66];
    memset(name, 'n', sizeof name - 1);
    name[65] = '\0';
    bad = good, bad.common_name = name;
    assert_refused(bad, NULL, "certificate common name: 1 to 64 characters");
    bad = good, bad.not_after_s = 1;
    assert_refused(bad, NULL, "certificate validity: ends before it begins");
    bad = good, bad.sans = address, bad.n_sans = 1;
    assert_refused(bad, NULL, "certificate address: not an IP address");
    bad = good, bad.sans = space, bad.n_sans = 1;
    assert_refused(bad, NULL,
                   "certificate name: 1 to 255 printable ASCII characters without spaces");
    char longer[257];
    memset(longer, 'n', sizeof longer - 1);
    longer[256] = '\0';
    const char *const names[] = {"", "a\x7f", "a\n", longer};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct cert_san san = {CERT_SAN_DNS, names[i]};
        bad = good, bad.sans = &san, bad.n_sans = 1;
        assert_refused(bad, NULL,
                       "certificate name: 1 to 255 printable ASCII characters without spaces");
    }
    bad = good, bad.n_sans = CERT_SANS_MAX + 1;
    assert_refused(bad, NULL, "certificate names: too many");
}

static void only_a_ca_with_its_key_signs(void **ctx)
{
    struct cert_request good = {.common_name = "x", .not_before_s = 1, .not_after_s = 2};
    struct cert_pair mixed = {.cert = pki.ca.cert, .key = pki.other_ca.key};
    struct cert_pair empty = {0};
    (void)ctx;
    assert_refused(good, &pki.node, "certificate issuer: not a CA with its own key");
    assert_refused(good, &mixed, "certificate issuer: not a CA with its own key");
    assert_refused(good, &empty, "certificate issuer: not a certificate and key in PEM form");
}

static X509 *read_x509(const struct buf *pem)
{
    BIO *bio = BIO_new_mem_buf(pem->data, (int)pem->len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(cert);
    return cert;
}

static void a_certificate_is_for_what_was_asked_alone(void **ctx)
{
    X509 *ca = read_x509(&pki.ca.cert), *node = read_x509(&pki.node.cert);
    X509 *server = read_x509(&pki.server.cert);
    (void)ctx;
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_get_pathlen(ca), 0); /* nodes, and no other authority */
    assert_int_equal(X509_get_key_usage(ca), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(X509_check_ca(node), 0);
    assert_int_equal(X509_get_key_usage(node), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(node), XKU_SSL_SERVER | XKU_SSL_CLIENT);
    assert_int_equal(X509_get_extended_key_usage(server), XKU_SSL_SERVER);
    X509_free(ca);
    X509_free(node);
    X509_free(server);
}

static void no_two_serial_numbers_are_the_same(void **ctx)
{
    CLEANUP(buf_done) struct buf key = {0}, public = {0}, one = {0}, two = {0};
    (void)ctx;
    assert_status(cert_key_make(&key, &public), ST_OK);
    assert_status(cert_sign(&signable, &pki.ca, buf_bytes(&public), &one, NULL), ST_OK);
    assert_status(cert_sign(&signable, &pki.ca, buf_bytes(&public), &two, NULL), ST_OK);
    X509 *a = read_x509(&one), *b = read_x509(&two);
    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)), 0);
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(a), NULL);
    assert_int_equal(BN_is_negative(number), 0);
    assert_int_equal(BN_num_bits(number), 159);
    BN_free(number);
    X509_free(a);
    X509_free(b);
}

static void rubbish_has_no_fingerprint(void **ctx)
{
    uint8_t fingerprint[32];
    int64_t until;
    (void)ctx;
    assert_status(cert_fingerprint(BYTES("rubbish"), fingerprint), ST_INVALID);
    assert_status(cert_not_after(BYTES(""), &until), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_pem_text),
        cmocka_unit_test(two_certificates_of_one_request_differ),
        cmocka_unit_test(validity_is_as_asked),
        cmocka_unit_test(a_key_is_signed_without_being_shown),
        cmocka_unit_test(only_keys_of_our_kind_are_signed),
        cmocka_unit_test(an_authority_has_its_own_key),
        cmocka_unit_test(bad_requests_are_explained),
        cmocka_unit_test(only_a_ca_with_its_key_signs),
        cmocka_unit_test(a_certificate_is_for_what_was_asked_alone),
        cmocka_unit_test(no_two_serial_numbers_are_the_same),
        cmocka_unit_test(rubbish_has_no_fingerprint),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
