/* The nodes of a pinned version one by one: for comparing two states, and for checking hashes. Any
 * thread while the pin is held. */
#ifndef HOLDFAST_STORE_SHAPE_H
#define HOLDFAST_STORE_SHAPE_H

#include "store/version.h"

/* Keys that begin alike. */
struct store_shape_entry {
    uint8_t byte;    /* of a child: what tells it apart */
    bool leaf;       /* one key */
    uint64_t newest; /* as store_newest */
    uint8_t hash[STORE_HASH_BYTES];
};

/* The topmost node of the keys that begin with a prefix. */
struct store_shape {
    struct bytes edge; /* the node's key is the prefix and then this; borrowed from the pin */
    bool leaf;         /* there is one key; the members below are zero */
    uint64_t newest;
    bool has_own; /* the node's key is a key of the state */
    struct store_shape_entry own;
    unsigned n;
    struct store_shape_entry children[256]; /* ascending */
};

/* False: no key begins with `prefix`. Computes hashes that are not known. */
NODISCARD bool store_shape_get(const struct store_pin *pin, struct bytes prefix,
                               struct store_shape *ret_shape);
/* All keys that begin with `prefix`, as the parent of such a node has them as a child. False: none.
 */
NODISCARD bool store_shape_place(const struct store_pin *pin, struct bytes prefix,
                                 struct store_shape_entry *ret_entry);
/* One key, as the own value of a node. False: it is not there. */
NODISCARD bool store_shape_key(const struct store_pin *pin, struct bytes key,
                               struct store_shape_entry *ret_entry);

/* How to check hashes; a function may be NULL. */
struct store_check {
    bool mend; /* put the computed hash in the place of a wrong one; nodes above follow */
    /* A node whose stored hash is not that of its content, at the key where the node begins. */
    void (*bad)(void *ctx, struct bytes at);
    /* Now and then: how many keys were visited. False ends the check. */
    bool (*goes_on)(void *ctx, uint64_t keys);
    void *ctx;
};
/* Compute the hash of every node below `prefix` anew and compare with what is stored; hashes that
 * are not known are computed and stored. A value that was damaged differs from the hash of its own
 * leaf. A reader that copies a hash while it is mended may see neither; the next check finds what
 * it computed from that. ST_CLOSED: ended. ST_NOMEM. */
NODISCARD enum status store_check_run(const struct store_pin *pin, struct bytes prefix,
                                      const struct store_check *check);

#endif
