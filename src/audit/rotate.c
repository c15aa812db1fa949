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
static enum status list_stamps(int folder, const char *name, struct stamps *s)
{
    size_t len = strlen(name);
    enum status st = ST_OK;
    ASSERT(s->n == 0);
    ASSERT(folder >= 0 && len > 0);

    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* `folder` may be O_PATH */
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0)
            (void)close(fd); /* reads only */
        return ST_IO;
    }
    for (struct dirent *entry; st == ST_OK && (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, name, len) == 0 && entry->d_name[len] == '.' &&
            is_stamp(entry->d_name + len + 1))
            st = add_stamp(s, entry->d_name + len + 1);
    (void)closedir(dir); /* reads only */
    if (s->n > 1)
        qsort(s->items, s->n, sizeof *s->items, compare);
    return st;
}

static enum status put_name(const char *name, const char *stamp, char ret_name[NAME_MAX + 1])
{
    int n = snprintf(ret_name, NAME_MAX + 1, "%s.%s", name, stamp);
    return n > 0 && n <= NAME_MAX ? ST_OK : ST_IO;
}

enum status rotate_newest(int dir, const char *name, char ret_name[NAME_MAX + 1])
{
    CLEANUP(stamps_done) struct stamps s = {0};
    TRY(list_stamps(dir, name, &s));
    if (s.n == 0)
        return ST_NOT_FOUND;
    return put_name(name, s.items[s.n - 1], ret_name);
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

enum status rotate_rename(int dir, const char *name, int64_t wall_us, struct reason *why)
{
    CLEANUP(stamps_done) struct stamps s = {0};
    char stamp[ROTATE_STAMP_LEN + 1], to[NAME_MAX + 1];
    TRY(list_stamps(dir, name, &s));
    put_stamp(MAX(wall_us, 0), stamp);
    if (s.n != 0 && strcmp(stamp, s.items[s.n - 1]) <= 0) {
        memcpy(stamp, s.items[s.n - 1], sizeof stamp);
        bump(stamp);
    }
    ASSERT(is_stamp(stamp));
    if (put_name(name, stamp, to) != ST_OK) {
        reason_set(why, "%s: the name is too long to rotate", name);
        return ST_IO;
    }
    /* not every file system has the flag; no other program makes such names */
    if (renameat2(dir, name, dir, to, RENAME_NOREPLACE) == 0 ||
        (errno == EINVAL && faccessat(dir, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
         renameat(dir, name, dir, to) == 0))
        return ST_OK;
    reason_set(why, "%s: rotate to %s: %s", name, to, strerror(errno));
    return ST_IO;
}

enum status rotate_prune(int dir, const char *name, uint64_t keep, struct reason *why)
{
    CLEANUP(stamps_done) struct stamps s = {0};
    char old[NAME_MAX + 1];
    enum status st = list_stamps(dir, name, &s);
    ASSERT(keep > 0);
    for (size_t i = 0; st == ST_OK && s.n - i > keep; i++) {
        st = put_name(name, s.items[i], old);
        if (st == ST_OK && unlinkat(dir, old, 0) != 0 && errno != ENOENT)
            st = ST_IO;
    }
    if (st != ST_OK)
        reason_set(why, "%s: delete rotated files: %s", name, strerror(errno));
    return st;
}
