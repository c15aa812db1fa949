/* Tokens that a worker decrypted and decoded recently. A hit saves decryption and decoding, not the
 * read: the transaction still reads the stamp of the stored record, and a cached token with another
 * stamp is not used. */
#ifndef HOLDFAST_AUTH_TOKEN_CACHE_H
#define HOLDFAST_AUTH_TOKEN_CACHE_H

#include "auth/token_record.h"
#include "state/state.h"

struct token_cache;
struct token_ref;

enum {
    TOKEN_CACHE_SLOTS = 4096,
    TOKEN_CACHE_SHORT_MAX = 8192,         /* a longer record counts as long */
    TOKEN_CACHE_RECORD_MAX = 256 * 1024,  /* longer records are not kept */
    TOKEN_CACHE_LONG_BYTES = 4096 * 1024, /* of the long records that are kept */
};

NODISCARD enum status token_cache_new(struct token_cache **ret_cache); /* ST_NOMEM. */
void token_cache_free(struct token_cache *cache);                      /* NULL is allowed */
/* Drop every entry. A token with other references lives until they are dropped. NULL is allowed. */
void token_cache_clear(struct token_cache *cache);

/* Decode `record`, which is stored at `key` with `stamp`, into a token with one reference. The last
 * segment of `key` is the id. ST_CORRUPT: not the record of a token. ST_NOMEM. */
NODISCARD enum status token_ref_new(struct bytes key, struct state_stamp stamp, struct bytes record,
                                    struct token_ref **ret_ref);
/* dropping the last reference wipes the token; NULL is allowed */
void token_ref_drop(struct token_ref *ref);

/* The token as its record describes it, and the record. Whether the token is valid is not checked.
 * Borrowed. */
const struct auth_token *token_ref_get(const struct token_ref *ref);
struct bytes token_ref_record(const struct token_ref *ref);

/* Note that transactions of this state_view found the token's stamp in the state. With a view of 0
 * nothing is noted. */
void token_ref_see(struct token_ref *ref, uint64_t view);
/* The token of an id, with a reference that the caller drops. NULL: no transaction of this view has
 * found the token's stamp yet, so the caller reads the state. */
struct token_ref *token_cache_seen(const struct token_cache *cache, const char *ns, const char *id,
                                   uint64_t view);

/* Whether a token of `key` is cached, with whatever stamp. */
bool token_cache_has(const struct token_cache *cache, struct bytes key);
/* The cached token of `key` and `stamp`, with a reference that the caller drops; NULL: not cached.
 */
struct token_ref *token_cache_get(const struct token_cache *cache, struct bytes key,
                                  struct state_stamp stamp);
/* Keep a token. It may evict another token. */
void token_cache_put(struct token_cache *cache, struct token_ref *ref);

#endif
