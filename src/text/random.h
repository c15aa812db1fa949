/* Random texts: secrets, names and identifiers. The random bytes are those of the env. */
#ifndef HOLDFAST_TEXT_RANDOM_H
#define HOLDFAST_TEXT_RANDOM_H

#include "base/env.h"

/* `n` random characters of [0-9A-Za-z], terminated: `out` has room for n + 1. */
void text_random(struct env *env, char *out, size_t n);

/* A random UUID (RFC 9562, version 4), terminated. */
enum { TEXT_UUID_LEN = 36 };
void text_uuid(struct env *env, char ret_uuid[TEXT_UUID_LEN + 1]);
/* A UUID made of the caller's random bytes, terminated. */
enum { TEXT_UUID_RANDOM = 16 };
void text_uuid_of(const uint8_t random[TEXT_UUID_RANDOM], char ret_uuid[TEXT_UUID_LEN + 1]);
/* Read a UUID of any version, "8-4-4-4-12" hex digits in either case, into lower case, terminated.
 * ST_INVALID. */
NODISCARD enum status text_uuid_parse(struct bytes text, char ret_uuid[TEXT_UUID_LEN + 1]);

#endif
