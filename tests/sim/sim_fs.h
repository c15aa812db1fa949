/* One node's disk: files in memory that know what is durable.
 *
 * Every change is applied to the visible state at once and kept in a journal until a sync makes it
 * durable. A crash undoes the journal and redoes a random part of it: writes sector by sector, the
 * names of each directory up to a random point. What one env_work does takes effect at the virtual
 * end of the work; a crash before that end cuts the work at a random call, whose write is torn.
 *
 * Invariants: 1. the durable image is the visible one with the journal undone, newest first;
 * 2. a sync covers only completed changes before it; 3. what a failed sync covered is never written
 * by a later one.
 *
 * A write can go astray: a sync confirms it, and then the disk holds what was there before, and at
 * times the written bytes at another place of the file. One case no program can tell from a write
 * that the power cut: nothing was written behind the lost bytes. Then the disk still writes them
 * before the process or the power ends. */
#ifndef HOLDFAST_SIM_FS_H
#define HOLDFAST_SIM_FS_H

#include "base/fs.h"
#include "base/list.h"
#include "core.h"

enum { FS_SECTOR = 512, FS_PAGE = 4096, FS_PATH_MAX = 160 };

enum fs_call { FS_CALL_READ, FS_CALL_WRITE, FS_CALL_SYNC, FS_CALL_NAME, FS_CALLS };

/* What to inject. Countdowns: 1 hits the next call, 0 is off. */
struct fs_faults {
    uint64_t fail_after[FS_CALLS]; /* that call fails */
    enum status fail_with;         /* ST_IO or ST_NO_SPACE */
    uint64_t crash_after;          /* the power goes at that call, whatever it is */
    uint64_t stray_after;          /* that write goes astray */
    bool full;                     /* no byte is free */
    unsigned slow;                 /* times as slow; 0 and 1: normal */
};

struct inode;

struct fs_name {
    char path[FS_PATH_MAX];
    struct inode *inode;
};

struct fs_names {
    struct fs_name *all;
    size_t n, cap;
};

/* The calls of one env_work. */
struct fs_job {
    unsigned calls;
    unsigned floor; /* the first call that may not have ended; 0: none has */
    uint64_t cost_ns;
};

/* The bytes that a write lost. */
struct fs_stray {
    struct inode *inode; /* NULL: no write went astray, or its file is gone */
    uint64_t off, at;    /* at: number of the call */
    size_t len;
    uint8_t *data;
    bool followed; /* a sync confirmed something behind them */
};

struct sim_fs {
    struct fs fs; /* first */
    struct core *core;
    struct rng rng;
    struct list inodes;
    struct list journal; /* struct fs_op, oldest first */
    struct fs_names visible, durable;
    struct fs_job *job; /* whose calls these are; NULL: the loop thread's, done when they return */
    struct fs_faults faults;
    struct fs_stray stray;
    uint64_t capacity, used;
    uint64_t calls;         /* since the start */
    uint64_t cost_ns;       /* of the calls since it was last taken */
    uint64_t sync_ns_max;   /* a sync takes up to this */
    unsigned keep_permille; /* at a crash: how likely an unsynced change survives */
    bool dead;              /* the power is gone: calls fail and change nothing */
    uint64_t injected;      /* calls that failed because of `faults` */
    uint64_t torn;          /* writes cut in the middle by crashes */
    uint64_t strays;        /* writes that went astray, with others behind them */
};

void sim_fs_init(struct sim_fs *fs, struct core *core, uint64_t stream);
void sim_fs_done(struct sim_fs *fs);

/* Calls from here to the next sim_fs_job_pause belong to `job`. */
void sim_fs_job_run(struct sim_fs *fs, struct fs_job *job);
void sim_fs_job_pause(struct sim_fs *fs);
/* The job reached its end: all its calls took effect. */
void sim_fs_job_end(struct sim_fs *fs, struct fs_job *job);

/* The power goes: jobs that have not ended are cut, unsynced changes partly lost. Closes all files.
 * Then the disk can be used again by a new process. */
void sim_fs_crash(struct sim_fs *fs);
/* The process ends, the machine stays up: everything visible stays, written back as after a sync.
 * Jobs that have not ended are cut at a random call. */
void sim_fs_exit(struct sim_fs *fs);
/* An empty disk. Nothing may be open. */
void sim_fs_wipe(struct sim_fs *fs);

/* Take the time that the calls since the last time needed. */
uint64_t sim_fs_cost(struct sim_fs *fs);

/* Bytes of one file, for damage and for the tests; NULL when there is none. */
uint8_t *sim_fs_data(struct sim_fs *fs, const char *path, size_t *ret_size);

#endif
