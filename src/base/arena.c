#include "base/arena.h"
#include "base/mem.h"
#include "base/poison.h"

#include <stdarg.h>
#include <stdio.h>

enum { ARENA_BLOCK = 4096 };

/* The free part of a block is poisoned. */
struct arena_block {
    struct arena_block *next;
    size_t used, size;
    max_align_t data[];
};

static size_t block_room(const struct arena *a)
{
    ASSERT(a->block_bytes == 0 || a->block_bytes > sizeof(struct arena_block));
    return (a->block_bytes != 0 ? a->block_bytes : (size_t)ARENA_BLOCK) -
           sizeof(struct arena_block);
}

static void wipe(struct arena_block *block)
{
    UNPOISON(block->data, block->size);
    mem_wipe(block->data, block->used);
    block->used = 0;
}

size_t arena_held(const struct arena *a)
{
    size_t bytes = 0;
    for (const struct arena_block *block = a->blocks; block != NULL; block = block->next)
        bytes += sizeof *block + block->size;
    return bytes;
}

void arena_done(struct arena *a)
{
    while (a->blocks != NULL) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        wipe(block);
        mem_free(block);
    }
    a->bytes = 0;
}

void arena_clear(struct arena *a)
{
    while (a->blocks != NULL && a->blocks->next != NULL) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        wipe(block);
        mem_free(block);
    }
    if (a->blocks != NULL &&
        a->blocks->size != block_room(a)) { /* the block holds one large allocation */
        arena_done(a);
        return;
    }
    if (a->blocks != NULL) {
        ASSERT(a->blocks->used <= a->blocks->size);
        wipe(a->blocks);
        POISON(a->blocks->data, a->blocks->size);
    }
    a->bytes = 0;
}

static size_t rounded(size_t size)
{
    size_t align = _Alignof(max_align_t);
    return (size + align - 1) / align * align;
}

/* A block with room for `size` bytes in front of the others. */
static __attribute__((noinline)) struct arena_block *block_add(struct arena *a, size_t size)
{
    size_t room = MAX(size, block_room(a));
    struct arena_block *block = mem_alloc(sizeof *block + room);
    if (block == NULL)
        return NULL;
    *block = (struct arena_block){.next = a->blocks, .size = room};
    POISON(block->data, room);
    return a->blocks = block;
}

static __attribute__((noinline)) void *alloc_slowly(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 4 || (a->bytes_max != 0 && size > a->bytes_max - a->bytes))
        return NULL;
    size_t wanted = size;
    size = rounded(size);
    struct arena_block *block = a->blocks;
    if (block == NULL || size > block->size - block->used)
        block = block_add(a, size);
    if (block == NULL)
        return NULL;
    ASSERT(size <= block->size - block->used);
    ASSERT(wanted <= size);
    void *at = (char *)block->data + block->used;
    UNPOISON(at, wanted);
    block->used += size;
    a->bytes = a->bytes_max != 0 ? MIN(a->bytes + size, a->bytes_max) : a->bytes + size;
    return at;
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_block *block = a->blocks;
    if (block == NULL || a->bytes_max != 0)
        return alloc_slowly(a, size);
    size_t left = block->size - block->used;
    if (size > left || rounded(size) > left)
        return alloc_slowly(a, size);
    void *at = (char *)block->data + block->used;
    UNPOISON(at, size);
    block->used += rounded(size);
    a->bytes += rounded(size);
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

char *arena_concat(struct arena *a, const char *first, const char *second)
{
    size_t n = strlen(first), m = strlen(second);
    char *text = arena_alloc(a, n + m + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, first, n);
    memcpy(text + n, second, m + 1);
    return text;
}

char *arena_number(struct arena *a, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    return arena_str(a, bytes_of(digits + at, sizeof digits - at));
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
        (void)vsnprintf(text, (size_t)n + 1, format, again); /* the length was measured above */
    va_end(again);
    return text;
}
