/* Files that are replaced as a whole or not at all. */
#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, struct bytes left)
{
    while (left.len > 0) {
        ssize_t n = write(fd, left.data, left.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        left = bytes_from(left, (size_t)n);
    }
    return true;
}

/* The file that `name` (with its XXXXXX) becomes, on the disk. */
static bool write_beside(char *name, struct bytes content, unsigned mode)
{
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = fchmod(fd, mode) == 0 && write_all(fd, content) && fsync(fd) == 0;
    int err = errno;
    if (close(fd) != 0 && good) {
        good = false;
        err = errno;
    }
    if (!good)
        (void)unlink(name); /* leave no half-written file */
    errno = err;
    return good;
}

bool cli_replace(struct cli *cli, const char *path, struct bytes content, unsigned mode)
{
    char *name = arena_format(&cli->arena, "%s.XXXXXX", path);
    if (name == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return false;
    }
    if (!write_beside(name, content, mode)) {
        cli_complain("%s: %s", name, strerror(errno));
        return false;
    }
    if (rename(name, path) != 0) {
        cli_complain("%s: %s", path, strerror(errno));
        (void)unlink(name); /* as good as it gets */
        return false;
    }
    return true;
}
