/* Bytes that never change, shared by reference. One thread. */
#ifndef HOLDFAST_BASE_SHARED_H
#define HOLDFAST_BASE_SHARED_H

#include "base/buf.h"

struct shared {
    size_t refs;
    struct buf text;
};

/* Take over the memory of `text`, which is then empty; the caller has the only reference. NULL: no
 * memory, and `text` is unchanged. */
struct shared *shared_new(struct buf *text) __attribute__((warn_unused_result));
struct shared *shared_ref(struct shared *shared);
void shared_unref(struct shared *shared); /* the last reference wipes the bytes; NULL is allowed */

static inline struct bytes shared_bytes(const struct shared *shared)
{
    return buf_bytes(&shared->text);
}

#endif
