/* UTF-8, strictly (RFC 3629): shortest forms, no surrogates, nothing above U+10FFFF. */
#ifndef HOLDFAST_TEXT_UTF8_H
#define HOLDFAST_TEXT_UTF8_H

#include "base/bytes.h"
#include "base/status.h"

/* The rune at *at < b.len; *at moves past it. ST_INVALID, *at unchanged. */
NODISCARD enum status text_utf8_next(struct bytes b, size_t *at, uint32_t *ret_rune);
/* 1..4 bytes into `ret`; the rune must be valid. */
size_t text_utf8_put(uint32_t rune, uint8_t ret[4]);
bool text_utf8_valid(struct bytes b);
/* Valid, and every rune shows: no controls, no invisible or direction-changing characters, no
 * spaces but U+0020. What may stand in a path. */
bool text_printable(struct bytes b);

#endif
