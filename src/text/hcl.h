/* HCL, version 1, as configuration and policies use it, read into the tree of value.h.
 *
 *   # comments: also // and the kind with stars
 *   name = VALUE            attribute; "text", <<EOF, 12, 0x1f, 1.5, true, [..], {..}
 *   listener "tcp" { .. }   block; the same as  listener { tcp { .. } }
 *
 * Attributes of one name must not be repeated; blocks may. Text whose first character, spaces
 * aside, is '{' is read as JSON instead and gives the same tree, blocks written as objects or lists
 * of objects. In strings "${" has no meaning of its own. */
#ifndef HOLDFAST_TEXT_HCL_H
#define HOLDFAST_TEXT_HCL_H

#include "text/value.h"

enum { TEXT_HCL_DEPTH_MAX = 64, TEXT_HCL_VALUES_MAX = 100000, TEXT_HCL_BYTES_MAX = 4 << 20 };

/* ST_INVALID with the reason "line N: …"; ST_TOO_BIG; ST_NOMEM. The tree is an object. */
NODISCARD enum status text_hcl_parse(struct arena *arena, struct bytes text,
                                     const struct text_value **ret_value, struct reason *reason);

#endif
