/* Request targets and form bodies. */
#ifndef HOLDFAST_ROUTER_PATH_H
#define HOLDFAST_ROUTER_PATH_H

#include "text/value.h"

enum { PATH_BYTES_MAX = 3000, PATH_PAIRS_MAX = 1000 };

/* The path below "/v1/": percent-decoded, repeated slashes made one, zero-terminated; it may end in
 * '/'. Nothing that could read as another path is left in it.
 * ST_NOT_FOUND: it is not below "/v1/". ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status path_decode(struct arena *arena, struct bytes raw, struct bytes *ret_path,
                                  struct reason *reason);

/* "a=1&b=x+y&a=2" as an object of strings; a name that is repeated gives a list. Also for bodies of
 * application/x-www-form-urlencoded. ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status path_parse_pairs(struct arena *arena, struct bytes text,
                                       struct text_value **ret_object, struct reason *reason);

#endif
