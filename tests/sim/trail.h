/* Requests that audit devices record (PROTOCOL R20). Clients send requests that the program's own
 * router carries out on every node (src/router, src/audit/audit.c), in front of handlers and audit
 * devices of the simulator. What the devices wrote, what was proposed and what was replied is the
 * trail, which is judged at the end:
 *
 *   effects     before a proposal, and before a step outside, a device of the node that runs the
 *               request has the record of the request;
 *   replies     before a node replies to a request that it has run, devices of that node have both
 *               records;
 *   once        a device has each record of a run of a request once, and only the node that runs a
 *               request records it: a node that forwards the request does not;
 *   unrecorded  an error that tells of no record and of no change is true;
 *   given up    what a client was told when it gave up is true;
 *   changes     what was acknowledged was done, and what was refused was not.
 *
 * A device writes to another machine: what it has written survives every end of the node. */
#ifndef HOLDFAST_SIM_TRAIL_H
#define HOLDFAST_SIM_TRAIL_H

#include "core.h"

struct cluster;
struct node;

enum {
    TRAIL_DEVICES = 2, /* of each node, at most */
    TRAIL_ID = 40,
    TRAIL_TEXT = 300, /* of a finding */
};

enum trail_kind {
    TRAIL_LOOK,    /* read: on any node */
    TRAIL_TOUCH,   /* read that changes something: a node that is not active forwards it */
    TRAIL_CHANGE,  /* write */
    TRAIL_REFUSE,  /* write whose handler stages a change, and then refuses */
    TRAIL_OUTSIDE, /* write with a step outside of the state */
    TRAIL_STEP,    /* such a step alone */
    TRAIL_KINDS
};

/* A record that a device has written. */
struct trail_line {
    char id[TRAIL_ID]; /* of the run */
    bool reply;
    unsigned slot, device;
    uint64_t process, at_ns;
};

/* A proposal, or a step outside. */
struct trail_effect {
    unsigned slot;
    uint64_t process, at_ns;
};

/* What the reply of a run says about records and changes. */
enum trail_says {
    TRAIL_RECORDED, /* an ordinary reply */
    TRAIL_NOTHING,  /* could not be recorded: nothing was changed */
    TRAIL_MADE,     /* could not be recorded: the change was made */
    TRAIL_UNKNOWN,  /* an unknown outcome, which may not be on record */
};

/* Where the reply of a run comes from, and where it goes. */
enum trail_way {
    TRAIL_OWN,        /* of this node, to the client */
    TRAIL_RELAYED,    /* of another node, to the client */
    TRAIL_FORWARDED,  /* of this node, to the node that forwarded the request */
    TRAIL_HANDED_BACK /* no reply: the node that forwarded the request looks for another node */
};

/* The request has run on a node to its end. */
struct trail_run {
    char id[TRAIL_ID];
    enum trail_way way;
    enum trail_says says;
    bool passed; /* no device took its records, so the node looked for the active node */
    int http;
    uint64_t ret_ns;
};

/* A request of a client. */
struct trail_call {
    enum trail_kind kind;
    bool untouched; /* a write that its client gave up, told that nothing is and will be changed */
    bool changed;   /* the change is there at the end */
    struct trail_line *lines;
    struct trail_effect *effects;
    struct trail_run *runs;
    size_t n_lines, n_effects, n_runs;
};

struct trail {
    struct trail_call *calls; /* by number */
    size_t n_calls;
};

/* trail_judge.c */
uint64_t trail_add(struct trail *trail, enum trail_kind kind); /* its number */
void trail_add_line(struct trail *trail, uint64_t number, const struct trail_line *line);
void trail_add_effect(struct trail *trail, uint64_t number, const struct trail_effect *effect);
void trail_add_run(struct trail *trail, uint64_t number, const struct trail_run *run);
void trail_done(struct trail *trail);
/* Whether the trail is one that a correct cluster can leave; `text` says what is wrong. */
bool trail_judge(const struct trail *trail, char text[TRAIL_TEXT]);

/* trail_client.c */

struct trails;
void trails_start(struct cluster *c);
void trails_stop(struct cluster *c);
bool trails_idle(const struct cluster *c);
void trails_check(struct cluster *c); /* at the end */
bool trails_enabled(const struct cluster *c);
struct trail *trails_log(struct cluster *c);
/* What a node answers to a client; 0: the client hears nothing. */
void trails_replied(struct cluster *c, uint64_t number, int http);

/* trail_device.c */

struct trail_devices;
/* The audit devices of a machine, for the whole run. */
struct trail_devices *trail_devices_new(struct node *n);
struct audit_table;
struct audit_table *trail_devices_table(struct trail_devices *devices);
/* The process ends, however: a part of what a device is writing gets written. */
void trail_devices_drop(struct trail_devices *devices);
void trail_devices_open(struct trail_devices *devices);
/* Answer what waits and take no more, as at the end of a process that stops properly. */
void trail_devices_close(struct trail_devices *devices);
/* Whether no device takes records, as the program judges it (src/audit/audit_table.c). */
bool trail_devices_are_mute(struct trail_devices *devices);
void trail_devices_mute(struct trail_devices *devices); /* every device fails */
/* A fault of one device, or of all; without `faults` every device works again. */
void trail_devices_fault(struct trail_devices *devices, struct rng *r, bool faults);

/* trail_node.c: a node's side. */

struct trail_service;
struct state;
struct trail_service *trail_service_new(struct node *n);
/* The process stops: its requests wait for no leader any more. */
void trail_service_stop(struct trail_service *service);
/* Nothing is under way any more. False: a moment later. */
bool trail_service_settle(struct trail_service *service);
void trail_service_free(struct trail_service *service);
/* Look whether the node must hand over. */
void trail_service_watch(struct trail_service *service);
/* Whether the node runs requests, unsealed and with a device that takes records. */
bool trail_serves(const struct node *n);
/* The node is about to propose `txn`. */
void trail_proposed(struct node *n, struct bytes txn);
/* Send a request to a node; trails_replied gets the reply. */
void trail_send(struct cluster *c, uint64_t number, unsigned slot);
/* The client gives up its request on that node, if it is still there. True: it was told that
 * nothing has been and will be changed. */
bool trail_give_up(struct node *n, uint64_t number);
/* Mark the changes that a node has. */
void trail_find_changes(struct node *n, struct trail *trail);

/* trail_handover.c */

struct trail_handover;
struct trail_handover *trail_handover_new(struct node *n);
void trail_handover_free(struct trail_handover *handover);
/* Call it again and again, on the running node. */
void trail_handover_look(struct trail_handover *handover, bool mute);
/* The devices of the leader fail: another voter leads soon. */
void trail_handover_check(struct cluster *c);

#endif
