/* Joining without a token: a node that proves that it can open the cluster's seal gets a
 * certificate.
 *
 * A challenge is not stored: it carries its expiry and a MAC over the expiry, the node's name and
 * the node's key. The state records a challenge as used only after a correct proof, so an
 * unauthenticated peer cannot make the state grow. Each node limits how often all peers together
 * may ask. */
#include "api/members/members.h"
#include "api/members/members_join.h"
#include "barrier/barrier.h"
#include "base/mem.h"
#include "cluster/membership/certificate/authority.h"
#include "cluster/membership/join/challenge.h"
#include "state/state_core.h"
#include "text/encode.h"

#include <assert.h>
#include <stdatomic.h>

/* The body of a request; `challenge` and `answer` only in the second request. */
struct members_challenge {
    const char *node_id, *public_key, *challenge, *answer;
};

enum {
    TTL_MS = 5 * 60 * 1000,
    EVERY_MS = 250, /* average time between requests */
    BURST = 40,     /* requests at once */
    NONCE_BYTES = 16,
    HEAD_BYTES = 8 + NONCE_BYTES,
    CHALLENGE_BYTES = HEAD_BYTES + BARRIER_MAC_BYTES,
    KEY_TEXT = sizeof AUTHORITY_CHALLENGE_KEY + TEXT_HEX_LEN(NONCE_BYTES),
};

static_assert(TEXT_BASE64_LEN(CHALLENGE_BYTES) < CHALLENGE_TEXT_MAX, "the text fits");

static const struct field challenge_fields[] = {
    FIELD(struct members_challenge, node_id, STRING, .required = true,
          .help = "Name of the new node."),
    FIELD(struct members_challenge, public_key, STRING, .required = true,
          .help = "The public half of the node's key, P-256 in PEM form."),
};
static const struct schema members_challenge_schema =
    SCHEMA(struct members_challenge, challenge_fields);

static const struct field answer_fields[] = {
    FIELD(struct members_challenge, node_id, STRING, .required = true,
          .help = "The same as in the request for the challenge."),
    FIELD(struct members_challenge, public_key, STRING, .required = true,
          .help = "The same as in the request for the challenge."),
    FIELD(struct members_challenge, challenge, STRING, .required = true,
          .help = "The challenge, from the reply."),
    FIELD(struct members_challenge, answer, STRING, .required = true, .hidden = true,
          .help = "The proof that the node has the root key, over the other fields, in base64."),
};
static const struct schema members_answer_schema = SCHEMA(struct members_challenge, answer_fields);

/* Limit how often nodes may ask. Each request moves `challenged_ms` forward by EVERY_MS.
 * `challenged_ms` may be ahead of the clock by BURST requests. */
static enum status limit(struct req *req)
{
    _Atomic int64_t *asked_ms = &req->host->challenged_ms;
    int64_t now_ms = (int64_t)env_mono_ms(req->env);
    int64_t seen = atomic_load(asked_ms), next;
    do {
        next = MAX(seen, now_ms) + EVERY_MS;
        if (next - now_ms > (int64_t)EVERY_MS * BURST)
            return req_fail(req, ST_LIMITED, "too many nodes ask to join; try again later");
    } while (!atomic_compare_exchange_weak(asked_ms, &seen, next));
    return ST_OK;
}

/* Refuse a removed node: only a join token readmits it, the root key does not. */
static enum status check_node(struct req *req, const char *name)
{
    TRY(members_join_check_name(req, name));
    ASSERT(mesh_name_valid(name));
    const char *key = arena_format(req->arena, MEMBER_REMOVED_KEY "%s", name);
    if (key == NULL)
        return ST_NOMEM;
    enum status st = state_exists(req->txn, bytes_str(key));
    if (st == ST_OK)
        return req_fail(req, ST_DENIED, "node_id: \"%s\" was removed; let it in again with readmit",
                        name);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status challenge_mac(struct req *req, const struct members_challenge *in,
                                 struct bytes head, uint8_t ret_mac[BARRIER_MAC_BYTES])
{
    CLEANUP(buf_done) struct buf message = {0};
    ASSERT(head.len == HEAD_BYTES);
    buf_add_block(&message, BYTES("join challenge"));
    buf_add_block(&message, head);
    buf_add_block(&message, bytes_str(in->node_id));
    buf_add_block(&message, bytes_str(in->public_key));
    TRY(buf_status(&message));
    return barrier_mac(req->cipher, buf_bytes(&message), ret_mac);
}

struct challenge_out {
    const char *challenge, *seal;
};
static const struct field challenge_out_fields[] = {
    FIELD(struct challenge_out, challenge, STRING),
    FIELD(struct challenge_out, seal, STRING),
};
static const struct schema members_challenge_reply =
    SCHEMA(struct challenge_out, challenge_out_fields);

static enum status reply_challenge(struct req *req, struct bytes challenge, struct bytes seal)
{
    char text[TEXT_BASE64_LEN(CHALLENGE_BYTES) + 1];
    char *seal_text = arena_alloc(req->arena, TEXT_BASE64_LEN(seal.len) + 1);
    ASSERT(challenge.len == CHALLENGE_BYTES);
    if (seal_text == NULL)
        return ST_NOMEM;
    (void)text_base64_put(challenge, TEXT_BASE64_URL, text); /* the length is known */
    (void)text_base64_put(seal, TEXT_BASE64, seal_text);     /* the text is terminated */
    return req_reply(req, &(struct challenge_out){text, seal_text});
}

static enum status members_challenge(struct req *req)
{
    const struct members_challenge *in = req_body(req);
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    uint8_t challenge[CHALLENGE_BYTES];
    struct bytes seal;
    ASSERT(req_in_txn(req));
    TRY(limit(req));
    TRY(check_node(req, in->node_id));
    TRY(members_join_authority(req, &ca));
    TRY(state_seal_record(req->txn, &seal));
    le64_put(challenge, (uint64_t)(req->now_ms + TTL_MS));
    env_random(req->env, challenge + 8, NONCE_BYTES);
    TRY(challenge_mac(req, in, bytes_of(challenge, HEAD_BYTES), challenge + HEAD_BYTES));
    return reply_challenge(req, bytes_of(challenge, sizeof challenge), seal);
}

/* Refuse a challenge that this cluster did not give for this name and key, and an expired one. */
static enum status read_challenge(struct req *req, const struct members_challenge *in,
                                  uint8_t ret[TEXT_BASE64_BYTES(CHALLENGE_TEXT_MAX)])
{
    uint8_t mac[BARRIER_MAC_BYTES];
    size_t n = 0;
    struct bytes text = bytes_str(in->challenge);
    ASSERT(req_in_txn(req));
    if (text.len > CHALLENGE_TEXT_MAX || text_base64_parse(text, ret, &n) != ST_OK ||
        n != CHALLENGE_BYTES)
        return req_fail(req, ST_INVALID, "challenge: malformed");
    TRY(challenge_mac(req, in, bytes_of(ret, HEAD_BYTES), mac));
    if (!bytes_eq_secret(bytes_of(mac, sizeof mac), bytes_of(ret + HEAD_BYTES, sizeof mac))) {
        TRY(state_need_keys(req->txn));
        return req_fail(req, ST_DENIED, "challenge: not of this cluster, or for another node");
    }
    if ((uint64_t)req->now_ms >= le64_get(ret))
        return req_fail(req, ST_DENIED, "challenge: expired");
    return ST_OK;
}

static enum status check_answer(struct req *req, const struct members_challenge *in)
{
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t wanted[BARRIER_MAC_BYTES], given[TEXT_BASE64_BYTES(CHALLENGE_TEXT_MAX)];
    struct bytes text = bytes_str(in->answer);
    size_t n = 0;
    ASSERT(req_in_txn(req));
    if (text.len > CHALLENGE_TEXT_MAX || text_base64_parse(text, given, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "answer: base64 is expected");
    TRY(challenge_answer(bytes_str(in->challenge), bytes_str(in->node_id),
                         bytes_str(in->public_key), &message));
    TRY(barrier_prove(barrier_of(req->cipher), buf_bytes(&message), wanted));
    bool right =
        n == sizeof wanted && bytes_eq_secret(bytes_of(wanted, sizeof wanted), bytes_of(given, n));
    mem_wipe(wanted, sizeof wanted);
    if (right)
        return ST_OK;
    TRY(state_need_keys(req->txn));
    return req_fail(req, ST_DENIED, "answer: wrong");
}

/* Mark the challenge as used, and stage the deletion of expired marks. ST_DENIED: the challenge was
 * used before. */
static enum status use_challenge(struct req *req, const uint8_t challenge[CHALLENGE_BYTES])
{
    char key[KEY_TEXT];
    struct state_iter iter;
    memcpy(key, AUTHORITY_CHALLENGE_KEY, sizeof AUTHORITY_CHALLENGE_KEY - 1);
    text_hex_put(bytes_of(challenge + 8, NONCE_BYTES), key + sizeof AUTHORITY_CHALLENGE_KEY - 1);
    ASSERT(strlen(key) == KEY_TEXT - 1);
    enum status st = state_exists(req->txn, bytes_str(key));
    if (st == ST_OK)
        return req_fail(req, ST_DENIED, "challenge: was used already");
    if (st != ST_NOT_FOUND)
        return st;
    TRY(state_scan(req->txn, BYTES(AUTHORITY_CHALLENGE_KEY), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct bytes stored;
        TRY(state_iter_value(&iter, &stored));
        if (stored.len != 8)
            return ST_CORRUPT;
        if ((uint64_t)req->now_ms >= le64_get(stored.data))
            TRY(state_delete(req->txn, iter.key));
    }
    return state_put(req->txn, bytes_str(key), bytes_of(challenge, 8));
}

struct accepted_out {
    struct bytes certificate, ca_certificate;
    const char *proof;
};
static const struct field accepted_fields[] = {
    FIELD(struct accepted_out, certificate, BYTES),
    FIELD(struct accepted_out, ca_certificate, BYTES),
    FIELD(struct accepted_out, proof, STRING),
};
static const struct schema members_accepted_reply = SCHEMA(struct accepted_out, accepted_fields);

static enum status reply_accepted(struct req *req, struct bytes challenge, struct bytes cert,
                                  struct bytes ca)
{
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    char proof[TEXT_BASE64_LEN(BARRIER_MAC_BYTES) + 1];
    ASSERT(cert.len > 0 && ca.len > 0);
    TRY(challenge_accepted(challenge, cert, ca, &message));
    TRY(barrier_prove(barrier_of(req->cipher), buf_bytes(&message), mac));
    (void)text_base64_put(bytes_of(mac, sizeof mac), TEXT_BASE64, proof); /* the length is known */
    return req_reply(req, &(struct accepted_out){cert, ca, proof});
}

static enum status members_answer(struct req *req)
{
    const struct members_challenge *in = req_body(req);
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    CLEANUP(buf_done) struct buf cert = {0};
    uint8_t challenge[TEXT_BASE64_BYTES(CHALLENGE_TEXT_MAX)];
    ASSERT(req_in_txn(req));
    TRY(limit(req));
    TRY(read_challenge(req, in, challenge));
    ASSERT(le64_get(challenge) > (uint64_t)req->now_ms);
    TRY(check_answer(req, in));
    TRY(use_challenge(req, challenge));
    TRY(check_node(req, in->node_id));
    TRY(members_join_authority(req, &ca));
    TRY(mesh_certify(&ca, in->node_id, bytes_str(in->public_key), req->now_ms / 1000, &cert,
                     req_reason(req)));
    return reply_accepted(req, bytes_str(in->challenge), buf_bytes(&cert), buf_bytes(&ca.cert));
}

static const struct route challenge_routes[] = {
    {.method = METHOD_POST,
     .path = "storage/raft/bootstrap/challenge",
     .handler = members_challenge,
     .who = WHO_ANYONE,
     .form = FORM_BARE,
     .body = &members_challenge_schema,
     .reply = &members_challenge_reply,
     .help = "For a new node without a join token: a challenge, and the root key as the seal wraps "
             "it. A node that can open the seal can answer the challenge."},
    {.method = METHOD_POST,
     .path = "storage/raft/bootstrap/answer",
     .handler = members_answer,
     .who = WHO_ANYONE,
     .form = FORM_BARE,
     .body = &members_answer_schema,
     .reply = &members_accepted_reply,
     .help = "Answer a challenge, once. The reply is the node's certificate for the cluster port, "
             "and a proof that this cluster has the root key too."},
};

const struct route_table members_challenge_table = {challenge_routes, ARRAY_LEN(challenge_routes)};
