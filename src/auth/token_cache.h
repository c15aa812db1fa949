/* Tokens that were decrypted and decoded lately, for one worker. What is found here was read by the
 * transaction all the same: the stamp of what is stored decides whether the copy is that of now. */
#ifndef HOLDFAST_AUTH_TOKEN_CACHE_H
#define HOLDFAST_AUTH_TOKEN_CACHE_H

#include "auth/token_record.h"
#include "state/state.h"

struct token_cache;
struct token_ref;

enum { TOKEN_CACHE_SLOTS = 4096, TOKEN_CACHE_RECORD_MAX = 8192 /* longer ones are not kept */ };

NODISCARD enum status token_cache_new(struct token_cache **ret_cache); /* ST_NOMEM */
void token_cache_free(struct token_cache *cache);                      /* NULL is allowed */
/* Forgets all but what others have references to. NULL is allowed. */
void token_cache_clear(struct token_cache *cache);

/* The token stored at `key`, whose last segment is its id, as of `stamp`, with one reference.
 * ST_CORRUPT: it is no record. ST_NOMEM. */
NODISCARD enum status token_ref_new(struct bytes key, struct state_stamp stamp, struct bytes record,
                                    struct token_ref **ret_ref);
void token_ref_drop(struct token_ref *ref); /* wipes with the last one; NULL is allowed */

/* As its record says; whether it is good is not known. Borrowed. */
const struct auth_token *token_ref_get(const struct token_ref *ref);
struct bytes token_ref_record(const struct token_ref *ref);

/* The transactions of this state_view found the reference's stamp in the state; 0 says nothing. */
void token_ref_see(struct token_ref *ref, uint64_t view);
/* The token of an id, with a reference that the caller drops, if transactions of this view have
 * found its stamp; NULL: look there. */
struct token_ref *token_cache_seen(const struct token_cache *cache, const char *ns, const char *id,
                                   uint64_t view);

/* The token at `key` as of `stamp`, with a reference that the caller drops; NULL: not here. */
struct token_ref *token_cache_get(const struct token_cache *cache, struct bytes key,
                                  struct state_stamp stamp);
/* Keep it, in place of another one perhaps. */
void token_cache_put(struct token_cache *cache, struct token_ref *ref);

#endif
