/* Calls: queues, events, time. */
#include "base/mem.h"
#include "crypto/tls.h"
#include "http/client_internal.h"
#include "http/names.h"

enum { CALL_TIMEOUT_MS = 60 * 1000, OWNER_LOOK_MS = 1000 };

const struct http_client_limits http_client_limits_default = {
    .connections_max = 64,
    .connecting_max = 4,
    .waiting_max = 1024,
    .connect_ms = 3000,
    .idle_ms = 20 * 1000,
    .answer = {.uri_bytes_max = 1, .header_bytes_max = 32 * 1024, .headers_max = 100},
};

static struct http_call *call_of(struct list *link)
{
    return CONTAINER_OF(link, struct http_call, link);
}

/* Events */

static void call_unwait(struct http_call *call)
{
    if (call->target == NULL)
        return;
    call->target->n_waiting--;
    list_remove(&call->link);
    call->target = NULL;
}

/* The call leaves the client. */
static void call_forget(struct http_call *call)
{
    ASSERT(call->conn == NULL);
    env_timer_stop(call->client->env, &call->timer);
    list_remove(&call->event_link);
    call->events = 0;
    call_unwait(call);
}

static void head_free(struct http_head *head)
{
    if (head != NULL)
        http_head_done(head);
    mem_free(head);
}

void http_call_fail(struct http_call *call, enum status st, const char *why)
{
    ASSERT(call->conn == NULL && st != ST_OK);
    call_unwait(call);
    if (why != NULL && call->failure == ST_OK)
        reason_set(&call->reason, "%s", why);
    call->failure = st;
    http_call_post(call, CALL_FAIL);
}

static void call_failed(struct http_call *call)
{
    struct http_client *client = call->client;
    struct http_head *head = call->head;
    enum status st = call->failure;
    tally_add(st == ST_UNKNOWN_OUTCOME ? &client->tally.unknown : &client->tally.failed, 1);
    call_forget(call);
    buf_done(&call->reply);
    call->head = NULL;
    call->done(call, st); /* last touch: the owner may free it */
    head_free(head);
}

void http_call_complete(struct http_call *call)
{
    struct http_head *head = call->head;
    call_forget(call);
    call->done(call, ST_OK); /* last touch: the owner may free it */
    head_free(head);
}

static void call_tell_piece(struct http_call *call)
{
    http_call_piece_fn *on_piece = call->on_piece;
    struct buf piece = call->reply;
    bool last = call->complete;
    if (on_piece == NULL)
        return;
    if (piece.len == 0 && !last) {
        http_client_conn_read(call->conn); /* last touch: reading may end the call */
        return;
    }
    call->on_piece = NULL;
    call->reply = (struct buf){0};
    if (last)
        http_call_post(call, CALL_DONE);
    on_piece(call, &piece, last); /* last touch: the owner may cancel it */
    buf_done(&piece);
}

static void call_tell_sent(struct http_call *call)
{
    http_call_sent_fn *on_sent = call->on_sent;
    call->on_sent = NULL;
    on_sent(call); /* last touch: the owner may cancel it */
}

/* One event, the most pressing first; the others wait for the next turn. */
static void call_tell(struct http_call *call)
{
    unsigned events = call->events, one = events & -events;
    call->events = 0;
    if (events != one && one != CALL_FAIL)
        http_call_post(call, events & ~one);
    switch (one) {
    case CALL_FAIL: call_failed(call); break;
    case CALL_SENT: call_tell_sent(call); break;
    case CALL_PIECE: call_tell_piece(call); break;
    case CALL_DONE: http_call_complete(call); break;
    default: ASSERT(false); /* a call in the list has an event */
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
    struct list events; /* events caused by these wait for the next turn */
    list_init(&events);
    list_splice(&events, &client->events);
    client->task_posted = false;
    for (struct list *item; (item = list_pop(&events)) != NULL;)
        call_tell(CONTAINER_OF(item, struct http_call, event_link));
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

void http_call_post(struct http_call *call, unsigned events)
{
    if (call->events == 0)
        list_push(&call->client->events, &call->event_link);
    call->events |= events;
    client_post(call->client);
}

/* Waiting for a connection */

static void call_wait(struct http_call *call, struct http_client_target *target, bool first)
{
    call->target = target;
    target->n_waiting++;
    list_insert_before(first ? target->waiting.next : &target->waiting, &call->link);
}

void http_call_again(struct http_call *call, struct http_client_target *target)
{
    ASSERT(call->conn == NULL && !call->stream_body);
    call->fresh = true;
    call_wait(call, target, true);
    http_target_serve(target);
}

static void conn_give(struct http_client_conn *c, struct http_call *call)
{
    struct http_client_target *t = c->target;
    list_remove(&call->link);
    t->n_waiting--;
    call->target = NULL;
    list_remove(&c->link);
    list_push(&t->active, &c->link);
    http_client_conn_take(c, call);
}

/* A kept connection that suits the call: the one used last. */
static struct http_client_conn *idle_for(struct http_client_target *t, const struct http_call *call)
{
    for (struct list *item = t->idle.prev; item != &t->idle; item = item->prev) {
        struct http_client_conn *c = CONTAINER_OF(item, struct http_client_conn, link);
        if (!c->used || (call->repeatable && !call->fresh))
            return c;
    }
    return NULL;
}

static void serve_idle(struct http_client_target *t)
{
    LIST_FOR_SAFE (item, after, &t->waiting) {
        if (list_empty(&t->idle))
            return;
        struct http_client_conn *c = idle_for(t, call_of(item));
        if (c != NULL)
            conn_give(c, call_of(item));
    }
}

static void serve_new(struct http_client_target *t)
{
    while (t->n_connecting < MIN(t->n_waiting, t->client->limits.connecting_max)) {
        bool full = t->n_conns >= t->client->limits.connections_max;
        if (full && !list_empty(&t->idle)) /* none of those kept will do: its end makes room */
            http_client_conn_close(CONTAINER_OF(t->idle.next, struct http_client_conn, link));
        if (full)
            return;
        enum status st = http_client_connect(t);
        if (st != ST_OK)
            http_call_fail(call_of(t->waiting.next), st == ST_NOMEM ? ST_NOMEM : ST_NO_LEADER,
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

/* Where no connection stands, none who wait should learn one after the other that it is in vain:
 * nothing of them was sent, and they may try elsewhere. Where one does, an attempt costs one call,
 * so that a target that refuses more is not asked without a pause. */
void http_target_failed(struct http_client_target *target, const char *why)
{
    bool all = !target_works(target);
    bool more = target->n_waiting > (all ? 0 : target->n_connecting);
    for (; more; more = all && !list_empty(&target->waiting))
        http_call_fail(call_of(target->waiting.next), ST_NO_LEADER, why);
}

/* Targets */

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

/* Time */

static uint64_t call_deadline(const struct http_call *call)
{
    return call->progress_ms + (call->timeout_ms != 0 ? call->timeout_ms : CALL_TIMEOUT_MS);
}

/* A stream stands still because its owner neither asks for a piece nor gives one. */
static bool call_waits_for_owner(const struct http_call *call)
{
    bool to_ask = call->on_head != NULL && call->replied && call->on_piece == NULL;
    bool to_give =
        call->stream_body && !call->replied && !call->write_ended && call->on_sent == NULL;
    return to_ask || to_give;
}

static void call_on_timer(struct env_timer *timer)
{
    struct http_call *call = CONTAINER_OF(timer, struct http_call, timer);
    struct http_client_conn *c = call->conn;
    struct env *env = call->client->env;
    uint64_t now_ms = env_mono_ms(env), deadline_ms = call_deadline(call);
    if (deadline_ms > now_ms || call_waits_for_owner(call)) {
        env_timer_set(env, timer, deadline_ms > now_ms ? deadline_ms : now_ms + OWNER_LOOK_MS);
        return;
    }
    if (call->looked_ms != call->progress_ms) { /* the answer may have come meanwhile */
        call->looked_ms = call->progress_ms;
        env_timer_set(env, timer, now_ms + WIRE_LOOK_MS);
        return;
    }
    if (c == NULL) {
        bool connects = call->target != NULL && call->target->n_connecting != 0;
        http_call_fail(call, connects ? ST_NO_LEADER : ST_BUSY, "no connection in time");
        return;
    }
    enum status st = http_client_conn_sent(c) ? ST_UNKNOWN_OUTCOME : ST_NO_LEADER;
    http_client_conn_abandon(c);
    http_call_fail(call, st, "no answer in time");
}

/* For owners */

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
    ASSERT(limits->connections_max != 0 && limits->connecting_max != 0);
    client->limits = *limits;
}

/* Check the call itself. */
static enum status call_check(const struct http_client *client, const struct http_call *call)
{
    if (client->closing)
        return ST_CLOSED;
    if (call->path.len == 0)
        return ST_INVALID;
    for (size_t i = 0; i < call->path.len; i++)
        if (call->path.data[i] <= ' ' || call->path.data[i] >= 0x7F)
            return ST_INVALID;
    for (size_t i = 0; i < call->n_headers; i++)
        if (!http_header_sound(call->headers[i]))
            return ST_INVALID;
    return ST_OK;
}

void http_call_send(struct http_client *client, const struct http_target *target,
                    struct http_call *call)
{
    ASSERT(call->done != NULL && call->client == NULL && target->address != NULL);
    ASSERT(!(call->stream_body && call->repeatable));
    tally_add(&client->tally.calls, 1);
    call->client = client;
    call->timer.fire = call_on_timer;
    call->progress_ms = env_mono_ms(client->env);
    list_init(&call->link);
    list_init(&call->event_link);
    enum status st = call_check(client, call);
    struct http_client_target *t = st == ST_OK ? target_of(client, target) : NULL;
    if (st == ST_OK && t == NULL)
        st = ST_NOMEM;
    else if (st == ST_OK && t->n_waiting >= client->limits.waiting_max)
        st = ST_BUSY;
    if (st != ST_OK) {
        http_call_fail(call, st, status_text(st));
        return;
    }
    env_timer_set(client->env, &call->timer, call_deadline(call));
    call_wait(call, t, false);
    http_target_serve(t);
    if (t->n_conns == 0 && t->n_waiting == 0) /* not even an attempt was possible */
        target_free(t);
}

void http_call_cancel(struct http_call *call)
{
    struct http_client_conn *c = call->conn;
    struct http_head *head = call->head;
    if (c != NULL)
        http_client_conn_abandon(c);
    call_forget(call);
    call->head = NULL;
    head_free(head);
    buf_done(&call->reply);
    client_post(call->client); /* the call may have been the last */
}

uint64_t http_call_length(const struct http_call *call)
{
    return call->head->has_length ? call->head->length : HTTP_LENGTH_UNKNOWN;
}

struct bytes http_call_header(const struct http_call *call, const char *name)
{
    struct bytes value = {0};
    size_t at = 0;
    (void)http_head_next(call->head, name, &at, &value); /* absent: stays empty */
    return value;
}

size_t http_call_header_count(const struct http_call *call)
{
    return call->head->n_fields;
}

struct http_header http_call_header_at(const struct http_call *call, size_t i)
{
    return http_head_field(call->head, i);
}

void http_call_next(struct http_call *call, http_call_piece_fn *on_piece)
{
    ASSERT(call->replied && call->on_piece == NULL);
    call->on_piece = on_piece;
    call->progress_ms = env_mono_ms(call->client->env);
    http_call_post(call, CALL_PIECE);
}

void http_call_write(struct http_call *call, struct bytes piece, http_call_sent_fn *sent)
{
    ASSERT(call->stream_body && call->on_sent == NULL && !call->write_ended);
    call->piece = piece;
    call->on_sent = sent;
    call->progress_ms = env_mono_ms(call->client->env);
    if (call->conn != NULL)
        http_client_conn_write(call->conn);
}

void http_call_write_end(struct http_call *call)
{
    ASSERT(call->stream_body && !call->write_ended);
    call->write_ended = true;
    if (call->conn != NULL)
        http_client_conn_write(call->conn);
}

static void target_close(struct http_client_target *t)
{
    while (!list_empty(&t->waiting))
        http_call_fail(call_of(t->waiting.next), ST_CLOSED, NULL);
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
        .calls = READ(calls),
        .failed = READ(failed),
        .unknown = READ(unknown),
        .repeated = READ(repeated),
        .connects = READ(connects),
        .connects_failed = READ(connects_failed),
    };
#undef READ
}
