/* Metrics of the process, its disk and its certificates, and the number of leases. They are
 * gathered on the thread pool, where file reads may block. A figure that cannot be read is left
 * out. */
#include "base/version.h"
#include "lease/lease.h"
#include "server/server.h"
#include "state/ns_key.h"
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void cpu_figures(struct metric_out *out)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0)
        return;
    uint64_t s = (uint64_t)use.ru_utime.tv_sec + (uint64_t)use.ru_stime.tv_sec;
    uint64_t us = (uint64_t)use.ru_utime.tv_usec + (uint64_t)use.ru_stime.tv_usec;
    metric_start(out, "process_cpu_seconds_total", METRIC_COUNTER,
                 "Processor time of the process, user and system, in seconds.");
    metric_nanos(out, NULL, s * 1000000000 + us * 1000);
}

static void memory_figures(struct metric_out *out)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    int n = file != NULL ? fscanf(file, "%llu %llu", &size, &resident) : 0;
    uint64_t page = (uint64_t)MAX(sysconf(_SC_PAGESIZE), 1L);
    if (file != NULL)
        (void)fclose(file); /* the file was only read */
    if (n != 2)
        return;
    metric_one(out, "process_virtual_memory_bytes", METRIC_GAUGE,
               "Virtual memory of the process, in bytes.", size * page);
    metric_one(out, "process_resident_memory_bytes", METRIC_GAUGE,
               "Resident memory of the process, in bytes.", resident * page);
}

/* Open the directory with open, not opendir: libuv closes descriptors by a system call that the
 * thread sanitizer does not see, and only open lets the sanitizer know that a number is used
 * again. */
static DIR *open_descriptors(void)
{
    int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && dir == NULL)
        (void)close(fd); /* the file was only read */
    return dir;
}

static void descriptor_figures(struct metric_out *out)
{
    struct rlimit limit;
    DIR *dir = open_descriptors();
    uint64_t n = 0;
    if (dir == NULL)
        return;
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir); /* the directory was only read */
    metric_one(out, "process_open_fds", METRIC_GAUGE, "Open file descriptors of the process.",
               n - MIN(n, UINT64_C(3))); /* not descriptors to count: ".", "..", and the descriptor
                                            of this directory */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metric_one(out, "process_max_fds", METRIC_GAUGE,
                   "File descriptors that the process may have open.", limit.rlim_cur);
}

static void disk_figures(struct metric_out *out, const char *dir)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0)
        return;
    metric_one(out, "holdfast_disk_size_bytes", METRIC_GAUGE,
               "Size of the file system of the data directory, in bytes.",
               (uint64_t)fs.f_blocks * fs.f_frsize);
    metric_one(out, "holdfast_disk_available_bytes", METRIC_GAUGE,
               "Free space on the file system of the data directory, in bytes.",
               (uint64_t)fs.f_bavail * fs.f_frsize);
}

/* An address has no character that a label would have to escape (http_address_parse). */
static void certificate_figures(struct metric_out *out, const struct server *s)
{
    bool begun = false;
    for (unsigned i = 0; i < s->config->n_listeners; i++) {
        char label[160];
        int64_t until_s;
        if (s->tls[i] == NULL || tls_ctx_not_after(s->tls[i], &until_s) != ST_OK)
            continue;
        if (!begun)
            metric_start(out, "holdfast_listener_certificate_expiry_time_seconds", METRIC_GAUGE,
                         "End of the listener's certificate, in seconds since 1970.");
        begun = true;
        (void)snprintf(label, sizeof label, "listener=\"%.128s\"",
                       s->config->listeners[i].address); /* a long address is cut */
        metric_value(out, label, (uint64_t)MAX(until_s, (int64_t)0));
    }
}

void process_figures(struct metric_out *out, const struct server *s)
{
    char version[64];
    (void)snprintf(version, sizeof version, "version=\"%s\"", holdfast_version); /* the text fits */
    metric_start(out, "holdfast_build_info", METRIC_INFO, "Version of the program.");
    metric_value(out, version, 1);
    metric_start(out, "process_start_time_seconds", METRIC_GAUGE,
                 "Start of the process, in seconds since 1970.");
    metric_nanos(out, NULL, (uint64_t)MAX(s->started_ms, (int64_t)0) * 1000000);
    cpu_figures(out);
    memory_figures(out);
    descriptor_figures(out);
    disk_figures(out, s->config->data_dir);
    certificate_figures(out, s);
}

static enum status count_leases(const struct server *s, uint64_t *ret_n, struct expiry_sizes *ret)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct store_pin pin;
    struct bytes prefix;
    TRY(lease_prefix(&arena, STATE_NS_ROOT, "", &prefix));
    TRY(store_pin(rlog_store(node_rlog(s->node)), "metrics", 0, &pin));
    *ret_n = store_count(&pin, prefix);
    enum status st = expiry_sizes_at(&s->expiry_kinds, &pin, ret);
    store_unpin(&pin);
    return st;
}

static void expiry_figures(struct metric_out *out, const struct expiry_counts *c)
{
    ASSERT(c != NULL);
    metric_one(out, "holdfast_expiry_ended_total", METRIC_COUNTER,
               "Tokens, leases and policies that this node ended because their time had come.",
               atomic_load_explicit(&c->ended, memory_order_relaxed));
    metric_one(out, "holdfast_expiry_dropped_total", METRIC_COUNTER,
               "Entries of the expiry index that came up for something gone or renewed.",
               atomic_load_explicit(&c->dropped, memory_order_relaxed));
    metric_one(
        out, "holdfast_expiry_put_off_total", METRIC_COUNTER,
        "Times that an entry of the expiry index, or unfinished work, could not be followed.",
        atomic_load_explicit(&c->put_off, memory_order_relaxed));
    metric_one(out, "holdfast_expiry_moved_total", METRIC_COUNTER,
               "Keys of an earlier feature level that this node moved into the expiry index.",
               atomic_load_explicit(&c->moved, memory_order_relaxed));
}

void lease_figures(struct metric_out *out, const struct server *s)
{
    struct expiry_sizes sizes;
    uint64_t n;
    ASSERT(s->ready); /* the node has a replica */
    expiry_figures(out, &s->expiry_counts);
    metric_one(out, "holdfast_leases_skipped_total", METRIC_COUNTER,
               "Leases that the end of many left out on this node because record or kind cannot be "
               "read.",
               lease_skipped_total());
    if (count_leases(s, &n, &sizes) != ST_OK)
        return;
    metric_one(out, "holdfast_leases", METRIC_GAUGE,
               "Leases that were issued and not ended: tokens that expire, and what engines lent.",
               n);
    metric_one(out, "holdfast_expiry_entries", METRIC_GAUGE, "Entries of the expiry index.",
               sizes.entries);
    metric_one(out, "holdfast_expiry_unfinished", METRIC_GAUGE,
               "Marks of unfinished work: what ended and has something left to delete.",
               sizes.marks);
    metric_one(out, "holdfast_expiry_former_keys", METRIC_GAUGE,
               "Entries and marks in the form of an earlier feature level, not yet moved.",
               sizes.former);
}
