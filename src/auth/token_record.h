/* The stored form of a token: compact, because there may be very many.
 *
 *   format   u8 = 1
 *   flags    u8: 1 renewable, 2 batch, 4 bound to addresses
 *   expire   varint, ms; 0: never
 *   parent   text
 *   depth, created ms, renewed ms, creation ttl s, explicit max ttl s, period s, uses: varints
 *   accessor, display name, path, role, entity id: texts
 *   policies varint n, n texts
 *   meta     varint n, 2 n texts
 *   bound    varint n > 0, n texts: where it is
 *
 * A text is a block whose last byte is its only zero, so that a reader borrows it in place. What
 * checking an ancestor needs comes first. */
#ifndef HOLDFAST_AUTH_TOKEN_RECORD_H
#define HOLDFAST_AUTH_TOKEN_RECORD_H

#include "auth/token.h"

/* Append the record. A failed allocation shows in the status of `out`. */
void token_record_put(const struct auth_token *token, struct buf *out);
/* Everything but the id, which a record does not hold; borrows from it. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status token_record_read(struct bytes record, struct arena *arena,
                                        struct auth_token *ret_token);

#endif
