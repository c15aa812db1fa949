/* Shared by the two kinds of sync in a pair: the whole state, and what differs. */
#ifndef HOLDFAST_SIM_PAIR_SYNC_H
#define HOLDFAST_SIM_PAIR_SYNC_H

#include "pair.h"
#include "state/state_dr.h"

enum part_kind { PART_PUT, PART_NEWEST, PART_DELETE };

/* A change of the staged tree, in the order of the changes. */
struct part {
    enum part_kind kind;
    uint64_t created, modified;
    size_t key_bytes, value_bytes;
    uint8_t bytes[]; /* key, value */
};

enum sync_phase { SYNC_REST, SYNC_AIM, SYNC_BEGIN, SYNC_STAGE, SYNC_SWAP };

struct pair_sync {
    struct pair_call call;
    struct pair *pair;
    enum sync_phase phase;
    bool under_way;
    struct node *node; /* the secondary's leader at the beginning */
    uint64_t process;
    struct dr_role role; /* as the secondary had it */
    uint64_t role_at;
    uint64_t target, tree, floor;
    int64_t time_ms;
    struct part **parts;
    size_t n, cap, at, next;
    struct state_dr_source source;
    uint8_t *content; /* of a snapshot, as it travels */
    size_t content_bytes;
    struct secret root; /* of the activation, until its sync has ended */
    bool has_root;
    struct dr_diff *diff;  /* while states are compared */
    bool by_diff;          /* the tree begins as a clone and gets the difference */
    bool same_keys;        /* of the barrier: there is nothing to adopt */
    uint8_t tree_root[32]; /* Merkle root of the primary at the target */
};

void pair_sync_add(struct pair_sync *s, const struct part *head, struct bytes key,
                   struct bytes value);
/* Takes a piece of content; for rlog_machine_dump_run. */
enum status pair_sync_piece(void *ctx, struct bytes piece);
/* Content arrives in pieces that are cut anywhere. */
void pair_sync_read(struct pair_sync *s);

/* Compare the secondary's state with that of a node of the primary, and fetch the difference.
 * False: not now. */
bool pair_diff_fetch(struct pair_sync *s, struct node *from, struct node *to);
/* Whether the staged tree has the primary's root; its keys of the barrier are added to the source.
 */
bool pair_diff_check(struct pair_sync *s, struct node *n);

#endif
