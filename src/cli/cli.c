/* The commands, and what flags and environment mean to all of them. */
#include "cli/cli.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUT_MAX = 32 * 1024 * 1024 };

static int usage_error(const char *text)
{
    (void)fprintf(stderr, "%s\n", text); /* standard error is all there is */
    return CLI_LOCAL_ERROR;
}

/* Send; print the server's errors. CLI_OK when it answered 2xx, or 404 if `absent_ok`. */
static int request(struct cli *cli, const char *method, const char *path, struct bytes body,
                   struct cli_reply *reply)
{
    struct reason reason = {{0}};
    enum status st = cli_send(cli, method, path, body, reply, &reason);
    if (st != ST_OK) {
        (void)fprintf(stderr, "Error: %s %s%s: %s\n", method, cli->address, path,
                      reason.text[0] != '\0' ? reason.text : status_text(st)); /* as above */
        return CLI_REMOTE_ERROR;
    }
    if (reply->status >= 200 && reply->status < 300)
        return CLI_OK;
    return CLI_REMOTE_ERROR;
}

static int refused(struct cli *cli, const char *method, const char *path,
                   const struct cli_reply *reply)
{
    if (reply->status != 0)
        cli_print_errors(cli, method, path, reply);
    return CLI_REMOTE_ERROR;
}

static const struct text_value *parse(struct cli *cli, struct bytes body)
{
    const struct text_value *v = NULL;
    if (text_json_parse(&cli->arena, body, &v, NULL) != ST_OK)
        (void)fprintf(stderr, "Error: the answer is not JSON\n"); /* as above */
    return v;
}

/* "/v1/" and the path without a leading slash; what HTTP does not allow in it is escaped. */
static char *api_path(struct cli *cli, const char *path, const char *query)
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
    buf_add_str(&b, query);
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

static int show(struct cli *cli, const struct cli_reply *reply)
{
    const struct text_value *body = parse(cli, reply->body);
    if (body == NULL)
        return CLI_REMOTE_ERROR;
    const struct text_value *data = text_get(body, "data");
    if (data == NULL || data->kind == TEXT_NULL)
        data = body;
    if (cli->field != NULL) {
        const struct text_value *v = text_get(data, cli->field);
        if (v == NULL) {
            (void)fprintf(stderr, "Field \"%s\" not present in secret\n", cli->field);
            return CLI_LOCAL_ERROR;
        }
        cli_print_value(v);
    } else if (cli->json) {
        cli_print_json(body);
    } else {
        cli_print_table(data);
    }
    return CLI_OK;
}

static int cmd_read(struct cli *cli)
{
    struct cli_reply reply = {0};
    if (cli->n_args != 1)
        return usage_error("usage: holdfast read [-field=NAME] PATH");
    char *path = api_path(cli, cli->args[0], "");
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    if (request(cli, "GET", path, (struct bytes){0}, &reply) == CLI_OK)
        return show(cli, &reply);
    if (reply.status != 404)
        return refused(cli, "GET", path, &reply);
    (void)fprintf(stderr, "No value found at %s\n", cli->args[0]);
    return CLI_REMOTE_ERROR;
}

static int cmd_list(struct cli *cli)
{
    struct cli_reply reply = {0};
    if (cli->n_args != 1)
        return usage_error("usage: holdfast list PATH");
    char *path = api_path(cli, cli->args[0], "?list=true");
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    if (request(cli, "GET", path, (struct bytes){0}, &reply) != CLI_OK) {
        if (reply.status != 404)
            return refused(cli, "LIST", path, &reply);
        (void)fprintf(stderr, "No value found at %s\n", cli->args[0]);
        return CLI_REMOTE_ERROR;
    }
    const struct text_value *body = parse(cli, reply.body);
    const struct text_value *keys = text_get(text_get(body, "data"), "keys");
    if (keys == NULL || keys->kind != TEXT_LIST)
        return CLI_REMOTE_ERROR;
    if (cli->json) {
        cli_print_json(keys);
        return CLI_OK;
    }
    printf("Keys\n----\n");
    TEXT_FOR (key, keys)
        cli_print_value(key);
    return CLI_OK;
}

/* Everything from a file, "-" being standard input. NULL with a message. */
static bool slurp(struct cli *cli, const char *name, struct bytes *ret_text)
{
    CLEANUP(buf_done) struct buf b = {0};
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "rb");
    size_t n = 0;
    if (file == NULL) {
        (void)fprintf(stderr, "Error: %s: %s\n", name, strerror(errno));
        return false;
    }
    do {
        b.len += n;
        if (b.len > INPUT_MAX || buf_reserve(&b, 65536) != ST_OK)
            break;
    } while ((n = fread(b.data + b.len, 1, 65536, file)) > 0);
    bool whole = n == 0 && ferror(file) == 0 && buf_status(&b) == ST_OK;
    if (file != stdin)
        (void)fclose(file); /* it was only read */
    uint8_t *copy = whole ? arena_dup(&cli->arena, buf_bytes(&b)) : NULL;
    if (copy == NULL) {
        (void)fprintf(stderr, "Error: %s cannot be read whole\n", name);
        return false;
    }
    *ret_text = bytes_of(copy, b.len);
    return true;
}

/* "key=value", "key=@file", "key=-", or "-" alone: a JSON object from standard input. */
static bool build_body(struct cli *cli, struct buf *out)
{
    struct text_writer w = {.out = out};
    if (cli->n_args == 2 && strcmp(cli->args[1], "-") == 0) {
        struct bytes text;
        if (!slurp(cli, "-", &text))
            return false;
        buf_add(out, text);
        return true;
    }
    text_open_object(&w);
    for (unsigned i = 1; i < cli->n_args; i++) {
        const char *eq = strchr(cli->args[i], '=');
        if (eq == NULL) {
            (void)fprintf(stderr, "Error: \"%s\" is not key=value\n", cli->args[i]);
            return false;
        }
        struct bytes value = bytes_str(eq + 1);
        if ((eq[1] == '@' && !slurp(cli, eq + 2, &value)) ||
            (strcmp(eq + 1, "-") == 0 && !slurp(cli, "-", &value)))
            return false;
        text_key_bytes(&w, bytes_of(cli->args[i], (size_t)(eq - cli->args[i])));
        text_put_bytes(&w, value);
    }
    text_close(&w);
    return buf_status(out) == ST_OK;
}

static int cmd_write(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    if (cli->n_args < 1)
        return usage_error("usage: holdfast write PATH [KEY=VALUE | KEY=@FILE | KEY=- | -]…");
    char *path = api_path(cli, cli->args[0], "");
    if (path == NULL || !build_body(cli, &body))
        return CLI_LOCAL_ERROR;
    if (request(cli, "PUT", path, buf_bytes(&body), &reply) != CLI_OK)
        return refused(cli, "PUT", path, &reply);
    if (reply.body.len != 0)
        return show(cli, &reply);
    printf("Success! Data written to: %s\n", cli->args[0]);
    return CLI_OK;
}

static int cmd_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    if (cli->n_args != 1)
        return usage_error("usage: holdfast delete PATH");
    char *path = api_path(cli, cli->args[0], "");
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    if (request(cli, "DELETE", path, (struct bytes){0}, &reply) != CLI_OK)
        return refused(cli, "DELETE", path, &reply);
    printf("Success! Data deleted (if it existed) at: %s\n", cli->args[0]);
    return CLI_OK;
}

static int cmd_init(struct cli *cli)
{
    struct cli_reply reply = {0};
    if (cli->n_args != 0)
        return usage_error("usage: holdfast init");
    if (request(cli, "PUT", "/v1/sys/init", BYTES("{}"), &reply) != CLI_OK)
        return refused(cli, "PUT", "/v1/sys/init", &reply);
    const struct text_value *body = parse(cli, reply.body);
    const struct text_value *token = text_get(body, "root_token");
    if (token == NULL)
        return CLI_REMOTE_ERROR;
    if (cli->json) {
        cli_print_json(body);
        return CLI_OK;
    }
    printf(
        "Initial Root Token: %.*s\n\nThe cluster is initialised; its nodes unseal by themselves.\n"
        "Keep the token: it is shown this once.\n",
        (int)token->text.len, (const char *)token->text.data);
    return CLI_OK;
}

static void add_text(struct cli *cli, struct text_value *to, const char *name, const char *from,
                     const struct text_value *source)
{
    const struct text_value *v = text_get(source, from);
    if (v == NULL)
        return;
    struct text_value *copy = text_value_new(&cli->arena, to, v->kind, bytes_str(name));
    if (copy == NULL)
        return;
    copy->text = v->text;
    copy->truth = v->truth;
}

static int cmd_status(struct cli *cli)
{
    static const char *const rows[][2] = {{"Seal Type", "type"},
                                          {"Initialized", "initialized"},
                                          {"Sealed", "sealed"},
                                          {"Version", "version"},
                                          {"Storage Type", "storage_type"},
                                          {"Cluster Name", "cluster_name"},
                                          {"Cluster ID", "cluster_id"}};
    static const char *const leader_rows[][2] = {{"HA Enabled", "ha_enabled"},
                                                 {"Active Node Address", "leader_address"},
                                                 {"Is Active Node", "is_self"},
                                                 {"Raft Committed Index", "raft_committed_index"},
                                                 {"Raft Applied Index", "raft_applied_index"}};
    struct cli_reply seal = {0}, leader = {0};
    if (request(cli, "GET", "/v1/sys/seal-status", (struct bytes){0}, &seal) != CLI_OK) {
        (void)refused(cli, "GET", "/v1/sys/seal-status", &seal); /* 2 is for a sealed node */
        return CLI_LOCAL_ERROR;
    }
    const struct text_value *s = parse(cli, seal.body), *l = NULL;
    if (request(cli, "GET", "/v1/sys/leader", (struct bytes){0}, &leader) == CLI_OK)
        l = parse(cli, leader.body);
    const struct text_value *sealed = text_get(s, "sealed");
    if (sealed == NULL)
        return CLI_LOCAL_ERROR;
    if (cli->json) {
        cli_print_json(s);
    } else {
        struct text_value *table =
            text_value_new(&cli->arena, NULL, TEXT_OBJECT, (struct bytes){0});
        for (size_t i = 0; table != NULL && i < ARRAY_LEN(rows); i++)
            add_text(cli, table, rows[i][0], rows[i][1], s);
        for (size_t i = 0; table != NULL && i < ARRAY_LEN(leader_rows); i++)
            add_text(cli, table, leader_rows[i][0], leader_rows[i][1], l);
        if (table != NULL)
            cli_print_table(table);
    }
    return sealed->truth ? CLI_REMOTE_ERROR : CLI_OK;
}

static const struct {
    const char *name, *help;
    int (*run)(struct cli *cli);
} commands[] = {
    {"delete", "delete what is at a path", cmd_delete},
    {"init", "initialise a new cluster", cmd_init},
    {"list", "list the keys below a path", cmd_list},
    {"read", "read what is at a path", cmd_read},
    {"status", "show whether a node is sealed, and who is active", cmd_status},
    {"write", "write to a path", cmd_write},
};

bool cli_knows(const char *command)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, command) == 0)
            return true;
    return false;
}

void cli_usage(void)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf("  %-18s %s\n", commands[i].name, commands[i].help);
    printf("\nFlags: -address URL, -ca-cert FILE, -tls-skip-verify, -namespace PATH, -format "
           "table|json,\n-field NAME. Environment: HOLDFAST_ADDR, HOLDFAST_TOKEN, "
           "HOLDFAST_CACERT,\nHOLDFAST_SKIP_VERIFY, HOLDFAST_NAMESPACE, HOLDFAST_FORMAT, or "
           "VAULT_ instead of HOLDFAST_.\n");
}

static const char *from_env(struct cli *cli, const char *name)
{
    static const char *const starts[] = {"HOLDFAST_", "VAULT_"};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        char *full = arena_format(&cli->arena, "%s%s", starts[i], name);
        const char *value = full != NULL ? getenv(full) : NULL;
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return NULL;
}

static bool truthy(const char *text)
{
    return text != NULL && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
}

static bool set_format(struct cli *cli, const char *value)
{
    cli->json = strcmp(value, "json") == 0;
    return cli->json || strcmp(value, "table") == 0;
}

/* A flag and, where it needs one, its value. False: unknown, or the value is missing or wrong. */
static bool take_flag(struct cli *cli, const char *name, size_t len, const char *value)
{
    struct bytes flag = bytes_of(name, len);
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"address", &cli->address},
                 {"ca-cert", &cli->ca_file},
                 {"namespace", &cli->name_space},
                 {"field", &cli->field}};
    if (value == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (text_is(flag, texts[i].name)) {
            *texts[i].to = value;
            return true;
        }
    return text_is(flag, "format") && set_format(cli, value);
}

static bool parse_args(struct cli *cli, int argc, char **argv)
{
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!flags || word[0] != '-' || word[1] == '\0') {
            if (cli->n_args == CLI_ARGS_MAX)
                return false;
            cli->args[cli->n_args++] = word;
            continue;
        }
        word += word[1] == '-' ? 2 : 1;
        if (word[0] == '\0') {
            flags = false;
            continue;
        }
        size_t len = strcspn(word, "=");
        if (text_is(bytes_of(word, len), "tls-skip-verify")) {
            cli->insecure = word[len] == '\0' || truthy(word + len + 1);
            continue;
        }
        const char *value = word[len] == '=' ? word + len + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!take_flag(cli, word, len, value)) {
            (void)fprintf(stderr, "Error: flag -%.*s is not known, or lacks a good value\n",
                          (int)len, word);
            return false;
        }
    }
    return true;
}

static int run(struct cli *cli, const char *command, int argc, char **argv)
{
    const char *format = from_env(cli, "FORMAT");
    cli->address = from_env(cli, "ADDR");
    cli->token = from_env(cli, "TOKEN");
    cli->ca_file = from_env(cli, "CACERT");
    cli->name_space = from_env(cli, "NAMESPACE");
    cli->insecure = truthy(from_env(cli, "SKIP_VERIFY"));
    if (cli->address == NULL)
        cli->address = "https://127.0.0.1:8200";
    if ((format != NULL && !set_format(cli, format)) || !parse_args(cli, argc, argv))
        return CLI_LOCAL_ERROR;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, command) == 0)
            return commands[i].run(cli);
    return CLI_LOCAL_ERROR;
}

int cli_run(const char *command, int argc, char **argv)
{
    struct cli *cli = mem_zalloc(sizeof *cli);
    if (cli == NULL)
        return CLI_LOCAL_ERROR;
    int code = run(cli, command, argc, argv);
    arena_done(&cli->arena);
    mem_free(cli);
    return fflush(stdout) == 0 ? code : CLI_LOCAL_ERROR;
}
