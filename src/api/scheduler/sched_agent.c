/* The protocol of nodes, below client/node/: join, register, beat, the work of a node, its reports,
 * its link, and the connections of sessions. A node comes with a join token once, and shows the
 * token of its own from then on. It speaks for its own allocations alone. */
#include "api/scheduler/sched_show.h"
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"
#include "auth/scheduler/scheduler_token.h"
#include "front/hub/hub.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"
#include "router/request/reply.h"
#include "text/random.h"

enum { REPORT_MAX = 256, TEXT_MAX = 256, FACTS_MAX = 64 * 1024, STATES_MAX = 128 * 1024 };

/* Join tokens */

struct token_in {
    int64_t ttl_s, uses;
    const char *pool;
};
static const struct field token_in_fields[] = {
    FIELD_NAMED("TTL", struct token_in, ttl_s, DURATION, .preset = "1h"),
    FIELD_NAMED("Uses", struct token_in, uses, INT, .preset = "1", .help = "Nodes that may join."),
    FIELD_NAMED("Pool", struct token_in, pool, STRING, .preset = "default"),
};
static const struct schema token_in_schema = SCHEMA(struct token_in, token_in_fields);
struct token_out {
    const char *secret, *accessor;
};
static const struct field token_out_fields[] = {
    FIELD_NAMED("SecretID", struct token_out, secret, STRING, .hidden = true),
    FIELD_NAMED("AccessorID", struct token_out, accessor, STRING),
};
static const struct schema token_reply = SCHEMA(struct token_out, token_out_fields);

static enum status make_join_token(struct req *req)
{
    const struct token_in *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct scheduler_token token = {.name = "join",
                                    .subject = in->pool,
                                    .type = SCHEDULER_JOIN,
                                    .uses = (uint32_t)in->uses,
                                    .expire_ms = req->now_ms + in->ttl_s * 1000};
    if (in->uses < 1 || in->uses > 100000)
        return req_fail(req, ST_INVALID, "Uses: 1 to 100000 is expected");
    if (in->ttl_s < 1 || in->ttl_s > 30 * 86400)
        return req_fail(req, ST_INVALID, "TTL: 1s to 30 days is expected");
    if (strlen(in->pool) > 128 || in->pool[0] == '\0')
        return req_fail(req, ST_INVALID, "Pool: 1 to 128 characters are expected");
    TRY(scheduler_token_add(&scope, req->env, &token));
    return req_reply(req, &(struct token_out){token.secret, token.accessor});
}

struct joined_out {
    const char *node, *secret;
};
static const struct field joined_fields[] = {
    FIELD_NAMED("NodeID", struct joined_out, node, STRING),
    FIELD_NAMED("SecretID", struct joined_out, secret, STRING, .hidden = true),
};
static const struct schema joined_reply = SCHEMA(struct joined_out, joined_fields);

/* One use of the join token brings one node: its record, which no agent described yet, and its
 * token. */
static enum status join(struct req *req)
{
    const struct auth_scope scope = req_scope(req);
    struct scheduler_token token, own = {.name = "node", .type = SCHEDULER_NODE};
    struct sched_node node = {.name = "",
                              .datacenter = "dc1",
                              .class_name = "",
                              .facts = "{}",
                              .status = SCHED_NODE_INIT,
                              .status_ms = req->now_ms};
    TRY(scheduler_token_of(req->token, &token));
    if (token.uses == 0)
        return req_fail(req, ST_DENIED, "Permission denied");
    token.uses--;
    TRY(scheduler_token_put(&scope, req->token, &token));
    TRY(sched_uuid(req->txn, &node.id));
    own.subject = node.id;
    TRY(scheduler_token_add(&scope, req->env, &own));
    node.pool = token.subject;
    node.accessor = own.accessor;
    TRY(sched_node_put(req->txn, &node));
    TRY(sched_node_now_put(req->txn, &node));
    return req_reply(req, &(struct joined_out){node.id, own.secret});
}

/* Of a node */

/* The node whose token the request has. */
static enum status own_node(struct req *req, struct sched_node *ret_node)
{
    const char *id;
    TRY(scheduler_node_of(req, &id));
    enum status st = sched_node_load(req->txn, id, ret_node);
    return st == ST_NOT_FOUND ? req_fail(req, ST_NOT_FOUND, "Unknown node \"%s\"", id) : st;
}

struct register_in {
    const char *name, *datacenter, *class_name;
    int64_t cpu, memory_mb, disk_mb;
    const struct text_value *facts;
};
static const struct field register_fields[] = {
    FIELD_NAMED("Name", struct register_in, name, STRING, .required = true),
    FIELD_NAMED("Datacenter", struct register_in, datacenter, STRING, .preset = "dc1"),
    FIELD_NAMED("NodeClass", struct register_in, class_name, STRING, .preset = ""),
    FIELD_NAMED("CPU", struct register_in, cpu, INT, .required = true, .help = "MHz of all cores."),
    FIELD_NAMED("MemoryMB", struct register_in, memory_mb, INT, .required = true),
    FIELD_NAMED("DiskMB", struct register_in, disk_mb, INT, .required = true),
    FIELD_NAMED("Facts", struct register_in, facts, VALUE,
                .help = "Attributes, Meta and Drivers, objects of strings."),
};
static const struct schema register_schema = SCHEMA(struct register_in, register_fields);

struct beat_out {
    int64_t ttl_ms;
};
static const struct field beat_fields[] = {FIELD_NAMED("TTLMs", struct beat_out, ttl_ms, INT)};
static const struct schema beat_reply = SCHEMA(struct beat_out, beat_fields);

/* Stage that a node is ready, where it was not. */
static enum status become_ready(struct req *req, struct sched_node *node)
{
    if (node->status == SCHED_NODE_READY)
        return ST_OK;
    node->status = SCHED_NODE_READY;
    node->status_ms = req->now_ms;
    TRY(sched_node_now_put(req->txn, node));
    return sched_unblock(req->txn, req->now_ms);
}

static bool is_short(const char *text)
{
    return strlen(text) <= TEXT_MAX;
}

static enum status sched_agent_register_node(struct req *req)
{
    CLEANUP(buf_done) struct buf facts = {0};
    struct text_writer w = {.out = &facts, .plain = true};
    const struct register_in *in = req_body(req);
    struct sched_node node;
    TRY(own_node(req, &node));
    if (in->cpu < 0 || in->memory_mb < 0 || in->disk_mb < 0)
        return req_fail(req, ST_INVALID, "CPU, MemoryMB and DiskMB are not negative");
    if (!is_short(in->name) || !is_short(in->datacenter) || !is_short(in->class_name))
        return req_fail(req, ST_INVALID, "Name, Datacenter or NodeClass is too long");
    if (in->facts != NULL && in->facts->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID, "Facts: an object is expected");
    text_put_value(&w, in->facts);
    buf_add_u8(&facts, 0);
    TRY(buf_status(&facts));
    if (facts.len > FACTS_MAX)
        return req_fail(req, ST_TOO_BIG, "Facts are longer than %d bytes", FACTS_MAX);
    node.name = in->name;
    node.datacenter = in->datacenter;
    node.class_name = in->class_name;
    node.cpu = (uint64_t)in->cpu;
    node.memory_mb = (uint64_t)in->memory_mb;
    node.disk_mb = (uint64_t)in->disk_mb;
    node.facts = in->facts != NULL ? (const char *)facts.data : "{}";
    TRY(sched_node_put(req->txn, &node));
    TRY(become_ready(req, &node));
    req->prepared = arena_str(req->arena, bytes_str(node.id));
    return ST_OK;
}

static enum status beat(struct req *req)
{
    struct sched_node node;
    TRY(own_node(req, &node));
    if (node.name[0] == '\0')
        return req_fail(req, ST_INVALID, "the node has not registered");
    TRY(become_ready(req, &node));
    req->prepared = arena_str(req->arena, bytes_str(node.id));
    return ST_OK;
}

/* The table of beats is outside of the state. */
static enum status note_beat(struct req *req)
{
    if (req->prepared == NULL)
        return ST_NOMEM;
    sched_beat(req->prepared);
    return req_reply(req, &(struct beat_out){sched_beat_ttl_ms()});
}

/* The allocations that a node shall run, or shall stop: those that have not ended there. */
static enum status work(struct req *req)
{
    struct sched_ids ids;
    struct sched_node node;
    struct bytes key;
    TRY(own_node(req, &node));
    TRY(sched_key(req->arena, "sched-node-alloc", node.id, "", &key));
    TRY(req_watch_prefix(req, key));
    TRY(sched_ids_of(req->txn, "sched-node-alloc", node.id, &ids));
    struct sched_specs specs = {.n = 0};
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < ids.n; i++) {
        const struct text_value *spec;
        struct sched_alloc alloc;
        TRY(sched_key(req->arena, "sched-alloc", ids.items[i], "plan", &key));
        TRY(req_watch_key(req, key));
        TRY(sched_alloc_load(req->txn, ids.items[i], &alloc));
        if (sched_client_ended(alloc.report.status))
            continue; /* the node ends what it still runs of it */
        TRY(sched_specs_get(req->txn, &specs, &alloc, &spec));
        sched_show_alloc(&alloc, spec, &w);
    }
    text_close(&w);
    return req_reply_end(req);
}

/* Reports */

struct report_in {
    const struct text_value *allocs;
};
static const struct field report_fields[] = {
    FIELD_NAMED("Allocs", struct report_in, allocs, VALUE, .required = true,
                .help = "Objects with ID, ClientStatus, ClientDescription, TaskStates, Services "
                        "and Checks."),
};
static const struct schema node_report_schema = SCHEMA(struct report_in, report_fields);

/* A member as JSON text in the arena; "" where it is absent. */
static enum status json_of(struct req *req, const struct text_value *of, const char *name,
                           const char **ret_text)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    const struct text_value *v = text_get(of, name);
    *ret_text = "";
    if (v == NULL || v->kind == TEXT_NULL)
        return ST_OK;
    text_put_value(&w, v);
    TRY(buf_status(&text));
    if (text.len > STATES_MAX)
        return req_fail(req, ST_TOO_BIG, "%s is longer than %d bytes", name, STATES_MAX);
    *ret_text = arena_str(req->arena, buf_bytes(&text));
    return *ret_text != NULL ? ST_OK : ST_NOMEM;
}

/* Stage an evaluation that replaces a failed allocation, where its policy lets it be replaced. */
static enum status reschedule(struct req *req, struct sched_alloc *alloc)
{
    const struct text_value *spec, *policy, *events = NULL;
    struct sched_job job;
    int64_t delay_ms, tries = 0;
    enum status st = sched_job_load(req->txn, alloc->plan.job, &job);
    if (st == ST_NOT_FOUND || (st == ST_OK && job.stop))
        return ST_OK;
    TRY(st);
    TRY(sched_alloc_spec(req->txn, alloc, &spec));
    policy = text_get(spec_group(spec, alloc->plan.group), "ReschedulePolicy");
    if (alloc->plan.tracker[0] != '\0')
        TRY(text_json_parse(req->arena, bytes_str(alloc->plan.tracker), &events, NULL));
    const struct text_value *list = text_get(events, "Events");
    tries = list != NULL ? (int64_t)list->n : 0;
    if (!spec_bool(policy, "Unlimited") && tries >= spec_int(policy, "Attempts"))
        return ST_OK;
    delay_ms = spec_int(policy, "Delay") / 1000000;
    int64_t most_ms = spec_int(policy, "MaxDelay") / 1000000;
    if (strcmp(spec_text(policy, "DelayFunction"), "constant") != 0)
        for (int64_t i = 0; i < tries && (most_ms == 0 || delay_ms < most_ms); i++)
            delay_ms = MIN(delay_ms * 2, INT64_C(1) << 40);
    delay_ms = most_ms != 0 ? MIN(delay_ms, most_ms) : delay_ms;
    const struct sched_cause cause = {.trigger = "alloc-failure",
                                      .wait_until_ms = req->now_ms + MAX(delay_ms, INT64_C(1))};
    TRY(sched_evaluate(req->txn, req->now_ms, &job, &cause, &alloc->plan.followup));
    return sched_plan_put(req->txn, alloc);
}

/* Stage the consequences of an allocation's end: capacity, and a replacement. */
static enum status follow_end(struct req *req, struct sched_alloc *alloc)
{
    TRY(sched_unblock(req->txn, req->now_ms));
    if (alloc->plan.desired != SCHED_RUN)
        return ST_OK;
    return alloc->report.status == SCHED_FAILED ? reschedule(req, alloc) : ST_OK;
}

static enum status take_report(struct req *req, const struct sched_node *node,
                               const struct text_value *said)
{
    const char *id = spec_text(said, "ID");
    struct sched_alloc alloc;
    uint8_t status;
    enum status st =
        strlen(id) == SCHED_UUID_LEN ? sched_alloc_load(req->txn, id, &alloc) : ST_NOT_FOUND;
    if (st == ST_NOT_FOUND && strlen(id) == SCHED_UUID_LEN)
        return ST_OK; /* the servers have forgotten the allocation */
    if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(alloc.plan.node, node->id) != 0))
        return req_fail(req, ST_NOT_FOUND, "Unknown allocation \"%.64s\"", id);
    TRY(st);
    const struct text_value *name = text_get(said, "ClientStatus");
    if (name == NULL || !sched_client_find(name->text, &status) || status == SCHED_LOST)
        return req_fail(req, ST_INVALID, "ClientStatus: an unknown status");
    if (sched_client_ended(alloc.report.status) && !sched_client_ended(status))
        return ST_OK; /* an allocation that has ended does not run again */
    bool ends = !sched_client_ended(alloc.report.status) && sched_client_ended(status);
    if (alloc.report.status != SCHED_LOST) {
        alloc.report.status = status;
        alloc.report.text = arena_str(
            req->arena, bytes_of(spec_text(said, "ClientDescription"),
                                 strnlen(spec_text(said, "ClientDescription"), TEXT_MAX)));
    }
    if (alloc.report.text == NULL)
        return ST_NOMEM;
    TRY(json_of(req, said, "TaskStates", &alloc.report.states));
    TRY(json_of(req, said, "Services", &alloc.report.services));
    TRY(json_of(req, said, "Checks", &alloc.report.checks));
    alloc.report.modified_ms = req->now_ms;
    TRY(sched_report_put(req->txn, &alloc));
    return ends ? follow_end(req, &alloc) : ST_OK;
}

static enum status sched_agent_report(struct req *req)
{
    const struct report_in *in = req_body(req);
    struct sched_node node;
    TRY(own_node(req, &node));
    if (in->allocs->kind != TEXT_LIST || in->allocs->n > REPORT_MAX)
        return req_fail(req, ST_INVALID, "Allocs: a list of at most %d objects is expected",
                        REPORT_MAX);
    if (node.status != SCHED_NODE_READY)
        return req_fail(req, ST_REFUSED, "the node is %s: it must beat first",
                        sched_node_status_name(node.status));
    TEXT_FOR (said, in->allocs)
        TRY(take_report(req, &node, said));
    return ST_OK;
}

/* Connections */

struct link {
    struct reply_upgrade upgrade;
    const char *node, *session;
};

static void take_link(struct reply_upgrade *upgrade, struct http_taken *taken, struct bytes accept)
{
    const struct link *link = CONTAINER_OF(upgrade, struct link, upgrade);
    if (link->session == NULL)
        hub_link(taken, accept, link->node);
    else
        hub_join(taken, accept, link->node, link->session);
}

static enum status open_link(struct req *req)
{
    struct sched_node node;
    struct link *link = arena_zalloc(req->arena, sizeof *link);
    TRY(own_node(req, &node));
    if (link == NULL)
        return ST_NOMEM;
    link->upgrade.take = take_link;
    link->node = arena_str(req->arena, bytes_str(node.id));
    link->session = req->params.n != 0 ? req_param(req, "session") : NULL;
    if (link->node == NULL)
        return ST_NOMEM;
    req->files.upgrade = &link->upgrade;
    return ST_OK;
}

/* Rows */

static const struct scheduler_row operator_row = {
    .permission = "operator:write", .caps = SCHEDULER_OPERATOR, .any_namespace = true};
static const struct scheduler_row join_row = {
    .permission = "node:join", .caps = SCHEDULER_OF_JOIN, .any_namespace = true};
static const struct scheduler_row own_row = {
    .permission = "node:self", .caps = SCHEDULER_OF_NODE, .any_namespace = true};
static const struct scheduler_row link_row = {
    .permission = "node:self", .caps = SCHEDULER_OF_NODE, .any_namespace = true, .upgrades = true};

static const struct route agent_routes[] = {
    {.method = METHOD_POST,
     .path = "node/token",
     .handler = make_join_token,
     .of_dialect = &operator_row,
     .feature = SCHEDULER_FEATURE,
     .body = &token_in_schema,
     .reply = &token_reply,
     .help = "Make a token with which nodes join."},
    {.method = METHOD_POST,
     .path = "node/join",
     .handler = join,
     .of_dialect = &join_row,
     .feature = SCHEDULER_FEATURE,
     .reply = &joined_reply,
     .help = "Join as a node: gives the node's id and its own token."},
    {.method = METHOD_POST,
     .path = "node/register",
     .handler = sched_agent_register_node,
     .outside = note_beat,
     .of_dialect = &own_row,
     .place = PLACE_ACTIVE,
     .feature = SCHEDULER_FEATURE,
     .body = &register_schema,
     .reply = &beat_reply,
     .help = "Describe the node, which is ready from then on."},
    {.method = METHOD_POST,
     .path = "node/beat",
     .handler = beat,
     .outside = note_beat,
     .of_dialect = &own_row,
     .place = PLACE_ACTIVE,
     .feature = SCHEDULER_FEATURE,
     .reply = &beat_reply,
     .help = "Say that the node lives; the reply says when to do so again."},
    {.method = METHOD_GET,
     .path = "node/allocations",
     .handler = work,
     .of_dialect = &own_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .shape = "[obj]", /* as allocation/:id */
     .help = "The allocations that the node shall run or stop."},
    {.method = METHOD_POST,
     .path = "node/status",
     .handler = sched_agent_report,
     .of_dialect = &own_row,
     .feature = SCHEDULER_FEATURE,
     .body = &node_report_schema,
     .help = "Report the state of allocations of the node."},
    {.method = METHOD_GET,
     .path = "node/link",
     .handler = open_link,
     .of_dialect = &link_row,
     .place = PLACE_STAYS,
     .feature = SCHEDULER_FEATURE,
     .help = "The WebSocket over which the server calls the node."},
    {.method = METHOD_GET,
     .path = "node/session/:session",
     .handler = open_link,
     .of_dialect = &link_row,
     .place = PLACE_STAYS,
     .feature = SCHEDULER_FEATURE,
     .help = "The node's side of a session that the server asked for over the link."},
};
const struct route_table sched_agent_table = {agent_routes, ARRAY_LEN(agent_routes)};
