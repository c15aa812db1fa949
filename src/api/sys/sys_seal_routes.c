/* How this node is sealed, and the rituals with key shares. */
#include "api/sys/sys_keys.h"
#include "api/sys/sys_tables.h"

#define SEAL_SHAPE                                                                           \
    "{type:str initialized:bool sealed:bool t:int n:int progress:int nonce:str version:str " \
    "build_date:str migration:bool recovery_seal:bool storage_type:str cluster_name?:str "   \
    "cluster_id?:str}"
#define ROOT_SHAPE                                                     \
    "{nonce:str started:bool progress:int required:int complete:bool " \
    "encoded_token:str encoded_root_token:str pgp_fingerprint:str otp:str otp_length:int}"
#define REKEY_MEMBERS \
    "pgp_fingerprints:[str]~ backup:bool verification_required:bool verification_nonce?:str"
#define REKEY_SHAPE \
    "{nonce:str started:bool t:int n:int progress:int required:int " REKEY_MEMBERS "}"
#define REKEYED_SHAPE                                                                    \
    "{nonce:str started?:bool t?:int n?:int progress?:int required?:int complete?:bool " \
    "keys?:[str] keys_base64?:[str] " REKEY_MEMBERS "}"
#define VERIFY_SHAPE "{nonce:str started?:bool t?:int n?:int progress?:int complete?:bool}"
#define CEREMONY (ROUTE_BARE | ROUTE_OPERATOR | ROUTE_CEREMONY)

static const struct route rows[] = {
    {.method = METHOD_GET,
     .path = "seal-status",
     .handler = sys_seal_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .shape = SEAL_SHAPE,
     .help = "Whether this node is sealed, and how it unseals."},
    {.method = METHOD_POST,
     .path = "unseal",
     .handler = sys_unseal,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .body = &sys_unseal_schema,
     .shape = SEAL_SHAPE,
     .help = "Give this node one key share, or forget those given. Enough of them unseal it. With "
             "a seal that opens by itself the shares are those of the recovery key, and unseal a "
             "node that was sealed on request."},
    {.method = METHOD_POST,
     .path = "seal",
     .handler = sys_nothing_staged,
     .outside = sys_seal_outside,
     .flags = ROUTE_NODE | ROUTE_SUDO,
     .help = "Seal this node: it forgets every key and serves nothing until it is unsealed. Other "
             "nodes go on."},
    {.method = METHOD_POST,
     .path = "rotate",
     .handler = sys_rotate,
     .flags = ROUTE_SUDO | ROUTE_OPERATOR,
     .help = "Encrypt what is written from now on with a new key."},
    {.method = METHOD_POST,
     .path = "rotate/keyring",
     .handler = sys_rotate,
     .flags = ROUTE_SUDO | ROUTE_OPERATOR,
     .help = "The same as rotate."},
    {.method = METHOD_GET,
     .path = "key-status",
     .handler = sys_key_status,
     .flags = ROUTE_TOP_LEVEL | ROUTE_OPERATOR | ROUTE_ACTIVE,
     .shape = "{term:int install_time:str encryptions:int}",
     .help = "The key that values are encrypted with: its term, since when, and how often it was "
             "used; what a node had been granted and not used when it ended counts as used."},
    {.method = METHOD_GET,
     .path = "init",
     .handler = sys_init_read,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .shape = "{initialized:bool}",
     .help = "Whether the cluster was initialised."},
    {.method = METHOD_POST,
     .path = "init",
     .handler = sys_init_write,
     .auth = AUTH_NONE,
     .flags = ROUTE_LEADER | ROUTE_BARE | ROUTE_OPERATOR,
     .body = &sys_init_schema,
     .shape = "{keys:[str] keys_base64:[str] recovery_keys?:[str] recovery_keys_base64?:[str] "
              "root_token:str}",
     .help = "Initialise the cluster, once: makes its keys and the root token."},
    {.method = METHOD_GET,
     .path = "generate-root/attempt",
     .handler = sys_generate_root_read,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = ROOT_SHAPE,
     .help = "How far the making of a root token has come."},
    {.method = METHOD_POST,
     .path = "generate-root/attempt",
     .handler = sys_generate_root_begin,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_generate_root_schema,
     .shape = ROOT_SHAPE,
     .help = "Begin to make a root token, for which enough key shares have to be given (of the "
             "recovery key with a seal that opens by itself). An attempt begun with a token that "
             "may do this is seen and ended only by calls with such a token; another one ends "
             "after ten minutes without a share."},
    {.method = METHOD_DELETE,
     .path = "generate-root/attempt",
     .handler = sys_generate_root_cancel,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .help = "Give the making of a root token up; none under way is fine too."},
    {.method = METHOD_POST,
     .path = "generate-root/update",
     .handler = sys_generate_root_update,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_share_schema,
     .shape = ROOT_SHAPE,
     .help = "Give one key share. The last one is answered with the root token, combined with the "
             "one-time password; shares that do not make the key have to be given anew."},
    {.method = METHOD_GET,
     .path = "rekey/init",
     .handler = sys_rekey_read,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = REKEY_SHAPE,
     .help = "How far the making of new key shares has come."},
    {.method = METHOD_POST,
     .path = "rekey/init",
     .handler = sys_rekey_begin,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_rekey_schema,
     .shape = REKEY_SHAPE,
     .help = "Begin to make new key shares, for which enough of the present ones have to be given. "
             "Who sees and ends it: as with generate-root/attempt."},
    {.method = METHOD_DELETE,
     .path = "rekey/init",
     .handler = sys_rekey_cancel,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .help = "Give the making of new key shares up, also while they are verified: the present ones "
             "go on to count."},
    {.method = METHOD_POST,
     .path = "rekey/update",
     .handler = sys_rekey_update,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_share_schema,
     .shape = REKEYED_SHAPE,
     .help = "Give one present share. The last one is answered with the new key shares, which take "
             "the place of the present ones at once, or when they were verified. Whoever gives "
             "that last one again, within ten minutes, gets the same answer."},
    {.method = METHOD_GET,
     .path = "rekey/verify",
     .handler = sys_rekey_verify_read,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = VERIFY_SHAPE,
     .help = "How many of the new key shares were given back."},
    {.method = METHOD_POST,
     .path = "rekey/verify",
     .handler = sys_rekey_verify,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_share_schema,
     .shape = VERIFY_SHAPE,
     .help = "Give one of the new key shares back. With the last one they take the place of the "
             "present ones."},
    {.method = METHOD_DELETE,
     .path = "rekey/verify",
     .handler = sys_rekey_verify_restart,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = VERIFY_SHAPE,
     .help = "Begin anew to give the new key shares back."},
    {.method = METHOD_GET,
     .path = "rekey-recovery-key/init",
     .handler = sys_rekey_read,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = REKEY_SHAPE,
     .help = "How far the making of new shares of the recovery key has come."},
    {.method = METHOD_POST,
     .path = "rekey-recovery-key/init",
     .handler = sys_rekey_begin,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_rekey_schema,
     .shape = REKEY_SHAPE,
     .help = "Begin to make new shares of the recovery key, for which enough of the present ones "
             "have to be given. "
             "Who sees and ends it: as with generate-root/attempt."},
    {.method = METHOD_DELETE,
     .path = "rekey-recovery-key/init",
     .handler = sys_rekey_cancel,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .help = "Give the making of new shares of the recovery key up, also while they are verified: "
             "the present ones "
             "go on to count."},
    {.method = METHOD_POST,
     .path = "rekey-recovery-key/update",
     .handler = sys_rekey_update,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_share_schema,
     .shape = REKEYED_SHAPE,
     .help = "Give one present share. The last one is answered with the new shares of the recovery "
             "key, which take "
             "the place of the present ones at once, or when they were verified. Whoever gives "
             "that last one again, within ten minutes, gets the same answer."},
    {.method = METHOD_GET,
     .path = "rekey-recovery-key/verify",
     .handler = sys_rekey_verify_read,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = VERIFY_SHAPE,
     .help = "How many of the new shares of the recovery key were given back."},
    {.method = METHOD_POST,
     .path = "rekey-recovery-key/verify",
     .handler = sys_rekey_verify,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .body = &sys_share_schema,
     .shape = VERIFY_SHAPE,
     .help = "Give one of the new shares of the recovery key back. With the last one they take the "
             "place of the "
             "present ones."},
    {.method = METHOD_DELETE,
     .path = "rekey-recovery-key/verify",
     .handler = sys_rekey_verify_restart,
     .auth = AUTH_NONE,
     .flags = CEREMONY,
     .shape = VERIFY_SHAPE,
     .help = "Begin anew to give the new shares of the recovery key back."},
    {.method = METHOD_POST,
     .path = "decode-token",
     .handler = sys_decode_token,
     .auth = AUTH_NONE,
     .flags = ROUTE_READS,
     .body = &sys_decode_token_schema,
     .shape = "{token:str}",
     .help = "Separate a token from the one-time password it was combined with."},
};

const struct route_table sys_seal_table = {rows, ARRAY_LEN(rows)};
