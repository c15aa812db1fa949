/* The part of a cluster in disaster recovery, as its status shows it; for the commands about it. */
#ifndef HOLDFAST_CLI_COMMAND_DR_VIEW_H
#define HOLDFAST_CLI_COMMAND_DR_VIEW_H

#include "cli/client.h"

#define DR_PATH "sys/replication/dr/"

/* The status of a node. */
struct dr_view {
    const char *address; /* URL of the node */
    const struct text_value *data;
};
/* Ask each of the nodes whose URLs are in a list with commas, and take the one that knows most:
 * only the active node of a secondary has a connection to the primary. False with a message: none
 * replied. */
bool dr_view_load(struct cli *cli, const char *addresses, struct dr_view *ret_view);
/* The nodes of the other cluster: -other, else HOLDFAST_DR_NODES; NULL: neither was given. */
const char *dr_view_other(struct cli *cli);
/* A member of the status; "" and 0 where there is none. */
const char *dr_view_text(const struct dr_view *view, const char *name);
int64_t dr_view_number(const struct dr_view *view, const char *name);
/* Whether mode and state are these; `state` NULL: any. */
bool dr_view_is(const struct dr_view *view, const char *mode, const char *state);
/* Print the status in plain English. */
void dr_view_print(struct cli *cli, const struct dr_view *view);
/* Wait a moment before the status is asked for again. */
void dr_view_pause(void);

/* Send a request to the node at `address`. `token`: as in struct cli_request. Prints why there was
 * no reply; a refusal is printed unless its status is `expected`. Returns an exit code. */
int dr_send(struct cli *cli, const char *address, struct cli_request request, int expected,
            struct cli_reply *ret_reply);
/* The DR operation token, or a batch token for it: HOLDFAST_DR_TOKEN, else a typed one. NULL with a
 * message. */
const char *dr_token(struct cli *cli);

#endif
