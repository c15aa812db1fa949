/* The job of a worker: what a phase needs; and the files of a plan that a worker sends. */
#include "api/platform/platform.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_signed.h"
#include "api/platform/platform_upload.h"
#include "api/platform/platform_worker.h"
#include "text/duration.h"

/* Timeouts: of the organization, or of the site. */

enum status platform_job_timeout(struct state_txn *txn, const struct platform_flow *flow, bool plan,
                                 int64_t *ret_s)
{
    struct platform_object org, general;
    const char *name = plan ? "plan-timeout" : "apply-timeout";
    TRY(platform_object_load(txn, "organizations", flow->ws.parent, &org));
    TRY(platform_settings_load(txn, "general", &general));
    const char *own = platform_text(org.attrs, name);
    const char *text = own[0] != '\0' ? own : platform_text(general.attrs, name);
    if (text[0] == '\0' || text_seconds_parse(bytes_str(text), ret_s) != ST_OK || *ret_s <= 0)
        *ret_s = plan ? 2 * 3600 : 24 * 3600; /* the setting is checked when it is stored */
    *ret_s = MIN(*ret_s, INT64_C(30) * 24 * 3600);
    return ST_OK;
}

/* Variables: one of each category and key. */

static void put_variable(struct text_writer *w, const char *key, const struct text_value *value,
                         const char *category, bool hcl, bool sensitive)
{
    text_open_object(w);
    text_member_str(w, "key", key);
    text_key(w, "value");
    if (value != NULL && value->kind == TEXT_STRING)
        text_put_value(w, value);
    else
        text_put_str(w, "");
    text_member_str(w, "category", category);
    text_member_bool(w, "hcl", hcl);
    text_member_bool(w, "sensitive", sensitive);
    text_close(w);
}

/* Whether the run has a variable of this key from `from` on. */
static bool run_has(const struct text_value *from, const char *key)
{
    for (const struct text_value *v = from; v != NULL; v = v->next)
        if (strcmp(platform_text(v, "key"), key) == 0)
            return true;
    return false;
}

static enum status put_variables(struct req *req, const struct platform_flow *flow,
                                 struct text_writer *w)
{
    struct platform_objects vars;
    const struct text_value *own = text_get(flow->run.attrs, "variables");
    const struct text_value *first = own != NULL && own->kind == TEXT_LIST ? own->first : NULL;
    TRY(platform_object_children(req->txn, flow->ws.id, "vars", &vars));
    text_key(w, "variables");
    text_open_list(w);
    for (size_t i = 0; i < vars.n; i++) {
        const struct text_value *attrs = vars.items[i].attrs;
        const char *key = platform_text(attrs, "key"), *category = platform_text(attrs, "category");
        if (strcmp(category, "terraform") == 0 && run_has(first, key))
            continue;
        put_variable(w, key, text_get(attrs, "value"), category, platform_flag(attrs, "hcl"),
                     platform_flag(attrs, "sensitive"));
    }
    for (const struct text_value *v = first; v != NULL; v = v->next)
        if (!run_has(v->next, platform_text(v, "key"))) /* the last of a key counts */
            put_variable(w, platform_text(v, "key"), text_get(v, "value"), "terraform", true,
                         false);
    text_close(w);
    return ST_OK;
}

static enum status put_state(struct req *req, const struct platform_flow *flow,
                             struct text_writer *w)
{
    struct platform_object state;
    const char *url;
    text_key(w, "state");
    enum status st = platform_state_current(req->txn, &flow->ws, &state);
    if (st == ST_NOT_FOUND) {
        text_put_null(w);
        return ST_OK;
    }
    TRY(st);
    TRY(platform_signed_url(req, "GET", state.id, "state", &url));
    text_open_object(w);
    text_member_str(w, "id", state.id);
    text_member_str(w, "download_url", url);
    text_member_int(w, "serial", platform_number(state.attrs, "serial"));
    text_member_str(w, "lineage", platform_text(state.links, "lineage"));
    text_member_str(w, "md5", platform_text(state.attrs, "md5"));
    text_close(w);
    return ST_OK;
}

/* The version of the tool, and where it is, if the site says so. */
static enum status put_tool(struct req *req, const struct platform_flow *flow, bool plan,
                            struct text_writer *w)
{
    struct platform_objects versions;
    const char *own = platform_text(flow->run.attrs, "terraform-version");
    const char *wanted = !plan ? platform_text(flow->run.links, "tool-version")
                         : own[0] != '\0' ? own
                                          : platform_text(flow->ws.attrs, "terraform-version");
    text_member_str(w, "tool", plan ? "" : platform_text(flow->run.links, "tool"));
    text_member_str(w, "tool_version", wanted);
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "terraform-versions", &versions));
    text_key(w, "tool_download");
    for (size_t i = 0; i < versions.n; i++) {
        const struct text_value *attrs = versions.items[i].attrs;
        if (strcmp(platform_text(attrs, "version"), wanted) != 0 ||
            !platform_flag(attrs, "enabled") || platform_text(attrs, "url")[0] == '\0')
            continue;
        text_open_object(w);
        text_member_str(w, "url", platform_text(attrs, "url"));
        text_member_str(w, "sha256", platform_text(attrs, "sha"));
        text_close(w);
        return ST_OK;
    }
    text_put_null(w);
    return ST_OK;
}

static enum status put_names(struct req *req, const struct platform_flow *flow,
                             struct text_writer *w)
{
    struct platform_object org, project;
    TRY(platform_object_load(req->txn, "organizations", flow->ws.parent, &org));
    enum status st = platform_object_load(req->txn, "projects",
                                          platform_text(flow->ws.links, "project"), &project);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    text_member_str(w, "run_id", flow->run.id);
    text_member_str(w, "run_message", platform_text(flow->run.attrs, "message"));
    text_member_str(w, "organization", org.name);
    text_member_str(w, "project", st == ST_OK ? project.name : "");
    text_member_str(w, "workspace_id", flow->ws.id);
    text_member_str(w, "workspace", flow->ws.name);
    text_member_str(w, "working_directory", platform_text(flow->ws.attrs, "working-directory"));
    return ST_OK;
}

static void put_flags(const struct platform_flow *flow, struct text_writer *w)
{
    static const struct {
        const char *name, *attr;
    } flags[] = {
        {"is_destroy", "is-destroy"},
        {"refresh", "refresh"},
        {"refresh_only", "refresh-only"},
        {"plan_only", "plan-only"},
        {"save_plan", "save-plan"},
        {"allow_empty_apply", "allow-empty-apply"},
        {"allow_config_generation", "allow-config-generation"},
        {"debugging_mode", "debugging-mode"},
    };
    static const struct {
        const char *name, *attr;
    } lists[] = {{"target_addrs", "target-addrs"}, {"replace_addrs", "replace-addrs"}};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        text_member_bool(w, flags[i].name, platform_flag(flow->run.attrs, flags[i].attr));
    text_member_bool(w, "structured_output",
                     platform_flag(flow->ws.attrs, "structured-run-output-enabled"));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        text_key(w, lists[i].name);
        text_put_value(w, text_get(flow->run.attrs, lists[i].attr));
    }
}

static enum status put_files(struct req *req, const struct platform_flow *flow, bool plan,
                             struct text_writer *w)
{
    const char *url, *config = platform_text(flow->run.links, "cv");
    TRY(platform_signed_url(req, "GET", config, "configuration", &url));
    text_member_str(w, "configuration_version_id", config);
    text_member_str(w, "configuration_url", url);
    url = NULL;
    if (!plan)
        TRY(platform_signed_url(req, "GET", flow->plan.id, "plan-file", &url));
    text_member_str(w, "plan_file_url", url);
    return ST_OK;
}

enum status platform_job_reply(struct req *req, const struct platform_flow *flow,
                               const struct platform_object *phase, const char *run_token)
{
    bool plan = phase == &flow->plan;
    int64_t timeout_s;
    TRY(platform_job_timeout(req->txn, flow, plan, &timeout_s));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "id", phase->id);
    text_member_str(&w, "phase", plan ? "plan" : "apply");
    text_member_str(&w, "claim", platform_text(phase->links, "claim"));
    text_member_str(&w, "agent_id", platform_text(phase->links, "agent"));
    text_member_int(&w, "lease_s", PLATFORM_LEASE_MS / 1000);
    text_member_int(&w, "renew_s", PLATFORM_RENEW_S);
    text_member_int(&w, "timeout_s", timeout_s);
    TRY(put_names(req, flow, &w));
    put_flags(flow, &w);
    TRY(put_tool(req, flow, plan, &w));
    TRY(put_files(req, flow, plan, &w));
    TRY(put_variables(req, flow, &w));
    TRY(put_state(req, flow, &w));
    text_member_str(&w, "run_token", run_token);
    text_member_null(&w, "identity_token");
    text_close(&w);
    return req_reply_end(req);
}

/* Files of a plan */

static const char *const files[] = {"plan-file", "json-output", "json-output-redacted",
                                    "json-schema"};

struct job_upload {
    struct platform_upload upload;
    const char *what, *claim;
};

/* The plan that the agent has claimed, and the file of the path. */
static enum status find_plan(struct req *req, const char *claim, struct platform_flow *ret_flow,
                             const char **ret_what)
{
    struct platform_object *phase;
    *ret_what = NULL;
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (strcmp(req_param(req, "what"), files[i]) == 0)
            *ret_what = files[i];
    TRY(platform_worker_phase(req, claim, ret_flow, &phase));
    if (*ret_what == NULL)
        return ST_NOT_FOUND;
    return phase == &ret_flow->plan
               ? ST_OK
               : req_fail(req, ST_REFUSED, "an apply has no files: its state is stored by the API "
                                           "of states");
}

static enum status file_upload(struct req *req)
{
    struct platform_flow flow;
    struct job_upload *upload = arena_zalloc(req->arena, sizeof *upload);
    if (upload == NULL)
        return ST_NOMEM;
    upload->claim = arena_str(req->arena, bytes_str(platform_parameter(req, "claim")));
    if (upload->claim == NULL)
        return ST_NOMEM;
    TRY(find_plan(req, upload->claim, &flow, &upload->what));
    TRY(platform_upload_room(req));
    req->prepared = upload;
    return ST_OK;
}

static enum status file_upload_outside(struct req *req)
{
    struct job_upload *upload = req->prepared;
    TRY(platform_upload_read(req, &upload->upload));
    return upload->upload.raw.len != 0
               ? ST_OK
               : req_fail(req, ST_REFUSED, "the file is empty");
}

static enum status file_upload_finish(struct req *req)
{
    struct job_upload *upload = req->prepared;
    struct platform_flow flow;
    bool done;
    TRY(platform_upload_turn(req, &upload->upload, &done));
    if (!done)
        return ST_OK;
    TRY(find_plan(req, upload->claim, &flow, &upload->what));
    const char *former = platform_text(flow.plan.links, upload->what);
    if (former[0] != '\0')
        TRY(blob_delete(req->txn, former));
    TRY(platform_set_text(req->arena, flow.plan.links, upload->what, upload->upload.blob));
    return platform_object_put(req->txn, "", &flow.plan);
}

/* For the worker that applies; the URL is part of its job. */
static enum status plan_file_download(struct req *req)
{
    struct platform_object plan;
    struct bytes content;
    const char *id = req_param(req, "id");
    TRY(platform_signed_check(req, id, "plan-file"));
    TRY(platform_object_load(req->txn, "plans", id, &plan));
    TRY(blob_read(req->txn, platform_text(plan.links, "plan-file"), &content));
    return req_reply_raw(req, "application/octet-stream", content);
}

static const struct platform_row of_worker = {NULL, PLATFORM_NOTHING, "agent pool", false, false};

static const struct route job_routes[] = {
    {.method = METHOD_PUT,
     .path = "worker/agents/:agent/jobs/:job/files/:what",
     .handler = file_upload,
     .outside = file_upload_outside,
     .finish = file_upload_finish,
     .who = WHO_ANY_TOKEN,
     .of_dialect = &of_worker,
     .input = INPUT_UPLOAD,
     .upload_bytes_max = platform_upload_max,
     .flags = ROUTE_LONG,
     .feature = PLATFORM_RUNS_FEATURE,
     .help = "Send a file of a plan: plan-file, json-output, json-output-redacted or json-schema; "
             "`claim` is in the query."},
    {.method = METHOD_GET,
     .path = "blobs/:id/plan-file",
     .handler = plan_file_download,
     .who = WHO_ANYONE,
     .shape = "bytes",
     .help = "The file of a plan for the worker that applies; the URL is signed."},
};
const struct route_table platform_job_table = {job_routes, ARRAY_LEN(job_routes)};
