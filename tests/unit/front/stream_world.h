/* A server and files in memory, for tests of bodies that go from one to the other. */
#ifndef HOLDFAST_TESTS_UNIT_FRONT_STREAM_WORLD_H
#define HOLDFAST_TESTS_UNIT_FRONT_STREAM_WORLD_H

#include "http/harness.h"
#include "raft/memfs.h"
#include "raft/memfs_calls.h"
#include "support.h"

enum { STREAM_BYTES = 300 * 1024, STREAM_LIMIT = 512 * 1024 };

static struct harness server;
static struct memfs *disk;
static uint8_t content[STREAM_BYTES];

static inline void stream_open(const struct http_handler *handler)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < sizeof content; i++) {
        x = x * 1664525 + 1013904223;
        content[i] = (uint8_t)(x >> 24);
    }
    disk = memfs_new();
    harness_up(&server, handler, NULL, NULL);
}

/* Every file is closed by then, or the sanitizer tells. */
static inline void stream_close(void)
{
    harness_down(&server);
    memfs_free(disk);
}

static inline struct fs_file *stream_file(void)
{
    struct fs_file *file = NULL;
    assert_status(fs_open(&disk->fs, "file", FS_READ | FS_WRITE | FS_CREATE, &file), ST_OK);
    return file;
}

#endif
