/* Records of tokens that were decrypted lately, for one worker. What is found here was read by the
 * transaction all the same: the stamp of what is stored decides whether the copy is that of now. */
#ifndef HOLDFAST_AUTH_TOKEN_CACHE_H
#define HOLDFAST_AUTH_TOKEN_CACHE_H

#include "state/state_txn.h"

struct token_cache;

enum { TOKEN_CACHE_SLOTS = 4096, TOKEN_CACHE_RECORD_MAX = 2048 /* longer ones are not kept */ };

NODISCARD enum status token_cache_new(struct token_cache **ret_cache); /* ST_NOMEM */
void token_cache_free(struct token_cache *cache);                      /* wipes; NULL is allowed */
void token_cache_clear(struct token_cache *cache);                     /* wipes; NULL is allowed */

/* The record at `key` as of `stamp`, borrowed until the next call; data NULL: not here. */
struct bytes token_cache_get(const struct token_cache *cache, struct bytes key,
                             struct state_stamp stamp);
/* Keep a copy, in place of another one perhaps. Without memory it is not kept. */
void token_cache_put(struct token_cache *cache, struct bytes key, struct state_stamp stamp,
                     struct bytes record);

#endif
