/* Shared by the tables of commands. Each file in this folder ends with its table, a struct
 * cli_group, which has a line in cli/commands.c. */
#ifndef HOLDFAST_CLI_COMMAND_COMMAND_H
#define HOLDFAST_CLI_COMMAND_COMMAND_H

#include "cli/client.h"
#include "cli/commands.h"

#define FIELD_FLAG                                                                         \
    {                                                                                      \
        "field", CLI_TEXT, "print one field alone, without a newline unless on a terminal" \
    }
#define WRAP_FLAG                                                                                 \
    {                                                                                             \
        "wrap-ttl", CLI_DURATION, "keep the reply for this long and print a token for \"unwrap\"" \
    }
#define MOUNT_FLAG                                                                             \
    {                                                                                          \
        "mount", CLI_TEXT, "path of the engine's mount; PATH is then the path below the mount" \
    }
#define VERSIONS_FLAG                                                \
    {                                                                \
        "versions", CLI_MANY, "version numbers, separated by commas" \
    }
#define CAS_FLAG                                                                        \
    {                                                                                   \
        "cas", CLI_INT,                                                                 \
            "write only if this is the current version; 0: only if there is no version" \
    }

#define CLI_DATA "[KEY=VALUE | KEY=@FILE | KEY=- | @FILE | -]…"

enum { CLI_ANY = 1024 }; /* as ARGS' maximum: any number of arguments */

/* cmd_path.c: GET the path without "/v1/" and `query`, and print the list of keys. Returns the exit
 * code. */
int cmd_show_keys(struct cli *cli, const char *path, const char *query);

#endif
