#include "audit/sink_path.h"
#include "audit/options.h"
#include "text/time.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum status fail(const char *path, const char *what, struct reason *why)
{
    reason_set(why, "%s: %s", path, what);
    return ST_IO;
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

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
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

/* `directory` is open as `dir`, and `below` leads from there to the file. */
static enum status must_lie_outside(const char *path, int dir, const char *below,
                                    const char *data_dir, struct reason *why)
{
    char data[PATH_MAX], whole[PATH_MAX], file[2 * PATH_MAX];
    ASSERT(dir >= 0 && below[0] != '/');
    if (data_dir == NULL)
        return ST_OK;
    if (realpath(data_dir, data) == NULL)
        return fail(path, "cannot be compared with the data directory", why);
    TRY(place_of_fd(path, dir, whole, why));
    int n = snprintf(file, sizeof file, "%s/%s", whole, below);
    if (n < 0 || (size_t)n >= sizeof file)
        return fail(path, strerror(ENAMETOOLONG), why);
    return is_below(file, data) ? fail(path, "leads into the data directory", why) : ST_OK;
}

enum { FOLDER_FLAGS = O_PATH | O_DIRECTORY | O_CLOEXEC };

/* Replace the open folder *dir by its folder `name`, which is made if it is missing. */
static enum status step_down(const char *path, const char *name, mode_t mode, int *dir,
                             struct reason *why)
{
    struct stat info;
    ASSERT(path[0] == '/');
    ASSERT(*dir >= 0 && name[0] != '\0');
    int next = openat(*dir, name, FOLDER_FLAGS | O_NOFOLLOW);
    if (next < 0 && errno == ENOENT && (mkdirat(*dir, name, mode) == 0 || errno == EEXIST))
        next = openat(*dir, name, FOLDER_FLAGS | O_NOFOLLOW);
    if (next < 0) {
        int err = errno;
        bool is_link =
            fstatat(*dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
        return fail(path, is_link ? "has a symbolic link in its path" : strerror(err), why);
    }
    (void)close(*dir); /* a descriptor of O_PATH holds no data */
    *dir = next;
    return ST_OK;
}

static enum status walk_down(const char *path, const char *below, uint32_t mode, int *dir,
                             const char **ret_name, struct reason *why)
{
    char name[NAME_MAX + 1];
    ASSERT(*dir >= 0 && below[0] != '\0');
    for (const char *slash; (slash = strchr(below, '/')) != NULL; below = slash + 1) {
        size_t len = (size_t)(slash - below);
        ASSERT(len > 0); /* the path is canonical */
        if (len > NAME_MAX)
            return fail(path, strerror(ENAMETOOLONG), why);
        memcpy(name, below, len);
        name[len] = '\0';
        TRY(step_down(path, name, (mode & 0040) != 0 ? 0750 : 0700, dir, why));
    }
    *ret_name = below;
    return ST_OK;
}

enum status sink_place_open(const struct audit_places *places, const char *path, uint32_t mode,
                            struct sink_place *ret_place, struct reason *why)
{
    const char *directory = NULL, *below = NULL, *name = NULL;
    TRY(audit_places_find(places, path, &directory, &below, why));
    int dir = open(directory, FOLDER_FLAGS);
    if (dir < 0) {
        reason_set(why, "%s: the directory %s: %s", path, directory, strerror(errno));
        return ST_IO;
    }
    enum status st = must_lie_outside(path, dir, below, places->data_dir, why);
    if (st == ST_OK)
        st = walk_down(path, below, mode, &dir, &name, why);
    if (st != ST_OK) {
        (void)close(dir); /* a descriptor of O_PATH holds no data */
        return st;
    }
    ASSERT(name != NULL && name[0] != '\0');
    *ret_place = (struct sink_place){dir, name};
    return ST_OK;
}

static const char *wrong_kind(const struct stat *info)
{
    if (S_ISREG(info->st_mode) || S_ISFIFO(info->st_mode))
        return NULL;
    if (S_ISLNK(info->st_mode))
        return "is a symbolic link";
    return S_ISDIR(info->st_mode) ? "is a directory" : "is neither a regular file nor a FIFO";
}

enum head { NO_RECORD, TORN_RECORD, RECORD };

/* Compare *at with a part of the form of a record, and step over it. */
static enum head match(const char **at, const char *part)
{
    size_t len = strlen(part), have = strnlen(*at, len);
    if (strncmp(*at, part, have) != 0)
        return NO_RECORD;
    *at += have;
    return have == len ? RECORD : TORN_RECORD;
}

/* Whether a line begins as each record does, `{"time":"…","type":"re`, or ends within that because
 * a write ended early. A prefix may stand before a record. */
static enum head head_of(const char *line)
{
    static const char first[] = "{\"time\":\"", second[] = "\",\"type\":\"re";
    const char *at = strstr(line, first);
    if (at == NULL)
        at = line;
    enum head head = match(&at, first);
    if (head != RECORD)
        return head;
    at += strspn(at, "0123456789-:.+TZ");
    return match(&at, second);
}

/* Whether an audit device made the file: it is empty, or begins with a record. Lines that were torn
 * may stand before the first whole record. */
static enum status must_be_a_trail(const char *path, int fd, const struct stat *info,
                                   struct reason *why)
{
    char text[AUDIT_TEXT_MAX + 4096];
    enum head head = TORN_RECORD;
    ASSERT(fd >= 0 && S_ISREG(info->st_mode));
    if (info->st_size == 0 && info->st_nlink == 1)
        return ST_OK;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return fail(path, strerror(errno), why);
    text[n] = '\0';
    for (char *line = text, *end; line != NULL && head == TORN_RECORD; line = end) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        head = head_of(line);
        if (strlen(line) != (size_t)((end != NULL ? end - 1 : text + n) - line))
            head = NO_RECORD; /* a zero byte */
    }
    /* nothing but torn lines: the whole file must have been looked at */
    if (n > 0 && (head == RECORD || (head == TORN_RECORD && n == info->st_size)))
        return ST_OK;
    return fail(path,
                "no audit device made this file: it does not begin with a record. Choose another "
                "path, or move the file away",
                why);
}

enum {
    COMMON_FLAGS = O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
    TRIES = 3,
};

/* Open a file that exists. ST_NOT_FOUND; ST_EXISTS: it was replaced meanwhile. */
static enum status open_existing(const struct sink_place *place, const char *path,
                                 struct sink_opened *opened, struct reason *why)
{
    struct stat before;
    ASSERT(place->dir >= 0 && place->name[0] != '\0');
    if (fstatat(place->dir, place->name, &before, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? ST_NOT_FOUND : fail(path, strerror(errno), why);
    const char *wrong = wrong_kind(&before);
    if (wrong != NULL) /* opening some devices has an effect */
        return fail(path, wrong, why);
    int fd = openat(place->dir, place->name,
                    COMMON_FLAGS | (S_ISREG(before.st_mode) ? O_RDWR : O_WRONLY));
    if (fd < 0)
        return errno == ENOENT
                   ? ST_NOT_FOUND
                   : fail(path, errno == ENXIO ? "no process reads the FIFO" : strerror(errno),
                          why);
    enum status st = fstat(fd, &opened->info) == 0 ? ST_OK : fail(path, strerror(errno), why);
    if (st == ST_OK &&
        (opened->info.st_ino != before.st_ino || opened->info.st_dev != before.st_dev))
        st = ST_EXISTS;
    if (st == ST_OK && S_ISREG(opened->info.st_mode))
        st = must_be_a_trail(path, fd, &opened->info, why);
    if (st != ST_OK)
        (void)close(fd); /* nothing was written */
    ASSERT(fd >= 0 && (S_ISREG(before.st_mode) || S_ISFIFO(before.st_mode)));
    opened->fd = fd;
    return st;
}

/* ST_EXISTS: another program made the file meanwhile. */
static enum status create_file(const struct sink_place *place, const char *path, uint32_t mode,
                               struct sink_opened *opened, struct reason *why)
{
    ASSERT(place->dir >= 0 && opened->fd < 0);
    int fd = openat(place->dir, place->name, COMMON_FLAGS | O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return errno == EEXIST ? ST_EXISTS : fail(path, strerror(errno), why);
    if (mode == AUDIT_MODE_KEEP)
        mode = 0600;
    if (fchmod(fd, (mode_t)mode) == 0 && fstat(fd, &opened->info) == 0) { /* whatever the umask */
        opened->fd = fd;
        return ST_OK;
    }
    reason_set(why, "%s: set mode %04o: %s", path, (unsigned)mode, strerror(errno));
    (void)close(fd);                            /* nothing was written */
    (void)unlinkat(place->dir, place->name, 0); /* the reason is set already */
    return ST_IO;
}

enum status sink_path_open(const struct sink_place *place, const char *path, uint32_t mode,
                           struct sink_opened *ret_opened, struct reason *why)
{
    struct sink_opened opened = {.fd = -1};
    enum status st = ST_EXISTS;
    ASSERT(place->dir >= 0 && (mode & ~(uint32_t)AUDIT_MODE_MAX) == 0);
    for (unsigned i = 0; i < TRIES && (st == ST_EXISTS || st == ST_NOT_FOUND); i++) {
        st = open_existing(place, path, &opened, why);
        if (st == ST_NOT_FOUND)
            st = create_file(place, path, mode, &opened, why);
    }
    if (st == ST_EXISTS || st == ST_NOT_FOUND)
        return fail(path, "another program replaces this file again and again", why);
    TRY(st);
    ASSERT(opened.fd >= 0);
    *ret_opened = opened;
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

enum status sink_path_tail(int fd, const char *path, struct sink_tail *ret_tail, struct reason *why)
{
    struct stat info;
    struct sink_tail tail = {.ended = true};
    off_t last = 0;
    ASSERT(fd >= 0);
    enum status st = fstat(fd, &info) == 0 ? find_newline(fd, info.st_size, &last) : ST_IO;
    if (st != ST_OK)
        return fail(path, strerror(errno), why);
    if (info.st_size != 0) {
        ASSERT(last <= info.st_size);
        tail.ended = last == info.st_size;
        TRY(find_link(fd, info.st_size, last, &tail));
        tail.first_ms = read_time(fd);
    }
    *ret_tail = tail;
    return ST_OK;
}
