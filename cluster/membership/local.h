/* Records of the local state, as the parts of a node read them: the newest applied version, without
 * a transaction. A part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_LOCAL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_LOCAL_H

#include "cluster/membership/part.h"

/* Keys, a node's name behind each: nodes that were removed and not let in again. Only the presence
 * of a record counts, not its value. */
#define MEMBER_REMOVED_KEY RLOG_LOCAL "core/removed/"
/* The same of nodes that shall have no vote: members, or nodes that will join. */
#define MEMBER_NONVOTER_KEY RLOG_LOCAL "core/nonvoter/"

enum { MEMBER_KEY_MAX = sizeof MEMBER_NONVOTER_KEY + MESH_NAME_MAX };

struct local {
    struct part_host *host;
    struct barrier_cipher *cipher; /* NULL before the first read */
};

extern const struct part local_part;

/* Read and decrypt the value of a key. ST_NOT_FOUND; ST_SEALED; ST_BUSY, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status local_read(struct local *local, struct bytes key, struct buf *out);
/* Whether there is a record of a name below one of the keys above; `unsure`: the result where the
 * state cannot be read now. */
bool local_has(const struct part_host *host, const char *prefix, const char *name, bool unsure);

#endif
