/* Joining with the seal or with a join token: the side of the member. Integration tests cover the
 * side of the joining node. */
#include "api/api_world.h"
#include "base/mem.h"

#include "cluster/membership/join/challenge.h"
#include "cluster/membership/join/join_token.h"
#include "crypto/cert.h"
#include "crypto/tls.h"
#include "loop/loop.h"
#include "text/encode.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#define BOOTSTRAP "/v1/sys/storage/raft/bootstrap/"
#define AUTHORITY "/v1/sys/storage/raft/certificates/authority"

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
    w.node.ca_sha256[31] ^= 1; /* nodes that trust another one would trust none of its nodes */
    expect(world_request(&w, METHOD_POST, AUTHORITY, body), 400, "not the authority");
    w.node.ca_sha256[31] ^= 1;
    request(METHOD_POST, AUTHORITY, body, 204);
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

static struct test_request *ask(const char *name)
{
    char body[1000];
    (void)snprintf(body, sizeof body, "{\"node_id\":\"%s\",\"public_key\":%s}", name, public_text);
    return world_request(&w, METHOD_POST, BOOTSTRAP "challenge", body);
}

/* The member of that name in a reply, as it stands there. */
static void member(const struct test_request *t, const char *name, char *out, size_t room)
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

static struct test_request *answer_with(const char *name, const char *proof)
{
    char body[1500];
    (void)snprintf(body, sizeof body,
                   "{\"node_id\":\"%s\",\"public_key\":%s,\"challenge\":\"%s\",\"answer\":\"%s\"}",
                   name, public_text, challenge, proof);
    return world_request(&w, METHOD_POST, BOOTSTRAP "answer", body);
}

/* What only the root key makes: so many bytes of it. */
static const char *proof_of(const char *name, size_t n)
{
    static char proof[TEXT_BASE64_LEN(BARRIER_MAC_BYTES) + 1];
    struct buf message = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    assert_status(
        challenge_answer(bytes_str(challenge), bytes_str(name), buf_bytes(&public_key), &message),
        ST_OK);
    assert_status(barrier_prove(w.barrier, buf_bytes(&message), mac), ST_OK);
    buf_done(&message);
    (void)text_base64_put(bytes_of(mac, n), TEXT_BASE64, proof);
    return proof;
}

static struct test_request *answer_as(const char *name)
{
    return answer_with(name, proof_of(name, BARRIER_MAC_BYTES));
}

static void change_key(void)
{
    struct buf other = {0};
    buf_done(&public_key);
    mem_free(public_text);
    assert_status(cert_key_make(&other, &public_key), ST_OK);
    public_text = quoted(buf_bytes(&public_key));
    buf_done(&other);
}

static void a_right_answer_buys_one_certificate(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    expect(answer_as("node9"), 200, "\"proof\":\"");
    expect(answer_as("node9"), 403, "challenge: was used already");
    get_challenge("node9"); /* whose reply was lost asks again */
    expect(answer_as("node9"), 200, "BEGIN CERTIFICATE");
}

static void only_the_whole_proof_is_an_answer(void **ctx)
{
    (void)ctx;
    static const size_t parts[] = {0, 1, BARRIER_MAC_BYTES / 2, BARRIER_MAC_BYTES - 1};
    get_challenge("node9");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        expect(answer_with("node9", proof_of("node9", parts[i])), 403, "answer: wrong");
    expect(answer_with("node9", proof_of("node8", BARRIER_MAC_BYTES)), 403, "answer: wrong");
    expect(answer_as("node9"), 200, NULL);
}

/* A byte of its end, its number or its MAC, wherever it stands. */
static void a_challenge_of_ones_own_making_is_none(void **ctx)
{
    (void)ctx;
    uint8_t bytes[TEXT_BASE64_BYTES(CHALLENGE_TEXT_MAX)];
    char kept[CHALLENGE_TEXT_MAX];
    size_t n = 0;
    get_challenge("node9");
    memcpy(kept, challenge, sizeof kept);
    assert_status(text_base64_parse(bytes_str(challenge), bytes, &n), ST_OK);
    for (size_t i = 0; i < n; i += 5) {
        bytes[i] ^= 1;
        (void)text_base64_put(bytes_of(bytes, n), TEXT_BASE64_URL, challenge);
        expect(answer_as("node9"), 403, "not of this cluster");
        bytes[i] ^= 1;
        w.env.now_ms += 1000;
    }
    bytes[n - 1] ^= 1;
    (void)text_base64_put(bytes_of(bytes, n), TEXT_BASE64_URL, challenge);
    expect(answer_as("node9"), 403, "not of this cluster");
    memcpy(challenge, kept, sizeof kept);
    expect(answer_as("node9"), 200, NULL);
}

static void a_challenge_is_good_for_the_key_that_was_shown(void **ctx)
{
    (void)ctx;
    get_challenge("node9");
    change_key();
    expect(answer_as("node9"), 403, "for another node");
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
    expect(answer_as("node9"), 429, "try again later"); /* guesses count too */
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

/* Joining by a token, which the operator has made. */

static void make_token(const char *wishes, char out[JOIN_TOKEN_TEXT])
{
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/sys/storage/raft/join-token", wishes);
    w.token[0] = '\0';
    member(expect(t, 200, NULL), "token", out, JOIN_TOKEN_TEXT);
}

static struct test_request *join_as(const char *name, const char *token)
{
    char body[1200];
    (void)snprintf(body, sizeof body,
                   "{\"join_token\":\"%s\",\"node_id\":\"%s\",\"public_key\":%s}", token, name,
                   public_text);
    return world_request(&w, METHOD_POST, BOOTSTRAP "join", body);
}

static void a_token_is_for_one_name_and_one_key(void **ctx)
{
    (void)ctx;
    char token[JOIN_TOKEN_TEXT], named[JOIN_TOKEN_TEXT];
    make_token("{}", token);
    make_token("{\"node_id\":\"node7\"}", named);
    expect(join_as("node8", named), 403, "made for another node");
    expect(join_as("node7", named), 200, "BEGIN CERTIFICATE");
    expect(join_as("node9", token), 200, "BEGIN CERTIFICATE");
    expect(join_as("node9", token), 200, "BEGIN CERTIFICATE"); /* whose reply was lost */
    expect(join_as("node8", token), 403, "was used already");
    change_key();
    expect(join_as("node9", token), 403, "was used already");
    w.node.raft.n_members = 2;
    (void)snprintf(w.node.raft.members[0].name, sizeof w.node.raft.members[0].name, "node1");
    (void)snprintf(w.node.raft.members[1].name, sizeof w.node.raft.members[1].name, "node2");
    make_token("{}", token);
    expect(join_as("node1", token), 400, "is a member");
    expect(join_as("node2", token), 400, "is a member");
    expect(join_as("node3", token), 200, NULL); /* what was refused did not use it */
}

static void a_token_ends_at_its_time(void **ctx)
{
    (void)ctx;
    char token[JOIN_TOKEN_TEXT];
    make_token("{\"ttl\":60}", token);
    w.later_ms += 59999;
    expect(join_as("node9", token), 200, NULL);
    make_token("{\"ttl\":60}", token);
    w.later_ms += 60000;
    expect(join_as("node9", token), 403, "join_token: expired");
    w.later_ms += INT64_C(86400000);
    char other[JOIN_TOKEN_TEXT];
    make_token("{\"ttl\":60}", other); /* which sweeps, and leaves what is a day late or less */
    expect(join_as("node9", token), 403, "join_token: expired");
    w.later_ms += 1;
    make_token("{\"ttl\":60}", other);
    expect(join_as("node9", token), 403, "expired long ago");
}

static void tokens_are_few_and_not_for_ever(void **ctx)
{
    (void)ctx;
    static const char path[] = "/v1/sys/storage/raft/join-token";
    char token[JOIN_TOKEN_TEXT];
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    expect(world_request(&w, METHOD_POST, path, "{\"ttl\":2592001}"), 400, "30 days");
    expect(world_request(&w, METHOD_POST, path, "{\"ttl\":0}"), 400, "1 second");
    expect(world_request(&w, METHOD_POST, path, "{\"node_id\":\"a/b\"}"), 400, "name of a node");
    expect(world_request(&w, METHOD_POST, path, "{\"ttl\":2592000}"), 200, NULL);
    for (int i = 1; i < 64; i++)
        make_token("{}", token);
    expect(join_as("node9", token), 200, NULL);
    make_token("{}", token); /* in place of the one that was used */
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    expect(world_request(&w, METHOD_POST, path, "{}"), 429, "64 join tokens are not used yet");
    w.later_ms += 3600000;
    make_token("{}", token); /* most have expired */
}

static void who_was_removed_again_needs_a_new_token(void **ctx)
{
    (void)ctx;
    static const char readmit[] = "/v1/sys/storage/raft/readmit";
    char token[JOIN_TOKEN_TEXT];
    struct arena arena = {0};
    make_token("{}", token);
    for (int i = 0; i < 2; i++) {
        struct state_txn txn;
        struct state_commit commit = {.done = saved};
        assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
        assert_status(state_put(&txn, BYTES(MEMBER_REMOVED_KEY "node9"), BYTES("x")), ST_OK);
        assert_status(state_commit(&txn, &commit), ST_OK);
        state_end(&txn);
        clock_run(&w.env);
        state_commit_done(&commit);
        expect(join_as("node9", token), i == 0 ? 200 : 403, i == 0 ? NULL : "was used already");
    }
    expect(ask("node9"), 403, "was removed"); /* nor does the root key do */
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    expect(world_request(&w, METHOD_POST, readmit, "{\"server_id\":\"node9\"}"), 204, NULL);
    expect(world_request(&w, METHOD_POST, readmit, "{\"server_id\":\"node9\"}"), 400,
           "was removed");
    expect(ask("node9"), 200, NULL);
    arena_done(&arena);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, open_with_authority, close_with_authority)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_right_answer_buys_one_certificate),
        WITH(only_the_whole_proof_is_an_answer),
        WITH(a_challenge_of_ones_own_making_is_none),
        WITH(a_challenge_is_good_for_the_key_that_was_shown),
        WITH(a_challenge_is_good_for_the_node_that_asked),
        WITH(a_challenge_ends),
        WITH(only_right_answers_are_kept_and_not_for_long),
        WITH(who_became_a_member_meanwhile_gets_nothing),
        WITH(it_may_be_asked_so_often_and_no_more),
        WITH(without_the_authority_there_is_no_challenge),
        WITH(a_token_is_for_one_name_and_one_key),
        WITH(a_token_ends_at_its_time),
        WITH(tokens_are_few_and_not_for_ever),
        WITH(who_was_removed_again_needs_a_new_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
