/* Formats the text of policies in one style. */
#ifndef HOLDFAST_CLI_POLICY_FORMAT_H
#define HOLDFAST_CLI_POLICY_FORMAT_H

#include "base/arena.h"
#include "base/buf.h"

/* Append the formatted `text` to the empty `out`; JSON is copied unchanged. With a reason:
 * ST_INVALID, not HCL; ST_UNSUPPORTED, formatting would change the meaning. ST_TOO_BIG, ST_NOMEM.
 */
NODISCARD enum status policy_format(struct arena *arena, struct bytes text, struct buf *out,
                                    struct reason *reason);

#endif
