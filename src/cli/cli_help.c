/* Help, from the table of commands. */
#include "cli/client.h"

static const char *kind_text(enum cli_flag_kind kind)
{
    switch (kind) {
    case CLI_BOOL: return "";
    case CLI_INT: return "=N";
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
        int used = fprintf(to, "  -%s%s", flags[i].name, kind_text(flags[i].kind));
        (void)fprintf(to, "%*s%s%s\n", used < 30 ? 30 - used : 1, "", flags[i].help,
                      flags[i].kind == CLI_MANY || flags[i].kind == CLI_PAIRS
                          ? "; may be repeated"
                          : ""); /* standard output and error are all there is */
    }
}

void cli_help(const struct cli *cli, FILE *to)
{
    const struct cli_command *c = cli->command;
    ASSERT(c != NULL);
    (void)fprintf(to, "usage: holdfast %s%s%s%s\n\n%s\n", c->name,
                  c->n_flags != 0 ? " [FLAG]…" : "", c->args[0] != '\0' ? " " : "", c->args,
                  c->help); /* as above */
    if (c->n_flags != 0)
        (void)fprintf(to, "\nFlags:\n"); /* as above */
    show_flags(c->flags, c->n_flags, to);
    if (c->run_words != NULL)
        return;
    (void)fprintf(to, "\nFlags of every command:\n"); /* as above */
    show_flags(cli_common_flags, cli_n_common_flags, to);
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
                          len != 0 ? " " : ""); /* as above */
        any = true;
        if (to != NULL)
            (void)fprintf(to, "  %-31s %s\n", c->name, c->help); /* as above */
    }
    if (to != NULL)
        (void)fprintf(
            to, "\n\"holdfast COMMAND -help\" says more. Environment: HOLDFAST_ADDR, _TOKEN, "
                "_CACERT,\n_NAMESPACE, _SKIP_VERIFY, _CLIENT_TIMEOUT, _FORMAT; VAULT_ instead "
                "of HOLDFAST_ is taken too.\n"); /* as above */
    return any;
}
