/* "holdfast operator raft recover": a cluster again out of a survivor's data directory. Offline. */
#ifndef HOLDFAST_SERVER_RECOVER_H
#define HOLDFAST_SERVER_RECOVER_H

#include "cli/client.h"

#define RECOVER_FLAGS                                                                            \
    {"survivor", CLI_MANY, "the position of another survivor, as this command prints it there"}, \
        {"lost", CLI_MANY, "the name of a member whose data is gone for good"},                  \
        {"join", CLI_BOOL, "set this node's data aside: it joins the recovered cluster"},        \
        {"apply", CLI_BOOL, "do it; without this flag nothing is changed"},                      \
    {                                                                                            \
        "position", CLI_BOOL, "print the position of this node alone"                            \
    }

/* The command; cli->args[0] is the data directory. Returns the exit code. */
int recover_run(struct cli *cli);

#endif
