#include "text/bounded_json.h"

#include "base/mem.h"

#include <pthread.h>

enum { ALLOC_MAX = 64 * BOUNDED_JSON_BYTES_MAX }; /* more than a document within the bounds needs */

/* jansson does not say how long the memory is that it releases, so the length stands before it. */
union block {
    size_t size;
    max_align_t align;
};

/* Whether an allocation of this thread has failed. jansson does not always say so, and may go on.
 */
static _Thread_local bool starved;

static void *wiped_alloc(size_t size)
{
    union block *block = size <= ALLOC_MAX ? mem_alloc(sizeof *block + size) : NULL;
    if (block == NULL) {
        starved = true;
        return NULL;
    }
    block->size = size;
    return block + 1;
}

static void wiped_free(void *memory)
{
    if (memory == NULL)
        return;
    union block *block = (union block *)memory - 1;
    mem_wipe(memory, block->size);
    mem_free(block);
}

static void use_wiped_memory(void)
{
    json_set_alloc_funcs(wiped_alloc, wiped_free);
}

/* Whether more than BOUNDED_JSON_DEPTH_MAX brackets are open at once, outside of strings. */
static bool is_deep(struct bytes text)
{
    unsigned depth = 0;
    bool string = false;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (string && c == '\\')
            i++;
        else if (c == '"')
            string = !string;
        else if (!string && (c == '{' || c == '['))
            depth++;
        else if (!string && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > BOUNDED_JSON_DEPTH_MAX)
            return true;
    }
    return false;
}

enum status bounded_json_parse(struct bytes text, json_t **ret_object)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_error_t why;
    (void)pthread_once(&once, use_wiped_memory); /* cannot fail with these arguments */
    ASSERT(ret_object != NULL);
    if (text.len > BOUNDED_JSON_BYTES_MAX || is_deep(text))
        return ST_TOO_BIG;
    starved = false;
    json_t *found = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    mem_wipe(&why, sizeof why); /* quotes the text */
    if (starved || !json_is_object(found)) {
        json_decref(found); /* takes NULL */
        return starved ? ST_NOMEM : ST_INVALID;
    }
    *ret_object = found;
    return ST_OK;
}

void bounded_json_done(json_t **object)
{
    json_decref(*object);
    *object = NULL;
}
