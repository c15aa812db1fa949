/* From the forms in which clients send keys to binary packets. */
#ifndef HOLDFAST_CRYPTO_PGP_PGP_ARMOR_H
#define HOLDFAST_CRYPTO_PGP_PGP_ARMOR_H

#include "base/buf.h"
#include "base/status.h"

/* Decode binary packets, ASCII armour (RFC 9580 6.2), or base64 of either; append to `ret_binary`,
 * at most PGP_BINARY_MAX bytes. White space around and in base64 is skipped. ST_INVALID with a
 * reason; ST_NOMEM. */
NODISCARD enum status pgp_armor_decode(struct bytes text, struct buf *ret_binary,
                                       struct reason *reason);

#endif
