#include "crypto/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The permission bits that a key file must not have. */
static mode_t forbidden(uid_t owner)
{
    return owner == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
}

bool key_file_allowed(uid_t owner, mode_t mode, uid_t user)
{
    return (owner == 0 || owner == user) && (mode & forbidden(owner)) == 0;
}

/* Whether the open file is a key file. */
static enum status judge_file(int fd, const char *path, struct reason *reason)
{
    struct stat s;
    ASSERT(fd >= 0 && path[0] != '\0');
    if (fstat(fd, &s) != 0) {
        reason_set(reason, "%s: %s", path, strerrordesc_np(errno));
        return ST_IO;
    }
    if (!S_ISREG(s.st_mode)) {
        reason_set(reason, "%s is not a regular file", path);
        return ST_INVALID;
    }
    if (key_file_allowed(s.st_uid, s.st_mode, geteuid()))
        return ST_OK;
    if (s.st_uid != 0 && s.st_uid != geteuid())
        reason_set(reason,
                   "%.120s: the key file belongs to user %u, not to root or this process's user: "
                   "run chown %u on it",
                   path, (unsigned)s.st_uid, (unsigned)geteuid());
    else
        reason_set(reason, "%.120s: mode %04o lets others use the key: run chmod %s on it", path,
                   (unsigned)s.st_mode & 07777, s.st_uid == 0 ? "g-wx,o-rwx" : "go-rwx");
    return ST_DENIED;
}

enum status key_file_open(const char *path, int *ret_fd, struct reason *reason)
{
    /* O_NONBLOCK: do not wait for the writer of a pipe */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        reason_set(reason, "%s: %s", path, strerrordesc_np(errno));
        return status_from_errno(errno);
    }
    enum status st = judge_file(fd, path, reason);
    if (st != ST_OK)
        (void)close(fd); /* nothing was read */
    else
        *ret_fd = fd;
    return st;
}
