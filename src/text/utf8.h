/* Strict UTF-8 (RFC 3629): shortest forms only, no surrogates, nothing above U+10FFFF. A rune is a
 * code point. */
#ifndef HOLDFAST_TEXT_UTF8_H
#define HOLDFAST_TEXT_UTF8_H

#include "base/bytes.h"
#include "base/status.h"

/* Read the rune at *at (< b.len) and move *at behind it. ST_INVALID: no valid rune, *at unchanged.
 */
NODISCARD enum status text_utf8_next(struct bytes b, size_t *at, uint32_t *ret_rune);
/* Write a valid rune into `ret`. Returns the number of bytes, 1..4. */
size_t text_utf8_put(uint32_t rune, uint8_t ret[4]);
bool text_utf8_valid(struct bytes b);
/* Whether `b` may stand in a path: valid UTF-8 without control characters, without invisible or
 * direction-changing characters, and without spaces other than U+0020. */
bool text_printable(struct bytes b);

#endif
