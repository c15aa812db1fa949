#include "base/shared.h"
#include "base/mem.h"

struct shared *shared_new(struct buf *text)
{
    struct shared *shared = mem_alloc(sizeof *shared);
    if (shared == NULL)
        return NULL;
    *shared = (struct shared){.refs = 1, .text = *text};
    *text = (struct buf){0};
    return shared;
}

struct shared *shared_ref(struct shared *shared)
{
    ASSERT(shared->refs > 0);
    shared->refs++;
    return shared;
}

void shared_unref(struct shared *shared)
{
    if (shared == NULL)
        return;
    ASSERT(shared->refs > 0);
    if (--shared->refs != 0)
        return;
    buf_done(&shared->text);
    mem_free(shared);
}
