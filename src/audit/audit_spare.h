/* Memory that a worker uses again for its records: a few blocks of two sizes.
 *
 * A request takes half a dozen blocks and gives them back before its reply. With many requests at
 * once the allocator would merge and split them over and over, which costs as much as writing the
 * records. Embedded in the audit of a worker, and used on that worker's thread alone. */
#ifndef HOLDFAST_AUDIT_AUDIT_SPARE_H
#define HOLDFAST_AUDIT_AUDIT_SPARE_H

#include <stddef.h>

enum { AUDIT_SPARE_SMALL = 512, AUDIT_SPARE_LARGE = 2048 };
enum { AUDIT_SPARE_MAX = 192 }; /* blocks of a size that are kept: 480 KiB in all */

struct audit_spare_size {
    void *blocks[AUDIT_SPARE_MAX];
    unsigned n;
};

/* Zero-initialise. */
struct audit_spare {
    struct audit_spare_size small, large;
};

/* Free what is kept. */
void audit_spare_done(struct audit_spare *spare);
/* A block of at least `bytes`. `spare` NULL: from the heap. NULL: out of memory. */
void *audit_spare_take(struct audit_spare *spare, size_t bytes);
/* Give a block back that was taken with the same arguments. The caller has wiped what is secret.
 * NULL is allowed. */
void audit_spare_give(struct audit_spare *spare, void *block, size_t bytes);

#endif
