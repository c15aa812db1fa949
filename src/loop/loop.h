/* The env of base/env.h on libuv: one uv loop, timers, posted tasks and work lanes for one thread.
 *
 * 1. One env belongs to the thread that is inside loop_run; before and after that, to the thread
 *    that owns the loop. Only env_post and loop_stop may be called from other threads meanwhile.
 * 2. A timer never fires before its time. Timers that are due together fire in the order of their
 *    times; timers with equal times fire in the order in which they were set. A timer that sets
 *    itself to the past waits until all due timers have fired.
 * 3. LANE_LOG and LANE_BULK are one thread each per env; LANE_POOL and LANE_SLOW are shared by
 *    all envs of the process, which take turns in them.
 * 4. Wake-ups are coalesced: the loop is woken once and takes all tasks that were posted. */
#ifndef HOLDFAST_LOOP_LOOP_H
#define HOLDFAST_LOOP_LOOP_H

#include "base/env.h"
#include "loop/loop_fs.h"

#include <uv.h>

/* Make an env whose files are `fs`, which is borrowed and may be NULL. Ignores SIGPIPE for the
 * process, as sockets need. ST_NOMEM; ST_IO when the system refuses descriptors. */
NODISCARD enum status loop_new(struct fs *fs, struct env **ret_env);

/* Run until loop_stop. The calling thread becomes the env's. May be called again afterwards. */
void loop_run(struct env *env);

/* Make loop_run return soon, or at once if it is called later. Any thread. */
void loop_stop(struct env *env);

/* Finish submitted work and posted tasks, then release the env. Before, every handle that other
 * code opened on the uv loop must be closed or closing, and every timer stopped. NULL is
 * allowed. */
void loop_free(struct env *env);

/* The libuv loop, for folders that open sockets. Lives as long as the env. */
uv_loop_t *loop_uv(struct env *env);

/* Convert a libuv error (negative errno) to a status. */
enum status loop_status(int uv_error);

#endif
