/* The program's allocator under simulation: it takes the place of src/base/mem.c.
 *
 * Every allocation belongs to the node that made it, so that a crash releases a node's whole memory
 * at once, and a clean stop that leaves anything behind is a leak. */
#ifndef HOLDFAST_SIM_MEM_H
#define HOLDFAST_SIM_MEM_H

#include "base/mem.h"

enum { MEM_OWNERS = 64 };

/* Allocations made from now on belong to `owner` (0: to nobody). Returns the owner before. */
unsigned sim_mem_owner(unsigned owner);
/* Release all that `owner` holds. */
void sim_mem_drop(unsigned owner);
/* How many allocations `owner` holds. */
uint64_t sim_mem_count(unsigned owner);

#endif
