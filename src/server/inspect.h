/* "holdfast operator raft snapshot inspect": the facts of a saved snapshot and its keys by prefix,
 * as a table or as JSON. The members of the JSON are upstream's, and some of our own. */
#ifndef HOLDFAST_SERVER_INSPECT_H
#define HOLDFAST_SERVER_INSPECT_H

#include "cli/client.h"

#define INSPECT_FLAGS                                                                      \
    {"details", CLI_BOOL, "count keys by prefix; default true"},                           \
        {"depth", CLI_INT, "parts of a key that make a prefix; 0: whole keys; default 2"}, \
        {"filter", CLI_TEXT, "count only keys that begin with this"},                      \
    {                                                                                      \
        "format", CLI_TEXT, "table or json; default table"                                 \
    }

/* The function of the command, with INSPECT_FLAGS and one argument, the file. Prints nothing on
 * standard output unless the whole file is valid. */
int inspect_run(struct cli *cli);

#endif
