/* Hashes of passwords as text: Argon2id (RFC 9106), and bcrypt texts that were made elsewhere. Slow
 * by design: call on the pool. Any thread. */
#ifndef HOLDFAST_CRYPTO_PHASH_H
#define HOLDFAST_CRYPTO_PHASH_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    PHASH_TEXT_MAX = 256,         /* longest text, with the zero */
    PHASH_MEMORY_KIB = 19 * 1024, /* of our own hashes: 19 MiB, two passes, one lane */
    PHASH_PASSES = 2,
    PHASH_PASSWORD_MAX = 1024,
};

/* Hash a password with a random salt. ST_CRYPTO; ST_NOMEM. */
NODISCARD enum status phash_make(struct bytes password, char ret_text[PHASH_TEXT_MAX]);

/* Whether a password has this hash. ST_INVALID: the text is none that can be checked: another kind,
 * or one with more memory, passes or lanes than this server spends. ST_NOMEM. */
NODISCARD enum status phash_check(const char *text, struct bytes password, bool *ret_same);

/* Whether phash_check can check a text, without work. */
bool phash_is_known(const char *text);
/* Whether a text has our own kind and strength. */
bool phash_is_ours(const char *text);
/* A text that no password has, and that costs as much to check as our own. */
extern const char phash_of_nothing[];

#endif
