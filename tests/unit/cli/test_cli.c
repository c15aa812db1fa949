#include "cli/with_cli.h"
#include "http/harness.h"

#include "base/mem.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A server that keeps what it was asked and answers by the path. */

static char asked[4096], headers[1024];
static char elsewhere[128]; /* where /v1/away points to */

static const struct {
    const char *path;
    int status;
    const char *body;
} replies[] = {
    {"/v1/sys/internal/ui/mounts/v2/a", 200,
     "{\"data\":{\"path\":\"v2/\",\"options\":{\"version\":\"2\"}}}"},
    {"/v1/sys/internal/ui/mounts/v2/b/c", 200,
     "{\"data\":{\"path\":\"v2/b/\",\"options\":{\"version\":\"2\"}}}"},
    {"/v1/sys/internal/ui/mounts/v1/a", 200, "{\"data\":{\"path\":\"v1/\",\"options\":null}}"},
    {"/v1/sys/internal/ui/mounts/old/a", 404, "{\"errors\":[]}"},
    {"/v1/sys/internal/ui/mounts/hidden/a", 403, "{\"errors\":[\"denied\"]}"},
    {"/v1/sys/storage/raft/snapshot", 200, "an archive"},
    {"/v1/sys/ha-status", 200,
     "{\"data\":{\"nodes\":[{\"hostname\":\"a\",\"api_address\":\"https://"
     "a\",\"active_node\":true},"
     "{\"hostname\":\"bcd\",\"api_address\":\"https://b\",\"active_node\":false}]}}"},
    {"/v1/wrapped", 200, "{\"data\":null,\"wrap_info\":{\"token\":\"hvs.w\",\"ttl\":60}}"},
    {"/v1/gone", 404, "{\"data\":{\"data\":null,\"metadata\":{\"version\":3}}}"},
    {"/v1/hint", 404, "{\"data\":null,\"warnings\":[\"try elsewhere\"]}"},
    {"/v1/kv/a", 200, "{\"data\":{\"user\":\"root\",\"n\":12,\"o\":{\"x\":[1]}},\"auth\":null}"},
    {"/v1/kv", 200, "{\"data\":{\"keys\":[\"a\",\"b/\"]}}"},
    {"/v1/none", 404, "{\"errors\":[]}"},
    {"/v1/denied", 403, "{\"errors\":[\"permission denied\"]}"},
    {"/v1/sys/seal-status", 200, "{\"type\":\"static\",\"initialized\":true,\"sealed\":false}"},
    {"/v1/sys/leader", 200, "{\"ha_enabled\":true,\"leader_address\":\"https://n:1\"}"},
    {"/v1/sys/init", 200, "{\"keys\":[],\"root_token\":\"hvs.x\"}"},
    {"/v1/odd", 200, "not json"},
    {"/v1/some", 200, "{\"request_id\":\"r1\",\"data\":{\"a\":1,\"none\":null}}"},
    {"/v1/auth/token/lookup-self", 200, "{\"data\":{\"accessor\":\"acc\",\"ttl\":60}}"},
    {"/v1/auth/token/create", 200,
     "{\"auth\":{\"client_token\":\"hvs.new\",\"lease_duration\":0}}"},
    {"/v1/sys/internal/ui/mounts/v2", 200,
     "{\"data\":{\"path\":\"v2/\",\"options\":{\"version\":\"2\"}}}"},
    {"/v1/v2/data/a", 200,
     "{\"data\":{\"data\":{\"x\":\"1\",\"data\":\"d\"},\"metadata\":{\"version\":7}}}"},
    {"/v1/sys/leases", 200,
     "{\"data\":{\"leases\":[{\"lease_id\":\"db/x/1\"}],\"lease_count\":3}}"},
    {"/v1/sys/leases/count", 200, "{\"data\":{\"lease_count\":3}}"},
    {"/v1/sys/leases/lookup/db", 200, "{\"data\":{\"keys\":[\"x/\"]}}"},
    {"/v1/v2/b/data/c", 200, "{\"data\":{\"data\":null,\"metadata\":{\"version\":3}}}"},
};

static void keep_headers(struct http_request *req)
{
    static const char *const names[] = {"content-type", "x-secrets-namespace", "x-extra",
                                        "x-secrets-wrap-ttl", "x-secrets-request"};
    headers[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bytes v = http_header(req, names[i]);
        size_t at = strlen(headers);
        (void)snprintf(headers + at, sizeof headers - at, "%.*s|", (int)v.len,
                       (const char *)v.data);
    }
}

static void on_request(void *ctx, struct http_request *req)
{
    struct http_reply reply = {.status = 204};
    struct bytes token = http_header(req, "x-secrets-token");
    (void)ctx;
    (void)snprintf(asked, sizeof asked, "%s %.*s%s%.*s [%.*s] %.*s", http_method_name(req->method),
                   (int)req->path.len, (const char *)req->path.data, req->query.len != 0 ? "?" : "",
                   (int)req->query.len, (const char *)req->query.data, (int)token.len,
                   (const char *)token.data, (int)MIN(req->body.len, 2000u),
                   (const char *)req->body.data);
    keep_headers(req);
    if (bytes_eq(req->path, BYTES("/v1/away")) || bytes_has_prefix(req->path, BYTES("/away/"))) {
        struct http_header location = {BYTES("Location"), bytes_str(elsewhere)};
        reply = (struct http_reply){.status = 307, .headers = &location, .n_headers = 1};
        http_respond(req, &reply);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(replies) && req->method != METHOD_DELETE; i++)
        if (bytes_eq(req->path, bytes_str(replies[i].path)) &&
            (req->method == METHOD_GET || strstr(replies[i].path, "init") != NULL ||
             strstr(replies[i].path, "create") != NULL)) {
            reply.status = replies[i].status;
            reply.content_type = "application/json";
            reply.body = bytes_str(replies[i].body);
        }
    if (req->method == METHOD_PATCH && bytes_has_prefix(req->path, BYTES("/v1/v2/")))
        reply.status = 405; /* as a server that does not know it yet */
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};
static struct harness server;
static char address[64];

static int open_server(void **ctx)
{
    (void)ctx;
    harness_up(&server, &handler, NULL, NULL);
    (void)snprintf(address, sizeof address, "http://127.0.0.1:%u", http_server_port(server.server));
    asked[0] = '\0';
    (void)setenv("HOLDFAST_ADDR", address, 1);
    (void)setenv("HOLDFAST_TOKEN", "secret-token", 1);
    return 0;
}

static int close_server(void **ctx)
{
    (void)ctx;
    static const char *const names[] = {"HOLDFAST_ADDR", "HOLDFAST_TOKEN", "VAULT_ADDR",
                                        "VAULT_TOKEN", "HOLDFAST_FORMAT"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)unsetenv(names[i]);
    harness_down(&server);
    return 0;
}

static void read_shows_a_table_or_json_or_a_field(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "kv/a"), 0);
    assert_string_equal(asked, "GET /v1/kv/a [secret-token] ");
    assert_string_equal(shown, "Key     Value\n---     -----\nuser    root\nn       12\n"
                               "o\n  x     1\n");
    assert_int_equal(RUN("read", "-format=json", "kv/a"), 0);
    assert_non_null(strstr(shown, "    \"user\": \"root\",\n"));
    assert_int_equal(RUN("read", "-field", "user", "/kv/a"), 0);
    assert_string_equal(shown, "root");
    assert_int_equal(RUN("read", "--field=none", "kv/a"), 1);
    assert_int_equal(RUN("read", "-field=a", "some"), 0);
    assert_string_equal(shown, "1");
    assert_int_equal(RUN("read", "-field=request_id", "some"), 0);
    assert_string_equal(shown, "r1");
    assert_int_equal(RUN("read", "-field=none", "some"), 1);
    assert_non_null(strstr(err, "not present"));
}

static void what_is_absent_or_refused_gives_2(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "none"), 2);
    assert_string_equal(err, "No value found at none\n");
    assert_int_equal(RUN("read", "denied"), 2);
    assert_non_null(strstr(err, "Code: 403"));
    assert_non_null(strstr(err, "* permission denied"));
    assert_int_equal(RUN("read", "odd"), 2);
}

static void wrong_usage_gives_1_and_asks_nothing(void **ctx)
{
    (void)ctx;
    assert_int_equal(run("read", 0, NULL), 1);
    assert_int_equal(RUN("read", "-nonsense", "kv/a"), 1);
    assert_int_equal(RUN("read", "-format=xml", "kv/a"), 1);
    assert_int_equal(RUN("write", "kv/a", "no-equals"), 1);
    assert_int_equal(RUN("write", "kv/a", "x=@/does/not/exist"), 1);
    assert_string_equal(asked, "");
}

static void write_takes_values_and_files(void **ctx)
{
    (void)ctx;
    char path[] = "/tmp/holdfast-cli-XXXXXX", word[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "line\n\"q\"", 8), 8);
    assert_int_equal(close(fd), 0);
    (void)snprintf(word, sizeof word, "file=@%s", path);
    assert_int_equal(RUN("write", "kv/b", "a=1", "b==x y", word), 0);
    assert_string_equal(asked, "PUT /v1/kv/b [secret-token] "
                               "{\"a\":\"1\",\"b\":\"=x y\",\"file\":\"line\\n\\\"q\\\"\"}");
    assert_string_equal(shown, "Success! Data written to: kv/b\n");
    assert_int_equal(unlink(path), 0);
}

static void values_are_taken_as_they_are_meant(void **ctx)
{
    (void)ctx;
    char path[] = "/tmp/holdfast-cli-XXXXXX", word[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"x\":[1,2]}", 11), 11);
    assert_int_equal(close(fd), 0);
    (void)snprintf(word, sizeof word, "@%s", path);
    assert_int_equal(RUN("write", "kv/b", "a=1", word, "x=3", "x=4", "a=2"), 0);
    assert_string_equal(asked, "PUT /v1/kv/b [secret-token] "
                               "{\"a\":[\"1\",\"2\"],\"x\":[[1,2],\"3\",\"4\"]}");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(RUN("write", "kv/b", "a=\\@x", "b=\\x"), 0);
    assert_string_equal(asked, "PUT /v1/kv/b [secret-token] {\"a\":\"@x\",\"b\":\"\\\\x\"}");
    assert_int_equal(RUN("token create", "-policy=a,,b", "-policy", "c", "-metadata=k=v=w"), 0);
    assert_string_equal(asked, "PUT /v1/auth/token/create [secret-token] "
                               "{\"policies\":[\"a\",\"b\",\"c\"],\"meta\":{\"k\":\"v=w\"}}");
    assert_non_null(strstr(shown, "token_duration    ∞\n")); /* 0: it never ends */
}

static void standard_input_is_used_once(void **ctx)
{
    (void)ctx;
    int kept = dup(STDIN_FILENO);
    assert_non_null(freopen("/dev/null", "r", stdin));
    assert_int_equal(RUN("write", "kv/b", "a=-"), 0);
    assert_string_equal(asked, "PUT /v1/kv/b [secret-token] {\"a\":\"\"}");
    asked[0] = '\0';
    assert_int_equal(RUN("write", "kv/b", "a=-", "b=-"), 1);
    assert_non_null(strstr(err, "standard input can be used once"));
    assert_string_equal(asked, "");
    assert_true(dup2(kept, STDIN_FILENO) >= 0);
    assert_int_equal(close(kept), 0);
}

static void what_excludes_each_other_is_refused_before_it_is_asked(void **ctx)
{
    (void)ctx;
    assert_int_equal(run("token revoke", 0, NULL), 1);
    assert_int_equal(RUN("token revoke", "-self", "x"), 1);
    assert_int_equal(RUN("token revoke", "-self", "-mode=orphan"), 1);
    assert_int_equal(RUN("token revoke", "-accessor", "-mode=orphan", "x"), 1);
    assert_int_equal(RUN("token revoke", "-mode=all", "x"), 1);
    assert_int_equal(RUN("lease revoke", "-force", "x"), 1);
    assert_int_equal(RUN("lease list", "-all", "db"), 1);
    assert_int_equal(RUN("lease list", "-limit=5"), 1);
    assert_int_equal(RUN("kv destroy", "-versions=1,0", "v2/a"), 1);
    assert_int_equal(RUN("kv put", "-cas=-1", "v2/a", "x=1"), 1);
    assert_int_equal(RUN("kv patch", "-method=other", "v2/a", "x=1"), 1);
    assert_int_equal(RUN("read", "-header==x", "kv/a"), 1);
    (void)setenv("HOLDFAST_CLIENT_TIMEOUT", "0", 1);
    assert_int_equal(RUN("read", "kv/a"), 1);
    (void)unsetenv("HOLDFAST_CLIENT_TIMEOUT");
    assert_string_equal(asked, "");
}

static void leases_are_listed_and_counted(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("lease list", "db"), 0);
    assert_string_equal(asked, "GET /v1/sys/leases/lookup/db?list=true [secret-token] ");
    assert_int_equal(RUN("lease list", "-all"), 0);
    assert_string_equal(asked, "GET /v1/sys/leases [secret-token] ");
    assert_non_null(strstr(shown, "db/x/1"));
    assert_int_equal(RUN("lease list", "-all", "-limit=5"), 0);
    assert_string_equal(asked, "GET /v1/sys/leases?limit=5 [secret-token] ");
    assert_int_equal(RUN("lease list", "-irrevocable", "-limit=5"), 0);
    assert_string_equal(asked, "GET /v1/sys/leases?type=irrevocable&limit=5 [secret-token] ");
    assert_int_equal(RUN("lease count", "-field=lease_count"), 0);
    assert_string_equal(shown, "3");
    assert_int_equal(RUN("lease count", "-creators", "-irrevocable"), 0);
    assert_string_equal(asked,
                        "GET /v1/sys/leases/count?creators=true&type=irrevocable [secret-token] ");
    assert_int_equal(RUN("lease count", "-irrevocable"), 0);
    assert_string_equal(asked, "GET /v1/sys/leases/count?type=irrevocable [secret-token] ");
}

static void list_prints_the_keys(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("list", "kv"), 0);
    assert_string_equal(asked, "GET /v1/kv?list=true [secret-token] ");
    assert_string_equal(shown, "Keys\n----\na\nb/\n");
    assert_int_equal(RUN("list", "none"), 2);
}

static void delete_deletes(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("delete", "kv/a b%"), 0);
    assert_string_equal(asked, "DELETE /v1/kv/a%20b%25 [secret-token] ");
}

static void status_and_init_speak_to_the_system(void **ctx)
{
    (void)ctx;
    assert_int_equal(run("status", 0, NULL), 0);
    assert_non_null(strstr(shown, "Sealed"));
    assert_non_null(strstr(shown, "https://n:1"));
    assert_int_equal(RUN("init", "-format", "json"), 0);
    assert_non_null(strstr(shown, "\"root_token\": \"hvs.x\""));
    assert_string_equal(asked, "PUT /v1/sys/init [secret-token] "
                               "{\"recovery_shares\":5,\"recovery_threshold\":3}");
}

static void flags_win_over_the_environment_and_ours_over_upstreams(void **ctx)
{
    (void)ctx;
    (void)setenv("VAULT_TOKEN", "theirs", 1);
    assert_int_equal(RUN("delete", "x"), 0);
    assert_string_equal(asked, "DELETE /v1/x [secret-token] ");
    (void)unsetenv("HOLDFAST_TOKEN");
    (void)setenv("HOLDFAST_ADDR", "http://127.0.0.1:1", 1);
    char flag[80];
    (void)snprintf(flag, sizeof flag, "-address=%s", address);
    assert_int_equal(RUN("delete", flag, "x"), 0);
    assert_string_equal(asked, "DELETE /v1/x [theirs] ");
}

static void a_path_in_the_address_goes_in_front(void **ctx)
{
    (void)ctx;
    char flag[80];
    (void)snprintf(flag, sizeof flag, "-address=%s/behind", address);
    assert_int_equal(RUN("delete", flag, "x"), 0);
    assert_string_equal(asked, "DELETE /behind/v1/x [secret-token] ");
}

static void a_redirect_is_followed(void **ctx)
{
    (void)ctx;
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/v1/kv/a", address);
    assert_int_equal(RUN("read", "-field=user", "away"), 0);
    assert_string_equal(asked, "GET /v1/kv/a [secret-token] ");
    assert_string_equal(shown, "root");
}

/* What was sent is sent once. */
static void an_upload_follows_nobody(void **ctx)
{
    (void)ctx;
    char path[] = "/tmp/holdfast-cli-XXXXXX", flag[80];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "archive", 7), 7);
    assert_int_equal(close(fd), 0);
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/v1/kv/a", address);
    (void)snprintf(flag, sizeof flag, "-address=%s/away", address);
    assert_int_equal(RUN("operator raft snapshot restore", flag, path), 2);
    assert_string_equal(asked, "POST /away/v1/sys/storage/raft/snapshot [secret-token] archive");
    assert_non_null(strstr(err, "name that as the address"));
    assert_int_equal(unlink(path), 0);
}

static void nobody_there_is_said(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "-address=http://127.0.0.1:1", "x"), 2);
    assert_non_null(strstr(err, "127.0.0.1:1"));
    assert_int_equal(RUN("read", "-address=ftp://x", "x"), 2);
    assert_non_null(strstr(err, "https://"));
}

/* A listener whose queue is full, so that a connection waits; it interrupts who connects, and makes
 * room afterwards. */
struct crowded {
    int listener, first;
    pthread_t connecting;
};

static void on_alarm(int signal)
{
    (void)signal; /* it is there to interrupt */
}

static void *interrupt_and_reply(void *ctx)
{
    struct crowded *c = ctx;
    static const char reply[] = "HTTP/1.1 204 No Content\r\n\r\n";
    char request[1024];
    for (int i = 0; i < 10; i++) {
        (void)usleep(20000); /* longer or shorter does no harm */
        (void)pthread_kill(c->connecting, SIGALRM);
    }
    int queued = accept(c->listener, NULL, NULL), fd = accept(c->listener, NULL, NULL);
    bool replied = queued >= 0 && fd >= 0 && read(fd, request, sizeof request) > 0 &&
                   write(fd, reply, strlen(reply)) == (ssize_t)strlen(reply);
    (void)close(queued), (void)close(fd); /* what failed is told */
    return replied ? c : NULL;
}

static void a_signal_does_not_end_connecting(void **ctx)
{
    (void)ctx;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct crowded c = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_STREAM, 0),
                        pthread_self()};
    struct sigaction alarm = {.sa_handler = on_alarm}, before;
    pthread_t thread;
    void *replied = NULL;
    assert_true(c.listener >= 0 && c.first >= 0);
    assert_int_equal(bind(c.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(c.listener, 0), 0); /* one waits; the next tries again after a second */
    assert_int_equal(getsockname(c.listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(c.first, (struct sockaddr *)&at, sizeof at), 0);
    (void)snprintf(address, sizeof address, "http://127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(setenv("HOLDFAST_ADDR", address, 1), 0);
    assert_int_equal(sigaction(SIGALRM, &alarm, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_and_reply, &c), 0);
    int code = RUN("delete", "kv/a");
    assert_int_equal(shutdown(c.listener, SHUT_RDWR), 0); /* nobody waits for who did not come */
    assert_int_equal(pthread_join(thread, &replied), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(close(c.first), 0);
    assert_int_equal(close(c.listener), 0);
    assert_string_equal(err, "");
    assert_int_equal(code, 0);
    assert_non_null(replied);
}

static void flags_become_headers_and_stand_anywhere(void **ctx)
{
    (void)ctx;
    assert_int_equal(
        RUN("read", "-header=X-Extra=a=b", "wrapped", "-namespace", "team/", "--wrap-ttl=60s"), 0);
    assert_string_equal(headers, "|team/|a=b|60s|true|");
    assert_non_null(strstr(shown, "wrapping_token"));
    assert_int_equal(RUN("delete", "-ns=other", "x"), 0);
    assert_string_equal(headers, "|other|||true|");
    assert_int_equal(RUN("patch", "kv/b", "a=1"), 0);
    assert_string_equal(headers, "application/merge-patch+json||||true|");
    assert_string_equal(asked, "PATCH /v1/kv/b [secret-token] {\"a\":\"1\"}");
    assert_int_equal(RUN("read", "--", "-x"), 2);
    assert_string_equal(asked, "GET /v1/-x [secret-token] ");
    assert_int_equal(RUN("read", "kv/none", "version=1", "a b=c&d"), 2);
    assert_string_equal(asked, "GET /v1/kv/none?version=1&a%20b=c%26d [secret-token] ");
}

static void a_header_cannot_begin_another_one(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "-header=X-Extra=a\r\nb: c", "kv/a"), 2);
    assert_int_equal(RUN("read", "-header=X Extra=a", "kv/a"), 2);
    assert_non_null(strstr(err, "letters, digits and dashes"));
    assert_int_equal(RUN("read", "-namespace=a\nb", "kv/a"), 2);
    (void)setenv("HOLDFAST_TOKEN", "hvs.x\r\ny: z", 1);
    assert_int_equal(RUN("read", "kv/a"), 2);
    assert_null(strstr(err, "hvs.x"));
    assert_string_equal(asked, "");
}

static void kv_asks_where_the_mount_is(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("kv put", "v2/a", "x=1"), 0);
    assert_string_equal(asked,
                        "PUT /v1/v2/data/a [secret-token] {\"data\":{\"x\":\"1\"},\"options\":{}}");
    assert_int_equal(RUN("kv put", "-cas=0", "/v2/b/c", "x=1"), 0);
    assert_string_equal(
        asked,
        "PUT /v1/v2/b/data/c [secret-token] {\"data\":{\"x\":\"1\"},\"options\":{\"cas\":0}}");
    assert_int_equal(RUN("kv put", "v1/a", "x=1", "x=2"), 0);
    assert_string_equal(asked, "PUT /v1/v1/a [secret-token] {\"x\":[\"1\",\"2\"]}");
    assert_int_equal(RUN("kv delete", "old/a"), 0);
    assert_string_equal(asked, "DELETE /v1/old/a [secret-token] ");
    assert_int_equal(RUN("kv put", "hidden/a", "x=1"), 2);
    assert_string_equal(asked, "GET /v1/sys/internal/ui/mounts/hidden/a [secret-token] ");
    assert_int_equal(RUN("kv destroy", "-versions=1,2", "-versions", "3", "v2/a"), 0);
    assert_string_equal(asked, "PUT /v1/v2/destroy/a [secret-token] {\"versions\":[1,2,3]}");
    assert_int_equal(RUN("kv put", "-wrap-ttl=1m", "v2/a", "x=1"), 0);
    assert_string_equal(headers, "application/json|||1m|true|");
    assert_int_equal(RUN("kv put", "-wrap-ttl=1m", "hidden/a", "x=1"), 2);
    assert_string_equal(headers, "||||true|"); /* the question is not what is to be wrapped */
    assert_int_equal(RUN("kv list", "v2"), 2);
    assert_string_equal(asked, "GET /v1/v2/metadata?list=true [secret-token] ");
    assert_int_equal(RUN("kv put", "-cas=0", "v1/a", "x=1"), 2);
    assert_string_equal(asked, "GET /v1/sys/internal/ui/mounts/v1/a [secret-token] ");
}

/* What was read is changed only if nobody else wrote meanwhile. */
static void kv_writes_behind_what_it_read(void **ctx)
{
    (void)ctx;
    static const char patched[] =
        "PUT /v1/v2/data/a [secret-token] "
        "{\"data\":{\"x\":\"1\",\"data\":\"d\",\"y\":\"2\"},\"options\":{\"cas\":7}}";
    assert_int_equal(RUN("kv patch", "-method=rw", "v2/a", "y=2"), 0);
    assert_string_equal(asked, patched);
    assert_int_equal(RUN("kv patch", "v2/a", "y=2"), 0); /* for want of the method */
    assert_string_equal(asked, patched);
    assert_int_equal(RUN("kv patch", "-method=patch", "v2/a", "y=2"), 2);
    assert_int_equal(RUN("kv rollback", "-version=2", "v2/a"), 0);
    assert_string_equal(asked, "PUT /v1/v2/data/a [secret-token] "
                               "{\"data\":{\"x\":\"1\",\"data\":\"d\"},\"options\":{\"cas\":7}}");
    assert_int_equal(RUN("kv rollback", "-version=2", "v2/b/c"), 2); /* it is deleted */
    assert_string_equal(asked, "GET /v1/v2/b/data/c?version=2 [secret-token] ");
    assert_int_equal(RUN("kv get", "-field=x", "v2/a"), 0);
    assert_string_equal(shown, "1");
    assert_int_equal(RUN("kv get", "-field=data", "v2/a"), 0);
    assert_string_equal(shown, "d"); /* its own one */
}

static void a_404_with_data_is_a_result_and_hints_are_said(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "gone"), 0);
    assert_non_null(strstr(shown, "metadata"));
    assert_int_equal(RUN("read", "hint"), 2);
    assert_non_null(strstr(err, "try elsewhere"));
    assert_non_null(strstr(err, "No value found at hint"));
}

static void mistakes_are_named_by_their_place(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("write", "kv/a", "ok=1", "SECRET"), 1);
    assert_non_null(strstr(err, "argument 3"));
    assert_null(strstr(err, "SECRET"));
    assert_int_equal(RUN("kv put", "-cas=SECRET", "v2/a", "x=1"), 1);
    assert_non_null(strstr(err, "-cas"));
    assert_null(strstr(err, "SECRET"));
    assert_int_equal(RUN("read", "-field"), 1);
    assert_int_equal(RUN("read", "-tls-skip-verify=perhaps", "kv/a"), 1);
    assert_int_equal(RUN("status", "more"), 1);
    assert_int_equal(RUN("write", "kv/a"), 1);
    assert_int_equal(RUN("no such command"), 1);
    assert_string_equal(asked, "");
}

static void the_token_of_the_file_is_used_and_not_that_of_a_folder(void **ctx)
{
    (void)ctx;
    char home[] = "/tmp/holdfast-home-XXXXXX", file[64], *before = getenv("HOME");
    assert_non_null(mkdtemp(home));
    before = before != NULL ? strdup(before) : NULL;
    (void)snprintf(file, sizeof file, "%s/.holdfast-token", home);
    (void)setenv("HOME", home, 1);
    (void)unsetenv("HOLDFAST_TOKEN");
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs("hvs.kept\n", f) >= 0 && fclose(f) == 0);
    assert_int_equal(RUN("delete", "x"), 0);
    assert_string_equal(asked, "DELETE /v1/x [hvs.kept] ");
    f = fopen(file, "w");
    assert_non_null(f);
    for (int i = 0; i < 1 << 16; i++)
        (void)fputc('x', f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(RUN("delete", "x"), 0);
    assert_string_equal(asked, "DELETE /v1/x [] "); /* no part of it */
    assert_non_null(strstr(err, "does not hold a token"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(RUN("delete", "x"), 0);
    assert_string_equal(asked, "DELETE /v1/x [] ");
    assert_non_null(strstr(err, "does not hold a token"));
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(home), 0);
    if (before != NULL)
        (void)setenv("HOME", before, 1);
    free(before);
}

/* With this as its standard input. */
static int type_in(const char *typed, const char *command, const char *flag, const char *word)
{
    char path[] = "/tmp/holdfast-cli-XXXXXX";
    int fd = mkstemp(path), kept = dup(STDIN_FILENO);
    assert_true(fd >= 0 && kept >= 0);
    assert_int_equal(write(fd, typed, strlen(typed)), (ssize_t)strlen(typed));
    assert_int_equal(close(fd), 0);
    assert_non_null(freopen(path, "r", stdin));
    asked[0] = '\0';
    int code = RUN(command, flag, word);
    assert_true(dup2(kept, STDIN_FILENO) >= 0);
    assert_int_equal(close(kept), 0);
    assert_int_equal(unlink(path), 0);
    return code;
}

static void a_login_keeps_what_it_is_asked_to_keep(void **ctx)
{
    (void)ctx;
    char home[] = "/tmp/holdfast-home-XXXXXX", file[64], *before = getenv("HOME");
    static char endless[1 << 16];
    struct stat info;
    assert_non_null(mkdtemp(home));
    before = before != NULL ? strdup(before) : NULL;
    (void)snprintf(file, sizeof file, "%s/.holdfast-token", home);
    (void)setenv("HOME", home, 1);
    assert_int_equal(RUN("login", "-token-only", "hvs.a"), 0);
    assert_string_equal(shown, "hvs.a");
    assert_int_equal(stat(file, &info), -1);
    assert_int_equal(RUN("login", "-no-store", "hvs.a"), 0);
    assert_int_equal(stat(file, &info), -1);
    assert_int_equal(type_in(" \thvs.typed \t\nmore\n", "login", "-no-print", "-"), 0);
    assert_string_equal(asked, "GET /v1/auth/token/lookup-self [hvs.typed] ");
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(unlink(file), 0);
    memset(endless, 'x', sizeof endless - 1);
    assert_int_equal(type_in(endless, "login", "-no-print", "-"), 1); /* no part of it */
    assert_int_equal(type_in(" \n", "login", "-no-print", "-"), 1);
    assert_string_equal(asked, "");
    assert_int_equal(rmdir(home), 0);
    /* Who logs in shows nobody the token that he has. */
    (void)RUN("login", "-method=userpass", "username=u", "password=p");
    assert_string_equal(asked, "PUT /v1/auth/userpass/login/u [] "
                               "{\"username\":\"u\",\"password\":\"p\"}");
    if (before != NULL)
        (void)setenv("HOME", before, 1);
    free(before);
}

static void a_snapshot_is_saved_whole_or_not_at_all_and_sent_as_it_is(void **ctx)
{
    (void)ctx;
    char folder[] = "/tmp/holdfast-snap-XXXXXX", file[64], text[32] = "";
    struct stat info;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/s", folder);
    assert_int_equal(RUN("operator raft snapshot save", file), 0);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text, f), 10);
    assert_string_equal(text, "an archive");
    assert_int_equal(fstat(fileno(f), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(RUN("operator raft snapshot restore", file), 0);
    assert_string_equal(asked, "POST /v1/sys/storage/raft/snapshot [secret-token] an archive");
    assert_int_equal(RUN("operator raft snapshot restore", "-force", file), 0);
    assert_string_equal(asked,
                        "POST /v1/sys/storage/raft/snapshot-force [secret-token] an archive");
    assert_int_equal(RUN("operator raft snapshot restore", folder), 2);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(RUN("operator raft snapshot restore", file), 1);
    assert_int_equal(RUN("operator raft snapshot save", "-address=http://127.0.0.1:1", file), 2);
    assert_int_equal(rmdir(folder), 0); /* nothing half is left */
    assert_int_equal(RUN("operator raft snapshot save", file), 1);
}

static void members_are_listed_and_let_in(void **ctx)
{
    (void)ctx;
    assert_int_equal(run("operator members", 0, NULL), 0);
    assert_non_null(strstr(shown, "Host Name    API Address    Cluster Address"));
    assert_non_null(strstr(shown, "bcd          https://b      n/a "));
    assert_int_equal(RUN("operator raft join-token", "-ttl=5m", "node4"), 2);
    assert_string_equal(asked, "PUT /v1/sys/storage/raft/join-token [secret-token] "
                               "{\"ttl\":\"5m\",\"node_id\":\"node4\"}");
    assert_int_equal(RUN("operator raft join", "-join-token=hfj1-x", "https://a:1"), 0);
    assert_string_equal(asked, "PUT /v1/sys/storage/raft/join [secret-token] "
                               "{\"leader_api_addr\":\"https://a:1\",\"join_token\":\"hfj1-x\"}");
    assert_int_equal(RUN("operator raft readmit", "node4"), 0);
    assert_string_equal(
        asked, "PUT /v1/sys/storage/raft/readmit [secret-token] {\"server_id\":\"node4\"}");
}

static void running_out_of_memory_is_an_error_and_no_more(void **ctx)
{
    (void)ctx;
    unsigned failed = 0, done = 0;
    for (uint64_t n = 1; n < 2000 && done == 0; n++) {
        (void)mem_fail_nth(n);
        int code = RUN("kv put", "v2/a", "x=1", "y=2");
        bool used = mem_fail_nth(0);
        assert_true(code >= 0 && code <= 2);
        done += used ? 0 : 1;
        failed += code != 0 ? 1 : 0;
    }
    assert_int_equal(done, 1);
    assert_in_range(failed, 5, 500);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_server, close_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(read_shows_a_table_or_json_or_a_field),
        TEST(what_is_absent_or_refused_gives_2),
        TEST(wrong_usage_gives_1_and_asks_nothing),
        TEST(write_takes_values_and_files),
        TEST(values_are_taken_as_they_are_meant),
        TEST(standard_input_is_used_once),
        TEST(what_excludes_each_other_is_refused_before_it_is_asked),
        TEST(an_upload_follows_nobody),
        TEST(kv_writes_behind_what_it_read),
        TEST(leases_are_listed_and_counted),
        TEST(list_prints_the_keys),
        TEST(delete_deletes),
        TEST(status_and_init_speak_to_the_system),
        TEST(flags_win_over_the_environment_and_ours_over_upstreams),
        TEST(a_path_in_the_address_goes_in_front),
        TEST(a_redirect_is_followed),
        TEST(nobody_there_is_said),
        TEST(a_signal_does_not_end_connecting),
        TEST(flags_become_headers_and_stand_anywhere),
        TEST(a_header_cannot_begin_another_one),
        TEST(kv_asks_where_the_mount_is),
        TEST(a_404_with_data_is_a_result_and_hints_are_said),
        TEST(mistakes_are_named_by_their_place),
        TEST(the_token_of_the_file_is_used_and_not_that_of_a_folder),
        TEST(a_snapshot_is_saved_whole_or_not_at_all_and_sent_as_it_is),
        TEST(a_login_keeps_what_it_is_asked_to_keep),
        TEST(members_are_listed_and_let_in),
        TEST(running_out_of_memory_is_an_error_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
