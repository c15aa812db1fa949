/* Shared by the files about new shares. */
#ifndef HOLDFAST_API_SYS_SEAL_SYS_REKEY_H
#define HOLDFAST_API_SYS_SEAL_SYS_REKEY_H

#include "api/sys/seal/sys_ceremony.h"

/* sys_rekey.c: whose new shares the path of the request is about: those of the seal's key or of the
 * recovery key. */
enum ceremony_kind sys_rekey_kind(const struct req *req);

/* sys_rekey_backup.c: stage the backup of encrypted shares, replacing an older backup of this kind.
 * ST_NOMEM, ST_CORRUPT; else as state_put. */
NODISCARD enum status sys_rekey_backup_save(struct req *req, const struct ceremony *ceremony,
                                            const struct sys_shares_text *keys);

#endif
