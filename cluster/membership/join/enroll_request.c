/* A node that waits for a join request. The request may come from any client. The node then asks a
 * member of the named cluster for a certificate: it shows the token of the request, or proves that
 * it can open the cluster's seal. With the certificate it opens its data.
 *
 *   WAITING ─enroll_join─▶ ASKING ─certificate─▶ bootstrap_open ─▶ member: the call ends well
 *      ▲                 │    ▲
 *      └─refused, or no──┘    └─ again, where the request says so: without its caller
 *        reply
 *
 * Until it joins, anyone who reaches its port can claim the node; the node has no other secret yet.
 * One join request runs at a time. A new request replaces a try that goes on by itself. */
#include "cluster/membership/join/enroll_internal.h"
#include "cluster/membership/wait.h"

#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>

enum { REQUEST_AGAIN_MS = 2000, REQUEST_PATIENCE_MS = 50000 };

/* A waiting join request, on its caller's stack. */
struct enroll_wait {
    struct env_task task;
    struct enroll *all;
    const struct join_request *how;
    struct reason reason;
    struct wait wait;
};

void enroll_request_end(struct enroll *all, enum status st, const struct reason *reason)
{
    struct enroll_wait *waiting = all->wait;
    ASSERT(part_on_thread(all->host));
    if (waiting == NULL)
        return;
    all->wait = NULL;
    env_timer_stop(all->host->env, &all->patience);
    if (reason != NULL)
        waiting->reason = *reason;
    wait_end(&waiting->wait, st);
}

static void on_patience(struct env_timer *timer)
{
    enroll_request_end(CONTAINER_OF(timer, struct enroll, patience), ST_TIMEOUT, NULL);
}

/* `knows`: this node has the seal of the cluster to join, so that cluster is initialised. */
static void publish_waits(struct enroll *all, bool knows)
{
    all->host->waits = true;
    all->host->initialized = knows;
    all->host->calls->publish(all->host);
}

void enroll_request_ask(struct enroll_try *e)
{
    env_timer_stop(e->all->host->env, &e->timer);
    enroll_round(e, e->address, e->server[0] != '\0' ? e->server : NULL);
}

static void ask_later(struct enroll_try *e)
{
    struct env *env = e->all->host->env;
    env_timer_set(env, &e->timer, env_mono_ms(env) + REQUEST_AGAIN_MS);
}

/* Write the first request anew: the challenge may have expired, or its answer failed. */
static enum status write_first(struct enroll_try *e)
{
    ASSERT(e->by_request);
    if (e->step == ENROLL_ANSWER)
        e->step = ENROLL_CHALLENGE;
    return enroll_write(e, (struct bytes){0});
}

static void ask_again(struct enroll_try *e)
{
    if (write_first(e) == ST_OK)
        enroll_request_ask(e);
    else
        ask_later(e);
}

static void on_again(struct env_timer *timer)
{
    ask_again(CONTAINER_OF(timer, struct enroll_try, timer));
}

void enroll_opened(struct enroll *all)
{
    struct enroll_try *e = all->try;
    if (e != NULL && !all->host->stopping && !e->calling && !e->closing && e->lookup == NULL &&
        all->seal.has_opener(all->seal.ctx))
        ask_again(e);
}

void enroll_request_start(struct enroll_try *e)
{
    struct enroll *all = e->all;
    ASSERT(e->by_request && all->wait == NULL);
    e->timer.fire = on_again;
    all->patience.fire = on_patience;
    publish_waits(all, false);
    trace(TRACE_INFO, "node", "waits for a join request");
    all->host->calls->wait(all->host);
}

static void enroll_forget(struct enroll_try *e)
{
    enroll_reset(e);
    e->all->seal.drop(e->all->seal.ctx);
    publish_waits(e->all, false);
}

static void explain_try(const struct enroll_try *e, enum enroll_end end,
                        const struct reason *reason, struct reason *ret_said)
{
    const char *at = enroll_round_at(e);
    bool named = at != NULL && strcmp(at, e->address) != 0;
    ASSERT(end == ENROLL_AGAIN || end == ENROLL_REFUSED);
    reason_set(ret_said, "%.100s%s%s: %s%s", e->address, named ? " at " : "", named ? at : "",
               reason->text,
               end == ENROLL_AGAIN && e->pinned
                   ? "; without leader_ca_cert it must be a cluster port"
                   : "");
    trace(TRACE_WARN, "node", "did not join by %s", ret_said->text);
}

/* The round has ended without success. */
static void end_round(struct enroll_try *e, const struct reason *said)
{
    struct enroll *all = e->all;
    bool refused = e->refused.text[0] != '\0';
    const struct reason why = refused ? e->refused : *said;
    ASSERT(!e->calling && e->lookup == NULL);
    if (!refused && (e->retry || all->seal.has_opener(all->seal.ctx))) {
        ask_later(e);
        enroll_request_end(all, ST_TIMEOUT, NULL);
        return;
    }
    enroll_forget(e);
    enroll_request_end(all, refused ? ST_INVALID : ST_BUSY, &why);
}

/* A refusal ends the round only after its other addresses: an address may lead to a server that is
 * no member. */
void enroll_request_tried(struct enroll_try *e, enum enroll_end end, const struct reason *reason)
{
    struct reason said;
    ASSERT(end != ENROLL_DONE);
    if (end == ENROLL_ASKS) {
        enroll_round_send(e);
        return;
    }
    if (end == ENROLL_WAITS) {
        publish_waits(e->all, true);
        enroll_request_end(e->all, ST_OK, NULL);
        return;
    }
    explain_try(e, end, reason, &said);
    if (end == ENROLL_REFUSED && e->refused.text[0] == '\0')
        e->refused = said;
    if (enroll_round_next(e) && write_first(e) == ST_OK)
        enroll_round_send(e);
    else
        end_round(e, &said);
}

/* End an attempt that runs without a waiting request. */
static void stop_try(struct enroll_try *e)
{
    ASSERT(e->by_request);
    ASSERT(!e->closing);
    env_timer_stop(e->all->host->env, &e->timer);
    if (e->calling)
        http_client_cancel(&e->request);
    e->calling = false;
    enroll_round_drop(e);
    enroll_forget(e);
}

/* Without a CA in the request, trust the authority with the hash in the token. Only a cluster port
 * shows a certificate of that authority. */
static enum status make_tls(struct enroll_try *e, const struct join_request *how,
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

static enum status request_prepare(struct enroll_try *e, const struct join_request *how,
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
    e->all->bootstrap->non_voter = how->non_voter;
    TRY(enroll_prepare(e, how->token, reason));
    ASSERT(e->body.len != 0);
    return make_tls(e, how, reason);
}

static enum status request_begin(struct enroll *all, struct enroll_wait *waiting)
{
    struct enroll_try *e = all->try;
    if (all->given_up || all->host->stopping)
        return ST_CLOSED;
    if (all->wait != NULL) {
        reason_set(&waiting->reason, "another join request is under way");
        return ST_BUSY;
    }
    if (e == NULL || !e->by_request || e->closing)
        return ST_EXISTS;
    stop_try(e);
    enum status st = request_prepare(e, waiting->how, &waiting->reason);
    if (st != ST_OK)
        enroll_forget(e);
    return st;
}

static void run_join(struct env_task *task)
{
    struct enroll_wait *waiting = CONTAINER_OF(task, struct enroll_wait, task);
    struct enroll *all = waiting->all;
    ASSERT(part_on_thread(all->host));
    enum status st = request_begin(all, waiting);
    if (st != ST_OK) {
        wait_end(&waiting->wait, st);
        return;
    }
    all->wait = waiting;
    env_timer_set(all->host->env, &all->patience,
                  env_mono_ms(all->host->env) + REQUEST_PATIENCE_MS);
    trace(TRACE_INFO, "node", "got a join request: asks %s for a certificate", all->try->address);
    enroll_request_ask(all->try);
}

enum status enroll_join(struct enroll *e, const struct join_request *request, struct reason *reason)
{
    struct enroll_wait waiting = {.task = {.run = run_join}, .all = e, .how = request};
    ASSERT(part_off_thread(e->host));
    enum status st = wait_for(&waiting.wait, e->host->env, &waiting.task);
    if (waiting.reason.text[0] != '\0')
        *reason = waiting.reason;
    return st;
}

static void run_give_up(struct env_task *task)
{
    struct enroll *e = CONTAINER_OF(task, struct enroll, give_up_task);
    ASSERT(!e->given_up);
    e->given_up = true;
    enroll_request_end(e, ST_CLOSED, NULL);
}

void enroll_give_up(struct enroll *e)
{
    e->give_up_task = (struct env_task){.run = run_give_up};
    env_post(e->host->env, &e->give_up_task);
}
