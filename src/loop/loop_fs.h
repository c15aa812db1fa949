/* Files of the loop. */
#ifndef HOLDFAST_LOOP_LOOP_FS_H
#define HOLDFAST_LOOP_LOOP_FS_H

struct fs_file;

/* The descriptor, if writes go past the page cache; else -1, as for files of other kinds. */
int loop_fs_direct(const struct fs_file *file);

#endif
