#include "cluster/dr/link/dr_cert.h"

#include "dr/dr_certs.h"

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

static void a_signed_certificate_names_the_secondary(void **ctx)
{
    struct dr_name name;
    int64_t begins_s, ends_s;
    CLEANUP(buf_done) struct buf public = {0};
    struct bytes pem = buf_bytes(&certs.secondary.cert);
    (void)ctx;
    assert_status(dr_cert_name(pem, &name), ST_OK);
    assert_memory_equal(&name, &east, sizeof name);
    assert_status(cert_key_public(buf_bytes(&certs.secondary.key), &public), ST_OK);
    assert_status(cert_matches(pem, buf_bytes(&certs.ca.cert), buf_bytes(&public)), ST_OK);
    assert_status(cert_not_before(pem, &begins_s), ST_OK);
    assert_status(cert_not_after(pem, &ends_s), ST_OK);
    assert_int_equal(ends_s - begins_s, (DR_CERT_DAYS + MESH_BACKDATE_DAYS) * 86400);
    assert_true(begins_s <= now_s() - 86400);
}

static void an_authority_signs_for_its_own_set_only(void **ctx)
{
    struct dr_name other_set = east, other_cluster = east, later = east;
    const struct cert_pair *not_mine = &certs.cluster_ca;
    CLEANUP(buf_done) struct buf key = {0}, public = {0}, cert = {0};
    struct reason reason = {""};
    (void)ctx;
    other_set.set[15] ^= 1;
    other_cluster.cluster[0] ^= 1;
    later.epoch++;
    assert_status(cert_key_make(&key, &public), ST_OK);
    struct dr_cert_order order = {&other_set, buf_bytes(&public), now_s()};
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &reason), ST_INVALID);
    assert_string_equal(reason.text, "this is not the replication authority of this set");
    order.name = &other_cluster;
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &reason), ST_INVALID);
    order.name = &east;
    assert_status(dr_cert_sign(not_mine, &order, &cert, &reason), ST_INVALID);
    assert_status(dr_cert_sign(&certs.secondary, &order, &cert, &reason), ST_INVALID);
    assert_int_equal(cert.len, 0);
    order.name = &later; /* an epoch of the same set */
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &reason), ST_OK);
}

static void a_key_that_is_no_key_is_refused(void **ctx)
{
    static const char ed25519[] = "-----BEGIN PUBLIC KEY-----\n"
                                  "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                                  "-----END PUBLIC KEY-----\n"; /* Ed25519, RFC 8410 10.1 */
    CLEANUP(buf_done) struct buf cert = {0};
    struct reason reason = {""};
    struct dr_cert_order order = {&east, BYTES("rubbish"), now_s()};
    (void)ctx;
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &reason), ST_INVALID);
    order.public_pem = bytes_of(ed25519, sizeof ed25519 - 1);
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &reason), ST_INVALID);
    assert_string_equal(reason.text,
                        "certificate public key: not one of the curve P-256 in PEM form");
}

static void an_authority_is_checked_with_its_key(void **ctx)
{
    struct dr_name other = east;
    CLEANUP(cert_pair_done) struct cert_pair mixed = {0}, twin = {0};
    struct reason reason = {""};
    (void)ctx;
    other.set[0] ^= 1;
    assert_status(dr_cert_ca_check(&certs.ca, &east, &reason), ST_OK);
    assert_status(dr_cert_ca_check(&certs.ca, &other, &reason), ST_INVALID);
    assert_status(dr_cert_ca_make(&east, now_s(), &twin, NULL), ST_OK);
    buf_add(&mixed.cert, buf_bytes(&certs.ca.cert));
    buf_add(&mixed.key, buf_bytes(&twin.key));
    assert_status(dr_cert_ca_check(&mixed, &east, &reason), ST_INVALID);
}

static void a_certificate_is_due_at_half_its_validity(void **ctx)
{
    const int64_t half_s = DR_CERT_DAYS * 86400 / 2;
    (void)ctx;
    assert_false(dr_cert_due(1000000 + half_s, 1000000));
    assert_true(dr_cert_due(1000000 + half_s - 1, 1000000));
    assert_true(dr_cert_due(1000000, 2000000));
}

static void assert_no_context(struct dr_cert_own own, const char *why)
{
    struct reason reason = {""};
    struct tls_ctx *made = NULL;
    assert_status(dr_cert_tls(&own, &made, &reason), ST_INVALID);
    assert_string_equal(reason.text, why);
    assert_null(made);
}

static void texts_that_do_not_belong_together_are_refused(void **ctx)
{
    struct dr_name elsewhere = east;
    struct tls_ctx *made = NULL;
    CLEANUP(cert_pair_done) struct cert_pair ca = {0}, other = {0};
    struct dr_cert_own own = own_of(&certs, &certs.secondary);
    (void)ctx;
    assert_status(dr_cert_tls(&own, &made, NULL), ST_OK);
    tls_ctx_unref(made);
    assert_no_context(own_of(&certs, &certs.node),
                      "the certificate is not one of a secondary of this primary");
    elsewhere.cluster[5] ^= 1;
    assert_status(dr_cert_ca_make(&elsewhere, now_s(), &ca, NULL), ST_OK);
    make_secondary(&ca, &elsewhere, now_s(), &other);
    assert_no_context(own_of(&certs, &other),
                      "the certificate is not one of a secondary of this primary");
    own.ca = buf_bytes(&certs.ca.cert);
    assert_no_context(own, "the primary's authority is not one of a cluster");
    own.ca = BYTES("rubbish");
    assert_no_context(own, "the primary's authority is not one of a cluster");
    own = own_of(&certs, &certs.secondary);
    own.key = buf_bytes(&certs.node.key);
    assert_no_context(own, "given PEM text: the key does not belong to the certificate");
    own.key = (struct bytes){0};
    assert_no_context(own, "PEM text is too long or absent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signed_certificate_names_the_secondary),
        cmocka_unit_test(an_authority_signs_for_its_own_set_only),
        cmocka_unit_test(a_key_that_is_no_key_is_refused),
        cmocka_unit_test(an_authority_is_checked_with_its_key),
        cmocka_unit_test(a_certificate_is_due_at_half_its_validity),
        cmocka_unit_test(texts_that_do_not_belong_together_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
