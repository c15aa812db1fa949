/* A node's side of recorded requests: the router, with one worker, in front of an API of the
 * simulator; and the way of a request between two nodes. */
#include "trail.h"

#include "base/mem.h"
#include "cluster.h"
#include "node/node_ops.h"
#include "router/pipeline/pipe.h"
#include "router/pipeline/worker.h"
#include "router/request/body.h"
#include "router/request/dialect.h"
#include "router/router.h"
#include "state/ns_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORDED "recorded"
#define COUNTER "counter"
#define UNRECORDED "could not be recorded by any audit device"

/* A connection that is lost is noticed after some time, whatever the request allows. */
enum { TARGET_BYTES = 64, LOST_MS = 3000 };

struct trail_service {
    struct node *node;
    struct router_host host;
    struct router router;
    struct router_worker *worker;
    struct trail_handover *handover;
    struct list asked; /* struct asked */
    bool settling;
};

/* A request on its way from one node to the active one, and the reply on its way back. Kept until
 * the end of the run. */
struct hop {
    struct event there, back, deadline;
    struct cluster *cluster;
    unsigned from, to;
    uint64_t from_process;
    struct asked *origin; /* valid in `from_process` until `over` */
    uint64_t number;
    struct rlog_request_id id;
    bool again, over;
    enum status st; /* of the try */
    int http;
    size_t body_len;
    uint8_t body[256];
};

/* A request on a node; it vanishes with the memory of the process. */
struct asked {
    struct router_request request;
    struct arena arena;
    struct list link;
    struct node *node;
    uint64_t number;
    char id[TRAIL_ID]; /* of the run; "": not known yet */
    struct hop *hop;   /* another node forwarded the request; NULL: a client sent it */
    struct router_forward *forwards; /* under way */
    bool passed; /* no device took a record, so the node looked for the active node (pipe_pass.c) */
    bool relayed; /* another node sent the reply */
};

static struct asked *asked_of(const struct router_request *request)
{
    return CONTAINER_OF((struct router_request *)(uintptr_t)request, struct asked, request);
}

/* The API */

static enum status recorded_key(struct req *req, const char *name, struct bytes *ret_key)
{
    return state_ns_key(req->arena, STATE_NS_ROOT, "data", BYTES(RECORDED), name, ret_key);
}

static enum status reply_number(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "number", req_param(req, "number"));
    text_close(&w);
    return req_reply_end(req);
}

static enum status read_counter(struct req *req, uint64_t *ret_n)
{
    struct state_value stored;
    struct bytes key;
    TRY(recorded_key(req, COUNTER, &key));
    enum status st = state_get(req->txn, key, &stored);
    *ret_n = st == ST_OK && stored.value.len == 8 ? le64_get(stored.value.data) : 0;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status look(struct req *req)
{
    uint64_t n;
    TRY(read_counter(req, &n));
    return reply_number(req);
}

/* Every change counts, so that requests that run at once conflict. */
static enum status change(struct req *req)
{
    uint8_t count[8];
    uint64_t n;
    struct bytes key;
    TRY(read_counter(req, &n));
    le64_put(count, n + 1);
    TRY(recorded_key(req, COUNTER, &key));
    TRY(state_put(req->txn, key, bytes_of(count, sizeof count)));
    TRY(recorded_key(req, req_param(req, "number"), &key));
    TRY(state_put(req->txn, key, BYTES("1")));
    return reply_number(req);
}

static enum status refuse(struct req *req)
{
    TRY(change(req));
    return req_fail(req, ST_INVALID, "refused");
}

static void note_effect(struct node *n, uint64_t number)
{
    const struct trail_effect effect = {n->slot, n->process, n->cluster->core->now_ns};
    trail_add_effect(trails_log(n->cluster), number, &effect);
}

static enum status outside(struct req *req)
{
    note_effect(req->host->node, strtoull(req_param(req, "number"), NULL, 10));
    return ST_OK;
}

static const char *const kind_names[TRAIL_KINDS] = {
    [TRAIL_LOOK] = "look",     [TRAIL_TOUCH] = "touch",     [TRAIL_CHANGE] = "change",
    [TRAIL_REFUSE] = "refuse", [TRAIL_OUTSIDE] = "outside", [TRAIL_STEP] = "step",
};

static const struct route rows[] = {
    {.method = METHOD_GET, .path = "look/:number", .handler = look, .who = WHO_ANYONE},
    {.method = METHOD_GET, .path = "touch/:number", .handler = change, .who = WHO_ANYONE},
    {.method = METHOD_POST, .path = "change/:number", .handler = change, .who = WHO_ANYONE},
    {.method = METHOD_POST, .path = "refuse/:number", .handler = refuse, .who = WHO_ANYONE},
    {.method = METHOD_POST,
     .path = "outside/:number",
     .handler = change,
     .outside = outside,
     .who = WHO_ANYONE},
    {.method = METHOD_POST,
     .path = "step/:number",
     .handler = look,
     .outside = outside,
     .who = WHO_ANYONE},
};

static enum status read_method(struct req *req, const struct router_request *request)
{
    req->method = request->method;
    return ST_OK;
}

static struct bytes read_nothing(const struct req *req, const struct router_request *request)
{
    (void)req; /* the clients name no namespace and show no token */
    (void)request;
    return (struct bytes){0};
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_INVALID, "%s: %s", field, why);
}

static enum status unknown_field(struct req *req, struct bytes field)
{
    (void)req;
    (void)field;
    return ST_OK;
}

static void put_data(const struct req *req, struct bytes data, struct buf *out)
{
    (void)req;
    buf_add(out, data);
}

static void put_error(int http, const char *text, struct buf *out)
{
    (void)http;
    buf_add_str(out, text);
}

static void say_no_path(struct req *req, bool served)
{
    (void)served;
    reason_set(req_reason(req), "no such path");
}

/* Called before the router hands over a reply: the id of the run is known here. */
static void add_headers(const struct req *req, const struct router_request *request,
                        struct router_reply *reply)
{
    struct asked *a = asked_of(request);
    (void)reply;
    (void)snprintf(a->id, sizeof a->id, "%s", req->request_id); /* fits */
}

static const struct dialect dialect = {
    .name = "sim",
    .root = "/",
    .read_method = read_method,
    .read_namespace = read_nothing,
    .read_token = read_nothing,
    .parse_body = body_parse,
    .refuse_field = refuse_field,
    .unknown_field = unknown_field,
    .silent_http = 204,
    .data_type = "application/json",
    .put_data = put_data,
    .error_type = "text/plain",
    .error_text = status_text,
    .put_error = put_error,
    .body_too_long_text = "too long",
    .say_no_path = say_no_path,
    .add_headers = add_headers,
};

static const struct route_api api = {
    .dialect = &dialect, .prefix = "sim/", .type = "sim", .routes = rows, .n = ARRAY_LEN(rows)};
static const struct route_api *const apis[] = {&api};
static const struct module module = {.name = "sim", .apis = apis, .n_apis = ARRAY_LEN(apis)};
static const struct module *const modules[] = {&module};

/* The node, as the router sees it */

/* A request that was passed on asks for the brief before it runs again. */
static void note_passed(const struct node *n)
{
    if (n->trail == NULL)
        return;
    LIST_FOR (link, &n->trail->worker->requests_under_way) {
        const struct pipe *p = CONTAINER_OF(link, struct pipe, link);
        if ((p->once & PIPE_ONCE_MUTE) != 0)
            asked_of(p->request)->passed = true;
    }
}

static struct node_brief node_brief_now(const struct node *n)
{
    struct rlog_status status;
    note_passed(n);
    rlog_status(n->rlog, &status);
    bool sealed = barrier_is_sealed(n->barrier);
    return (struct node_brief){
        .initialized = true,
        .sealed = sealed,
        .active = status.ready && !sealed,
        .perf_standby = !status.ready && !sealed && status.leader != 0 &&
                        !trail_devices_are_mute(n->trail_devices),
        .leads = status.is_leader,
        .feature = status.feature,
    };
}

static void node_status_now(struct node *n, struct node_status *ret_status)
{
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    *ret_status = (struct node_status){
        .initialized = true, .has_leader = status.leader != 0, .version = status.version};
}

static bool no_quorum(struct node *n, struct reason *ret_why)
{
    (void)n; /* requests wait for their time */
    (void)ret_why;
    return false;
}

static int64_t node_time_ms(struct node *n)
{
    return rlog_time_ms(n->rlog);
}

static bool awaits_members(struct router_host *host, struct reason *ret_why)
{
    (void)host;
    (void)ret_why;
    return false;
}

static const struct node_ops ops = {.status = node_status_now,
                                    .brief = node_brief_now,
                                    .no_quorum = no_quorum,
                                    .time_ms = node_time_ms};

struct trail_service *trail_service_new(struct node *n)
{
    struct trail_service *s = mem_must_alloc(sizeof *s);
    *s = (struct trail_service){.node = n};
    s->host = (struct router_host){.node = n,
                                   .node_ops = &ops,
                                   .awaits_members = awaits_members,
                                   .version = "sim",
                                   .request_log = TRACE_DEBUG,
                                   .audit = trail_devices_table(n->trail_devices)};
    const struct router_options options = {.modules = {modules, ARRAY_LEN(modules)},
                                           .host = &s->host};
    struct reason why;
    if (router_init(&s->router, &options, &why) != ST_OK)
        core_fail(n->cluster->core, "%s", why.text);
    list_init(&s->asked);
    s->handover = trail_handover_new(n);
    trail_devices_open(n->trail_devices);
    if (router_worker_new(&s->router, &n->env.env, n->service, &s->worker) != ST_OK)
        core_fail(n->cluster->core, "%s: out of memory", n->name);
    return s;
}

void trail_service_stop(struct trail_service *s)
{
    if (s == NULL)
        return;
    LIST_FOR (link, &s->asked)
        (void)router_give_up(
            &CONTAINER_OF(link, struct asked, link)->request); /* no client hears of it */
}

void trail_service_watch(struct trail_service *s)
{
    struct node *n = s->node;
    if (n->stopping || n->env.stalled_until_ns > n->cluster->core->now_ns)
        return;
    sim_env_enter(&n->env);
    trail_handover_look(s->handover, trail_devices_are_mute(n->trail_devices));
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

bool trail_service_settle(struct trail_service *s)
{
    if (s == NULL)
        return true;
    ASSERT(list_empty(&s->asked));
    if (!s->settling)
        trail_devices_close(s->node->trail_devices);
    s->settling = true;
    return router_worker_offers(s->worker) == 0;
}

void trail_service_free(struct trail_service *s)
{
    if (s == NULL)
        return;
    router_worker_free(s->worker);
    router_done(&s->router);
    trail_handover_free(s->handover);
    mem_free(s);
}

/* Replies */

static void hop_answer(struct hop *hop, uint64_t delay_ns)
{
    if (!hop->over && delay_ns != 0)
        core_after(hop->cluster->core, &hop->back, delay_ns);
}

static enum trail_way way_of(const struct asked *a, const struct router_reply *reply)
{
    if (reply->retry != ST_OK)
        return TRAIL_HANDED_BACK;
    if (a->hop != NULL)
        return TRAIL_FORWARDED;
    return a->relayed ? TRAIL_RELAYED : TRAIL_OWN;
}

static enum trail_says says(int http, const char *text)
{
    if (http >= 500 && strstr(text, "may or may not") != NULL)
        return TRAIL_UNKNOWN;
    if (http < 500 || strstr(text, UNRECORDED) == NULL)
        return TRAIL_RECORDED;
    if (strstr(text, "ended with status") != NULL)
        return TRAIL_UNKNOWN;
    if (strstr(text, "the change was made") != NULL)
        return TRAIL_MADE;
    return TRAIL_NOTHING;
}

static void note_run(struct asked *a, const struct router_reply *reply)
{
    struct cluster *c = a->node->cluster;
    char text[200];
    (void)snprintf(text, sizeof text, "%.*s", (int)reply->body.len,
                   reply->body.len != 0 ? (const char *)reply->body.data : ""); /* cut: an error */
    struct trail_run run = {.way = way_of(a, reply),
                            .says = says(reply->http, text),
                            .passed = a->passed,
                            .http = reply->http,
                            .ret_ns = c->core->now_ns};
    memcpy(run.id, a->id, sizeof run.id);
    core_say(c->core, "%s: recorded request %" PRIu64 " ends with %d (way %d, says %d): %s",
             a->node->name, a->number, run.http, run.way, run.says, text);
    c->tally.reached[REACH_UNRECORDED] += run.says == TRAIL_NOTHING;
    c->tally.reached[REACH_RECORDED] += run.says == TRAIL_RECORDED && run.http < 300;
    c->tally.reached[REACH_RELAYED] += run.way == TRAIL_RELAYED;
    trail_add_run(trails_log(c), a->number, &run);
}

struct told {
    struct event event;
    struct cluster *cluster;
    uint64_t number;
    int http;
};

static void on_told(struct event *event)
{
    struct told *told = CONTAINER_OF(event, struct told, event);
    trails_replied(told->cluster, told->number, told->http);
    free(told);
}

static void tell_client(struct cluster *c, uint64_t number, int http)
{
    struct told *told = sim_alloc(sizeof *told);
    *told = (struct told){.event = {.fire = on_told}, .cluster = c, .number = number, .http = http};
    core_after(c->core, &told->event, 100 * SIM_US);
}

static void respond(struct router_request *request, struct router_reply *reply)
{
    struct asked *a = asked_of(request);
    struct node *n = a->node;
    struct hop *hop = a->hop;
    note_run(a, reply);
    if (hop == NULL) {
        tell_client(n->cluster, a->number, reply->http);
    } else {
        hop->st = reply->retry;
        hop->http = reply->http;
        hop->body_len = MIN(reply->body.len, sizeof hop->body);
        if (hop->body_len != 0)
            memcpy(hop->body, reply->body.data, hop->body_len);
        hop_answer(hop, sim_net_delay(&n->cluster->net, hop->to, hop->from));
    }
    list_remove(&a->link);
    n->requests--;
    arena_done(&a->arena);
    mem_free(a);
}

/* Requests */

/* Requests have no headers. */
static bool header_next(const struct router_request *request, const char *name, size_t *at,
                        struct bytes *ret_value)
{
    (void)request;
    (void)name;
    (void)at;
    (void)ret_value;
    return false;
}

static void forward(struct router_request *request, struct router_forward *f);

static void execute(struct node *n, uint64_t number, struct hop *hop)
{
    enum trail_kind kind = trails_log(n->cluster)->calls[number].kind;
    char target[TARGET_BYTES];
    struct asked *a = mem_must_alloc(sizeof *a);
    *a = (struct asked){.node = n, .number = number, .hop = hop};
    a->request = (struct router_request){
        .method = kind == TRAIL_LOOK || kind == TRAIL_TOUCH ? METHOD_GET : METHOD_POST,
        .arena = &a->arena,
        .peer = "192.0.2.1:4711",
        .header_next = header_next,
        .forward = forward,
        .respond = respond,
    };
    if (hop != NULL) {
        a->request.forwarded = true;
        a->request.id = hop->id;
        a->request.again = hop->again;
    }
    (void)snprintf(target, sizeof target, "/sim/%s/%" PRIu64, kind_names[kind], number); /* fits */
    const char *kept = arena_str(&a->arena, bytes_str(target));
    if (kept == NULL || path_canonical(&a->arena, bytes_str(kept), &a->request.target) != ST_OK)
        core_fail(n->cluster->core, "%s: out of memory", n->name);
    list_push(&n->trail->asked, &a->link);
    n->requests++;
    router_place(n->trail->worker, &a->request, NULL);
    router_handle(n->trail->worker, &a->request);
}

/* Between nodes */

static bool takes_requests(const struct node *n)
{
    return n->process != 0 && !n->stopping && n->trail != NULL;
}

bool trail_serves(const struct node *n)
{
    return takes_requests(n) && !barrier_is_sealed(n->barrier) &&
           !trail_devices_are_mute(n->trail_devices);
}

static void on_there(struct event *event)
{
    struct hop *hop = CONTAINER_OF(event, struct hop, there);
    struct node *n = &hop->cluster->nodes[hop->to];
    if (n->process != 0 && !sim_env_awake(&n->env, event))
        return;
    if (!takes_requests(n)) { /* the connection is refused: the request was not executed */
        hop->st = ST_NO_LEADER;
        hop_answer(hop, sim_net_delay(&hop->cluster->net, hop->to, hop->from));
        return;
    }
    sim_env_enter(&n->env);
    execute(n, hop->number, hop);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

/* End a try, unless its node or its request is gone. */
static void hop_end(struct hop *hop, struct event *event, enum status st)
{
    struct cluster *c = hop->cluster;
    struct node *n = &c->nodes[hop->from];
    if (n->process != hop->from_process || hop->over)
        return;
    if (!sim_env_awake(&n->env, event))
        return;
    struct asked *a = hop->origin;
    struct router_forward *f = a->forwards;
    hop->over = true;
    core_cancel(c->core, &hop->deadline);
    core_cancel(c->core, &hop->back);
    sim_env_enter(&n->env);
    f->reply = (struct router_reply){.http = hop->http};
    if (st == ST_OK && hop->body_len != 0) {
        f->reply.content_type = hop->http < 400 ? "application/json" : "text/plain";
        buf_add(&f->reply.body, bytes_of(hop->body, hop->body_len));
    }
    a->relayed = st == ST_OK;
    a->forwards = NULL;
    f->done(f, st);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

static void on_back(struct event *event)
{
    struct hop *hop = CONTAINER_OF(event, struct hop, back);
    hop_end(hop, event, hop->st);
}

static void on_deadline(struct event *event)
{
    hop_end(CONTAINER_OF(event, struct hop, deadline), event, ST_TIMEOUT);
}

static void forward(struct router_request *request, struct router_forward *f)
{
    struct asked *a = asked_of(request);
    struct node *n = a->node;
    struct cluster *c = n->cluster;
    struct rlog_status status;
    struct hop *hop = sim_alloc(sizeof *hop);
    *hop = (struct hop){.there = {.fire = on_there},
                        .back = {.fire = on_back},
                        .deadline = {.fire = on_deadline},
                        .cluster = c,
                        .from = n->slot,
                        .from_process = n->process,
                        .origin = a,
                        .number = a->number,
                        .id = f->id,
                        .again = f->again,
                        .st = ST_NO_LEADER};
    ASSERT(a->forwards == NULL);
    a->forwards = f;
    rlog_status(n->rlog, &status);
    const struct node *leader = status.leader != 0 ? node_by_id(c, status.leader) : NULL;
    uint64_t left_ms = f->deadline_ms - MIN(env_mono_ms(f->env), f->deadline_ms);
    core_after(c->core, &hop->deadline, (MIN(left_ms, (uint64_t)LOST_MS) + 1) * SIM_MS);
    if (leader == NULL || leader == n) {
        hop_answer(hop, 1 * SIM_US);
        return;
    }
    hop->to = leader->slot;
    uint64_t delay_ns = sim_net_delay(&c->net, n->slot, leader->slot);
    if (delay_ns != 0)
        core_after(c->core, &hop->there, delay_ns);
}

/* From clients */

struct sent {
    struct event event;
    struct cluster *cluster;
    uint64_t number;
    unsigned slot;
};

static void on_sent(struct event *event)
{
    struct sent *sent = CONTAINER_OF(event, struct sent, event);
    struct node *n = &sent->cluster->nodes[sent->slot];
    if (n->process != 0 && !sim_env_awake(&n->env, event))
        return;
    if (!takes_requests(n)) {
        tell_client(sent->cluster, sent->number, 0);
    } else {
        sim_env_enter(&n->env);
        execute(n, sent->number, NULL);
        (void)sim_env_leave(&n->env); /* nothing is touched after it */
    }
    free(sent);
}

void trail_send(struct cluster *c, uint64_t number, unsigned slot)
{
    struct sent *sent = sim_alloc(sizeof *sent);
    *sent = (struct sent){.event = {.fire = on_sent}, .cluster = c, .number = number, .slot = slot};
    core_after(c->core, &sent->event, 100 * SIM_US);
}

bool trail_give_up(struct node *n, uint64_t number)
{
    bool untouched = false;
    if (n->process == 0 || n->trail == NULL || n->env.stalled_until_ns > n->cluster->core->now_ns)
        return false;
    LIST_FOR (link, &n->trail->asked) {
        struct asked *a = CONTAINER_OF(link, struct asked, link);
        if (a->number == number && a->hop == NULL)
            untouched = router_give_up(&a->request) == ST_TIMEOUT;
    }
    return untouched;
}

/* Changes */

static bool number_of(struct bytes key, uint64_t *ret_number)
{
    static const char prefix[] = "s/ns/" STATE_NS_ROOT "/data/" RECORDED "/";
    char digits[24];
    if (!bytes_has_prefix(key, bytes_str(prefix)))
        return false;
    struct bytes rest = bytes_from(key, sizeof prefix - 1);
    if (rest.len == 0 || rest.len >= sizeof digits || rest.data[0] < '0' || rest.data[0] > '9')
        return false;
    memcpy(digits, rest.data, rest.len);
    digits[rest.len] = '\0';
    *ret_number = strtoull(digits, NULL, 10);
    return true;
}

static void op_seen(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct node *n = ctx;
    uint64_t number;
    if (touch == RLOG_TOUCH_PUT && number_of(key, &number))
        note_effect(n, number);
}

void trail_proposed(struct node *n, struct bytes txn)
{
    if (n->trail != NULL)
        rlog_txn_touch_ops(txn, op_seen, n);
}

void trail_find_changes(struct node *n, struct trail *trail)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_walk *walk = sim_alloc(sizeof *walk);
    struct bytes prefix;
    uint64_t number;
    sim_env_enter(&n->env);
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = state_ns_key(&arena, STATE_NS_ROOT, "data", BYTES(RECORDED), "", &prefix);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: reading at the end: %s", n->name, status_name(st));
    for (state_walk(&txn, prefix, walk); state_walk_next(walk);)
        if (number_of(walk->key, &number) && number < trail->n_calls)
            trail->calls[number].changed = true;
    state_end(&txn);
    arena_done(&arena);
    free(walk);
    (void)sim_env_leave(&n->env); /* it did nothing that ends a process */
}
