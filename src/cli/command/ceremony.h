/* Shared by the commands about key shares. */
#ifndef HOLDFAST_CLI_COMMAND_CEREMONY_H
#define HOLDFAST_CLI_COMMAND_CEREMONY_H

#include "cli/client.h"

struct ceremony_row {
    const char *title, *field;
};

/* An answer about an attempt: these fields of it that say something, "progress" as a part of
 * `required`; with -format json all of it. The exit code. */
int ceremony_show(struct cli *cli, const struct text_value *answer, const char *required,
                  const struct ceremony_row *rows, size_t n);
/* The body that gives a share: that of the command line, of standard input, or typed; with -nonce,
 * else with that of the attempt as `status` tells it in `field`. The exit code. */
int ceremony_share_body(struct cli *cli, const struct text_value *status, const char *field,
                        struct buf *out);

#endif
