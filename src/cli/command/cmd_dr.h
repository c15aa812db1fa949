/* Shared by the commands "operator dr": steps that "failback" takes too. Functions that return int
 * return an exit code and have printed what went wrong. */
#ifndef HOLDFAST_CLI_COMMAND_CMD_DR_H
#define HOLDFAST_CLI_COMMAND_CMD_DR_H

#include "cli/command/dr_view.h"

/* Print what was done, with a newline; nothing with -format json. */
void dr_say(const struct cli *cli, const char *text);
/* POST a body without a look at the reply's data; an empty body becomes "{}". */
int dr_post(struct cli *cli, const char *address, const char *path, struct buf *body);
/* Wait, as long as -wait says, until one of the nodes shows this mode and state; NULL: any. */
int dr_await(struct cli *cli, const char *addresses, const char *mode, const char *state);
/* Make a token for a secondary, of the primary at `address`; *ret_wrap has its member "token".
 * `ttl`: how long it counts; NULL: as long as the server says. */
int dr_secondary_token(struct cli *cli, const char *address, const char *name, const char *ttl,
                       const struct text_value **ret_wrap);
/* Promote the secondary; while it is asked to wait, try again as long as -wait says. */
int dr_promote(struct cli *cli, const char *address, const char *authority);

/* Print the checks of a promotion. */
void dr_print_checks(struct cli *cli, const struct text_value *checks);

/* cmd_dr_drill.c, cmd_dr_end.c, cmd_dr_failback.c, cmd_dr_settings.c */
int cmd_dr_disable(struct cli *cli);
int cmd_dr_drill(struct cli *cli);
int cmd_dr_failback(struct cli *cli);
int cmd_dr_revoke(struct cli *cli);
int cmd_dr_settings(struct cli *cli);

#endif
