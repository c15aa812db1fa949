/* The command line: a client of the HTTP API. Blocking, a few requests a command.
 *
 * Exit codes, as users of the upstream tools know them: 0 done, 1 the command was given wrongly or
 * a file, field or terminal failed it, 2 the server refused, found nothing or was not reached (and,
 * for status, a sealed node; for operator init -status, a cluster that is not initialised).
 *
 * One table of commands is the only place that knows their names, arguments and flags. What runs,
 * help and completion are made from it. Secrets that were given as arguments, flags or files are
 * never printed, not even in errors: a message names the place, not the text. */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include "base/macros.h"

enum { CLI_OK = 0, CLI_LOCAL_ERROR = 1, CLI_REMOTE_ERROR = 2 };

struct cli;

enum cli_flag_kind {
    CLI_BOOL,  /* "-name", "-name=true" or "-name=false" */
    CLI_INT,   /* a whole number, 0 or more */
    CLI_TEXT,  /* the last one counts */
    CLI_MANY,  /* may be repeated */
    CLI_PAIRS, /* "key=value", may be repeated */
    CLI_FILE,  /* the name of a file */
};

struct cli_flag {
    const char *name; /* without dashes */
    enum cli_flag_kind kind;
    const char *help;
};

struct cli_command {
    const char *name; /* the words of the command, "kv metadata get" */
    const char *args; /* for people, "PATH [KEY=VALUE]…" */
    const char *help; /* one line */
    const struct cli_flag *flags;
    unsigned n_flags, args_min, args_max;
    bool offline; /* asks no server: has its own flags alone and reads no environment */
    int (*run)(struct cli *cli);
};

/* Runs the command that the words name, of this folder or of `more` (those of the program itself).
 * Returns the exit code. */
int cli_main(const struct cli_command *more, unsigned n_more, int argc, char **argv);

#endif
