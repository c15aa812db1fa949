/* Entries a second through the disk log in batches, beside the disk's own rate of durable writes.
 *
 *     bench_log DIR
 *
 * Prints one JSON object with both. */
#include "loop/loop.h"
#include "raft/disk/rlog_disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ENTRY_BYTES = 256, BATCH = 64, SECONDS = 2, RAW_BYTES = 4096, RAW_FILE = 64 << 20 };

static double now_s(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        abort();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Durable writes a second into a zeroed file: the limit of this disk. */
static double raw_rate(const char *dir)
{
    static const char zero[RAW_BYTES];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/raw", dir); /* a cut path fails to open */
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_DSYNC | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    for (off_t at = 0; at < RAW_FILE / 16; at += RAW_BYTES)
        if (pwrite(fd, zero, sizeof zero, at) != RAW_BYTES)
            abort();
    double start = now_s();
    unsigned n = 0;
    for (; now_s() - start < (double)SECONDS; n++)
        if (pwrite(fd, zero, sizeof zero, (off_t)(n % (RAW_FILE / 16 / RAW_BYTES)) * RAW_BYTES) !=
            RAW_BYTES)
            abort();
    double rate = n / (now_s() - start);
    (void)close(fd);
    (void)unlink(path);
    return rate;
}

struct bench {
    struct env *env;
    struct rlog_disk *disk;
    struct rlog_entry entries[BATCH];
    uint64_t next, written, writes;
    double end;
};

static void append(struct bench *b)
{
    (void)rlog_disk_append(b->disk, b->next, b->entries, BATCH);
    rlog_disk_write(b->disk);
    b->next += BATCH;
}

static void on_written(void *ctx, uint64_t seq)
{
    struct bench *b = ctx;
    b->written = seq;
    b->writes++;
    while (now_s() < b->end && b->next / BATCH < b->written + 32)
        append(b);
}

static void on_idle(void *ctx)
{
    struct bench *b = ctx;
    if (now_s() >= b->end)
        loop_stop(b->env);
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    (void)ctx;
    (void)why; /* the reason says it */
    (void)fprintf(stderr, "%s\n", reason->text);
    exit(1);
}

int main(int argc, char **argv)
{
    struct bench b = {.next = 1};
    struct rlog_identity identity = {.name = "bench", .id = 1};
    struct rlog_loaded loaded;
    struct reason reason = {{0}};
    struct fs *fs;
    char dir[64];

    if (argc != 2)
        return 2;
    double raw = raw_rate(argv[1]);
    (void)snprintf(dir, sizeof dir, "log-%d", (int)getpid()); /* fits */
    if (loop_fs_new(argv[1], &fs, &reason) != ST_OK || loop_new(fs, &b.env) != ST_OK)
        abort();
    struct rlog_disk_options options = {
        .env = b.env, .dir = dir, .ops = {on_written, on_fatal, &b}, .idle = on_idle};
    if (rlog_disk_create(b.env, dir, &identity, &reason) != ST_OK ||
        rlog_disk_open(&options, &identity, &b.disk, &identity, &loaded, &reason) != ST_OK) {
        (void)fprintf(stderr, "%s\n", reason.text);
        return 1;
    }
    struct rlog_block *block = rlog_block_new(ENTRY_BYTES);
    if (block == NULL)
        return 1;
    for (unsigned i = 0; i < BATCH; i++)
        b.entries[i] = (struct rlog_entry){.term = 1,
                                           .type = RLOG_COMMAND,
                                           .data = bytes_of(rlog_block_data(block), ENTRY_BYTES),
                                           .block = block};
    double start = now_s();
    b.end = start + (double)SECONDS;
    append(&b);
    loop_run(b.env);
    double rate = (double)b.next / (now_s() - start);
    printf("{\"entries\": %.0f, \"dsync\": %.0f}\n", rate, raw);
    rlog_block_unref(block);
    rlog_loaded_done(&loaded);
    return 0;
}
