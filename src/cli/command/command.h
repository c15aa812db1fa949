/* Shared by the tables of the command files. Each file in this folder ends with its table: a
 * struct cli_group, and a line in cli/commands.c. */
#ifndef HOLDFAST_CLI_COMMAND_COMMAND_H
#define HOLDFAST_CLI_COMMAND_COMMAND_H

#include "cli/client.h"
#include "cli/commands.h"

#define FIELD_FLAG                                                                         \
    {                                                                                      \
        "field", CLI_TEXT, "print one field alone, without a newline unless on a terminal" \
    }
#define WRAP_FLAG                                                                              \
    {                                                                                          \
        "wrap-ttl", CLI_TEXT, "keep the answer for this long and print a token for \"unwrap\"" \
    }
#define MOUNT_FLAG                                                                  \
    {                                                                               \
        "mount", CLI_TEXT, "where the engine is mounted; the path is then below it" \
    }
#define VERSIONS_FLAG                                                    \
    {                                                                    \
        "versions", CLI_MANY, "numbers of versions, with commas between" \
    }
#define CAS_FLAG                                                                        \
    {                                                                                   \
        "cas", CLI_INT, "write only if this is the current version; 0: only if none is" \
    }

#define CLI_DATA "[KEY=VALUE | KEY=@FILE | KEY=- | @FILE | -]…"

enum { CLI_ANY = 1024 }; /* arguments */

#endif
