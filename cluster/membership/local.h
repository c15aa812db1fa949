/* Reads records of the local state without a transaction, at the newest applied version. A part
 * (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_LOCAL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_LOCAL_H

#include "cluster/membership/part.h"

/* Prefix of keys that end in the name of a removed node that was not let in again. Only the
 * presence of a record counts, not its value. */
#define MEMBER_REMOVED_KEY RLOG_LOCAL "core/removed/"
/* Prefix of keys that end in the name of a node without a vote: a member, or a node that will join.
 */
#define MEMBER_NONVOTER_KEY RLOG_LOCAL "core/nonvoter/"

/* Prefix of keys that end in a raft id that the cluster had before it was recovered from a lost
 * majority. Only the presence of a record counts. */
#define MEMBER_RECOVERED_KEY RLOG_LOCAL "core/recovered/"

enum { RECOVERED_NAME_MAX = 17 }; /* a raft id as text */
enum { MEMBER_KEY_MAX = sizeof MEMBER_NONVOTER_KEY + MESH_NAME_MAX };

struct local {
    struct part_host *host;
    struct barrier_cipher *cipher; /* cipher context; NULL before the first read */
};

extern const struct part local_part;

/* The end of the key below MEMBER_RECOVERED_KEY. */
void local_recovered_name(uint64_t id, char ret_name[RECOVERED_NAME_MAX]);

/* Read and decrypt the value of a key. ST_NOT_FOUND; ST_SEALED; ST_BUSY, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status local_read(struct local *local, struct bytes key, struct buf *out);
/* Whether a record of `name` exists under `prefix`. `unsure`: the result if the state cannot be
 * read now. */
bool local_has(const struct part_host *host, const char *prefix, const char *name, bool unsure);

#endif
