/* The number of usable processors: control groups of both versions, and affinity. */
#include "support.h"

#include "base/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[PATH_MAX];

static void put(const char *name, const char *content)
{
    char path[2 * PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", top, name);
    for (char *at = path + strlen(top) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        (void)mkdir(path, 0700); /* may be there */
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static unsigned quota(void)
{
    char own[PATH_MAX + 8], root[PATH_MAX + 8];
    (void)snprintf(own, sizeof own, "%s/own", top);
    (void)snprintf(root, sizeof root, "%s/fs", top);
    return cpus_quota(own, root);
}

static int fresh(void **ctx)
{
    (void)ctx;
    (void)snprintf(top, sizeof top, "/tmp/holdfast-cpus-XXXXXX");
    return mkdtemp(top) == NULL;
}

static int gone(void **ctx)
{
    char command[PATH_MAX + 16];
    (void)ctx;
    (void)snprintf(command, sizeof command, "rm -r %s", top);
    return system(command);
}

static void without_groups_there_is_no_quota(void **ctx)
{
    (void)ctx;
    assert_int_equal(quota(), 0);
    put("own", "0::/a\n1:name=systemd:/b\nnonsense\n::\n:\n");
    assert_int_equal(quota(), 0);
    put("fs/a/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 0);
    put("fs/a/cpu.max", "\n");
    assert_int_equal(quota(), 0);
    put("fs/a/cpu.max", "100000\n");
    assert_int_equal(quota(), 0);
    put("fs/a/cpu.max", "-5 -5\n");
    assert_int_equal(quota(), 0);
}

static void a_quota_is_rounded_up(void **ctx)
{
    static const struct {
        const char *text;
        unsigned n;
    } cases[] = {{"50000 100000\n", 1},  {"100000 100000\n", 1}, {"100001 100000\n", 2},
                 {"150000 100000\n", 2}, {"1 1000000\n", 1},     {"800000 100000\n", 8}};
    (void)ctx;
    put("own", "0::/a/b\n");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put("fs/a/b/cpu.max", cases[i].text);
        assert_int_equal(quota(), cases[i].n);
    }
}

static void the_least_of_a_group_and_those_above_counts(void **ctx)
{
    (void)ctx;
    put("own", "0::/a/b/c\n");
    put("fs/a/b/c/cpu.max", "400000 100000\n");
    put("fs/a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 4);
    put("fs/a/cpu.max", "200000 100000\n");
    assert_int_equal(quota(), 2);
    put("fs/cpu.max", "100000 100000\n"); /* as in a container with its own view */
    assert_int_equal(quota(), 1);
}

static void version_1_has_two_files(void **ctx)
{
    (void)ctx;
    put("own", "5:cpuset:/x\n4:cpu,cpuacct:/a\n3:memory:/a\n");
    put("fs/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(quota(), 0);
    put("fs/cpu,cpuacct/a/cpu.cfs_period_us", "50000\n");
    assert_int_equal(quota(), 0);
    put("fs/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(quota(), 3);
    put("own", "4:cpu:/not/there\n");
    put("fs/cpu/cpu.cfs_quota_us", "60000\n");
    put("fs/cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(quota(), 2);
}

static void affinity_counts(void **ctx)
{
    cpu_set_t all, one;
    (void)ctx;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(cpus_usable(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpus_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_groups_there_is_no_quota),
        TEST(a_quota_is_rounded_up),
        TEST(the_least_of_a_group_and_those_above_counts),
        TEST(version_1_has_two_files),
        TEST(affinity_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
