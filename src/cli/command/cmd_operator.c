/* Commands for operators of a cluster: status, init, unseal, seal, keys. */
#include "cli/client.h"
#include "cli/command/ceremony.h"
#include "cli/command/command.h"

enum { SHARES_DEFAULT = 5, THRESHOLD_DEFAULT = 3 };

struct row {
    const char *title, *field;
};

static void add_rows(struct cli *cli, struct text_value *to, const struct text_value *from,
                     const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cli_add(cli, to, rows[i].title, text_get(from, rows[i].field));
}

static void add_seal_rows(struct cli *cli, struct text_value *table, const struct text_value *s)
{
    static const struct row head[] = {
        {"Seal Type", "type"},
        {"Initialized", "initialized"},
        {"Removed From Cluster", "removed_from_cluster"},
        {"Sealed", "sealed"},
    };
    static const struct row shares[] = {{"Total Shares", "n"}, {"Threshold", "t"}};
    static const struct row recovery[] = {{"Total Recovery Shares", "n"},
                                          {"Recovery Threshold", "t"}};
    static const struct row tail[] = {
        {"Version", "version"},
        {"Storage Type", "storage_type"},
        {"Cluster Name", "cluster_name"},
        {"Cluster ID", "cluster_id"},
    };
    const struct text_value *sealed = text_get(s, "sealed"), *nonce = text_get(s, "nonce");
    const struct text_value *have = text_get(s, "progress"), *need = text_get(s, "t");
    const struct text_value *recovers = text_get(s, "recovery_seal");
    bool by_itself = recovers != NULL && recovers->truth;
    add_rows(cli, table, s, head, ARRAY_LEN(head));
    add_rows(cli, table, s, by_itself ? recovery : shares, ARRAY_LEN(shares));
    if (sealed != NULL && sealed->truth && have != NULL && need != NULL) {
        char *text = arena_format(&cli->arena, "%.*s/%.*s", (int)have->text.len,
                                  (const char *)have->text.data, (int)need->text.len,
                                  (const char *)need->text.data);
        if (text != NULL)
            cli_add_text(cli, table, "Unseal Progress", text);
        if (nonce != NULL && nonce->text.len != 0)
            cli_add(cli, table, "Unseal Nonce", nonce);
    }
    const struct text_value *migration = text_get(s, "migration");
    if (migration != NULL && migration->truth)
        cli_add(cli, table, "Seal Migration in Progress", migration);
    const struct text_value *warnings = text_get(s, "warnings");
    if (warnings != NULL && warnings->kind == TEXT_LIST)
        TEXT_FOR (warning, warnings)
            cli_add(cli, table, "Warning", warning);
    add_rows(cli, table, s, tail, ARRAY_LEN(tail));
}

static int cmd_status(struct cli *cli)
{
    static const struct row rows[] = {
        {"HA Enabled", "ha_enabled"},
        {"HA Cluster", "leader_cluster_address"},
        {"Active Node Address", "leader_address"},
        {"Is Active Node", "is_self"},
        {"Raft Committed Index", "raft_committed_index"},
        {"Raft Applied Index", "raft_applied_index"},
    };
    struct cli_reply seal = {0}, leader = {0};
    const struct text_value *s = NULL, *l = NULL;
    struct cli_request ask_leader = {.method = "GET", .path = "/v1/sys/leader"};
    struct text_value *table = cli_object(cli, NULL);
    /* A failure is exit code 1: code 2 means a sealed node. */
    if (cli_request(cli, "GET", "sys/seal-status", NULL, &seal) != CLI_OK)
        return CLI_LOCAL_ERROR;
    s = cli_parse_reply(cli, &seal);
    const struct text_value *sealed = text_get(s, "sealed");
    if (sealed == NULL || table == NULL)
        return CLI_LOCAL_ERROR;
    if (!sealed->truth && cli_ask(cli, &ask_leader, &leader) == CLI_OK)
        l = cli_parse_reply(cli, &leader);
    if (cli->json) {
        *table = *s;
        for (size_t i = 0; l != NULL && i < ARRAY_LEN(rows); i++)
            cli_add(cli, table, rows[i].field, text_get(l, rows[i].field));
        cli_print_json(table);
    } else {
        add_seal_rows(cli, table, s);
        add_rows(cli, table, l, rows, ARRAY_LEN(rows));
        cli_print_table(table);
    }
    return sealed->truth ? CLI_REMOTE_ERROR : CLI_OK;
}

static int cmd_version_history(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_fetch(cli, "sys/version-history", "?list=true", &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *keys = text_get(text_get(body, "data"), "keys");
    const struct text_value *info = text_get(text_get(body, "data"), "key_info");
    struct text_value *table = cli_object(cli, NULL);
    if (keys == NULL || keys->kind != TEXT_LIST || table == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(body);
        return CLI_OK;
    }
    TEXT_FOR (key, keys) {
        const char *name = (const char *)key->text.data;
        cli_add(cli, table, name, text_get(text_get(info, name), "timestamp_installed"));
    }
    cli_print_table(table);
    return CLI_OK;
}

static int init_status(struct cli *cli)
{
    struct cli_reply reply = {0};
    if (cli_request(cli, "GET", "sys/init", NULL, &reply) != CLI_OK)
        return CLI_LOCAL_ERROR;
    const struct text_value *v = text_get(cli_parse_reply(cli, &reply), "initialized");
    if (v == NULL)
        return CLI_LOCAL_ERROR;
    if (cli->json)
        cli_print_json(cli_parse_reply(cli, &reply));
    else
        printf("The cluster is %sinitialised\n", v->truth ? "" : "not ");
    return v->truth ? CLI_OK : CLI_REMOTE_ERROR;
}

/* Write the PGP keys that the flags name. */
static int init_put_pgp(struct cli *cli, struct text_writer *w)
{
    int code = ceremony_put_pgp_keys(cli, w, "pgp-keys", "pgp_keys");
    if (code == CLI_OK)
        code = ceremony_put_pgp_keys(cli, w, "recovery-pgp-keys", "recovery_pgp_keys");
    if (code == CLI_OK)
        code = ceremony_put_pgp_key(cli, w, "root-token-pgp-key", "root_token_pgp_key");
    return code;
}

/* Write the body of sys/init. A cluster that people unseal (shamir) has key shares. A cluster that
 * unseals itself has recovery shares; -recovery-shares=0 makes none. */
static int init_body(struct cli *cli, bool shamir, struct buf *out)
{
    struct text_writer w = {.out = out};
    bool keys = cli_text(cli, "key-shares") != NULL || cli_text(cli, "key-threshold") != NULL;
    bool recovery =
        cli_text(cli, "recovery-shares") != NULL || cli_text(cli, "recovery-threshold") != NULL;
    if (shamir && recovery)
        return cli_usage_error(cli, "a cluster with key shares has no recovery shares: use "
                                    "-key-shares and -key-threshold");
    if (!shamir && keys)
        return cli_usage_error(cli, "a cluster that unseals itself has no key shares: use "
                                    "-recovery-shares and -recovery-threshold");
    text_open_object(&w);
    if (shamir) {
        text_member_int(&w, "secret_shares", cli_int(cli, "key-shares", SHARES_DEFAULT));
        text_member_int(&w, "secret_threshold", cli_int(cli, "key-threshold", THRESHOLD_DEFAULT));
    } else {
        int64_t shares = cli_int(cli, "recovery-shares", SHARES_DEFAULT);
        text_member_int(&w, "recovery_shares", shares);
        text_member_int(&w, "recovery_threshold",
                        cli_int(cli, "recovery-threshold", shares == 0 ? 0 : THRESHOLD_DEFAULT));
    }
    int code = init_put_pgp(cli, &w);
    text_close(&w);
    return code;
}

static void add_count(struct cli *cli, struct text_value *to, const char *name, const char *digits)
{
    const struct text_value v = {.kind = TEXT_NUMBER, .text = bytes_str(digits)};
    cli_add(cli, to, name, &v);
}

static void add_shares(struct cli *cli, struct text_value *to, const char *kind,
                       const struct text_value *base64, const struct text_value *hex)
{
    static const char *const names[] = {"keys_b64", "keys_hex", "shares", "threshold"};
    bool unseal = strcmp(kind, "unseal") == 0;
    const char *flags = unseal ? "key" : "recovery";
    char *full[ARRAY_LEN(names)];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        /* "unseal_shares", but "recovery_keys_shares" */
        full[i] =
            arena_format(&cli->arena, "%s_%s%s", kind, i >= 2 && !unseal ? "keys_" : "", names[i]);
        if (full[i] == NULL)
            return;
    }
    cli_add(cli, to, full[0], base64);
    cli_add(cli, to, full[1], hex);
    char *shares = arena_format(&cli->arena, "%zu", base64 != NULL ? base64->n : 0);
    char *flag = arena_format(&cli->arena, "%s-threshold", flags);
    char *threshold = flag != NULL ? arena_format(&cli->arena, "%lld",
                                                  (long long)cli_int(cli, flag, THRESHOLD_DEFAULT))
                                   : NULL;
    if (shares == NULL || threshold == NULL)
        return;
    add_count(cli, to, full[2], shares);
    add_count(cli, to, full[3], base64 != NULL && base64->n != 0 ? threshold : "0");
}

/* Print the reply with the names that upstream's tool prints: scripts read them. */
static void print_init_json(struct cli *cli, const struct text_value *body)
{
    struct text_value *out = cli_object(cli, NULL);
    if (out == NULL)
        return;
    add_shares(cli, out, "unseal", text_get(body, "keys_base64"), text_get(body, "keys"));
    add_shares(cli, out, "recovery", text_get(body, "recovery_keys_base64"),
               text_get(body, "recovery_keys"));
    cli_add(cli, out, "root_token", text_get(body, "root_token"));
    cli_print_json(out);
}

static unsigned print_shares(const struct text_value *keys, const char *title)
{
    unsigned n = 0;
    if (keys == NULL || keys->kind != TEXT_LIST)
        return 0;
    TEXT_FOR (key, keys)
        printf("%s Key %u: %.*s\n", title, ++n, (int)key->text.len, (const char *)key->text.data);
    if (n != 0)
        printf("\n");
    return n;
}

static bool init_encrypts(struct cli *cli)
{
    return cli_text(cli, "pgp-keys") != NULL || cli_text(cli, "recovery-pgp-keys") != NULL ||
           cli_text(cli, "root-token-pgp-key") != NULL;
}

static void print_init(struct cli *cli, const struct text_value *body,
                       const struct text_value *token)
{
    unsigned keys = print_shares(text_get(body, "keys_base64"), "Unseal");
    unsigned recovery = print_shares(text_get(body, "recovery_keys_base64"), "Recovery");
    printf("Initial Root Token: %.*s\n\n", (int)token->text.len, (const char *)token->text.data);
    if (keys != 0)
        printf(
            "The cluster is initialised and sealed. Give the keys to different people. Unseal each "
            "node\nwith \"holdfast operator unseal\". Without enough of the keys all data is "
            "lost.\n");
    else
        printf("The cluster is initialised; its nodes unseal themselves.%s\n",
               recovery != 0
                   ? " Give the recovery keys to\ndifferent people: enough of them replace a "
                     "lost root token\n(\"holdfast operator generate-root\")."
                   : "");
    printf("Keep the token%s: this is the only time %s shown.\n",
           keys != 0 || recovery != 0 ? " and the keys" : "",
           keys != 0 || recovery != 0 ? "they are" : "the token is");
    if (init_encrypts(cli))
        printf("A text that was encrypted with a PGP key is read by \"base64 -d | gpg -d\".\n");
    cli_print_warnings(body);
}

static int cmd_init(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    if (cli_bool(cli, "status", false))
        return init_status(cli);
    int code = cli_request(cli, "GET", "sys/seal-status", NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *type = text_get(cli_parse_reply(cli, &reply), "type");
    if (type == NULL) {
        cli_complain("the server's reply lacks the type of the seal");
        return CLI_REMOTE_ERROR;
    }
    code = init_body(cli, text_is(type->text, "shamir"), &body);
    if (code == CLI_OK)
        code = cli_request(cli, "PUT", "sys/init", &body, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *answer = cli_parse_reply(cli, &reply);
    const struct text_value *token = text_get(answer, "root_token");
    if (token == NULL)
        return cli_unexpected();
    if (cli->json)
        print_init_json(cli, answer);
    else
        print_init(cli, answer, token);
    return CLI_OK;
}

static int cmd_unseal(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    bool reset = cli_bool(cli, "reset", false);
    const char *key = cli->n_args != 0 ? cli->args[0] : NULL;
    if (!reset && (key == NULL || strcmp(key, "-") == 0))
        key = cli_secret(cli, "Unseal Key (will be hidden): ");
    if (!reset && key == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    if (reset)
        text_member_bool(&w, "reset", true);
    else
        text_member_str(&w, "key", key);
    if (!reset && cli_bool(cli, "migrate", false))
        text_member_bool(&w, "migrate", true);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/unseal", &body, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *answer = cli_parse_reply(cli, &reply);
    struct text_value *table = cli_object(cli, NULL);
    if (answer == NULL || table == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(answer);
        return CLI_OK;
    }
    add_seal_rows(cli, table, answer);
    cli_print_table(table);
    return CLI_OK;
}

static int just_do(struct cli *cli, const char *path)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    buf_add_str(&body, "{}");
    return cli_request(cli, "PUT", path, &body, &reply);
}

/* Ask without a message: the answer is a courtesy. NULL: there is none. */
static const struct text_value *ask_aside(struct cli *cli, const char *path)
{
    const struct text_value *body = NULL;
    struct cli_request ask = {.method = "GET", .path = path, .aside = true};
    struct cli_reply reply = {0};
    struct reason why = {{0}};
    if (cli_send(cli, &ask, &reply, &why) == ST_OK && reply.status == 200 &&
        text_json_parse(&cli->arena, reply.body, &body, NULL) == ST_OK)
        return body;
    return NULL;
}

static int cmd_seal(struct cli *cli)
{
    int code = just_do(cli, "sys/seal");
    if (code != CLI_OK || cli->json)
        return code;
    printf("Success! Sealed the node: %s\n", cli->address);
    const struct text_value *type = text_get(ask_aside(cli, "/v1/sys/seal-status"), "type");
    if (type != NULL && type->kind == TEXT_STRING && !text_is(type->text, "shamir"))
        printf("Its seal opens by itself: a restart unseals the node.\n");
    return code;
}

static int cmd_step_down(struct cli *cli)
{
    const struct text_value *leader = text_get(ask_aside(cli, "/v1/sys/leader"), "leader_address");
    int code = just_do(cli, "sys/step-down");
    if (code == CLI_OK && !cli->json)
        printf("Success! Stepped down: %.*s\n", leader != NULL ? (int)leader->text.len : 15,
               leader != NULL ? (const char *)leader->text.data : "the active node");
    return code;
}

static int cmd_key_status(struct cli *cli)
{
    static const struct row rows[] = {{"Key Term", "term"},
                                      {"Install Time", "install_time"},
                                      {"Encryption Count", "encryptions"}};
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", "sys/key-status", NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply), *data = text_get(body, "data");
    struct text_value *table = cli_object(cli, NULL);
    if (body == NULL || table == NULL)
        return cli_unexpected();
    if (data == NULL)
        data = body;
    if (cli->json) {
        cli_print_json(data);
        return CLI_OK;
    }
    add_rows(cli, table, data, rows, ARRAY_LEN(rows));
    cli_print_table(table);
    return CLI_OK;
}

static int cmd_rotate(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    buf_add_str(&body, "{}");
    int code = cli_request(cli, "PUT", "sys/rotate", &body, &reply);
    if (code != CLI_OK)
        return code;
    if (!cli->json)
        printf("Success! Rotated key\n\n");
    return cmd_key_status(cli);
}

static int cmd_members(struct cli *cli)
{
    static const struct row rows[] = {{"Host Name", "hostname"},
                                      {"API Address", "api_address"},
                                      {"Cluster Address", "cluster_address"},
                                      {"Active Node", "active_node"},
                                      {"Version", "version"},
                                      {"Reachable", "reachable"},
                                      {"Last Echo", "last_echo"}};
    static const struct text_value unknown = {.kind = TEXT_NULL};
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", "sys/ha-status", NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *nodes = text_get(text_get(body, "data"), "nodes");
    struct text_value *grid = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    if (nodes == NULL || nodes->kind != TEXT_LIST || grid == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(text_get(body, "data"));
        return CLI_OK;
    }
    TEXT_FOR (node, nodes) {
        struct text_value *line = cli_object(cli, grid);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            const struct text_value *v = text_get(node, rows[i].field);
            cli_add(cli, line, rows[i].title, v != NULL ? v : &unknown);
        }
    }
    cli_print_grid(grid);
    return CLI_OK;
}

static const struct cli_flag init_flags[] = {
    {"key-shares", CLI_INT, "how many key shares to make; default 5"},
    {"key-threshold", CLI_INT, "how many key shares unseal a node; default 3"},
    {"recovery-shares", CLI_INT,
     "how many recovery keys to make, if the cluster unseals itself; default 5, 0: none"},
    {"recovery-threshold", CLI_INT, "how many recovery keys are needed; default 3"},
    {"pgp-keys", CLI_MANY,
     "files with PGP public keys, separated by commas: one for each key share, to encrypt it"},
    {"recovery-pgp-keys", CLI_MANY, "the same for recovery keys"},
    {"root-token-pgp-key", CLI_FILE, "file with a PGP public key, to encrypt the root token"},
    {"status", CLI_BOOL,
     "only check whether the cluster is initialised: exit code 0, or 2 if not"}};
static const struct cli_flag unseal_flags[] = {
    {"reset", CLI_BOOL, "forget the key shares given so far"},
    {"migrate", CLI_BOOL, "also move the cluster to the seal that this node is configured for"}};

static const struct cli_command operator_commands[] = {
    {.name = "status",
     ARGS("", 0, 0),
     .run = cmd_status,
     .help = "Show whether a node is sealed (exit code 2), and which node is active."},
    {.name = "version-history",
     ARGS("", 0, 0),
     .run = cmd_version_history,
     .help = "List the versions of the program that were active, and since when."},
    {.name = "init",
     ARGS("", 0, 0),
     FLAGS(init_flags),
     .run = cmd_init,
     .help = "The same as operator init."},
    {.name = "operator init",
     ARGS("", 0, 0),
     FLAGS(init_flags),
     .run = cmd_init,
     .help = "Initialise a new cluster; prints the keys and the root token, only once."},
    {.name = "operator unseal",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(unseal_flags),
     .run = cmd_unseal,
     .help = "Give a sealed node one key share, typed or from standard input."},
    {.name = "operator seal", ARGS("", 0, 0), .run = cmd_seal, .help = "Seal a node."},
    {.name = "operator step-down",
     ARGS("", 0, 0),
     .run = cmd_step_down,
     .help = "Make another node the active node."},
    {.name = "operator rotate",
     ARGS("", 0, 0),
     .run = cmd_rotate,
     .help = "Make a new encryption key for values that are stored from now on."},
    {.name = "operator key-status",
     ARGS("", 0, 0),
     .run = cmd_key_status,
     .help = "Show the encryption key in use."},
    {.name = "operator members",
     ARGS("", 0, 0),
     .run = cmd_members,
     .help = "List the nodes, and which node is active."},
};

const struct cli_group cli_operator_commands = {operator_commands, ARRAY_LEN(operator_commands)};
