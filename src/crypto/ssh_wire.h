/* Numbers and strings of the SSH protocol (RFC 4251 5): big-endian, a string has a length of 32
 * bits in front. */
#ifndef HOLDFAST_CRYPTO_SSH_WIRE_H
#define HOLDFAST_CRYPTO_SSH_WIRE_H

#include "base/buf.h"

/* Append a number or a string. A failed allocation shows in the status of `out`. */
void ssh_put_u32(struct buf *out, uint32_t n);
void ssh_put_u64(struct buf *out, uint64_t n);           /* as ssh_put_u32 */
void ssh_put_string(struct buf *out, struct bytes text); /* as ssh_put_u32 */
/* A positive number in its shortest form. `number` is big-endian and may begin with zeros. */
void ssh_put_mpint(struct buf *out, struct bytes number);

/* As the functions of `reader`: past the end they give 0 or nothing, and set `failed`. */
uint32_t ssh_take_u32(struct reader *r);
struct bytes ssh_take_string(struct reader *r);
/* A positive number in its shortest form, without the zero in front. Another form fails. */
struct bytes ssh_take_mpint(struct reader *r);

#endif
