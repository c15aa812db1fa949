/* Starting a process: in a session of its own, which ends with the thread that started it. */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MAX_ = 64, PWD_MAX = 4096 };

struct identity {
    bool given;
    uid_t uid;
    gid_t gid, groups[GROUPS_MAX_];
    int n_groups;
};

static bool is_program(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

const char *client_program(struct arena *arena, char *const *env, const char *dir, const char *name)
{
    const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    if (name[0] == '/')
        return is_program(name) ? name : NULL;
    if (strchr(name, '/') != NULL) {
        const char *full = arena_format(arena, "%s/%s", dir, name);
        return full != NULL && is_program(full) ? full : NULL;
    }
    for (; *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            path = *env + 5;
    while (*path != '\0') {
        size_t len = strcspn(path, ":");
        const char *full = arena_format(arena, "%.*s/%s", (int)len, path, name);
        if (full != NULL && len != 0 && is_program(full))
            return full;
        path += len + (path[len] == ':');
    }
    return NULL;
}

static enum status identity_of(const char *user, struct identity *ret, struct reason *why)
{
    char room[PWD_MAX];
    struct passwd entry, *found = NULL;
    *ret = (struct identity){.n_groups = GROUPS_MAX_};
    if (user[0] == '\0')
        return ST_OK;
    if (getpwnam_r(user, &entry, room, sizeof room, &found) != 0 || found == NULL) {
        reason_set(why, "unknown user %.64s", user);
        return ST_INVALID;
    }
    ret->given = true;
    ret->uid = entry.pw_uid;
    ret->gid = entry.pw_gid;
    if (getgrouplist(user, entry.pw_gid, ret->groups, &ret->n_groups) < 0)
        ret->n_groups = GROUPS_MAX_;
    return ST_OK;
}

/* In the child: only functions that are safe after fork. Returns only on failure. */
static void become(const struct spawn *spawn, const struct identity *as)
{
    sigset_t none;
    (void)sigemptyset(&none);                    /* emptying cannot fail */
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* valid arguments */
    (void)signal(SIGPIPE, SIG_DFL);              /* a valid signal */
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return;
    if (dup2(spawn->in, 0) < 0 || dup2(spawn->out, 1) < 0 || dup2(spawn->err, 2) < 0)
        return;
    if (spawn->terminal && ioctl(0, TIOCSCTTY, 0) != 0)
        return;
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        return;
    if (chdir(spawn->dir) != 0)
        return;
    if (as->given && (setgroups((size_t)as->n_groups, as->groups) != 0 || setgid(as->gid) != 0 ||
                      setuid(as->uid) != 0))
        return;
    /* setuid clears it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return;
    (void)execve(spawn->path, spawn->argv, spawn->env); /* returns only on failure */
}

enum status client_spawn(const struct spawn *spawn, pid_t *ret_pid, struct reason *why)
{
    struct identity as;
    int report[2], failure = 0;
    TRY(identity_of(spawn->user, &as, why));
    if (pipe2(report, O_CLOEXEC) != 0) {
        reason_set(why, "pipe: %s", strerror(errno));
        return ST_IO;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(spawn, &as);
        failure = errno;
        (void)!write(report[1], &failure, sizeof failure); /* the exit code tells it too */
        _exit(127);
    }
    (void)close(report[1]); /* the child has its own */
    ssize_t n = pid > 0 ? read(report[0], &failure, sizeof failure) : 0;
    (void)close(report[0]); /* the pipe was only read */
    if (pid > 0 && n <= 0) {
        *ret_pid = pid;
        return ST_OK;
    }
    reason_set(why, "%s: %s", spawn->path, strerror(pid < 0 ? errno : failure));
    return ST_IO;
}
