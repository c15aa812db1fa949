/* Devices that write to receivers behind sockets, and to syslog. */
#include "device_world.h"

#include "audit/sink_peer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A receiver; `fd` listens or takes datagrams. */
struct receiver {
    int fd;
    char address[128];
};

static struct receiver listen_host(int type, uint16_t port)
{
    struct receiver r = {.fd = socket(AF_INET, type | SOCK_CLOEXEC, 0)};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof name;
    int on = 1;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(r.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(r.fd, (struct sockaddr *)(void *)&name, len), 0);
    assert_int_equal(getsockname(r.fd, (struct sockaddr *)(void *)&name, &len), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(r.fd, 8), 0);
    (void)snprintf(r.address, sizeof r.address, "127.0.0.1:%u", ntohs(name.sin_port));
    return r;
}

static struct receiver listen_unix(int type, const char *path)
{
    struct receiver r = {.fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    (void)snprintf(r.address, sizeof r.address, "%s", path);
    assert_int_equal(bind(r.fd, (struct sockaddr *)(void *)&name, sizeof name), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(r.fd, 8), 0);
    return r;
}

static uint16_t port_of(const struct receiver *r)
{
    return (uint16_t)atoi(strchr(r->address, ':') + 1);
}

/* Read a line from a stream, one byte at a time; without its newline. */
static void read_line(int fd, char *line, size_t max)
{
    size_t n = 0;
    for (;;) {
        assert_true(n < max);
        assert_int_equal(recv(fd, line + n, 1, 0), 1);
        if (line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
}

static void assert_next(int fd, unsigned n)
{
    char line[8192], want[32];
    (void)snprintf(want, sizeof want, "\"n\":%u,", n);
    read_line(fd, line, sizeof line);
    if (line[0] != '{' || line[strlen(line) - 1] != '}' || strstr(line, want) == NULL)
        fail_msg("wanted %s, have %s", want, line);
}

static int accept_one(const struct receiver *r)
{
    int fd = accept(r->fd, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void streams_carry_lines(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 2; i++) {
        struct receiver r =
            i == 0 ? listen_host(SOCK_STREAM, 0) : listen_unix(SOCK_STREAM, w->file);
        OPEN(w, "socket", "address", r.address, "socket_type", i == 0 ? "tcp" : "unix");
        int peer = accept_one(&r);
        for (unsigned n = 0; n < 3; n++) {
            assert_status(world_write(w, n, 100), ST_OK);
            assert_next(peer, n);
        }
        (void)close(peer);
        (void)close(r.fd);
        world_close(w);
    }
}

static void datagrams_carry_a_line_each(void **state)
{
    struct world *w = *state;
    char text[8192];
    for (unsigned i = 0; i < 2; i++) {
        struct receiver r = i == 0 ? listen_host(SOCK_DGRAM, 0) : listen_unix(SOCK_DGRAM, w->file);
        OPEN(w, "socket", "address", r.address, "socket_type", i == 0 ? "udp" : "unixgram");
        for (unsigned n = 0; n < 3; n++) {
            char want[32];
            assert_status(world_write(w, n, 100), ST_OK);
            ssize_t len = recv(r.fd, text, sizeof text - 1, 0);
            assert_true(len > 0);
            text[len] = '\0';
            (void)snprintf(want, sizeof want, "\"n\":%u,", n);
            assert_non_null(strstr(text, want));
            assert_string_equal(text + len - 2, "}\n");
        }
        (void)close(r.fd);
        world_close(w);
    }
}

static void a_record_larger_than_a_datagram_fails_alone(void **state)
{
    struct world *w = *state;
    struct sent big, small;
    struct receiver r = listen_host(SOCK_DGRAM, 0);
    OPEN(w, "socket", "address", r.address, "socket_type", "udp");
    assert_status(world_offer(w, &big, 1, 100000), ST_OK);
    assert_status(world_offer(w, &small, 2, 10), ST_OK);
    assert_status(world_await(&big), ST_TOO_BIG);
    assert_status(world_await(&small), ST_OK);
    assert_status(world_write(w, 3, 100000), ST_TOO_BIG);
    assert_int_equal(logs_with("larger than a datagram"), 1);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    (void)close(r.fd);
}

static void a_refused_connection_is_stated_and_made_later(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_host(SOCK_STREAM, 0);
    uint16_t port = port_of(&r);
    (void)close(r.fd);
    OPEN(w, "socket", "address", r.address);
    for (unsigned i = 0; i < 5; i++)
        assert_status(world_write(w, i, 0), ST_IO);
    assert_non_null(strstr(world_state(w).why.text, "Connection refused"));
    assert_non_null(strstr(world_state(w).why.text, r.address));
    assert_int_equal(logs_with("fails"), 1);
    r = listen_host(SOCK_STREAM, port);
    world_await_standing(w, AUDIT_OK); /* by itself */
    int peer = accept_one(&r);
    assert_status(world_write(w, 7, 0), ST_OK);
    assert_next(peer, 7);
    (void)close(peer);
    (void)close(r.fd);
}

/* A listener whose queue is full answers no further connection. */
static void a_name_with_an_address_that_does_not_answer_is_reached(void **state)
{
    enum { FILL = 4 };
    struct receiver deaf = listen_host(SOCK_STREAM, 0), good = listen_host(SOCK_STREAM, 0);
    struct sockaddr_in names[2] = {{.sin_family = AF_INET}, {.sin_family = AF_INET}};
    struct addrinfo all[2] = {{0}};
    struct audit_options options = {.write_timeout_ms = 400};
    struct reason why = {{0}};
    int fills[FILL], fd = -1;
    (void)state;
    struct sink sink = {.options = &options, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    for (unsigned i = 0; i < 2; i++) {
        names[i].sin_port = htons(port_of(i == 0 ? &deaf : &good));
        names[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        all[i] = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addr = (struct sockaddr *)(void *)&names[i],
                                   .ai_addrlen = sizeof names[i]};
    }
    all[0].ai_next = &all[1];
    assert_int_equal(listen(deaf.fd, 0), 0);
    for (unsigned i = 0; i < FILL; i++) {
        fills[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fills[i], all[0].ai_addr, all[0].ai_addrlen);
    }
    assert_status(sink_peer_connect_any(&sink, all, "name:1", &fd, &why), ST_OK);
    (void)close(fd);
    fd = -1;
    all[0].ai_next = NULL; /* it did not answer */
    assert_status(sink_peer_connect_any(&sink, all, "name:1", &fd, &why), ST_TIMEOUT);
    for (unsigned i = 0; i < FILL; i++)
        (void)close(fills[i]);
    (void)close(deaf.fd);
    (void)close(good.fd);
    (void)close(sink.wake_fd);
}

static void a_closed_udp_port_is_stated(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_host(SOCK_DGRAM, 0);
    (void)close(r.fd);
    OPEN(w, "socket", "address", r.address, "socket_type", "udp");
    assert_status(world_write(w, 1, 0), ST_IO);
    assert_non_null(strstr(world_state(w).why.text, "Connection refused"));
}

static void a_receiver_that_was_started_anew_gets_whole_lines(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_host(SOCK_STREAM, 0);
    OPEN(w, "socket", "address", r.address);
    int peer = accept_one(&r);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_next(peer, 1);
    (void)close(peer);
    peer = -1;
    assert_status(world_write(w, 2, 0), ST_OK); /* the end was noticed before the write */
    peer = accept_one(&r);
    assert_next(peer, 2);
    (void)close(peer);
    (void)close(r.fd);
}

/* Offer records until the device is left out; returns the number of accepted ones. */
static unsigned fill(struct world *w, struct sent *sent, unsigned max)
{
    unsigned n = 0;
    while (n < max && world_state(w).standing != AUDIT_LATE)
        if (world_offer(w, &sent[n], n, 4000) == ST_OK)
            n++;
    world_await_standing(w, AUDIT_LATE);
    assert_true(n < max);
    return n;
}

enum { FILL_MAX = 60000 };
static struct sent filled[FILL_MAX];

static void a_peer_that_does_not_read_is_left_out_until_it_reads(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_STREAM, w->file);
    OPEN(w, "socket", "address", r.address, "socket_type", "unix", "write_timeout", "30ms");
    int peer = accept_one(&r);
    unsigned n = fill(w, filled, FILL_MAX);
    assert_non_null(strstr(world_state(w).why.text, "took no byte"));
    for (unsigned i = 0; i < n; i++)
        assert_next(peer, i); /* nothing is lost, nothing is sent twice */
    for (unsigned i = 0; i < n; i++)
        assert_status(world_await(&filled[i]), ST_OK);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    assert_int_equal(logs_with("works again"), 1);
    assert_status(world_write(w, n, 0), ST_OK);
    assert_next(peer, n);
    (void)close(peer);
    (void)close(r.fd);
}

static void a_stream_that_ends_within_a_line_is_not_continued(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_STREAM, w->file);
    OPEN(w, "socket", "address", r.address, "socket_type", "unix", "write_timeout", "30ms");
    int peer = accept_one(&r);
    unsigned n = fill(w, filled, FILL_MAX);
    (void)close(peer); /* with half a line read at most */
    peer = accept_one(&r);
    char line[8192], want[32];
    read_line(peer, line, sizeof line);
    assert_memory_equal(line, "{\"time\":", 8);
    unsigned first = (unsigned)strtoul(strstr(line, "\"n\":") + 4, NULL, 10);
    (void)snprintf(want, sizeof want, "\"n\":%u,", first);
    assert_non_null(strstr(line, want));
    for (unsigned i = first + 1; i < n; i++)
        assert_next(peer, i);
    for (unsigned i = 0; i < n; i++)
        assert_status(world_await(&filled[i]), ST_OK);
    (void)close(peer);
    (void)close(r.fd);
}

/* A record that takes several write_timeouts, with bytes moving all the while. */
static void a_peer_that_reads_slowly_is_not_late(void **state)
{
    enum { BYTES_ALL = 4 << 20, CHUNK = 64 << 10, PAUSE_MS = 40 };
    static char chunk[CHUNK];
    struct world *w = *state;
    struct sent sent;
    struct receiver r = listen_unix(SOCK_STREAM, w->file);
    OPEN(w, "socket", "address", r.address, "socket_type", "unix", "write_timeout", "1s");
    int peer = accept_one(&r);
    assert_status(world_offer(w, &sent, 1, BYTES_ALL), ST_OK);
    uint64_t moved = 0;
    for (ssize_t n = 0; n == 0 || chunk[n - 1] != '\n';) {
        (void)poll(NULL, 0, PAUSE_MS);
        n = recv(peer, chunk, sizeof chunk, 0);
        assert_true(n > 0);
        uint64_t progress = atomic_load(&w->device->progress);
        assert_true(progress >= moved);
        moved = progress;
    }
    assert_status(world_await(&sent), ST_OK);
    assert_true(moved > BYTES_ALL / (1 << 20));
    assert_int_equal(logs_with("left out"), 0);
    (void)close(peer);
    (void)close(r.fd);
}

static void a_peer_that_never_reads_holds_no_close(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_STREAM, w->file);
    OPEN(w, "socket", "address", r.address, "socket_type", "unix", "write_timeout", "30ms");
    int peer = accept_one(&r);
    unsigned n = fill(w, filled, FILL_MAX), closed = 0;
    audit_device_close(w->device);
    assert_true(audit_device_join(w->device, 30000));
    for (unsigned i = 0; i < n; i++)
        closed += world_await(&filled[i]) == ST_CLOSED;
    assert_true(closed > 0);
    (void)close(peer);
    (void)close(r.fd);
}

/* Syslog. */

static void open_syslog(struct world *w, const char *const *pairs)
{
    struct audit_device_options device = {.syslog_path = w->file};
    struct reason why = {{0}};
    assert_status(world_options(&device.options, &why, "syslog", pairs), ST_OK);
    world_open_with(w, &device);
}

static void assert_syslog(const struct receiver *r, const char *head, const char *program,
                          unsigned n)
{
    char text[8192], want[64];
    ssize_t len = recv(r->fd, text, sizeof text - 1, 0);
    assert_true(len > 0);
    text[len] = '\0';
    assert_memory_equal(text, head, strlen(head));
    (void)snprintf(want, sizeof want, " %s[%d]: {\"time\":", program, (int)getpid());
    /* "Mmm dd hh:mm:ss" */
    assert_ptr_equal(strstr(text, want), text + strlen(head) + 15);
    (void)snprintf(want, sizeof want, "\"n\":%u,", n);
    assert_non_null(strstr(text, want));
    assert_int_equal(text[len - 1], '}');
}

static void syslog_gets_the_form_it_knows(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_DGRAM, w->file);
    open_syslog(w, (const char *const[]){NULL});
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_syslog(&r, "<38>", "holdfast", 1); /* AUTH, info */
    world_close(w);
    open_syslog(w, (const char *const[]){"facility", "local7", "tag", "vault", NULL});
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_syslog(&r, "<190>", "vault", 2);
    (void)close(r.fd);
}

static void syslog_that_was_started_anew_is_found_again(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_DGRAM, w->file);
    open_syslog(w, (const char *const[]){NULL});
    assert_status(world_write(w, 1, 0), ST_OK);
    (void)close(r.fd);
    assert_status(world_write(w, 2, 0), ST_IO);
    assert_int_equal(unlink(w->file), 0);
    assert_status(world_write(w, 3, 0), ST_IO);
    assert_non_null(strstr(world_state(w).why.text, w->file));
    r = listen_unix(SOCK_DGRAM, w->file);
    assert_status(world_write(w, 4, 0), ST_OK);
    assert_syslog(&r, "<38>", "holdfast", 4);
    (void)close(r.fd);
    assert_int_equal(unlink(w->file), 0);
    r = listen_unix(SOCK_DGRAM, w->file); /* between two records */
    assert_status(world_write(w, 5, 0), ST_OK);
    assert_syslog(&r, "<38>", "holdfast", 5);
    (void)close(r.fd);
}

static void a_daemon_that_does_not_read_is_left_out(void **state)
{
    struct world *w = *state;
    struct receiver r = listen_unix(SOCK_DGRAM, w->file);
    open_syslog(w, (const char *const[]){"write_timeout", "30ms", NULL});
    unsigned n = fill(w, filled, FILL_MAX);
    for (unsigned i = 0; i < n; i++)
        assert_syslog(&r, "<38>", "holdfast", i);
    for (unsigned i = 0; i < n; i++)
        assert_status(world_await(&filled[i]), ST_OK);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    (void)close(r.fd);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(streams_carry_lines),
        T(datagrams_carry_a_line_each),
        T(a_record_larger_than_a_datagram_fails_alone),
        T(a_refused_connection_is_stated_and_made_later),
        T(a_name_with_an_address_that_does_not_answer_is_reached),
        T(a_closed_udp_port_is_stated),
        T(a_receiver_that_was_started_anew_gets_whole_lines),
        T(a_peer_that_does_not_read_is_left_out_until_it_reads),
        T(a_stream_that_ends_within_a_line_is_not_continued),
        T(a_peer_that_reads_slowly_is_not_late),
        T(a_peer_that_never_reads_holds_no_close),
        T(syslog_gets_the_form_it_knows),
        T(syslog_that_was_started_anew_is_found_again),
        T(a_daemon_that_does_not_read_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
