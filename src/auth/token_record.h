/* The stored form of a token: compact, because there may be very many.
 *
 *   format   u8 = 1
 *   flags    u8: 1 renewable, 2 batch, 4 bound to addresses; from TOKEN_KEEPS_FEATURE on 8 has
 *            keys below it; from TOKEN_ACCESSOR_FEATURE on 16 accessor is derived
 *   expire   varint, ms; 0: never
 *   parent   text
 *   depth, created ms, renewed ms, creation ttl s, explicit max ttl s, period s, uses: varints
 *   accessor, display name, path, role, entity id: texts
 *   policies varint n, n texts
 *   meta     varint n, 2 n texts
 *   bound    varint n > 0, n texts; only with flag 4
 *
 * The record of a token of another kind, from REGISTRY_FEATURE on:
 *
 *   format   u8 = 2
 *   kind     u8: 1 registry, 2 scheduler, 3 platform
 *   expire   varint, ms; 0: never
 *   created  varint, ms
 *   accessor text
 *   policies varint n, n texts: what the kind links the token to
 *   part     block: belongs to the kind
 *
 * A text is a block whose last byte is its only zero byte, so a reader can borrow the text in
 * place. The fields that a check of an ancestor needs come first. */
#ifndef HOLDFAST_AUTH_TOKEN_RECORD_H
#define HOLDFAST_AUTH_TOKEN_RECORD_H

#include "base/arena.h"
#include "base/buf.h"
#include "text/schema.h"
#include "text/time.h"

enum {
    AUTH_TOKEN_MAX = 4096, /* longest bearer */
    AUTH_ACCESSOR_LEN = 24,
    AUTH_TOKEN_ID_LEN = 32,
    AUTH_TOKEN_DEPTH_MAX = 64, /* most ancestors of a token */
    TOKEN_KEEPS_FEATURE = 2,   /* feature level of `keeps` */
};

/* The API that takes a token. The numbers are stored. */
enum token_kind { TOKEN_SECRETS, TOKEN_REGISTRY, TOKEN_SCHEDULER, TOKEN_PLATFORM, TOKEN_KINDS };
/* "secrets", "registry" and so on. */
const char *token_kind_name(enum token_kind kind);

#define AUTH_TYPE_SERVICE "service"
#define AUTH_TYPE_BATCH "batch"

/* A token. Strings are never NULL. The strings of a loaded token lie in the arena of the loader.
 * Times are cluster time.
 *
 * A token of another kind than TOKEN_SECRETS has only an id, an accessor, policies, a part, a time
 * of creation and an expiry; its type is the name of its kind. It has no parent, children, leases
 * or cubbyhole, is not renewed and may be used any number of times. */
struct auth_token {
    enum token_kind kind;
    struct bytes part; /* belongs to the kind; empty for TOKEN_SECRETS */
    /* The id names the keys of the record and of the cubbyhole, "s/ns/NS/cubby/ID/". It consists of
     * hex digits of the bearer's HMAC and never changes. "" for a token that is not stored. */
    const char *id;
    const char *parent;   /* id of the parent; "": the token has no parent */
    const char *accessor; /* accessor of the token; "" for a batch token */
    const char *display_name, *path, *type, *role, *entity_id;
    struct field_strings policies;
    /* `policies` as encoded in the record; empty: the token was not read from a record */
    struct bytes policies_text;
    uint64_t policies_hash; /* hash of policies_text */
    struct field_map meta;
    /* addresses that may use the token; none listed: every address */
    struct field_strings bound_cidrs;
    int64_t created_ms, expire_ms, renewed_ms; /* times in cluster time; 0: never */
    int64_t creation_ttl_s, explicit_max_ttl_s, period_s;
    int64_t num_uses; /* uses left after this one; 0: any number, unless limited */
    unsigned depth;   /* number of ancestors at creation */
    bool orphan, renewable;
    bool limited; /* the token has a limited number of uses */
    bool keeps;   /* the token has, or had, a child, a lease or a cubbyhole (token.h, 4.) */
    bool derived; /* the accessor is derived from the id (token_accessor.h) */
};

/* Whether the token is a batch token: an encrypted record that is stored nowhere. */
bool auth_token_is_batch(const struct auth_token *token);

/* The TTL that the newest renewal gave, or the creation if there was no renewal. A renewal that
 * names no TTL gives this TTL again. 0: the token never expires. */
int64_t auth_token_granted_s(const struct auth_token *token);

/* A token of another kind than TOKEN_SECRETS, without accessor, policies, part and times. */
struct auth_token auth_token_of_kind(enum token_kind kind);

/* Append the record to `out`. buf_status(out) tells a failed allocation. */
void token_record_put(const struct auth_token *token, struct buf *out);
/* Decode a record into all fields but the id, which a record does not hold. The token borrows from
 * `record`. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status token_record_read(struct bytes record, struct arena *arena,
                                        struct auth_token *ret_token);

#endif
