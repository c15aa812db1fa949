/* The list of commands: one group for each file in cli/command, and the commands about the program
 * itself. */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "cli/cli.h"

/* The commands of one file. */
struct cli_group {
    const struct cli_command *rows;
    unsigned n;
};

/* All groups, in the order of help. */
extern const struct cli_group *const cli_groups[];
extern const unsigned cli_n_groups;

/* Parts of a command's row: the table of its flags; its arguments as help shows them, and how many
 * arguments are allowed. */
#define FLAGS(table) .flags = (table), .n_flags = ARRAY_LEN(table)
#define ARGS(text, min, max) .args = (text), .args_min = (min), .args_max = (max)

/* Commands about the program; each returns the exit code. */
int cmd_version(struct cli *cli);
int cmd_completion(struct cli *cli); /* cli_completion.c */
int cmd_man(struct cli *cli);        /* cli_man.c */

#endif
