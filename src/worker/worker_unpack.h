/* Configurations arrive as gzip of tar (POSIX.1-2001 pax, ustar, and the long names of GNU tar).
 * Only regular files and folders are unpacked, below one folder, which must be empty. */
#ifndef HOLDFAST_WORKER_UNPACK_H
#define HOLDFAST_WORKER_UNPACK_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    UNPACK_ENTRIES_MAX = 50000,
    UNPACK_NAME_MAX = 1024,        /* bytes of a path */
    UNPACK_DEPTH_MAX = 64,         /* folders in a path */
    UNPACK_RECORD_MAX = 64 * 1024, /* bytes of one pax record or long name */
};

struct unpack_limits {
    uint64_t bytes_max; /* of the tar: headers, padding and content */
    uint32_t entries_max;
};

/* Unpack into the folder `dir`, an open descriptor. Files get mode 0600 or, if the owner may
 * execute them, 0700; folders 0700.
 *
 * ST_INVALID: not such an archive, or an entry that is refused: an absolute name, "..", a link, a
 * device, a name that occurs twice, a control character. ST_TOO_BIG: beyond a limit. ST_NO_SPACE,
 * ST_IO, ST_NOMEM. The reason names the entry. What was unpacked before the failure stays. */
NODISCARD enum status worker_unpack(struct bytes archive, int dir,
                                    const struct unpack_limits *limits, struct reason *why);

/* Whether a path lies below the folder that it starts from: relative, no "..", no control
 * characters, within the bounds above. */
NODISCARD enum status worker_path_check(const char *path, struct reason *why);

#endif
