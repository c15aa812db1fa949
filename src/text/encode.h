/* Hexadecimal and base64 (RFC 4648 sections 4 and 5). Any thread. */
#ifndef HOLDFAST_TEXT_ENCODE_H
#define HOLDFAST_TEXT_ENCODE_H

#include "base/bytes.h"
#include "base/status.h"

#define TEXT_HEX_LEN(n) (2 * (n))
#define TEXT_BASE64_LEN(n) (((n) + 2) / 3 * 4) /* length with padding, the longest form */
#define TEXT_BASE64_BYTES(len) ((len) / 4 * 3 + 3)

enum text_base64 {
    TEXT_BASE64,     /* '+' and '/', with padding */
    TEXT_BASE64_RAW, /* '+' and '/', without padding */
    TEXT_BASE64_URL, /* '-' and '_', without padding */
};

/* Write lower-case hex with a terminating zero: TEXT_HEX_LEN(data.len) + 1 characters. */
void text_hex_put(struct bytes data, char *ret_text);
/* Read hex into `out`, text.len / 2 bytes. ST_INVALID: a character that is no hex digit, or an odd
 * number of characters. */
NODISCARD enum status text_hex_parse(struct bytes text, uint8_t *out);

/* Write base64 with a terminating zero: at most TEXT_BASE64_LEN(data.len) + 1 characters. Returns
 * the number of characters, the zero not counted. */
size_t text_base64_put(struct bytes data, enum text_base64 form, char *ret_text);
/* Read base64 of any form into `out`, which has TEXT_BASE64_BYTES(text.len) bytes. ST_INVALID: a
 * character of another alphabet, an impossible length, wrong padding, or a bit set behind the last
 * byte. */
NODISCARD enum status text_base64_parse(struct bytes text, uint8_t *out, size_t *ret_len);
/* As text_base64_parse, for TEXT_BASE64_URL alone: ST_INVALID also for '+', '/' and padding. So one
 * text stands for the bytes and no other (RFC 7515 2). */
NODISCARD enum status text_base64_url_parse(struct bytes text, uint8_t *out, size_t *ret_len);

#endif
