/* The state after an apply. It says what exists outside, so it is the last thing to lose: it lies
 * in DATA/states from before the first attempt to hand it in until a server has it. */
#include "worker/worker_internal.h"

#include "crypto/digest.h"
#include "text/encode.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INLINE_MAX = 512 * 1024 }; /* bytes of a state that goes into the first request */

struct state_facts {
    int64_t serial;
    const char *lineage;
    char md5[TEXT_HEX_LEN(CRYPTO_MD5_BYTES) + 1];
};

static enum status state_read_facts(struct arena *arena, struct bytes state,
                                    struct state_facts *ret_facts, struct reason *why)
{
    const struct text_value *root = NULL;
    uint8_t md5[CRYPTO_MD5_BYTES];
    TRY(text_json_parse(arena, state, &root, why));
    const struct text_value *serial = text_get(root, "serial");
    if (serial == NULL || text_to_int(serial, &ret_facts->serial) != ST_OK) {
        reason_set(why, "it has no serial");
        return ST_INVALID;
    }
    ret_facts->lineage = member_text(root, "lineage");
    TRY(crypto_md5(state, md5));
    text_hex_put(bytes_of(md5, sizeof md5), ret_facts->md5);
    return ST_OK;
}

static enum status put_base64(struct text_writer *w, struct bytes data)
{
    CLEANUP(buf_done) struct buf text = {0};
    char *room = (char *)buf_extend(&text, TEXT_BASE64_LEN(data.len) + 1);
    if (room == NULL)
        return ST_NOMEM;
    size_t len = text_base64_put(data, TEXT_BASE64, room);
    text_put_bytes(w, bytes_of(room, len));
    return ST_OK;
}

static enum status put_state_version(const struct job *job, const struct state_facts *facts,
                                     struct bytes state, struct buf *body)
{
    struct text_writer w = {.out = body};
    text_open_object(&w);
    text_key(&w, "data");
    text_open_object(&w);
    text_member_str(&w, "type", "state-versions");
    text_key(&w, "attributes");
    text_open_object(&w);
    text_member_int(&w, "serial", facts->serial);
    text_member_str(&w, "md5", facts->md5);
    text_member_str(&w, "lineage", facts->lineage);
    if (state.len <= INLINE_MAX) {
        text_key(&w, "state");
        TRY(put_base64(&w, state));
    }
    text_close(&w);
    text_key(&w, "relationships");
    text_open_object(&w);
    text_key(&w, "run");
    text_open_object(&w);
    text_key(&w, "data");
    text_open_object(&w);
    text_member_str(&w, "type", "runs");
    text_member_str(&w, "id", job->run);
    for (unsigned i = 0; i < 5; i++)
        text_close(&w);
    return buf_status(body);
}

/* Put the bytes to the URL that the reply to the creation names. */
static enum status state_upload(struct job *job, struct bytes state, struct bytes reply,
                                struct reason *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf said = {0};
    const struct text_value *root = NULL;
    TRY(text_json_parse(&arena, reply, &root, why));
    const char *url =
        member_text(text_get(text_get(root, "data"), "attributes"), "hosted-state-upload-url");
    struct client_call call = {
        .method = "PUT", .path = url, .type = "application/octet-stream", .body = state};
    if (url[0] == '\0')
        return ST_OK; /* a repeated request: the version is complete */
    return job_ask_url(job, &call, &said, why);
}

static enum status hand_in(struct job *job, struct bytes state, struct reason *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    struct state_facts facts;
    char path[256], header[1024];
    struct client_call call = {
        .method = "POST", .path = path, .header = header, .type = "application/vnd.api+json"};
    TRY(state_read_facts(&arena, state, &facts, why));
    TRY(put_state_version(job, &facts, state, &body));
    (void)snprintf(path, sizeof path, "/api/v2/workspaces/%s/state-versions",
                   job->workspace); /* an id */
    int n = snprintf(header, sizeof header, "Authorization: Bearer %s",
                     member_text(job->spec, "run_token"));
    if (n < 0 || (size_t)n >= sizeof header)
        return ST_TOO_BIG;
    call.body = buf_bytes(&body);
    enum status st = job_ask_url(job, &call, &reply, why);
    if (st == ST_OK && state.len > INLINE_MAX)
        st = state_upload(job, state, buf_bytes(&reply), why);
    return st;
}

/* Read the tool's state: `errored.tfstate` if it could not write the other one. */
static enum status read_result(struct job *job, struct buf *out)
{
    static const char *const names[] = {"errored.tfstate", "terraform.tfstate"};
    enum status st = ST_NOT_FOUND;
    for (size_t i = 0; i < ARRAY_LEN(names) && st == ST_NOT_FOUND; i++) {
        const char *path = arena_format(&job->arena, "%s/%s", job->work, names[i]);
        st = path != NULL ? client_read_file(path, (size_t)worker.file_bytes_max, out) : ST_NOMEM;
    }
    return st;
}

static char *kept_path(struct job *job)
{
    return arena_format(&job->arena, "%s/states/%s.%s.tfstate", worker.config.data_dir,
                        job->workspace, job->run);
}

/* Write the copy. Where that fails, the folder of the job is the copy. */
static enum status keep(struct job *job, struct bytes state)
{
    const char *folder = arena_format(&job->arena, "%s/states", worker.config.data_dir);
    const char *path = kept_path(job);
    if (folder == NULL || path == NULL)
        return ST_NOMEM;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return status_from_errno(errno);
    return client_write_file(path, state);
}

enum status job_hand_in_state(struct job *job, struct reason *why)
{
    CLEANUP(buf_done) struct buf state = {0};
    struct reason failed = {{0}};
    enum status st = read_result(job, &state);
    if (st == ST_NOT_FOUND || (st == ST_OK && bytes_eq(buf_bytes(&state), buf_bytes(&job->state))))
        return ST_OK; /* nothing was created, and nothing changed */
    if (st != ST_OK) {
        reason_set(why, "the state cannot be read (%s); it stays in %.160s", status_text(st),
                   job->work);
        return st;
    }
    enum status kept = keep(job, buf_bytes(&state));
    st = hand_in(job, buf_bytes(&state), &failed);
    if (st == ST_OK) {
        if (kept == ST_OK)
            (void)unlink(kept_path(job)); /* a copy of what the servers have does no harm */
        return ST_OK;
    }
    reason_set(why, "the state was not taken (%.80s); the worker %s keeps it in %.120s",
               failed.text[0] != '\0' ? failed.text : status_text(st), worker.config.name,
               kept == ST_OK ? kept_path(job) : job->work);
    return kept == ST_OK ? ST_REFUSED : ST_IO;
}

/* After a worker that ended in the middle of a job */

/* Move a state out of the folder of a job that is over. False: the folder must stay. */
static bool rescue(const char *folder, const char *id)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf mark = {0}, state = {0};
    struct job job = {.id = id, .dir = folder};
    bool good = false;
    const struct text_value *said = NULL;
    char *path = arena_format(&arena, "%s/applies", folder);
    if (path == NULL)
        return false;
    enum status st = client_read_file(path, CLIENT_FILE_MAX, &mark);
    if (st == ST_NOT_FOUND)
        return true; /* no apply had begun */
    if (st != ST_OK || text_json_parse(&arena, buf_bytes(&mark), &said, NULL) != ST_OK)
        return false;
    job.work = member_text(said, "work");
    job.run = member_text(said, "run_id");
    job.workspace = member_text(said, "workspace_id");
    st = read_result(&job, &state);
    if (st == ST_OK && keep(&job, buf_bytes(&state)) == ST_OK) {
        worker_say("job %s was broken off: its state is kept in %s", id, kept_path(&job));
        good = true;
    }
    arena_done(&job.arena);
    return good || st == ST_NOT_FOUND;
}

void worker_collect_left_behind(void)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const char *jobs = arena_format(&arena, "%s/jobs", worker.config.data_dir);
    DIR *dir = jobs != NULL ? opendir(jobs) : NULL;
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        const char *path = arena_format(&arena, "%s/%s", jobs, e->d_name);
        if (path == NULL || !rescue(path, e->d_name) || !worker_wipe(path))
            worker_say("the folder of job %s cannot be cleared: see %s", e->d_name, jobs);
    }
    if (dir != NULL)
        (void)closedir(dir); /* the descriptor was only read */
}
