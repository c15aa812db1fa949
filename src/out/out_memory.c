/* Memory of libcurl. libcurl copies headers and bodies into buffers of its own, and releases them
 * without wiping. So each block begins with its size, and is wiped when it is released. */
#include "base/mem.h"
#include "out/out_internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>

struct block {
    alignas(max_align_t) size_t size;
};

static struct block *block_of(void *data)
{
    return (struct block *)data - 1;
}

static void *block_alloc(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct block))
        return NULL;
    struct block *block = mem_alloc(sizeof *block + size);
    if (block == NULL)
        return NULL;
    block->size = size;
    return block + 1;
}

static void block_free(void *data)
{
    if (data == NULL)
        return;
    struct block *block = block_of(data);
    mem_wipe(block, sizeof *block + block->size);
    mem_free(block);
}

static void *block_realloc(void *old, size_t size)
{
    void *data = block_alloc(size);
    if (data == NULL || old == NULL)
        return data;
    memcpy(data, old, MIN(size, block_of(old)->size));
    block_free(old);
    return data;
}

static void *block_calloc(size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    void *data = block_alloc(total);
    if (data != NULL)
        memset(data, 0, total);
    return data;
}

static char *block_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = block_alloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;

static void init_once(void)
{
    ready = curl_global_init_mem(CURL_GLOBAL_ALL, block_alloc, block_free, block_realloc,
                                 block_strdup, block_calloc) == CURLE_OK;
}

enum status out_memory_init(void)
{
    static_assert(sizeof(struct block) == alignof(max_align_t), "a block keeps the alignment");
    return pthread_once(&once, init_once) == 0 && ready ? ST_OK : ST_NOMEM;
}
