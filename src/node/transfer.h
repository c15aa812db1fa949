/* Transfers leadership to a voter that can be active (PROTOCOL R17). A part
 * (cluster/membership/part.h). Raft thread.
 *
 * A sealed leader serves no request, and a leader whose audit devices all fail can record none.
 * Both transfer leadership to a voter that is known to serve. A leader that stops does the same. */
#ifndef HOLDFAST_NODE_TRANSFER_H
#define HOLDFAST_NODE_TRANSFER_H

#include "cluster/membership/members/peers.h"

struct transfer {
    struct part_host *host;
    struct peers *peers;
    struct rlog_admin admin; /* in use while `running` */
    bool running;
    uint64_t began_ms;    /* monotonic: last transfer because of the seal; 0: none */
    unsigned wait_ms;     /* time from that transfer to the next one */
    uint64_t mute_ms;     /* monotonic: last transfer because nothing is recorded; 0: none */
    uint64_t deadline_ms; /* monotonic: end of the transfer when the node stops; 0: not stopping */
};

extern const struct part transfer_part;

#endif
