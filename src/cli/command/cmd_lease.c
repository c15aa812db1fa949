/* Commands about leases: lookup, renew, revoke. */
#include "cli/client.h"
#include "cli/command/command.h"

/* Open the body and write the member lease_id. */
static void open_body(struct cli *cli, struct text_writer *w)
{
    ASSERT(cli->n_args == 1);
    text_open_object(w);
    text_member_str(w, "lease_id", cli->args[0]);
}

static int cmd_lease_lookup(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    open_body(cli, &w);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/leases/lookup", &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_lease_renew(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    open_body(cli, &w);
    cli_put_text(cli, &w, "increment", "increment");
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/leases/renew", &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_lease_revoke(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool prefix = cli_bool(cli, "prefix", false), force = cli_bool(cli, "force", false);
    bool sync = cli_bool(cli, "sync", false);
    const char *path = "sys/leases/revoke";
    if (force && !prefix)
        return cli_usage_error(cli, "-force needs -prefix");
    if (prefix)
        path = arena_format(&cli->arena, "sys/leases/%s/%s",
                            force ? "revoke-force" : "revoke-prefix", cli->args[0]);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    if (prefix)
        text_open_object(&w);
    else
        open_body(cli, &w);
    if (sync)
        text_member_bool(&w, "sync", true);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code != CLI_OK || cli->json)
        return code;
    if (force)
        printf("Success! Force revoked any leases with prefix: %s\n", cli->args[0]);
    else if (prefix)
        printf("Success! Revoked any leases with prefix: %s\n", cli->args[0]);
    else if (sync)
        printf("Success! Revoked lease: %s\n", cli->args[0]);
    else
        printf("All revocation operations queued successfully!\n");
    return code;
}

static const struct cli_flag field_flags[] = {FIELD_FLAG};
static const struct cli_flag lease_renew_flags[] = {
    FIELD_FLAG, {"increment", CLI_TEXT, "time to live from now on"}};
static const struct cli_flag lease_revoke_flags[] = {
    {"prefix", CLI_BOOL, "end all leases below the path"},
    {"force", CLI_BOOL, "with -prefix: end leases also when their engine cannot revoke them"},
    {"sync", CLI_BOOL, "wait until the leases have ended"}};

static const struct cli_command lease_commands[] = {
    {.name = "lease lookup",
     ARGS("ID", 1, 1),
     FLAGS(field_flags),
     .run = cmd_lease_lookup,
     .help = "Print the properties of a lease."},
    {.name = "lease renew",
     ARGS("ID", 1, 1),
     FLAGS(lease_renew_flags),
     .run = cmd_lease_renew,
     .help = "Extend the life of a lease."},
    {.name = "lease revoke",
     ARGS("ID | PREFIX", 1, 1),
     FLAGS(lease_revoke_flags),
     .run = cmd_lease_revoke,
     .help = "End a lease, or all leases below a path."},
};

const struct cli_group cli_lease_commands = {lease_commands, ARRAY_LEN(lease_commands)};
