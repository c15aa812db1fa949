/* Seals: the root key is stored wrapped by a seal key, which is kept outside the state.
 *
 * `static`: the seal key is 32 bytes from a file or a systemd credential; AES-256-GCM wraps the
 * root key. The disk and the seal key together open everything, so keep them apart.
 *
 * `shamir`: the seal key exists only as shares that people hold, and in memory while enough shares
 * are combined. */
#ifndef HOLDFAST_BARRIER_SEAL_H
#define HOLDFAST_BARRIER_SEAL_H

#include "base/bytes.h"
#include "base/status.h"
#include "crypto/crypto.h"

enum { SEAL_KEY_BYTES = 32, SEAL_ID_MAX = 64, SEAL_MARK_BYTES = 16 };

#define BARRIER_SEAL "s/core/seal" /* key of the stored seal */

enum seal_type { SEAL_STATIC = 1, SEAL_SHAMIR = 2 };

/* A seal key. Zero-initialise it; seal_done wipes it. */
struct seal {
    enum seal_type type;
    char id[SEAL_ID_MAX + 1]; /* name of the seal key, stored beside the wrapped root key */
    struct secret key;
    /* How many shares exist, and how many of them combine to the key. Stored with the wrapped root
     * key. With a static seal these are shares of the recovery key; 0: there are none. */
    uint8_t shares, threshold;
    /* The seal key that was in use before, borrowed: it opens stored seals too, and wraps no root
     * key anew unless the cluster is still under it. NULL: none. */
    const struct seal *previous;
};
void seal_done(struct seal *seal);

/* A seal of key shares. `key` has SEAL_KEY_BYTES: a new key, or a key that was combined from
 * shares. ST_NOMEM. */
NODISCARD enum status seal_shamir(struct bytes key, unsigned shares, unsigned threshold,
                                  struct seal *ret_seal);

/* The seal key of this name: `seal`, or its previous key. NULL: neither; also without a seal. */
const struct seal *seal_named(const struct seal *seal, const char *id);

/* A mark of id and key of a static seal, without a hint to the key: two nodes have the same mark if
 * they are configured for the same key under the same id. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_mark(const struct seal *seal, uint8_t ret_mark[SEAL_MARK_BYTES]);

/* The public part of a stored seal, read without its key. ST_CORRUPT. */
struct seal_info {
    enum seal_type type;
    char id[SEAL_ID_MAX + 1];
    unsigned shares, threshold;
    uint64_t stamp; /* hash of the stored seal: every stored seal has another */
};
NODISCARD enum status seal_info_read(struct bytes record, struct seal_info *ret_info);

/* Whether `seal`, or its previous key, opens a stored seal. ST_INVALID with a reason: `seal` does
 * not open it. ST_CORRUPT with a reason; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_check(const struct seal *seal, struct bytes record,
                                 struct reason *reason);

/* A static seal. `key`: 32 raw bytes, 64 hex digits or base64 of 32 bytes; the text forms may end
 * in one newline. `id`: 1..SEAL_ID_MAX printable characters, or NULL for an id derived from the
 * key. ST_INVALID with a reason that does not show the key; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_static(struct bytes key, const char *id, struct seal *ret_seal,
                                  struct reason *reason);
/* A static seal with the key in a file, in a form that seal_static takes. The file obeys the rule
 * of crypto/key_file.h. ST_NOT_FOUND, ST_DENIED, ST_INVALID, ST_IO with a reason. Blocks. */
NODISCARD enum status seal_static_file(const char *path, const char *id, struct seal *ret_seal,
                                       struct reason *reason);
/* A static seal with the key in the systemd credential `name`: the file
 * $CREDENTIALS_DIRECTORY/name. Without that variable: the file credentials/name beside
 * `config_file`, under the rules of seal_static_file. Statuses as seal_static_file. */
NODISCARD enum status seal_static_credential(const char *name, const char *config_file,
                                             const char *id, struct seal *ret_seal,
                                             struct reason *reason);

#endif
