/* The network between nodes: frames that are lost, late, repeated, reordered and cut off.
 *
 * Nodes are numbered by slot. A frame reaches only the process that was running when it was sent:
 * connections do not outlive a process. */
#ifndef HOLDFAST_SIM_NET_H
#define HOLDFAST_SIM_NET_H

#include "base/list.h"
#include "core.h"

enum { SLOTS = 12 };

struct sim_net;

struct frame {
    struct event event;
    struct list link;
    struct sim_net *net;
    unsigned from, to;            /* slots */
    uint64_t from_id, to_process; /* raft id of the sender; process number of the receiver */
    size_t len;
    uint8_t data[];
};

struct sim_net {
    struct core *core;
    struct rng rng;
    struct list flying;
    uint64_t flying_bytes[SLOTS][SLOTS];
    uint64_t newest_ns[SLOTS][SLOTS][2]; /* when the last frame of a link arrives, bulk apart */
    bool cut[SLOTS][SLOTS];              /* [from][to] */
    bool ordered;                        /* frames of a link never overtake each other */
    unsigned lose_permille, repeat_permille, late_permille;
    uint64_t delay_ns_min, delay_ns_max, late_ns_max;
    uint64_t ns_per_kib;
    /* The slot's running process, 0 when there is none. */
    uint64_t (*process)(void *ctx, unsigned slot);
    /* 0 when the frame was taken, else when to try again: the process is stalled. */
    uint64_t (*deliver)(void *ctx, const struct frame *frame);
    void *ctx;
    uint64_t sent, lost, repeated;
};

void sim_net_init(struct sim_net *net, struct core *core, uint64_t stream);
void sim_net_done(struct sim_net *net);
struct sim_route {
    unsigned from, to;
    uint64_t from_id;
    bool bulk;
};
void sim_net_send(struct sim_net *net, const struct sim_route *route, const struct bytes *parts,
                  unsigned n);
void sim_net_heal(struct sim_net *net); /* no cuts */
/* How long a message of another kind (a client's request) takes; 0 when it is lost. */
uint64_t sim_net_delay(struct sim_net *net, unsigned from, unsigned to);

#endif
