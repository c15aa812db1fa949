/* Accessors: names of tokens that their holders may show, because a request needs the bearer.
 *
 *   derived   the id of the token in another alphabet. No key of the state names it: the accessor
 *             gives the id, and the id the record, which says that its accessor is derived.
 *   indexed   random; the key s/ns/NS/accessor/ACCESSOR leads to the id
 *
 * A token has a derived accessor if the server drew its bearer at TOKEN_ACCESSOR_FEATURE or later.
 * Builds below that level look into the index alone. A bearer that a client chose may be chosen
 * again when its token has ended. The accessor of the later token must be another one, so the
 * accessor of a chosen bearer is random.
 *
 * A derived accessor tells the id and nothing more. The id is not a secret: it is one half of the
 * HMAC of the bearer, under a key that the barrier encrypts (token.h). Leases and logs name it.
 *
 * A derived accessor is the id as a number in base 62, most significant digit first, with leading
 * zeros. So the order of the derived accessors is the order of the ids. */
#ifndef HOLDFAST_AUTH_TOKEN_ACCESSOR_H
#define HOLDFAST_AUTH_TOKEN_ACCESSOR_H

#include "auth/token_record.h"

enum { TOKEN_ACCESSOR_FEATURE = 2 }; /* feature level of derived accessors */

/* The derived accessor of `id`, zero-terminated. ST_INVALID: `id` is not AUTH_TOKEN_ID_LEN hex
 * digits of lower case. */
NODISCARD enum status token_accessor_of(struct bytes id, char ret_accessor[AUTH_ACCESSOR_LEN + 1]);
/* The id of a derived accessor, zero-terminated. ST_INVALID: token_accessor_of gives this text for
 * no id. An indexed accessor is such a text, or by chance is not. */
NODISCARD enum status token_accessor_id(struct bytes accessor, char ret_id[AUTH_TOKEN_ID_LEN + 1]);

/* The last id whose derived accessor is `text` or comes before it in the order of bytes. Any text
 * is allowed. ST_NOT_FOUND: every derived accessor comes behind `text`. */
NODISCARD enum status token_accessor_before(struct bytes text, char ret_id[AUTH_TOKEN_ID_LEN + 1]);

#endif
