/* jansson with bounds, for small documents whose numbers are ours, such as tokens. User data goes
 * through json.h.
 *
 * jansson's memory is wiped when it is released, because such documents hold secrets. Any thread.
 */
#ifndef HOLDFAST_TEXT_BOUNDED_JSON_H
#define HOLDFAST_TEXT_BOUNDED_JSON_H

#include "base/bytes.h"
#include "base/status.h"

#include <jansson.h>

enum {
    BOUNDED_JSON_BYTES_MAX = 64 * 1024,
    BOUNDED_JSON_DEPTH_MAX = 8, /* open objects and lists at once; jansson's reader recurses */
};

/* Read all of `text`: one object without repeated names, without U+0000, integers within 64 bits.
 * The caller releases the object with json_decref. ST_TOO_BIG: longer or deeper than the bounds;
 * ST_INVALID: any other fault; ST_NOMEM. */
NODISCARD enum status bounded_json_parse(struct bytes text, json_t **ret_object);
/* json_decref, for CLEANUP. */
void bounded_json_done(json_t **object);

#endif
