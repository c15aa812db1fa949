/* Evaluations and the list of nodes (B8, B9). */
#include "api/scheduler/sched_show.h"
#include "api/scheduler/scheduler.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"

static enum status find_eval(struct req *req, struct sched_eval *ret_eval)
{
    const char *id = req_param(req, "id");
    enum status st =
        strlen(id) == SCHED_UUID_LEN ? sched_eval_load(req->txn, id, ret_eval) : ST_NOT_FOUND;
    return st == ST_NOT_FOUND ? req_fail(req, st, "eval not found") : st;
}

static enum status read_eval(struct req *req)
{
    struct sched_eval eval;
    struct bytes key;
    TRY(sched_key(req->arena, "sched-eval", req_param(req, "id"), NULL, &key));
    TRY(req_watch_key(req, key));
    TRY(find_eval(req, &eval));
    struct text_writer w = req_reply_begin(req);
    sched_show_eval(&eval, &w);
    return req_reply_end(req);
}

/* The allocations that an evaluation placed. */
static enum status list_placed(struct req *req)
{
    struct sched_eval eval;
    struct sched_ids ids;
    TRY(find_eval(req, &eval));
    TRY(sched_ids_of(req->txn, "sched-job-alloc", eval.job, &ids));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_alloc alloc;
        const struct sched_stub how = {.states = true, .job_type = eval.type};
        TRY(sched_alloc_load(req->txn, ids.items[i], &alloc));
        if (strcmp(alloc.plan.eval, eval.id) != 0)
            continue;
        sched_show_stub(&alloc, &how, &w);
        text_close(&w);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status list_evals(struct req *req)
{
    struct sched_ids ids;
    struct bytes prefix;
    TRY(sched_key(req->arena, "sched-eval", "", NULL, &prefix));
    TRY(req_watch_prefix(req, prefix));
    TRY(sched_ids_of(req->txn, "sched-eval", "", &ids));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_eval eval;
        TRY(sched_eval_load(req->txn, ids.items[i], &eval));
        sched_show_eval(&eval, &w);
    }
    text_close(&w);
    return req_reply_end(req);
}

/* Nodes */

static enum status list_nodes(struct req *req)
{
    struct bytes prefix, begin = scheduler_parameter(req, "prefix");
    struct sched_ids ids;
    for (unsigned i = 0; i < 2; i++) {
        TRY(sched_key(req->arena, i == 0 ? "sched-node" : "sched-node-now", "", NULL, &prefix));
        TRY(req_watch_prefix(req, prefix));
    }
    TRY(sched_ids_of(req->txn, "sched-node", "", &ids));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_node node;
        if (!bytes_has_prefix(bytes_str(ids.items[i]), begin))
            continue;
        TRY(sched_node_load(req->txn, ids.items[i], &node));
        sched_show_node(&node, false, &w);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status read_node(struct req *req)
{
    const char *id = req_param(req, "id");
    struct sched_node node;
    struct bytes key;
    TRY(sched_key(req->arena, "sched-node-now", id, NULL, &key));
    TRY(req_watch_key(req, key));
    enum status st = sched_node_load(req->txn, id, &node);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "node not found");
    TRY(st);
    struct text_writer w = req_reply_begin(req);
    sched_show_node(&node, true, &w);
    return req_reply_end(req);
}

static enum status list_on_node(struct req *req)
{
    return sched_allocs_of(req, "sched-node-alloc", req_param(req, "id"));
}

struct eligibility_in {
    const char *eligibility;
};
static const struct field eligibility_fields[] = {
    FIELD_NAMED("Eligibility", struct eligibility_in, eligibility, STRING, .preset = "",
                .help = "eligible or ineligible."),
};
static const struct schema eligibility_schema = {.fields = eligibility_fields,
                                                 .n = ARRAY_LEN(eligibility_fields),
                                                 .size = sizeof(struct eligibility_in),
                                                 .fold_case = true,
                                                 .typed = true};

static enum status set_eligibility(struct req *req)
{
    const struct eligibility_in *in = req_body(req);
    struct sched_node node;
    bool ineligible = strcmp(in->eligibility, "ineligible") == 0;
    if (!ineligible && strcmp(in->eligibility, "eligible") != 0)
        return req_fail(req, ST_INVALID, "invalid scheduling eligibility \"%.32s\"",
                        in->eligibility);
    enum status st = sched_node_load(req->txn, req_param(req, "id"), &node);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "node not found");
    TRY(st);
    node.ineligible = ineligible;
    TRY(sched_node_now_put(req->txn, &node));
    if (!ineligible)
        TRY(sched_unblock(req->txn, req->now_ms));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "EvalIDs");
    text_put_raw(&w, BYTES("[]"));
    text_key(&w, "NodeModifyIndex");
    text_put_raw(&w, BYTES("\001"));
    text_member_int(&w, "EvalCreateIndex", 0);
    text_key(&w, "Index");
    text_put_raw(&w, BYTES("\001"));
    text_close(&w);
    return req_reply_end(req);
}

/* Rows */

static const struct scheduler_row eval_row = {.permission = "namespace:read-job",
                                              .caps = SCHEDULER_READ_JOB};
static const struct scheduler_row evals_row = {
    .permission = "namespace:read-job", .caps = SCHEDULER_READ_JOB, .collection = true};
static const struct scheduler_row node_row = {
    .permission = "node:read", .caps = SCHEDULER_NODE_READ, .any_namespace = true};
static const struct scheduler_row node_write_row = {
    .permission = "node:write", .caps = SCHEDULER_NODE_WRITE, .any_namespace = true};

#define READ_ROW(path_, handler_, row_, index_, shape_, help_)                              \
    {                                                                                       \
        .method = METHOD_GET, .path = (path_), .handler = (handler_), .of_dialect = (row_), \
        .index = (index_), .feature = SCHEDULER_FEATURE, .shape = (shape_),                 \
        /* parts are JSON that was stored */ .help = (help_)                                \
    }
static const struct route evals_routes[] = {
    READ_ROW("", list_evals, &evals_row, INDEX_BLOCKS, "[obj]", "List evaluations."),
};
const struct route_table sched_evals_table = {evals_routes, ARRAY_LEN(evals_routes)};

static const struct route eval_routes[] = {
    READ_ROW(":id", read_eval, &eval_row, INDEX_BLOCKS, "obj", "Read an evaluation."),
    READ_ROW(":id/allocations", list_placed, &eval_row, INDEX_NONE, "[obj]",
             "List the allocations that an evaluation placed."),
};
const struct route_table sched_eval_table = {eval_routes, ARRAY_LEN(eval_routes)};

static const struct route nodes_routes[] = {
    READ_ROW("", list_nodes, &node_row, INDEX_BLOCKS, "[obj]", "List nodes."),
};
const struct route_table sched_nodes_table = {nodes_routes, ARRAY_LEN(nodes_routes)};

static const struct route node_routes[] = {
    READ_ROW(":id", read_node, &node_row, INDEX_BLOCKS, "obj", "Read a node."),
    {.method = METHOD_GET,
     .path = ":id/allocations",
     .handler = list_on_node,
     .of_dialect = &node_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .body = &sched_list_schema,
     .shape = "[obj]", /* as allocations */
     .help = "List the allocations on a node."},
    {.method = METHOD_POST,
     .path = ":id/eligibility",
     .handler = set_eligibility,
     .of_dialect = &node_write_row,
     .index = INDEX_VERSION,
     .feature = SCHEDULER_FEATURE,
     .body = &eligibility_schema,
     .shape = "{EvalIDs:[str] NodeModifyIndex:int EvalCreateIndex:int Index:int}",
     .help = "Let a node take new allocations, or not."},
};
const struct route_table sched_node_table = {node_routes, ARRAY_LEN(node_routes)};
