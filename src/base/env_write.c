#include "base/env.h"
#include "base/fs.h"

static void write_run(struct env_work *work)
{
    struct env_write *w = CONTAINER_OF(work, struct env_write, work);
    w->st = fs_write_at(w->file, &w->data, 1, w->off);
}

static void write_done(struct env_work *work)
{
    struct env_write *w = CONTAINER_OF(work, struct env_write, work);
    w->done(w);
}

void env_write_work(struct env *env, struct env_write *write)
{
    write->work = (struct env_work){.run = write_run, .done = write_done, .lane = LANE_LOG};
    env_work(env, &write->work);
}
