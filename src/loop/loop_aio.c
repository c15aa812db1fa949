#include "loop/loop_aio.h"
#include "base/fs.h"
#include "loop/loop_fs.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 4 };

static void take(struct loop_aio *aio, const struct io_event *event)
{
    /* NOLINT: the pointer that submission stored */
    struct env_write *w = (struct env_write *)(uintptr_t)event->data;
    int64_t result = event->res;
    bool refused = result == -EAGAIN || result == -EOPNOTSUPP || result == -EINVAL;
    bool again = refused || (result >= 0 && (uint64_t)result < w->data.len);
    w->st = result >= 0 ? ST_OK : status_from_errno((int)-result);
    aio->over(aio, w, again);
}

static void on_event(uv_poll_t *poll, int error, int events)
{
    struct loop_aio *aio = poll->data;
    struct io_event done[DEPTH];
    struct timespec now = {0};
    uint64_t times;
    (void)events; /* only readable events were requested */
    ASSERT(error == 0);
    if (read(aio->event_fd, &times, sizeof times) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR); /* the loop calls again */
    long n;
    do {
        n = syscall(SYS_io_getevents, aio->context, 0L, (long)DEPTH, done, &now);
        ASSERT(n >= 0 || errno == EINTR); /* EINTR: no more events are ready */
        for (long i = 0; i < n; i++)
            take(aio, &done[i]);
    } while (n == DEPTH);
}

/* Try once to make a context: the kernel, a container or a limit may refuse it. */
static bool open_context(struct loop_aio *aio, uv_loop_t *uv)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, (long)DEPTH, &context) != 0)
        return false;
    aio->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (aio->event_fd >= 0 && uv_poll_init(uv, &aio->poll, aio->event_fd) == 0) {
        aio->poll.data = aio;
        aio->context = context;
        ASSERT(uv_poll_start(&aio->poll, UV_READABLE, on_event) == 0);
        return true;
    }
    if (aio->event_fd >= 0)
        (void)close(aio->event_fd);         /* nothing was written to event_fd */
    (void)syscall(SYS_io_destroy, context); /* no write is under way */
    return false;
}

bool loop_aio_begin(struct loop_aio *aio, uv_loop_t *uv, struct env_write *write)
{
    int fd = loop_fs_direct(write->file);
    if (fd < 0 || aio->refused)
        return false;
    if (!aio->on)
        aio->on = open_context(aio, uv);
    struct iocb call = {.aio_data = (uintptr_t)write,
                        .aio_lio_opcode = IOCB_CMD_PWRITE,
                        .aio_rw_flags = RWF_NOWAIT,
                        .aio_fildes = (uint32_t)fd,
                        .aio_buf = (uintptr_t)write->data.data,
                        .aio_nbytes = write->data.len,
                        .aio_offset = (int64_t)write->off,
                        .aio_flags = IOCB_FLAG_RESFD,
                        .aio_resfd = (uint32_t)aio->event_fd};
    struct iocb *calls[] = {&call};
    if (aio->on && syscall(SYS_io_submit, aio->context, 1L, calls) == 1)
        return true;
    aio->refused = !aio->on || (errno != EAGAIN && errno != EINTR);
    return false;
}

void loop_aio_close(struct loop_aio *aio)
{
    if (aio->on)
        uv_close((uv_handle_t *)&aio->poll, NULL);
}

void loop_aio_done(struct loop_aio *aio)
{
    if (!aio->on)
        return;
    (void)syscall(SYS_io_destroy, aio->context); /* no write is under way */
    (void)close(aio->event_fd);                  /* closing an eventfd loses nothing */
}
