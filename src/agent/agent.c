#include "agent/agent_internal.h"

#include "crypto/crypto.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 1000, WORK_WAIT_S = 60 };

struct agent agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const struct field config_fields[] = {
    FIELD(struct agent_config, servers, STRINGS, .required = true),
    FIELD(struct agent_config, ca_file, STRING, .preset = ""),
    FIELD(struct agent_config, join_token_file, STRING, .preset = ""),
    FIELD(struct agent_config, data_dir, STRING, .required = true),
    FIELD(struct agent_config, name, STRING, .preset = ""),
    FIELD(struct agent_config, datacenter, STRING, .preset = "dc1"),
    FIELD(struct agent_config, node_class, STRING, .preset = ""),
    FIELD(struct agent_config, address, STRING, .preset = "127.0.0.1"),
    FIELD(struct agent_config, meta, MAP),
    FIELD(struct agent_config, raw_exec, BOOL, .preset = "false"),
    FIELD(struct agent_config, cpu, INT, .preset = "0"),
    FIELD(struct agent_config, memory_mb, INT, .preset = "0"),
    FIELD(struct agent_config, disk_mb, INT, .preset = "0"),
};
static const struct schema config_schema = SCHEMA(struct agent_config, config_fields);

/* Small things */

void agent_lock(void)
{
    int rc = pthread_mutex_lock(&agent.lock);
    ASSERT(rc == 0);
}

void agent_unlock(void)
{
    int rc = pthread_mutex_unlock(&agent.lock);
    ASSERT(rc == 0);
}

void agent_wait(unsigned ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* the clock exists */
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&agent.changed, &agent.lock, &until); /* the caller looks again */
}

static enum status load_config(const char *path, struct reason *why)
{
    struct agent_config *config = &agent.config;
    TRY(client_load_config(path, &config_schema, &agent.arena, config, why));
    if (config->servers.n != 0 && config->servers.n <= CLIENT_SERVERS_MAX)
        return ST_OK;
    reason_set(why, "servers: 1 to %d addresses are expected", CLIENT_SERVERS_MAX);
    return ST_INVALID;
}

/* Joining */

/* The node's id and secret: those of an earlier start, or new ones for the join token. */
static enum status agent_become_node(void)
{
    CLEANUP(buf_done) struct buf text = {0}, body = {0}, token = {0};
    const struct text_value *reply;
    char *path = arena_format(&agent.arena, "%s/node", agent.config.data_dir);
    int http = 0;
    if (path == NULL)
        return ST_NOMEM;
    if (client_read_file(path, CLIENT_FILE_MAX, &text) == ST_OK &&
        text.len >= 2 * AGENT_UUID_LEN + 1) {
        memcpy(agent.node, text.data, AGENT_UUID_LEN);
        memcpy(agent.secret, text.data + AGENT_UUID_LEN + 1, AGENT_UUID_LEN);
        return ST_OK;
    }
    TRY(client_read_file(agent.config.join_token_file, CLIENT_FILE_MAX, &token));
    client_trim(&token);
    if (token.len != AGENT_UUID_LEN)
        return ST_INVALID;
    memcpy(agent.secret, token.data, AGENT_UUID_LEN);
    TRY(agent_request("POST", "client/node/join", BYTES("{}"), &http, &body));
    if (http != 200) {
        agent_say("the join token was refused: %d %.*s", http, (int)body.len,
                  (const char *)body.data);
        return ST_DENIED;
    }
    TRY(text_json_parse(&agent.arena, buf_bytes(&body), &reply, NULL));
    (void)snprintf(agent.node, sizeof agent.node, "%s", member_text(reply, "NodeID"));
    (void)snprintf(agent.secret, sizeof agent.secret, "%s", member_text(reply, "SecretID"));
    buf_clear(&text);
    buf_add_format(&text, "%s %s\n", agent.node, agent.secret);
    TRY(buf_status(&text));
    return client_write_file(path, buf_bytes(&text));
}

static void put_attributes(struct text_writer *w)
{
    struct utsname uts;
    char number[32];
    (void)uname(&uts); /* the pointer is valid */
    text_key(w, "Attributes");
    text_open_object(w);
    text_member_str(w, "kernel.name", "linux");
    text_member_str(w, "kernel.version", uts.release);
    text_member_str(w, "cpu.arch", strcmp(uts.machine, "x86_64") == 0 ? "amd64" : uts.machine);
    (void)snprintf(number, sizeof number, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    text_member_str(w, "cpu.numcores", number);
    (void)snprintf(number, sizeof number, "%lld", (long long)agent.config.cpu);
    text_member_str(w, "cpu.totalcompute", number);
    text_member_str(w, "unique.hostname", uts.nodename);
    text_member_str(w, "unique.network.ip-address", agent.config.address);
    if (agent.config.raw_exec)
        text_member_str(w, "driver.raw_exec", "1");
    text_close(w);
}

/* The facts about this machine. */
static void fingerprint(struct text_writer *w)
{
    struct statvfs disk;
    struct agent_config *c = &agent.config;
    if (c->cpu == 0)
        c->cpu = 1000 * sysconf(_SC_NPROCESSORS_ONLN);
    if (c->memory_mb == 0)
        c->memory_mb = sysconf(_SC_PHYS_PAGES) / 256 * (sysconf(_SC_PAGESIZE) / 4096);
    if (c->disk_mb == 0 && statvfs(c->data_dir, &disk) == 0)
        c->disk_mb = (int64_t)(disk.f_bavail / 1024 * (disk.f_frsize / 1024));
    text_open_object(w);
    text_member_str(w, "Name", c->name);
    text_member_str(w, "Datacenter", c->datacenter);
    text_member_str(w, "NodeClass", c->node_class);
    text_member_int(w, "CPU", c->cpu);
    text_member_int(w, "MemoryMB", c->memory_mb);
    text_member_int(w, "DiskMB", c->disk_mb);
    text_key(w, "Facts");
    text_open_object(w);
    put_attributes(w);
    text_key(w, "Meta");
    text_open_object(w);
    for (size_t i = 0; i < c->meta.n; i++)
        text_member_str(w, c->meta.pairs[2 * i], c->meta.pairs[2 * i + 1]);
    text_close(w);
    text_close(w);
    text_close(w);
}

static enum status agent_register_node(void)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    struct text_writer w = {.out = &body, .plain = true};
    int http = 0;
    fingerprint(&w);
    TRY(buf_status(&body));
    TRY(agent_request("POST", "client/node/register", buf_bytes(&body), &http, &reply));
    if (http == 200)
        return ST_OK;
    agent_say("the node was refused: %d %.*s", http, (int)reply.len, (const char *)reply.data);
    return http == 403 ? ST_DENIED : ST_BUSY;
}

/* Threads */

static void *beat_run(void *unused)
{
    (void)unused;
    for (;;) {
        struct arena arena = {0};
        struct buf reply = {0};
        const struct text_value *said = NULL;
        int http = 0;
        int64_t ttl_ms = RETRY_MS;
        enum status st = agent_request("POST", "client/node/beat", BYTES("{}"), &http, &reply);
        if (st == ST_OK && http == 200 &&
            text_json_parse(&arena, buf_bytes(&reply), &said, NULL) == ST_OK)
            ttl_ms = MAX(member_int(said, "TTLMs"), INT64_C(200));
        buf_done(&reply);
        arena_done(&arena);
        client_sleep_ms(said != NULL ? ttl_ms / 2 : RETRY_MS);
    }
    return NULL;
}

/* One look at the work. *index is that of the last one. */
static enum status look_for_work(uint64_t *index)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf reply = {0};
    const struct text_value *list;
    int http = 0;
    char path[96];
    (void)snprintf(path, sizeof path, "client/node/allocations?index=%llu&wait=%ds",
                   (unsigned long long)*index, WORK_WAIT_S);
    TRY(agent_request("GET", path, (struct bytes){0}, &http, &reply));
    if (http != 200)
        return ST_BUSY;
    TRY(text_json_parse(&arena, buf_bytes(&reply), &list, NULL));
    *index = agent_last_index();
    agent_reconcile(list);
    return ST_OK;
}

/* End every process: none outlives the agent. */
static void end_all(void)
{
    agent_lock();
    LIST_FOR (item, &agent.allocs) {
        const struct alloc *alloc = CONTAINER_OF(item, struct alloc, link);
        for (unsigned i = 0; i < alloc->n_tasks; i++)
            if (alloc->tasks[i].pid > 0)
                (void)kill(-alloc->tasks[i].pid, SIGKILL); /* the group may have ended already */
    }
    agent_unlock();
}

static bool start_threads(void)
{
    bool begun = client_thread(beat_run, NULL) && client_thread(agent_report_run, NULL);
    for (size_t i = 0; i < agent.config.servers.n; i++)
        begun = begun &&
                client_thread(agent_link_run, (void *)(uintptr_t)agent.config.servers.items[i]);
    return begun;
}

/* Do until it succeeds. False: the agent ends. */
static bool insist(enum status (*act)(void), const char *what)
{
    for (enum status st = act(); st != ST_OK; st = act()) {
        agent_say("%s: %s", what, status_text(st));
        if (client_is_ending() || st == ST_DENIED || st == ST_INVALID || st == ST_NOT_FOUND)
            return false;
        client_sleep_ms(RETRY_MS);
    }
    return true;
}

static void *work_run(void *unused)
{
    uint64_t index = 0;
    (void)unused;
    for (;;)
        if (look_for_work(&index) != ST_OK)
            client_sleep_ms(RETRY_MS);
    return NULL;
}

int agent_run(const char *path)
{
    struct reason why = {{0}};
    bool locked;
    enum status st = load_config(path, &why);
    if (st == ST_OK)
        st = crypto_init(&locked);
    if (st != ST_OK || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        agent_say("%s", why.text[0] != '\0' ? why.text : status_text(st));
        return EXIT_FAILURE;
    }
    list_init(&agent.allocs);
    agent.client.servers = agent.config.servers;
    agent.client.ca_file = agent.config.ca_file;
    client_catch_signals();
    if (mkdir(agent.config.data_dir, 0711) != 0 && errno != EEXIST) {
        agent_say("%s: %s", agent.config.data_dir, strerror(errno));
        return EXIT_FAILURE;
    }
    if (agent.config.name[0] == '\0')
        agent.config.name = "agent";
    if (!insist(agent_become_node, "joining") || !insist(agent_register_node, "registering"))
        return EXIT_FAILURE;
    agent_say("node %s (%s) is registered", agent.node, agent.config.name);
    if (!start_threads() || !client_thread(work_run, NULL))
        return EXIT_FAILURE;
    while (!client_is_ending())
        client_sleep_ms(RETRY_MS); /* a signal ends the sleep */
    end_all();
    agent_say("ends");
    _exit(EXIT_SUCCESS); /* other threads still use what handlers of exit release */
}
