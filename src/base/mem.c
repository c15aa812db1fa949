#include "base/mem.h"
#include "base/macros.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local uint64_t fail_countdown, fail_must_countdown;

static bool counted_down(uint64_t *countdown)
{
    return __builtin_expect(*countdown != 0, 0) && --*countdown == 0;
}

static bool fail_now(void)
{
    return counted_down(&fail_countdown);
}

void *mem_alloc(size_t size)
{
    return fail_now() ? NULL : malloc(size != 0 ? size : 1);
}

void *mem_zalloc(size_t size)
{
    return fail_now() ? NULL : calloc(1, size != 0 ? size : 1);
}

void *mem_realloc(void *old, size_t size)
{
    return fail_now() ? NULL : realloc(old, size != 0 ? size : 1);
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void mem_free(void *pointer)
{
    free(pointer);
}

static void *must(void *pointer, size_t size)
{
    if (pointer == NULL) {
        (void)fprintf(stderr, "out of memory: %zu bytes where failure has no answer\n",
                      size); /* the process aborts next */
        abort();
    }
    return pointer;
}

void *mem_must_alloc(size_t size)
{
    return must(counted_down(&fail_must_countdown) ? NULL : malloc(size != 0 ? size : 1), size);
}

void *mem_must_realloc(void *old, size_t size)
{
    return must(counted_down(&fail_must_countdown) ? NULL : realloc(old, size != 0 ? size : 1),
                size);
}

static void *must_map(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return must(pages != MAP_FAILED ? pages : NULL, size);
}

void *mem_must_map(size_t size)
{
    uint8_t *pages = must_map(size);
    size_t off = -(uintptr_t)pages & (size - 1);
    ASSERT(size >= 4096 && (size & (size - 1)) == 0);
    if (off != 0) {
        mem_unmap(pages, size);
        pages = must_map(2 * size);
        off = -(uintptr_t)pages & (size - 1);
        if (off != 0)
            mem_unmap(pages, off);
        pages += off;
        mem_unmap(pages + size, size - off);
    }
    return pages;
}

void mem_make_huge(void *pages, size_t size)
{
    (void)madvise(pages, size, MADV_HUGEPAGE); /* a kernel without huge pages keeps the others */
}

void mem_unmap(void *pages, size_t size)
{
    int failed = munmap(pages, size);
    ASSERT(failed == 0); /* whole pages that were mapped */
}

void mem_wipe(void *data, size_t size)
{
    if (size != 0)
        explicit_bzero(data, size);
}

bool mem_fail_nth(uint64_t n)
{
    bool used = fail_countdown == 0;
    fail_countdown = n;
    return used;
}

bool mem_fail_must_nth(uint64_t n)
{
    bool used = fail_must_countdown == 0;
    fail_must_countdown = n;
    return used;
}
