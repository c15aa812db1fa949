/* Heap allocation. Everything goes through here, so that a test can fail the n-th allocation and
 * sensitive memory can be cleared before it is released. Any thread. */
#ifndef HOLDFAST_BASE_MEM_H
#define HOLDFAST_BASE_MEM_H

#include "base/status.h"

/* NULL when out of memory. `size` 0 gives a unique pointer. Released with mem_free. */
void *mem_alloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *mem_zalloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *mem_realloc(void *old, size_t size) __attribute__((alloc_size(2), warn_unused_result));
char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));
void mem_free(void *pointer);

/* Where running out of memory cannot be answered (applying a committed entry): abort instead. */
void *mem_must_alloc(size_t size)
    __attribute__((malloc, alloc_size(1), returns_nonnull, warn_unused_result));
void *mem_must_realloc(void *old, size_t size)
    __attribute__((alloc_size(2), returns_nonnull, warn_unused_result));

/* Clear memory in a way the compiler keeps. */
void mem_wipe(void *data, size_t size);

/* Tests: the n-th allocation of this thread from now (1 is the next) and none other gives NULL;
 * 0 switches it off. Returns whether the previous request had been used up. */
bool mem_fail_nth(uint64_t n);
/* The same for mem_must_alloc and mem_must_realloc, which mem_fail_nth neither counts nor fails. */
bool mem_fail_must_nth(uint64_t n);

#endif
