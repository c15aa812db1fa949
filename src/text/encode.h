/* Bytes as text: hex, and base64 (RFC 4648 sections 4 and 5). Any thread. */
#ifndef HOLDFAST_TEXT_ENCODE_H
#define HOLDFAST_TEXT_ENCODE_H

#include "base/bytes.h"
#include "base/status.h"

#define TEXT_HEX_LEN(n) (2 * (n))
#define TEXT_BASE64_LEN(n) (((n) + 2) / 3 * 4) /* at most, whatever the form */
#define TEXT_BASE64_BYTES(len) ((len) / 4 * 3 + 3)

enum text_base64 {
    TEXT_BASE64,     /* '+' and '/', padded */
    TEXT_BASE64_RAW, /* the same without padding */
    TEXT_BASE64_URL, /* '-' and '_', without padding */
};

/* Lower case, terminated: TEXT_HEX_LEN(data.len) + 1 characters. */
void text_hex_put(struct bytes data, char *ret_text);
/* `out` has text.len / 2 bytes. ST_INVALID: another character, or an odd number of them. */
NODISCARD enum status text_hex_parse(struct bytes text, uint8_t *out);

/* Terminated: at most TEXT_BASE64_LEN(data.len) + 1 characters. Returns their number. */
size_t text_base64_put(struct bytes data, enum text_base64 form, char *ret_text);
/* Any of the forms; `out` has TEXT_BASE64_BYTES(text.len) bytes. ST_INVALID: another character, a
 * length that cannot be, wrong padding, or bits that belong to no byte. */
NODISCARD enum status text_base64_parse(struct bytes text, uint8_t *out, size_t *ret_len);

#endif
