/* The first message of a client with ws_handshake=true: its token (B5). */
#include "front/hub/hub_internal.h"
#include "text/json.h"

#include <stdio.h>

enum { GREETING_MAX = 8192, HEAD_MIN = 6, OPCODE_TEXT = 1 };

/* Refuse the client with 1008 and a text. */
static void refuse(struct peer *peer, const char *text)
{
    hub_greeted *greeted = peer->greeted;
    ASSERT(greeted != NULL);
    ASSERT(peer->kind == PEER_GREET);
    websocket_put_close(&peer->out, WEBSOCKET_POLICY, bytes_str(text));
    peer->greeted = NULL;
    peer_finish(peer);
    greeted(peer->ctx, ST_INVALID, NULL, (struct bytes){0});
}

/* The first frame of the input, unmasked in place. False: it is not complete. *ret_len 0: it is no
 * whole text message of a client. */
static bool first_frame(struct buf *in, struct bytes *ret_text, size_t *ret_len)
{
    *ret_len = 0;
    if (in->len < HEAD_MIN)
        return false;
    uint8_t *at = in->data;
    ASSERT(in->len >= HEAD_MIN);
    size_t len = at[1] & 0x7f, head = HEAD_MIN;
    if (at[0] != (0x80 | OPCODE_TEXT) || (at[1] & 0x80) == 0 || len == 127)
        return true;
    if (len == 126) {
        if (in->len < HEAD_MIN + 2)
            return false;
        len = (size_t)(at[2] << 8 | at[3]);
        head += 2;
    }
    if (len > GREETING_MAX)
        return true;
    if (in->len < head + len)
        return false;
    for (size_t i = 0; i < len; i++)
        at[head + i] ^= at[head - 4 + i % 4];
    *ret_text = bytes_of(at + head, len);
    *ret_len = head + len;
    return true;
}

/* The connection leaves the hub: output that was written stays so. */
static void give(struct peer *peer, struct bytes token, size_t used)
{
    hub_greeted *greeted = peer->greeted;
    struct http_taken taken = peer->taken;
    ASSERT(greeted != NULL);
    ASSERT(used <= peer->in.len);
    peer_flush(peer);
    if (peer->dead || peer_pending(peer) != 0) {
        peer->dead = true; /* peer_free reports it */
        return;
    }
    buf_add(&taken.early, bytes_from(buf_bytes(&peer->in), used));
    peer->taken = (struct http_taken){.fd = -1};
    peer->greeted = NULL;
    peer->dead = true;
    greeted(peer->ctx, ST_OK, &taken, token);
}

void hub_greet_take(struct peer *peer)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *said = NULL, *token;
    ASSERT(peer->kind == PEER_GREET || peer->greeted == NULL);
    struct bytes text = {0};
    int64_t version = 0;
    char why[64];
    size_t used;
    if (peer->greeted == NULL || !first_frame(&peer->in, &text, &used))
        return;
    if (used == 0 || text_json_parse(&arena, text, &said, NULL) != ST_OK) {
        refuse(peer, "failed to decode websocket handshake message");
        return;
    }
    token = text_get(said, "auth_token");
    if (text_get(said, "version") != NULL &&
        text_to_int(text_get(said, "version"), &version) != ST_OK)
        version = -1;
    if (version != 1) {
        (void)snprintf(why, sizeof why, "unexpected handshake value: %lld", (long long)version);
        refuse(peer, why);
    } else {
        give(peer, token != NULL ? token->text : (struct bytes){0}, used);
    }
}
