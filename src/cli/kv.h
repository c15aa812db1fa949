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

/* Find the mount of the secret args[0] and the path of a request about the secret. With -mount,
 * args[0] is the path below that mount.
 *
 * api       the part of a version 2 path behind the mount: "data" gives "secret/data/a". Paths of
 *           version 1 have no such part: "kv/a".
 * needs_v2  what needs version 2, for the message; NULL: either version will do
 *
 * Returns an exit code, with a message unless CLI_OK. */
int kv_resolve(struct cli *cli, const char *api, const char *needs_v2, struct kv_place *ret_place,
               char **ret_path);
/* Write the values of -versions as a list of numbers. False with a message, also for no number. */
bool kv_put_versions(struct cli *cli, struct text_writer *w);

#endif
