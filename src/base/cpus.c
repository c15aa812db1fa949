#include "base/cpus.h"
#include "base/macros.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CPUS_MAX = 64 * 1024, LINE = PATH_MAX + 256, BACKGROUND_NICE = 10 };

/* Read the first line of the file `name` in `dir`. */
static bool read_quota(const char *dir, const char *name, char line[static 64])
{
    char path[2 * PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    bool got = fgets(line, 64, file) != NULL;
    (void)fclose(file); /* the file was only read */
    return got;
}

/* How many processors a quota allows, rounded up; 0: no limit. */
static unsigned processors(long long quota_us, long long period_us)
{
    if (quota_us <= 0 || period_us <= 0)
        return 0;
    return (unsigned)MIN((quota_us - 1) / period_us + 1, (long long)CPUS_MAX);
}

static unsigned quota_v2(const char *dir)
{
    char line[64], *end = NULL;
    if (!read_quota(dir, "cpu.max", line))
        return 0;
    long long quota_us = strtoll(line, &end, 10); /* "max", no limit, reads as 0 */
    return processors(quota_us, strtoll(end, NULL, 10));
}

static unsigned quota_v1(const char *dir)
{
    char quota[64], period[64];
    if (!read_quota(dir, "cpu.cfs_quota_us", quota) ||
        !read_quota(dir, "cpu.cfs_period_us", period))
        return 0;
    return processors(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The smaller one of two limits; 0 is no limit. */
static unsigned lesser(unsigned a, unsigned b)
{
    return a == 0 ? b : b == 0 ? a : MIN(a, b);
}

/* The smallest quota of the group and the groups above it, up to the root of `mount`. In a
 * container the path may be the machine's: then only the root exists, and directories below it have
 * no quota file. */
static unsigned quota_above(const char *mount, const char *group, unsigned (*quota)(const char *))
{
    char dir[PATH_MAX];
    unsigned least = 0;
    int n = snprintf(dir, sizeof dir, "%s%s", mount, group);
    size_t root = strlen(mount);
    if (n < 0 || (size_t)n >= sizeof dir)
        return 0;
    for (;;) {
        ASSERT(strlen(dir) >= root); /* no group lies above the mount */
        least = lesser(least, quota(dir));
        char *slash = strrchr(dir + root, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

static bool names_cpu(const char *controllers, size_t len)
{
    for (const char *at = controllers; at < controllers + len; at += strcspn(at, ",:") + 1)
        if (strcspn(at, ",:") == 3 && memcmp(at, "cpu", 3) == 0)
            return true;
    return false;
}

/* The quota of the group on a line of /proc/self/cgroup: "0::/path" for version 2,
 * "4:cpu,cpuacct:/path" for version 1. */
static unsigned quota_of_line(const char *line, const char *root)
{
    static const char *const mounts[] = {"cpu", "cpu,cpuacct"};
    char mount[PATH_MAX];
    unsigned least = 0;
    const char *controllers = strchr(line, ':');
    const char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return 0;
    size_t len = (size_t)(group++ - ++controllers);
    if (len == 0)
        return quota_above(root, group, quota_v2);
    for (size_t i = 0; names_cpu(controllers, len) && i < ARRAY_LEN(mounts); i++) {
        int n = snprintf(mount, sizeof mount, "%s/%s", root, mounts[i]);
        if (n > 0 && (size_t)n < sizeof mount)
            least = lesser(least, quota_above(mount, group, quota_v1));
    }
    return least;
}

unsigned cpus_quota(const char *own, const char *root)
{
    char line[LINE];
    unsigned least = 0;
    FILE *file = fopen(own, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        least = lesser(least, quota_of_line(line, root));
    }
    (void)fclose(file); /* the file was only read */
    return least;
}

/* How many processors the process may be scheduled on; 0: unknown. */
static unsigned affinity(void)
{
    for (int most = CPU_SETSIZE; most <= CPUS_MAX; most *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        if (set == NULL)
            return 0;
        bool told = sched_getaffinity(0, bytes, set) == 0;
        int err = errno;
        unsigned n = told ? (unsigned)CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (told || err != EINVAL) /* EINVAL: the set is too small for this machine */
            return n;
    }
    return 0;
}

void cpus_background(void)
{
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + BACKGROUND_NICE);
}

unsigned cpus_usable(void)
{
    unsigned n = lesser(affinity(), cpus_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
    return MAX(n, 1U);
}
