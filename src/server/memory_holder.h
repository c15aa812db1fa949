/* The memory holder: a process that shares the memory of the server and does nothing else.
 *
 * When the server is killed, the kernel frees its memory first and closes its connections
 * afterwards. A state of one gigabyte takes a tenth of a second, in which the other nodes believe
 * that the server lives. While a second process shares the memory, the kernel closes the
 * connections at once. The memory is freed when the holder ends, after the last thread of the
 * server.
 *
 * The holder has no open file but the one that tells the server's end, blocks all signals but
 * SIGKILL, and runs no code of the server after its start. The server does not depend on the
 * holder: without one only the end takes longer. */
#ifndef HOLDFAST_SERVER_MEMORY_HOLDER_H
#define HOLDFAST_SERVER_MEMORY_HOLDER_H

#include "base/status.h"

/* Start the holder, once in a process, before other threads start. ST_UNSUPPORTED: the kernel or a
 * tool that traces the process lacks a call, or the build has a sanitizer, whose functions expect a
 * stack of their own; ST_NOMEM: no further process may start. */
NODISCARD enum status memory_holder_start(void);

/* End the holder, if there is one, and wait for its end. */
void memory_holder_stop(void);

#endif
