/* The HMACs that a cipher context made recently. A bearer that comes with every request is not
 * hashed each time. The memo does not keep messages: a tag of 128 bits (crypto/siphash.h), made
 * with a random key of the memo, stands for each message. Only one thread at a time may use a memo.
 * Private to src/barrier. */
#ifndef HOLDFAST_BARRIER_MAC_MEMO_H
#define HOLDFAST_BARRIER_MAC_MEMO_H

#include "barrier/limits.h"
#include "base/env.h"

enum { MAC_MEMO_SLOTS = 1024 };

struct mac_memo;

NODISCARD enum status mac_memo_new(struct env *env, struct mac_memo **ret_memo); /* ST_NOMEM. */
void mac_memo_free(struct mac_memo *memo); /* wipes the results; NULL is allowed */

/* The HMAC of a message. False: the memo does not hold it. */
bool mac_memo_get(const struct mac_memo *memo, struct bytes message,
                  uint8_t ret_mac[BARRIER_MAC_BYTES]);
void mac_memo_put(struct mac_memo *memo, struct bytes message,
                  const uint8_t mac[BARRIER_MAC_BYTES]);

#endif
