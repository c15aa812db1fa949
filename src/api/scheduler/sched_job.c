/* Jobs: register, read, list, deregister, evaluate, and what belongs to one (B7). */
#include "api/scheduler/sched_show.h"
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"
#include "router/request/reply.h"

struct register_in {
    const struct text_value *job;
    bool enforce;
    int64_t modify_index;
};
static const struct field register_fields[] = {
    FIELD_NAMED("Job", struct register_in, job, VALUE, .help = "The job."),
    FIELD_NAMED("EnforceIndex", struct register_in, enforce, BOOL,
                .help = "Refuse unless JobModifyIndex is that of the stored job; 0: no job."),
    FIELD_NAMED("JobModifyIndex", struct register_in, modify_index, INT),
};
static const struct schema register_schema = {.fields = register_fields,
                                              .n = ARRAY_LEN(register_fields),
                                              .size = sizeof(struct register_in),
                                              .fold_case = true,
                                              .typed = true};

/* The job of the path: "ID", or "ID/word". */
static const char *job_of_path(struct req *req)
{
    const char *id = req_param(req, "job");
    size_t len = strlen(id);
    return len > 0 && id[len - 1] == '/' ? arena_str(req->arena, bytes_of(id, len - 1)) : id;
}

static enum status find_job(struct req *req, struct sched_job *ret_job)
{
    const char *id = job_of_path(req);
    if (id == NULL)
        return ST_NOMEM;
    enum status st = sched_job_load(req->txn, id, ret_job);
    return st == ST_NOT_FOUND ? req_fail(req, st, "job not found") : st;
}

static enum status watch_job(struct req *req)
{
    const char *id = job_of_path(req);
    struct bytes key;
    if (id == NULL)
        return ST_NOMEM;
    if (id[0] == '\0' || strlen(id) > SCHED_JOB_ID_MAX)
        return ST_OK;
    TRY(sched_key(req->arena, "sched-job", id, NULL, &key));
    return req_watch_key(req, key);
}

/* Counts of a job's allocations by client status. */
struct counts {
    const char *group; /* NULL: of the whole job */
    uint64_t by[SCHED_CLIENTS];
    uint64_t live;
};

/* Read each allocation of a job once, and count it in every one of `n` counts that it belongs to. */
static enum status count_job(struct state_txn *txn, const char *job, struct counts *counts,
                             size_t n)
{
    struct sched_ids ids;
    TRY(sched_ids_of(txn, "sched-job-alloc", job, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_alloc alloc;
        TRY(sched_alloc_load(txn, ids.items[i], &alloc));
        for (size_t k = 0; k < n; k++) {
            if (counts[k].group != NULL && strcmp(alloc.plan.group, counts[k].group) != 0)
                continue;
            counts[k].by[alloc.report.status]++;
            counts[k].live += !sched_client_ended(alloc.report.status);
        }
    }
    return ST_OK;
}

static enum status status_of_job(struct state_txn *txn, const struct sched_job *job,
                                 const char **ret_status)
{
    struct counts counts = {.group = NULL};
    struct sched_ids evals;
    *ret_status = "dead";
    if (job->stop)
        return ST_OK;
    TRY(count_job(txn, job->id, &counts, 1));
    *ret_status = "running";
    if (counts.live != 0)
        return ST_OK;
    *ret_status = "pending";
    for (unsigned kind = 0; kind < 2; kind++) {
        TRY(sched_ids_of(txn, kind == 0 ? "sched-queue" : "sched-blocked", "", &evals));
        for (size_t i = 0; i < evals.n; i++) {
            struct sched_eval eval;
            TRY(sched_eval_load(txn, evals.items[i], &eval));
            if (strcmp(eval.job, job->id) == 0)
                return ST_OK;
        }
    }
    *ret_status = "dead";
    return ST_OK;
}

static enum status reply_registered(struct req *req, const char *eval, uint64_t spec_modified)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "EvalID", eval);
    text_key(&w, "EvalCreateIndex");
    text_put_raw(&w, BYTES(REPLY_VERSION));
    text_key(&w, "JobModifyIndex");
    if (spec_modified != 0)
        text_put_uint(&w, spec_modified);
    else
        text_put_raw(&w, BYTES(REPLY_VERSION));
    text_member_str(&w, "Warnings", "");
    text_key(&w, "Index");
    text_put_raw(&w, BYTES(REPLY_VERSION));
    text_close(&w);
    return req_reply_end(req);
}

/* Whether two specifications are the same text. */
static enum status is_same(const struct text_value *a, const struct text_value *b, bool *ret_same)
{
    CLEANUP(buf_done) struct buf x = {0}, y = {0};
    struct text_writer w = {.out = &x, .plain = true}, v = {.out = &y, .plain = true};
    text_put_value(&w, a);
    text_put_value(&v, b);
    TRY(buf_status(&x));
    TRY(buf_status(&y));
    *ret_same = bytes_eq(buf_bytes(&x), buf_bytes(&y));
    return ST_OK;
}

static enum status check_index(struct req *req, const struct register_in *in,
                               const struct sched_job *old)
{
    uint64_t have = old != NULL ? old->spec_modified : 0;
    if (!in->enforce || (uint64_t)in->modify_index == have)
        return ST_OK;
    if (have == 0)
        return req_fail(req, ST_REFUSED, "Enforcing job modify index %lld: job does not exist",
                        (long long)in->modify_index);
    return req_fail(req, ST_REFUSED,
                    in->modify_index == 0
                        ? "Enforcing job modify index %lld: job already exists (%llu)"
                        : "Enforcing job modify index %lld: job exists with conflicting job modify "
                          "index: %llu",
                    (long long)in->modify_index, (unsigned long long)have);
}

/* Store the job as its next version, unless nothing changed. */
static enum status put_job(struct req *req, const struct text_value *spec,
                           const struct sched_job *old, struct sched_job *ret_job)
{
    bool same = false;
    *ret_job = (struct sched_job){
        .id = spec_text(spec, "ID"), .submit_ms = req->now_ms, .spec = spec, .spec_modified = 0};
    if (old == NULL)
        return sched_job_put(req->txn, ret_job);
    TRY(is_same(old->spec, spec, &same));
    ret_job->version = same && !old->stop ? old->version : old->version + 1;
    if (same && !old->stop) {
        *ret_job = *old;
        return ST_OK;
    }
    return sched_job_put(req->txn, ret_job);
}

static enum status register_job(struct req *req)
{
    const struct register_in *in = req_body(req);
    const struct text_value *spec;
    struct sched_job old, job;
    const char *eval, *path = req->params.n != 0 ? job_of_path(req) : NULL;
    if (in->job == NULL || in->job->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID, "Job must be specified");
    TRY(sched_spec_fill(req, in->job, &spec));
    const char *id = spec_text(spec, "ID");
    if (path != NULL && strcmp(path, id) != 0)
        return req_fail(req, ST_INVALID, "Job ID does not match name");
    enum status st = sched_job_load(req->txn, id, &old);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    bool exists = st == ST_OK;
    TRY(check_index(req, in, exists ? &old : NULL));
    if (exists && strcmp(spec_text(old.spec, "Type"), spec_text(spec, "Type")) != 0)
        return req_fail(req, ST_REFUSED, "cannot update job from type \"%s\" to \"%s\"",
                        spec_text(old.spec, "Type"), spec_text(spec, "Type"));
    TRY(put_job(req, spec, exists ? &old : NULL, &job));
    const struct sched_cause cause = {.trigger = "job-register"};
    TRY(sched_evaluate(req->txn, req->now_ms, &job, &cause, &eval));
    return reply_registered(req, eval, job.spec_modified);
}

/* Forget a job: its head and versions. Its allocations stay until they are collected. */
static enum status purge(struct req *req, const struct sched_job *job)
{
    struct bytes key;
    TRY(sched_key(req->arena, "sched-job", job->id, NULL, &key));
    return state_delete(req->txn, key);
}

static enum status deregister_job(struct req *req)
{
    const char *id = job_of_path(req), *eval = "";
    struct sched_job job;
    bool purges;
    if (id == NULL)
        return ST_NOMEM;
    TRY(scheduler_flag(req, "purge", false, &purges));
    enum status st = sched_job_load(req->txn, id, &job);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (st == ST_NOT_FOUND) {
        struct text_writer w = req_reply_begin(req);
        text_open_object(&w);
        text_member_str(&w, "EvalID", "");
        text_member_int(&w, "EvalCreateIndex", 0);
        text_member_int(&w, "JobModifyIndex", 0);
        text_member_str(&w, "Warnings", "");
        text_member_int(&w, "Index", 0);
        text_close(&w);
        return req_reply_end(req);
    }
    if (purges) {
        TRY(purge(req, &job));
    } else {
        job.stop = true;
        job.version++;
        job.spec_modified = 0;
        TRY(sched_job_put(req->txn, &job));
    }
    const struct sched_cause cause = {.trigger = "job-deregister"};
    TRY(sched_evaluate(req->txn, req->now_ms, &job, &cause, &eval));
    return reply_registered(req, eval, job.spec_modified);
}

static enum status evaluate_job(struct req *req)
{
    struct sched_job job;
    const char *eval;
    TRY(find_job(req, &job));
    const struct sched_cause cause = {.trigger = "job-register"};
    TRY(sched_evaluate(req->txn, req->now_ms, &job, &cause, &eval));
    return reply_registered(req, eval, job.spec_modified);
}

static enum status read_job(struct req *req)
{
    const char *status;
    struct sched_job job;
    TRY(watch_job(req));
    TRY(find_job(req, &job));
    TRY(status_of_job(req->txn, &job, &status));
    struct text_writer w = req_reply_begin(req);
    sched_show_job(&job, status, &w);
    return req_reply_end(req);
}

static enum status put_summary(struct req *req, const struct sched_job *job, struct text_writer *w)
{
    const struct text_value *groups = text_get(job->spec, "TaskGroups");
    struct counts *counts = arena_zalloc(req->arena, (groups->n + 1) * sizeof *counts);
    size_t n = 0;
    if (counts == NULL)
        return ST_NOMEM;
    TEXT_FOR (group, groups)
        counts[n++].group = spec_text(group, "Name");
    TRY(count_job(req->txn, job->id, counts, n));
    text_open_object(w);
    text_member_str(w, "JobID", job->id);
    text_member_str(w, "Namespace", "default");
    text_key(w, "Summary");
    text_open_object(w);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *by = counts[i].by;
        text_key(w, counts[i].group);
        text_open_object(w);
        text_member_int(w, "Queued", 0);
        text_member_int(w, "Starting", (int64_t)by[SCHED_PENDING]);
        text_member_int(w, "Running", (int64_t)by[SCHED_RUNNING]);
        text_member_int(w, "Complete", (int64_t)by[SCHED_COMPLETE]);
        text_member_int(w, "Failed", (int64_t)by[SCHED_FAILED]);
        text_member_int(w, "Lost", (int64_t)by[SCHED_LOST]);
        text_member_int(w, "Unknown", (int64_t)by[SCHED_UNKNOWN]);
        text_close(w);
    }
    text_close(w);
    text_key(w, "CreateIndex");
    text_put_uint(w, job->created);
    text_key(w, "ModifyIndex");
    text_put_uint(w, job->modified);
    text_close(w);
    return ST_OK;
}

static enum status read_summary(struct req *req)
{
    struct sched_job job;
    TRY(watch_job(req));
    TRY(find_job(req, &job));
    struct text_writer w = req_reply_begin(req);
    TRY(put_summary(req, &job, &w));
    return req_reply_end(req);
}

static enum status list_allocations(struct req *req)
{
    const char *id = job_of_path(req);
    return id != NULL ? sched_allocs_of(req, "sched-job-alloc", id) : ST_NOMEM;
}

static enum status list_evaluations(struct req *req)
{
    struct sched_ids ids;
    const char *id = job_of_path(req);
    if (id == NULL)
        return ST_NOMEM;
    TRY(sched_ids_of(req->txn, "sched-eval", "", &ids));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_eval eval;
        TRY(sched_eval_load(req->txn, ids.items[i], &eval));
        if (strcmp(eval.job, id) == 0)
            sched_show_eval(&eval, &w);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_deployment(struct req *req)
{
    struct sched_job job;
    TRY(find_job(req, &job));
    struct text_writer w = req_reply_begin(req);
    text_put_null(&w);
    return req_reply_end(req);
}

static enum status put_stub(struct req *req, const char *id, struct text_writer *w)
{
    const char *status;
    struct sched_job job;
    TRY(sched_job_load(req->txn, id, &job));
    TRY(status_of_job(req->txn, &job, &status));
    text_open_object(w);
    text_member_str(w, "ID", job.id);
    text_member_str(w, "ParentID", "");
    text_member_str(w, "Name", spec_text(job.spec, "Name"));
    text_member_str(w, "Namespace", "default");
    text_member_str(w, "Type", spec_text(job.spec, "Type"));
    text_member_int(w, "Priority", spec_int(job.spec, "Priority"));
    text_key(w, "Datacenters");
    text_put_value(w, text_get(job.spec, "Datacenters"));
    text_member_bool(w, "Periodic", false);
    text_member_bool(w, "ParameterizedJob", false);
    text_member_bool(w, "Stop", job.stop);
    text_member_str(w, "Status", status);
    text_member_str(w, "StatusDescription", "");
    text_key(w, "JobSummary");
    TRY(put_summary(req, &job, w));
    text_key(w, "CreateIndex");
    text_put_uint(w, job.created);
    text_key(w, "ModifyIndex");
    text_put_uint(w, job.modified);
    text_key(w, "JobModifyIndex");
    text_put_uint(w, job.spec_modified);
    sched_put_ns(w, "SubmitTime", job.submit_ms);
    text_close(w);
    return ST_OK;
}

static enum status list_jobs(struct req *req)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes whole, prefix = scheduler_parameter(req, "prefix");
    const char *begin = arena_str(req->arena, prefix);
    if (iter == NULL || begin == NULL)
        return ST_NOMEM;
    TRY(sched_key(req->arena, "sched-job", "", NULL, &whole));
    TRY(req_watch_prefix(req, whole));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    if (prefix.len <= SCHED_JOB_ID_MAX && strlen(begin) == prefix.len) {
        struct bytes from;
        TRY(sched_key(req->arena, "sched-job", begin, NULL, &from));
        TRY(state_scan(req->txn, from, (struct bytes){0}, iter));
        while (state_iter_next(iter)) {
            const char *id = arena_str(req->arena, bytes_from(iter->key, whole.len));
            if (id == NULL)
                return ST_NOMEM;
            TRY(put_stub(req, id, &w));
        }
    }
    text_close(&w);
    return req_reply_end(req);
}

/* Rows */

static const struct scheduler_row submit_row = {.permission = "namespace:submit-job",
                                                .caps = SCHEDULER_SUBMIT_JOB};
static const struct scheduler_row read_row = {.permission = "namespace:read-job",
                                              .caps = SCHEDULER_READ_JOB};
static const struct scheduler_row list_row = {
    .permission = "namespace:list-jobs", .caps = SCHEDULER_LIST_JOBS, .collection = true};

#define REGISTERED_SHAPE \
    "{EvalID:str EvalCreateIndex:int JobModifyIndex:int Warnings:str Index:int}"
#define REGISTER_ROW(path_)                                                                 \
    {                                                                                       \
        .method = METHOD_POST, .path = (path_), .handler = register_job,                    \
        .of_dialect = &submit_row, .index = INDEX_VERSION, .feature = SCHEDULER_FEATURE,    \
        .body = &register_schema, .noun = "Job", .shape = REGISTERED_SHAPE, /* see above */ \
            .help = "Register a job, or its next version."                                  \
    }
static const struct route jobs_routes[] = {
    REGISTER_ROW(""),
    {.method = METHOD_GET,
     .path = "",
     .handler = list_jobs,
     .of_dialect = &list_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .shape = "[obj]", /* maps by the names of groups */
     .help = "List jobs."},
};
const struct route_table sched_jobs_table = {jobs_routes, ARRAY_LEN(jobs_routes)};

#define JOB_READ(path_, handler_, index_, shape_, help_)                                       \
    {                                                                                          \
        .method = METHOD_GET, .path = (path_), .handler = (handler_), .of_dialect = &read_row, \
        .index = (index_), .feature = SCHEDULER_FEATURE, .shape = (shape_),                    \
        /* jobs as clients wrote them */ .help = (help_)                                       \
    }
static const struct route job_routes[] = {
    JOB_READ("*job/summary", read_summary, INDEX_BLOCKS, "obj", "Counts of allocations by group."),
    {.method = METHOD_GET,
     .path = "*job/allocations",
     .handler = list_allocations,
     .of_dialect = &read_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .body = &sched_list_schema,
     .shape = "[obj]", /* as allocations */
     .help = "List the allocations of a job."},
    JOB_READ("*job/evaluations", list_evaluations, INDEX_NONE, "[obj]",
             "List the evaluations of a job."),
    JOB_READ("*job/deployment", no_deployment, INDEX_NONE, "obj~", "Null: there are none."),
    {.method = METHOD_POST,
     .path = "*job/evaluate",
     .handler = evaluate_job,
     .of_dialect = &submit_row,
     .index = INDEX_VERSION,
     .feature = SCHEDULER_FEATURE,
     .shape = REGISTERED_SHAPE, /* the indexes are known after the commit */
     .help = "Evaluate a job again."},
    JOB_READ("+job", read_job, INDEX_BLOCKS, "obj", "Read a job."),
    REGISTER_ROW("+job"),
    {.method = METHOD_DELETE,
     .path = "+job",
     .handler = deregister_job,
     .of_dialect = &submit_row,
     .index = INDEX_VERSION,
     .feature = SCHEDULER_FEATURE,
     .shape = REGISTERED_SHAPE, /* the indexes are known after the commit */
     .help = "Stop a job; ?purge=true forgets it."},
};
const struct route_table sched_job_table = {job_routes, ARRAY_LEN(job_routes)};
