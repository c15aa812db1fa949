/* CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 B.4). Any thread. */
#ifndef HOLDFAST_BASE_CRC32C_H
#define HOLDFAST_BASE_CRC32C_H

#include "base/bytes.h"

/* The CRC of `b`, continuing from `crc`; start with 0. Uses the processor's CRC instructions if it
 * has them (SSE 4.2, ARMv8 CRC). */
uint32_t crc32c(uint32_t crc, struct bytes b);

/* crc32c without CRC instructions. */
uint32_t crc32c_portable(uint32_t crc, struct bytes b);

#endif
