/* Tokenization: the text of a token, the keys of a transformation, the stored rows. README.md has
 * the construction.
 *
 *   tokens/NAME                            id, fixed key and settings of the keys
 *   token-key/NAME/VERSION                 a version of the key, 8 hex digits
 *   token/ID/LOOKUP                        a row: the sealed value
 *   fingerprint/ID/PRINT/EXPIRY/LOOKUP     finds the rows of a value; no value
 *
 * ID, LOOKUP and PRINT are base64url; EXPIRY is 12 hex digits of ms, all zero: never. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_TOKEN_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_TOKEN_H

#include "api/transform/transform_op.h"
#include "api/transform/transform_record.h"
#include "crypto/aead.h"
#include "crypto/hkdf.h"
#include "crypto/hmac.h"
#include "lease/expiry.h"
#include "text/time.h"

enum {
    TRANSFORM_TOKEN_FEATURE = 5, /* feature level of the keys above */
    TRANSFORM_TOKEN_ID = 16,     /* bytes of a random id */
    TRANSFORM_TOKEN_ID_MAX = 32, /* of a convergent one */
    TRANSFORM_TOKEN_MAC = 12,
    TRANSFORM_TOKEN_HEADER_MAX = 64,
    TRANSFORM_TOKEN_BYTES_MAX = 96,
    TRANSFORM_TOKEN_TEXT_MAX = 136,
    TRANSFORM_SCOPE = 16, /* bytes of the id of a transformation */
    TRANSFORM_DIGEST = HMAC_BYTES,
    TRANSFORM_SEAL_OVERHEAD = AEAD_NONCE_BYTES + AEAD_TAG_BYTES,
    TRANSFORM_METADATA_MAX = 16 * 1024,
};

/* The only text for what is no token, and for a token that is not known. */
#define TRANSFORM_NO_TOKEN "value: no valid token of the transformation"

/* The parts of a token. */
struct transform_token {
    uint8_t id[TRANSFORM_TOKEN_ID_MAX], mac[TRANSFORM_TOKEN_MAC];
    size_t id_len;        /* TRANSFORM_TOKEN_ID or TRANSFORM_TOKEN_ID_MAX */
    uint32_t key_version; /* 0: the fixed key */
    int64_t expire_s;     /* with expire_ns: when it ends; both 0: never */
    uint32_t expire_ns;
};
/* The end in ms; 0: never. A part of a millisecond is cut off. */
int64_t transform_token_expiry(const struct transform_token *token);
void transform_token_set_expiry(struct transform_token *token, int64_t expire_ms);
/* The authenticated bytes. Returns their number. */
size_t transform_token_header(const struct transform_token *token,
                              uint8_t ret_header[TRANSFORM_TOKEN_HEADER_MAX]);
/* Write the text with a terminating zero. Returns its length. */
size_t transform_token_put(const struct transform_token *token,
                           char ret_text[TRANSFORM_TOKEN_TEXT_MAX + 1]);
/* Read a text. The mac is not checked. ST_INVALID. */
NODISCARD enum status transform_token_parse(struct bytes text, struct transform_token *ret_token);

/* A version of the key, with what is derived from it. */
struct transform_token_key {
    uint32_t version; /* 0: the fixed key, which is never rotated */
    uint8_t key[TRANSFORM_KEY_BYTES], scope[TRANSFORM_SCOPE];
    struct hmac *mac, *lookup;
    struct transform_token_key *next;
};
/* The sealed parts of a row. A part cannot take the place of another one. */
enum transform_part { TRANSFORM_VALUE = 'v', TRANSFORM_METADATA = 'm', TRANSFORM_ID = 'i' };

/* Derive a key: HKDF over `key`, the id of the transformation and a label. */
NODISCARD enum status transform_token_derive(const uint8_t key[TRANSFORM_KEY_BYTES],
                                             const uint8_t scope[TRANSFORM_SCOPE],
                                             const char *label, uint8_t ret_key[HKDF_BYTES]);
/* An HMAC with a derived key. */
NODISCARD enum status transform_token_hmac(const uint8_t key[TRANSFORM_KEY_BYTES],
                                           const uint8_t scope[TRANSFORM_SCOPE], const char *label,
                                           struct hmac **ret_hmac);
/* Derive mac and lookup of a key whose other members are set. `done` wipes it. */
NODISCARD enum status transform_token_key_init(struct transform_token_key *key);
void transform_token_key_done(struct transform_token_key *key);
/* Set the mac. */
NODISCARD enum status transform_token_sign(const struct transform_token_key *key,
                                           struct transform_token *token);
/* ST_INVALID: the mac is of another key or another token. */
NODISCARD enum status transform_token_verify(const struct transform_token_key *key,
                                             const struct transform_token *token);
/* The id of a convergent token, and the fingerprint of a value. */
NODISCARD enum status transform_token_converge(struct hmac *ids, struct bytes value,
                                               int64_t expire_ms, uint8_t ret_id[TRANSFORM_DIGEST]);

/* The keys and the place that seal and open the parts of a row. */
struct transform_sealer {
    const uint8_t *key, *scope, *lookup; /* of the version in the row; TRANSFORM_DIGEST bytes */
    struct bytes id;                     /* of the token; not needed for TRANSFORM_ID */
    int64_t expire_ms;
};
/* Append nonce, ciphertext and tag. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status transform_seal(const struct transform_sealer *sealer,
                                     enum transform_part part, struct bytes plain, struct buf *out);
/* Append the plaintext. ST_CORRUPT: not sealed so. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status transform_open(const struct transform_sealer *sealer,
                                     enum transform_part part, struct bytes sealed,
                                     struct buf *out);

/* The keys of a transformation as they are stored. */
struct transform_ring {
    uint8_t scope[TRANSFORM_SCOPE], fixed[TRANSFORM_KEY_BYTES];
    uint32_t latest, min_available, min_decryption; /* min_available 0: nothing was trimmed */
    int64_t auto_rotate_s, rotated_ms;              /* auto_rotate_s 0: never */
    bool imported, allow_rotation; /* clients bring the versions; the server may add its own too */
};
/* ST_NOT_FOUND: no tokenization of this name. */
NODISCARD enum status transform_ring_load(struct req *req, const char *name,
                                          struct transform_ring *ret_ring);
NODISCARD enum status transform_ring_save(struct req *req, const char *name,
                                          const struct transform_ring *ring);
/* `key` NULL: the server makes the first version; else a client brings it. */
NODISCARD enum status transform_ring_create(struct req *req, const char *name, const uint8_t *key);
NODISCARD enum status transform_ring_rotate(struct req *req, const char *name,
                                            struct transform_ring *ring);
/* Add a version that a client brings. */
NODISCARD enum status transform_ring_add(struct req *req, const char *name,
                                         struct transform_ring *ring,
                                         const uint8_t key[TRANSFORM_KEY_BYTES]);
/* Set period and time of the last rotation, and move the entry of the next one. */
NODISCARD enum status transform_ring_schedule(struct req *req, const char *name,
                                              struct transform_ring *ring, int64_t auto_rotate_s);
/* Delete all versions below `least`. */
NODISCARD enum status transform_ring_trim(struct req *req, const char *name,
                                          struct transform_ring *ring, uint32_t least);
/* Delete keys and rows. ST_OK also if there are none. */
NODISCARD enum status transform_ring_delete(struct req *req, const char *name);

struct transform_sql;

/* A transformation in use by a request, freed when its transaction ends. */
struct transform_tokens {
    struct req *req;
    const char *name;
    bool convergent, exportable;
    int64_t max_ttl_s;
    struct transform_ring ring;
    char scope[TRANSFORM_SCOPE * 2]; /* base64url */
    struct hmac *print, *ids;        /* of the fixed key; NULL until used */
    struct transform_token_key *keys;
    bool warned_cap, warned_relative, warned_many, abandons;
    bool is_internal;          /* builtin/internal is one of the stores */
    struct transform_sql *sql; /* the stores outside (transform_sql.h); NULL: none */
    bool waits;                /* the item needs rows of stores outside: it runs again */
    bool outside;              /* the second run, after those stores were read */
    size_t found;              /* tokens that look-ups of the request have found */
    struct req_cleanup cleanup;
};
NODISCARD enum status transform_tokens_load(struct req *req, const char *name,
                                            const struct transform_transformation *t,
                                            struct transform_tokens **ret_tokens);
/* The key of a version, 0 to ring.latest. ST_NOT_FOUND: it was trimmed. */
NODISCARD enum status transform_tokens_key(struct transform_tokens *t, uint32_t version,
                                           struct transform_token_key **ret_key);
NODISCARD enum status transform_tokens_print(struct transform_tokens *t, struct bytes value,
                                             uint8_t ret_print[TRANSFORM_DIGEST]);
NODISCARD enum status transform_tokens_id(struct transform_tokens *t, struct bytes value,
                                          int64_t expire_ms, uint8_t ret_id[TRANSFORM_DIGEST]);
NODISCARD enum status transform_tokens_lookup(const struct transform_token_key *key,
                                              const struct transform_token *token,
                                              uint8_t ret_lookup[TRANSFORM_DIGEST]);
/* Whether rows with this version of the data key may be decoded. */
bool transform_tokens_decodes(const struct transform_tokens *t, uint32_t key_version);

/* A row. */
struct transform_row {
    uint32_t key_version; /* of the data key */
    uint8_t print[TRANSFORM_DIGEST];
    int64_t expire_ms;                /* 0: never */
    struct bytes value, metadata, id; /* sealed; metadata and id may be empty */
};
extern const struct record transform_row_record;
/* Find a row: in the state, else in the stores outside. ST_NOT_FOUND. ST_BUSY: the row was noted
 * for the second run. */
NODISCARD enum status transform_row_find(struct transform_tokens *t,
                                         const uint8_t lookup[TRANSFORM_DIGEST],
                                         struct transform_row *ret_row);
/* The functions below are about rows in the state. */
NODISCARD enum status transform_row_load(struct transform_tokens *t,
                                         const uint8_t lookup[TRANSFORM_DIGEST],
                                         struct transform_row *ret_row);
/* Stage the row, its fingerprint and the entry of its end. */
NODISCARD enum status transform_row_save(struct transform_tokens *t,
                                         const uint8_t lookup[TRANSFORM_DIGEST],
                                         const struct transform_row *row);
NODISCARD enum status transform_row_delete(struct transform_tokens *t,
                                           const uint8_t lookup[TRANSFORM_DIGEST],
                                           const struct transform_row *row);
/* Call `each` with the end of each row of the value, in the order of time, never first, of those
 * that end within [from_ms, to_ms]; 0 to 0: those that never end. It ends the walk by
 * ST_NOT_FOUND, which becomes ST_OK. */
NODISCARD enum status
transform_row_each(struct transform_tokens *t, const uint8_t print[TRANSFORM_DIGEST],
                   int64_t from_ms, int64_t to_ms,
                   enum status (*each)(void *ctx, int64_t expire_ms, struct bytes lookup),
                   void *ctx);
/* The prefix of all rows. */
NODISCARD enum status transform_row_prefix(struct transform_tokens *t, struct bytes *ret_prefix);

/* Fields of tokenization in a transformation: write, and what a reader sees. `stored` NULL: it is
 * created, with a key that a client brings unless `key` is NULL. */
NODISCARD enum status transform_token_write(struct req *req, const char *name,
                                            const struct transform_transformation *in,
                                            const struct transform_transformation *stored,
                                            const uint8_t *key);
/* Check names of stores: ST_INVALID with the request's error. */
NODISCARD enum status transform_store_check(struct req *req, const struct field_strings *stores);

#endif
