/* Paths of the file system as text. */
#ifndef HOLDFAST_TEXT_PATH_H
#define HOLDFAST_TEXT_PATH_H

#include <stdbool.h>

/* Whether a path begins with '/', has no empty part, no "." and no "..", and does not end in '/'.
 * "/" itself is not canonical in this sense. Says nothing about links. */
bool text_path_is_canonical(const char *path);

#endif
