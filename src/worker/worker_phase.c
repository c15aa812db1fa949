/* The two phases of a run (platform.md 7). */
#include "worker/worker_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MAX = 1000, INIT_OUTPUT_MAX = 16 << 20 };

#define PLAN_FILE "holdfast plan 1"
#define LOCK_FILE ".terraform.lock.hcl"
#define GENERATED "generated.tf"

/* Command lines */

struct words {
    struct arena *arena;
    const char *items[WORDS_MAX + 1];
    size_t n;
    bool failed;
};

static void word(struct words *w, const char *text)
{
    if (text == NULL || w->n == WORDS_MAX)
        w->failed = true;
    else
        w->items[w->n++] = text;
}

static void words_of(struct words *w, const char *flag, const struct text_value *list)
{
    if (list == NULL || list->kind != TEXT_LIST)
        return;
    TEXT_FOR (one, list)
        word(w, one->kind == TEXT_STRING
                    ? arena_format(w->arena, "%s=%s", flag, (const char *)one->text.data)
                    : NULL);
}

/* Run the tool. A code other than 0 and `also` is a failure, whose reason names the command. */
static enum status run_tool(struct job *job, const struct words *w, int also, struct buf *capture,
                            size_t max, int *ret_code)
{
    int code = 0;
    if (w->failed) {
        reason_set(&job->why, "the command line is too long");
        return ST_TOO_BIG;
    }
    TRY(worker_process(job, w->items, capture, max, &code, &job->why));
    if (ret_code != NULL)
        *ret_code = code;
    if (job->stop != STOP_NONE)
        return ST_CLOSED;
    if (code == 0 || code == also)
        return ST_OK;
    reason_set(&job->why, "%s %s failed with exit code %d", job->tool->kind, w->items[1], code);
    return ST_REFUSED;
}

static struct words command(struct job *job, const char *name)
{
    struct words w = {.arena = &job->arena};
    word(&w, job->tool->path);
    word(&w, name);
    return w;
}

/* `init` writes to the log only when it fails. */
static enum status init_tool(struct job *job)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct words w = command(job, "init");
    word(&w, "-input=false");
    if (job->apply)
        word(&w, "-lockfile=readonly");
    enum status st = run_tool(job, &w, 0, &out, INIT_OUTPUT_MAX, NULL);
    if (st != ST_OK)
        job_log_add(job, buf_bytes(&out));
    return st;
}

/* Files for the servers */

static enum status file_send(struct job *job, const char *name, struct bytes content)
{
    CLEANUP(buf_done) struct buf reply = {0};
    char what[128];
    struct reason why = {{0}};
    if (content.len > (uint64_t)worker.file_bytes_max) {
        reason_set(&job->why, "%s has more than %lld bytes", name,
                   (long long)worker.file_bytes_max);
        return ST_TOO_BIG;
    }
    (void)snprintf(what, sizeof what, "files/%s?claim=%s", name, job->claim); /* both are short */
    enum status st = job_ask(job, "PUT", what, "application/octet-stream", content, &reply, &why);
    if (st == ST_REFUSED)
        reason_set(&job->why, "storing %s: %.200s", name, why.text);
    return st;
}

/* The plan and what belongs to it: a program with another sum or other providers must not apply it.
 */
static enum status send_plan(struct job *job)
{
    CLEANUP(buf_done) struct buf plan = {0}, locks = {0}, bundle = {0};
    const char *path = job_path(job, "plan.bin");
    const char *lock = arena_format(&job->arena, "%s/" LOCK_FILE, job->work);
    if (path == NULL || lock == NULL)
        return ST_NOMEM;
    enum status st = client_read_file(path, (size_t)worker.file_bytes_max, &plan);
    if (st == ST_OK)
        st = client_read_file(lock, (size_t)worker.file_bytes_max, &locks);
    if (st != ST_OK && st != ST_NOT_FOUND) {
        reason_set(&job->why, "the plan cannot be read: %s", status_text(st));
        return st;
    }
    buf_add_text(&bundle, PLAN_FILE);
    buf_add_text(&bundle, job->tool->sha256);
    buf_add_block(&bundle, buf_bytes(&plan));
    buf_add_block(&bundle, buf_bytes(&locks));
    TRY(buf_status(&bundle));
    return file_send(job, "plan-file", buf_bytes(&bundle));
}

static enum status read_plan(struct job *job)
{
    CLEANUP(buf_done) struct buf bundle = {0};
    struct client_call call = {.method = "GET", .path = member_text(job->spec, "plan_file_url")};
    struct reason why = {{0}};
    enum status st = job_ask_url(job, &call, &bundle, &why);
    if (st == ST_REFUSED)
        reason_set(&job->why, "downloading the plan: %.200s", why.text);
    TRY(st);
    struct reader r = reader_of(buf_bytes(&bundle));
    const char *kind = reader_text(&r), *sum = reader_text(&r);
    struct bytes plan = reader_block(&r), locks = reader_block(&r);
    if (reader_end(&r) != ST_OK || strcmp(kind, PLAN_FILE) != 0) {
        reason_set(&job->why, "the stored plan is damaged");
        return ST_CORRUPT;
    }
    if (strcmp(sum, job->tool->sha256) != 0) {
        reason_set(&job->why, "the plan was made by another program that calls itself %s %s",
                   job->tool->kind, job->tool->version);
        return ST_REFUSED;
    }
    TRY(job_write(job_path(job, "plan.bin"), plan, &job->why));
    if (locks.len == 0)
        return ST_OK;
    return job_write(arena_format(&job->arena, "%s/" LOCK_FILE, job->work), locks, &job->why);
}

/* Plan */

static struct words plan_command(struct job *job)
{
    const struct text_value *spec = job->spec;
    struct words w = command(job, "plan");
    word(&w, "-input=false");
    word(&w, "-detailed-exitcode");
    word(&w, arena_format(&job->arena, "-out=%s/plan.bin", job->dir));
    word(&w, arena_format(&job->arena, "-var-file=%s/zzz_platform.auto.tfvars", job->work));
    if (member_bool(spec, "structured_output"))
        word(&w, "-json");
    if (member_bool(spec, "is_destroy"))
        word(&w, "-destroy");
    if (member_bool(spec, "refresh_only"))
        word(&w, "-refresh-only");
    else if (!member_bool(spec, "refresh"))
        word(&w, "-refresh=false");
    if (member_bool(spec, "allow_config_generation"))
        word(&w, "-generate-config-out=" GENERATED);
    words_of(&w, "-target", text_get(spec, "target_addrs"));
    words_of(&w, "-replace", text_get(spec, "replace_addrs"));
    return w;
}

/* The redacted form, for command lines that draw the plan themselves. */
static enum status send_redacted(struct job *job, struct bytes plan)
{
    CLEANUP(buf_done) struct buf schemas = {0}, redacted = {0};
    struct words w = command(job, "providers");
    word(&w, "schema");
    word(&w, "-json");
    TRY(run_tool(job, &w, 0, &schemas, (size_t)worker.file_bytes_max, NULL));
    enum status st = worker_plan_redact(plan, buf_bytes(&schemas), &redacted);
    if (st != ST_OK) {
        reason_set(&job->why, "the plan's JSON form: %s", status_text(st));
        return st;
    }
    TRY(file_send(job, "json-schema", buf_bytes(&schemas)));
    return file_send(job, "json-output-redacted", buf_bytes(&redacted));
}

static enum status describe_plan(struct job *job, struct phase_end *ret_end)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct words w = command(job, "show");
    word(&w, "-json");
    word(&w, job_path(job, "plan.bin"));
    TRY(run_tool(job, &w, 0, &json, (size_t)worker.file_bytes_max, NULL));
    enum status st = worker_plan_count(buf_bytes(&json), &ret_end->facts);
    if (st != ST_OK) {
        reason_set(&job->why, "the plan's JSON form: %s", status_text(st));
        return st;
    }
    TRY(file_send(job, "json-output", buf_bytes(&json)));
    return member_bool(job->spec, "structured_output") ? send_redacted(job, buf_bytes(&json))
                                                       : ST_OK;
}

static enum status phase_plan(struct job *job, struct phase_end *ret_end)
{
    struct words w = plan_command(job);
    const char *generated = arena_format(&job->arena, "%s/" GENERATED, job->work);
    int code = 0;
    if (generated == NULL)
        return ST_NOMEM;
    TRY(init_tool(job));
    TRY(run_tool(job, &w, 2, NULL, 0, &code));
    ret_end->has_changes = code == 2;
    ret_end->generated =
        member_bool(job->spec, "allow_config_generation") && access(generated, F_OK) == 0;
    TRY(describe_plan(job, ret_end));
    return member_bool(job->spec, "plan_only") ? ST_OK : send_plan(job);
}

/* Apply */

/* Note on disk that the state may change from here on, and where it is. */
static enum status mark_apply(struct job *job)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text};
    const char *path = job_path(job, "applies");
    text_open_object(&w);
    text_member_str(&w, "run_id", job->run);
    text_member_str(&w, "workspace_id", job->workspace);
    text_member_str(&w, "work", job->work);
    text_close(&w);
    enum status st = path != NULL ? buf_status(&text) : ST_NOMEM;
    if (st == ST_OK)
        st = client_write_file(path, buf_bytes(&text));
    if (st != ST_OK)
        reason_set(&job->why, "preparing the apply: %s", status_text(st));
    return st;
}

static enum status phase_apply(struct job *job)
{
    struct words w = command(job, "apply");
    struct reason why = {{0}};
    word(&w, "-input=false");
    if (member_bool(job->spec, "structured_output"))
        word(&w, "-json");
    word(&w, job_path(job, "plan.bin"));
    TRY(read_plan(job));
    TRY(init_tool(job));
    TRY(mark_apply(job));
    enum status st = run_tool(job, &w, 0, NULL, 0, NULL);
    enum status stored = job_hand_in_state(job, &why);
    const char *mark = job_path(job, "applies");
    if (stored != ST_IO && mark != NULL)
        (void)unlink(mark); /* a copy of the state that is kept twice does no harm */
    if (stored == ST_OK)
        return st;
    job_log_line(job, "\nError: %s", why.text);
    worker_say("job %s: %s", job->id, why.text);
    job->why = why;
    return st == ST_CLOSED ? st : ST_REFUSED;
}

enum status job_phase(struct job *job, struct phase_end *ret_end)
{
    struct reason why = {{0}};
    const char *version = member_text(job->spec, "tool_version");
    job->tool = worker_tool(member_text(job->spec, "tool"), version, &why);
    if (job->tool == NULL) {
        job->why = why;
        return ST_NOT_FOUND;
    }
    const char *kind = strcmp(job->tool->kind, "tofu") == 0 ? "OpenTofu" : "Terraform";
    job_log_line(job, "%s v%s", kind, job->tool->version);
    job_log_line(job, "on linux_amd64, worker %s", worker.config.name);
    job_log_line(job, "Initializing plugins and modules...");
    TRY(job_prepare(job));
    return job->apply ? phase_apply(job) : phase_plan(job, ret_end);
}
