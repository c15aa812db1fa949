/* Joining by opening the seal, the member's side; the node's is tested with real ones. */
#include "api/api_world.h"

#include "crypto/cert.h"
#include "crypto/tls.h"
#include "loop/loop.h"
#include "node/challenge.h"
#include "text/encode.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#define BOOTSTRAP "/v1/sys/storage/raft/bootstrap/"

static char dir[64];
static struct buf key, public_key, ca;
static char *public_text, challenge[CHALLENGE_TEXT_MAX];

/* JSON text; the caller frees it. */
static char *quoted(struct bytes pem)
{
    struct buf out = {0};
    struct text_writer w_ = {.out = &out};
    text_put_bytes(&w_, pem);
    buf_add_u8(&out, 0);
    assert_status(buf_status(&out), ST_OK);
    return (char *)out.data;
}

static void read_file(const char *name, struct buf *out)
{
    char path[100];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_status(tls_pem_read(path, out, NULL), ST_OK);
}

static void give_authority(void)
{
    struct buf ca_key = {0};
    char path[100];
    struct mesh_identity identity;
    static const struct mesh_node_names names = {.name = "node1"};
    struct fs *fs;
    (void)snprintf(dir, sizeof dir, "/tmp/holdfast-challenge-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_status(loop_fs_new(dir, &fs, NULL), ST_OK);
    struct mesh_pki pki = {.fs = fs, .dir = "", .now_s = 1700000000};
    assert_status(mesh_bootstrap(&pki, &names, 1, NULL), ST_OK);
    loop_fs_free(fs);
    read_file("ca.pem", &ca);
    read_file("ca-key.pem", &ca_key);
    (void)snprintf(path, sizeof path, "%s/node1.pem", dir);
    assert_status(mesh_identity_read(path, &identity, NULL), ST_OK);
    memcpy(w.node.cluster, identity.cluster, sizeof w.node.cluster);
    assert_status(cert_fingerprint(buf_bytes(&ca), w.node.ca_sha256), ST_OK);
    char *cert_text = quoted(buf_bytes(&ca)), *key_text = quoted(buf_bytes(&ca_key));
    char body[4000];
    (void)snprintf(body, sizeof body, "{\"certificate\":%s,\"private_key\":%s}", cert_text,
                   key_text);
    call(METHOD_POST, "/v1/sys/storage/raft/certificates/authority", body, 204);
    mem_free(cert_text);
    mem_free(key_text);
    buf_done(&ca_key);
}

static int open_with_authority(void **ctx)
{
    (void)open_world(ctx);
    give_authority();
    assert_status(cert_key_make(&key, &public_key), ST_OK);
    public_text = quoted(buf_bytes(&public_key));
    w.token[0] = '\0'; /* nobody who asks has one */
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int close_with_authority(void **ctx)
{
    mem_free(public_text);
    buf_done(&key);
    buf_done(&public_key);
    buf_done(&ca);
    (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return close_world(ctx);
}

static struct test_call *ask(const char *name)
{
    char body[1000];
    (void)snprintf(body, sizeof body, "{\"node_id\":\"%s\",\"public_key\":%s}", name, public_text);
    return world_call(&w, METHOD_POST, BOOTSTRAP "challenge", body);
}

/* The member of that name in an answer, as it stands there. */
static void member(const struct test_call *t, const char *name, char *out, size_t room)
{
    char start[40];
    (void)snprintf(start, sizeof start, "\"%s\":\"", name);
    const char *at = strstr(text(t), start);
    assert_non_null(at);
    at += strlen(start);
    assert_true(strcspn(at, "\"") < room);
    (void)snprintf(out, room, "%.*s", (int)strcspn(at, "\""), at);
}

static void get_challenge(const char *name)
{
    member(expect(ask(name), 200, NULL), "challenge", challenge, sizeof challenge);
}

/* With the proof that only the root key makes. */
static struct test_call *answer_as(const char *name)
{
    struct buf message = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    char proof[TEXT_BASE64_LEN(BARRIER_MAC_BYTES) + 1], body[1500];
    assert_status(
        challenge_answer(bytes_str(challenge), bytes_str(name), buf_bytes(&public_key), &message),
        ST_OK);
    assert_status(barrier_prove(w.barrier, buf_bytes(&message), mac), ST_OK);
    buf_done(&message);
    (void)text_base64_put(bytes_of(mac, sizeof mac), TEXT_BASE64, proof);
    (void)snprintf(body, sizeof body,
                   "{\"node_id\":\"%s\",\"public_key\":%s,\"challenge\":\"%s\",\"answer\":\"%s\"}",
                   name, public_text, challenge, proof);
    return world_call(&w, METHOD_POST, BOOTSTRAP "answer", body);
}

static void a_right_answer_buys_one_certificate(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    expect(answer_as("node9"), 200, "\"proof\":\"");
    expect(answer_as("node9"), 403, "challenge: was used already");
    get_challenge("node9"); /* whose answer was lost asks again */
    expect(answer_as("node9"), 200, "BEGIN CERTIFICATE");
}

static void a_challenge_is_good_for_the_node_that_asked(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    expect(answer_as("node8"), 403, "for another node");
    expect(answer_as("node9"), 200, NULL);
}

static void a_challenge_ends(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    w.later_ms += 5 * 60 * 1000 - 1;
    expect(answer_as("node9"), 200, NULL);
    get_challenge("node9");
    w.later_ms += 5 * 60 * 1000;
    expect(answer_as("node9"), 403, "challenge: expired");
}

static unsigned kept(void)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_iter iter;
    unsigned n = 0;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(state_scan(&txn, BYTES("l/pki/challenge/"), (struct bytes){0}, &iter), ST_OK);
    while (state_iter_next(&iter))
        n++;
    state_end(&txn);
    arena_done(&arena);
    return n;
}

static void only_right_answers_are_kept_and_not_for_long(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    expect(answer_as("node8"), 403, NULL);
    assert_int_equal(kept(), 0);
    expect(answer_as("node9"), 200, NULL);
    get_challenge("node9");
    expect(answer_as("node9"), 200, NULL);
    assert_int_equal(kept(), 2);
    w.later_ms += 5 * 60 * 1000;
    get_challenge("node9");
    expect(answer_as("node9"), 200, NULL);
    assert_int_equal(kept(), 1);
}

static void who_became_a_member_meanwhile_gets_nothing(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    w.node.raft.n_members = 1;
    (void)snprintf(w.node.raft.members[0].name, sizeof w.node.raft.members[0].name, "node9");
    expect(answer_as("node9"), 400, "is a member");
    assert_int_equal(kept(), 0);
    expect(ask("node9"), 400, "is a member");
}

static void it_may_be_asked_so_often_and_no_more(void **ctx)
{
    (void)ctx;
    unsigned good = 0;
    while (ask("node9")->http == 200 && good < 1000)
        good++;
    assert_in_range(good, 40, 60);
    expect(ask("node9"), 429, "try again later");
    w.env.now_ms += 60 * 1000;
    expect(ask("node9"), 200, NULL);
}

static void without_the_authority_there_is_no_challenge(void **ctx)
{
    (void)ctx;
    w.node.ca_sha256[0] ^= 1;
    expect(ask("node9"), 400, "certificates/authority");
    w.node.sealed = true;
    w.node.active = false;
    expect(ask("node9"), 503, NULL);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, open_with_authority, close_with_authority)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_right_answer_buys_one_certificate),
        WITH(a_challenge_is_good_for_the_node_that_asked),
        WITH(a_challenge_ends),
        WITH(only_right_answers_are_kept_and_not_for_long),
        WITH(who_became_a_member_meanwhile_gets_nothing),
        WITH(it_may_be_asked_so_often_and_no_more),
        WITH(without_the_authority_there_is_no_challenge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
