/* Requests of commands: send a request, print what went wrong, return the exit code. */
#include "cli/dialect/dialect.h"

char *cli_path(struct cli *cli, const char *path)
{
    CLEANUP(buf_done) struct buf b = {0};
    buf_add_str(&b, "/v1/");
    while (*path == '/')
        path++;
    for (; *path != '\0'; path++) {
        unsigned char c = (unsigned char)*path;
        if (c <= ' ' || c >= 0x7F || strchr("\"#%<>?[\\]^`{|}", c) != NULL)
            buf_add_format(&b, "%%%02X", c);
        else
            buf_add_u8(&b, c);
    }
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

static void hint_at_tls(const struct cli *cli)
{
    bool ours = cli->ca_file != NULL;
    switch (cli->tls_fault) {
    case CLI_TLS_UNTRUSTED:
        cli_say(
            "The server's certificate is not trusted%s%s: set HOLDFAST_CACERT or -ca-cert to the "
            "PEM\nfile of the authority that signed it.\n",
            ours ? " by " : "", ours ? cli->ca_file : "");
        break;
    case CLI_TLS_OTHER_HOST:
        cli_say("The server's certificate is for other names: use one of them in HOLDFAST_ADDR or "
                "-address.\n");
        break;
    case CLI_TLS_NOT_NOW:
        cli_say(
            "The server's certificate has expired or is not valid yet: renew it, or correct the "
            "clock of\nthis machine.\n");
        break;
    case CLI_TLS_REFUSED:
        cli_say("If the server does not speak TLS, its address begins with http://.\n");
        break;
    case CLI_TLS_GOOD: break;
    }
}

int cli_ask(struct cli *cli, const struct cli_request *request, struct cli_reply *ret_reply)
{
    struct reason reason = {{0}};
    ret_reply->status = 0;
    if (request->path == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    enum status st = cli_send(cli, request, ret_reply, &reason);
    if (st != ST_OK) {
        cli_complain("%s %s%.*s: %s", request->method, cli->address,
                     (int)strcspn(request->path, "?"), request->path,
                     reason.text[0] != '\0' ? reason.text : status_text(st));
        hint_at_tls(cli);
        ret_reply->status = 0;
        return CLI_REMOTE_ERROR;
    }
    ASSERT(ret_reply->status >= 200);
    return ret_reply->status >= 200 && ret_reply->status < 300 ? CLI_OK : CLI_REMOTE_ERROR;
}

int cli_unexpected(void)
{
    cli_complain("the server's reply lacks a member that this command needs");
    return CLI_REMOTE_ERROR;
}

int cli_refused(struct cli *cli, const struct cli_request *request, const struct cli_reply *reply)
{
    if (reply->status != 0)
        cli_dialect_of(cli->command)->refused(cli, request, reply);
    return CLI_REMOTE_ERROR;
}

int cli_do(struct cli *cli, const struct cli_request *request, struct cli_reply *ret_reply)
{
    int code = cli_ask(cli, request, ret_reply);
    return code == CLI_REMOTE_ERROR ? cli_refused(cli, request, ret_reply) : code;
}

struct cli_request cli_request_of(struct cli *cli, const char *method, const char *path,
                                  const struct buf *body, const char *content_type)
{
    struct cli_request request = {.method = method, .content_type = content_type};
    if (body != NULL)
        request.body = buf_bytes(body);
    if (body == NULL || buf_status(body) == ST_OK)
        request.path = cli_path(cli, path);
    return request;
}

int cli_request(struct cli *cli, const char *method, const char *path, const struct buf *body,
                struct cli_reply *ret_reply)
{
    struct cli_request request = cli_request_of(cli, method, path, body, NULL);
    return cli_do(cli, &request, ret_reply);
}

const struct text_value *cli_parse_reply(struct cli *cli, const struct cli_reply *reply)
{
    const struct text_value *v = NULL;
    if (text_json_parse(&cli->arena, reply->body, &v, NULL) != ST_OK) {
        cli_complain("the server's reply is not JSON");
        return NULL;
    }
    return v;
}

/* Whether a reply of 404 contains data, as the reply for a deleted version of a secret does.
 * Without data, the server's warnings are printed. */
static bool found_after_all(struct cli *cli, const struct cli_reply *reply)
{
    const struct text_value *body = NULL;
    if (text_json_parse(&cli->arena, reply->body, &body, NULL) != ST_OK)
        return false;
    const struct text_value *data = text_get(body, "data");
    if (data != NULL && data->kind == TEXT_OBJECT && data->first != NULL)
        return true;
    cli_print_warnings(body);
    return false;
}

int cli_fetch(struct cli *cli, const char *path, const char *query, struct cli_reply *ret_reply)
{
    const char *escaped = cli_path(cli, path);
    struct cli_request request = {.method = "GET"};
    if (escaped != NULL)
        request.path = arena_format(&cli->arena, "%s%s", escaped, query);
    int code = cli_ask(cli, &request, ret_reply);
    if (code != CLI_REMOTE_ERROR)
        return code;
    if (ret_reply->status != 404)
        return cli_refused(cli, &request, ret_reply);
    if (found_after_all(cli, ret_reply))
        return CLI_OK;
    (void)fprintf(stderr, "No value found at %s\n", path); /* standard error is all there is */
    return CLI_REMOTE_ERROR;
}
