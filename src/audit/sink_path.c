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

/* `whole` is a path without symbolic links. */
static enum status check_place(const char *path, const char *whole, const char *data_dir,
                               struct reason *why)
{
    char dir[PATH_MAX];
    if (data_dir == NULL || realpath(data_dir, dir) == NULL || !is_below(whole, dir))
        return ST_OK;
    return fail(path, "leads into the data directory", why);
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
        return check_place(path, whole, data_dir, why);
    }
    if (errno != ENOENT)
        return fail(path, strerror(errno), why);
    if (lstat(path, &info) == 0)
        return fail(path, "is a symbolic link that leads nowhere", why);
    if (!resolve_new(path, whole))
        return fail(path, strerror(errno), why);
    return check_place(path, whole, data_dir, why);
}

/* The directory has the file under another name. The file has more than one name, so a search is
 * rare. */
static enum status check_other_names(const char *path, const struct stat *info,
                                     const char *data_dir, struct reason *why)
{
    char dir[PATH_MAX];
    char *const roots[] = {dir, NULL};
    if (data_dir == NULL || !S_ISREG(info->st_mode) || info->st_nlink < 2 ||
        realpath(data_dir, dir) == NULL)
        return ST_OK;
    ASSERT(dir[0] == '/');
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    enum status st = walk != NULL ? ST_OK : fail(path, strerror(errno), why);
    for (FTSENT *entry; st == ST_OK && (entry = fts_read(walk)) != NULL;)
        if (entry->fts_info == FTS_F && entry->fts_statp->st_ino == info->st_ino &&
            entry->fts_statp->st_dev == info->st_dev)
            st = fail(path, "is a file of the data directory, under another name", why);
    if (walk != NULL)
        (void)fts_close(walk); /* was only read */
    return st;
}

static enum status check_open(const char *path, int fd, const char *data_dir, struct stat *ret_info,
                              struct reason *why)
{
    char link[64], whole[PATH_MAX];
    ASSERT(fd >= 0);
    if (fstat(fd, ret_info) != 0)
        return fail(path, strerror(errno), why);
    const char *wrong = wrong_kind(ret_info);
    if (wrong != NULL)
        return fail(path, wrong, why);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fits */
    ssize_t n = readlink(link, whole, sizeof whole - 1);
    if (n < 0)
        return fail(path, "/proc does not show where the file lies", why);
    whole[n] = '\0';
    TRY(check_place(path, whole, data_dir, why));
    return check_other_names(path, ret_info, data_dir, why);
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

enum status sink_path_open(const char *path, uint32_t mode, const char *data_dir,
                           struct sink_opened *ret_opened, struct reason *why)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                  mode != AUDIT_MODE_KEEP ? (mode_t)mode : (mode_t)0600);
    ASSERT((mode & ~UINT32_C(0666)) == 0);
    if (fd < 0)
        return fail(path, errno == ENXIO ? "no process reads the FIFO" : strerror(errno), why);
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
        /* a whole line may lack its newline alone */
        tail.chained = (!tail.ended && read_link(fd, info.st_size, &tail.chain)) ||
                       (last != 0 && read_link(fd, last - 1, &tail.chain));
        tail.first_ms = read_time(fd);
    }
    (void)close(fd); /* was only read */
    if (st == ST_OK)
        *ret_tail = tail;
    return st;
}
