/* Commands about leases: lookup, renew, revoke, list, count, tidy. */
#include "cli/client.h"
#include "cli/command/command.h"

#include <time.h>

enum { REVOKE_POLL_MS = 100, REVOKE_POLL_MS_MAX = 2000, REVOKE_WAIT_MS = 10 * 60 * 1000 };

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

/* Send the request once. With `wait`, repeat it until no lease is left: the status 202 says that
 * the active node is ending the leases. The pause leaves the log to that work, and grows: a
 * repeated request may make the active node look at every lease again. */
static int send_revocation(struct cli *cli, const char *path, const struct buf *body, bool wait,
                           struct cli_reply *ret_reply)
{
    long pause_ms = REVOKE_POLL_MS;
    ASSERT(path[0] != '\0');
    for (long waited_ms = 0; waited_ms < REVOKE_WAIT_MS; waited_ms += pause_ms) {
        int code = cli_request(cli, "PUT", path, body, ret_reply);
        if (!wait || code != CLI_OK || ret_reply->status != 202)
            return code;
        pause_ms = waited_ms == 0 ? REVOKE_POLL_MS : MIN(2 * pause_ms, (long)REVOKE_POLL_MS_MAX);
        const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
        (void)nanosleep(&pause, NULL); /* a signal shortens the pause */
    }
    cli_complain("after ten minutes there are still leases: the active node is ending them");
    return CLI_REMOTE_ERROR;
}

static const char *revocation_path(struct cli *cli, bool prefix, bool force)
{
    if (!prefix)
        return "sys/leases/revoke";
    return arena_format(&cli->arena, "sys/leases/%s/%s", force ? "revoke-force" : "revoke-prefix",
                        cli->args[0]);
}

static int cmd_lease_revoke(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool prefix = cli_bool(cli, "prefix", false), force = cli_bool(cli, "force", false);
    bool sync = cli_bool(cli, "sync", false);
    if (force && !prefix)
        return cli_usage_error(cli, "-force needs -prefix");
    const char *path = revocation_path(cli, prefix, force);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    if (prefix)
        text_open_object(&w);
    else
        open_body(cli, &w);
    if (sync)
        text_member_bool(&w, "sync", true);
    text_close(&w);
    if (force)
        cli_say(
            "Warning! A forced revocation drops leases that cannot be ended: what they lent may "
            "stay in use.\n");
    int code = send_revocation(cli, path, &body, sync || force, &reply);
    if (code != CLI_OK || cli->json)
        return code;
    if (force)
        printf("Success! Force revoked any leases with prefix: %s\n", cli->args[0]);
    else if (!sync)
        printf("All revocation operations queued successfully!\n");
    else if (prefix)
        printf("Success! Revoked any leases with prefix: %s\n", cli->args[0]);
    else
        printf("Success! Revoked lease: %s\n", cli->args[0]);
    return code;
}

/* All leases, or those that could not be ended. limit < 0: as the server limits. */
static int list_all(struct cli *cli, bool irrevocable, int64_t limit)
{
    struct cli_reply reply = {0};
    const char *query = irrevocable ? "?type=irrevocable" : "";
    if (limit >= 0)
        query = arena_format(&cli->arena, "%s%climit=%lld", query, irrevocable ? '&' : '?',
                             (long long)limit);
    if (query == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_fetch(cli, "sys/leases", query, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_lease_list(struct cli *cli)
{
    bool irrevocable = cli_bool(cli, "irrevocable", false);
    bool all = cli_bool(cli, "all", false) || irrevocable;
    int64_t limit = cli_int(cli, "limit", -1);
    if (all && cli->n_args != 0)
        return cli_usage_error(cli, "-all and -irrevocable list the leases of all paths");
    if (limit >= 0 && !all)
        return cli_usage_error(cli, "-limit needs -all or -irrevocable");
    if (all)
        return list_all(cli, irrevocable, limit);
    const char *prefix = cli->n_args == 1 ? cli->args[0] : "";
    const char *path = arena_format(&cli->arena, "sys/leases/lookup/%s", prefix);
    ASSERT(cli->n_args <= 1);
    return path != NULL ? cmd_show_keys(cli, path, "?list=true") : CLI_LOCAL_ERROR;
}

static int cmd_lease_count(struct cli *cli)
{
    struct cli_reply reply = {0};
    bool creators = cli_bool(cli, "creators", false);
    const char *query = creators ? "?creators=true" : "";
    if (cli_bool(cli, "irrevocable", false))
        query = creators ? "?creators=true&type=irrevocable" : "?type=irrevocable";
    int code = cli_fetch(cli, "sys/leases/count", query, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_lease_tidy(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "PUT", "sys/leases/tidy", NULL, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static const struct cli_flag field_flags[] = {FIELD_FLAG};
static const struct cli_flag lease_renew_flags[] = {
    FIELD_FLAG, {"increment", CLI_DURATION, "time to live from now on"}};
static const struct cli_flag lease_revoke_flags[] = {
    {"prefix", CLI_BOOL, "end all leases below the path"},
    {"force", CLI_BOOL, "with -prefix: drop leases that cannot be ended"},
    {"sync", CLI_BOOL, "wait until the leases have ended"}};
static const struct cli_flag lease_list_flags[] = {
    {"all", CLI_BOOL, "list the ids of all leases"},
    {"irrevocable", CLI_BOOL, "list the ids of the leases that could not be ended"},
    {"limit", CLI_INT, "with -all or -irrevocable: list so many leases"}};
static const struct cli_flag lease_count_flags[] = {
    FIELD_FLAG,
    {"creators", CLI_BOOL, "show the ten tokens with the most leases of engines"},
    {"irrevocable", CLI_BOOL, "count the leases that could not be ended"}};

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
    {.name = "lease list",
     ARGS("[PREFIX]", 0, 1),
     FLAGS(lease_list_flags),
     .run = cmd_lease_list,
     .help = "List the names below a path that have leases."},
    {.name = "lease count",
     ARGS("", 0, 0),
     FLAGS(lease_count_flags),
     .run = cmd_lease_count,
     .help = "Print the number of leases, by mount and namespace."},
    {.name = "lease tidy",
     ARGS("", 0, 0),
     .run = cmd_lease_tidy,
     .help = "Does nothing: the server deletes the remains of ended leases by itself."},
};

const struct cli_group cli_lease_commands = {lease_commands, ARRAY_LEN(lease_commands)};
