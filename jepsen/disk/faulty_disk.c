/* A disk that fails on command, for one process: a library that LD_PRELOAD puts before libc.
 *
 * FAULTY_DISK names the control file (struct control below), which the process maps when it starts
 * and the harness writes. While `mode` is not HEALTHY, calls that write or sync a file whose path
 * begins with `prefix` do this:
 *
 *   SLOW     wait `arg` milliseconds, then go on
 *   EIO_     fail with EIO, and change nothing
 *   NO_ROOM  fail with ENOSPC if the file would grow
 *   TORN     a write leaves some of its sectors, by chance, and the process dies
 *   HANG     wait until the mode changes, then go on
 *   NTH      the process dies just before the `arg`-th call
 *   SHORT    fail with ENOSPC after a part of the data is written
 *
 * `hits` counts the calls that were harmed. Writes that the kernel would do while the thread goes
 * on (io_submit) are refused with EAGAIN, so that the program writes them by a call of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum mode { HEALTHY, SLOW, EIO_, NO_ROOM, TORN, HANG, NTH, SHORT };

enum { PREFIX_MAX = 500, SECTOR = 512 };

struct control {
    _Atomic uint32_t mode, arg, hits;
    char prefix[PREFIX_MAX];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAULTY_DISK");
    if (path == NULL)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        (void)fprintf(stderr, "faulty_disk: %s: %s\n", path, strerror(errno)); /* then exit */
        exit(127);
    }
    (void)close(fd); /* the mapping stays */
    control = at;
}

static void die(void)
{
    (void)raise(SIGKILL); /* never returns */
    abort();
}

static bool is_ours(int fd)
{
    char link[64], path[PATH_MAX + 1];
    int saved = errno;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX);
    errno = saved;
    if (n < 0)
        return false;
    path[n] = '\0';
    return strncmp(path, control->prefix, strlen(control->prefix)) == 0;
}

static bool grows(int fd, off_t end)
{
    struct stat about;
    return fstat(fd, &about) == 0 && end > about.st_size;
}

static void pause_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Whether the call fails, with errno set. `end`: where the written part of the file will end; 0 for
 * calls that do not write; -1 for writes at the end of the file. */
static bool harmed(int fd, off_t end)
{
    enum mode mode = control == NULL ? HEALTHY : (enum mode)control->mode;
    if (mode == HEALTHY || mode == TORN || mode == SHORT || !is_ours(fd))
        return false;
    if (mode == NO_ROOM && end != -1 && (end == 0 || !grows(fd, end)))
        return false;
    atomic_fetch_add(&control->hits, 1);
    if (mode == SLOW)
        pause_ms(control->arg);
    while (mode == HANG && control->mode == HANG)
        pause_ms(5);
    if (mode == NTH && atomic_fetch_sub(&control->arg, 1) == 1)
        die();
    if (mode != EIO_ && mode != NO_ROOM)
        return false;
    errno = mode == EIO_ ? EIO : ENOSPC;
    return true;
}

#define REAL(result, name, ...)                                       \
    static result (*real)(__VA_ARGS__);                               \
    if (real == NULL) /* any thread finds the same */                 \
        *(void **)&real = dlsym(RTLD_NEXT, #name)

static bool mode_is(enum mode mode, int fd)
{
    return control != NULL && control->mode == mode && is_ours(fd);
}

/* Leave some sectors of the write, and die. */
static void tear(int fd, const struct iovec *parts, int n, off_t off)
{
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    unsigned char chance[64] = {0};
    size_t total = 0, at = 0;
    for (int i = 0; i < n; i++)
        total += parts[i].iov_len;
    unsigned char *all = aligned_alloc(4096, (total + 4095) / 4096 * 4096);
    if (all == NULL || getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        die();
    for (int i = 0; i < n; at += parts[i++].iov_len)
        memcpy(all + at, parts[i].iov_base, parts[i].iov_len);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0)
        die();
    for (at = 0; at < total; at += SECTOR) {
        struct iovec sector = {all + at, total - at < SECTOR ? total - at : SECTOR};
        if ((chance[at / SECTOR % sizeof chance] & 1) != 0 &&
            real(fd, &sector, 1, off + (off_t)at) < 0)
            die();
    }
    atomic_fetch_add(&control->hits, 1);
    die();
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t off)
{
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    off_t end = off;
    for (int i = 0; i < n; i++)
        end += (off_t)parts[i].iov_len;
    if (mode_is(TORN, fd))
        tear(fd, parts, n, off);
    return harmed(fd, end) ? -1 : real(fd, parts, n, off);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int n, off_t off)
{
    return pwritev(fd, parts, n, off);
}

/* Half of the first such write lands, as when the last pages of a disk are taken. */
static ssize_t write_short(int fd, const void *data, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t);
    uint32_t before = atomic_fetch_add(&control->hits, 1);
    if (before % 2 == 0 && n > 1)
        return real(fd, data, n / 2);
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t);
    if (mode_is(SHORT, fd))
        return write_short(fd, data, n);
    return harmed(fd, -1) ? -1 : real(fd, data, n);
}

int fsync(int fd)
{
    REAL(int, fsync, int);
    return harmed(fd, 0) ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(int, fdatasync, int);
    return harmed(fd, 0) ? -1 : real(fd);
}

int sync_file_range(int fd, off_t off, off_t n, unsigned flags)
{
    REAL(int, sync_file_range, int, off_t, off_t, unsigned);
    return harmed(fd, 0) ? -1 : real(fd, off, n, flags);
}

int ftruncate(int fd, off_t size)
{
    REAL(int, ftruncate, int, off_t);
    return harmed(fd, size) ? -1 : real(fd, size);
}

int fallocate(int fd, int how, off_t off, off_t n)
{
    REAL(int, fallocate, int, int, off_t, off_t);
    return harmed(fd, off + n) ? -1 : real(fd, how, off, n);
}

/* Renames and removals below a directory that is ours: they fail, hang, wait and count too. */
int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    REAL(int, renameat, int, const char *, int, const char *);
    return harmed(to_dir, 0) ? -1 : real(from_dir, from, to_dir, to);
}

int unlinkat(int dir, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int);
    return harmed(dir, 0) ? -1 : real(dir, path, flags);
}

long syscall(long number, ...)
{
    REAL(long, syscall, long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long); /* what the caller did not give is passed on unread */
    va_end(list);
    if (number == SYS_io_submit && control != NULL && control->mode != HEALTHY) {
        errno = EAGAIN;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
