/* Policies in one style. */
#ifndef HOLDFAST_CLI_POLICY_FORMAT_H
#define HOLDFAST_CLI_POLICY_FORMAT_H

#include "base/arena.h"
#include "base/buf.h"

/* `text` in the style, appended to the empty `out`; JSON comes out as it is. ST_INVALID: not HCL,
 * ST_UNSUPPORTED: not possible without changing what it says; both with a reason. ST_TOO_BIG,
 * ST_NOMEM. */
NODISCARD enum status policy_format(struct arena *arena, struct bytes text, struct buf *out,
                                    struct reason *reason);

#endif
