/* Where a secret lies: the mount and its version are asked of the server first. */
#ifndef HOLDFAST_CLI_KV_H
#define HOLDFAST_CLI_KV_H

#include "cli/client.h"

struct kv_place {
    const char *mount; /* with its slash; "" when the server does not know */
    const char *rest;  /* below the mount */
    bool v2;
};

/* For args[0], below -mount if that is given. Any exit code, said. */
int kv_locate(struct cli *cli, struct kv_place *ret_place);
/* The path of the API: "secret/data/a" for version 2, "kv/a" for version 1. NULL: no memory, said.
 */
char *kv_path(struct cli *cli, const struct kv_place *place, const char *api);
/* CLI_OK for version 2; otherwise says that `what` needs it. */
int kv_need_v2(const struct kv_place *place, const char *what);
/* -versions as a list of numbers; false with a message, also when there is none. */
bool kv_put_versions(struct cli *cli, struct text_writer *w);

#endif
