#include "audit/rotate.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char form[] = "00000000T000000.000000Z";
static_assert(sizeof form - 1 == ROTATE_STAMP_LEN, "the form of a stamp");

static bool is_stamp(const char *text)
{
    if (strlen(text) != ROTATE_STAMP_LEN)
        return false;
    for (size_t i = 0; i < ROTATE_STAMP_LEN; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (form[i] == '0' ? !digit : text[i] != form[i])
            return false;
    }
    return true;
}

/* The name within its directory. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

struct stamps {
    char (*items)[ROTATE_STAMP_LEN + 1];
    size_t n, cap;
};

static void stamps_done(struct stamps *s)
{
    mem_free(s->items);
}

static enum status add_stamp(struct stamps *s, const char *text)
{
    if (s->n == s->cap) {
        size_t cap = s->cap != 0 ? 2 * s->cap : 64;
        void *items = mem_realloc(s->items, cap * sizeof *s->items);
        if (items == NULL)
            return ST_NOMEM;
        s->items = items;
        s->cap = cap;
    }
    ASSERT(is_stamp(text));
    memcpy(s->items[s->n++], text, ROTATE_STAMP_LEN + 1);
    return ST_OK;
}

static int compare(const void *one, const void *other)
{
    return strcmp(one, other);
}

/* The stamps of all rotated files, the oldest first. */
static enum status list_stamps(const char *path, struct stamps *s)
{
    char folder[PATH_MAX];
    const char *base = base_of(path);
    size_t base_len = strlen(base), folder_len = (size_t)(base - path);
    enum status st = ST_OK;
    ASSERT(s->n == 0);
    ASSERT(base_len > 0);

    (void)snprintf(folder, sizeof folder, "%.*s", folder_len != 0 ? (int)folder_len : 1,
                   folder_len != 0 ? path : "."); /* a path that is too long was not opened */
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return ST_IO;
    for (struct dirent *entry; st == ST_OK && (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, base, base_len) == 0 && entry->d_name[base_len] == '.' &&
            is_stamp(entry->d_name + base_len + 1))
            st = add_stamp(s, entry->d_name + base_len + 1);
    (void)closedir(dir); /* reads only */
    if (s->n > 1)
        qsort(s->items, s->n, sizeof *s->items, compare);
    return st;
}

static enum status put_path(const char *path, const char *stamp, char ret_path[PATH_MAX])
{
    int n = snprintf(ret_path, PATH_MAX, "%s.%s", path, stamp);
    return n > 0 && n < PATH_MAX ? ST_OK : ST_IO;
}

enum status rotate_newest(const char *path, char ret_path[PATH_MAX])
{
    CLEANUP(stamps_done) struct stamps s = {0};
    TRY(list_stamps(path, &s));
    if (s.n == 0)
        return ST_NOT_FOUND;
    return put_path(path, s.items[s.n - 1], ret_path);
}

static void put_stamp(int64_t wall_us, char ret_stamp[ROTATE_STAMP_LEN + 1])
{
    struct tm t = {0};
    ASSERT(wall_us >= 0);
    time_t seconds = (time_t)(wall_us / 1000000);
    (void)gmtime_r(&seconds, &t); /* a clock beyond the year 9999 gives a name that is cut */
    char text[64];
    size_t n = strftime(text, sizeof text, "%Y%m%dT%H%M%S", &t);
    (void)snprintf(text + n, sizeof text - n, ".%06uZ", (unsigned)(wall_us % 1000000)); /* fits */
    memcpy(ret_stamp, text, ROTATE_STAMP_LEN);
    ret_stamp[ROTATE_STAMP_LEN] = '\0';
}

/* The next stamp behind `stamp`: add one to the decimal number that its digits make. Not always a
 * time of a calendar, always a name that sorts behind. */
static void bump(char stamp[ROTATE_STAMP_LEN + 1])
{
    for (size_t i = ROTATE_STAMP_LEN; i-- > 0;) {
        if (form[i] != '0')
            continue;
        if (stamp[i] != '9') {
            stamp[i]++;
            return;
        }
        stamp[i] = '0';
    }
}

enum status rotate_rename(const char *path, int64_t wall_us, struct reason *why)
{
    CLEANUP(stamps_done) struct stamps s = {0};
    char stamp[ROTATE_STAMP_LEN + 1], to[PATH_MAX];
    TRY(list_stamps(path, &s));
    put_stamp(MAX(wall_us, 0), stamp);
    if (s.n != 0 && strcmp(stamp, s.items[s.n - 1]) <= 0) {
        memcpy(stamp, s.items[s.n - 1], sizeof stamp);
        bump(stamp);
    }
    ASSERT(is_stamp(stamp));
    if (put_path(path, stamp, to) != ST_OK) {
        reason_set(why, "%s: the name is too long to rotate", path);
        return ST_IO;
    }
    /* not every file system has the flag; no other program makes such names */
    if (renameat2(AT_FDCWD, path, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ||
        (errno == EINVAL && access(to, F_OK) != 0 && rename(path, to) == 0))
        return ST_OK;
    reason_set(why, "%s: rotate to %s: %s", path, base_of(to), strerror(errno));
    return ST_IO;
}

enum status rotate_prune(const char *path, uint64_t keep, struct reason *why)
{
    CLEANUP(stamps_done) struct stamps s = {0};
    char old[PATH_MAX];
    enum status st = list_stamps(path, &s);
    ASSERT(keep > 0);
    for (size_t i = 0; st == ST_OK && s.n - i > keep; i++) {
        st = put_path(path, s.items[i], old);
        if (st == ST_OK && unlink(old) != 0 && errno != ENOENT)
            st = ST_IO;
    }
    if (st != ST_OK)
        reason_set(why, "%s: delete rotated files: %s", path, strerror(errno));
    return st;
}
