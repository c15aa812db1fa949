/* Load on one HTTP/1.1 server with latency that hides nothing.
 *
 *     bench_open PORT CONNECTIONS RATE SECONDS COUNT KEYS FILE
 *
 * FILE holds one request; eight '#' in it become the number of the request modulo KEYS. With a
 * RATE, request i is due at start + i / RATE whatever became of those before it, and its latency
 * counts from then, so a server that stalls pays for all that should have been sent meanwhile. With
 * RATE 0 every connection sends its next request when it has the reply to the last. It ends after
 * SECONDS, or COUNT requests if that is not 0. The first tenth of the time is not counted.
 *
 * Prints one JSON object: rate, latency in us at percentiles, and the histogram. A reply other
 * than 2xx, or a connection that closes, ends it with status 1. */
#include <errno.h>
#include <inttypes.h>
#include <llhttp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 4096,
    REQUEST_MAX = 65536,
    READ_BYTES = 65536,
    EVENTS = 256,
    DIGITS = 8,
    KEYS_MAX = 100000000, /* what so many digits can tell apart */
    LATE_S = 10,          /* how long after the end replies are waited for */
};

/* Latencies in us: exact below 2^SUB_BITS, then 2^(SUB_BITS - 1) steps for each power of two. */
enum { SUB_BITS = 8, HALF = 1 << (SUB_BITS - 1), BUCKETS = 40 * HALF };

struct conn {
    int fd;
    llhttp_t parser;
    bool complete;
    uint64_t due; /* of the request under way, ns */
};

struct load {
    struct conn *conns;
    unsigned n_conns, n_idle;
    unsigned *idle;
    int epoll, timer;
    char request[REQUEST_MAX];
    size_t request_len;
    char *slot; /* where the number goes, or NULL */
    double rate;
    uint64_t start, counted_from, end, count, keys;
    uint64_t sent, replied, counted, last;
    uint64_t histogram[BUCKETS], max_us;
};

static llhttp_settings_t settings;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "bench_open: %s: %s\n", what, strerror(errno)); /* then exit */
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static unsigned bucket_of(uint64_t us)
{
    unsigned shift = 0;
    while (us >> shift >= 2 * HALF)
        shift++;
    unsigned at = shift * HALF + (unsigned)(us >> shift);
    return MIN(at, (unsigned)BUCKETS - 1);
}

/* The least latency of a bucket. */
static uint64_t bucket_us(unsigned at)
{
    if (at < 2 * HALF)
        return at;
    unsigned shift = at / HALF - 1;
    return (uint64_t)(at - shift * HALF) << shift;
}

static void count_latency(struct load *l, uint64_t due, uint64_t at)
{
    if (due < l->counted_from)
        return;
    uint64_t us = (at - due) / 1000;
    l->histogram[bucket_of(us)]++;
    l->max_us = MAX(l->max_us, us);
    l->counted++;
}

/* When request i is due. */
static uint64_t due_of(const struct load *l, uint64_t i)
{
    return l->start + (uint64_t)((double)i * 1e9 / l->rate);
}

static bool finished_sending(const struct load *l, uint64_t now)
{
    if (l->count != 0 && l->sent == l->count)
        return true;
    return l->rate > 0 ? due_of(l, l->sent) >= l->end : now >= l->end;
}

static void dispatch(struct load *l, unsigned which, uint64_t due)
{
    struct conn *c = &l->conns[which];
    char digits[DIGITS + 1];
    if (l->slot != NULL) {
        (void)snprintf(digits, sizeof digits, "%08u", (unsigned)(l->sent % l->keys));
        memcpy(l->slot, digits, DIGITS);
    }
    c->due = due;
    c->complete = false;
    l->sent++;
    check(write(c->fd, l->request, l->request_len) == (ssize_t)l->request_len, "sending");
}

/* Sends all that may be sent now; arms the timer for the next one. */
static void pump(struct load *l)
{
    uint64_t now = now_ns();
    while (l->n_idle > 0 && !finished_sending(l, now)) {
        uint64_t due = l->rate > 0 ? due_of(l, l->sent) : now;
        if (due > now) {
            struct itimerspec at = {.it_value = {.tv_sec = (time_t)(due / 1000000000U),
                                                 .tv_nsec = (long)(due % 1000000000U)}};
            check(timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &at, NULL) == 0, "timerfd_settime");
            return;
        }
        dispatch(l, l->idle[--l->n_idle], due);
    }
}

static int on_complete(llhttp_t *parser)
{
    struct conn *c = parser->data;
    if (parser->status_code / 100 != 2) {
        (void)fprintf(stderr, "bench_open: a reply of %d\n", (int)parser->status_code);
        exit(1);
    }
    c->complete = true;
    return 0;
}

static void on_readable(struct load *l, unsigned which)
{
    static char buf[READ_BYTES];
    struct conn *c = &l->conns[which];
    ssize_t n = read(c->fd, buf, sizeof buf);
    check(n > 0, "the connection closed");
    check(llhttp_execute(&c->parser, buf, (size_t)n) == HPE_OK, "parsing the reply");
    if (!c->complete)
        return;
    l->last = now_ns();
    l->replied++;
    count_latency(l, c->due, l->last);
    l->idle[l->n_idle++] = which;
}

static void connect_all(struct load *l, uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    for (unsigned i = 0; i < l->n_conns; i++) {
        struct conn *c = &l->conns[i];
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check(c->fd >= 0, "socket");
        check(connect(c->fd, (struct sockaddr *)&at, sizeof at) == 0, "connecting");
        check(setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
        llhttp_init(&c->parser, HTTP_RESPONSE, &settings);
        c->parser.data = c;
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        check(epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0, "epoll_ctl");
        l->idle[l->n_idle++] = i;
    }
}

static void run(struct load *l)
{
    struct epoll_event events[EVENTS];
    uint64_t expirations, late = l->end + (uint64_t)LATE_S * 1000000000U;
    for (pump(l); l->n_idle < l->n_conns || !finished_sending(l, now_ns()); pump(l)) {
        int n = epoll_wait(l->epoll, events, EVENTS, 100);
        check(n >= 0, "epoll_wait");
        for (int i = 0; i < n; i++)
            if (events[i].data.u32 < l->n_conns)
                on_readable(l, events[i].data.u32);
            else
                (void)!read(l->timer, &expirations, sizeof expirations); /* only to be quiet */
        if (now_ns() > late)
            break;
    }
    /* Requests without a reply, or never sent, is late by at least so much. */
    uint64_t now = now_ns();
    for (unsigned i = 0; i < l->n_conns; i++)
        if (!l->conns[i].complete && l->conns[i].due != 0)
            count_latency(l, l->conns[i].due, now);
    while (l->rate > 0 && !finished_sending(l, now))
        count_latency(l, due_of(l, l->sent++), now);
}

/* The least latency that `share` of the counted requests did not exceed. */
static uint64_t percentile(const struct load *l, double share)
{
    uint64_t seen = 0;
    for (unsigned at = 0; at < BUCKETS; at++) {
        seen += l->histogram[at];
        if (seen > 0 && (double)seen >= share * (double)l->counted)
            return MIN(bucket_us(at), l->max_us);
    }
    return l->max_us;
}

static void print(const struct load *l)
{
    const char *comma = "";
    double seconds = (double)(l->last - l->start) * 1e-9;
    (void)printf("{\"answered\": %" PRIu64 ", \"counted\": %" PRIu64 ", \"rate\": %.1f, "
                 "\"p50_us\": %" PRIu64 ", \"p90_us\": %" PRIu64 ", \"p99_us\": %" PRIu64
                 ", \"p999_us\": %" PRIu64 ", \"max_us\": %" PRIu64 ", \"histogram\": [",
                 l->replied, l->counted, (double)l->replied / seconds, percentile(l, 0.5),
                 percentile(l, 0.9), percentile(l, 0.99), percentile(l, 0.999), l->max_us);
    for (unsigned at = 0; at < BUCKETS; at++)
        if (l->histogram[at] != 0) {
            (void)printf("%s[%" PRIu64 ", %" PRIu64 "]", comma, bucket_us(at), l->histogram[at]);
            comma = ", ";
        }
    (void)printf("]}\n");
}

static void load_request(struct load *l, const char *path)
{
    FILE *file = fopen(path, "rb");
    check(file != NULL, path);
    l->request_len = fread(l->request, 1, sizeof l->request - 1, file);
    check(l->request_len > 0 && feof(file), path);
    (void)fclose(file); /* only read */
    l->slot = strstr(l->request, "########");
}

int main(int argc, char **argv)
{
    static struct load load;
    struct load *l = &load;
    if (argc != 8) {
        (void)fprintf(stderr, "usage: %s PORT CONNECTIONS RATE SECONDS COUNT KEYS FILE\n", argv[0]);
        return 2;
    }
    long port = strtol(argv[1], NULL, 10);
    long conns = strtol(argv[2], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    l->rate = strtod(argv[3], NULL);
    l->count = strtoull(argv[5], NULL, 10);
    l->keys = strtoull(argv[6], NULL, 10);
    if (port < 1 || port > UINT16_MAX || conns < 1 || conns > CONNECTIONS_MAX || seconds <= 0 ||
        l->rate < 0 || l->keys < 1 || l->keys > KEYS_MAX)
        return 2;
    load_request(l, argv[7]);
    l->n_conns = (unsigned)conns;
    l->conns = calloc(l->n_conns, sizeof *l->conns);
    l->idle = calloc(l->n_conns, sizeof *l->idle);
    check(l->conns != NULL && l->idle != NULL, "memory");
    llhttp_settings_init(&settings);
    settings.on_message_complete = on_complete;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    check(l->epoll >= 0 && l->timer >= 0, "epoll, timerfd");
    check(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0, "PR_SET_TIMERSLACK");
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = CONNECTIONS_MAX};
    check(epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &event) == 0, "epoll_ctl");
    connect_all(l, (uint16_t)port);
    l->start = now_ns();
    l->end = l->start + (uint64_t)(seconds * 1e9);
    l->counted_from = l->start + (uint64_t)(seconds * 1e8);
    run(l);
    print(l);
    return l->replied == 0;
}
