/* The request of a secondary, and what it proves about the answer. */
#include "dr/dr_pendings.h"

#include "cluster/dr/activation.h"
#include "text/encode.h"
#include "text/json.h"

#include <stdio.h>

enum { MIB = 1024 * 1024 };

static struct dr_certs certs;
static struct dr_pending pending;
static struct buf cert, text;
static struct dr_answer answer;
static struct reason why;
static struct dr_own own;
static char root_text[256];

/* Members of an answer that a test changes; the others are good. */
static struct {
    const char *set, *cluster, *seal, *root, *addresses, *cert;
    uint64_t epoch;
    int64_t protocol;
} given;

#define CLUSTER "c102030405060708090a0b0c0d0e0f10"
#define SET "5e010000000000000000000000000000"

static void seal_root(size_t n)
{
    CLEANUP(buf_done) struct buf context = {0};
    CLEANUP(buf_done) struct buf box = {0};
    uint8_t root[DR_BUNDLE_BYTES_MAX] = {1, 2, 3};
    dr_activation_context(&pending.bundle.name, buf_bytes(&pending.public_pem), &context);
    assert_status(
        box_seal(pending.box.public_key, buf_bytes(&context), bytes_of(root, n), &box), ST_OK);
    assert_true(TEXT_BASE64_LEN(box.len) < sizeof root_text);
    (void)text_base64_put(buf_bytes(&box), TEXT_BASE64, root_text);
}

static void sign(const struct dr_name *name)
{
    const struct dr_cert_order order = {name, buf_bytes(&pending.public_pem), now_s()};
    buf_clear(&cert);
    assert_status(dr_cert_sign(&certs.ca, &order, &cert, &why), ST_OK);
    buf_add_u8(&cert, 0);
}

static int set_up(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    dr_certs_init(&certs);
    make_pending(&pending, buf_bytes(&certs.cluster_ca.cert));
    sign(&east);
    seal_root(SEAL_KEY_BYTES);
    given.set = SET;
    given.cluster = CLUSTER;
    given.seal = "\"static\",\"recovery\":true";
    given.root = root_text;
    given.addresses = "[\"n1:8201\",\"n2:8201\"]";
    given.cert = (const char *)cert.data;
    given.epoch = 3;
    given.protocol = 1;
    own = (struct dr_own){.version = 10, .feature = 4, .seal = SEAL_SHAMIR};
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_certs_done(&certs);
    dr_pending_done(&pending);
    dr_answer_done(&answer);
    buf_done(&cert);
    buf_done(&text);
    return 0;
}

static enum status read_answer(void)
{
    struct text_writer w = {.out = &text};
    buf_clear(&text);
    dr_answer_done(&answer);
    why = (struct reason){{0}};
    text_open_object(&w);
    text_member_str(&w, "certificate", given.cert);
    text_member_str(&w, "root_key", given.root);
    text_member_str(&w, "set", given.set);
    text_member_str(&w, "cluster_id", given.cluster);
    text_member_int(&w, "epoch", (int64_t)given.epoch);
    text_member_int(&w, "version", 10);
    text_member_int(&w, "keys", 3);
    text_member_int(&w, "bytes", 100 * MIB);
    text_member_int(&w, "feature", 4);
    text_member_int(&w, "protocol", given.protocol);
    text_key(&w, "addresses");
    text_put_raw(&w, bytes_str(given.addresses));
    text_key(&w, "seal");
    text_put_raw(&w, bytes_str(given.seal));
    text_close(&w);
    return dr_answer_read(&pending, buf_bytes(&text), &answer, &why);
}

static enum status check(void)
{
    why = (struct reason){{0}};
    return dr_answer_check(&pending, &answer, &own, &why);
}

static void assert_check_refuses(const char *words)
{
    assert_status(check(), ST_INVALID);
    if (strstr(why.text, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", why.text, words);
}

static void the_request_has_no_private_key(void **ctx)
{
    (void)ctx;
    static const char *const members[] = {"id", "secret", "public_key", "box_key",
                                          "version", "feature", "protocol"};
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *asked;
    assert_status(dr_activation_ask(&pending, &own, &text), ST_OK);
    assert_status(text_json_parse(&arena, buf_bytes(&text), &asked, NULL), ST_OK);
    assert_int_equal(asked->n, ARRAY_LEN(members));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(text_get(asked, members[i]));
    assert_null(memmem(text.data, text.len, "PRIVATE", 7));
}

static void a_good_answer_is_proved(void **ctx)
{
    (void)ctx;
    assert_status(read_answer(), ST_OK);
    assert_status(check(), ST_OK);
    assert_int_equal(answer.root.len, SEAL_KEY_BYTES);
    assert_int_equal(answer.root.data[2], 3);
    assert_int_equal(answer.addresses.n, 2);
    assert_int_equal(answer.bytes, 100 * MIB);
}

static void a_malformed_answer_is_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char **member;
        const char *value;
    } bad[] = {
        {&given.set, "5e"},
        {&given.set, SET "0"},
        {&given.cluster, ""},
        {&given.addresses, "[]"},
        {&given.addresses, "[\"h\"]"},
        {&given.addresses, "\"h:1\""},
        {&given.seal, "\"other\",\"recovery\":true"},
        {&given.seal, "\"static\""},
        {&given.seal, "\"static\",\"recovery\":1"},
        {&given.root, ""},
        {&given.root, "AAAA"},
        {&given.root, "not base64!"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *was = *bad[i].member;
        *bad[i].member = bad[i].value;
        assert_status(read_answer(), ST_INVALID);
        assert_true(why.text[0] != '\0');
        *bad[i].member = was;
    }
    given.protocol = 0;
    assert_status(read_answer(), ST_INVALID);
    given.protocol = -1;
    assert_status(read_answer(), ST_INVALID);
    assert_status(dr_answer_read(&pending, BYTES("[]"), &answer, &why), ST_INVALID);
    assert_status(dr_answer_read(&pending, BYTES(""), &answer, &why), ST_INVALID);
}

static void a_root_key_of_another_length_or_for_another_is_refused(void **ctx)
{
    (void)ctx;
    seal_root(SEAL_KEY_BYTES - 1);
    assert_status(read_answer(), ST_INVALID);
    assert_non_null(strstr(why.text, "root key"));
    seal_root(SEAL_KEY_BYTES);
    assert_status(read_answer(), ST_OK);
    pending.bundle.name.id[0] = 'E'; /* the name is authenticated with the root key */
    assert_status(read_answer(), ST_INVALID);
}

static void the_answer_must_come_from_the_primary_of_the_token(void **ctx)
{
    (void)ctx;
    given.set = CLUSTER;
    assert_status(read_answer(), ST_OK);
    assert_check_refuses("not the one that made the token");
    given.set = SET;
    given.cluster = SET;
    assert_status(read_answer(), ST_OK);
    assert_check_refuses("not the one that made the token");
    given.cluster = CLUSTER;
    given.epoch = 4;
    assert_status(read_answer(), ST_OK);
    assert_check_refuses("not the one that made the token");
}

static void the_certificate_must_be_ours(void **ctx)
{
    (void)ctx;
    struct dr_name west = east;
    CLEANUP(dr_pending_done) struct dr_pending other = {0};
    (void)snprintf(west.id, sizeof west.id, "west");
    sign(&west);
    given.cert = (const char *)cert.data;
    assert_status(read_answer(), ST_OK);
    assert_check_refuses("another secondary");
    given.cert = "";
    assert_status(read_answer(), ST_OK);
    assert_check_refuses("another secondary");

    sign(&east);
    given.cert = (const char *)cert.data;
    assert_status(read_answer(), ST_OK);
    make_pending(&other, buf_bytes(&certs.cluster_ca.cert));
    buf_clear(&pending.key);
    buf_add(&pending.key, buf_bytes(&other.key)); /* the certificate is for another key */
    assert_status(check(), ST_INVALID);
}

static void the_cluster_must_be_able_to_follow(void **ctx)
{
    (void)ctx;
    assert_status(read_answer(), ST_OK);
    own.feature = 3;
    assert_check_refuses("feature level 4");
    own.feature = 5;
    own.version = 11;
    assert_check_refuses("did not raise");
    own.version = 10;
    answer.recovery = false;
    assert_check_refuses("key shares");
    own.seal = SEAL_STATIC;
    assert_status(check(), ST_OK);
    own.state_bytes_max = 100 * MIB - 1;
    assert_check_refuses("state_bytes_max");
    own.state_bytes_max = 100 * MIB;
    own.free_bytes = 263 * MIB;
    assert_check_refuses("free");
    own.free_bytes = 1;
    assert_check_refuses("free");
    own.free_bytes = 264 * MIB;
    assert_status(check(), ST_OK);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_request_has_no_private_key),
        TEST(a_good_answer_is_proved),
        TEST(a_malformed_answer_is_refused),
        TEST(a_root_key_of_another_length_or_for_another_is_refused),
        TEST(the_answer_must_come_from_the_primary_of_the_token),
        TEST(the_certificate_must_be_ours),
        TEST(the_cluster_must_be_able_to_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
