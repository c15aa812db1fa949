/* The file `founding` in the data directory: how far this node has come to its replica, and which
 * folder the replica is in.
 *
 * The file is replaced by one rename, so it always has one whole record. A start and the offline
 * command that recovers a cluster read and write the file through these functions. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_STEP_FILE_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_STEP_FILE_H

#include "base/fs.h"
#include "cluster/membership/bootstrap/initial_members.h"

/* Folder of the replica in the data directory, unless a recovery has made another one. */
#define MEMBER_RAFT_DIR "raft"
#define STEP_FILE "founding"

enum { MEMBER_RAFT_DIR_MAX = 32 };

/* Steps: bootstrap.c draws them. The values are those in the file. */
enum step {
    STEP_FRESH,
    STEP_FORMING,
    STEP_STARTED,
    STEP_JOINING,
    STEP_JOINED,
    STEP_REMOVED,
    STEPS
};

struct step_record {
    enum step step;
    uint64_t id;     /* raft id of this node */
    uint64_t folder; /* 0: MEMBER_RAFT_DIR; else the number in the name of the replica's folder */
    bool non_voter;  /* the join request asks for no vote */
    bool superseded; /* of STEP_REMOVED: the cluster was recovered without this node's data */
};

/* The name of the folder that a record names. */
void step_folder(uint64_t folder, char ret_name[MEMBER_RAFT_DIR_MAX]);

/* Replace the file; durable on return. `initial`: the nonces of the initial members. ST_IO,
 * ST_NO_SPACE, ST_NOMEM. */
NODISCARD enum status step_file_save(struct fs *fs, const struct step_record *record,
                                     const struct initial_members *initial);
/* Read the file. The nonces of those members that `initial` names are filled in. ST_NOT_FOUND:
 * there is no file yet. ST_CORRUPT: damaged, or of a later build. ST_IO. */
NODISCARD enum status step_file_load(struct fs *fs, struct step_record *ret_record,
                                     struct initial_members *initial);

#endif
