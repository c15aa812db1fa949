/* One job, from the reply to its claim to its end. */
#include "worker/worker_internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool is_id(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return len != 0 && len < WORKER_ID_MAX && text[len] == '\0';
}

/* Take the members that the worker itself uses. */
static enum status read_spec(struct job *job, const char *id, const char *claim, struct bytes spec)
{
    struct reason why = {{0}};
    TRY(text_json_parse(&job->arena, spec, &job->spec, &why));
    job->run = member_text(job->spec, "run_id");
    job->workspace = member_text(job->spec, "workspace_id");
    job->id = arena_str(&job->arena, bytes_str(id));
    (void)snprintf(job->claim, sizeof job->claim, "%s", claim); /* of this length */
    job->apply = strcmp(member_text(job->spec, "phase"), "apply") == 0;
    if (job->id == NULL)
        return ST_NOMEM;
    if (!is_id(id) || !is_id(job->run) || !is_id(job->workspace))
        return ST_INVALID;
    job->dir = arena_format(&job->arena, "%s/jobs/%s", worker.config.data_dir, id);
    job->config = job->dir != NULL ? job_path(job, "config") : NULL;
    job->work = job->config;
    return job->config != NULL ? ST_OK : ST_NOMEM;
}

static enum status job_init(struct job *job, const char *id, const char *claim, uint64_t claimed_ms,
                            struct bytes spec)
{
    (void)pthread_mutex_init(&job->lock, NULL); /* cannot fail without attributes */
    (void)pthread_mutex_init(&job->log.lock, NULL);
    (void)pthread_cond_init(&job->done, NULL);
    (void)pthread_cond_init(&job->log.more, NULL);
    job->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    job->lease_from_ms = claimed_ms;
    TRY(read_spec(job, id, claim, spec));
    int64_t timeout_s = member_int(job->spec, "timeout_s");
    job->end_ms = timeout_s > 0 ? client_mono_ms() + (uint64_t)timeout_s * 1000 : UINT64_MAX;
    return job->wake >= 0 ? ST_OK : ST_IO;
}

static void job_free(struct job *job)
{
    if (job->wake >= 0)
        (void)close(job->wake);                 /* nothing waits for it */
    (void)pthread_cond_destroy(&job->log.more); /* no thread is left */
    (void)pthread_cond_destroy(&job->done);
    (void)pthread_mutex_destroy(&job->log.lock);
    (void)pthread_mutex_destroy(&job->lock);
    buf_done(&job->log.text);
    buf_done(&job->state);
    arena_done(&job->arena);
    mem_free(job);
}

/* Run the phase. ST_CLOSED: job->stop says why. */
static enum status job_carry_out(struct job *job, struct phase_end *end)
{
    if (!job_lease_start(job) || !job_log_start(job)) {
        reason_set(&job->why, "the worker cannot start a thread: the system has no room for one");
        return ST_BUSY;
    }
    if (!worker_wipe(job->dir)) {
        reason_set(&job->why, "the worker's folder of this job cannot be cleared");
        return ST_IO;
    }
    return job_phase(job, end);
}

/* The status for the servers, and what people read. */
static const char *outcome(struct job *job, enum status st)
{
    if (st == ST_OK)
        return "finished";
    if (st != ST_CLOSED) {
        if (job->why.text[0] == '\0')
            reason_set(&job->why, "%s", status_text(st));
        return "errored";
    }
    switch (job->stop) {
    case STOP_CANCEL: reason_set(&job->why, "canceled"); return "canceled";
    case STOP_KILL: reason_set(&job->why, "canceled by force"); return "canceled";
    case STOP_TIMEOUT:
        reason_set(&job->why, "the phase took longer than %lld seconds",
                   (long long)member_int(job->spec, "timeout_s"));
        return "errored";
    case STOP_END: reason_set(&job->why, "the worker was stopped"); return "errored";
    default: return NULL; /* the job is no longer ours */
    }
}

static void put_end(const struct job *job, const char *status, const struct phase_end *end,
                    struct buf *body)
{
    struct text_writer w = {.out = body};
    bool plan = !job->apply && strcmp(status, "finished") == 0;
    job_body_begin(job, &w);
    text_member_str(&w, "status", status);
    if (job->why.text[0] != '\0')
        text_member_str(&w, "message", job->why.text);
    if (plan) {
        text_member_bool(&w, "has_changes", end->has_changes);
        text_member_int(&w, "resource_additions", end->facts.additions);
        text_member_int(&w, "resource_changes", end->facts.changes);
        text_member_int(&w, "resource_destructions", end->facts.destructions);
        text_member_int(&w, "resource_imports", end->facts.imports);
        text_member_bool(&w, "generated_configuration", end->generated);
        text_member_str(&w, "tool", job->tool->kind);
        text_member_str(&w, "tool_version", job->tool->version);
    }
    text_close(&w);
}

static void send_end(struct job *job, const char *status, const struct phase_end *end)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    struct reason why = {{0}};
    put_end(job, status, end, &body);
    enum status st = buf_status(&body);
    if (st == ST_OK)
        st = job_ask(job, "POST", "end", NULL, buf_bytes(&body), &reply, &why);
    if (st != ST_OK)
        worker_say("job %s: its end was not taken: %s %s", job->id, status_text(st), why.text);
}

static void job_finish(struct job *job, enum status st, const struct phase_end *end)
{
    const char *status = outcome(job, st);
    if (status != NULL && st != ST_OK)
        job_log_line(job, "\nThe %s %s: %s", job->apply ? "apply" : "plan",
                     strcmp(status, "canceled") == 0 ? "was stopped" : "failed", job->why.text);
    job_log_end(job);
    if (status != NULL && job->order != ORDER_LOST)
        send_end(job, status, end);
    job_lease_end(job);
    worker_say("job %s of %s ends: %s%s%s", job->id, job->run, status != NULL ? status : "lost",
               job->why.text[0] != '\0' ? ": " : "", job->why.text);
}

/* The folder stays where it holds the only copy of a state. */
static void job_clear(const struct job *job, const char *mark)
{
    if (mark != NULL && access(mark, F_OK) == 0)
        worker_say("job %s: its folder stays: %s", job->id, job->dir);
    else if (!worker_wipe(job->dir))
        worker_say("job %s: its folder cannot be cleared: %s", job->id, job->dir);
}

void worker_job(const char *id, const char *claim, uint64_t claimed_ms, struct bytes spec)
{
    struct job *job = mem_zalloc(sizeof *job);
    struct phase_end end = {0};
    if (job == NULL) {
        worker_say("job %s: out of memory", id);
        return; /* the lease ends by itself */
    }
    enum status st = job_init(job, id, claim, claimed_ms, spec);
    if (st != ST_OK) {
        worker_say("job %s: its description is unusable: %s", id, status_text(st));
        job_free(job);
        return; /* the lease ends by itself */
    }
    worker.busy = true;
    worker_say("job %s of %s begins", job->id, job->run);
    st = job_carry_out(job, &end);
    const char *mark = job_path(job, "applies");
    job_finish(job, st, &end);
    job_clear(job, mark);
    worker.busy = false;
    job_free(job);
}
