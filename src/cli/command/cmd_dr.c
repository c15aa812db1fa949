/* operator dr: disaster recovery between two clusters. Authority on a primary is the token of every
 * other command; on a secondary a DR operation token (dr_token). */
#include "cli/command/cmd_dr.h"
#include "cli/command/command.h"

#include <inttypes.h>
#include <time.h>

enum { WAIT_S = 60 };

/* Whether `seconds` have passed since *begun_s, which begins at 0. */
static bool is_late(int64_t *begun_s, int64_t seconds)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock is always there */
    if (*begun_s == 0)
        *begun_s = now.tv_sec;
    return now.tv_sec - *begun_s > seconds;
}

int dr_await(struct cli *cli, const char *addresses, const char *mode, const char *state)
{
    int64_t begun_s = 0, seconds = cli_int(cli, "wait", WAIT_S);
    struct dr_view view = {0};
    ASSERT(mode[0] != '\0' && seconds >= 0);
    do {
        dr_view_pause(); /* a standby shows the new role a moment after the active node */
        if (!dr_view_load(cli, addresses, &view))
            return CLI_REMOTE_ERROR;
        if (dr_view_is(&view, mode, state))
            return CLI_OK;
    } while (!is_late(&begun_s, seconds));
    cli_complain("%s is still %s, %s after %" PRId64
                 " s; \"holdfast operator dr status\" shows how "
                 "it goes on",
                 view.address, dr_view_text(&view, "mode"), dr_view_text(&view, "state"), seconds);
    return CLI_REMOTE_ERROR;
}

void dr_say(const struct cli *cli, const char *text)
{
    ASSERT(text != NULL);
    if (!cli->json)
        printf("%s\n", text);
    (void)fflush(stdout); /* a reader of a pipe sees each step when it is done */
}

int dr_post(struct cli *cli, const char *address, const char *path, struct buf *body)
{
    struct cli_reply reply = {0};
    ASSERT(path[0] != '/');
    if (body->len == 0)
        buf_add_str(body, "{}");
    return dr_send(cli, address, cli_request_of(cli, "POST", path, body, NULL), 0, &reply);
}

/* Status */

static int cmd_dr_status(struct cli *cli)
{
    struct text_value *list = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    const char *nodes[] = {cli->address, dr_view_other(cli)};
    int code = CLI_OK;
    for (size_t i = 0; i < ARRAY_LEN(nodes) && nodes[i] != NULL; i++) {
        struct dr_view view;
        if (!dr_view_load(cli, nodes[i], &view)) {
            code = CLI_REMOTE_ERROR;
            continue;
        }
        struct text_value *one = cli->json ? cli_object(cli, list) : NULL;
        if (one != NULL) {
            cli_add_text(cli, one, "address", view.address);
            cli_add(cli, one, "status", view.data);
        } else if (!cli->json) {
            if (i != 0)
                printf("\n");
            dr_view_print(cli, &view);
        }
    }
    if (cli->json && list != NULL && list->n != 0)
        cli_print_json(list);
    return code;
}

/* Enable */

int dr_secondary_token(struct cli *cli, const char *address, const char *name, const char *ttl,
                       const struct text_value **ret_wrap)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    ASSERT(address != NULL && name[0] != '\0');
    text_open_object(&w);
    text_member_str(&w, "id", name);
    if (ttl != NULL)
        text_member_str(&w, "ttl", ttl);
    text_close(&w);
    int code = dr_send(cli, address,
                       cli_request_of(cli, "POST", DR_PATH "primary/secondary-token", &body, NULL),
                       0, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *wrap = text_get(cli_parse_reply(cli, &reply), "wrap_info");
    if (text_get(wrap, "token") == NULL)
        return cli_unexpected();
    *ret_wrap = wrap;
    return CLI_OK;
}

static int cmd_dr_enable_primary(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    const struct text_value *wrap = NULL;
    struct dr_view view;
    ASSERT(cli->n_args == 1);
    if (!dr_view_load(cli, cli->address, &view))
        return CLI_REMOTE_ERROR;
    if (!dr_view_is(&view, "primary", NULL)) {
        text_open_object(&w);
        cli_put_text(cli, &w, "cluster-addr", "primary_cluster_addr");
        text_close(&w);
        int code = dr_post(cli, cli->address, DR_PATH "primary/enable", &body);
        if (code == CLI_OK)
            code = dr_await(cli, cli->address, "primary", "running");
        if (code != CLI_OK)
            return code;
    }
    int code = dr_secondary_token(cli, view.address, cli->args[0], cli_text(cli, "ttl"), &wrap);
    if (code != CLI_OK)
        return code;
    if (cli->json || cli->field != NULL)
        return cli_show_value(cli, wrap);
    printf("This cluster is a DR primary. Give this token to the cluster that shall follow it, on\n"
           "standard input of \"holdfast operator dr enable secondary\". It counts once:\n\n");
    cli_print_value(text_get(wrap, "token"));
    return CLI_OK;
}

/* Write what both ways to follow a primary have in common: the token of the primary, and how it is
 * reached. An exit code. */
static int put_primary(struct cli *cli, struct text_writer *w)
{
    const char *token = cli->n_args != 0 ? cli->args[0] : "-";
    if (strcmp(token, "-") == 0)
        token = cli_secret(cli, "Token of the primary for this secondary (will be hidden): ");
    if (token == NULL)
        return CLI_LOCAL_ERROR;
    if (token[0] == '\0') { /* a server takes an empty token as the order to forget its primary */
        cli_complain("the token of the primary is empty");
        return CLI_LOCAL_ERROR;
    }
    text_member_str(w, "token", token);
    cli_put_text(cli, w, "primary-api-addr", "primary_api_addr");
    cli_put_text(cli, w, "ca-file", "ca_file");
    return CLI_OK;
}

static int cmd_dr_enable_secondary(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    text_open_object(&w);
    int code = put_primary(cli, &w);
    text_close(&w);
    if (code == CLI_OK)
        code = dr_post(cli, cli->address, DR_PATH "secondary/enable", &body);
    if (code != CLI_OK)
        return code;
    dr_say(cli, "The primary was reached, and everything that a first sync needs was checked. This "
                "cluster copies\nthe state of the primary now.");
    code = dr_await(cli, cli->address, "secondary", "stream-wals");
    if (code == CLI_OK)
        dr_say(cli, "Success! This cluster has the state of the primary and follows it.");
    return code;
}

static int cmd_dr_follow(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    const char *authority = cli_env(cli, "DR_TOKEN");
    if (authority == NULL) {
        cli_complain("HOLDFAST_DR_TOKEN is not set: it has the DR operation token of this cluster, "
                     "because standard input is for the token of the primary");
        return CLI_LOCAL_ERROR;
    }
    text_open_object(&w);
    text_member_str(&w, "dr_operation_token", authority);
    int code = put_primary(cli, &w);
    text_close(&w);
    if (code == CLI_OK)
        code = dr_post(cli, cli->address, DR_PATH "secondary/update-primary", &body);
    if (code == CLI_OK)
        code = dr_await(cli, cli->address, "secondary", "stream-wals");
    if (code == CLI_OK)
        dr_say(cli, "Success! This cluster follows the primary; what differed was repaired.");
    return code;
}

/* Change roles */

static int cmd_dr_demote(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    int code = dr_post(cli, cli->address, DR_PATH "primary/demote", &body);
    if (code == CLI_OK)
        code = dr_await(cli, cli->address, "secondary", NULL);
    if (code == CLI_OK)
        dr_say(cli,
               "Success! This cluster is a DR secondary without a primary: it takes no writes.");
    return code;
}

/* The body of a promotion. */
static void put_promotion(struct cli *cli, const char *authority, bool preflight, struct buf *out)
{
    struct text_writer w = {.out = out};
    ASSERT(authority[0] != '\0' && out->len == 0);
    text_open_object(&w);
    text_member_str(&w, "dr_operation_token", authority);
    cli_put_text(cli, &w, "cluster-addr", "primary_cluster_addr");
    if (!preflight && cli_bool(cli, "force", false))
        text_member_bool(&w, "force", true);
    if (preflight)
        text_member_bool(&w, "preflight", true);
    text_close(&w);
}

/* The first error of a refusal; "" when there is none. */
static const char *first_error(struct cli *cli, const struct cli_reply *reply)
{
    const struct text_value *errors = text_get(cli_parse_reply(cli, reply), "errors");
    if (errors != NULL && errors->kind == TEXT_LIST)
        TEXT_FOR (error, errors)
            return (const char *)error->text.data;
    return "";
}

int dr_promote(struct cli *cli, const char *address, const char *authority)
{
    enum { TRY_LATER = 503 };
    CLEANUP(buf_done) struct buf body = {0};
    int64_t begun_s = 0, seconds = cli_int(cli, "wait", WAIT_S);
    struct cli_reply reply = {0};
    const char *told = "";
    put_promotion(cli, authority, false, &body);
    const struct cli_request ask =
        cli_request_of(cli, "POST", DR_PATH "secondary/promote", &body, NULL);
    for (;;) {
        int code = dr_send(cli, address, ask, TRY_LATER, &reply);
        if (code == CLI_OK || reply.status != TRY_LATER)
            return code != CLI_OK ? code : dr_await(cli, address, "primary", "running");
        if (is_late(&begun_s, seconds))
            return cli_refused(cli, &ask, &reply);
        const char *why = first_error(cli, &reply);
        if (told[0] == '\0')
            dr_say(cli, arena_format(&cli->arena, "The promotion waits: %s", why));
        told = "once";
        dr_view_pause();
    }
}

static int cmd_dr_promote(struct cli *cli)
{
    const char *authority = dr_token(cli);
    if (authority == NULL)
        return CLI_LOCAL_ERROR;
    int code = dr_promote(cli, cli->address, authority);
    if (code == CLI_OK)
        dr_say(cli, "Success! This cluster is the primary now and takes writes. Make sure that the "
                    "former\nprimary takes none: demote it, or keep it stopped.");
    return code;
}

void dr_print_checks(struct cli *cli, const struct text_value *checks)
{
    struct text_value *grid = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    ASSERT(checks->kind == TEXT_LIST);
    if (grid == NULL)
        return;
    TEXT_FOR (check, checks) {
        struct text_value *line = cli_object(cli, grid);
        cli_add(cli, line, "Check", text_get(check, "check"));
        cli_add(cli, line, "Result", text_get(check, "result"));
        cli_add(cli, line, "Details", text_get(check, "details"));
    }
    cli_print_grid(grid);
}

static int cmd_dr_preflight(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    const char *authority = dr_token(cli);
    if (authority == NULL)
        return CLI_LOCAL_ERROR;
    put_promotion(cli, authority, true, &body);
    int code =
        dr_send(cli, cli->address,
                cli_request_of(cli, "POST", DR_PATH "secondary/promote", &body, NULL), 0, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    const struct text_value *checks = text_get(data, "checks"), *ready = text_get(data, "ready");
    if (checks == NULL || checks->kind != TEXT_LIST || ready == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(data);
    } else {
        dr_print_checks(cli, checks);
        printf("\n%s\n", ready->truth ? "Nothing stands in the way of a promotion."
                                      : "A promotion is refused while a check says \"blocked\"; "
                                        "-force passes over \"forceable\".");
    }
    return ready->truth ? CLI_OK : CLI_REMOTE_ERROR;
}

#define OTHER_FLAG                                                                            \
    {                                                                                         \
        "other", CLI_TEXT,                                                                    \
            "URLs of the nodes of the other cluster, with commas; default: HOLDFAST_DR_NODES" \
    }
#define WAIT_FLAG                                                        \
    {                                                                    \
        "wait", CLI_INT, "seconds to wait for the new state; default 60" \
    }
#define ADDRESS_FLAG                                                                          \
    {                                                                                         \
        "cluster-addr", CLI_TEXT, "host:port at which secondaries reach this cluster's nodes" \
    }
#define REACH_FLAGS                                                                           \
    {"primary-api-addr", CLI_TEXT, "URL of the primary; default: the one in the token"},      \
    {                                                                                         \
        "ca-file", CLI_TEXT,                                                                  \
            "file on the nodes of this cluster: the authority of the primary's certificates " \
            "for clients"                                                                     \
    }

static const struct cli_flag status_flags[] = {OTHER_FLAG};
static const struct cli_flag enable_flags[] = {
    ADDRESS_FLAG,
    {"ttl", CLI_DURATION, "how long the token counts; default 30m"},
    WAIT_FLAG,
    FIELD_FLAG};
static const struct cli_flag follow_flags[] = {REACH_FLAGS, WAIT_FLAG};
static const struct cli_flag demote_flags[] = {WAIT_FLAG};
static const struct cli_flag promote_flags[] = {
    {"force", CLI_BOOL,
     "promote although the former primary was heard lately or writes are missing here"},
    ADDRESS_FLAG,
    WAIT_FLAG};
static const struct cli_flag drill_flags[] = {
    {"limit", CLI_DURATION, "how long the drill may take, such as 90s; default 5m, at most 9m"}};
static const struct cli_flag settings_flags[] = {
    {"sync", CLI_BOOL, "sync mode: the reply to a write waits until a secondary has stored it"},
    {"sync-timeout-ms", CLI_INT, "the longest such wait, 200 to 5000"},
    {"bandwidth", CLI_INT, "most bytes a second to one secondary, at least 16384; 0: no bound"}};
static const struct cli_flag failback_flags[] = {
    OTHER_FLAG,
    {"name", CLI_TEXT, "name of the other cluster as a secondary; default: former-primary"},
    {"ttl", CLI_DURATION, "how long the token for the other cluster counts; default 30m"},
    REACH_FLAGS,
    WAIT_FLAG};

static const struct cli_command dr_commands[] = {
    {.name = "operator dr status",
     ARGS("", 0, 0),
     FLAGS(status_flags),
     .run = cmd_dr_status,
     .help = "Show role, state and lag of this cluster and of the other one."},
    {.name = "operator dr enable primary",
     ARGS("NAME", 1, 1),
     FLAGS(enable_flags),
     .run = cmd_dr_enable_primary,
     .help = "Make this cluster a DR primary, and print a token for a secondary of this name."},
    {.name = "operator dr enable secondary",
     ARGS("[TOKEN | -]", 0, 1),
     FLAGS(follow_flags),
     .run = cmd_dr_enable_secondary,
     .help = "Make this cluster follow a primary. The primary's state replaces its own."},
    {.name = "operator dr follow",
     ARGS("[TOKEN | -]", 0, 1),
     FLAGS(follow_flags),
     .run = cmd_dr_follow,
     .help = "Make a secondary, such as a former primary, follow the primary of its set."},
    {.name = "operator dr settings",
     ARGS("", 0, 0),
     FLAGS(settings_flags),
     .run = cmd_dr_settings,
     .help = "Set how this primary serves its secondaries, and show the settings. What no flag "
             "names keeps its value."},
    {.name = "operator dr preflight",
     ARGS("", 0, 0),
     .run = cmd_dr_preflight,
     .help = "List what stands in the way of a promotion of this secondary; change nothing."},
    {.name = "operator dr drill",
     ARGS("", 0, 0),
     FLAGS(drill_flags),
     .run = cmd_dr_drill,
     .help = "Rehearse a promotion of this secondary on a copy of its state: open the keys, read "
             "every value, and drop the copy. The secondary follows its primary meanwhile."},
    {.name = "operator dr promote",
     ARGS("", 0, 0),
     FLAGS(promote_flags),
     .run = cmd_dr_promote,
     .help = "Make this secondary the primary of its set; wait until it is allowed to be."},
    {.name = "operator dr demote",
     ARGS("", 0, 0),
     FLAGS(demote_flags),
     .run = cmd_dr_demote,
     .help = "Make this primary a secondary that takes no writes."},
    {.name = "operator dr disable",
     ARGS("", 0, 0),
     .run = cmd_dr_disable,
     .help = "End the part that this cluster takes in disaster recovery, as a primary or as a "
             "secondary; it keeps its data."},
    {.name = "operator dr revoke-secondary",
     ARGS("NAME", 1, 1),
     .run = cmd_dr_revoke,
     .help = "End a secondary of this primary: it gets nothing more."},
    {.name = "operator dr failback",
     ARGS("", 0, 0),
     FLAGS(failback_flags),
     .run = cmd_dr_failback,
     .help = "Make this cluster the primary in place of the other one, and let that one follow. "
             "Run again, it goes on where it stopped."},
};

const struct cli_group cli_dr_commands = {dr_commands, ARRAY_LEN(dr_commands)};
