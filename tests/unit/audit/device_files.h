/* Files that devices wrote. */
#ifndef HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_FILES_H
#define HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_FILES_H

#include "device_world.h"

#include <dirent.h>
#include <limits.h>
#include <sys/resource.h>

/* A limit on the size of files stands in for a full disk: a write ends early, then fails. */
static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline int compare_names(const void *one, const void *other)
{
    return strcmp(one, other);
}

/* The paths of rotated files, the oldest first; returns their number. */
static inline unsigned rotated_files(const char *path, char found[][NAME_MAX + 258], unsigned max)
{
    char folder[256];
    const char *slash = strrchr(path, '/');
    unsigned n = 0;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, slash + 1, strlen(slash + 1)) == 0 &&
            e->d_name[strlen(slash + 1)] == '.') {
            assert_true(n < max);
            (void)snprintf(found[n++], NAME_MAX + 258, "%.255s/%.255s", folder, e->d_name);
        }
    (void)closedir(dir);
    qsort(found, n, NAME_MAX + 258, compare_names);
    return n;
}

/* A whole file, zero-terminated; freed by the caller. */
static inline char *slurp(const char *path)
{
    FILE *in = fopen(path, "r");
    struct buf text = {0};
    assert_non_null(in);
    for (int c; (c = fgetc(in)) != EOF;)
        buf_add_u8(&text, (uint8_t)c);
    (void)fclose(in);
    buf_add_u8(&text, 0);
    return (char *)text.data;
}

/* Check that the file has these whole lines and nothing else: records with numbers from..to. */
static inline void assert_lines(const char *path, unsigned from, unsigned to)
{
    char *text = slurp(path), *at = text;
    for (unsigned n = from; n <= to; n++) {
        char *end = strchr(at, '\n'), want[32];
        assert_non_null(end);
        *end = '\0';
        (void)snprintf(want, sizeof want, "\"n\":%u,", n);
        if (strstr(at, want) == NULL || end[-1] != '}')
            fail_msg("wanted %s, have %s", want, at);
        at = end + 1;
    }
    assert_string_equal(at, "");
    mem_free(text);
}

#endif
