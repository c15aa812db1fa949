/* Files with a private key or a seal key: one rule for all of them.
 *
 * The file is regular. It belongs to root, or to the user of this process. Only its owner may
 * write. The group may read only a file of root, as a mounted secret and a systemd credential are.
 * Others may do nothing. */
#ifndef HOLDFAST_CRYPTO_KEY_FILE_H
#define HOLDFAST_CRYPTO_KEY_FILE_H

#include "base/bytes.h"
#include "base/status.h"

#include <sys/types.h>

/* Whether the rule allows the owner and the mode of a file for a process of the user `user`. */
bool key_file_allowed(uid_t owner, mode_t mode, uid_t user);

/* Open a key file to read it; links are followed. The caller closes the descriptor. ST_NOT_FOUND,
 * ST_DENIED, ST_INVALID, ST_IO, with a reason that names the file; if the rule refuses the file,
 * its owner or mode too, and the command that corrects it. */
NODISCARD enum status key_file_open(const char *path, int *ret_fd, struct reason *reason);

#endif
