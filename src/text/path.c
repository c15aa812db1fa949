#include "text/path.h"

#include <string.h>

bool text_path_is_canonical(const char *path)
{
    if (path[0] != '/')
        return false;
    while (*path == '/') {
        size_t len = strcspn(++path, "/");
        if (len == 0 || (len == 1 && path[0] == '.') ||
            (len == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += len;
    }
    return true;
}
