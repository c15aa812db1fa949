/* Base58 with the alphabet of Bitcoin, without a checksum: a leading zero byte is a leading '1'.
 * Its cost grows with the square of the length, so the length is bounded. Any thread. */
#ifndef HOLDFAST_TEXT_BASE58_H
#define HOLDFAST_TEXT_BASE58_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    TEXT_BASE58_BYTES_MAX = 128,
    TEXT_BASE58_LEN_MAX = TEXT_BASE58_BYTES_MAX * 138 / 100 + 1,
};

/* Write `data`, at most TEXT_BASE58_BYTES_MAX bytes, with a terminating zero. Returns the number of
 * characters, the zero not counted. */
size_t text_base58_put(struct bytes data, char ret_text[TEXT_BASE58_LEN_MAX + 1]);
/* ST_INVALID: a character of another alphabet, or more than TEXT_BASE58_BYTES_MAX bytes. One text
 * stands for the bytes and no other. */
NODISCARD enum status text_base58_parse(struct bytes text, uint8_t out[TEXT_BASE58_BYTES_MAX],
                                        size_t *ret_len);

#endif
