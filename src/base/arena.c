#include "base/arena.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum { ARENA_BLOCK = 4096 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    max_align_t data[];
};

void arena_done(struct arena *a)
{
    while (a->blocks != NULL) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        mem_wipe(block->data, block->used);
        mem_free(block);
    }
    a->bytes = 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX / 4 || (a->bytes_max != 0 && size > a->bytes_max - a->bytes))
        return NULL;
    size = (size + align - 1) / align * align;
    struct arena_block *block = a->blocks;
    if (block == NULL || size > block->size - block->used) {
        size_t room = MAX(size, (size_t)ARENA_BLOCK - sizeof *block);
        block = mem_alloc(sizeof *block + room);
        if (block == NULL)
            return NULL;
        *block = (struct arena_block){.next = a->blocks, .size = room};
        a->blocks = block;
    }
    void *at = (char *)block->data + block->used;
    block->used += size;
    a->bytes = a->bytes_max != 0 ? MIN(a->bytes + size, a->bytes_max) : a->bytes + size;
    return at;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *at = arena_alloc(a, size);
    if (at != NULL)
        memset(at, 0, size);
    return at;
}

uint8_t *arena_dup(struct arena *a, struct bytes b)
{
    uint8_t *copy = arena_alloc(a, b.len);
    if (copy != NULL && b.len != 0)
        memcpy(copy, b.data, b.len);
    return copy;
}

char *arena_str(struct arena *a, struct bytes b)
{
    char *copy = arena_alloc(a, b.len + 1);
    if (copy == NULL)
        return NULL;
    if (b.len != 0)
        memcpy(copy, b.data, b.len);
    copy[b.len] = '\0';
    return copy;
}

char *arena_format(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(n >= 0);
    char *text = arena_alloc(a, (size_t)n + 1);
    if (text != NULL)
        (void)vsnprintf(text, (size_t)n + 1, format, again); /* measured above */
    va_end(again);
    return text;
}
