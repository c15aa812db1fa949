/* The link to one server: a WebSocket of JSON messages (front/hub/hub.h), opened again whenever it
 * ends. Each call runs on a thread of its own: a restart takes long. */
#include "agent/agent_internal.h"

#include "base/mem.h"
#include "text/websocket.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_MS = 10000, POLL_MS = 1000, AGAIN_MS = 500 };

/* References: the link's thread, and each call under way. */
struct link {
    const char *server;
    pthread_mutex_t lock;
    struct buf replies; /* messages to send, each behind its length, u32 */
    int wake;
    unsigned refs;
    bool over;
    struct websocket *websocket;
};

struct link_call {
    struct link *link;
    int64_t id;
    struct buf text;
};

static void unref(struct link *link)
{
    (void)pthread_mutex_lock(&link->lock); /* a plain mutex, not held by this thread */
    bool last = --link->refs == 0;
    (void)pthread_mutex_unlock(&link->lock);
    if (!last)
        return;
    (void)close(link->wake); /* nothing waits for it */
    buf_done(&link->replies);
    (void)pthread_mutex_destroy(&link->lock); /* the lock is free */
    mem_free(link);
}

static void link_reply(struct link *link, int64_t id, int http, struct bytes body)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    uint64_t one = 1;
    text_open_object(&w);
    text_member_int(&w, "ID", id);
    text_member_int(&w, "HTTP", http);
    text_key(&w, "Body");
    if (http == 200)
        text_put_raw(&w, body.len != 0 ? body : BYTES("{}"));
    else
        text_put_bytes(&w, body);
    text_close(&w);
    (void)pthread_mutex_lock(&link->lock);
    if (!link->over && buf_status(&text) == ST_OK) {
        buf_add_u32(&link->replies, (uint32_t)text.len);
        buf_add(&link->replies, buf_bytes(&text));
    }
    (void)pthread_mutex_unlock(&link->lock);
    (void)!write(link->wake, &one, sizeof one); /* a full counter wakes as well */
}

static void *call_run(void *ctx)
{
    struct link_call *call = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    const struct text_value *said;
    int http = 400;
    if (text_json_parse(&arena, buf_bytes(&call->text), &said, NULL) == ST_OK)
        http = agent_call(member_text(said, "Call"), text_get(said, "Body"), &out);
    link_reply(call->link, call->id, http, buf_bytes(&out));
    unref(call->link);
    buf_done(&call->text);
    mem_free(call);
    return NULL;
}

static void start_call(struct link *link, int64_t id, struct bytes message)
{
    struct link_call *call = mem_zalloc(sizeof *call);
    if (call == NULL)
        return;
    call->link = link;
    call->id = id;
    buf_add(&call->text, message);
    (void)pthread_mutex_lock(&link->lock);
    link->refs++;
    (void)pthread_mutex_unlock(&link->lock);
    if (buf_status(&call->text) == ST_OK && client_thread(call_run, call))
        return;
    buf_done(&call->text);
    mem_free(call);
    unref(link);
}

static void start_session(struct link *link, const char *id, const struct text_value *body)
{
    struct session *session = mem_zalloc(sizeof *session);
    struct text_writer w = {.out = session != NULL ? &session->body : NULL, .plain = true};
    if (session == NULL)
        return;
    session->server = link->server;
    (void)snprintf(session->id, sizeof session->id, "%s", id);
    text_put_value(&w, body);
    if (buf_status(&session->body) == ST_OK && client_thread(agent_exec_run, session))
        return;
    buf_done(&session->body);
    mem_free(session);
}

static void on_message(void *ctx, struct bytes message)
{
    struct link *link = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *said;
    if (text_json_parse(&arena, message, &said, NULL) != ST_OK)
        return;
    const char *session = member_text(said, "Session");
    if (strlen(session) == AGENT_UUID_LEN)
        start_session(link, session, text_get(said, "Body"));
    else if (member_text(said, "Call")[0] != '\0')
        start_call(link, member_int(said, "ID"), message);
}

/* Move the replies of calls into frames. */
static enum status take_replies(struct link *link)
{
    enum status st = ST_OK;
    (void)pthread_mutex_lock(&link->lock);
    struct buf replies = link->replies;
    link->replies = (struct buf){0};
    (void)pthread_mutex_unlock(&link->lock);
    struct reader r = reader_of(buf_bytes(&replies));
    while (st == ST_OK && reader_left(&r) != 0) {
        uint32_t len = reader_u32(&r);
        st = websocket_send(link->websocket, reader_take(&r, len));
    }
    buf_done(&replies);
    return st;
}

/* Serve the connection until it ends. */
static void link_serve(struct link *link, struct stream *stream)
{
    uint64_t beat_ms = 0, count;
    enum status st = ST_OK;
    while (st == ST_OK) {
        char part[8192];
        size_t n = 0;
        if (client_mono_ms() >= beat_ms) {
            st = websocket_send(link->websocket, BYTES("{}"));
            beat_ms = client_mono_ms() + BEAT_MS;
        }
        if (st == ST_OK)
            st = take_replies(link);
        struct buf *out = websocket_out(link->websocket);
        if (st == ST_OK)
            st = stream_write(stream, out);
        if (st == ST_OK)
            st = stream_read(stream, part, sizeof part, &n);
        if (st == ST_OK && n != 0) {
            st = websocket_feed(link->websocket, bytes_of(part, n));
            continue;
        }
        struct pollfd fds[2] = {
            {.fd = stream_fd(stream), .events = (short)(POLLIN | (out->len != 0 ? POLLOUT : 0))},
            {.fd = link->wake, .events = POLLIN}};
        if (st == ST_OK && poll(fds, 2, POLL_MS) > 0 && fds[1].revents != 0)
            (void)!read(link->wake, &count, sizeof count); /* the counter is 0 then */
    }
}

/* One connection. */
static void link_hold(const char *server)
{
    struct stream *stream = NULL;
    struct link *link = mem_zalloc(sizeof *link);
    if (link == NULL)
        return;
    *link = (struct link){.server = server, .refs = 1};
    (void)pthread_mutex_init(&link->lock, NULL); /* cannot fail without attributes */
    link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->wake >= 0 && stream_open(server, "client/node/link", &stream) == ST_OK &&
        websocket_new(false, on_message, link, &link->websocket) == ST_OK)
        link_serve(link, stream);
    (void)pthread_mutex_lock(&link->lock);
    link->over = true;
    (void)pthread_mutex_unlock(&link->lock);
    stream_close(stream);
    websocket_free(link->websocket);
    unref(link);
}

void *agent_link_run(void *server)
{
    const struct timespec again = {0, AGAIN_MS * 1000000L};
    for (;;) {
        link_hold(server);
        (void)nanosleep(&again, NULL); /* a shorter sleep does no harm */
    }
    return NULL;
}
