/* Logs: alloc/logs/TASK.stdout.N and .stderr.N, N rising from 0; a full file is followed by the
 * next, and the oldest goes. One thread for each run of a process reads both pipes to their end. */
#include "agent/agent_internal.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART_BYTES = 64 * 1024 };

struct channel {
    int pipe, file;
    char *stem; /* path without the number */
    long number;
    int64_t bytes;
};

struct log {
    struct channel channels[2];
    int64_t bytes_max;
    long files_max;
};

/* The greatest number that a file of the stem has; -1: none. */
static long newest(const char *stem)
{
    const char *slash = strrchr(stem, '/');
    char dir_name[4096];
    long best = -1;
    (void)snprintf(dir_name, sizeof dir_name, "%.*s", (int)(slash - stem), stem);
    DIR *dir = opendir(dir_name);
    size_t len = strlen(slash + 1);
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, slash + 1, len) == 0 && e->d_name[len] == '.')
            best = MAX(best, strtol(e->d_name + len + 1, NULL, 10));
    if (dir != NULL)
        (void)closedir(dir); /* the descriptor was only read */
    return best;
}

static void open_file(struct channel *c)
{
    char path[4096];
    struct stat found;
    (void)snprintf(path, sizeof path, "%s.%ld", c->stem, c->number);
    c->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    c->bytes = c->file >= 0 && fstat(c->file, &found) == 0 ? found.st_size : 0;
}

static void log_rotate(const struct log *log, struct channel *c)
{
    char path[4096];
    if (c->file >= 0)
        (void)close(c->file); /* the written bytes stay */
    c->number++;
    if (c->number >= log->files_max) {
        (void)snprintf(path, sizeof path, "%s.%ld", c->stem, c->number - log->files_max);
        (void)unlink(path); /* the file may be gone */
    }
    open_file(c);
}

/* Write, as much as the present file takes, split behind a line where there is one. */
static void log_put(const struct log *log, struct channel *c, struct bytes text)
{
    while (text.len != 0) {
        int64_t room = log->bytes_max - c->bytes;
        size_t n = room > 0 && (uint64_t)room < text.len ? (size_t)room : text.len;
        if (room <= 0) {
            log_rotate(log, c);
            continue;
        }
        if (n < text.len) {
            const uint8_t *line = memrchr(text.data, '\n', n);
            n = line != NULL ? (size_t)(line + 1 - text.data) : n;
        }
        bool rest = n < text.len;
        if (c->file >= 0 && write(c->file, text.data, n) < 0 && errno != EINTR)
            return; /* the disk is full: the task goes on, its output is dropped */
        c->bytes += (int64_t)n;
        text = bytes_from(text, n);
        if (rest)
            c->bytes = log->bytes_max;
    }
}

static void log_free(struct log *log)
{
    for (unsigned i = 0; i < 2; i++) {
        if (log->channels[i].pipe >= 0)
            (void)close(log->channels[i].pipe); /* the descriptor was only read */
        if (log->channels[i].file >= 0)
            (void)close(log->channels[i].file); /* the written bytes stay */
        mem_free(log->channels[i].stem);
    }
    mem_free(log);
}

static void *log_run(void *ctx)
{
    struct log *log = ctx;
    uint8_t *part = mem_alloc(PART_BYTES);
    while (part != NULL && (log->channels[0].pipe >= 0 || log->channels[1].pipe >= 0)) {
        struct pollfd fds[2];
        for (unsigned i = 0; i < 2; i++)
            fds[i] = (struct pollfd){.fd = log->channels[i].pipe, .events = POLLIN};
        if (poll(fds, 2, -1) < 0)
            continue;
        for (unsigned i = 0; i < 2; i++) {
            struct channel *c = &log->channels[i];
            if (fds[i].revents == 0)
                continue;
            ssize_t n = read(c->pipe, part, PART_BYTES);
            if (n > 0) {
                log_put(log, c, bytes_of(part, (size_t)n));
            } else if (n == 0 || errno != EINTR) {
                (void)close(c->pipe); /* the descriptor was only read */
                c->pipe = -1;
            }
        }
    }
    mem_free(part);
    log_free(log);
    return NULL;
}

bool agent_log_start(struct task *task, int out, int err)
{
    static const char *const kinds[] = {"stdout", "stderr"};
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *config = text_get(task->spec, "LogConfig");
    struct log *log = mem_zalloc(sizeof *log);
    if (log == NULL)
        return false;
    log->bytes_max = MAX(member_int(config, "MaxFileSizeMB"), INT64_C(1)) * 1024 * 1024;
    log->files_max = (long)MAX(member_int(config, "MaxFiles"), INT64_C(1));
    for (unsigned i = 0; i < 2; i++) {
        struct channel *c = &log->channels[i];
        const char *stem =
            arena_format(&arena, "%s/alloc/logs/%s.%s", task->alloc->dir, task->name, kinds[i]);
        *c = (struct channel){.pipe = i == 0 ? out : err, .file = -1};
        c->stem = stem != NULL ? mem_strdup(stem) : NULL;
        if (c->stem == NULL)
            continue;
        c->number = MAX(newest(c->stem), 0L);
        open_file(c);
    }
    bool good = log->channels[0].stem != NULL && log->channels[1].stem != NULL;
    if (good && client_thread(log_run, log))
        return true;
    log_free(log);
    return false;
}
