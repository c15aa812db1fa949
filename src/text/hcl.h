/* HCL, version 1, as configuration and policies use it, read into the tree of value.h.
 *
 *   # comments: also // and the kind with stars
 *   name = VALUE            attribute; "text", <<EOF, 12, 0x1f, 1.5, true, [..], {..}
 *   listener "tcp" { .. }   block; the same as  listener { tcp { .. } }
 *
 * An attribute's name occurs once in an object; a block's name may be repeated. If the first
 * character after spaces is '{', the text is read as JSON: blocks are then objects or lists of
 * objects, and the tree is the same. "${" in a string has no special meaning. A byte order mark at
 * the start is skipped. */
#ifndef HOLDFAST_TEXT_HCL_H
#define HOLDFAST_TEXT_HCL_H

#include "text/value.h"

enum { TEXT_HCL_DEPTH_MAX = 64, TEXT_HCL_VALUES_MAX = 100000, TEXT_HCL_BYTES_MAX = 4 << 20 };

/* Read all of `text` into a tree whose root is an object. ST_INVALID with the reason "line N: …";
 * ST_TOO_BIG; ST_NOMEM. */
NODISCARD enum status text_hcl_parse(struct arena *arena, struct bytes text,
                                     const struct text_value **ret_value, struct reason *reason);

#endif
