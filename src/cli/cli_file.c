/* Replace a file: after a failure the old content is still complete. */
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

/* Write a new file and sync it. `name` ends in XXXXXX, which becomes a unique text (mkostemp). */
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
        (void)unlink(name); /* if this fails too, the temporary file stays */
        return false;
    }
    return true;
}
