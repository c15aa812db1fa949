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

/* The job */

struct worker_variable {
    const char *key, *value, *category;
    bool hcl, sensitive;
};
static const struct field variable_fields[] = {
    FIELD(struct worker_variable, key, STRING),
    FIELD(struct worker_variable, value, STRING, .hidden = true),
    FIELD(struct worker_variable, category, STRING, .help = "terraform or env."),
    FIELD(struct worker_variable, hcl, BOOL, .help = "The value is a literal of the language."),
    FIELD(struct worker_variable, sensitive, BOOL),
};
static const struct schema variable_schema = SCHEMA(struct worker_variable, variable_fields);

struct worker_state {
    const char *id, *download_url, *lineage, *md5;
    int64_t serial;
};
static const struct field state_fields[] = {
    FIELD(struct worker_state, id, STRING),  FIELD(struct worker_state, download_url, STRING),
    FIELD(struct worker_state, serial, INT), FIELD(struct worker_state, lineage, STRING),
    FIELD(struct worker_state, md5, STRING),
};
static const struct schema state_schema = SCHEMA(struct worker_state, state_fields);

struct worker_download {
    const char *url, *sha256;
};
static const struct field download_fields[] = {
    FIELD(struct worker_download, url, STRING),
    FIELD(struct worker_download, sha256, STRING),
};
static const struct schema download_schema = SCHEMA(struct worker_download, download_fields);

struct worker_job {
    const char *id, *phase, *claim, *agent_id, *run_id, *run_message, *organization, *project;
    const char *workspace_id, *workspace, *working_directory, *tool, *tool_version;
    const char *configuration_version_id, *configuration_url, *plan_file_url;
    const char *run_token, *identity_token;
    int64_t lease_s, renew_s, timeout_s;
    bool is_destroy, refresh, refresh_only, plan_only, save_plan, allow_empty_apply;
    bool allow_config_generation, debugging_mode, structured_output;
    struct field_strings target_addrs, replace_addrs;
    const void *tool_download, *state;
    struct field_list variables;
};
#define JOB_FIELD(member, kind, ...) FIELD(struct worker_job, member, kind, __VA_ARGS__)
static const struct field job_fields[] = {
    JOB_FIELD(id, STRING),
    JOB_FIELD(phase, STRING, .help = "plan or apply."),
    JOB_FIELD(claim, STRING, .hidden = true),
    JOB_FIELD(agent_id, STRING),
    JOB_FIELD(lease_s, INT),
    JOB_FIELD(renew_s, INT),
    JOB_FIELD(timeout_s, INT, .help = "After it the phase is interrupted."),
    JOB_FIELD(run_id, STRING),
    JOB_FIELD(run_message, STRING),
    JOB_FIELD(organization, STRING),
    JOB_FIELD(project, STRING),
    JOB_FIELD(workspace_id, STRING),
    JOB_FIELD(workspace, STRING),
    JOB_FIELD(working_directory, STRING),
    JOB_FIELD(is_destroy, BOOL),
    JOB_FIELD(refresh, BOOL),
    JOB_FIELD(refresh_only, BOOL),
    JOB_FIELD(plan_only, BOOL),
    JOB_FIELD(save_plan, BOOL),
    JOB_FIELD(allow_empty_apply, BOOL),
    JOB_FIELD(allow_config_generation, BOOL),
    JOB_FIELD(debugging_mode, BOOL),
    JOB_FIELD(structured_output, BOOL),
    JOB_FIELD(target_addrs, STRINGS),
    JOB_FIELD(replace_addrs, STRINGS),
    JOB_FIELD(tool, STRING, .help = "Empty: the choice of the worker."),
    JOB_FIELD(tool_version, STRING),
    JOB_FIELD(tool_download, OBJECT, .sub = &download_schema, .omit = true),
    JOB_FIELD(configuration_version_id, STRING),
    JOB_FIELD(configuration_url, STRING),
    JOB_FIELD(plan_file_url, STRING, .null = true, .help = "Of an apply."),
    JOB_FIELD(variables, LIST, .sub = &variable_schema),
    JOB_FIELD(state, OBJECT, .sub = &state_schema, .omit = true),
    JOB_FIELD(run_token, STRING, .hidden = true),
    JOB_FIELD(identity_token, STRING, .null = true, .hidden = true),
};
const struct schema platform_job_schema = SCHEMA(struct worker_job, job_fields);

/* Whether the run has a variable of this key from `from` on. */
static bool run_has(const struct text_value *from, const char *key)
{
    for (const struct text_value *v = from; v != NULL; v = v->next)
        if (strcmp(platform_text(v, "key"), key) == 0)
            return true;
    return false;
}

/* Variables: one of each category and key, those of the run over those of the workspace. */
static enum status find_variables(struct req *req, const struct platform_flow *flow,
                                  struct worker_job *job)
{
    struct platform_objects vars;
    const struct text_value *own = text_get(flow->run.attrs, "variables");
    bool given = own != NULL && own->kind == TEXT_LIST;
    const struct text_value *first = given ? own->first : NULL;
    size_t n = 0;
    TRY(platform_object_children(req->txn, flow->ws.id, "vars", &vars));
    struct worker_variable *items =
        arena_alloc(req->arena, (vars.n + (given ? own->n : 0) + 1) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < vars.n; i++) {
        const struct text_value *attrs = vars.items[i].attrs;
        const char *key = platform_text(attrs, "key"), *category = platform_text(attrs, "category");
        if (strcmp(category, "terraform") == 0 && run_has(first, key))
            continue;
        items[n++] = (struct worker_variable){key, platform_text(attrs, "value"), category,
                                              platform_flag(attrs, "hcl"),
                                              platform_flag(attrs, "sensitive")};
    }
    for (const struct text_value *v = first; v != NULL; v = v->next)
        if (!run_has(v->next, platform_text(v, "key"))) /* the last of a key counts */
            items[n++] = (struct worker_variable){
                platform_text(v, "key"), platform_text(v, "value"), "terraform", true, false};
    job->variables = (struct field_list){items, n};
    return ST_OK;
}

static enum status find_state(struct req *req, const struct platform_flow *flow,
                              struct worker_job *job)
{
    struct platform_object state;
    struct worker_state *out = arena_zalloc(req->arena, sizeof *out);
    enum status st = platform_state_current(req->txn, &flow->ws, &state);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (out == NULL)
        return ST_NOMEM;
    TRY(platform_signed_url(req, "GET", state.id, "state", &out->download_url));
    out->id = state.id;
    out->serial = platform_number(state.attrs, "serial");
    out->lineage = platform_text(state.links, "lineage");
    out->md5 = platform_text(state.attrs, "md5");
    job->state = out;
    return ST_OK;
}

const char *platform_job_version(const struct platform_flow *flow, bool plan)
{
    const char *own = platform_text(flow->run.attrs, "terraform-version");
    return !plan            ? platform_text(flow->run.links, "tool-version")
           : own[0] != '\0' ? own
                            : platform_text(flow->ws.attrs, "terraform-version");
}

/* The version of the tool, and the place where it is, if the site says so. */
static enum status find_tool(struct req *req, const struct platform_flow *flow, bool plan,
                             struct worker_job *job)
{
    struct platform_objects versions;
    struct worker_download *out = arena_zalloc(req->arena, sizeof *out);
    job->tool = plan ? "" : platform_text(flow->run.links, "tool");
    job->tool_version = platform_job_version(flow, plan);
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "terraform-versions", &versions));
    if (out == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < versions.n && job->tool_download == NULL; i++) {
        const struct text_value *attrs = versions.items[i].attrs;
        if (strcmp(platform_text(attrs, "version"), job->tool_version) != 0 ||
            !platform_flag(attrs, "enabled") || platform_text(attrs, "url")[0] == '\0')
            continue;
        out->url = platform_text(attrs, "url");
        out->sha256 = platform_text(attrs, "sha");
        job->tool_download = out;
    }
    return ST_OK;
}

static enum status find_job_names(struct req *req, const struct platform_flow *flow,
                                  struct worker_job *job)
{
    struct platform_object org, project;
    TRY(platform_object_load(req->txn, "organizations", flow->ws.parent, &org));
    enum status st = platform_object_load(req->txn, "projects",
                                          platform_text(flow->ws.links, "project"), &project);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    job->run_id = flow->run.id;
    job->run_message = platform_text(flow->run.attrs, "message");
    job->organization = org.name;
    job->project = st == ST_OK ? project.name : "";
    job->workspace_id = flow->ws.id;
    job->workspace = flow->ws.name;
    job->working_directory = platform_text(flow->ws.attrs, "working-directory");
    return ST_OK;
}

static enum status find_texts(struct req *req, const struct text_value *list,
                              struct field_strings *ret_texts)
{
    size_t n = 0;
    bool given = list != NULL && list->kind == TEXT_LIST;
    const char **items = arena_alloc(req->arena, ((given ? list->n : 0) + 1) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    if (given)
        TEXT_FOR (v, list)
            items[n++] = (const char *)v->text.data;
    *ret_texts = (struct field_strings){items, n, true};
    return ST_OK;
}

static enum status find_wishes(struct req *req, const struct platform_flow *flow,
                               struct worker_job *job)
{
    const struct text_value *attrs = flow->run.attrs;
    job->is_destroy = platform_flag(attrs, "is-destroy");
    job->refresh = platform_flag(attrs, "refresh");
    job->refresh_only = platform_flag(attrs, "refresh-only");
    job->plan_only = platform_flag(attrs, "plan-only");
    job->save_plan = platform_flag(attrs, "save-plan");
    job->allow_empty_apply = platform_flag(attrs, "allow-empty-apply");
    job->allow_config_generation = platform_flag(attrs, "allow-config-generation");
    job->debugging_mode = platform_flag(attrs, "debugging-mode");
    job->structured_output = platform_flag(flow->ws.attrs, "structured-run-output-enabled");
    TRY(find_texts(req, text_get(attrs, "target-addrs"), &job->target_addrs));
    return find_texts(req, text_get(attrs, "replace-addrs"), &job->replace_addrs);
}

enum status platform_job_reply(struct req *req, const struct platform_flow *flow,
                               const struct platform_object *phase, const char *run_token)
{
    bool plan = phase == &flow->plan;
    struct worker_job job = {.id = phase->id,
                             .phase = plan ? "plan" : "apply",
                             .claim = platform_text(phase->links, "claim"),
                             .agent_id = platform_text(phase->links, "agent"),
                             .lease_s = platform_config()->run_lease_s,
                             .renew_s = platform_config()->run_lease_s / 3,
                             .configuration_version_id = platform_text(flow->run.links, "cv"),
                             .run_token = run_token};
    ASSERT(plan || phase == &flow->apply);
    TRY(platform_job_timeout(req->txn, flow, plan, &job.timeout_s));
    TRY(find_job_names(req, flow, &job));
    TRY(find_wishes(req, flow, &job));
    TRY(find_tool(req, flow, plan, &job));
    TRY(platform_signed_url(req, "GET", job.configuration_version_id, "configuration",
                            &job.configuration_url));
    if (!plan)
        TRY(platform_signed_url(req, "GET", flow->plan.id, "plan-file", &job.plan_file_url));
    TRY(find_variables(req, flow, &job));
    TRY(find_state(req, flow, &job));
    return req_reply(req, &job);
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
               : req_fail(req, ST_REFUSED,
                          "an apply has no files: its state is stored by the API "
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
    return upload->upload.raw.len != 0 ? ST_OK : req_fail(req, ST_REFUSED, "the file is empty");
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
    PLATFORM_RAW("blobs/:id/plan-file", plan_file_download, WHO_ANYONE, NULL,
                 .help = "The file of a plan for the worker that applies; the URL is signed."),
};
const struct route_table platform_job_table = {job_routes, ARRAY_LEN(job_routes)};
