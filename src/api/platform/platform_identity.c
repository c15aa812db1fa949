/* Identity tokens: by them outside services know which phase of which run asks. One for a phase,
 * and only if the workspace has the variable of the audience. Source: spec/platform.md 6, oidc. */
#include "api/platform/platform_worker.h"
#include "text/random.h"

struct names {
    struct platform_object org, project;
    const char *phase;
};

static enum status load_names(struct req *req, const struct platform_flow *flow, bool plan,
                              struct names *ret_names)
{
    ret_names->phase = plan ? "plan" : "apply";
    TRY(platform_object_load(req->txn, "organizations", flow->ws.parent, &ret_names->org));
    enum status st = platform_object_load(
        req->txn, "projects", platform_text(flow->ws.links, "project"), &ret_names->project);
    if (st == ST_NOT_FOUND)
        ret_names->project = (struct platform_object){.id = "", .name = ""};
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static void put_run(struct text_writer *w, const struct platform_flow *flow,
                    const struct names *names, const char *full)
{
    text_member_str(w, "terraform_organization_id", names->org.id);
    text_member_str(w, "terraform_organization_name", names->org.name);
    text_member_str(w, "terraform_project_id", names->project.id);
    text_member_str(w, "terraform_project_name", names->project.name);
    text_member_str(w, "terraform_workspace_id", flow->ws.id);
    text_member_str(w, "terraform_workspace_name", flow->ws.name);
    text_member_str(w, "terraform_full_workspace", full);
    text_member_str(w, "terraform_run_id", flow->run.id);
    text_member_str(w, "terraform_run_phase", names->phase);
}

enum status platform_identity_make(struct req *req, const struct platform_flow *flow, bool plan,
                                   const char *audience, const char **ret_token)
{
    CLEANUP(buf_done) struct buf claims = {0};
    struct text_writer w = {.out = &claims, .plain = true};
    char uuid[TEXT_UUID_LEN + 1];
    struct names names;
    const char *base;
    int64_t timeout_s, now_s = req->now_ms / 1000;
    *ret_token = NULL;
    TRY(load_names(req, flow, plan, &names));
    TRY(platform_base_url(req, &base));
    TRY(platform_job_timeout(req->txn, flow, plan, &timeout_s));
    const char *full = arena_format(req->arena, "organization:%s:project:%s:workspace:%s",
                                    names.org.name, names.project.name, flow->ws.name);
    const char *subject =
        full != NULL ? arena_format(req->arena, "%s:run_phase:%s", full, names.phase) : NULL;
    if (subject == NULL)
        return ST_NOMEM;
    text_uuid(req->env, uuid);
    text_open_object(&w);
    text_member_str(&w, "jti", uuid);
    text_member_str(&w, "iss", base);
    text_member_str(&w, "aud", audience);
    text_member_int(&w, "iat", now_s);
    text_member_int(&w, "nbf", now_s - 5);
    text_member_int(&w, "exp", now_s + timeout_s);
    text_member_str(&w, "sub", subject);
    put_run(&w, flow, &names, full);
    text_close(&w);
    TRY(buf_status(&claims));
    enum status st = platform_identity_sign(req->txn, buf_bytes(&claims), ret_token);
    return st == ST_NOT_FOUND
               ? req_fail(req, ST_BUSY, "the first signing key is being made: try again")
               : st;
}
