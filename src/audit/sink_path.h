/* Paths of audit files: which files are allowed, and what a file ends with. Private to src/audit.
 * Functions with `why` set it on failure; it may be NULL. */
#ifndef HOLDFAST_AUDIT_SINK_PATH_H
#define HOLDFAST_AUDIT_SINK_PATH_H

#include "audit/chain.h"
#include "audit/places.h"

#include <sys/stat.h>

/* Whether two paths lead to one file, or will when it is created. Not so for a terminal and for
 * /dev/null, which lines may share. */
bool sink_path_same(const char *one, const char *other);

/* The folder of a file. Its descriptor stays the folder that was checked, whatever happens to the
 * path later. */
struct sink_place {
    int dir;          /* opened with O_PATH; -1: none */
    const char *name; /* the end of the path */
};

/* Open the folder of `path`: the directory of `places`, whose own path may have links, and from
 * there folder by folder without following a link. This is RESOLVE_NO_SYMLINKS of openat2, on
 * kernels without that call too, and makes folders that are missing, with the mode 0700, or 0750
 * for a file that a group may read. ST_IO: outside of the directories, inside the data directory, a
 * link, or the system refuses. The caller closes `dir`. */
NODISCARD enum status sink_place_open(const struct audit_places *places, const char *path,
                                      uint32_t mode, struct sink_place *ret_place,
                                      struct reason *why);

struct sink_opened {
    int fd; /* to read and append; of a FIFO to write */
    struct stat info;
};

/* Open the file for appending, without blocking; create a file that is missing, with `mode`, or
 * 0600 if that is AUDIT_MODE_KEEP. A file that exists keeps its mode. ST_IO: it is neither a FIFO
 * nor a regular file that is empty or begins with a record of an audit device. `path` is for
 * messages. */
NODISCARD enum status sink_path_open(const struct sink_place *place, const char *path,
                                     uint32_t mode, struct sink_opened *ret_opened,
                                     struct reason *why);

/* The ends of a regular file. */
struct sink_tail {
    bool ended;   /* the file is empty or ends with a newline */
    bool chained; /* one of the last lines has a link; `chain` is the newest */
    bool plain;   /* lines behind that link are whole and have none; or there is no link */
    struct chain chain;
    int64_t first_ms; /* the time in its first record; 0: not found */
};

/* `fd` may be read. `path` is for messages. ST_IO. */
NODISCARD enum status sink_path_tail(int fd, const char *path, struct sink_tail *ret_tail,
                                     struct reason *why);

#endif
