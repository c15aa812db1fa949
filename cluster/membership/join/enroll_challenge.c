/* Joining without a token, the side of the node (challenge.h).
 *
 *   challenge asked ─▶ has a key of the seal ─▶ answer ─▶ certificate and proof ─▶ open
 *                  └─▶ has none: waits for key shares; enough of them ─▶ asks anew, and answers
 *
 * The node combines and tries the shares itself (src/node/unseal.c): shares never leave the node.
 */
#include "cluster/membership/join/enroll_internal.h"

#include "base/mem.h"
#include "base/trace.h"
#include "cluster/membership/join/challenge.h"
#include "text/encode.h"

static bool read_base64(struct bytes text, size_t max, struct buf *out)
{
    size_t n = 0;
    uint8_t *at = text.len <= max ? buf_extend(out, TEXT_BASE64_BYTES(text.len)) : NULL;
    if (at == NULL || text_base64_parse(text, at, &n) != ST_OK)
        return false;
    out->len = n;
    return true;
}

static bool read_challenge(struct enroll_try *e)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *answer;
    struct seal_info info;
    ASSERT(!e->calling);
    ASSERT(e->step == ENROLL_CHALLENGE);
    buf_clear(&e->challenge);
    buf_clear(&e->seal);
    if (text_json_parse(&arena, buf_bytes(&e->request.reply), &answer, NULL) != ST_OK)
        return false;
    struct bytes text = enroll_text(answer, "challenge");
    buf_add(&e->challenge, text);
    return text.len != 0 && text.len < CHALLENGE_TEXT_MAX && buf_status(&e->challenge) == ST_OK &&
           read_base64(enroll_text(answer, "seal"), ENROLL_SEAL_MAX, &e->seal) &&
           seal_info_read(buf_bytes(&e->seal), &info) == ST_OK;
}

static enum status write_answer(struct enroll_try *e, struct reason *reason)
{
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    char text[TEXT_BASE64_LEN(BARRIER_MAC_BYTES) + 1];
    ASSERT(e->challenge.len != 0);
    ASSERT(e->seal.len != 0);
    TRY(challenge_answer(buf_bytes(&e->challenge), bytes_str(e->all->host->options->name),
                         buf_bytes(&e->public_key), &message));
    TRY(e->all->seal.prove(e->all->seal.ctx, buf_bytes(&e->seal), buf_bytes(&message), mac,
                           reason));
    /* cannot fail: the length is known */
    (void)text_base64_put(bytes_of(mac, sizeof mac), TEXT_BASE64, text);
    enum status st = enroll_write(e, bytes_str(text));
    mem_wipe(text, sizeof text);
    mem_wipe(mac, sizeof mac);
    return st;
}

/* People hold the key as shares: they give the shares to this node. */
static enum enroll_end await_shares(struct enroll_try *e, struct reason *reason)
{
    struct seal_info info = {0};
    ASSERT(part_on_thread(e->all->host));
    if (seal_info_read(buf_bytes(&e->seal), &info) != ST_OK || info.type != SEAL_SHAMIR) {
        reason_set(reason,
                   "join_token: missing, and this node was started without the key '%s' of "
                   "the cluster's seal",
                   info.id);
        return ENROLL_REFUSED;
    }
    if (e->all->seal.await(e->all->seal.ctx, buf_bytes(&e->seal)) != ST_OK) {
        reason_set(reason, "%s", status_text(ST_NOMEM));
        return ENROLL_REFUSED;
    }
    trace(TRACE_INFO, "node", "joins when %u of %u key shares were given to it", info.threshold,
          info.shares);
    return ENROLL_WAITS;
}

enum enroll_end enroll_challenged(struct enroll_try *e, struct reason *reason)
{
    if (!read_challenge(e)) {
        reason_set(reason, "joining: the reply has no challenge");
        return ENROLL_REFUSED;
    }
    enum status st = write_answer(e, reason);
    if (st == ST_NOT_FOUND)
        return await_shares(e, reason);
    if (st != ST_OK) {
        if (reason->text[0] == '\0')
            reason_set(reason, "%s", status_text(st));
        return ENROLL_REFUSED;
    }
    e->step = ENROLL_ANSWER;
    return ENROLL_ASKS;
}

bool enroll_proved(struct enroll_try *e, const struct text_value *answer)
{
    CLEANUP(buf_done) struct buf message = {0}, proof = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    ASSERT(e->step == ENROLL_ANSWER);
    ASSERT(e->challenge.len != 0);
    return challenge_accepted(buf_bytes(&e->challenge), enroll_text(answer, "certificate"),
                              enroll_text(answer, "ca_certificate"), &message) == ST_OK &&
           read_base64(enroll_text(answer, "proof"), CHALLENGE_TEXT_MAX, &proof) &&
           e->all->seal.prove(e->all->seal.ctx, buf_bytes(&e->seal), buf_bytes(&message), mac,
                              NULL) == ST_OK &&
           bytes_eq_secret(buf_bytes(&proof), bytes_of(mac, sizeof mac));
}
