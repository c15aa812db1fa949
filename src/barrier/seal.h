/* How the root key is kept: wrapped by something outside the state.
 *
 * `static`: a 32-byte key from a file or a systemd credential wraps it with AES-256-GCM. The disk
 * and this key together open everything, so keep them apart.
 *
 * `shamir`: the same, but the key exists only in the shares that were given to people, and in
 * memory while enough of them are put together. */
#ifndef HOLDFAST_BARRIER_SEAL_H
#define HOLDFAST_BARRIER_SEAL_H

#include "base/bytes.h"
#include "base/status.h"
#include "crypto/crypto.h"

enum { SEAL_KEY_BYTES = 32, SEAL_ID_MAX = 64 };

enum seal_type { SEAL_STATIC = 1, SEAL_SHAMIR = 2 };

/* Zero-initialise; seal_done wipes. */
struct seal {
    enum seal_type type;
    char id[SEAL_ID_MAX + 1]; /* names the key; stored beside what it wraps */
    struct secret key;
    /* Stored with it: how many shares were given out and how many it takes. Of the key, or with a
     * static seal of the recovery key; 0: none. */
    uint8_t shares, threshold;
};
void seal_done(struct seal *seal);

/* A fresh key, or one put together from its shares (`key` has SEAL_KEY_BYTES). ST_NOMEM. */
NODISCARD enum status seal_shamir(struct bytes key, unsigned shares, unsigned threshold,
                                  struct seal *ret_seal);

/* The public part of a stored seal, read without its key. ST_CORRUPT. */
struct seal_info {
    enum seal_type type;
    char id[SEAL_ID_MAX + 1];
    unsigned shares, threshold;
    uint64_t stamp; /* tells this stored seal from any other */
};
NODISCARD enum status seal_info_read(struct bytes record, struct seal_info *ret_info);

/* Whether `seal` opens a stored seal. ST_INVALID with a reason: it does not. ST_CORRUPT with a
 * reason; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_check(const struct seal *seal, struct bytes record,
                                 struct reason *reason);

/* `key`: 32 raw bytes, 64 hex digits or base64 of 32 bytes; the text forms may end in one newline.
 * `id`: 1..SEAL_ID_MAX printable characters, or NULL for one derived from the key. ST_INVALID with
 * a reason that does not show the key; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_static(struct bytes key, const char *id, struct seal *ret_seal,
                                  struct reason *reason);
/* From a file of one of those forms: regular, ours or root's, with no permission for group or
 * others. ST_NOT_FOUND, ST_DENIED, ST_INVALID, ST_IO with a reason. Blocks. */
NODISCARD enum status seal_static_file(const char *path, const char *id, struct seal *ret_seal,
                                       struct reason *reason);
/* From the systemd credential `name`: $CREDENTIALS_DIRECTORY/name. Where no systemd set that
 * variable: credentials/name beside `config_file`, under the rules of seal_static_file. As that. */
NODISCARD enum status seal_static_credential(const char *name, const char *config_file,
                                             const char *id, struct seal *ret_seal,
                                             struct reason *reason);

#endif
