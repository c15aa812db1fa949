/* JSON for people. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_PRETTY_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_PRETTY_H

#include "base/buf.h"

/* Add `compact`, which a text_writer wrote, with an indent of four spaces for each level and a
 * newline at the end. */
void registry_pretty(struct bytes compact, struct buf *out);

#endif
