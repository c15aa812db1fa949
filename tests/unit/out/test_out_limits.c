/* Where a request may connect to, and how long it may take. The test brings a resolver of its own
 * for a few names: libcurl, like the program, calls getaddrinfo of the process. */
#include "out/with_peer.h"

#include "crypto/crypto.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct peer peer;
static atomic_int lookups;
static atomic_bool resolver_hangs;

/* The resolver. "numbers.ADDRESS.ADDRESS" has these addresses; of "hangs.test" it says nothing
 * until the test is over. */

static int real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                            struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, ret);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    atomic_fetch_add(&lookups, 1);
    while (node != NULL && strcmp(node, "hangs.test") == 0 && atomic_load(&resolver_hangs))
        (void)usleep(5000);
    if (node != NULL && strcmp(node, "metadata.test") == 0)
        node = "169.254.169.254";
    if (node == NULL || strcmp(node, "both.test") != 0)
        return real_getaddrinfo(node, service, hints, ret);
    struct addrinfo *second = NULL;
    int err = real_getaddrinfo("169.254.169.254", service, hints, ret);
    if (err == 0)
        err = real_getaddrinfo("127.0.0.1", service, hints, &second);
    for (struct addrinfo *at = *ret; err == 0 && at != NULL; at = at->ai_next)
        if (at->ai_next == NULL) {
            at->ai_next = second; /* glibc frees the list one by one */
            break;
        }
    return err;
}

static int setup(void **ctx)
{
    (void)ctx; /* static */
    peer = (struct peer){.script = BYTES(OK_HELLO)};
    atomic_store(&lookups, 0);
    atomic_store(&resolver_hangs, true);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    atomic_store(&resolver_hangs, false);
    peer_down(&peer);
    return 0;
}

static struct out_request request_to(const char *host)
{
    return (struct out_request){.method = "GET", .url = url_of(&peer, "http", host)};
}

static void assert_fails(const struct out_request *request, enum status st, const char *why)
{
    struct out_reply reply = {0};
    struct reason reason = {""};
    bool sent = true;
    assert_status(out_request(request, &reply, &sent, &reason), st);
    assert_has_text(reason.text, why);
    assert_lacks_text(reason.text, "secret");
    assert_false(sent);
}

static void assert_hello(const struct out_request *request)
{
    struct out_reply reply = {0};
    struct reason reason = {""};
    enum status st = out_request(request, &reply, NULL, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    assert_bytes(buf_bytes(&reply.body), BYTES("hello"));
    out_reply_done(&reply);
}

/* Addresses */

static void a_denied_address_is_refused_in_every_spelling(void **ctx)
{
    (void)ctx; /* static */
    static const char *const hosts[] = {
        "127.0.0.1", "localhost",          "127.1",      "2130706433",
        "0x7f.1",    "[::ffff:127.0.0.1]", "0177.0.0.1",
    };
    struct cidr deny[2];
    assert_status(cidr_parse(BYTES("127.0.0.0/8"), &deny[0]), ST_OK);
    assert_status(cidr_parse(BYTES("::1"), &deny[1]), ST_OK);
    struct out_rules rules = {.deny = deny, .n_deny = 2};
    peer_up(&peer, serve_script, NULL);
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        struct out_request request = request_to(hosts[i]);
        if (hosts[i][0] != '[' || i % 2 == 0)
            assert_hello(&request); /* without the rules, the server is reached */
        request.rules = &rules;
        assert_fails(&request, ST_REFUSED, "refuse the address");
    }
}

static void a_name_with_a_link_local_address_is_refused(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_script, NULL);
    struct out_request request = request_to("metadata.test");
    assert_fails(&request, ST_REFUSED, "169.254.169.254:");
    request = request_to("169.254.169.254");
    assert_fails(&request, ST_REFUSED, "169.254.169.254:");
    request = request_to("0.0.0.0"); /* Linux takes it for the loopback, where the server is */
    assert_fails(&request, ST_REFUSED, "0.0.0.0:");
    request = request_to("[::]");
    assert_fails(&request, ST_REFUSED, "[::]:");
    assert_int_equal(atomic_load(&peer.accepted), 0);
}

static void a_name_with_one_allowed_address_is_reached_there(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_script, NULL);
    struct out_request request = request_to("both.test");
    assert_hello(&request);
}

static void a_port_that_is_not_listed_is_refused(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_script, NULL);
    uint16_t ports[] = {443, peer.port};
    struct out_rules rules = {.ports = ports, .n_ports = 1};
    struct out_request request = request_to("127.0.0.1");
    request.rules = &rules;
    assert_fails(&request, ST_REFUSED, "refuse the port");
    rules.n_ports = 2;
    assert_hello(&request);
}

static void proxies_of_the_environment_are_ignored(void **ctx)
{
    (void)ctx; /* static */
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy",
                                        "ALL_PROXY"};
    struct peer proxy = {.script = BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")};
    char url[64];
    peer_up(&peer, serve_script, NULL);
    peer_up(&proxy, serve_script, NULL);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", (unsigned)proxy.port);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(setenv(names[i], url, 1), 0);
    struct out_request request = request_to("127.0.0.1");
    assert_hello(&request);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(unsetenv(names[i]), 0);
    assert_int_equal(atomic_load(&proxy.accepted), 0);
    peer_down(&proxy);
}

static void a_port_without_a_server_and_a_name_without_address_fail(void **ctx)
{
    (void)ctx; /* static */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    char url[64];
    peer_up(&peer, serve_script, NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, and does not listen */
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%u/?secret", (unsigned)ntohs(at.sin_port));
    struct out_request request = {.method = "GET", .url = url};
    assert_fails(&request, ST_BAD_GATEWAY, "Connection refused");
    assert_int_equal(close(fd), 0);
    request.url = "http://no-such-name.invalid/?secret";
    assert_fails(&request, ST_NOT_FOUND, "the name no-such-name.invalid was not found");
}

/* Time */

static void serve_slowly(struct link *link)
{
    bool open = link_hear(link, "\r\n\r\n") &&
                link_say(link, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"));
    while (open && !atomic_load(&link->peer->ended)) {
        open = link_say(link, BYTES("x"));
        (void)usleep(10000); /* never silent for long */
    }
}

/* Sends one byte of a head after another. */
static void serve_slow_head(struct link *link)
{
    bool open = link_hear(link, "\r\n\r\n") && link_say(link, BYTES("HTTP/1.1 200 OK\r\nX: "));
    while (open && !atomic_load(&link->peer->ended)) {
        open = link_say(link, BYTES("x"));
        (void)usleep(10000);
    }
}

static void a_slow_server_hits_the_deadline(void **ctx)
{
    (void)ctx; /* static */
    peer_serve *const serves[] = {serve_nothing, serve_slowly, serve_slow_head};
    for (size_t i = 0; i < ARRAY_LEN(serves); i++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        bool sent = false;
        struct peer slow = {0};
        peer_up(&slow, serves[i], NULL);
        struct out_request request = {
            .method = "GET", .url = url_of(&slow, "http", "127.0.0.1"), .total_ms = 300};
        uint64_t begin_ms = clock_ms();
        assert_status(out_request(&request, &reply, &sent, &reason), ST_TIMEOUT);
        assert_in_range(clock_ms() - begin_ms, 290, 5000);
        assert_has_text(reason.text, "no complete reply from 127.0.0.1:");
        assert_has_text(reason.text, "within 300 ms");
        assert_true(sent);
        peer_down(&slow);
    }
    peer_up(&peer, serve_script, NULL);
}

/* A socket whose queue of connections is full never answers. */
static void a_connection_that_takes_too_long_hits_its_deadline(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_script, NULL);
    struct out_request request = request_to("127.0.0.1");
    char url[64];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), first[4];
    assert_true(full >= 0);
    assert_int_equal(bind(full, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(full, 0), 0);
    assert_int_equal(getsockname(full, (struct sockaddr *)&at, &len), 0);
    for (size_t i = 0; i < ARRAY_LEN(first); i++) {
        first[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(first[i] >= 0);
        (void)connect(first[i], (struct sockaddr *)&at, sizeof at); /* goes on by itself */
    }
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", (unsigned)ntohs(at.sin_port));
    request.url = url;
    request.connect_ms = 200;
    request.total_ms = 20000;
    uint64_t begin_ms = clock_ms();
    assert_fails(&request, ST_TIMEOUT, "within 200 ms");
    assert_in_range(clock_ms() - begin_ms, 190, 5000);
    for (size_t i = 0; i < ARRAY_LEN(first); i++)
        (void)close(first[i]);
    (void)close(full);
}

static void a_resolver_that_hangs_hits_the_deadline(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_script, NULL);
    struct out_request request = request_to("hangs.test");
    request.connect_ms = 200;
    uint64_t begin_ms = clock_ms();
    assert_fails(&request, ST_TIMEOUT, "no connection to hangs.test:");
    assert_in_range(clock_ms() - begin_ms, 190, 5000);
    assert_true(atomic_load(&lookups) > 0);
}

struct canceller {
    uint64_t begin_ms, after_ms;
    unsigned asked;
};

static bool is_cancelled(void *ctx)
{
    struct canceller *c = ctx;
    c->asked++;
    return clock_ms() - c->begin_ms >= c->after_ms;
}

/* The best of three attempts counts: the machine may be busy. */
static void assert_cancels(struct out_request request)
{
    uint64_t best_ms = UINT64_MAX;
    for (int attempt = 0; attempt < 3 && best_ms > 300; attempt++) {
        struct canceller c = {.begin_ms = clock_ms(), .after_ms = 100};
        struct out_reply reply = {0};
        struct reason reason = {""};
        request.is_cancelled = is_cancelled;
        request.cancel_ctx = &c;
        assert_status(out_request(&request, &reply, NULL, &reason), ST_CLOSED);
        assert_has_text(reason.text, "was cancelled");
        best_ms = MIN(best_ms, clock_ms() - c.begin_ms);
    }
    assert_in_range(best_ms, 100, 300);
}

static void a_cancelled_request_ends_within_200_ms(void **ctx)
{
    (void)ctx; /* static */
    peer_up(&peer, serve_nothing, NULL);
    assert_cancels(request_to("127.0.0.1"));
    assert_cancels(request_to("hangs.test"));
}

static void a_request_that_was_cancelled_before_does_nothing(void **ctx)
{
    (void)ctx; /* static */
    struct canceller c = {0};
    peer_up(&peer, serve_script, NULL);
    struct out_request request = request_to("localhost");
    request.is_cancelled = is_cancelled;
    request.cancel_ctx = &c;
    assert_fails(&request, ST_CLOSED, "was cancelled");
    assert_int_equal(c.asked, 1);
    assert_int_equal(atomic_load(&lookups), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_denied_address_is_refused_in_every_spelling),
        TEST(a_name_with_a_link_local_address_is_refused),
        TEST(a_name_with_one_allowed_address_is_reached_there),
        TEST(a_port_that_is_not_listed_is_refused),
        TEST(proxies_of_the_environment_are_ignored),
        TEST(a_port_without_a_server_and_a_name_without_address_fail),
        TEST(a_slow_server_hits_the_deadline),
        TEST(a_connection_that_takes_too_long_hits_its_deadline),
        TEST(a_resolver_that_hangs_hits_the_deadline),
        TEST(a_cancelled_request_ends_within_200_ms),
        TEST(a_request_that_was_cancelled_before_does_nothing),
    };
    if (crypto_init(NULL) != ST_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
