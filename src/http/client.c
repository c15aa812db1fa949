/* The client's requests: queues, events, deadlines. */
#include "base/mem.h"
#include "crypto/tls.h"
#include "http/client_internal.h"
#include "http/names.h"

enum { REQUEST_TIMEOUT_MS = 60 * 1000, OWNER_LOOK_MS = 1000 };

const struct http_client_limits http_client_limits_default = {
    .connections_max = 64,
    .connecting_max = 4,
    .waiting_max = 1024,
    .connect_ms = 3000,
    .idle_ms = 20 * 1000,
    .reply = {.uri_bytes_max = 1, .header_bytes_max = 32 * 1024, .headers_max = 100},
};

static struct http_client_request *request_of(struct list *link)
{
    return CONTAINER_OF(link, struct http_client_request, link);
}

/* Events of requests */

static void request_unwait(struct http_client_request *request)
{
    if (request->target == NULL)
        return;
    ASSERT(request->target->n_waiting > 0);
    request->target->n_waiting--;
    list_remove(&request->link);
    request->target = NULL;
}

/* Remove the request from every list of the client. */
static void request_forget(struct http_client_request *request)
{
    ASSERT(request->conn == NULL);
    env_timer_stop(request->client->env, &request->timer);
    list_remove(&request->event_link);
    request->events = 0;
    request_unwait(request);
}

static void head_free(struct http_head *head)
{
    if (head != NULL)
        http_head_done(head);
    mem_free(head);
}

void http_client_fail(struct http_client_request *request, enum status st, const char *why)
{
    ASSERT(request->conn == NULL && st != ST_OK);
    request_unwait(request);
    if (why != NULL && request->failure == ST_OK)
        reason_set(&request->reason, "%s", why);
    request->failure = st;
    http_client_post(request, REQUEST_FAIL);
}

static void request_failed(struct http_client_request *request)
{
    struct http_client *client = request->client;
    struct http_head *head = request->head;
    enum status st = request->failure;
    ASSERT(st != ST_OK);
    tally_add(st == ST_UNKNOWN_OUTCOME ? &client->tally.unknown : &client->tally.failed, 1);
    request_forget(request);
    buf_done(&request->reply);
    request->head = NULL;
    request->done(request, st); /* last touch: the owner may free it */
    head_free(head);
}

void http_client_complete(struct http_client_request *request)
{
    struct http_head *head = request->head;
    ASSERT(request->complete);
    request_forget(request);
    request->done(request, ST_OK); /* last touch: the owner may free it */
    head_free(head);
}

static void request_tell_piece(struct http_client_request *request)
{
    http_client_piece_fn *on_piece = request->on_piece;
    struct buf piece = request->reply;
    bool last = request->complete;
    if (on_piece == NULL)
        return;
    if (piece.len == 0 && !last) {
        http_client_conn_read(request->conn); /* last touch: a read may end the request */
        return;
    }
    request->on_piece = NULL;
    request->reply = (struct buf){0};
    if (last)
        http_client_post(request, REQUEST_DONE);
    on_piece(request, &piece, last); /* last touch: the owner may cancel it */
    buf_done(&piece);
}

static void request_tell_sent(struct http_client_request *request)
{
    http_client_sent_fn *on_sent = request->on_sent;
    request->on_sent = NULL;
    on_sent(request); /* last touch: the owner may cancel it */
}

/* Handle the most urgent event; the other events wait for the next turn. */
static void request_tell(struct http_client_request *request)
{
    unsigned events = request->events, one = events & -events;
    ASSERT(events != 0);
    request->events = 0;
    if (events != one && one != REQUEST_FAIL)
        http_client_post(request, events & ~one);
    switch (one) {
    case REQUEST_FAIL: request_failed(request); break;
    case REQUEST_SENT: request_tell_sent(request); break;
    case REQUEST_PIECE: request_tell_piece(request); break;
    case REQUEST_DONE: http_client_complete(request); break;
    default: ASSERT(false); /* a request in the list has an event */
    }
}

static void client_maybe_closed(struct http_client *client)
{
    if (!client->closing || client->closed || client->n_conns != 0 || client->task_posted)
        return;
    client->closed = true;
    client->on_closed(client->closed_ctx); /* last touch: the owner may free the client */
}

static void client_run(struct env_task *task)
{
    struct http_client *client = CONTAINER_OF(task, struct http_client, task);
    struct list events; /* events that these events cause wait for the next turn */

    ASSERT(client->task_posted);
    list_init(&events);
    list_splice(&events, &client->events);
    client->task_posted = false;
    for (struct list *item; (item = list_pop(&events)) != NULL;)
        request_tell(CONTAINER_OF(item, struct http_client_request, event_link));
    client_maybe_closed(client);
}

static void client_post(struct http_client *client)
{
    if (client->task_posted || client->closed)
        return;
    client->task_posted = true;
    client->task.run = client_run;
    env_post(client->env, &client->task);
}

void http_client_post(struct http_client_request *request, unsigned events)
{
    ASSERT(events != 0);
    if (request->events == 0)
        list_push(&request->client->events, &request->event_link);
    request->events |= events;
    client_post(request->client);
}

/* Waiting for a connection */

static void request_wait(struct http_client_request *request, struct http_client_target *target,
                         bool first)
{
    request->target = target;
    target->n_waiting++;
    list_insert_before(first ? target->waiting.next : &target->waiting, &request->link);
}

void http_client_again(struct http_client_request *request, struct http_client_target *target)
{
    ASSERT(request->conn == NULL && !request->stream_body);
    request->fresh = true;
    request_wait(request, target, true);
    http_target_serve(target);
}

static void conn_give(struct http_client_conn *c, struct http_client_request *request)
{
    struct http_client_target *t = c->target;
    ASSERT(t->n_waiting > 0);
    list_remove(&request->link);
    t->n_waiting--;
    request->target = NULL;
    list_remove(&c->link);
    list_push(&t->active, &c->link);
    http_client_conn_take(c, request);
}

/* The idle connection that was used last, among those that the request may take. */
static struct http_client_conn *idle_for(struct http_client_target *t,
                                         const struct http_client_request *request)
{
    for (struct list *item = t->idle.prev; item != &t->idle; item = item->prev) {
        struct http_client_conn *c = CONTAINER_OF(item, struct http_client_conn, link);
        if (!c->used || (request->repeatable && !request->fresh))
            return c;
    }
    return NULL;
}

static void serve_idle(struct http_client_target *t)
{
    LIST_FOR_SAFE (item, after, &t->waiting) {
        if (list_empty(&t->idle))
            return;
        struct http_client_conn *c = idle_for(t, request_of(item));
        if (c != NULL)
            conn_give(c, request_of(item));
    }
}

static void serve_new(struct http_client_target *t)
{
    while (t->n_connecting < MIN(t->n_waiting, t->client->limits.connecting_max)) {
        bool full = t->n_conns >= t->client->limits.connections_max;
        if (full && !list_empty(&t->idle)) /* no idle connection suits: closing one makes room */
            http_client_conn_close(CONTAINER_OF(t->idle.next, struct http_client_conn, link));
        if (full)
            return;
        enum status st = http_client_connect(t);
        if (st != ST_OK)
            http_client_fail(request_of(t->waiting.next), st == ST_NOMEM ? ST_NOMEM : ST_NO_LEADER,
                             "cannot connect");
    }
}

void http_target_serve(struct http_client_target *target)
{
    if (target->serving) {
        target->serve_again = true;
        return;
    }
    target->serving = true;
    do {
        target->serve_again = false;
        serve_idle(target);
        serve_new(target);
    } while (target->serve_again);
    target->serving = false;
}

void http_target_free(struct http_client_conn *c)
{
    struct http_client_target *t = c->target;
    list_remove(&c->link);
    list_push(&t->idle, &c->link);
    http_target_serve(t);
}

static bool target_works(const struct http_client_target *t)
{
    if (!list_empty(&t->idle))
        return true;
    LIST_FOR (item, &t->active) {
        if (CONTAINER_OF(item, struct http_client_conn, link)->phase == CLIENT_BUSY)
            return true;
    }
    return false;
}

/* If no connection to the target works, fail every waiting request: nothing of them was sent, so
 * their owners can try another node. If one works, fail one request for each failed attempt, so
 * that attempts do not repeat without a pause when a target refuses more connections. */
void http_target_failed(struct http_client_target *target, const char *why)
{
    bool all = !target_works(target);
    bool more = target->n_waiting > (all ? 0 : target->n_connecting);
    for (; more; more = all && !list_empty(&target->waiting))
        http_client_fail(request_of(target->waiting.next), ST_NO_LEADER, why);
}

/* Targets: one address each, with its connections and its queue */

static void target_free(struct http_client_target *t)
{
    list_remove(&t->link);
    tls_ctx_unref(t->tls);
    mem_free(t->address);
    mem_free(t->host);
    mem_free(t->uri);
    mem_free(t);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool dup_text(char **to, const char *from)
{
    *to = from != NULL ? mem_strdup(from) : NULL;
    return from == NULL || *to != NULL;
}

static struct http_client_target *target_of(struct http_client *client,
                                            const struct http_target *want)
{
    LIST_FOR (item, &client->targets) {
        struct http_client_target *t = CONTAINER_OF(item, struct http_client_target, link);
        if (t->tls == want->tls && same_text(t->address, want->address) &&
            same_text(t->host, want->host) && same_text(t->uri, want->uri))
            return t;
    }
    struct http_client_target *t = mem_zalloc(sizeof *t);
    if (t == NULL)
        return NULL;
    t->client = client;
    t->tls = want->tls != NULL ? tls_ctx_ref(want->tls) : NULL;
    list_init(&t->idle);
    list_init(&t->active);
    list_init(&t->waiting);
    list_push(&client->targets, &t->link);
    if (!dup_text(&t->address, want->address) || !dup_text(&t->host, want->host) ||
        !dup_text(&t->uri, want->uri)) {
        target_free(t);
        return NULL;
    }
    return t;
}

void http_client_less(struct http_client *client, struct http_client_target *target)
{
    if (target->n_waiting != 0 && !client->closing)
        http_target_serve(target);
    if (target->n_conns == 0 && target->n_waiting == 0)
        target_free(target);
    client_post(client);
}

/* Deadlines of requests */

static uint64_t request_deadline(const struct http_client_request *request)
{
    return request->progress_ms +
           (request->timeout_ms != 0 ? request->timeout_ms : REQUEST_TIMEOUT_MS);
}

/* Whether a stream stands still because its owner neither asks for a piece nor writes one. */
static bool request_waits_for_owner(const struct http_client_request *request)
{
    bool to_ask = request->on_head != NULL && request->replied && request->on_piece == NULL;
    bool to_give = request->stream_body && !request->replied && !request->write_ended &&
                   request->on_sent == NULL;
    return to_ask || to_give;
}

static void request_on_timer(struct env_timer *timer)
{
    struct http_client_request *request = CONTAINER_OF(timer, struct http_client_request, timer);
    struct http_client_conn *c = request->conn;
    struct env *env = request->client->env;
    uint64_t now_ms = env_mono_ms(env), deadline_ms = request_deadline(request);
    if (deadline_ms > now_ms || request_waits_for_owner(request)) {
        env_timer_set(env, timer, deadline_ms > now_ms ? deadline_ms : now_ms + OWNER_LOOK_MS);
        return;
    }
    /* the reply may have come since the last look */
    if (request->looked_ms != request->progress_ms) {
        request->looked_ms = request->progress_ms;
        env_timer_set(env, timer, now_ms + WIRE_LOOK_MS);
        return;
    }
    if (c == NULL) {
        bool connects = request->target != NULL && request->target->n_connecting != 0;
        http_client_fail(request, connects ? ST_NO_LEADER : ST_BUSY, "no connection in time");
        return;
    }
    enum status st = http_client_conn_sent(c) ? ST_UNKNOWN_OUTCOME : ST_NO_LEADER;
    http_client_conn_abandon(c);
    http_client_fail(request, st, "no reply in time");
}

/* Functions for owners of requests */

enum status http_client_new(struct env *env, struct http_client **ret_client)
{
    struct http_client *client = mem_zalloc(sizeof *client);
    if (client == NULL)
        return ST_NOMEM;
    client->env = env;
    client->limits = http_client_limits_default;
    http_scratch_init(&client->scratch);
    list_init(&client->targets);
    list_init(&client->events);
    *ret_client = client;
    return ST_OK;
}

void http_client_limit(struct http_client *client, const struct http_client_limits *limits)
{
    ASSERT(limits->connections_max != 0);
    ASSERT(limits->connecting_max != 0);
    client->limits = *limits;
}

/* Check the members of the request that its owner has set. */
static enum status request_check(const struct http_client *client,
                                 const struct http_client_request *request)
{
    if (client->closing)
        return ST_CLOSED;
    if (request->path.len == 0)
        return ST_INVALID;
    for (size_t i = 0; i < request->path.len; i++)
        if (request->path.data[i] <= ' ' || request->path.data[i] >= 0x7F)
            return ST_INVALID;
    for (size_t i = 0; i < request->n_headers; i++)
        if (!http_header_sound(request->headers[i]))
            return ST_INVALID;
    return ST_OK;
}

void http_client_send(struct http_client *client, const struct http_target *target,
                      struct http_client_request *request)
{
    ASSERT(request->done != NULL && request->client == NULL && target->address != NULL);
    ASSERT(!(request->stream_body && request->repeatable));
    tally_add(&client->tally.requests, 1);
    request->client = client;
    request->timer.fire = request_on_timer;
    request->progress_ms = env_mono_ms(client->env);
    list_init(&request->link);
    list_init(&request->event_link);
    enum status st = request_check(client, request);
    struct http_client_target *t = st == ST_OK ? target_of(client, target) : NULL;
    if (st == ST_OK && t == NULL)
        st = ST_NOMEM;
    else if (st == ST_OK && t->n_waiting >= client->limits.waiting_max)
        st = ST_BUSY;
    if (st != ST_OK) {
        http_client_fail(request, st, status_text(st));
        return;
    }
    env_timer_set(client->env, &request->timer, request_deadline(request));
    request_wait(request, t, false);
    http_target_serve(t);
    if (t->n_conns == 0 && t->n_waiting == 0) /* no connection could be attempted */
        target_free(t);
}

void http_client_cancel(struct http_client_request *request)
{
    struct http_client_conn *c = request->conn;
    struct http_head *head = request->head;
    if (c != NULL)
        http_client_conn_abandon(c);
    request_forget(request);
    request->head = NULL;
    head_free(head);
    buf_done(&request->reply);
    client_post(request->client); /* the request may have been the last */
}

uint64_t http_client_reply_length(const struct http_client_request *request)
{
    return request->head->has_length ? request->head->length : HTTP_LENGTH_UNKNOWN;
}

struct bytes http_client_reply_header(const struct http_client_request *request, const char *name)
{
    struct bytes value = {0};
    size_t at = 0;
    /* an absent header leaves the value empty */
    (void)http_head_next(request->head, name, &at, &value);
    return value;
}

size_t http_client_reply_header_count(const struct http_client_request *request)
{
    return request->head->n_fields;
}

struct http_header http_client_reply_header_at(const struct http_client_request *request, size_t i)
{
    return http_head_field(request->head, i);
}

void http_client_reply_next(struct http_client_request *request, http_client_piece_fn *on_piece)
{
    ASSERT(request->replied && request->on_piece == NULL);
    request->on_piece = on_piece;
    request->progress_ms = env_mono_ms(request->client->env);
    http_client_post(request, REQUEST_PIECE);
}

void http_client_write(struct http_client_request *request, struct bytes piece,
                       http_client_sent_fn *sent)
{
    ASSERT(request->stream_body && request->on_sent == NULL && !request->write_ended);
    request->piece = piece;
    request->on_sent = sent;
    request->progress_ms = env_mono_ms(request->client->env);
    if (request->conn != NULL)
        http_client_conn_write(request->conn);
}

void http_client_write_end(struct http_client_request *request)
{
    ASSERT(request->stream_body && !request->write_ended);
    request->write_ended = true;
    if (request->conn != NULL)
        http_client_conn_write(request->conn);
}

static void target_close(struct http_client_target *t)
{
    while (!list_empty(&t->waiting))
        http_client_fail(request_of(t->waiting.next), ST_CLOSED, NULL);
    LIST_FOR_SAFE (item, after, &t->active)
        http_client_conn_close(CONTAINER_OF(item, struct http_client_conn, link));
    LIST_FOR_SAFE (item, after, &t->idle)
        http_client_conn_close(CONTAINER_OF(item, struct http_client_conn, link));
}

void http_client_close(struct http_client *client, void (*closed)(void *ctx), void *ctx)
{
    ASSERT(!client->closing && closed != NULL);
    client->closing = true;
    client->on_closed = closed;
    client->closed_ctx = ctx;
    LIST_FOR_SAFE (item, after, &client->targets)
        target_close(CONTAINER_OF(item, struct http_client_target, link));
    client_post(client);
}

void http_client_free(struct http_client *client)
{
    if (client == NULL)
        return;
    ASSERT(client->closed && list_empty(&client->targets));
    http_scratch_done(&client->scratch);
    mem_free(client);
}

void http_client_counters(const struct http_client *client,
                          struct http_client_counters *ret_counters)
{
#define READ(counter) tally_get(&client->tally.counter)
    *ret_counters = (struct http_client_counters){
        .requests = READ(requests),
        .failed = READ(failed),
        .unknown = READ(unknown),
        .repeated = READ(repeated),
        .connects = READ(connects),
        .connects_failed = READ(connects_failed),
    };
#undef READ
}
