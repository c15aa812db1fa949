/* The manual page, from the table of commands: roff with the macros of man(7). */
#include "base/version.h"
#include "cli/commands.h"
#include "cli/dialect/dialect.h"

#include <ctype.h>

/* Print text so that roff sees no request and no escape in it. */
static void put_roff(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\\')
            printf("\\e");
        else if (*at == '-')
            printf("\\-");
        else if ((*at == '.' || *at == '\'') && (at == text || at[-1] == '\n'))
            printf("\\&%c", *at);
        else
            (void)putchar(*at); /* cli_main checks the stream at the end */
    }
}

static void put_flags(const struct cli_flag *flags, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const char *alias = cli_flag_alias(&flags[i]);
        printf(".TP\n.B \\-");
        put_roff(flags[i].name);
        put_roff(cli_flag_value(flags[i].kind));
        if (alias != NULL) {
            printf(", \\-");
            put_roff(alias);
        }
        printf("\n");
        put_roff(flags[i].help);
        printf("\n");
    }
}

static void put_command(const struct cli_command *c)
{
    printf(".SS holdfast ");
    put_roff(c->name);
    if (c->args[0] != '\0')
        printf(" ");
    put_roff(c->args);
    printf("\n");
    put_roff(c->help);
    printf("\n");
    put_flags(c->flags, c->n_flags);
}

static void put_environment(const struct cli_dialect *d)
{
    printf(".PP\n");
    put_roff(d->environment_note);
    printf("\n");
    for (unsigned i = 0; i < d->n_environment; i++) {
        printf(".TP\n.B %s\n", d->environment[i].name);
        put_roff(d->environment[i].help);
        printf("\n");
    }
}

int cmd_man(struct cli *cli)
{
    printf(
        ".TH HOLDFAST 1 \"\" \"holdfast %s\" \"User Commands\"\n"
        ".SH NAME\nholdfast \\- replicated secrets server and its command line\n"
        ".SH SYNOPSIS\n.B holdfast\n.I COMMAND\n[\\fIFLAG\\fR]... [\\fIARGUMENT\\fR]...\n"
        ".SH DESCRIPTION\nholdfast stores secrets on every node of a cluster and serves them over "
        "HTTPS.\nThe same program runs a node (\\fBholdfast server\\fR) and is the client of a "
        "node.\n.SH COMMANDS\n",
        holdfast_version);
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++)
        put_command(cli_nth(cli, i));
    for (unsigned i = 0; i < cli_n_dialects; i++) {
        printf(".SH FLAGS OF EVERY ");
        for (const char *at = cli_dialects[i]->commands; *at != '\0'; at++)
            (void)putchar(toupper((unsigned char)*at)); /* cli_main checks the stream at the end */
        printf("\n");
        put_flags(cli_dialects[i]->flags, cli_dialects[i]->n_flags);
    }
    printf(".SH ENVIRONMENT\n");
    for (unsigned i = 0; i < cli_n_dialects; i++)
        put_environment(cli_dialects[i]);
    printf(".SH EXIT STATUS\n0: done. 1: wrong usage, or a file or the terminal failed. 2: the "
           "server refused,\nfound nothing or was not reached.\n"
           ".SH FILES\n.TP\n.I ~/.holdfast\\-token\nThe token that login kept.\n"
           ".TP\n.I /etc/holdfast/holdfast.hcl\nConfiguration of the node that systemd runs.\n");
    return CLI_OK;
}
