/* Paths of audit files: which files are allowed, and what a file ends with. Private to src/audit.
 * Functions with `why` set it on failure; it may be NULL. */
#ifndef HOLDFAST_AUDIT_SINK_PATH_H
#define HOLDFAST_AUDIT_SINK_PATH_H

#include "audit/chain.h"

#include <sys/stat.h>

/* Refuse what no device may write to: a directory, a block device, a socket, a character device
 * that is neither a terminal nor one of null, zero and full, a symbolic link that leads nowhere,
 * any path into `data_dir` (NULL: none), and a hard link to a file there. A path without a file is
 * allowed. ST_IO. */
NODISCARD enum status sink_path_check(const char *path, const char *data_dir, struct reason *why);

/* Whether two paths lead to one file, or will when it is created. Not so for a terminal and for
 * /dev/null, which lines may share. */
bool sink_path_same(const char *one, const char *other);

struct sink_opened {
    int fd;
    struct stat info;
};

/* Open for appending, without blocking; create the file with `mode`, or 0600 if that is
 * AUDIT_MODE_KEEP; give a regular file that exists this mode unless it is AUDIT_MODE_KEEP. The
 * checks of sink_path_check are made again with the descriptor, as the path may have changed; a
 * refused path leaves no file behind. ST_IO. */
NODISCARD enum status sink_path_open(const char *path, uint32_t mode, const char *data_dir,
                                     struct sink_opened *ret_opened, struct reason *why);

/* The ends of a regular file. */
struct sink_tail {
    bool ended;   /* the file is empty or ends with a newline */
    bool chained; /* one of the last lines has a link; `chain` is the newest */
    bool plain;   /* lines behind that link are whole and have none; or there is no link */
    struct chain chain;
    int64_t first_ms; /* the time in its first record; 0: not found */
};

/* ST_IO. */
NODISCARD enum status sink_path_tail(const char *path, struct sink_tail *ret_tail,
                                     struct reason *why);

#endif
