/* A node that waits to be told which cluster to join: asked by somebody who may be anybody, it
 * asks a member for its certificate, with the token it was given or by opening the cluster's seal,
 * and opens.
 *
 *   WAITING ─node_join─▶ ASKING ─certificate─▶ node_open ─▶ member: the call ends well
 *      ▲                 │    ▲
 *      └─refused, or no──┘    └─ again, where the request says so: without its caller
 *        answer
 *
 * Until it joins, anyone who reaches its port can claim the node; there is no other secret to lose
 * yet. One call runs at a time; a try that goes on by itself gives way to a new call. */
#include "node/enroll.h"

#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>

enum { TOLD_AGAIN_MS = 2000, TOLD_PATIENCE_MS = 50000 };

/* On the caller's stack. */
struct node_told {
    struct env_task task;
    struct node *node;
    const struct node_join *how;
    struct reason reason;
    struct node_wait wait;
};

void node_told_end(struct node *n, enum status st, const struct reason *reason)
{
    struct node_told *told = n->told;
    if (told == NULL)
        return;
    n->told = NULL;
    env_timer_stop(n->host.env, &n->told_timer);
    if (reason != NULL)
        told->reason = *reason;
    node_wait_end(&told->wait, st);
}

static void on_patience(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, told_timer);
    node_told_end(n, ST_TIMEOUT, NULL);
}

void node_told_runs(struct node *n)
{
    n->running = true;
    pthread_mutex_lock(&n->lock);
    n->status.waits = false;
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

/* `knows`: the seal of the cluster to join, which then is one that is initialised. */
static void publish_waits(struct node *n, bool knows)
{
    pthread_mutex_lock(&n->lock);
    n->status.waits = true;
    n->status.initialized = knows;
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

void enroll_told_ask(struct node_enroll *e)
{
    env_timer_stop(e->node->host.env, &e->timer);
    struct http_target target = {
        .address = e->address, .tls = e->tls, .host = e->server[0] != '\0' ? e->server : NULL};
    enroll_send(e, &target);
}

static void ask_later(struct node_enroll *e)
{
    struct node *n = e->node;
    env_timer_set(n->host.env, &e->timer, env_mono_ms(n->host.env) + TOLD_AGAIN_MS);
}

/* From the first question on: a challenge ends, and answering it may be what failed. */
static void ask_again(struct node_enroll *e)
{
    if (e->step == ENROLL_ANSWER)
        e->step = ENROLL_CHALLENGE;
    if (enroll_write(e, (struct bytes){0}) == ST_OK)
        enroll_told_ask(e);
    else
        ask_later(e);
}

static void on_again(struct env_timer *timer)
{
    ask_again(CONTAINER_OF(timer, struct node_enroll, timer));
}

void node_told_opened(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, opened_task);
    struct node_enroll *e = n->enroll;
    n->opened_posted = false;
    if (e != NULL && !n->host.stopping && !e->calling && !e->closing && node_seal_has_opener(n))
        ask_again(e);
}

void enroll_told_start(struct node_enroll *e)
{
    struct node *n = e->node;
    ASSERT(e->told && n->options.waits != NULL);
    e->timer.fire = on_again;
    n->told_timer.fire = on_patience;
    publish_waits(n, false);
    trace(TRACE_INFO, "node", "waits to be told which cluster to join");
    n->options.waits(n->options.ctx);
}

static void forget(struct node_enroll *e)
{
    enroll_reset(e);
    node_seal_drop(e->node);
    publish_waits(e->node, false);
}

void enroll_told_tried(struct node_enroll *e, enum enroll_end end, const struct reason *reason)
{
    struct node *n = e->node;
    bool again = end == ENROLL_AGAIN && (e->retry || node_seal_has_opener(n));
    struct reason said;
    ASSERT(end != ENROLL_DONE);
    if (end == ENROLL_ASKS) {
        enroll_told_ask(e);
        return;
    }
    if (end == ENROLL_WAITS) {
        publish_waits(n, true);
        node_told_end(n, ST_OK, NULL);
        return;
    }
    reason_set(&said, "%.100s: %s%s", e->address, reason->text,
               end == ENROLL_AGAIN && e->pinned
                   ? "; without leader_ca_cert it must be a cluster port"
                   : "");
    trace(TRACE_WARN, "node", "did not join by %s", said.text);
    if (again) {
        ask_later(e);
        node_told_end(n, ST_TIMEOUT, NULL);
        return;
    }
    forget(e);
    node_told_end(n, end == ENROLL_REFUSED ? ST_INVALID : ST_BUSY, &said);
}

/* A try that goes on by itself ends. */
static void stop_try(struct node_enroll *e)
{
    env_timer_stop(e->node->host.env, &e->timer);
    if (e->calling)
        http_call_cancel(&e->call);
    e->calling = false;
    forget(e);
}

/* Without a CA the token says whom to believe: only the cluster port shows that authority. */
static enum status make_tls(struct node_enroll *e, const struct node_join *how,
                            struct reason *reason)
{
    struct tls_options o = {.alpn = "http/1.1",
                            .cert.text = how->client_cert,
                            .key.text = how->client_key,
                            .ca.text = how->ca};
    e->pinned = how->ca.len == 0 && how->token.len != 0;
    if (e->pinned) {
        o.tls13_only = true;
        o.ca_sha256 = e->token.ca_sha256;
        o.peer_uri_start = "holdfast://";
    }
    return tls_ctx_new(&o, &e->tls, reason);
}

static enum status prepare(struct node_enroll *e, const struct node_join *how,
                           struct reason *reason)
{
    int address = snprintf(e->address, sizeof e->address, "%s", how->address);
    int server = snprintf(e->server, sizeof e->server, "%s",
                          how->server_name != NULL ? how->server_name : "");
    if (address < 0 || (size_t)address >= sizeof e->address || server < 0 ||
        (size_t)server >= sizeof e->server) {
        reason_set(reason, "leader_api_addr: too long");
        return ST_INVALID;
    }
    e->retry = how->retry;
    e->node->non_voter = how->non_voter;
    TRY(enroll_prepare(e, how->token, reason));
    return make_tls(e, how, reason);
}

static enum status begin(struct node *n, struct node_told *told)
{
    struct node_enroll *e = n->enroll;
    if (n->told_closed || n->host.stopping)
        return ST_CLOSED;
    if (n->told != NULL) {
        reason_set(&told->reason, "another request to join is under way");
        return ST_BUSY;
    }
    if (e == NULL || !e->told || e->closing)
        return ST_EXISTS;
    stop_try(e);
    enum status st = prepare(e, told->how, &told->reason);
    if (st != ST_OK)
        forget(e);
    return st;
}

static void run_join(struct env_task *task)
{
    struct node_told *told = CONTAINER_OF(task, struct node_told, task);
    struct node *n = told->node;
    enum status st = begin(n, told);
    if (st != ST_OK) {
        node_wait_end(&told->wait, st);
        return;
    }
    n->told = told;
    env_timer_set(n->host.env, &n->told_timer, env_mono_ms(n->host.env) + TOLD_PATIENCE_MS);
    trace(TRACE_INFO, "node", "is told to join by %s", n->enroll->address);
    enroll_told_ask(n->enroll);
}

enum status node_join(struct node *node, const struct node_join *how, struct reason *reason)
{
    struct node_told told = {.task = {.run = run_join}, .node = node, .how = how};
    enum status st = node_wait_for(node, &told.task, &told.wait);
    if (told.reason.text[0] != '\0')
        *reason = told.reason;
    return st;
}

static void run_give_up(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, told_give_up);
    n->told_closed = true;
    node_told_end(n, ST_CLOSED, NULL);
}

void node_join_give_up(struct node *n)
{
    n->told_give_up = (struct env_task){.run = run_give_up};
    env_post(n->host.env, &n->told_give_up);
}
