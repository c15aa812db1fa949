/* Help, from the table of commands. */
#include "cli/dialect/dialect.h"

const char *cli_flag_value(enum cli_flag_kind kind)
{
    switch (kind) {
    case CLI_BOOL: return "";
    case CLI_INT: return "=N";
    case CLI_DURATION: return "=DURATION";
    case CLI_TEXT:
    case CLI_MANY: return "=TEXT";
    case CLI_PAIRS: return "=NAME=VALUE";
    case CLI_FILE: return "=FILE";
    }
    return "";
}

static void show_flags(const struct cli_flag *flags, unsigned n, FILE *to)
{
    for (unsigned i = 0; i < n; i++) {
        const char *alias = cli_flag_alias(&flags[i]);
        int used = fprintf(to, "  -%s%s%s%s", flags[i].name, cli_flag_value(flags[i].kind),
                           alias != NULL ? ", -" : "", alias != NULL ? alias : "");
        (void)fprintf(to, "%*s%s%s\n", used < 30 ? 30 - used : 1, "", flags[i].help,
                      flags[i].kind == CLI_MANY || flags[i].kind == CLI_PAIRS
                          ? "; may be repeated"
                          : ""); /* a failure to print has no remedy */
    }
}

void cli_help(const struct cli *cli, FILE *to)
{
    const struct cli_command *c = cli->command;
    ASSERT(c != NULL);
    (void)fprintf(to, "usage: holdfast %s%s%s%s\n\n%s\n", c->name,
                  c->n_flags != 0 ? " [FLAG]…" : "", c->args[0] != '\0' ? " " : "", c->args,
                  c->help); /* a failure to print has no remedy */
    if (c->n_flags != 0)
        (void)fprintf(to, "\nFlags:\n"); /* a failure to print has no remedy */
    show_flags(c->flags, c->n_flags, to);
    const struct cli_dialect *d = cli_dialect_of(c);
    if (c->offline)
        return;
    (void)fprintf(to, "\nFlags of every %s:\n", d->commands); /* a failure to print has no remedy */
    show_flags(d->flags, d->n_flags, to);
}

bool cli_help_group(const struct cli *cli, const char *group, FILE *to)
{
    size_t len = strlen(group);
    bool any = false;
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        const struct cli_command *c = cli_nth(cli, i);
        if (len != 0 && (strncmp(c->name, group, len) != 0 || c->name[len] != ' '))
            continue;
        if (to != NULL && !any)
            (void)fprintf(to, "usage: holdfast %s%sCOMMAND …\n\n", group,
                          len != 0 ? " " : ""); /* a failure to print has no remedy */
        any = true;
        if (to != NULL)
            (void)fprintf(to, "  %-31s %s\n", c->name,
                          c->help); /* a failure to print has no remedy */
    }
    if (to != NULL)
        (void)fprintf(to,
                      "\n\"holdfast COMMAND -help\" explains a command. Environment variables: "
                      "HOLDFAST_ADDR, _TOKEN,\n_CACERT, _NAMESPACE, _SKIP_VERIFY, _CLIENT_TIMEOUT, "
                      "_FORMAT. They may also begin with VAULT_.\nThe acl commands read upstream's "
                      "CONSUL_HTTP_ADDR, _TOKEN and others before them: \"holdfast man\".\n"); /* a
                                                                failure to print has no remedy */
    return any;
}
