/* The files of base/fs.h on a POSIX disk. */
#ifndef HOLDFAST_LOOP_LOOP_FS_H
#define HOLDFAST_LOOP_LOOP_FS_H

#include "base/fs.h"

/* Files below the directory `root`, which must exist. Files are made 0600, directories 0700,
 * nothing follows a symbolic link in the last component, paths that are absolute or contain ".."
 * are ST_INVALID. ST_NOT_FOUND; ST_IO with `reason`. */
NODISCARD enum status loop_fs_new(const char *root, struct fs **ret_fs, struct reason *reason);

/* Free the disk; all its files must be closed. NULL is allowed. */
void loop_fs_free(struct fs *fs);

struct loop_fs_place {
    bool inside;    /* the root is a directory, or lies below it */
    bool same_disk; /* both lie on one file system */
};
/* Where the root of `fs` lies in relation to a directory, by the inodes on its way up: symbolic
 * links and bind mounts change nothing. ST_NOT_FOUND: no such directory. ST_IO. */
NODISCARD enum status loop_fs_place(struct fs *fs, const char *dir,
                                    struct loop_fs_place *ret_place);

/* The descriptor of a file whose writes go past the page cache; -1 for every other file. */
int loop_fs_direct(const struct fs_file *file);

#endif
