/* Operations of clients, and how a node carries out an operation. */
#ifndef HOLDFAST_SIM_OPS_H
#define HOLDFAST_SIM_OPS_H

#include "cluster.h"

enum {
    LISTS = 3,
    ACCOUNTS = 5,
    BALANCE = 100, /* of each account at first */
    GROUPS = 2,
    KEYS_MAX = CHECK_REGISTERS,
};

enum op_kind {
    OP_INIT, /* of the barrier, once */
    OP_READ, /* register */
    OP_WRITE,
    OP_CAS, /* if it holds `expect` */
    OP_DELETE,
    OP_LIST, /* read a list */
    OP_APPEND,
    OP_TOTAL, /* of all accounts */
    OP_TRANSFER,
    OP_COUNT, /* keys of a group */
    OP_ADD,   /* the next key of a group */
    OP_NOISE, /* anything else: other keys, local ones, whole prefixes */
    OPS
};

struct op {
    enum op_kind kind;
    unsigned client, attempt;
    uint64_t number; /* unique; the value that is written */
    uint64_t key, expect, pad;
    bool has_id;
    struct rlog_request_id id;
};

enum answer {
    ANSWER_OK,
    ANSWER_DIFFER,  /* the precondition of the operation does not hold */
    ANSWER_FAILED,  /* nothing happened, by this attempt */
    ANSWER_UNKNOWN, /* it may have happened, or may yet */
};

struct reply {
    struct event event;
    struct cluster *cluster;
    struct op op;
    enum answer answer;
    unsigned slot; /* who answered */
    uint64_t value, version;
    size_t n; /* of `list` */
    uint64_t list[];
};

/* Send `op` to a node; a reply comes to client_replied, or never. */
void op_send(struct cluster *c, const struct op *op, unsigned slot);
void client_replied(const struct reply *reply); /* client.c */

static inline bool op_reads(const struct op *op)
{
    return op->kind == OP_READ || op->kind == OP_LIST || op->kind == OP_TOTAL ||
           op->kind == OP_COUNT;
}

static inline bool op_is_register(const struct op *op)
{
    return op->kind == OP_READ || op->kind == OP_WRITE || op->kind == OP_CAS ||
           op->kind == OP_DELETE;
}

/* Sum of all accounts; 0 when there are none yet. */
uint64_t bank_total(const struct store_pin *pin);

/* Elements of a list, or of a group in the order of its keys. */
struct numbers {
    uint64_t *all;
    size_t n;
};
/* Released with free(), `all` too. */
struct numbers *elements_read(struct node *n, bool group, uint64_t key);

#endif
