/* The links of a registry token, as flags give them. */
#ifndef HOLDFAST_CLI_COMMAND_ACL_LINKS_H
#define HOLDFAST_CLI_COMMAND_ACL_LINKS_H

#include "cli/command/acl.h"

/* Write the members Policies, Roles, ServiceIdentities and NodeIdentities that flags give.
 *
 * token  the current token, whose links stay before those of -append-… flags, and where -merge-…
 *        says so; NULL: a new token
 *
 * Returns an exit code, with a message unless CLI_OK. */
int acl_put_links(struct cli *cli, struct text_writer *w, const struct text_value *token);
/* Whether a flag gives a link. */
bool acl_links_given(struct cli *cli);

#endif
