#include "node/mark.h"

#include "base/fs.h"
#include "base/trace.h"

#define MARK_FILE "initialized"

static void set_initialized(struct part_host *host)
{
    host->initialized = true;
    host->calls->publish(host);
}

void mark_read(struct part_host *host, bool joins)
{
    struct fs_file *mark;
    bool marked = fs_open(host->fs, MARK_FILE, FS_READ, &mark) == ST_OK;
    ASSERT(!host->running);
    if (marked)
        fs_close(mark);
    if (marked || joins)
        set_initialized(host); /* the cluster that this node joins is initialised already */
}

void mark_write(struct part_host *host)
{
    struct fs_file *mark;
    ASSERT(part_on_thread(host));
    if (host->initialized)
        return;
    set_initialized(host);
    enum status st = fs_open(host->fs, MARK_FILE, FS_WRITE | FS_CREATE, &mark);
    if (st == ST_OK) {
        st = fs_sync(mark);
        fs_close(mark);
    }
    if (st == ST_OK)
        st = fs_sync_dir(host->fs, "");
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "%s: %s", MARK_FILE, status_text(st));
}
