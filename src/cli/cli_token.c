/* The token between commands. */
#include "base/mem.h"
#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *token_path(struct cli *cli, const char *suffix)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0')
        return NULL;
    return arena_format(&cli->arena, "%s/.holdfast-token%s", home, suffix);
}

const char *cli_token_load(struct cli *cli)
{
    char text[CLI_SECRET_MAX] = "", *token = NULL;
    const char *path = token_path(cli, "");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        if (path != NULL && errno != ENOENT)
            cli_complain("%s: %s", path, strerror(errno));
        return NULL;
    }
    struct stat info;
    ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? read(fd, text, sizeof text) : -1;
    (void)close(fd); /* it was only read */
    if (n < 0 || (size_t)n == sizeof text) {
        cli_complain("%s does not hold a token", path);
    } else {
        size_t len = strcspn(text, " \t\r\n");
        token = len != 0 ? arena_str(&cli->arena, bytes_of(text, len)) : NULL;
    }
    mem_wipe(text, sizeof text);
    return token;
}

/* A file of our own (mkostemp makes it 0600) with the token in it, on disk. */
static bool write_temporary(char *path, const char *token)
{
    struct bytes left = bytes_str(token);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return false;
    while (left.len > 0) {
        ssize_t n = write(fd, left.data, left.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        left = bytes_from(left, (size_t)n);
    }
    bool good = left.len == 0 && fsync(fd) == 0;
    int err = errno;
    if (close(fd) != 0 && good) {
        good = false;
        err = errno;
    }
    if (!good)
        (void)unlink(path); /* half a token helps nobody */
    errno = err;
    return good;
}

bool cli_token_store(struct cli *cli, const char *token)
{
    char *path = token_path(cli, ""), *temporary = token_path(cli, ".XXXXXX");
    if (path == NULL || temporary == NULL) {
        cli_complain("HOME is not set: the token has no place");
        return false;
    }
    if (!write_temporary(temporary, token)) {
        cli_complain("%s: %s", temporary, strerror(errno));
        return false;
    }
    if (rename(temporary, path) != 0) {
        cli_complain("%s: %s", path, strerror(errno));
        (void)unlink(temporary); /* as good as it gets */
        return false;
    }
    return true;
}
