#include "text/websocket.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <wslay/wslay.h>

struct websocket {
    wslay_event_context_ptr wslay;
    websocket_message *on_message;
    void *ctx;
    struct bytes input; /* bytes that wslay has not read yet, during websocket_feed */
    struct buf out;
    bool closed; /* the peer's close frame arrived, or ours was queued */
    bool failed;
};

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *to, size_t room, int flags,
                       void *user)
{
    struct websocket *w = user;
    (void)flags; /* wslay sets none */
    ASSERT(to != NULL && w->wslay == wslay);
    size_t n = MIN(room, w->input.len);
    if (n == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(to, w->input.data, n);
    w->input = bytes_from(w->input, n);
    return (ssize_t)n;
}

static ssize_t on_websocket_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len,
                                 int flags, void *user)
{
    struct websocket *w = user;
    (void)flags; /* whether more follows makes no difference to a buffer */
    buf_add(&w->out, bytes_of(data, len));
    if (buf_status(&w->out) == ST_OK)
        return (ssize_t)len;
    wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

/* The key that a client masks a frame with (RFC 6455 5.3). */
static int on_mask(wslay_event_context_ptr wslay, uint8_t *to, size_t len, void *user)
{
    (void)wslay, (void)user; /* the key depends on nothing */
    return getrandom(to, len, 0) == (ssize_t)len ? 0 : -1;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *arg,
                       void *user)
{
    struct websocket *w = user;
    (void)wslay;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE)
        w->closed = true;
    else if (!wslay_is_ctrl_frame(arg->opcode))
        w->on_message(w->ctx, bytes_of(arg->msg, arg->msg_length));
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_recv,
    .send_callback = on_websocket_send,
    .genmask_callback = on_mask,
    .on_msg_recv_callback = on_message,
};

enum status websocket_new(bool server, websocket_message *message, void *ctx,
                          struct websocket **ret_websocket)
{
    struct websocket *w = mem_zalloc(sizeof *w);
    ASSERT(message != NULL);
    if (w == NULL)
        return ST_NOMEM;
    w->on_message = message;
    w->ctx = ctx;
    int rc = server ? wslay_event_context_server_init(&w->wslay, &callbacks, w)
                    : wslay_event_context_client_init(&w->wslay, &callbacks, w);
    if (rc != 0) {
        mem_free(w);
        return ST_NOMEM;
    }
    wslay_event_config_set_max_recv_msg_length(w->wslay, WEBSOCKET_MESSAGE_MAX);
    *ret_websocket = w;
    return ST_OK;
}

void websocket_free(struct websocket *w)
{
    if (w == NULL)
        return;
    wslay_event_context_free(w->wslay);
    buf_done(&w->out);
    mem_free(w);
}

struct buf *websocket_out(struct websocket *w)
{
    return &w->out;
}

static enum status flush(struct websocket *w)
{
    if (wslay_event_want_write(w->wslay) && wslay_event_send(w->wslay) != 0)
        w->failed = true;
    return w->failed ? ST_NOMEM : ST_OK;
}

enum status websocket_feed(struct websocket *w, struct bytes input)
{
    ASSERT(w->input.len == 0);
    ASSERT(w->wslay != NULL);
    w->input = input;
    while (w->input.len != 0 && wslay_event_want_read(w->wslay)) {
        int rc = wslay_event_recv(w->wslay);
        TRY(flush(w));
        if (rc != 0)
            return rc == WSLAY_ERR_NOMEM ? ST_NOMEM : ST_CLOSED;
    }
    w->input = (struct bytes){0};
    return w->closed || !wslay_event_want_read(w->wslay) ? ST_CLOSED : ST_OK;
}

enum status websocket_send(struct websocket *w, struct bytes text)
{
    const struct wslay_event_msg msg = {WSLAY_TEXT_FRAME, text.data, text.len};
    ASSERT(w->wslay != NULL);
    int rc = wslay_event_queue_msg(w->wslay, &msg);
    if (rc != 0)
        return rc == WSLAY_ERR_NOMEM ? ST_NOMEM : ST_CLOSED;
    return flush(w);
}

enum status websocket_close(struct websocket *w, unsigned code, struct bytes text)
{
    size_t len = MIN(text.len, (size_t)WEBSOCKET_REASON_MAX);
    ASSERT(code >= 1000 && code < 5000);
    int rc = wslay_event_queue_close(w->wslay, (uint16_t)code, text.data, len);
    w->closed = true;
    if (rc != 0)
        return rc == WSLAY_ERR_NOMEM ? ST_NOMEM : ST_CLOSED;
    return flush(w);
}

void websocket_put_close(struct buf *out, unsigned code, struct bytes text)
{
    size_t len = MIN(text.len, (size_t)WEBSOCKET_REASON_MAX);
    ASSERT(code >= 1000 && code < 5000);
    while (len != 0 && len < text.len && (text.data[len] & 0xc0) == 0x80)
        len--; /* the text stays UTF-8 */
    buf_add_u8(out, 0x80 | WSLAY_CONNECTION_CLOSE);
    buf_add_u8(out, (uint8_t)(len + 2));
    buf_add_u8(out, (uint8_t)(code >> 8));
    buf_add_u8(out, (uint8_t)code);
    buf_add(out, bytes_of(text.data, len));
}
