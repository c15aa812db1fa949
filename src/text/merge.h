/* JSON merge patches (RFC 7396). */
#ifndef HOLDFAST_TEXT_MERGE_H
#define HOLDFAST_TEXT_MERGE_H

#include "text/value.h"

/* Apply `patch` to `target`. The result is a tree in the arena. The result may share parts of both
 * arguments, which stay as they are. `target` may be NULL: no value yet. Members keep their order,
 * new members follow. Numbers keep their text. The time grows with n log n of both sizes.
 * ST_NOMEM. */
NODISCARD enum status text_merge_patch(struct arena *arena, const struct text_value *target,
                                       const struct text_value *patch,
                                       const struct text_value **ret_value);

#endif
