/* The command line: a client of the HTTP API. A command makes a few blocking requests.
 *
 * Exit codes, the same as those of upstream's tool:
 *   0  done
 *   1  wrong usage, or a file, a field of the reply or the terminal failed
 *   2  the server refused, found nothing or was not reached; for `status`: the node is sealed; for
 *      `operator init -status`: the cluster is not initialised
 *   3  for `status` alone, not upstream's: the node is unsealed, and reaches too few voters for a
 *      leader
 *
 * The table of commands is the only place that knows names, arguments and flags; help, completion
 * and the manual page are made from the table. A secret may stand in an argument, a flag or a file:
 * messages never print these texts, they name the place. */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include "base/macros.h"

enum { CLI_OK = 0, CLI_LOCAL_ERROR = 1, CLI_REMOTE_ERROR = 2, CLI_NO_QUORUM = 3 };

struct cli;
struct cli_dialect;

enum cli_flag_kind {
    CLI_BOOL,     /* "-name", "-name=true" or "-name=false" */
    CLI_INT,      /* a whole number, 0 or more */
    CLI_DURATION, /* "90", "1h30m", "2d", or "system" for a setting of a mount; never empty */
    CLI_TEXT,     /* any text; of a repeated flag the last one counts */
    CLI_MANY,     /* may be repeated */
    CLI_PAIRS,    /* "key=value", may be repeated */
    CLI_FILE,     /* the name of a file */
};

struct cli_flag {
    const char *name; /* without dashes */
    enum cli_flag_kind kind;
    const char *help;
};

struct cli_command {
    const char *name; /* the words of the command, "kv metadata get" */
    const char *args; /* the arguments as help shows them, "PATH [KEY=VALUE]…" */
    const char *help; /* one line */
    const struct cli_flag *flags;
    unsigned n_flags, args_min, args_max;
    bool offline;                      /* makes no request: no common flags, no environment */
    const struct cli_dialect *dialect; /* of the API that is asked; NULL: the secrets service's */
    int (*run)(struct cli *cli);
};

/* Run the command that argv names: a command of this folder, or one of the `n_more` commands of
 * `more`, which lie in other folders. Returns the exit code. */
int cli_main(const struct cli_command *more, unsigned n_more, int argc, char **argv);

#endif
