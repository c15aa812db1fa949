#include "http/harness.h"
#include "support.h"

#include "cli/cli.h"

#include <stdlib.h>

/* A server that keeps what it was asked and answers by the path. */

static char asked[4096];
static char elsewhere[128]; /* where /v1/away points to */

static const struct {
    const char *path;
    int status;
    const char *body;
} answers[] = {
    {"/v1/kv/a", 200, "{\"data\":{\"user\":\"root\",\"n\":12,\"o\":{\"x\":[1]}},\"auth\":null}"},
    {"/v1/kv", 200, "{\"data\":{\"keys\":[\"a\",\"b/\"]}}"},
    {"/v1/none", 404, "{\"errors\":[]}"},
    {"/v1/denied", 403, "{\"errors\":[\"permission denied\"]}"},
    {"/v1/sys/seal-status", 200, "{\"type\":\"static\",\"initialized\":true,\"sealed\":false}"},
    {"/v1/sys/leader", 200, "{\"ha_enabled\":true,\"leader_address\":\"https://n:1\"}"},
    {"/v1/sys/init", 200, "{\"keys\":[],\"root_token\":\"hvs.x\"}"},
    {"/v1/odd", 200, "not json"},
};

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
    if (bytes_eq(req->path, BYTES("/v1/away"))) {
        struct http_header location = {BYTES("Location"), bytes_str(elsewhere)};
        reply = (struct http_reply){.status = 307, .headers = &location, .n_headers = 1};
        http_respond(req, &reply);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(answers) && req->method != METHOD_DELETE; i++)
        if (bytes_eq(req->path, bytes_str(answers[i].path)) &&
            (req->method == METHOD_GET || i >= 6)) {
            reply.status = answers[i].status;
            reply.content_type = "application/json";
            reply.body = bytes_str(answers[i].body);
        }
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};
static struct harness server;
static char address[64], out[8192], err[8192];

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

/* Send a stream to a file of its own while a command runs. */
static int divert(FILE *stream, FILE *to)
{
    (void)fflush(stream);
    int kept = dup(fileno(stream));
    assert_true(kept >= 0 && dup2(fileno(to), fileno(stream)) >= 0);
    return kept;
}

static void restore(FILE *stream, int kept, FILE *from, char *text, size_t room)
{
    (void)fflush(stream);
    assert_true(dup2(kept, fileno(stream)) >= 0);
    assert_int_equal(close(kept), 0);
    rewind(from);
    size_t n = fread(text, 1, room - 1, from);
    text[n] = '\0';
    assert_int_equal(fclose(from), 0);
}

/* `command` may be several words. */
static int run(const char *command, int argc, const char *const *argv)
{
    char *words[16], *rest = strdup(command), *all = rest;
    int n = 0;
    FILE *o = tmpfile(), *e = tmpfile();
    assert_true(o != NULL && e != NULL && argc <= 12);
    while (rest != NULL)
        words[n++] = strdup(strsep(&rest, " "));
    for (int i = 0; i < argc; i++)
        words[n++] = strdup(argv[i]);
    int kept_out = divert(stdout, o), kept_err = divert(stderr, e);
    int code = cli_main(NULL, 0, n, words);
    restore(stdout, kept_out, o, out, sizeof out);
    restore(stderr, kept_err, e, err, sizeof err);
    for (int i = 0; i < n; i++)
        free(words[i]);
    free(all);
    return code;
}

#define RUN(command, ...)                                                \
    run((command), (int)ARRAY_LEN(((const char *const[]){__VA_ARGS__})), \
        (const char *const[]){__VA_ARGS__})

static void read_shows_a_table_or_json_or_a_field(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "kv/a"), 0);
    assert_string_equal(asked, "GET /v1/kv/a [secret-token] ");
    assert_string_equal(out, "Key     Value\n---     -----\nuser    root\nn       12\n"
                             "o       {\"x\":[1]}\n");
    assert_int_equal(RUN("read", "-format=json", "kv/a"), 0);
    assert_non_null(strstr(out, "    \"user\": \"root\",\n"));
    assert_int_equal(RUN("read", "-field", "user", "/kv/a"), 0);
    assert_string_equal(out, "root");
    assert_int_equal(RUN("read", "--field=none", "kv/a"), 1);
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
    assert_string_equal(out, "Success! Data written to: kv/b\n");
    assert_int_equal(unlink(path), 0);
}

static void list_prints_the_keys(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("list", "kv"), 0);
    assert_string_equal(asked, "GET /v1/kv?list=true [secret-token] ");
    assert_string_equal(out, "Keys\n----\na\nb/\n");
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
    assert_non_null(strstr(out, "Sealed"));
    assert_non_null(strstr(out, "https://n:1"));
    assert_int_equal(RUN("init", "-format", "json"), 0);
    assert_non_null(strstr(out, "\"root_token\": \"hvs.x\""));
    assert_string_equal(asked, "PUT /v1/sys/init [secret-token] {}");
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
    assert_string_equal(out, "root");
}

static void nobody_there_is_said(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("read", "-address=http://127.0.0.1:1", "x"), 2);
    assert_non_null(strstr(err, "127.0.0.1:1"));
    assert_int_equal(RUN("read", "-address=ftp://x", "x"), 2);
    assert_non_null(strstr(err, "https://"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_server, close_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(read_shows_a_table_or_json_or_a_field),
        TEST(what_is_absent_or_refused_gives_2),
        TEST(wrong_usage_gives_1_and_asks_nothing),
        TEST(write_takes_values_and_files),
        TEST(list_prints_the_keys),
        TEST(delete_deletes),
        TEST(status_and_init_speak_to_the_system),
        TEST(flags_win_over_the_environment_and_ours_over_upstreams),
        TEST(a_path_in_the_address_goes_in_front),
        TEST(a_redirect_is_followed),
        TEST(nobody_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
