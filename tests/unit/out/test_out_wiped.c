/* Nothing of a request or its reply is left in memory: the test searches every writable page of the
 * process. The server is a process of its own, whose memory does not count. */
#include "crypto/tls_pair.h"

#include "base/mem.h"
#include "out/with_peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A secret is kept as mask and masked bytes, so that the search does not find itself. */
enum { SECRET_LEN = 32, N_SECRETS = 4, SCAN_BYTES = 1 << 20, REGION_BYTES_MAX = 1 << 28 };
enum { IN_HEADER, IN_BODY, IN_REPLY, IN_REPLY_HEADER };

static uint8_t masks[N_SECRETS][SECRET_LEN], masked[N_SECRETS][SECRET_LEN];
static struct pki pki;

static void make_secrets(void)
{
    static const char digits[] = "0123456789abcdef";
    assert_status(crypto_random(masks, sizeof masks), ST_OK);
    assert_status(crypto_random(masked, sizeof masked), ST_OK);
    for (int s = 0; s < N_SECRETS; s++)
        for (int i = 0; i < SECRET_LEN; i++)
            masked[s][i] = (uint8_t)(masks[s][i] ^ (uint8_t)digits[masked[s][i] % 16]);
}

static void unmask(int s, uint8_t *out)
{
    for (int i = 0; i < SECRET_LEN; i++)
        out[i] = masked[s][i] ^ masks[s][i];
}

static bool is_secret(int s, const uint8_t *at)
{
    uint8_t differs = 0;
    for (int i = 0; i < SECRET_LEN && differs == 0; i++)
        differs = (uint8_t)(at[i] ^ masked[s][i] ^ masks[s][i]);
    return differs == 0;
}

/* The number of a secret in the bytes; -1: none. Not slowed down by a sanitizer: the search reads
 * some hundred megabytes. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static int
search(const uint8_t *data, size_t n)
{
    bool begins[UINT16_MAX + 1] = {false}; /* whether a secret begins with these two bytes */
    for (int s = 0; s < N_SECRETS; s++)
        begins[(masked[s][0] ^ masks[s][0]) | (masked[s][1] ^ masks[s][1]) << 8] = true;
    for (size_t at = 0; at + SECRET_LEN <= n; at++)
        for (int s = 0; begins[data[at] | data[at + 1] << 8] && s < N_SECRETS; s++)
            if (is_secret(s, data + at))
                return s;
    return -1;
}

static int search_region(int fd, unsigned long from, unsigned long to)
{
    static uint8_t window[SCAN_BYTES];
    int found = -1;
    while (found < 0 && from < to) {
        ssize_t n = pread(fd, window, MIN(sizeof window, to - from), (off_t)from);
        if (n <= 0)
            break;
        found = search(window, (size_t)n);
        from +=
            (size_t)n > SECRET_LEN && from + (size_t)n < to ? (size_t)n - SECRET_LEN : (size_t)n;
    }
    mem_wipe(window, sizeof window); /* the window is searched too, the next time */
    return found;
}

/* The number of a secret that is in memory; -1: none. */
static int search_memory(void)
{
    char line[512];
    int found = -1;
    FILE *maps = fopen("/proc/self/maps", "r");
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    assert_non_null(maps);
    assert_true(fd >= 0);
    while (found < 0 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[1] == 'w' &&
            to - from <= REGION_BYTES_MAX)
            found = search_region(fd, from, to);
    }
    (void)fclose(maps);
    (void)close(fd);
    return found;
}

static void serve_secret(struct link *link)
{
    uint8_t secret[SECRET_LEN];
    CLEANUP(buf_done) struct buf reply = {0};
    if (!link_hear(link, "the end"))
        return;
    buf_add_str(&reply, "HTTP/1.1 200 OK\r\nX-Secret: ");
    unmask(IN_REPLY_HEADER, secret);
    buf_add(&reply, bytes_of(secret, sizeof secret));
    buf_add_str(&reply, "\r\nContent-Length: 32\r\n\r\n");
    unmask(IN_REPLY, secret);
    buf_add(&reply, bytes_of(secret, sizeof secret));
    (void)link_say(link, buf_bytes(&reply)); /* judged by the client */
}

/* A server in a process of its own; it ends when `ret_end` is closed. */
static pid_t start_server(bool with_tls, uint16_t *ret_port, int *ret_end)
{
    int port_pipe[2], end_pipe[2];
    assert_int_equal(pipe2(port_pipe, O_CLOEXEC), 0);
    assert_int_equal(pipe2(end_pipe, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct peer peer;
        uint8_t byte;
        struct tls_options options = own(&pki.server, &pki.ca);
        options.server = true;
        (void)close(end_pipe[1]);
        peer_up(&peer, serve_secret, with_tls ? ctx_of(options) : NULL);
        bool told = write(port_pipe[1], &peer.port, sizeof peer.port) == sizeof peer.port;
        _exit(told && read(end_pipe[0], &byte, 1) == 0 ? 0 : 1);
    }
    (void)close(end_pipe[0]);
    assert_int_equal(read(port_pipe[0], ret_port, sizeof *ret_port), sizeof *ret_port);
    (void)close(port_pipe[0]);
    (void)close(port_pipe[1]);
    *ret_end = end_pipe[1];
    return pid;
}

static void ask(const struct peer *server, const char *scheme, enum status wanted_status)
{
    static const char *const wanted[] = {"X-Secret"};
    static uint8_t header_value[SECRET_LEN], body[SECRET_LEN + 7];
    struct out_header header = {"X-Token", bytes_of(header_value, SECRET_LEN)};
    struct out_reply reply = {0};
    struct reason reason = {""};
    unmask(IN_HEADER, header_value);
    unmask(IN_BODY, body);
    memcpy(body + SECRET_LEN, "the end", 7);
    assert_int_equal(search_memory() >= 0, 1); /* the search can find something */
    struct out_request request = {.method = "POST",
                                  .url = url_of(server, scheme, "127.0.0.1"),
                                  .headers = &header,
                                  .n_headers = 1,
                                  .body = bytes_of(body, sizeof body),
                                  .wanted = wanted,
                                  .n_wanted = 1,
                                  .reply_bytes_max = wanted_status == ST_OK ? 32 : 31,
                                  .tls = {.ca_pem = buf_bytes(&pki.ca.cert)}};
    assert_status(out_request(&request, &reply, NULL, &reason), wanted_status);
    if (wanted_status == ST_OK) {
        assert_true(is_secret(IN_REPLY, reply.body.data));
        assert_true(is_secret(IN_REPLY_HEADER, out_reply_header(&reply, 0).data));
    }
    out_reply_done(&reply);
    mem_wipe(header_value, sizeof header_value);
    mem_wipe(body, sizeof body);
}

static void nothing_is_left_of(const char *scheme, enum status wanted_status)
{
    struct peer server = {0};
    int end = -1, status = -1;
    make_secrets();
    pid_t pid = start_server(strcmp(scheme, "https") == 0, &server.port, &end);
    ask(&server, scheme, wanted_status);
    assert_int_equal(search_memory(), -1);
    (void)close(end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void nothing_of_a_plain_request_is_left_in_memory(void **ctx)
{
    (void)ctx; /* static */
    nothing_is_left_of("http", ST_OK);
}

static void nothing_of_a_request_through_tls_is_left_in_memory(void **ctx)
{
    (void)ctx; /* static */
    nothing_is_left_of("https", ST_OK);
}

static void nothing_of_a_reply_that_is_refused_is_left_in_memory(void **ctx)
{
    (void)ctx; /* static */
    nothing_is_left_of("https", ST_TOO_BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_a_plain_request_is_left_in_memory),
        cmocka_unit_test(nothing_of_a_request_through_tls_is_left_in_memory),
        cmocka_unit_test(nothing_of_a_reply_that_is_refused_is_left_in_memory),
    };
    pki_init(&pki);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pki_done(&pki);
    return failed;
}
