/* The hash chain of an audit file. A line of a chained file ends with a member that links the line
 * to the line before:
 *
 *   {"time":…,"chain":{"n":7,"prev":"<hash of line 6>","hash":"<hash of this line>"}}
 *
 *   hash = SHA-256(hash of the line before | n as 8 bytes, big-endian | the line without the
 * member)
 *
 * The line before the first, n = 0, has the hash zero. A prefix belongs to the line. The chain
 * shows a change, removal, insertion or exchange of lines within a range of lines. The chain has no
 * key: who can write the file can compute a new chain, and lines cut off at either end of the range
 * leave no gap. Numbers and last hash, kept elsewhere, show that. */
#ifndef HOLDFAST_AUDIT_CHAIN_H
#define HOLDFAST_AUDIT_CHAIN_H

#include "base/buf.h"
#include "crypto/sha256.h"

enum {
    CHAIN_DIGITS_MAX = 20,
    /* bytes of the longest member, from its comma to the end of the line without newline */
    CHAIN_MEMBER_MAX = sizeof ",\"chain\":{\"n\":,\"prev\":\"\",\"hash\":\"\"}}" - 1 +
                       CHAIN_DIGITS_MAX + 4 * CRYPTO_SHA256_BYTES,
};

/* The end of a chain: number and hash of its last line. Zero: no line yet. */
struct chain {
    uint64_t n;
    uint8_t hash[CRYPTO_SHA256_BYTES];
};

/* The member of a line. */
struct chain_member {
    size_t body_len; /* bytes of the line before the member's comma */
    uint64_t n;
    uint8_t prev[CRYPTO_SHA256_BYTES], hash[CRYPTO_SHA256_BYTES];
};

/* Link the line that begins at `from` and reaches to the end of `text`, a JSON object that has a
 * member and no newline. Memory that ran out shows in buf_status(text); the chain is then as it
 * was. */
void chain_link(struct chain *chain, struct crypto_sha256 *hash, struct buf *text, size_t from);

/* Read the member of a line without its newline; an end of a line suffices. False: the line has no
 * member in the exact form that chain_link writes. */
bool chain_read(struct bytes line, struct chain_member *ret_member);

/* Whether the hash of the line is that of its content, its number and the hash before it. */
bool chain_holds(struct crypto_sha256 *hash, struct bytes line, const struct chain_member *member);

/* Checks the lines of files, in order. Zero-initialise with `hash`. */
struct chain_check {
    struct crypto_sha256 *hash;
    struct chain last;
    uint64_t first; /* the number of the first line; 0: no line yet */
    uint64_t lines; /* lines that fit */
};
/* Check the next line, without its newline. NULL: the line fits; else what is wrong with the line,
 * and the check goes on behind the line if the next line fits to the last good one. `whole`: the
 * line has a newline. */
const char *chain_check_line(struct chain_check *check, struct bytes line, bool whole);

#endif
