/* The folder of a job, below DATA/jobs:
 *
 *   ID/config/…   the configuration as uploaded, with our override and variables
 *   ID/home, tmp  HOME and TMPDIR
 *   ID/cli.tfrc   the tool's configuration: the run token for our hosts
 *   ID/plan.bin   the plan
 *   ID/applies    exists while an apply may have changed the state */
#include "worker/worker_internal.h"

#include "base/mem.h"
#include "crypto/digest.h"
#include "text/encode.h"
#include "worker/worker_unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIPE_DEPTH = 32 };

char *job_path(struct job *job, const char *name)
{
    return arena_format(&job->arena, "%s/%s", job->dir, name);
}

enum status job_write(const char *path, struct bytes text, struct reason *why)
{
    enum status st = path == NULL ? ST_NOMEM : ST_OK;
    int fd = -1;
    if (st == ST_OK)
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (st == ST_OK && fd < 0)
        st = status_from_errno(errno);
    if (fd >= 0) {
        st = client_write_all(fd, text);
        if (close(fd) != 0 && st == ST_OK)
            st = status_from_errno(errno);
    }
    if (st != ST_OK)
        reason_set(why, "writing %.200s: %s", path != NULL ? strrchr(path, '/') + 1 : "a file",
                   status_text(st));
    return st;
}

/* Wiping */

/* Remove what is in a folder. A folder that lies too deep moves to the top, and goes with a later
 * round. */
static bool wipe_inside(int fd, int top, unsigned depth, unsigned *moved)
{
    bool good = true;
    (void)fchmod(fd, 0700); /* where that fails, removing fails */
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        (void)close(fd); /* only looked into */
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char name[32];
        struct stat found;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            unlinkat(dirfd(dir), e->d_name, 0) == 0)
            continue;
        if (fstatat(dirfd(dir), e->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISDIR(found.st_mode)) {
            good = false;
            continue;
        }
        if (depth == WIPE_DEPTH) {
            (void)snprintf(name, sizeof name, ".deep-%u-%llx", (*moved)++,
                           (unsigned long long)client_mono_ms()); /* 23 characters and a number */
            good = renameat(dirfd(dir), e->d_name, top, name) == 0 && good;
            continue;
        }
        (void)!fchmodat(dirfd(dir), e->d_name, 0700, 0); /* where that fails, opening fails */
        int inner = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        good = inner >= 0 && wipe_inside(inner, top, depth + 1, moved) && good;
        good = unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) == 0 && good;
    }
    if (dir != NULL)
        (void)closedir(dir); /* only looked into */
    return good && dir != NULL;
}

bool worker_wipe(const char *path)
{
    unsigned moved = 0, before;
    bool good;
    do {
        int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (top < 0)
            return errno == ENOENT;
        before = moved;
        int fd = fcntl(top, F_DUPFD_CLOEXEC, 3);
        good = fd >= 0 && wipe_inside(fd, top, 0, &moved);
        (void)close(top); /* only looked into */
    } while (good && moved != before);
    return good && rmdir(path) == 0;
}

/* Making */

static enum status make_folder(const char *path, struct reason *why)
{
    if (path == NULL)
        return ST_NOMEM;
    if (mkdir(path, 0700) == 0)
        return ST_OK;
    reason_set(why, "making %.200s: %s", path, strerror(errno));
    return status_from_errno(errno);
}

static enum status download(struct job *job, const char *url, struct buf *out, const char *what)
{
    struct client_call call = {.method = "GET", .path = url};
    struct reason why = {{0}};
    enum status st = job_ask_url(job, &call, out, &why);
    if (st == ST_REFUSED)
        reason_set(&job->why, "downloading %s: %.200s", what, why.text);
    return st;
}

static enum status put_configuration(struct job *job)
{
    CLEANUP(buf_done) struct buf archive = {0};
    const struct unpack_limits limits = {.bytes_max = worker.config.unpacked_bytes_max,
                                         .entries_max = UNPACK_ENTRIES_MAX};
    TRY(download(job, member_text(job->spec, "configuration_url"), &archive, "the configuration"));
    int dir = open(job->config, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        reason_set(&job->why, "the folder of the job: %s", strerror(errno));
        return ST_IO;
    }
    enum status st = worker_unpack(buf_bytes(&archive), dir, &limits, &job->why);
    (void)close(dir); /* only looked into */
    return st;
}

/* The folder in which the tool runs. */
static enum status find_work(struct job *job)
{
    const char *within = member_text(job->spec, "working_directory");
    struct reason wrong = {{0}};
    struct stat found;
    while (*within == '/')
        within++; /* upstream takes it so */
    if (worker_path_check(within, &wrong) != ST_OK) {
        reason_set(&job->why, "the working directory %s", wrong.text);
        return ST_INVALID;
    }
    job->work = arena_format(&job->arena, "%s/%s", job->config, within);
    if (job->work == NULL)
        return ST_NOMEM;
    if (stat(job->work, &found) == 0 && S_ISDIR(found.st_mode))
        return ST_OK;
    reason_set(&job->why, "the configuration has no folder \"%.128s\" (working directory)", within);
    return ST_NOT_FOUND;
}

/* Remove what the archive brought along and the tool would take for its own. */
static enum status remove_strangers(struct job *job)
{
    static const char *const names[] = {
        "terraform.tfstate", "terraform.tfstate.backup", ".terraform.tfstate.lock.info",
        "errored.tfstate",   ".terraform/environment",   ".terraform/terraform.tfstate"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = arena_format(&job->arena, "%s/%s", job->work, names[i]);
        if (path == NULL)
            return ST_NOMEM;
        if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR) {
            reason_set(&job->why, "removing %s: %s", names[i], strerror(errno));
            return ST_INVALID;
        }
    }
    return ST_OK;
}

static enum status put_in_work(struct job *job, const char *name, struct bytes text)
{
    const char *path = arena_format(&job->arena, "%s/%s", job->work, name);
    if (path != NULL)
        (void)unlink(path); /* a file of the archive; where that fails, writing fails */
    return job_write(path, text, &job->why);
}

static enum status write_state(struct job *job)
{
    const struct text_value *state = text_get(job->spec, "state");
    uint8_t md5[CRYPTO_MD5_BYTES];
    char hex[TEXT_HEX_LEN(CRYPTO_MD5_BYTES) + 1];
    if (state == NULL || state->kind != TEXT_OBJECT)
        return ST_OK;
    TRY(download(job, member_text(state, "download_url"), &job->state, "the state"));
    TRY(crypto_md5(buf_bytes(&job->state), md5));
    text_hex_put(bytes_of(md5, sizeof md5), hex);
    if (strcmp(hex, member_text(state, "md5")) != 0) {
        reason_set(&job->why, "the state arrived damaged: its MD5 is another");
        return ST_CORRUPT;
    }
    return put_in_work(job, "terraform.tfstate", buf_bytes(&job->state));
}

/* `backend "local"` overrides a cloud block and any other backend. */
static enum status put_override(struct job *job)
{
    return put_in_work(job, "zzz_platform_override.tf",
                       BYTES("terraform {\n  backend \"local\" {\n  }\n}\n"));
}

static enum status put_variables(struct job *job)
{
    CLEANUP(buf_done) struct buf text = {0};
    TRY(worker_variables_file(text_get(job->spec, "variables"), &text, &job->why));
    return put_in_work(job, "zzz_platform.auto.tfvars", buf_bytes(&text));
}

/* Credentials for each server, as the tool's configuration has them. */
static enum status put_cli_config(struct job *job)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *token = member_text(job->spec, "run_token");
    buf_add_str(&text, "disable_checkpoint = true\n");
    for (size_t i = 0; i < worker.client.servers.n; i++) {
        const char *host = strstr(worker.client.servers.items[i], "://");
        host = host != NULL ? host + 3 : worker.client.servers.items[i];
        buf_add_str(&text, "credentials ");
        TRY(worker_hcl_quote(bytes_of(host, strcspn(host, "/")), &text));
        buf_add_str(&text, " {\n  token = ");
        TRY(worker_hcl_quote(bytes_str(token), &text));
        buf_add_str(&text, "\n}\n");
    }
    TRY(buf_status(&text));
    return job_write(job_path(job, "cli.tfrc"), buf_bytes(&text), &job->why);
}

/* The environment: nothing of this process but what is named here. */

static enum status set_path(struct worker_env *env, struct job *job, const char *name,
                            const char *file)
{
    const char *path = job_path(job, file);
    return path != NULL ? worker_env_set(env, name, path) : ST_NOMEM;
}

/* A fact under its name, and as a variable that a configuration may declare. */
static enum status set_fact(struct worker_env *env, const char *name, const char *value)
{
    const char *variable = arena_format(env->arena, "TF_VAR_%s", name);
    TRY(worker_env_set(env, name, value));
    return variable != NULL ? worker_env_set(env, variable, value) : ST_NOMEM;
}

static enum status set_facts(struct worker_env *env, const struct job *job)
{
    const char *organization = member_text(job->spec, "organization");
    const char *workspace = member_text(job->spec, "workspace");
    const char *slug = arena_format(env->arena, "%s/%s", organization, workspace);
    if (slug == NULL)
        return ST_NOMEM;
    TRY(set_fact(env, "TFC_RUN_ID", job->run));
    TRY(set_fact(env, "TFC_WORKSPACE_NAME", workspace));
    TRY(set_fact(env, "TFC_WORKSPACE_SLUG", slug));
    return set_fact(env, "TFC_PROJECT_NAME", member_text(job->spec, "project"));
}

static enum status make_env(struct job *job)
{
    struct worker_env env;
    const char *identity = member_text(job->spec, "identity_token");
    TRY(worker_env_init(&env, &job->arena));
    TRY(worker_env_set(&env, "PATH", "/usr/local/bin:/usr/bin:/bin"));
    TRY(set_path(&env, job, "HOME", "home"));
    TRY(set_path(&env, job, "TMPDIR", "tmp"));
    TRY(set_path(&env, job, "TF_CLI_CONFIG_FILE", "cli.tfrc"));
    /* beside the authorities of the system: for configurations that read states of our servers */
    if (worker.config.ca_file[0] != '\0')
        TRY(worker_env_set(&env, "SSL_CERT_FILE", worker.config.ca_file));
    TRY(worker_env_set(&env, "TF_IN_AUTOMATION", "1"));
    TRY(worker_env_set(&env, "TF_INPUT", "0"));
    TRY(worker_env_set(&env, "CHECKPOINT_DISABLE", "1"));
    if (worker.config.plugin_cache_dir[0] != '\0')
        TRY(worker_env_set(&env, "TF_PLUGIN_CACHE_DIR", worker.config.plugin_cache_dir));
    if (member_bool(job->spec, "debugging_mode"))
        TRY(worker_env_set(&env, "TF_LOG", "TRACE"));
    TRY(set_facts(&env, job));
    TRY(worker_env_variables(&env, text_get(job->spec, "variables"), &job->why));
    if (identity[0] != '\0')
        TRY(worker_env_set(&env, "TFC_WORKLOAD_IDENTITY_TOKEN", identity));
    job->env = env.items;
    return ST_OK;
}

static enum status make_folders(struct job *job)
{
    const char *jobs = arena_format(&job->arena, "%s/jobs", worker.config.data_dir);
    if (jobs == NULL || job->dir == NULL || job->config == NULL)
        return ST_NOMEM;
    if (mkdir(jobs, 0700) != 0 && errno != EEXIST) {
        reason_set(&job->why, "making %.200s: %s", jobs, strerror(errno));
        return status_from_errno(errno);
    }
    TRY(make_folder(job->dir, &job->why));
    TRY(make_folder(job->config, &job->why));
    TRY(make_folder(job_path(job, "home"), &job->why));
    return make_folder(job_path(job, "tmp"), &job->why);
}

enum status job_prepare(struct job *job)
{
    static enum status (*const steps[])(struct job *) = {
        make_folders, put_configuration, find_work,      remove_strangers, put_override,
        write_state,  put_variables,     put_cli_config, make_env};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (job_must_stop(job))
            return ST_CLOSED;
        TRY(steps[i](job));
    }
    return ST_OK;
}
