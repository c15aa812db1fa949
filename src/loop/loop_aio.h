/* Durable writes without a thread: the kernel's asynchronous I/O, which is such only on files that
 * are open for direct writes. A loop's, used by its thread alone. */
#ifndef HOLDFAST_LOOP_LOOP_AIO_H
#define HOLDFAST_LOOP_LOOP_AIO_H

#include "base/env.h"

#include <uv.h>

struct loop_aio {
    /* A write is over: `again` when it was not done, or in part, and must be made in another way;
     * else write->st says. On the loop's thread. */
    void (*over)(struct loop_aio *aio, struct env_write *write, bool again);
    uv_poll_t poll;
    int event_fd;
    unsigned long context; /* context of the kernel, an aio_context_t */
    bool on, refused;
};

/* Begin a write that will not block this thread. False: it cannot be made so, nothing was begun. */
bool loop_aio_begin(struct loop_aio *aio, uv_loop_t *uv, struct env_write *write);
/* No write is under way. loop_aio_done follows once the handle is closed. */
void loop_aio_close(struct loop_aio *aio);
void loop_aio_done(struct loop_aio *aio);

#endif
