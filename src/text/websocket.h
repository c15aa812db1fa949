/* WebSocket (RFC 6455) between memory buffers: frames of libwslay.
 *
 *     socket -> websocket_feed -> on_message
 *     socket <- `out` <- websocket_send, websocket_close
 *
 * No extension, no subprotocol. A message above WEBSOCKET_MESSAGE_MAX ends the connection with
 * 1009, a malformed one with 1002 or 1007. Pings get their pong by themselves. */
#ifndef HOLDFAST_TEXT_WEBSOCKET_H
#define HOLDFAST_TEXT_WEBSOCKET_H

#include "base/buf.h"

enum {
    WEBSOCKET_MESSAGE_MAX = 256 * 1024,
    WEBSOCKET_KEY_LEN = 24,
    WEBSOCKET_REASON_MAX = 123, /* most bytes of a close frame's text */
};

/* Codes of close frames. */
enum {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_POLICY = 1008,
    WEBSOCKET_INTERNAL = 1011,
};

struct websocket;

/* A text or binary message arrived; borrowed for the call. */
typedef void websocket_message(void *ctx, struct bytes message);

/* `server`: the peer masks its frames, and this side does not. ST_NOMEM. */
NODISCARD enum status websocket_new(bool server, websocket_message *on_message, void *ctx,
                                    struct websocket **ret_websocket);
void websocket_free(struct websocket *websocket); /* NULL is allowed */
/* Take input. ST_CLOSED: the peer closed, or the connection failed; what `out` has is still to be
 * sent. ST_NOMEM. */
NODISCARD enum status websocket_feed(struct websocket *websocket, struct bytes input);
/* Queue a text message, or a close frame whose text is cut to WEBSOCKET_REASON_MAX. ST_CLOSED: a
 * close frame was sent before. ST_NOMEM. */
NODISCARD enum status websocket_send(struct websocket *websocket, struct bytes text);
NODISCARD enum status websocket_close(struct websocket *websocket, unsigned code,
                                      struct bytes text);
/* Bytes to send: the caller consumes them. */
struct buf *websocket_out(struct websocket *websocket);

/* Append one close frame as a server sends it. buf_status(out). */
void websocket_put_close(struct buf *out, unsigned code, struct bytes text);
#endif
