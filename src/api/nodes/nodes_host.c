/* sys/host-info: the machine of this node, as Linux reports it, with upstream's names of members.
 */
#include "api/nodes/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, LINES_MAX = 50000 };

static void put_fraction(struct text_writer *w, const char *name, double value)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%.2f", value);
    text_key(w, name);
    text_put_raw(w, bytes_of((const uint8_t *)text, n > 0 && n < (int)sizeof text ? (size_t)n : 0));
}

static void put_uint(struct text_writer *w, const char *name, uint64_t value)
{
    text_key(w, name);
    text_put_uint(w, value);
}

/* Call `each` for every line of a file of /proc, until `each` returns false. If the file cannot be
 * read, its values are missing in the reply: the fault lies in this machine, not in the request. */
static void read_lines(const char *path, bool (*each)(void *ctx, char *line), void *ctx)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "re");
    for (unsigned i = 0; file != NULL && i < LINES_MAX && fgets(line, sizeof line, file); i++)
        if (!each(ctx, line))
            break;
    if (file != NULL)
        (void)fclose(file); /* only read */
}

/* Memory */

struct memory {
    uint64_t total, free, available, buffers, cached, active, inactive, swap_total, swap_free;
};

static bool memory_line(void *ctx, char *line)
{
    struct memory *m = ctx;
    const struct {
        const char *name;
        uint64_t *value;
    } rows[] = {{"MemTotal:", &m->total},         {"MemFree:", &m->free},
                {"MemAvailable:", &m->available}, {"Buffers:", &m->buffers},
                {"Cached:", &m->cached},          {"Active:", &m->active},
                {"Inactive:", &m->inactive},      {"SwapTotal:", &m->swap_total},
                {"SwapFree:", &m->swap_free}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].name);
        if (strncmp(line, rows[i].name, len) == 0)
            *rows[i].value = strtoull(line + len, NULL, 10) * 1024;
    }
    return true;
}

static void put_memory(struct text_writer *w)
{
    struct memory m = {0};
    read_lines("/proc/meminfo", memory_line, &m);
    uint64_t used = m.total - MIN(m.total, m.available);
    text_key(w, "memory");
    text_open_object(w);
    put_uint(w, "total", m.total);
    put_uint(w, "available", m.available);
    put_uint(w, "used", used);
    put_fraction(w, "usedPercent", m.total != 0 ? 100.0 * (double)used / (double)m.total : 0);
    put_uint(w, "free", m.free);
    put_uint(w, "active", m.active);
    put_uint(w, "inactive", m.inactive);
    put_uint(w, "buffers", m.buffers);
    put_uint(w, "cached", m.cached);
    put_uint(w, "swapTotal", m.swap_total);
    put_uint(w, "swapFree", m.swap_free);
    text_close(w);
}

/* Processors */

static bool time_line(void *ctx, char *line)
{
    static const char *const names[] = {"user", "nice",    "system", "idle",  "iowait",
                                        "irq",  "softirq", "steal",  "guest", "guestNice"};
    struct text_writer *w = ctx;
    double tick = 1.0 / (double)MAX(sysconf(_SC_CLK_TCK), 1L);
    size_t len = strcspn(line, " ");
    if (strncmp(line, "cpu", 3) != 0)
        return false;
    if (len == 3)
        return true; /* the line of the sum of all CPUs */
    char *at = line + len;
    text_open_object(w);
    text_key(w, "cpu");
    text_put_bytes(w, bytes_of((const uint8_t *)line, len));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        put_fraction(w, names[i], tick * (double)strtoull(at, &at, 10));
    text_close(w);
    return true;
}

struct processors {
    struct text_writer *w;
    bool open;
};

/* "name\t: value" of /proc/cpuinfo; each processor begins with its number. */
static bool processor_line(void *ctx, char *line)
{
    static const char *const names[][2] = {{"vendor_id", "vendorId"}, {"cpu family", "family"},
                                           {"model", "model"},        {"model name", "modelName"},
                                           {"cpu MHz", "mhz"},        {"cache size", "cacheSize"}};
    struct processors *p = ctx;
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return true;
    size_t len = (size_t)(colon - line);
    while (len > 0 && (line[len - 1] == '\t' || line[len - 1] == ' '))
        len--;
    line[len] = '\0';
    char *value = colon + 1 + strspn(colon + 1, " ");
    value[strcspn(value, "\n")] = '\0';
    if (strcmp(line, "processor") == 0) {
        if (p->open)
            text_close(p->w);
        text_open_object(p->w);
        p->open = true;
        put_uint(p->w, "cpu", strtoull(value, NULL, 10));
    }
    for (size_t i = 0; p->open && i < ARRAY_LEN(names); i++)
        if (strcmp(line, names[i][0]) == 0)
            text_member_str(p->w, names[i][1], value);
    return true;
}

static void put_processors(struct text_writer *w)
{
    struct processors p = {.w = w};
    text_key(w, "cpu");
    text_open_list(w);
    read_lines("/proc/cpuinfo", processor_line, &p);
    if (p.open)
        text_close(w);
    text_close(w);
    text_key(w, "cpu_times");
    text_open_list(w);
    read_lines("/proc/stat", time_line, w);
    text_close(w);
}

/* Disk and host */

static void put_disk(struct text_writer *w, const char *path)
{
    struct statvfs about;
    text_key(w, "disk");
    text_open_list(w);
    if (path != NULL && statvfs(path, &about) == 0) {
        uint64_t total = (uint64_t)about.f_blocks * about.f_frsize;
        uint64_t left = (uint64_t)about.f_bavail * about.f_frsize;
        uint64_t used = total - (uint64_t)about.f_bfree * about.f_frsize;
        text_open_object(w);
        text_member_str(w, "path", path);
        put_uint(w, "total", total);
        put_uint(w, "free", left);
        put_uint(w, "used", used);
        put_fraction(w, "usedPercent",
                     used + left != 0 ? 100.0 * (double)used / (double)(used + left) : 0);
        put_uint(w, "inodesTotal", about.f_files);
        put_uint(w, "inodesFree", about.f_ffree);
        text_close(w);
    }
    text_close(w);
}

static void put_host(struct text_writer *w, int64_t now_s)
{
    struct utsname name;
    struct sysinfo info;
    text_key(w, "host");
    text_open_object(w);
    if (uname(&name) == 0) {
        text_member_str(w, "hostname", name.nodename);
        text_member_str(w, "os", "linux");
        text_member_str(w, "kernelVersion", name.release);
        text_member_str(w, "kernelArch", name.machine);
    }
    if (sysinfo(&info) == 0) {
        text_member_int(w, "uptime", info.uptime);
        text_member_int(w, "bootTime", now_s - info.uptime);
        put_uint(w, "procs", info.procs);
    }
    text_close(w);
}

static enum status nodes_host_info(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_time(&w, "timestamp", req->now_ms);
    put_host(&w, req->now_ms / 1000);
    put_processors(&w);
    put_memory(&w);
    put_disk(&w, req->host->data_dir);
    text_close(&w);
    ASSERT(w.depth == 0);
    return req_reply_end(req);
}

static const struct route host_routes[] = {
    {.method = METHOD_GET,
     .path = "host-info",
     .handler = nodes_host_info,
     .place = PLACE_NODE,
     /* The reply leaves out members that this machine does not tell. */
     .shape = "{timestamp:str host:obj cpu:[obj] cpu_times:[obj] memory:obj disk:[obj]}",
     .help = "The machine of this node: processors, memory, and the disk of the data directory."},
};

const struct route_table nodes_host_table = {host_routes, ARRAY_LEN(host_routes)};
