/* Durable writes without a thread, through the kernel's asynchronous I/O. The kernel writes
 * asynchronously only to files that are open for direct writes. Each loop has its own struct, which
 * only the loop's thread uses. */
#ifndef HOLDFAST_LOOP_LOOP_AIO_H
#define HOLDFAST_LOOP_LOOP_AIO_H

#include "base/env.h"

#include <uv.h>

struct loop_aio {
    /* A write is over. `again`: the write was not done, or only in part, and must be made in
     * another way; otherwise write->st is its status. Called on the loop's thread. */
    void (*over)(struct loop_aio *aio, struct env_write *write, bool again);
    uv_poll_t poll;
    int event_fd;
    unsigned long context; /* context of the kernel, an aio_context_t */
    bool on, refused;
};

/* Begin a write that will not block this thread. False: this write would block, and nothing was
 * begun. */
bool loop_aio_begin(struct loop_aio *aio, uv_loop_t *uv, struct env_write *write);
/* Close; no write may be under way. loop_aio_done is called when the handle is closed. */
void loop_aio_close(struct loop_aio *aio);
void loop_aio_done(struct loop_aio *aio);

#endif
