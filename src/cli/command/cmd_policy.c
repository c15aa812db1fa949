/* Commands about policies: list, read, write, delete, fmt. */
#include "cli/client.h"
#include "cli/command/command.h"
#include "cli/policy_format.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

static char *policy_path(struct cli *cli)
{
    ASSERT(cli->n_args >= 1);
    char *path = arena_format(&cli->arena, "sys/policies/acl/%s", cli->args[0]);
    if (path == NULL)
        cli_complain("%s", status_text(ST_NOMEM));
    return path;
}

static int cmd_policy_list(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_fetch(cli, "sys/policies/acl", "?list=true", &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *keys = text_get(text_get(body, "data"), "keys");
    if (keys == NULL || keys->kind != TEXT_LIST)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(keys);
        return CLI_OK;
    }
    TEXT_FOR (key, keys)
        cli_print_value(key);
    return CLI_OK;
}

static int cmd_policy_read(struct cli *cli)
{
    struct cli_reply reply = {0};
    char *path = policy_path(cli);
    struct cli_request request = {.method = "GET",
                                  .path = path != NULL ? cli_path(cli, path) : NULL};
    int code = cli_ask(cli, &request, &reply);
    if (code != CLI_OK && reply.status == 404) {
        (void)fprintf(stderr, "No policy named: %s\n",
                      cli->args[0]); /* standard error is all there is */
        return CLI_REMOTE_ERROR;
    }
    if (code != CLI_OK)
        return code == CLI_REMOTE_ERROR ? cli_refused(cli, &request, &reply) : code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    const struct text_value *text = text_get(data, "policy");
    if (text == NULL || text->kind != TEXT_STRING)
        return cli_unexpected();
    if (cli->json) {
        struct text_value *out = cli_object(cli, NULL);
        cli_add(cli, out, "policy", text);
        return out != NULL ? cli_show_value(cli, out) : CLI_LOCAL_ERROR;
    }
    cli_print_value(text);
    return CLI_OK;
}

static int cmd_policy_write(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    struct bytes text;
    ASSERT(cli->n_args == 2);
    char *path = policy_path(cli);
    if (path == NULL || !cli_slurp(cli, cli->args[1], cli->args[1], &text))
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_key(&w, "policy");
    text_put_bytes(&w, text);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Uploaded policy: %s\n", cli->args[0]);
    return code;
}

static int cmd_policy_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    char *path = policy_path(cli);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Deleted policy: %s\n", cli->args[0]);
    return code;
}

static int cmd_policy_fmt(struct cli *cli)
{
    CLEANUP(buf_done) struct buf out = {0};
    const char *path = cli->args[0];
    char whole[PATH_MAX]; /* the target, if `path` is a symbolic link: the link itself stays */
    struct reason reason = {{0}};
    struct bytes text;
    struct stat info;
    if (realpath(path, whole) == NULL || stat(whole, &info) != 0) {
        cli_complain("%s: %s", path, strerror(errno));
        return CLI_LOCAL_ERROR;
    }
    if (!cli_slurp(cli, whole, path, &text))
        return CLI_LOCAL_ERROR;
    enum status st = policy_format(&cli->arena, text, &out, &reason);
    if (st != ST_OK) {
        cli_complain("%s: %s", path, reason.text[0] != '\0' ? reason.text : status_text(st));
        return CLI_LOCAL_ERROR;
    }
    if (!bytes_eq(text, buf_bytes(&out)) &&
        !cli_replace(cli, whole, buf_bytes(&out), info.st_mode & 0777))
        return CLI_LOCAL_ERROR;
    if (!cli->json)
        printf("Success! Formatted policy: %s\n", path);
    return CLI_OK;
}

static const struct cli_flag field_flags[] = {FIELD_FLAG};

static const struct cli_command policy_commands[] = {
    {.name = "policy list", ARGS("", 0, 0), .run = cmd_policy_list, .help = "List the policies."},
    {.name = "policy read",
     ARGS("NAME", 1, 1),
     FLAGS(field_flags),
     .run = cmd_policy_read,
     .help = "Print a policy."},
    {.name = "policy write",
     ARGS("NAME FILE|-", 2, 2),
     .run = cmd_policy_write,
     .help = "Write a policy, from a file or standard input."},
    {.name = "policy delete",
     ARGS("NAME", 1, 1),
     .run = cmd_policy_delete,
     .help = "Remove a policy."},
    {.name = "policy fmt",
     ARGS("FILE", 1, 1),
     .offline = true,
     .run = cmd_policy_fmt,
     .help = "Format the file of a policy in the standard style."},
};

const struct cli_group cli_policy_commands = {policy_commands, ARRAY_LEN(policy_commands)};
