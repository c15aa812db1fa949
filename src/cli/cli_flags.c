/* Parser of the command line and the environment. A message names a known flag or the place of a
 * word and repeats no other text, which may be a secret in the wrong place. */
#include "cli/dialect/dialect.h"
#include "text/duration.h"

#include <stdlib.h>

enum { TIMEOUT_DEFAULT_MS = 60 * 1000 };

const char *cli_flag_alias(const struct cli_flag *flag)
{
    static const struct {
        const char *name, *alias;
    } aliases[] = {{"force", "f"},
                   {"namespace", "ns"},
                   {"datacenter", "dc"},
                   {"http-addr", "address"},
                   {"ca-file", "ca-cert"},
                   {"accessor-id", "accessor"},
                   {"listen", "dev-listen-address"},
                   {"root-token-id", "dev-root-token-id"}};
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(flag->name, aliases[i].name) == 0)
            return aliases[i].alias;
    return NULL;
}

const char *cli_env(struct cli *cli, const char *name)
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

/* Read a boolean as Go's strconv.ParseBool does. */
static bool read_bool(const char *text, bool *ret_truth)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret_truth = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static const struct cli_flag *find_flag(const struct cli_flag *flags, unsigned n, struct bytes name)
{
    for (unsigned i = 0; i < n; i++) {
        const char *alias = cli_flag_alias(&flags[i]);
        if (text_is(name, flags[i].name) || (alias != NULL && text_is(name, alias)))
            return &flags[i];
    }
    return NULL;
}

static bool value_good(const struct cli_flag *flag, const char *value)
{
    int64_t n;
    bool truth;
    switch (flag->kind) {
    case CLI_DURATION:
        return value[0] != '\0' &&
               (strcmp(value, "system") == 0 || text_duration_parse(bytes_str(value), &n) == ST_OK);
    case CLI_BOOL: return read_bool(value, &truth);
    case CLI_INT: return text_int_parse(bytes_str(value), &n) == ST_OK && n >= 0;
    case CLI_PAIRS: return strchr(value, '=') != NULL && value[0] != '=';
    case CLI_TEXT:
    case CLI_MANY:
    case CLI_FILE: break;
    }
    return true;
}

static bool refuse(const struct cli_flag *flag, const char *why)
{
    cli_complain("flag -%s %s", flag->name, why);
    return false;
}

/* Read the flag at argv[*at]. *at moves to the flag's value if the value is a word of its own. */
static bool take_flag(struct cli *cli, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + (argv[*at][1] == '-' ? 2 : 1), *value = NULL;
    size_t len = strcspn(name, "=");
    struct bytes word = bytes_of(name, len);
    const struct cli_command *c = cli->command;
    ASSERT(*at < argc);
    const struct cli_flag *flag = find_flag(c->flags, c->n_flags, word);
    if (flag == NULL && !c->offline)
        flag = find_flag(cli_dialect_of(c)->flags, cli_dialect_of(c)->n_flags, word);
    if (flag == NULL) {
        cli_unknown_flag(cli, argv[*at], *at + 1);
        return false;
    }
    if (name[len] == '=')
        value = name + len + 1;
    else if (flag->kind == CLI_BOOL)
        value = "true";
    else if (*at + 1 < argc)
        value = argv[++*at];
    if (value == NULL)
        return refuse(flag, "needs a value");
    if (!value_good(flag, value))
        return refuse(flag, flag->kind == CLI_BOOL       ? "must be true or false"
                            : flag->kind == CLI_INT      ? "needs a whole number, 0 or more"
                            : flag->kind == CLI_DURATION ? "must be a duration, such as 90s or 12h"
                                                         : "needs NAME=VALUE");
    if (cli->n_given == CLI_FLAGS_MAX)
        return refuse(flag, "is one flag too many: at most 256 are allowed");
    cli->given[cli->n_given].flag = flag;
    cli->given[cli->n_given++].value = value;
    return true;
}

static bool is_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "-help") == 0 || strcmp(word, "--help") == 0;
}

static bool split_words(struct cli *cli, int argc, char **argv, bool *ret_help)
{
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (flags && is_help(word)) {
            *ret_help = true;
            return true;
        }
        if (flags && strcmp(word, "--") == 0) {
            flags = false;
        } else if (flags && word[0] == '-' && word[1] != '\0') {
            if (!take_flag(cli, argc, argv, &i))
                return false;
        } else if (cli->n_args == CLI_ARGS_MAX) {
            cli_complain("more than %d arguments", CLI_ARGS_MAX);
            return false;
        } else {
            cli->args[cli->n_args++] = word;
        }
    }
    return true;
}

bool cli_truth(const char *text, const char *what, bool *ret_truth)
{
    if (text == NULL || read_bool(text, ret_truth))
        return true;
    cli_complain("%s must be true or false", what);
    return false;
}

static bool set_format(struct cli *cli, const char *value)
{
    const char *table = cli_dialect_of(cli->command)->table;
    if (value == NULL)
        return true;
    cli->json = strcmp(value, "json") == 0;
    if (cli->json || strcmp(value, "table") == 0 || strcmp(value, table) == 0)
        return true;
    cli_complain("the output format must be %s or json", table);
    return false;
}

static bool set_timeout(struct cli *cli, const char *value)
{
    int64_t ns = 0;
    cli->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (value == NULL)
        return true;
    if (text_duration_parse(bytes_str(value), &ns) != ST_OK || ns == 0) {
        cli_complain("HOLDFAST_CLIENT_TIMEOUT must be a duration above 0, such as 60s");
        return false;
    }
    cli->timeout_ms = MAX(ns / 1000000, (int64_t)1);
    return true;
}

const char *cli_next_node(struct arena *arena, const char **at)
{
    *at += strspn(*at, ", ");
    size_t len = strcspn(*at, ", ");
    const char *node = len != 0 ? arena_str(arena, bytes_of(*at, len)) : NULL;
    *at += len;
    return node;
}

bool cli_names_node(const char *nodes, const char *address)
{
    size_t len = strlen(address);
    for (const char *at = nodes; at != NULL && *at != '\0'; at += strcspn(at, ", ")) {
        at += strspn(at, ", ");
        if (len != 0 && strcspn(at, ", ") == len && memcmp(at, address, len) == 0)
            return true;
    }
    return false;
}

/* Whether a command is about the node that is asked: the reply of another would mislead, and an act
 * would hit another node or, in disaster recovery, another cluster. */
static bool is_about_node(const struct cli_command *command)
{
    static const char *const words[] = {"status", "init", "monitor", "operator"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i]);
        if (strncmp(command->name, words[i], len) == 0 && strchr(" ", command->name[len]) != NULL)
            return true;
    }
    return false;
}

/* The other nodes of the cluster. An address that is not among them may be of another cluster, and
 * one that a flag gives is meant alone. */
static void set_nodes(struct cli *cli)
{
    const char *nodes = getenv(cli_dialect_of(cli->command)->nodes);
    bool meant = cli_text(cli, "address") != NULL || cli_text(cli, "http-addr") != NULL;
    if (nodes != NULL && cli->address == NULL)
        cli->address = cli_next_node(&cli->arena, &(const char *){nodes});
    if (cli->address == NULL)
        cli->address = CLI_DEFAULT_ADDRESS;
    ASSERT(cli->address != NULL && cli->nodes == NULL);
    if (!meant && cli_names_node(nodes, cli->address) && !is_about_node(cli->command))
        cli->nodes = nodes;
}

static bool configure_command(struct cli *cli)
{
    ASSERT(!cli->command->offline);
    cli->field = cli_text(cli, "field");
    if (!set_format(cli, cli_env(cli, "FORMAT")) ||
        !set_timeout(cli, cli_env(cli, "CLIENT_TIMEOUT")) ||
        !cli_dialect_of(cli->command)->configure(cli))
        return false;
    set_nodes(cli);
    return set_format(cli, cli_text(cli, "format"));
}

bool cli_parse(struct cli *cli, int argc, char **argv, bool *ret_help)
{
    ASSERT(cli->command != NULL && cli->n_given == 0);
    if (!split_words(cli, argc, argv, ret_help))
        return false;
    if (*ret_help)
        return true;
    if (!cli->command->offline && !configure_command(cli))
        return false;
    ASSERT(cli->command->args_min <= cli->command->args_max);
    if (cli->n_args < cli->command->args_min)
        return cli_usage_error(cli, "an argument is missing") == CLI_OK;
    if (cli->n_args > cli->command->args_max)
        return cli_usage_error(cli, "too many arguments") == CLI_OK;
    return true;
}

const char *cli_each(struct cli *cli, const char *flag, unsigned *at)
{
    while (*at < cli->n_given) {
        unsigned i = (*at)++;
        if (strcmp(cli->given[i].flag->name, flag) == 0) {
            cli->given[i].read = true;
            return cli->given[i].value;
        }
    }
    return NULL;
}

const char *cli_text(struct cli *cli, const char *flag)
{
    const char *last = NULL;
    unsigned at = 0;
    for (const char *value; (value = cli_each(cli, flag, &at)) != NULL;)
        last = value;
    return last;
}

bool cli_bool(struct cli *cli, const char *flag, bool otherwise)
{
    const char *text = cli_text(cli, flag);
    bool truth = otherwise;
    if (text != NULL)
        ASSERT(read_bool(text, &truth));
    return truth;
}

int64_t cli_int(struct cli *cli, const char *flag, int64_t otherwise)
{
    const char *text = cli_text(cli, flag);
    int64_t n = otherwise;
    if (text != NULL)
        ASSERT(text_int_parse(bytes_str(text), &n) == ST_OK);
    return n;
}

void cli_warn_unread(const struct cli *cli)
{
    for (unsigned i = 0; i < cli->n_given; i++)
        if (!cli->given[i].read)
            cli_say("Warning: -%s had no effect here\n", cli->given[i].flag->name);
}
