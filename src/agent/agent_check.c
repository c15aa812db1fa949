/* Services of an allocation and their checks (B7, B12): what runs is registered while it runs, and
 * each check keeps its latest result. */
#include "agent/agent_internal.h"

#include "base/mem.h"
#include "crypto/digest.h"
#include "text/encode.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHECKS_MAX = 64, OUTPUT_MAX = 3072, LOOK_MS = 100, ADDRESS_MAX = 64 };

typedef void service_fn(const struct alloc *alloc, const char *task,
                        const struct text_value *service, void *ctx);

static void of_list(const struct alloc *alloc, const char *task, const struct text_value *of,
                    service_fn *each, void *ctx)
{
    const struct text_value *list = text_get(of, "Services");
    if (list == NULL || list->kind != TEXT_LIST)
        return;
    TEXT_FOR (service, list)
        if (strcmp(member_text(service, "Provider"), "nomad") == 0)
            each(alloc, task, service, ctx);
}

static void each_service(const struct alloc *alloc, service_fn *each, void *ctx)
{
    of_list(alloc, NULL, alloc->group, each, ctx);
    for (unsigned i = 0; i < alloc->n_tasks; i++)
        of_list(alloc, alloc->tasks[i].name, alloc->tasks[i].spec, each, ctx);
}

static void check_put_service(const struct alloc *alloc, const char *task,
                              const struct text_value *service, void *ctx)
{
    struct text_writer *w = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const char *label = member_text(service, "PortLabel"), *address = agent.config.address;
    int64_t port = alloc_port(alloc, label, &address);
    const char *group = member_text(alloc->spec, "TaskGroup");
    const char *id =
        arena_format(&arena, "_nomad-task-%s-%s%s-%s-%s", alloc->id, task != NULL ? "" : "group-",
                     task != NULL ? task : group, member_text(service, "Name"), label);
    text_open_object(w);
    text_member_str(w, "ID", id != NULL ? id : "");
    text_member_str(w, "ServiceName", member_text(service, "Name"));
    text_member_str(w, "Namespace", "default");
    text_member_str(w, "NodeID", agent.node);
    text_member_str(w, "Datacenter", agent.config.datacenter);
    text_member_str(w, "JobID", member_text(alloc->spec, "JobID"));
    text_member_str(w, "AllocID", alloc->id);
    text_member_str(w, "Address", address);
    text_member_int(w, "Port", port);
    text_key(w, "Tags");
    text_put_value(w, text_get(service, "Tags"));
    text_close(w);
}

void alloc_put_services(const struct alloc *alloc, struct text_writer *w)
{
    each_service(alloc, check_put_service, w);
}

/* Checks */

struct check {
    char id[2 * CRYPTO_DIGEST_MAX + 1]; /* hex of SHA-256 */
    const char *task, *service;         /* in the allocation */
    const struct text_value *spec;
    char address[ADDRESS_MAX];
    int64_t port;
    uint64_t due_ms;
    const char *status;
    int code;
    int64_t at_s;
    struct buf output;
};

struct checks {
    struct check items[CHECKS_MAX];
    unsigned n;
};

static void name_check(const struct alloc *alloc, struct check *c)
{
    CLEANUP(buf_done) struct buf text = {0};
    uint8_t digest[CRYPTO_DIGEST_MAX];
    size_t len = 0;
    buf_add_format(&text, "%s\n%s\n%s\n%s\n%s\n%s", alloc->id, c->task != NULL ? c->task : "",
                   c->service, member_text(c->spec, "Name"), member_text(c->spec, "Type"),
                   member_text(c->spec, "Path"));
    if (buf_status(&text) != ST_OK ||
        crypto_digest("sha2-256", buf_bytes(&text), digest, &len) != ST_OK)
        len = 0; /* the check has no id then */
    text_hex_put(bytes_of(digest, len), c->id);
}

static void add_checks(const struct alloc *alloc, const char *task,
                       const struct text_value *service, void *ctx)
{
    struct checks *checks = ctx;
    const struct text_value *list = text_get(service, "Checks");
    if (list == NULL || list->kind != TEXT_LIST)
        return;
    TEXT_FOR (spec, list) {
        const char *own = member_text(spec, "PortLabel"), *address = agent.config.address;
        if (checks->n == CHECKS_MAX)
            return;
        struct check *c = &checks->items[checks->n++];
        *c = (struct check){.task = task, .spec = spec, .status = "pending"};
        c->service = member_text(service, "Name");
        c->port =
            alloc_port(alloc, own[0] != '\0' ? own : member_text(service, "PortLabel"), &address);
        (void)snprintf(c->address, sizeof c->address, "%s", address);
        name_check(alloc, c);
    }
}

static size_t on_output(char *data, size_t size, size_t n, void *ctx)
{
    struct buf *to = ctx;
    size_t room = to->len < OUTPUT_MAX ? OUTPUT_MAX - to->len : 0;
    buf_add(to, bytes_of(data, MIN(room, n * size)));
    return n * size;
}

static void check_http(struct check *c, long timeout_ms)
{
    CURL *curl = curl_easy_init();
    char url[512];
    long http = 0;
    (void)snprintf(url, sizeof url, "%s://%s:%lld%s", member_text(c->spec, "Protocol"), c->address,
                   (long long)c->port, member_text(c->spec, "Path"));
    bool good = curl != NULL && curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, member_text(c->spec, "Method")) ==
                       CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_output) == CURLE_OK;
    good = good && curl_easy_setopt(curl, CURLOPT_WRITEDATA, &c->output) == CURLE_OK;
    CURLcode rc = good ? curl_easy_perform(curl) : CURLE_FAILED_INIT;
    if (rc == CURLE_OK)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http); /* 0 counts as a failure */
    c->code = (int)http;
    c->status = http >= 200 && http < 400 ? "success" : "failure";
    if (http == 0 || http == 200) {
        buf_clear(&c->output);
        buf_add_str(&c->output, http == 200 ? "nomad: http ok" : curl_easy_strerror(rc));
    }
    curl_easy_cleanup(curl);
}

static void check_tcp(struct check *c, long timeout_ms)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), failure = 0;
    socklen_t len = sizeof failure;
    bool begun = fd >= 0 && inet_pton(AF_INET, c->address, &to.sin_addr) == 1 &&
                 (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    bool good = begun && poll(&poll_fd, 1, (int)timeout_ms) > 0 &&
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) == 0 && failure == 0;
    if (fd >= 0)
        (void)close(fd); /* nothing was sent */
    c->status = good ? "success" : "failure";
    buf_add_str(&c->output, good ? "nomad: tcp ok" : strerror(failure != 0 ? failure : ETIMEDOUT));
}

static void put_check(const struct alloc *alloc, const struct check *c, struct text_writer *w)
{
    bool readiness = strcmp(member_text(c->spec, "OnUpdate"), "ignore") == 0;
    text_key(w, c->id);
    text_open_object(w);
    text_member_str(w, "ID", c->id);
    text_member_str(w, "Mode", readiness ? "readiness" : "healthiness");
    text_member_str(w, "Status", c->status);
    if (c->code != 0)
        text_member_int(w, "StatusCode", c->code);
    text_key(w, "Output");
    text_put_bytes(w, buf_bytes(&c->output));
    text_member_int(w, "Timestamp", c->at_s);
    text_member_str(w, "Group", alloc->name);
    if (c->task != NULL)
        text_member_str(w, "Task", c->task);
    text_member_str(w, "Service", c->service);
    text_member_str(w, "Check", member_text(c->spec, "Name"));
    text_close(w);
}

/* Show the results in the allocation; the lock is held. */
static void check_publish(struct alloc *alloc, const struct checks *checks)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text};
    text_open_object(&w);
    for (unsigned i = 0; i < checks->n; i++)
        put_check(alloc, &checks->items[i], &w);
    text_close(&w);
    buf_add_u8(&text, 0);
    char *own = buf_status(&text) == ST_OK ? mem_strdup((const char *)text.data) : NULL;
    if (own == NULL)
        return;
    mem_free(alloc->checks);
    alloc->checks = own;
    alloc_changed(alloc);
}

/* Run what is due. Returns whether a result changed. */
static bool run_due(struct checks *checks)
{
    bool changed = false;
    for (unsigned i = 0; i < checks->n; i++) {
        struct check *c = &checks->items[i];
        const char *before = c->status;
        if (client_mono_ms() < c->due_ms)
            continue;
        c->due_ms = client_mono_ms() + (uint64_t)(member_int(c->spec, "Interval") / 1000000);
        buf_clear(&c->output);
        long timeout_ms = (long)(member_int(c->spec, "Timeout") / 1000000);
        if (strcmp(member_text(c->spec, "Type"), "tcp") == 0)
            check_tcp(c, timeout_ms);
        else
            check_http(c, timeout_ms);
        changed = changed || before != c->status;
        c->at_s = time(NULL);
    }
    return changed;
}

void *agent_checks_run(void *ctx)
{
    struct alloc *alloc = ctx;
    struct checks *checks = mem_zalloc(sizeof *checks);
    agent_lock();
    if (checks != NULL)
        each_service(alloc, add_checks, checks);
    if (checks != NULL && checks->n != 0)
        check_publish(alloc, checks);
    while (checks != NULL && checks->n != 0 && !alloc->stopping && !alloc_ended(alloc)) {
        const char *text;
        bool runs = strcmp(alloc_status(alloc, &text), "running") == 0;
        agent_unlock();
        bool changed = runs && run_due(checks);
        agent_lock();
        if (changed)
            check_publish(alloc, checks);
        agent_wait(LOOK_MS);
    }
    alloc->checker = false;
    agent_unlock();
    for (unsigned i = 0; checks != NULL && i < checks->n; i++)
        buf_done(&checks->items[i].output);
    mem_free(checks);
    return NULL;
}
