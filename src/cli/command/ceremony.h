/* Shared by the commands about key shares. */
#ifndef HOLDFAST_CLI_COMMAND_CEREMONY_H
#define HOLDFAST_CLI_COMMAND_CEREMONY_H

#include "cli/client.h"

/* A row of a table: the title, and the member of the reply that is shown. */
struct ceremony_row {
    const char *title, *field;
};

/* Print the status of an attempt: the members of `answer` that `rows` name, without empty ones;
 * with -format json all of `answer`. The member "progress" is shown as "2/3": 3 is the member
 * `required`. Returns an exit code. */
int ceremony_show(struct cli *cli, const struct text_value *answer, const char *required,
                  const struct ceremony_row *rows, size_t n);
/* Write the body of a request that gives a key share. The share is args[0], or is read as
 * cli_secret does. The nonce is that of -nonce, else the member `field` of the attempt's `status`.
 * Returns an exit code. */
int ceremony_share_body(struct cli *cli, const struct text_value *status, const char *field,
                        struct buf *out);
/* Write the member `name`: the contents of the files that the flag names, as a list of PGP keys, or
 * the key of one file. Nothing without the flag. The server judges the keys. Returns an exit code.
 */
int ceremony_put_pgp_keys(struct cli *cli, struct text_writer *w, const char *flag,
                          const char *name);
int ceremony_put_pgp_key(struct cli *cli, struct text_writer *w, const char *flag,
                         const char *name);

#endif
