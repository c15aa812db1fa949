#include "worker/worker_internal.h"

#include "base/version.h"
#include "crypto/crypto.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RETRY_MS = 1000, WAIT_S = 30, WAIT_MORE_S = 15, STACK_BYTES = 512 * 1024 };

struct worker worker;

static const struct field worker_config_fields[] = {
    FIELD(struct worker_config, servers, STRINGS, .required = true),
    FIELD(struct worker_config, ca_file, STRING, .preset = ""),
    FIELD(struct worker_config, token_file, STRING, .required = true),
    FIELD(struct worker_config, data_dir, STRING, .required = true),
    FIELD(struct worker_config, name, STRING, .preset = ""),
    FIELD(struct worker_config, tools, STRINGS),
    FIELD(struct worker_config, plugin_cache_dir, STRING, .preset = ""),
    FIELD(struct worker_config, unsandboxed, BOOL, .preset = "false"),
    FIELD(struct worker_config, unpacked_bytes_max, SIZE, .preset = "512MiB"),
    FIELD(struct worker_config, stop_s, DURATION, .preset = "60s"),
};
static const struct schema worker_config_schema =
    SCHEMA(struct worker_config, worker_config_fields);

bool worker_thread(pthread_t *ret_thread, void *(*run)(void *), void *ctx)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES); /* above the least size */
    bool begun = pthread_create(ret_thread, &attr, run, ctx) == 0;
    (void)pthread_attr_destroy(&attr); /* destroying cannot fail */
    return begun;
}

/* Starting */

static enum status check_config(struct reason *why)
{
    const struct worker_config *c = &worker.config;
    const char *wrong = NULL;
    if (c->servers.n == 0 || c->servers.n > CLIENT_SERVERS_MAX)
        wrong = "servers: 1 to 16 addresses are expected";
    for (size_t i = 0; i < c->servers.n && wrong == NULL; i++)
        if (strncmp(c->servers.items[i], "https://", 8) != 0)
            wrong = "servers: each begins with https://";
    if (wrong == NULL && c->data_dir[0] != '/')
        wrong = "data_dir: an absolute path is expected";
    if (wrong == NULL && c->ca_file[0] != '\0' && c->ca_file[0] != '/')
        wrong = "ca_file: an absolute path is expected";
    if (wrong == NULL && c->plugin_cache_dir[0] != '\0' && c->plugin_cache_dir[0] != '/')
        wrong = "plugin_cache_dir: an absolute path is expected";
    if (wrong == NULL && !c->unsandboxed)
        wrong = "no sandbox is built yet: providers are programs of strangers, and would run with "
                "all that this user may do. `unsandboxed = true` accepts that";
    if (wrong == NULL)
        return ST_OK;
    reason_set(why, "%s", wrong);
    return ST_INVALID;
}

static enum status load_token(struct reason *why)
{
    CLEANUP(buf_done) struct buf token = {0};
    enum status st = client_read_file(worker.config.token_file, CLIENT_FILE_MAX, &token);
    client_trim(&token);
    if (st == ST_OK && (token.len == 0 || token.len > 512))
        st = ST_INVALID;
    if (st != ST_OK) {
        reason_set(why, "token_file %.160s: %s", worker.config.token_file, status_text(st));
        return st;
    }
    worker.header = arena_format(&worker.arena, "Authorization: Bearer %.*s", (int)token.len,
                                 (const char *)token.data);
    return worker.header != NULL ? ST_OK : ST_NOMEM;
}

/* One process uses the folder. The descriptor stays open until the end. */
static enum status take_folder(struct reason *why)
{
    const char *dir = worker.config.data_dir;
    const char *path = arena_format(&worker.arena, "%s/lock", dir);
    int fd = -1;
    if (path == NULL)
        return ST_NOMEM;
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return ST_OK;
    reason_set(why, "data_dir %.160s: %s", dir,
               errno == EWOULDBLOCK ? "another worker uses it" : strerror(errno));
    return ST_IO;
}

static enum status get_ready(const char *path, struct reason *why)
{
    struct worker_config *c = &worker.config;
    bool locked;
    char host[256] = "worker";
    TRY(crypto_init(&locked));
    TRY(client_load_config(path, &worker_config_schema, &worker.arena, c, why));
    TRY(check_config(why));
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "worker"); /* "worker" fits */
    if (c->name[0] == '\0')
        c->name = arena_str(&worker.arena, bytes_str(host));
    if (c->name == NULL)
        return ST_NOMEM;
    worker.client.servers = c->servers;
    worker.client.ca_file = c->ca_file;
    worker.lease_s = worker.renew_s = worker.heartbeat_s = 20; /* until the servers say more */
    TRY(load_token(why));
    TRY(take_folder(why));
    /* A run of the same user may then read neither the memory nor the environment of the worker. */
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        reason_set(why, "prctl: %s", strerror(errno));
        return ST_IO;
    }
    return worker_find_tools(why);
}

/* Registering */

static char *agent_file(struct arena *arena)
{
    return arena_format(arena, "%s/agent", worker.config.data_dir);
}

static void put_registration(struct text_writer *w, const char *agent)
{
    text_open_object(w);
    text_member_str(w, "name", worker.config.name);
    text_member_str(w, "version", arena_concat(&worker.arena, "holdfast ", holdfast_version));
    if (agent[0] != '\0')
        text_member_str(w, "agent_id", agent);
    text_key(w, "tools");
    text_open_list(w);
    for (size_t i = 0; i < worker.n_tools; i++) {
        text_open_object(w);
        text_member_str(w, "tool", worker.tools[i].kind);
        text_member_str(w, "version", worker.tools[i].version);
        text_close(w);
    }
    text_close(w);
    text_close(w);
}

static int64_t bounded(const struct text_value *of, const char *name, int64_t preset, int64_t max)
{
    int64_t n = member_int(of, name);
    return n <= 0 ? preset : MIN(n, max);
}

static enum status read_registration(struct arena *arena, struct bytes reply)
{
    const struct text_value *said = NULL;
    TRY(text_json_parse(arena, reply, &said, NULL));
    const char *agent = member_text(said, "agent_id");
    if (agent[0] == '\0' || strlen(agent) >= sizeof worker.agent || strchr(agent, '/') != NULL)
        return ST_INVALID;
    (void)snprintf(worker.agent, sizeof worker.agent, "%s", agent); /* measured above */
    worker.lease_s = bounded(said, "lease_s", 60, 3600);
    worker.renew_s = MIN(bounded(said, "renew_s", 20, 3600), worker.lease_s);
    worker.heartbeat_s = bounded(said, "heartbeat_s", 20, 3600);
    worker.log_bytes_max = bounded(said, "log_bytes_max", 32 << 20, INT64_C(256) << 20);
    worker.file_bytes_max = bounded(said, "file_bytes_max", 64 << 20, INT64_C(64) << 20);
    return client_write_file(agent_file(arena), bytes_str(worker.agent));
}

/* One attempt. ST_DENIED: the token is refused. */
static enum status register_once(void)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf body = {0}, reply = {0}, agent = {0};
    struct text_writer w = {.out = &body};
    struct client_call call = {.method = "POST",
                               .path = "/api/v2/worker/register",
                               .header = worker.header,
                               .type = "application/json",
                               .idle = true};
    const char *path = agent_file(&arena);
    if (path == NULL)
        return ST_NOMEM;
    if (client_read_file(path, WORKER_ID_MAX, &agent) != ST_OK)
        buf_clear(&agent); /* the servers give a new id */
    client_trim(&agent);
    buf_add_u8(&agent, 0);
    TRY(buf_status(&agent));
    put_registration(&w, (const char *)agent.data);
    TRY(buf_status(&body));
    call.body = buf_bytes(&body);
    TRY(worker_ask(&call, &reply));
    if (call.http == 200)
        return read_registration(&arena, buf_bytes(&reply));
    worker_say("the servers refuse this worker: %d %.*s", call.http, (int)reply.len,
               reply.len != 0 ? (const char *)reply.data : "");
    return call.http == 401 || call.http == 403 || call.http == 404 ? ST_DENIED : ST_BUSY;
}

/* Register, as often as needed. False: the worker ends. */
static bool insist_on_registering(void)
{
    bool said = false;
    for (enum status st = register_once(); st != ST_OK; st = register_once()) {
        if (client_is_ending() || st == ST_DENIED)
            return false;
        if (!said)
            worker_say("registering: %s; trying again", status_text(st));
        said = true;
        client_sleep_ms(RETRY_MS);
    }
    worker.unknown = false;
    worker_say("agent %s (%s) is registered", worker.agent, worker.config.name);
    return true;
}

/* Heartbeats */

static void worker_heartbeat(const char *status)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    char path[256];
    struct client_call call = {.method = "POST",
                               .path = path,
                               .header = worker.header,
                               .type = "application/json",
                               .timeout_s = 5};
    (void)snprintf(path, sizeof path, "/api/v2/worker/agents/%s/heartbeat", worker.agent);
    buf_add_format(&body, "{\"status\":\"%s\"}", status);
    call.body = buf_bytes(&body);
    if (buf_status(&body) == ST_OK && worker_ask(&call, &reply) == ST_OK && call.http == 404)
        worker.unknown = true;
}

static void *beat_run(void *unused)
{
    (void)unused;
    while (!worker.over) {
        worker_heartbeat(worker.busy ? "busy" : "idle");
        for (int64_t i = 0; i < worker.heartbeat_s * 5 && !worker.over; i++)
            client_sleep_ms(200);
    }
    return NULL;
}

/* Jobs */

static enum status new_claim(char ret_claim[WORKER_CLAIM_LEN + 1])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t random[WORKER_CLAIM_LEN];
    TRY(crypto_random(random, sizeof random));
    for (size_t i = 0; i < WORKER_CLAIM_LEN; i++)
        ret_claim[i] =
            letters[random[i] %
                    (sizeof letters - 1)]; /* nearly even, which is enough to be unguessable */
    ret_claim[WORKER_CLAIM_LEN] = '\0';
    return ST_OK;
}

/* Claim a job, and carry it out if it was given. The claim is repeated until a server decides: a
 * job whose reply was lost is this worker's. */
static bool claim_job(const char *id)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    char path[256], claim[WORKER_CLAIM_LEN + 1];
    struct client_call call = {
        .method = "POST", .path = path, .header = worker.header, .type = "application/json"};
    if (new_claim(claim) != ST_OK)
        return false;
    int n = snprintf(path, sizeof path, "/api/v2/worker/agents/%s/jobs/%s/claim", worker.agent, id);
    buf_add_format(&body, "{\"claim\":\"%s\"}", claim);
    if (buf_status(&body) != ST_OK || n < 0 || (size_t)n >= sizeof path)
        return false;
    call.body = buf_bytes(&body);
    uint64_t sent_ms = client_mono_ms();
    while (worker_ask(&call, &reply) != ST_OK) {
        if (client_is_ending())
            return false; /* a job that was given after all ends with its lease */
        client_sleep_ms(RETRY_MS);
        sent_ms = client_mono_ms();
    }
    if (call.http != 200)
        return false;
    worker_job(id, claim, sent_ms, buf_bytes(&reply));
    return true;
}

/* One look at the jobs that wait. *index is that of the last look. */
static enum status look_for_jobs(uint64_t *index)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf reply = {0};
    const struct text_value *said = NULL;
    char path[256];
    struct client_call call = {.method = "GET",
                               .path = path,
                               .header = worker.header,
                               .timeout_s = WAIT_S + WAIT_MORE_S,
                               .idle = true};
    (void)snprintf(path, sizeof path, "/api/v2/worker/agents/%s/jobs?index=%llu&wait=%ds",
                   worker.agent, (unsigned long long)*index, WAIT_S); /* the id is short */
    TRY(worker_ask(&call, &reply));
    if (call.http == 404)
        worker.unknown = true;
    if (call.http != 200)
        return ST_BUSY;
    TRY(text_json_parse(&arena, buf_bytes(&reply), &said, NULL));
    const struct text_value *jobs = text_get(said, "jobs");
    *index = (uint64_t)MAX(member_int(said, "index"), INT64_C(0));
    for (const struct text_value *job = jobs != NULL && jobs->kind == TEXT_LIST ? jobs->first
                                                                                : NULL;
         job != NULL && !client_is_ending(); job = job->next)
        if (claim_job(member_text(job, "id"))) {
            *index = 0; /* the list is old by now */
            break;
        }
    return ST_OK;
}

static bool worker_loop(void)
{
    uint64_t index = 0;
    while (!client_is_ending()) {
        if (worker.unknown && !insist_on_registering())
            return client_is_ending();
        if (look_for_jobs(&index) != ST_OK && !client_is_ending()) {
            index = 0;
            client_sleep_ms(RETRY_MS);
        }
    }
    return true;
}

int worker_run(const char *path)
{
    struct reason why = {{0}};
    pthread_t beats;
    client_catch_signals();
    enum status st = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? get_ready(path, &why) : ST_IO;
    if (st != ST_OK) {
        worker_say("%s", why.text[0] != '\0' ? why.text : status_text(st));
        return EXIT_FAILURE;
    }
    worker_say("runs are not isolated (unsandboxed = true)");
    if (!insist_on_registering())
        return client_is_ending() ? EXIT_SUCCESS : EXIT_FAILURE;
    worker_collect_left_behind();
    if (!worker_thread(&beats, beat_run, NULL)) {
        worker_say("the system has no room for a thread");
        return EXIT_FAILURE;
    }
    bool good = worker_loop();
    worker.over = true;
    (void)pthread_join(beats, NULL); /* a thread of ours */
    worker_heartbeat("exited");
    worker_say("ends");
    arena_done(&worker.arena);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
