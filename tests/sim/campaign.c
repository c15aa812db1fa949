#include "campaign.h"

#include "base/plant.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 64, SECONDS_MAX = 180, PLANTED_SECONDS_MAX = 40, FAILURES_SHOWN = 40 };

struct child {
    pid_t pid;
    int from; /* its messages */
    uint64_t seed;
    double started;
    struct verdict verdict;
};

/* The one message of a run that passed; a run that fails writes its text instead. */
struct passed {
    char mark[8];
    struct outcome outcome;
};
static const char passed_mark[8] = "PASSED\n";

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A run that hangs is ended by a signal. Processor time: others may want the machine too. A planted
 * bug is looked for in the seeds that tell soon. */
static void time_limit(bool planted)
{
    const rlim_t seconds = planted ? PLANTED_SECONDS_MAX : SECONDS_MAX;
    const struct rlimit limit = {seconds, seconds};
    (void)setrlimit(RLIMIT_CPU, &limit); /* refused: a hang is not found out */
}

static void child_main(uint64_t seed, const char *profile, unsigned plant, int to)
{
    struct passed passed;
    time_limit(plant != 0);
    core_fail_to(to);
    if (dup2(to, STDERR_FILENO) < 0) /* assertions and sanitizers report there */
        _exit(3);
#ifdef HOLDFAST_PLANT
    plant_number = plant;
#else
    (void)plant;
#endif
    cluster_run(seed, profile, false, &passed.outcome);
    memcpy(passed.mark, passed_mark, sizeof passed.mark);
    _exit(write(to, &passed, sizeof passed) == (ssize_t)sizeof passed ? 0 : 3);
}

static void child_start(struct child *child, uint64_t seed, const char *profile, unsigned plant)
{
    int ends[2];
    if (pipe(ends) != 0) {
        perror("sim: pipe");
        exit(2);
    }
    fflush(stdout);
    *child = (struct child){.from = ends[0], .seed = seed, .started = now()};
    child->pid = fork();
    if (child->pid == 0) {
        close(ends[0]);
        child_main(seed, profile, plant, ends[1]);
    }
    close(ends[1]);
    if (child->pid < 0) {
        perror("sim: fork");
        exit(2);
    }
}

/* Everything the child wrote; sanitizers write much, the first of it counts. */
static size_t drain(int from, char *buf, size_t size)
{
    size_t n = 0;
    char rest[4096];
    for (;;) {
        bool room = n < size;
        ssize_t got = room ? read(from, buf + n, size - n) : read(from, rest, sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return n;
        n += room ? (size_t)got : 0;
    }
}

static void child_finish(struct child *child)
{
    char buf[sizeof(struct passed) + TEXT_MAX] = {0};
    struct verdict *v = &child->verdict;
    int status = 0;
    size_t n = drain(child->from, buf, sizeof buf - 1);
    close(child->from);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    v->seconds = now() - child->started;
    v->passed = WIFEXITED(status) && WEXITSTATUS(status) == 0 && n >= sizeof(struct passed) &&
                memcmp(buf, passed_mark, sizeof passed_mark) == 0;
    v->too_long =
        WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
    if (v->passed) {
        memcpy(&v->outcome, buf + offsetof(struct passed, outcome), sizeof v->outcome);
        return;
    }
    if (n == 0)
        snprintf(buf, sizeof buf, "seed %" PRIu64 ": no message", child->seed);
    for (char *c = buf; *c != '\0'; c++)
        if (*c == '\n')
            *c = ' ';
    bool own = strncmp(buf, "seed ", 5) == 0;
    snprintf(v->text, sizeof v->text, "seed %" PRIu64 "%.4s%.900s%s%s", child->seed,
             own ? "" : ": ", own ? buf + 5 + strcspn(buf + 5, " ") : buf,
             WIFSIGNALED(status) ? " signal " : "",
             WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
}

void run_in_child(uint64_t seed, const char *profile, unsigned plant, struct verdict *ret_verdict)
{
    struct child child;
    child_start(&child, seed, profile, plant);
    child_finish(&child);
    *ret_verdict = child.verdict;
}

bool run_anew(uint64_t seed, const char *profile, const char *plant, uint64_t *ret_hash)
{
    char text[32], out[TEXT_MAX] = {0};
    const char *const args[] = {"sim", "--profile", profile, text, plant != NULL ? "--plant" : NULL,
                                plant, NULL};
    int ends[2], status;
    snprintf(text, sizeof text, "%" PRIu64, seed);
    fflush(stdout);
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        time_limit(plant != NULL);
        if (dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0)
            execv("/proc/self/exe", (char *const *)(uintptr_t)args);
        _exit(3);
    }
    close(ends[1]);
    drain(ends[0], out, sizeof out - 1);
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    const char *hash = strstr(out, ", hash ");
    return hash != NULL && sscanf(hash, ", hash %" SCNx64, ret_hash) == 1;
}

void tallies_add(struct tally *sum, const struct tally *one)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)one;
    static_assert(sizeof *sum % sizeof *to == 0, "only numbers in a tally");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

struct progress {
    const struct campaign *campaign;
    struct tally tally;
    unsigned failed, compared;
    double started;
};

static void failure(struct progress *p, const char *text)
{
    if (p->failed++ < FAILURES_SHOWN)
        printf("FAILED %s\n", text);
}

static void judge(struct progress *p, const struct child *child)
{
    const struct campaign *k = p->campaign;
    uint64_t hash = 0;
    if (!child->verdict.passed) {
        failure(p, child->verdict.text);
        return;
    }
    tallies_add(&p->tally, &child->verdict.outcome.tally);
    if (k->twice_each == 0 || k->plant != 0 || child->seed % k->twice_each != 0)
        return;
    p->compared++;
    if (!run_anew(child->seed, k->profile, NULL, &hash) || hash != child->verdict.outcome.hash) {
        char text[100];
        snprintf(text, sizeof text, "seed %" PRIu64 ": two runs differ", child->seed);
        failure(p, text);
    }
}

static void print_tally(const struct progress *p)
{
    static const char *const fault_names[FAULTS] = {
        "power", "kill",     "stop", "all power", "pause",    "cut",   "net",    "eio",
        "sync",  "no space", "full", "slow",      "nth call", "clock", "damage", "stray"};
    const struct tally *t = &p->tally;
    double s = now() - p->started, virtual_s = (double)t->virtual_ms / 1000;
    printf("%" PRIu64 " runs, %.0f simulated s in %.1f s (%.0f times real time), %u run twice\n",
           t->runs, virtual_s, s, virtual_s / s, p->compared);
    printf("%" PRIu64 " operations: %" PRIu64 " ok, %" PRIu64 " failed, %" PRIu64
           " unknown; %" PRIu64 " repeated, %" PRIu64 " rerun; %" PRIu64 " too hard to judge\n",
           t->ops, t->ops_ok, t->ops_failed, t->ops_unknown, t->repeated, t->reruns,
           t->lin_too_hard);
    printf("tokens: %" PRIu64 " operations, %" PRIu64 " ok, %" PRIu64 " refused\n", t->token_ops,
           t->token_ok, t->token_refused);
    printf("%" PRIu64 " elections, %" PRIu64 " frames, %" PRIu64 " starts, %" PRIu64
           " snapshots, %" PRIu64 " torn writes, %" PRIu64 " rejoined, %" PRIu64 " replaced\n",
           t->elections, t->frames, t->restarts, t->snapshots_created, t->torn_writes, t->rejoins,
           t->replaced_ok);
    printf("members: %" PRIu64 " added, %" PRIu64 " promoted, %" PRIu64 " demoted, %" PRIu64
           " removed, %" PRIu64 " replaced, %" PRIu64 " transfers\nfaults:",
           t->admins[ADMIN_ADD], t->admins[ADMIN_PROMOTE], t->admins[ADMIN_DEMOTE],
           t->admins[ADMIN_REMOVE], t->admins[ADMIN_REPLACE], t->admins[ADMIN_TRANSFER]);
    for (unsigned i = 0; i < FAULTS; i++)
        printf("%s %" PRIu64 " %s", i != 0 ? "," : "", t->faults[i], fault_names[i]);
    printf("\nreached:");
    for (unsigned i = 0; i < REACHES; i++)
        printf("%s %s %" PRIu64, i != 0 ? "," : "", reach_name((enum reach)i), t->reached[i]);
    printf("\n");
}

/* Whether runs without this would show less than they should. */
static bool must_reach(const struct campaign *k, enum reach r)
{
    switch (r) {
    case REACH_INSTALL_COMPLETED: return false; /* rare; a unit test does it */
    case REACH_RECOVERED:                       /* of a profile that the campaign does not draw */
        return strcmp(k->profile, "recover") == 0;
    default:
        if (r >= REACH_PAIR_FIRST) /* of another one */
            return strcmp(k->profile, "pair") == 0;
        return k->need_coverage && strcmp(k->profile, "pair") != 0;
    }
}

/* The first of the children that has said something, or ended. */
static unsigned first_ready(const struct child *children, unsigned n)
{
    struct pollfd ends[JOBS_MAX];
    for (unsigned i = 0; i < n; i++)
        ends[i] = (struct pollfd){.fd = children[i].from, .events = POLLIN};
    while (poll(ends, n, -1) < 0)
        if (errno != EINTR) {
            perror("sim: poll");
            exit(2);
        }
    unsigned i = 0;
    while (i < n && ends[i].revents == 0)
        i++;
    ASSERT(i < n);
    return i;
}

/* A long run does not keep the others from being started: children are collected as they end. */
static void run_all(struct progress *p)
{
    const struct campaign *k = p->campaign;
    struct child children[JOBS_MAX];
    unsigned running = 0, jobs = MIN(MAX(k->jobs, 1u), JOBS_MAX);
    for (uint64_t begun = 0; begun < k->count || running != 0;) {
        for (; begun < k->count && running < jobs; begun++)
            child_start(&children[running++], k->first + begun, k->profile, k->plant);
        struct child *ended = &children[first_ready(children, running)];
        child_finish(ended);
        judge(p, ended);
        *ended = children[--running];
    }
}

unsigned campaign_run(const struct campaign *k)
{
    struct progress p = {.campaign = k, .started = now()};
    run_all(&p);
    print_tally(&p);
    for (unsigned i = 0; i < REACHES; i++)
        if (p.tally.reached[i] == 0 && must_reach(k, (enum reach)i)) {
            char text[100];
            snprintf(text, sizeof text, "never reached: %s", reach_name((enum reach)i));
            failure(&p, text);
        }
    printf("%" PRIu64 " passed, %u failed\n", k->count - MIN(k->count, (uint64_t)p.failed),
           p.failed);
    return p.failed;
}

unsigned seeds_run(const char *path)
{
    char line[300], profile[24];
    unsigned failed = 0, passed = 0;
    uint64_t seed;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        struct verdict v;
        if (line[0] == '#' || sscanf(line, "%" SCNu64 " %23s", &seed, profile) != 2)
            continue;
        run_in_child(seed, profile, 0, &v);
        if (!v.passed)
            printf("FAILED %s: %s", v.text, line);
        failed += !v.passed;
        passed += v.passed;
    }
    fclose(file);
    printf("%u passed, %u failed\n", passed, failed);
    return failed;
}
