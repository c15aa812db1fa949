/* JSON merge patches (RFC 7396). */
#ifndef HOLDFAST_TEXT_MERGE_H
#define HOLDFAST_TEXT_MERGE_H

#include "text/value.h"

/* `target` as `patch` changes it, in the arena; both may share parts with the result. `target` may
 * be NULL: there is nothing yet. Members keep their order, new ones follow. Numbers stay as they
 * were written. The time grows with the size of both, not with their product. ST_NOMEM. */
NODISCARD enum status text_merge_patch(struct arena *arena, const struct text_value *target,
                                       const struct text_value *patch,
                                       const struct text_value **ret_value);

#endif
