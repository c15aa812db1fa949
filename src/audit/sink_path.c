#include "audit/sink_path.h"
#include "audit/options.h"
#include "text/time.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static enum status fail(const char *path, const char *what, struct reason *why)
{
    reason_set(why, "%s: %s", path, what);
    return ST_IO;
}

/* Numbers of the kernel's Documentation/admin-guide/devices.txt: memory devices have major 1. */
static bool allowed_character(dev_t device)
{
    enum { MEMORY = 1, MINOR_NULL = 3, MINOR_ZERO = 5, MINOR_FULL = 7 };
    enum { TTY = 4, CONSOLE = 5, PTY_FIRST = 136, PTY_LAST = 143 };
    unsigned number = major(device), part = minor(device);
    if (number == MEMORY)
        return part == MINOR_NULL || part == MINOR_ZERO || part == MINOR_FULL;
    return number == TTY || number == CONSOLE || (number >= PTY_FIRST && number <= PTY_LAST);
}

static const char *wrong_kind(const struct stat *info)
{
    if (S_ISREG(info->st_mode) || S_ISFIFO(info->st_mode))
        return NULL;
    if (S_ISDIR(info->st_mode))
        return "is a directory";
    if (S_ISCHR(info->st_mode) && allowed_character(info->st_rdev))
        return NULL;
    return "is neither a regular file, a FIFO, a terminal nor /dev/null";
}

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Look for a file with the same inode below a directory. ST_NOT_FOUND; ST_IO: a part of the
 * directory cannot be read. */
static enum status find_inode(const char *dir, const struct stat *info)
{
    char *const roots[] = {(char *)(uintptr_t)dir, NULL}; /* fts_open only reads */
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    enum status st = ST_NOT_FOUND;
    ASSERT(info->st_nlink > 1);
    if (tree == NULL)
        return ST_IO;
    for (FTSENT *one; st == ST_NOT_FOUND && (one = fts_read(tree)) != NULL;)
        if (one->fts_info == FTS_F && one->fts_statp->st_ino == info->st_ino &&
            one->fts_statp->st_dev == info->st_dev)
            st = ST_OK;
        else if (one->fts_info == FTS_DNR || one->fts_info == FTS_ERR)
            st = ST_IO;
    (void)fts_close(tree); /* was only read */
    return st;
}

/* `whole` is a path without symbolic links. `info` of the file; NULL: there is none. A file with
 * several names may have one in the data directory. */
static enum status must_lie_outside(const char *path, const char *whole, const struct stat *info,
                                    const char *data_dir, struct reason *why)
{
    char dir[PATH_MAX];
    if (data_dir == NULL)
        return ST_OK;
    if (realpath(data_dir, dir) == NULL)
        return fail(path, "cannot be compared with the data directory", why);
    if (is_below(whole, dir))
        return fail(path, "leads into the data directory", why);
    if (info == NULL || !S_ISREG(info->st_mode) || info->st_nlink < 2)
        return ST_OK;
    switch (find_inode(dir, info)) {
    case ST_NOT_FOUND: return ST_OK;
    case ST_OK: return fail(path, "is a file of the data directory, under another name", why);
    default: return fail(path, "cannot be compared with the data directory", why);
    }
}

/* The path of a file that does not exist: its directory without symbolic links, and its name. */
static bool resolve_new(const char *path, char ret_path[PATH_MAX])
{
    char folder[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    int n = slash != NULL ? snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path)
                          : snprintf(folder, sizeof folder, ".");
    if (n < 0 || (size_t)n >= sizeof folder || realpath(folder, whole) == NULL)
        return false;
    n = snprintf(ret_path, PATH_MAX, "%s/%s", strcmp(whole, "/") == 0 ? "" : whole, name);
    return n > 0 && n < PATH_MAX;
}

enum status sink_path_check(const char *path, const char *data_dir, struct reason *why)
{
    struct stat info;
    char whole[PATH_MAX];
    ASSERT(path[0] != '\0');
    if (stat(path, &info) == 0) {
        const char *wrong = wrong_kind(&info);
        if (wrong != NULL)
            return fail(path, wrong, why);
        if (realpath(path, whole) == NULL)
            return fail(path, strerror(errno), why);
        return must_lie_outside(path, whole, &info, data_dir, why);
    }
    if (errno != ENOENT)
        return fail(path, strerror(errno), why);
    if (lstat(path, &info) == 0)
        return fail(path, "is a symbolic link that leads nowhere", why);
    if (!resolve_new(path, whole))
        return fail(path, strerror(errno), why);
    return must_lie_outside(path, whole, NULL, data_dir, why);
}

bool sink_path_same(const char *one, const char *other)
{
    struct stat first, second;
    char from[PATH_MAX], to[PATH_MAX];
    bool is_first = stat(one, &first) == 0, is_second = stat(other, &second) == 0;
    ASSERT(one[0] != '\0' && other[0] != '\0');
    if (is_first && is_second)
        return first.st_ino == second.st_ino && first.st_dev == second.st_dev &&
               !S_ISCHR(first.st_mode);
    return !is_first && !is_second && resolve_new(one, from) && resolve_new(other, to) &&
           strcmp(from, to) == 0;
}

/* Where an open file or directory lies, without symbolic links. */
static enum status place_of_fd(const char *path, int fd, char ret_whole[PATH_MAX],
                               struct reason *why)
{
    char link[64];
    ASSERT(fd >= 0);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fits */
    ssize_t n = readlink(link, ret_whole, PATH_MAX - 1);
    if (n < 0)
        return fail(path, "/proc does not show where the file lies", why);
    ret_whole[n] = '\0';
    return ST_OK;
}

static enum status check_open(const char *path, int fd, const char *data_dir, struct stat *ret_info,
                              struct reason *why)
{
    char whole[PATH_MAX];
    ASSERT(fd >= 0);
    if (fstat(fd, ret_info) != 0)
        return fail(path, strerror(errno), why);
    const char *wrong = wrong_kind(ret_info);
    if (wrong != NULL)
        return fail(path, wrong, why);
    TRY(place_of_fd(path, fd, whole, why));
    return must_lie_outside(path, whole, ret_info, data_dir, why);
}

static enum status set_mode(const char *path, int fd, const struct stat *info, uint32_t mode,
                            struct reason *why)
{
    if (mode == AUDIT_MODE_KEEP || !S_ISREG(info->st_mode) || (info->st_mode & 07777) == mode ||
        fchmod(fd, (mode_t)mode) == 0)
        return ST_OK;
    reason_set(why, "%s: set mode %04o: %s", path, (unsigned)mode, strerror(errno));
    return ST_IO;
}

enum { OPEN_FLAGS = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* Create a file in a directory that was checked: a path that is refused leaves no file behind.
 * ST_EXISTS: another program made the file meanwhile. */
static enum status create_outside(const char *path, mode_t mode, const char *data_dir, int *ret_fd,
                                  struct reason *why)
{
    char folder[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    int n = slash != NULL ? snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path)
                          : snprintf(folder, sizeof folder, ".");
    ASSERT(name[0] != '\0' || slash != NULL);
    if (n < 0 || (size_t)n >= sizeof folder)
        return fail(path, strerror(ENAMETOOLONG), why);
    int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return fail(path, strerror(errno), why);
    enum status st = place_of_fd(path, dir, whole, why);
    if (st == ST_OK)
        st = must_lie_outside(path, whole, NULL, data_dir, why);
    int fd = st == ST_OK ? openat(dir, name, OPEN_FLAGS | O_CREAT | O_EXCL | O_NOFOLLOW, mode) : -1;
    if (st == ST_OK && fd < 0)
        st = errno == EEXIST ? ST_EXISTS : fail(path, strerror(errno), why);
    (void)close(dir); /* nothing was written */
    ASSERT((st == ST_OK) == (fd >= 0));
    *ret_fd = fd;
    return st;
}

/* Open the file; create one that is missing. */
static enum status open_or_create(const char *path, mode_t mode, const char *data_dir, int *ret_fd,
                                  struct reason *why)
{
    enum { TRIES = 3 };
    enum status st = ST_EXISTS;
    ASSERT(path[0] != '\0' && (mode & ~(mode_t)0666) == 0);
    for (unsigned i = 0; i < TRIES && st == ST_EXISTS; i++) {
        *ret_fd = open(path, OPEN_FLAGS);
        if (*ret_fd >= 0)
            return ST_OK;
        if (errno != ENOENT)
            return fail(path, errno == ENXIO ? "no process reads the FIFO" : strerror(errno), why);
        st = create_outside(path, mode, data_dir, ret_fd, why);
    }
    return st != ST_EXISTS ? st : fail(path, strerror(EEXIST), why);
}

enum status sink_path_open(const char *path, uint32_t mode, const char *data_dir,
                           struct sink_opened *ret_opened, struct reason *why)
{
    struct stat info;
    int fd = -1;
    ASSERT((mode & ~UINT32_C(0666)) == 0);
    TRY(open_or_create(path, mode != AUDIT_MODE_KEEP ? (mode_t)mode : (mode_t)0600, data_dir, &fd,
                       why));
    enum status st = check_open(path, fd, data_dir, &info, why);
    if (st == ST_OK)
        st = set_mode(path, fd, &info, mode, why);
    if (st != ST_OK) {
        (void)close(fd); /* nothing was written */
        return st;
    }
    *ret_opened = (struct sink_opened){fd, info};
    return ST_OK;
}

enum { CHUNK = 16384 };

/* Find the last newline before `end`. *ret_at: the offset behind it; 0: there is none. */
static enum status find_newline(int fd, off_t end, off_t *ret_at)
{
    uint8_t chunk[CHUNK];
    ASSERT(fd >= 0 && end >= 0);
    while (end > 0) {
        off_t from = end > CHUNK ? end - CHUNK : 0;
        ssize_t n = pread(fd, chunk, (size_t)(end - from), from);
        if (n <= 0)
            return ST_IO;
        for (ssize_t i = n; i-- > 0;)
            if (chunk[i] == '\n') {
                *ret_at = from + i + 1;
                return ST_OK;
            }
        end = from;
    }
    *ret_at = 0;
    return ST_OK;
}

/* Read the link at the end of the line that ends before `end`. */
static bool read_link(int fd, off_t end, struct chain *ret_chain)
{
    uint8_t text[CHAIN_MEMBER_MAX];
    struct chain_member member;
    off_t len = end < (off_t)sizeof text ? end : (off_t)sizeof text;
    ASSERT(end >= 0);
    if (pread(fd, text, (size_t)len, end - len) != (ssize_t)len)
        return false;
    if (!chain_read(bytes_of(text, (size_t)len), &member))
        return false;
    ret_chain->n = member.n;
    memcpy(ret_chain->hash, member.hash, sizeof ret_chain->hash);
    return true;
}

/* The value of the member "time" of the first record; 0: none within the first bytes. */
static int64_t read_time(int fd)
{
    static const char key[] = "\"time\":\"";
    char text[4096 + 1];
    int64_t ms = 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    ASSERT((size_t)n < sizeof text);
    text[n] = '\0';
    const char *at = strstr(text, key), *end = at != NULL ? strchr(at + strlen(key), '"') : NULL;
    if (end == NULL)
        return 0;
    at += strlen(key);
    return text_time_parse(bytes_of(at, (size_t)(end - at)), &ms) == ST_OK ? ms : 0;
}

/* Find the newest link. A line that was torn and then ended has none, so the lines before are
 * looked at, too. `last` is the offset behind the last newline. */
static enum status find_link(int fd, off_t size, off_t last, struct sink_tail *tail)
{
    enum { LINES = 16 };
    ASSERT(last >= 0 && last <= size);
    /* a whole line may lack its newline alone */
    tail->chained = last != size && read_link(fd, size, &tail->chain);
    for (unsigned i = 0; i < LINES && last != 0 && !tail->chained; i++) {
        uint8_t end = 0;
        tail->chained = read_link(fd, last - 1, &tail->chain);
        if (last > 1 && pread(fd, &end, 1, last - 2) != 1)
            return ST_IO;
        tail->plain = tail->plain || (!tail->chained && end == '}');
        TRY(find_newline(fd, last - 1, &last));
    }
    tail->plain = tail->plain || !tail->chained;
    return ST_OK;
}

enum status sink_path_tail(const char *path, struct sink_tail *ret_tail, struct reason *why)
{
    struct stat info;
    struct sink_tail tail = {.ended = true};
    off_t last = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail(path, strerror(errno), why);
    enum status st = fstat(fd, &info) == 0 ? find_newline(fd, info.st_size, &last) : ST_IO;
    if (st != ST_OK)
        (void)fail(path, strerror(errno), why); /* `st` says the same */
    if (st == ST_OK && info.st_size != 0) {
        ASSERT(last <= info.st_size);
        tail.ended = last == info.st_size;
        st = find_link(fd, info.st_size, last, &tail);
        tail.first_ms = read_time(fd);
    }
    (void)close(fd); /* was only read */
    if (st == ST_OK)
        *ret_tail = tail;
    return st;
}
