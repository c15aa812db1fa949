/* Plans and applies: shown, with their logs and the documents of plans. */
#include "api/platform/platform.h"
#include "api/platform/platform_log.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"
#include "api/platform/platform_signed.h"
#include "state/blob.h"

enum { LOG_LIMIT_MAX = 64 * 1024 };

#define COUNT(name_)                                                                         \
    {                                                                                        \
        .name = (name_), .value = PLATFORM_NUMBER, .traits = PLATFORM_SHOWN | PLATFORM_NULL, \
        .preset = "0"                                                                        \
    }
#define PHASE_STATUS                                                                  \
    {.name = "status", .traits = PLATFORM_SHOWN, .preset = "\"pending\""},            \
    {                                                                                 \
        .name = "status-timestamps", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, \
        .preset = "{}"                                                                \
    }

static const struct platform_attr plan_attrs[] = {
    PHASE_STATUS,
    {.name = "has-changes", .value = PLATFORM_FLAG, .traits = PLATFORM_SHOWN, .preset = "false"},
    {.name = "generated-configuration",
     .value = PLATFORM_FLAG,
     .traits = PLATFORM_SHOWN,
     .preset = "false"},
    COUNT("resource-additions"),
    COUNT("resource-changes"),
    COUNT("resource-destructions"),
    COUNT("resource-imports"),
};
const struct platform_kind platform_plan_kind = {.type = "plans",
                                                 .prefix = "plan-",
                                                 .noun = "plan",
                                                 .attrs = plan_attrs,
                                                 .n = ARRAY_LEN(plan_attrs)};

static const struct platform_attr apply_attrs[] = {
    PHASE_STATUS,
    COUNT("resource-additions"),
    COUNT("resource-changes"),
    COUNT("resource-destructions"),
    COUNT("resource-imports"),
};
const struct platform_kind platform_apply_kind = {.type = "applies",
                                                  .prefix = "apply-",
                                                  .noun = "apply",
                                                  .attrs = apply_attrs,
                                                  .n = ARRAY_LEN(apply_attrs)};

static enum status show_phase_more(struct platform_view *view, const struct platform_object *object)
{
    const char *url;
    TRY(platform_signed_log(view->req, object->id, &url));
    text_member_str(view->w, "log-read-url", url);
    text_key(view->w, "actions");
    text_open_object(view->w);
    text_close(view->w);
    text_key(view->w, "permissions");
    text_open_object(view->w);
    text_close(view->w);
    return ST_OK;
}

static enum status show_phase_relations(struct platform_view *view,
                                        const struct platform_object *object)
{
    platform_put_one(view, "run", "runs", object->parent);
    platform_put_many(view, "state-versions");
    if (platform_text(object->links, "state")[0] != '\0')
        platform_put_item(view, "state-versions", platform_text(object->links, "state"));
    platform_put_many_end(view);
    return ST_OK;
}

const struct platform_resource platform_plan = {.kind = &platform_plan_kind,
                                                .path = "plans/",
                                                .more = show_phase_more,
                                                .relations = show_phase_relations};
const struct platform_resource platform_apply = {.kind = &platform_apply_kind,
                                                 .path = "applies/",
                                                 .more = show_phase_more,
                                                 .relations = show_phase_relations};

/* The phase of the path: by its id, or by that of its run. */
static enum status find_phase(struct req *req, struct platform_who *who, bool plan, unsigned rights,
                              struct platform_object *ret_phase)
{
    struct platform_object run;
    struct platform_place place;
    const char *id = req_param(req, "id"), *type = plan ? "plans" : "applies";
    TRY(platform_who(req, who));
    if (bytes_has_prefix(req->path, BYTES("runs/"))) {
        TRY(platform_object_load(req->txn, "runs", id, &run));
        id = platform_text(run.links, plan ? "plan" : "apply");
    }
    TRY(platform_object_load(req->txn, type, id, ret_phase));
    TRY(platform_object_load(req->txn, "runs", ret_phase->parent, &run));
    return platform_ws_find(req, who, run.parent, rights, &place);
}

static enum status plan_read(struct req *req)
{
    struct platform_who who;
    struct platform_object plan;
    TRY(find_phase(req, &who, true, PLATFORM_WS_SEE, &plan));
    return platform_reply_one(req, &who, &platform_plan, &plan, 0);
}

static enum status apply_read(struct req *req)
{
    struct platform_who who;
    struct platform_object apply;
    TRY(find_phase(req, &who, false, PLATFORM_WS_SEE, &apply));
    return platform_reply_one(req, &who, &platform_apply, &apply, 0);
}

/* The documents of a plan: absent ones are 204. The whole plan has what the state has; the redacted
 * form and the schema have no sensitive value. */
static enum status reply_document(struct req *req, const char *link, unsigned rights)
{
    struct platform_who who;
    struct platform_object plan;
    struct bytes content;
    TRY(find_phase(req, &who, true, rights, &plan));
    const char *blob = platform_text(plan.links, link);
    if (blob[0] == '\0')
        return ST_OK;
    TRY(blob_read(req->txn, blob, &content));
    return req_reply_raw(req, "application/json", content);
}

static enum status plan_json(struct req *req)
{
    return reply_document(req, "json-output", PLATFORM_WS_SEE | PLATFORM_WS_ADMIN);
}

static enum status plan_redacted(struct req *req)
{
    return reply_document(req, "json-output-redacted", PLATFORM_WS_SEE);
}

static enum status plan_schema(struct req *req)
{
    return reply_document(req, "json-schema", PLATFORM_WS_SEE);
}

/* Logs */

static enum status read_log_number(struct req *req, const char *name, int64_t most, int64_t *ret_n)
{
    const char *text = platform_parameter(req, name);
    *ret_n = most;
    if (text[0] == '\0')
        return ST_OK;
    if (strlen(text) > 18 || text_int_parse(bytes_str(text), ret_n) != ST_OK || *ret_n < 0)
        return req_fail(req, ST_INVALID, "%s: a whole number is expected", name);
    return ST_OK;
}

static enum status log_read(struct req *req)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct platform_object phase, run, ws;
    int64_t limit, offset = 0;
    const char *id = req_param(req, "id");
    TRY(platform_signed_log_check(req, id, req_param(req, "key")));
    TRY(platform_object_load(req->txn, NULL, id, &phase));
    TRY(platform_object_load(req->txn, "runs", phase.parent, &run));
    TRY(platform_object_load(req->txn, "workspaces", run.parent, &ws));
    TRY(read_log_number(req, "limit", LOG_LIMIT_MAX, &limit));
    if (platform_parameter(req, "offset")[0] != '\0')
        TRY(read_log_number(req, "offset", 0, &offset));
    TRY(platform_log_read(req->txn, id, (uint64_t)offset,
                          (size_t)MIN(limit, (int64_t)LOG_LIMIT_MAX), &out));
    return req_reply_raw(req, "text/plain; charset=utf-8", buf_bytes(&out));
}

static const struct platform_row plan_shown = {&platform_plan_kind, PLATFORM_ONE, "workspace: see",
                                               false, false},
                                 apply_shown = {&platform_apply_kind, PLATFORM_ONE,
                                                "workspace: see", false, false},
                                 redacted = {NULL, PLATFORM_NOTHING, "workspace: see", false,
                                             false},
                                 whole = {NULL, PLATFORM_NOTHING, "workspace: admin", false, false};

/* JSON of the tool, as the worker sent it; 204 while absent. */
#define DOCUMENT(path_, handler_, row_, help_) \
    PLATFORM_RAW(path_, handler_, WHO_ANY_TOKEN, &(row_), .statuses = "200 204", .help = (help_))

static const struct route phase_routes[] = {
    PLATFORM_GET("plans/:id", plan_read, plan_shown, "A plan."),
    PLATFORM_GET("runs/:id/plan", plan_read, plan_shown, "The plan of a run."),
    PLATFORM_GET("applies/:id", apply_read, apply_shown, "An apply."),
    PLATFORM_GET("runs/:id/apply", apply_read, apply_shown, "The apply of a run."),
    DOCUMENT("plans/:id/json-output", plan_json, whole, "The plan as JSON; 204 while absent."),
    DOCUMENT("runs/:id/plan/json-output", plan_json, whole,
             "The plan of a run as JSON; 204 while absent."),
    DOCUMENT("plans/:id/json-output-redacted", plan_redacted, redacted,
             "The plan as JSON without sensitive values; 204 while absent."),
    DOCUMENT("plans/:id/json-schema", plan_schema, redacted,
             "The schemas of the providers of a plan; 204 while absent."),
    PLATFORM_RAW("logs/:id/:key", log_read, WHO_ANYONE, NULL,
                 .help = "The log of a plan or apply from `offset` on, at most `limit` bytes; the "
                         "path is signed."),
};
const struct route_table platform_phase_table = {phase_routes, ARRAY_LEN(phase_routes)};
