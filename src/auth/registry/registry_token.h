/* Tokens of the registry as they are stored: the part of a token's record (auth/token_record.h).
 *
 * The list of policies of the record has the links (registry_link.h): first policies, then service
 * identities, then node identities. The accessor of the record is the AccessorID, and its expiry
 * the ExpirationTime. The part holds the bearer, because who has acl:write may read the SecretID
 * again; the barrier encrypts the record.
 *
 * 1. The versions of the key of the token in the index of its kind (auth/token_store.h) are
 *    CreateIndex and ModifyIndex: every write of a token, even of equal content, is a change.
 * 2. A link to a policy that was deleted stays in the record, and means nothing.
 * 3. SecretIDs and AccessorIDs of all tokens differ from each other. Source: spec 3, A6. */
#ifndef HOLDFAST_AUTH_REGISTRY_TOKEN_H
#define HOLDFAST_AUTH_REGISTRY_TOKEN_H

#include "auth/registry/registry_anonymous.h"
#include "crypto/blake2b.h"

enum { REGISTRY_TOKEN_LINKS_MAX = 1024 };

/* Bearer of the anonymous token, which clients without a token use. */
#define REGISTRY_TOKEN_ANONYMOUS_SECRET "anonymous"

/* Strings are never NULL; those of a loaded token lie in the arena. */
struct registry_token {
    const char *accessor; /* UUID in lower case */
    const char *secret;   /* as the client chose it */
    const char *description;
    struct field_strings links;
    bool local;
    uint8_t hash[CRYPTO_BLAKE2B256_BYTES];
    int64_t created_ms, expire_ms; /* cluster time; expire_ms 0: never */
    uint64_t created, modified;    /* versions; 0 for a token that this transaction staged */
};

/* Append the part of a token to `out`. buf_status(out) tells a failed allocation. */
void registry_token_put_part(const struct registry_token *token, struct buf *out);
/* Decode a part: secret, description, local and hash. Borrows from `part`. ST_CORRUPT. */
NODISCARD enum status registry_token_read_part(struct bytes part, struct registry_token *ret_token);

/* The token of the record `stored`, of kind TOKEN_REGISTRY, which this transaction loaded. Borrows
 * from `stored`. ST_CORRUPT; ST_NOT_FOUND: the index of the kind lacks the token; else as
 * state_get. */
NODISCARD enum status registry_token_of(const struct auth_scope *scope,
                                        const struct auth_token *stored,
                                        struct registry_token *ret_token);
/* The key whose versions are those of the token, in the arena. ST_NOMEM. */
NODISCARD enum status registry_token_key(struct arena *arena, const char *ns, const char *id,
                                         struct bytes *ret_key);

/* Stage a new token, and set its hash. auth_token_is_used has found neither secret nor accessor in
 * use, in this transaction. As auth_token_add. */
NODISCARD enum status registry_token_add(const struct auth_scope *scope,
                                         struct registry_token *token);
/* Stage a changed token in place of `stored`, and set its hash. Accessor, secret and expiry are
 * those of `stored`. As token_store_put. */
NODISCARD enum status registry_token_put(const struct auth_scope *scope,
                                         const struct auth_token *stored,
                                         struct registry_token *token);

/* Stage the anonymous token unless it is stored, or a token of another API has its bearer. As
 * registry_token_add. */
NODISCARD enum status registry_token_put_anonymous(const struct auth_scope *scope);

#endif
