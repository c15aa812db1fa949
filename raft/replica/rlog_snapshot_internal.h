/* Snapshots in a replica: create, send, install. Part of rlog_internal.h. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_SNAPSHOT_INTERNAL_H
#define HOLDFAST_RAFT_REPLICA_RLOG_SNAPSHOT_INTERNAL_H

#include "raft/replica/rlog_wire.h"

enum { RLOG_SNAPSHOT_SENDS_MAX = 2 }; /* most snapshots sent at the same time */

struct rlog_snapshot_create {
    struct env_work work;
    bool running, wanted;
    uint64_t bytes; /* bytes of log applied since the last snapshot */
    uint64_t not_before_ms;
    unsigned jitter; /* random part of the threshold in 1/1024, up to a quarter */
    struct rlog_disk *disk;
    struct rlog_machine_dump dump;
    struct rlog_snapshot_meta meta;
    enum status status;
};

enum rlog_snapshot_send_phase { SEND_FREE, SEND_OPENING, SEND_SENDING, SEND_CLOSING };

struct rlog_snapshot_send {
    struct rlog *rlog;
    uint64_t to;
    enum rlog_snapshot_send_phase phase;
    bool wanted, working, reading, ending;
    bool again; /* drop the chunk that is being read: the follower needs another one */
    uint64_t transfer, index, term, size, sent, acked, heard_ms, moved_ms, not_before_ms;
    struct rlog_snap_reader *reader;
    uint8_t *buffer;
    size_t got;
    enum status status;
    struct env_work work;
    struct env_timer timer;
};

enum rlog_install_phase {
    INSTALL_IDLE,
    INSTALL_RECEIVING,
    INSTALL_VERIFYING,
    INSTALL_ABORTING,
    INSTALL_SETTLING, /* the core waits for the install from here on */
    INSTALL_INSTALLING,
    INSTALL_OPENING,
    INSTALL_LOADING,
    INSTALL_CLOSING,
};

struct rlog_chunk_copy {
    void *copy;
    size_t len;
};

struct rlog_install {
    enum rlog_install_phase phase;
    bool working, ending;
    uint64_t from, transfer, term, index, snap_term, size;
    uint64_t queued, written; /* bytes accepted; bytes in the file */
    uint64_t heard_ms;        /* monotonic: when the last chunk came */
    struct rlog_chunk_copy queue[4];
    unsigned n_queued;
    void *writing_copy;
    struct bytes writing, content;
    struct rlog_disk *disk;
    struct rlog_snap_writer *writer;
    struct rlog_snap_reader *reader;
    struct rlog_machine_load *load;
    struct rlog_snapshot_meta meta;
    enum status status;
    struct env_work work;
    struct env_timer timer;
};

/* rlog_snapshot_create.c */
void rlog_snapshot_create_init(struct rlog *r);
void rlog_snapshot_create_applied(struct rlog *r, const struct rlog_entry *entry);
void rlog_snapshot_create_pump(struct rlog *r);
/* The bytes of log after which a snapshot is due: `given` of them, or what suits a state of
 * `state_bytes` if that is 0; `jitter` of 256 is a quarter more. */
uint64_t rlog_snapshot_create_threshold(uint64_t given, uint64_t state_bytes, uint32_t jitter);

/* rlog_snapshot_send.c */
void rlog_snapshot_send_wanted(struct rlog *r, uint64_t to); /* call from inside a step */
void rlog_snapshot_sends_pump(struct rlog *r);
void rlog_snapshot_sends_receive(struct rlog *r, uint64_t from, const struct rlog_frame *frame);
bool rlog_snapshot_sends_idle(const struct rlog *r);
/* index of the oldest snapshot being sent; UINT64_MAX: none */
uint64_t rlog_snapshot_sends_oldest(const struct rlog *r);
void rlog_snapshot_sends_close(struct rlog *r);

/* rlog_install.c */
void rlog_install_init(struct rlog *r);
void rlog_install_receive(struct rlog *r, uint64_t from, const struct rlog_frame *frame);
bool rlog_install_busy(const struct rlog *r); /* whether the core waits for an install */
bool rlog_install_idle(const struct rlog *r);
void rlog_install_done(struct rlog *r);

#endif
