/* Shared by the files about new shares. */
#ifndef HOLDFAST_API_SEAL_SEAL_REKEY_H
#define HOLDFAST_API_SEAL_SEAL_REKEY_H

#include "api/seal/seal_ceremony.h"

/* seal_rekey.c: whose new shares the path of the request is about: those of the seal's key or of
 * the recovery key. */
enum ceremony_kind seal_rekey_kind(const struct req *req);

/* seal_rekey_backup.c: stage the backup of encrypted shares, replacing an older backup of this
 * kind. ST_NOMEM, ST_CORRUPT; else as state_put. */
NODISCARD enum status seal_rekey_backup_save(struct req *req, const struct ceremony *ceremony,
                                             const struct seal_shares_text *keys);

#endif
