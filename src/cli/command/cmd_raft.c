/* Commands about the members of a cluster and snapshots of the state. */
#include "cli/client.h"
#include "cli/command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int cmd_raft_list_peers(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", "sys/storage/raft/configuration", NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *servers =
        text_get(text_get(text_get(body, "data"), "config"), "servers");
    struct text_value *grid = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    if (servers == NULL || servers->kind != TEXT_LIST || grid == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(body);
        return CLI_OK;
    }
    TEXT_FOR (server, servers) {
        struct text_value *line = cli_object(cli, grid);
        const struct text_value *leader = text_get(server, "leader");
        bool leads = leader != NULL && leader->truth;
        cli_add(cli, line, "Node", text_get(server, "node_id"));
        cli_add(cli, line, "Address", text_get(server, "address"));
        cli_add_text(cli, line, "State", leads ? "leader" : "follower");
        cli_add(cli, line, "Voter", text_get(server, "voter"));
    }
    cli_print_grid(grid);
    return CLI_OK;
}

/* Write the member `name` if the flag was given. The flag's value is the text itself, "@file" or
 * "-" (standard input). False with a message. */
static bool put_material(struct cli *cli, struct text_writer *w, const char *flag, const char *name)
{
    const char *value = cli_text(cli, flag);
    struct bytes text;
    if (value == NULL)
        return true;
    if (value[0] == '@' || strcmp(value, "-") == 0) {
        char *what = arena_format(&cli->arena, "flag -%s", flag);
        if (what == NULL || !cli_slurp(cli, value[0] == '@' ? value + 1 : value, what, &text))
            return false;
        while (text.len != 0 &&
               (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r'))
            text.len--;
    } else {
        text = bytes_str(value);
    }
    text_key(w, name);
    text_put_bytes(w, text);
    return true;
}

static int cmd_raft_join(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    text_open_object(&w);
    if (cli->n_args != 0)
        text_member_str(&w,
                        strstr(cli->args[0], "provider=") != NULL ? "auto_join" : "leader_api_addr",
                        cli->args[0]);
    if (!put_material(cli, &w, "leader-ca-cert", "leader_ca_cert") ||
        !put_material(cli, &w, "leader-client-cert", "leader_client_cert") ||
        !put_material(cli, &w, "leader-client-key", "leader_client_key") ||
        !put_material(cli, &w, "join-token", "join_token"))
        return CLI_LOCAL_ERROR;
    cli_put_text(cli, &w, "leader-tls-servername", "leader_tls_servername");
    cli_put_text(cli, &w, "auto-join-scheme", "auto_join_scheme");
    cli_put_text(cli, &w, "auto-join-port", "auto_join_port");
    if (cli_bool(cli, "retry", false))
        text_member_bool(&w, "retry", true);
    if (cli_bool(cli, "non-voter", false))
        text_member_bool(&w, "non_voter", true);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/storage/raft/join", &body, &reply);
    return code == CLI_OK && reply.body.len != 0 ? cli_show(cli, &reply) : code;
}

static int cmd_raft_join_token(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    text_open_object(&w);
    cli_put_text(cli, &w, "ttl", "ttl");
    if (cli->n_args != 0)
        text_member_str(&w, "node_id", cli->args[0]);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/storage/raft/join-token", &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int change_member(struct cli *cli, const char *path, const char *said)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    text_open_object(&w);
    text_member_str(&w, "server_id", cli->args[0]);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("%s\n", said);
    return code;
}

static int cmd_raft_remove_peer(struct cli *cli)
{
    return change_member(cli, "sys/storage/raft/remove-peer", "Peer removed successfully!");
}

static int cmd_raft_promote(struct cli *cli)
{
    return change_member(cli, "sys/storage/raft/promote", "Success! The node has a vote.");
}

static int cmd_raft_demote(struct cli *cli)
{
    return change_member(cli, "sys/storage/raft/demote", "Success! The node has no vote.");
}

static int show_path(struct cli *cli, const char *path)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", path, NULL, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_raft_autopilot_state(struct cli *cli)
{
    return show_path(cli, "sys/storage/raft/autopilot/state");
}

static int cmd_raft_autopilot_get(struct cli *cli)
{
    return show_path(cli, "sys/storage/raft/autopilot/configuration");
}

static int cmd_raft_autopilot_set(struct cli *cli)
{
    static const char *const settings[][2] = {
        {"auto-raise", "auto_raise"},
        {"cleanup-dead-servers", "cleanup_dead_servers"},
        {"dead-server-last-contact-threshold", "dead_server_last_contact_threshold"},
        {"last-contact-threshold", "last_contact_threshold"},
        {"max-trailing-logs", "max_trailing_logs"},
        {"min-quorum", "min_quorum"},
        {"server-stabilization-time", "server_stabilization_time"}};
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    text_open_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        cli_put_text(cli, &w, settings[i][0], settings[i][1]);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/storage/raft/autopilot/configuration", &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! The autopilot settings were changed.\n");
    return code;
}

static int cmd_raft_readmit(struct cli *cli)
{
    return change_member(cli, "sys/storage/raft/readmit",
                         "Success! The node may join again, with an empty data directory.");
}

static int file_error(const char *path)
{
    cli_complain("%s: %s", path, strerror(errno));
    return CLI_LOCAL_ERROR;
}

/* Download a snapshot into the file and sync the file. */
static int download_snapshot(struct cli *cli, FILE *file, const char *name)
{
    struct cli_reply reply = {0};
    struct cli_request request = {
        .method = "GET", .path = "/v1/sys/storage/raft/snapshot", .download = file};
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    if (fflush(file) != 0 || fsync(fileno(file)) != 0)
        return file_error(name);
    ASSERT(reply.body.len == 0); /* the whole body went to the file */
    if (ftello(file) == 0) {
        cli_complain("the server sent an empty snapshot");
        return CLI_REMOTE_ERROR;
    }
    return CLI_OK;
}

/* Save the snapshot in a temporary file beside the target, and rename the file when it is complete.
 */
static int cmd_raft_save(struct cli *cli)
{
    ASSERT(cli->n_args == 1);
    const char *path = cli->args[0];
    char *name = arena_format(&cli->arena, "%s.XXXXXX", path);
    int fd = name != NULL ? mkostemp(name, O_CLOEXEC) : -1;
    if (fd < 0)
        return file_error(path);
    FILE *file = fdopen(fd, "wb");
    if (file == NULL) {
        (void)close(fd);    /* the file is empty */
        (void)unlink(name); /* an empty temporary file may stay */
        return file_error(path);
    }
    int code = download_snapshot(cli, file, name);
    if (fclose(file) != 0 && code == CLI_OK)
        code = file_error(name);
    if (code == CLI_OK && rename(name, path) != 0)
        code = file_error(path);
    if (code != CLI_OK)
        (void)unlink(name); /* leave no half-written snapshot */
    else if (!cli->json)
        printf("Success! Snapshot saved to: %s\n", path);
    return code;
}

static int cmd_raft_restore(struct cli *cli)
{
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    FILE *file = fopen(cli->args[0], "rbe");
    if (file == NULL)
        return file_error(cli->args[0]);
    struct cli_request request = {.method = "POST",
                                  .path = cli_bool(cli, "force", false)
                                              ? "/v1/sys/storage/raft/snapshot-force"
                                              : "/v1/sys/storage/raft/snapshot",
                                  .content_type = "application/gzip",
                                  .upload = file};
    int code = cli_do(cli, &request, &reply);
    (void)fclose(file); /* the file was only read */
    if (code == CLI_OK && !cli->json)
        printf("Success! Restored the snapshot: %s\n", cli->args[0]);
    return code;
}

static const struct cli_flag join_flags[] = {
    {"auto-join-port", CLI_TEXT, "port of the addresses that provider=dns finds; 8200"},
    {"auto-join-scheme", CLI_TEXT, "https"},
    {"join-token", CLI_TEXT, "@FILE or - (standard input) with the token of \"join-token\""},
    {"leader-ca-cert", CLI_TEXT, "@FILE with the authority of the leader's certificate"},
    {"leader-client-cert", CLI_TEXT, "@FILE with the client certificate for the leader"},
    {"leader-client-key", CLI_TEXT, "@FILE with the key of the client certificate"},
    {"leader-tls-servername", CLI_TEXT, "name that the leader's certificate must have"},
    {"retry", CLI_BOOL, "try again until the node has joined"},
    {"non-voter", CLI_BOOL, "join without a vote"}};
static const struct cli_flag join_token_flags[] = {
    FIELD_FLAG, {"ttl", CLI_DURATION, "how long the token is valid"}};
static const struct cli_flag autopilot_flags[] = {
    {"auto-raise", CLI_TEXT, "true: raise the feature level when every member understands it"},
    {"cleanup-dead-servers", CLI_TEXT, "true: remove dead members"},
    {"dead-server-last-contact-threshold", CLI_DURATION, "a member silent for this time is dead"},
    {"last-contact-threshold", CLI_DURATION, "a member silent for this time is not healthy"},
    {"max-trailing-logs", CLI_INT, "how many entries a healthy member may be behind"},
    {"min-quorum", CLI_INT, "never remove dead members below this number of voters"},
    {"server-stabilization-time", CLI_DURATION,
     "time a new member must be healthy before it votes"}};
static const struct cli_flag restore_flags[] = {
    {"force", CLI_BOOL, "also restore a snapshot of another cluster"}};

static const struct cli_command raft_commands[] = {
    {.name = "operator raft list-peers",
     ARGS("", 0, 0),
     .run = cmd_raft_list_peers,
     .help = "List the members of the Raft cluster."},
    {.name = "operator raft join",
     ARGS("[LEADER-URL | \"provider=dns name=NAME\"]", 0, 1),
     FLAGS(join_flags),
     .run = cmd_raft_join,
     .help = "Let a node join a cluster."},
    {.name = "operator raft join-token",
     ARGS("[NODE-NAME]", 0, 1),
     FLAGS(join_token_flags),
     .run = cmd_raft_join_token,
     .help = "Make a join token for one node."},
    {.name = "operator raft remove-peer",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_remove_peer,
     .help = "Remove a node from the cluster."},
    {.name = "operator raft autopilot state",
     ARGS("", 0, 0),
     .run = cmd_raft_autopilot_state,
     .help = "Show the health of the members."},
    {.name = "operator raft autopilot get-config",
     ARGS("", 0, 0),
     .run = cmd_raft_autopilot_get,
     .help = "Show the autopilot settings."},
    {.name = "operator raft autopilot set-config",
     ARGS("", 0, 0),
     FLAGS(autopilot_flags),
     .run = cmd_raft_autopilot_set,
     .help = "Change the autopilot settings."},
    {.name = "operator raft promote",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_promote,
     .help = "Give a node of the cluster a vote."},
    {.name = "operator raft demote",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_demote,
     .help = "Take the vote from a node; the node still follows and serves."},
    {.name = "operator raft readmit",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_readmit,
     .help = "Allow a removed node to join again."},
    {.name = "operator raft snapshot save",
     ARGS("FILE", 1, 1),
     .run = cmd_raft_save,
     .help = "Save the whole state to a file."},
    {.name = "operator raft snapshot restore",
     ARGS("FILE", 1, 1),
     FLAGS(restore_flags),
     .run = cmd_raft_restore,
     .help = "Replace the whole state by the state in a file."},
};

const struct cli_group cli_raft_commands = {raft_commands, ARRAY_LEN(raft_commands)};
