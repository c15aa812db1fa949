/* What is done by key shares; part of sys.h. */
#ifndef HOLDFAST_API_SYS_SYS_KEYS_H
#define HOLDFAST_API_SYS_SYS_KEYS_H

#include "router/router.h"

/* sys_ceremony.c. For the active node: stage the end of an attempt that nobody goes on with. As
 * state_delete. */
NODISCARD enum status sys_ceremony_upkeep(struct state_txn *txn, int64_t now_ms);

/* sys_generate_root.c */
struct sys_generate_root {
    const char *otp, *pgp_key;
};
struct sys_share {
    const char *key, *nonce;
};
struct sys_decode_token {
    const char *encoded_token, *otp;
};
extern const struct schema sys_generate_root_schema, sys_share_schema, sys_decode_token_schema;
NODISCARD enum status sys_generate_root_read(struct req *req);
NODISCARD enum status sys_generate_root_begin(struct req *req);
NODISCARD enum status sys_generate_root_cancel(struct req *req);
NODISCARD enum status sys_generate_root_update(struct req *req);
NODISCARD enum status sys_decode_token(struct req *req);

/* sys_rekey.c */
struct sys_rekey {
    int64_t secret_shares, secret_threshold, stored_shares;
    struct field_strings pgp_keys;
    bool backup, require_verification;
};
extern const struct schema sys_rekey_schema;
NODISCARD enum status sys_rekey_read(struct req *req);
NODISCARD enum status sys_rekey_begin(struct req *req);
NODISCARD enum status sys_rekey_cancel(struct req *req);
NODISCARD enum status sys_rekey_update(struct req *req);
NODISCARD enum status sys_rekey_verify_read(struct req *req);
NODISCARD enum status sys_rekey_verify_restart(struct req *req);
NODISCARD enum status sys_rekey_verify(struct req *req);

#endif
