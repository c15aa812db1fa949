/* The file in which a token is kept from one command to the next. */
#include "base/mem.h"
#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *token_path(struct cli *cli)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0')
        return NULL;
    return arena_format(&cli->arena, "%s/.holdfast-token", home);
}

const char *cli_token_load(struct cli *cli)
{
    char text[CLI_SECRET_MAX] = "", *token = NULL;
    const char *path = token_path(cli);
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        if (path != NULL && errno != ENOENT)
            cli_complain("%s: %s", path, strerror(errno));
        return NULL;
    }
    struct stat info;
    ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? read(fd, text, sizeof text) : -1;
    (void)close(fd); /* the file was only read */
    if (n < 0 || (size_t)n == sizeof text) {
        cli_complain("%s does not hold a token", path);
    } else {
        size_t len = strcspn(text, " \t\r\n");
        token = len != 0 ? arena_str(&cli->arena, bytes_of(text, len)) : NULL;
    }
    mem_wipe(text, sizeof text);
    return token;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool cli_token_read(struct cli *cli, const char *path, const char *what, const char **ret_token)
{
    struct bytes text;
    if (!cli_slurp(cli, path, what, &text))
        return false;
    while (text.len > 0 && is_space(text.data[0]))
        text = bytes_from(text, 1);
    while (text.len > 0 && is_space(text.data[text.len - 1]))
        text.len--;
    char *token = text.len <= CLI_SECRET_MAX ? arena_str(&cli->arena, text) : NULL;
    if (token == NULL || token[0] == '\0') {
        cli_complain("%s: the file does not hold a token", what);
        return false;
    }
    *ret_token = token;
    return true;
}

bool cli_token_store(struct cli *cli, const char *token)
{
    char *path = token_path(cli);
    if (path == NULL) {
        cli_complain("HOME is not set: the token cannot be stored in ~/.holdfast-token");
        return false;
    }
    return cli_replace(cli, path, bytes_str(token), 0600);
}
