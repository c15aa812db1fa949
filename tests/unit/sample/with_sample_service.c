/* A service that calls out. Every few seconds the active node sends a line to the address of the
 * configuration and stores the line that comes back: any node serves that one (with_sample_lamp.c).
 *
 *   s/ns/root/sample/said    the last line */
#include "base/mem.h"
#include "sample/sample.h"
#include "state/ns_key.h"
#include "text/address.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_S = 2, LINE_MAX_BYTES = 63 };

struct settings {
    const char *call;
    int64_t every;
};
static const struct field settings_fields[] = {
    FIELD(struct settings, call, STRING, .preset = "",
          .help = "IPv4 address and port that the service calls; empty: none."),
    FIELD(struct settings, every, DURATION, .preset = "1s", .help = "Time between two calls."),
};
static const struct schema settings_schema = SCHEMA(struct settings, settings_fields);

const struct config_block sample_block = {.name = "sample", .schema = &settings_schema};

static const struct settings *settings; /* set before threads start */
static _Atomic uint64_t calls, failures;

void sample_configure(const void *fields)
{
    ASSERT(settings == NULL || settings == fields);
    settings = fields;
}

void sample_metrics(struct metric_out *out)
{
    metric_one(out, "holdfast_sample_calls_total", METRIC_COUNTER,
               "Calls of the sample service that were answered.", atomic_load(&calls));
    metric_one(out, "holdfast_sample_failures_total", METRIC_COUNTER,
               "Calls of the sample service that failed.", atomic_load(&failures));
}

/* A connection whose every step is bounded; -1: there is none. */
static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char host[TEXT_HOST_MAX];
    uint16_t port;
    if (text_address_split(settings->call, host, &port) != ST_OK ||
        inet_pton(AF_INET, host, &to.sin_addr) != 1)
        return -1;
    to.sin_port = htons(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    (void)close(fd); /* nothing was written */
    return -1;
}

/* Ask once. False: no whole line came back. */
static bool ask(char ret_line[LINE_MAX_BYTES + 1])
{
    static const char question[] = "who is there?\n";
    size_t n = 0;
    int fd = dial();
    if (fd < 0)
        return false;
    bool whole = send(fd, question, sizeof question - 1, MSG_NOSIGNAL) == sizeof question - 1;
    while (whole && (n == 0 || ret_line[n - 1] != '\n')) {
        ssize_t got = n < LINE_MAX_BYTES ? recv(fd, ret_line + n, 1, 0) : -1;
        whole = got == 1;
        n += whole;
    }
    (void)close(fd); /* everything was read */
    if (whole)
        ret_line[n - 1] = '\0';
    return whole;
}

static enum status said_key(struct arena *arena, struct bytes *ret_key)
{
    return state_ns_key(arena, STATE_NS_ROOT, "sample", BYTES("said"), NULL, ret_key);
}

static enum status stage_line(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct bytes key;
    (void)now_ms;
    TRY(said_key(txn->arena, &key));
    return state_put(txn, key, bytes_str(ctx));
}

/* Transactions that fail are not repeated: the next call stores a newer line. */
static void call_out(struct service *service)
{
    char line[LINE_MAX_BYTES + 1];
    while (service_wait(service, (uint64_t)settings->every * 1000)) {
        if (settings->call[0] == '\0')
            continue;
        bool good = ask(line) && service_transact(service, stage_line, line) == ST_OK;
        atomic_fetch_add(good ? &calls : &failures, 1);
    }
}

const struct node_service sample_service = {.name = "sample", .run = call_out};

enum status sample_said(struct req *req)
{
    struct state_value stored;
    struct bytes key;
    TRY(said_key(req->arena, &key));
    TRY(state_get(req->txn, key, &stored));
    const struct sample_line out = {arena_str(req->arena, stored.value)};
    return out.line != NULL ? req_reply(req, &out) : ST_NOMEM;
}
