/* The mount of a secret and its key/value version. A command asks the server for both before its
 * own request. */
#ifndef HOLDFAST_CLI_KV_H
#define HOLDFAST_CLI_KV_H

#include "cli/client.h"

struct kv_place {
    const char *mount; /* the mount's path with a slash at its end; "": the server names none */
    const char *rest;  /* the secret's path below the mount */
    bool v2;           /* version 2; false: version 1 */
};

/* Find the mount of the secret args[0]; with -mount, args[0] is the path below that mount. Returns
 * an exit code, with a message unless CLI_OK. */
int kv_locate(struct cli *cli, struct kv_place *ret_place);
/* The path of a request: for version 2 `api` follows the mount, "secret/data/a"; for version 1 not,
 * "kv/a". NULL with a message. */
char *kv_path(struct cli *cli, const struct kv_place *place, const char *api);
/* CLI_OK for version 2; otherwise an exit code, with the message that `what` needs version 2. */
int kv_need_v2(const struct kv_place *place, const char *what);
/* Write the values of -versions as a list of numbers. False with a message, also for no number. */
bool kv_put_versions(struct cli *cli, struct text_writer *w);

#endif
