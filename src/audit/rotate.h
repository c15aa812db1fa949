/* The names of rotated files: the path of the file, a dot, and the time of the rotation,
 * "audit.log.20240229T120000.123456Z". The order of the names is the order of the rotations.
 * Private to src/audit. Functions with `why` set it on failure. */
#ifndef HOLDFAST_AUDIT_ROTATE_H
#define HOLDFAST_AUDIT_ROTATE_H

#include "base/status.h"

#include <limits.h>

enum { ROTATE_STAMP_LEN = sizeof "20240229T120000.123456Z" - 1 };

/* `dir` is the open folder of the file, `name` its name there. */

/* The name of the newest rotated file. ST_NOT_FOUND; ST_IO. */
NODISCARD enum status rotate_newest(int dir, const char *name, char ret_name[NAME_MAX + 1]);

/* Rename the file to a name that sorts behind those of all rotated files, even if the clock went
 * back. No file is replaced. ST_IO. */
NODISCARD enum status rotate_rename(int dir, const char *name, int64_t wall_us, struct reason *why);

/* Delete the oldest rotated files beyond `keep`. ST_IO, ST_NOMEM. */
NODISCARD enum status rotate_prune(int dir, const char *name, uint64_t keep, struct reason *why);

#endif
