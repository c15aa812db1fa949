/* Parser of the command line and the environment. A message names a known flag or the place of a
 * word and repeats no other text, which may be a secret in the wrong place. */
#include "cli/client.h"
#include "text/duration.h"

#include <stdlib.h>

enum { TIMEOUT_DEFAULT_MS = 60 * 1000 };

const struct cli_flag cli_common_flags[] = {
    {"address", CLI_TEXT, "URL of a node (HOLDFAST_ADDR, https://127.0.0.1:8200)"},
    {"ca-cert", CLI_FILE, "PEM file of the authorities to trust (HOLDFAST_CACERT)"},
    {"tls-skip-verify", CLI_BOOL, "do not verify the server's certificate (HOLDFAST_SKIP_VERIFY)"},
    {"namespace", CLI_TEXT, "namespace of the request (HOLDFAST_NAMESPACE)"},
    {"header", CLI_PAIRS, "an additional header of the request"},
    {"format", CLI_TEXT, "form of the output: table or json (HOLDFAST_FORMAT)"},
};
const unsigned cli_n_common_flags = ARRAY_LEN(cli_common_flags);

const char *cli_flag_alias(const struct cli_flag *flag)
{
    static const struct {
        const char *name, *alias;
    } aliases[] = {{"force", "f"},
                   {"namespace", "ns"},
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
        flag = find_flag(cli_common_flags, cli_n_common_flags, word);
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
        return refuse(flag, flag->kind == CLI_BOOL  ? "must be true or false"
                            : flag->kind == CLI_INT ? "needs a whole number, 0 or more"
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

static bool set_format(struct cli *cli, const char *value)
{
    cli->json = strcmp(value, "json") == 0;
    if (!cli->json && strcmp(value, "table") != 0)
        cli_complain("the output format must be table or json");
    return cli->json || strcmp(value, "table") == 0;
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

static bool read_env(struct cli *cli)
{
    const char *format = cli_env(cli, "FORMAT"), *insecure = cli_env(cli, "SKIP_VERIFY");
    cli->address = cli_env(cli, "ADDR");
    cli->token = cli_env(cli, "TOKEN");
    cli->token_from_env = cli->token != NULL;
    cli->ca_file = cli_env(cli, "CACERT");
    cli->name_space = cli_env(cli, "NAMESPACE");
    if (cli->address == NULL)
        cli->address = "https://127.0.0.1:8200";
    if (insecure != NULL && !read_bool(insecure, &cli->insecure)) {
        cli_complain("HOLDFAST_SKIP_VERIFY must be true or false");
        return false;
    }
    return (format == NULL || set_format(cli, format)) &&
           set_timeout(cli, cli_env(cli, "CLIENT_TIMEOUT"));
}

/* Read the environment, then the common flags, which win. */
static bool read_common(struct cli *cli)
{
    const struct {
        const char *flag;
        const char **to;
    } texts[] = {{"address", &cli->address},
                 {"ca-cert", &cli->ca_file},
                 {"namespace", &cli->name_space},
                 {"field", &cli->field}};
    ASSERT(!cli->command->offline);
    if (!read_env(cli))
        return false;
    ASSERT(cli->timeout_ms > 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (cli_text(cli, texts[i].flag) != NULL)
            *texts[i].to = cli_text(cli, texts[i].flag);
    cli->insecure = cli_bool(cli, "tls-skip-verify", cli->insecure);
    const char *format = cli_text(cli, "format");
    return format == NULL || set_format(cli, format);
}

bool cli_parse(struct cli *cli, int argc, char **argv, bool *ret_help)
{
    ASSERT(cli->command != NULL && cli->n_given == 0);
    if (!split_words(cli, argc, argv, ret_help))
        return false;
    if (*ret_help)
        return true;
    if (!cli->command->offline && !read_common(cli))
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
