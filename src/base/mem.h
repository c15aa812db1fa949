/* Heap allocation. All allocation goes through these functions, so that a test can fail the n-th
 * allocation. Any thread. */
#ifndef HOLDFAST_BASE_MEM_H
#define HOLDFAST_BASE_MEM_H

#include "base/status.h"

/* NULL when out of memory. `size` 0 gives a unique pointer. Released with mem_free. */
void *mem_alloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *mem_zalloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *mem_realloc(void *old, size_t size) __attribute__((alloc_size(2), warn_unused_result));
char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));
void mem_free(void *pointer);

/* Allocate, or abort when out of memory: for code that may not fail (applying a committed entry).
 */
void *mem_must_alloc(size_t size)
    __attribute__((malloc, alloc_size(1), returns_nonnull, warn_unused_result));
void *mem_must_realloc(void *old, size_t size)
    __attribute__((alloc_size(2), returns_nonnull, warn_unused_result));

/* Map pages, `size` bytes at a multiple of `size`, which is a power of two and at least a page; or
 * abort when out of memory. Released with mem_unmap of the same size. */
void *mem_must_map(size_t size) __attribute__((returns_nonnull, warn_unused_result));
void mem_unmap(void *pages, size_t size);
/* Let the kernel put huge pages in place of the pages, in the background, where it has them. */
void mem_make_huge(void *pages, size_t size);

/* Overwrite memory with zeros; the compiler does not optimise this away. */
void mem_wipe(void *data, size_t size);

/* For tests: fail one allocation of this thread, the n-th from now (1: the next one). 0: fail none.
 * Returns whether the allocation that an earlier call chose has failed. */
bool mem_fail_nth(uint64_t n);
/* For tests: the same for mem_must_alloc and mem_must_realloc; mem_fail_nth does not count them. */
bool mem_fail_must_nth(uint64_t n);

#endif
