/* The table of commands: what they are called, what they take, what runs. Help and completion come
 * from here. */
#include "cli/commands.h"

#include <stdio.h>

#define FIELD_FLAG                                                                         \
    {                                                                                      \
        "field", CLI_TEXT, "print one field alone, without a newline unless on a terminal" \
    }
#define WRAP_FLAG                                                                              \
    {                                                                                          \
        "wrap-ttl", CLI_TEXT, "keep the answer for this long and print a token for \"unwrap\"" \
    }
#define MOUNT_FLAG                                                                  \
    {                                                                               \
        "mount", CLI_TEXT, "where the engine is mounted; the path is then below it" \
    }
#define VERSIONS_FLAG                                                    \
    {                                                                    \
        "versions", CLI_MANY, "numbers of versions, with commas between" \
    }
#define CAS_FLAG                                                                        \
    {                                                                                   \
        "cas", CLI_INT, "write only if this is the current version; 0: only if none is" \
    }
#define FLAGS(table) .flags = (table), .n_flags = ARRAY_LEN(table)
#define ARGS(text, min, max) .args = (text), .args_min = (min), .args_max = (max)
#define DATA "[KEY=VALUE | KEY=@FILE | KEY=- | @FILE | -]…"

enum { ANY = 1024 };

static const struct cli_flag field_flags[] = {FIELD_FLAG};
static const struct cli_flag read_flags[] = {FIELD_FLAG, WRAP_FLAG};
static const struct cli_flag write_flags[] = {
    FIELD_FLAG, WRAP_FLAG, {"force", CLI_BOOL, "write without any data"}};
static const struct cli_flag kv_get_flags[] = {
    MOUNT_FLAG, WRAP_FLAG, FIELD_FLAG, {"version", CLI_INT, "an older version"}};
static const struct cli_flag kv_put_flags[] = {MOUNT_FLAG, WRAP_FLAG, FIELD_FLAG, CAS_FLAG};
static const struct cli_flag kv_patch_flags[] = {
    MOUNT_FLAG,
    FIELD_FLAG,
    CAS_FLAG,
    {"method", CLI_TEXT, "patch, or rw: read, change, write; default: patch, then rw"},
    {"remove-data", CLI_MANY, "a key to take away"}};
static const struct cli_flag kv_rollback_flags[] = {
    MOUNT_FLAG, FIELD_FLAG, {"version", CLI_INT, "the version to be written again"}};
static const struct cli_flag kv_versions_flags[] = {MOUNT_FLAG, VERSIONS_FLAG};
static const struct cli_flag mount_flags[] = {MOUNT_FLAG};
static const struct cli_flag kv_metadata_get_flags[] = {MOUNT_FLAG, FIELD_FLAG};
#define SETTING_FLAGS                                                                             \
    MOUNT_FLAG, {"max-versions", CLI_INT, "how many versions are kept; 0: as the engine has it"}, \
        {"cas-required", CLI_BOOL, "writes must say -cas"},                                       \
        {"delete-version-after", CLI_TEXT, "how long versions live"},                             \
    {                                                                                             \
        "custom-metadata", CLI_PAIRS, "kept with the secret"                                      \
    }
static const struct cli_flag kv_metadata_put_flags[] = {SETTING_FLAGS};
static const struct cli_flag kv_metadata_patch_flags[] = {
    SETTING_FLAGS, {"remove-custom-metadata", CLI_MANY, "a name to take away"}};

static const struct cli_flag token_create_flags[] = {
    FIELD_FLAG,
    WRAP_FLAG,
    {"policy", CLI_MANY, "what it may do; default: what its parent may"},
    {"ttl", CLI_TEXT, "how long it lives unless renewed"},
    {"explicit-max-ttl", CLI_TEXT, "how long it lives at most"},
    {"period", CLI_TEXT, "each renewal makes it live this long again"},
    {"renewable", CLI_BOOL, "whether it can be renewed"},
    {"use-limit", CLI_INT, "how often it can be used; 0: any number"},
    {"orphan", CLI_BOOL, "it outlives the token that makes it"},
    {"no-default-policy", CLI_BOOL, "without the policy \"default\""},
    {"type", CLI_TEXT, "service or batch"},
    {"role", CLI_TEXT, "made as this role says"},
    {"display-name", CLI_TEXT, "shown in lookups and records"},
    {"metadata", CLI_PAIRS, "kept with the token"},
    {"id", CLI_TEXT, "the token itself instead of a random one"},
    {"entity-alias", CLI_TEXT, "alias of the entity it is for; with -role"}};
static const struct cli_flag token_named_flags[] = {
    FIELD_FLAG, {"accessor", CLI_BOOL, "the argument is an accessor"}};
static const struct cli_flag token_renew_flags[] = {
    FIELD_FLAG,
    {"accessor", CLI_BOOL, "the argument is an accessor"},
    {"increment", CLI_TEXT, "how long it shall live from now on"}};
static const struct cli_flag token_revoke_flags[] = {
    {"self", CLI_BOOL, "the token that is used"},
    {"accessor", CLI_BOOL, "the argument is an accessor"},
    {"mode", CLI_TEXT, "orphan: its children stay; path: all below the path"}};
static const struct cli_flag capabilities_flags[] = {
    {"accessor", CLI_BOOL, "the first argument is an accessor"}};
static const struct cli_flag lease_renew_flags[] = {
    FIELD_FLAG, {"increment", CLI_TEXT, "how long it shall live from now on"}};
static const struct cli_flag lease_revoke_flags[] = {
    {"prefix", CLI_BOOL, "all leases below the path"},
    {"force", CLI_BOOL, "with -prefix: also what cannot be ended where it was made"},
    {"sync", CLI_BOOL, "wait until it is done"}};
static const struct cli_flag login_flags[] = {
    FIELD_FLAG,
    {"method", CLI_TEXT, "token (default), userpass, approle, cert, …"},
    {"path", CLI_TEXT, "where the method is mounted, if not at its name"},
    {"no-store", CLI_BOOL, "do not keep the token"},
    {"no-print", CLI_BOOL, "say nothing"},
    {"token-only", CLI_BOOL, "print the token and keep nothing"}};

#define ENGINE_FLAGS                                                                           \
    {"description", CLI_TEXT, "for people"},                                                   \
        {"default-lease-ttl", CLI_TEXT, "time to live where a request names none"},            \
        {"max-lease-ttl", CLI_TEXT, "longest time to live"},                                   \
        {"listing-visibility", CLI_TEXT, "unauth: listed to clients without a token; hidden"}, \
        {"audit-non-hmac-request-keys", CLI_MANY, "request data recorded in the clear"},       \
        {"audit-non-hmac-response-keys", CLI_MANY, "response data recorded in the clear"},     \
        {"version", CLI_INT, "of a key/value engine: 1 or 2"},                                 \
    {                                                                                          \
        "options", CLI_PAIRS, "an option of the engine"                                        \
    }
static const struct cli_flag secrets_enable_flags[] = {
    {"path", CLI_TEXT, "where, if not at the name of the type"},
    ENGINE_FLAGS,
    {"local", CLI_BOOL, "not replicated to other clusters"},
    {"seal-wrap", CLI_BOOL, "accepted and shown"}};
static const struct cli_flag secrets_tune_flags[] = {ENGINE_FLAGS};
static const struct cli_flag secrets_list_flags[] = {
    {"detailed", CLI_BOOL, "with settings and options"}};

static const struct cli_flag init_flags[] = {
    {"key-shares", CLI_INT, "how many keys are made; default 5"},
    {"key-threshold", CLI_INT, "how many of them unseal; default 3"},
    {"recovery-shares", CLI_INT,
     "for a cluster that unseals itself: recovery keys to make; default 5, 0: none"},
    {"recovery-threshold", CLI_INT, "how many of them it takes; default 3"},
    {"status", CLI_BOOL, "say whether the cluster is initialised: exit code 0, or 2 if not"}};
static const struct cli_flag unseal_flags[] = {{"reset", CLI_BOOL, "forget the keys given so far"}};
static const struct cli_flag generate_root_flags[] = {
    {"init", CLI_BOOL, "begin an attempt"},
    {"otp", CLI_TEXT, "one-time password, for -init and -decode"},
    {"pgp-key", CLI_TEXT, "key to encrypt the token for"},
    {"nonce", CLI_TEXT, "of the attempt; else the one that is under way"},
    {"status", CLI_BOOL, "how far it has come"},
    {"cancel", CLI_BOOL, "give it up"},
    {"generate-otp", CLI_BOOL, "print a one-time password"},
    {"decode", CLI_TEXT, "encoded token, or - (standard input), to be separated from -otp"}};
static const struct cli_flag rekey_flags[] = {
    {"init", CLI_BOOL, "begin an attempt"},
    {"key-shares", CLI_INT, "new keys to make (5)"},
    {"key-threshold", CLI_INT, "how many of them it takes (3)"},
    {"verify", CLI_BOOL,
     "with -init: new keys count once they were given back; else give one back"},
    {"target", CLI_TEXT, "barrier (the keys that unseal), or recovery"},
    {"nonce", CLI_TEXT, "of the attempt; else the one that is under way"},
    {"status", CLI_BOOL, "how far it has come"},
    {"cancel", CLI_BOOL, "give it up; with -verify only what was given back"},
    {"pgp-keys", CLI_MANY, "keys to encrypt the new ones for"},
    {"backup", CLI_BOOL, "keep the encrypted ones, with -pgp-keys"}};
static const struct cli_flag join_flags[] = {
    {"join-token", CLI_TEXT, "@FILE or - (standard input) with the token of join-token"},
    {"leader-ca-cert", CLI_TEXT, "@FILE with the CA of the leader's address"},
    {"leader-client-cert", CLI_TEXT, "@FILE with a certificate to show there"},
    {"leader-client-key", CLI_TEXT, "@FILE with its key"},
    {"leader-tls-servername", CLI_TEXT, "name its certificate must carry"},
    {"retry", CLI_BOOL, "keep trying until it works"},
    {"non-voter", CLI_BOOL, "join without a vote"}};
static const struct cli_flag autopilot_flags[] = {
    {"cleanup-dead-servers", CLI_TEXT, "true: remove members that are dead"},
    {"dead-server-last-contact-threshold", CLI_TEXT, "silence after which one is dead"},
    {"last-contact-threshold", CLI_TEXT, "silence after which one is not healthy"},
    {"max-trailing-logs", CLI_TEXT, "entries that a healthy one may be behind"},
    {"min-quorum", CLI_TEXT, "voters that are kept whatever happens"},
    {"server-stabilization-time", CLI_TEXT, "kept and shown"}};
static const struct cli_flag join_token_flags[] = {FIELD_FLAG,
                                                   {"ttl", CLI_TEXT, "how long the token is good"}};
static const struct cli_flag restore_flags[] = {
    {"force", CLI_BOOL, "also that of another cluster"}};

const struct cli_command cli_commands[] = {
    {.name = "read",
     ARGS("PATH [KEY=VALUE]…", 1, ANY),
     FLAGS(read_flags),
     .run = cmd_read,
     .help = "Print what is at a path."},
    {.name = "write",
     ARGS("PATH " DATA, 1, ANY),
     FLAGS(write_flags),
     .run = cmd_write,
     .help = "Write data to a path."},
    {.name = "patch",
     ARGS("PATH " DATA, 1, ANY),
     FLAGS(write_flags),
     .run = cmd_patch,
     .help = "Change some of the data at a path."},
    {.name = "list", ARGS("PATH", 1, 1), .run = cmd_list, .help = "List the keys below a path."},
    {.name = "scan",
     ARGS("PATH", 1, 1),
     .run = cmd_scan,
     .help = "List the keys below a path, and below its folders."},
    {.name = "delete",
     ARGS("PATH [KEY=VALUE]…", 1, ANY),
     .run = cmd_delete,
     .help = "Delete what is at a path."},
    {.name = "kv get",
     ARGS("PATH", 1, 1),
     FLAGS(kv_get_flags),
     .run = cmd_kv_get,
     .help = "Print a secret."},
    {.name = "kv put",
     ARGS("PATH " DATA, 1, ANY),
     FLAGS(kv_put_flags),
     .run = cmd_kv_put,
     .help = "Write a secret; version 2 keeps the older ones."},
    {.name = "kv patch",
     ARGS("PATH " DATA, 1, ANY),
     FLAGS(kv_patch_flags),
     .run = cmd_kv_patch,
     .help = "Change some keys of a secret."},
    {.name = "kv delete",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_delete,
     .help = "Delete a secret; versions can be brought back."},
    {.name = "kv undelete",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_undelete,
     .help = "Bring deleted versions back."},
    {.name = "kv destroy",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_destroy,
     .help = "Remove the data of versions for good."},
    {.name = "kv list",
     ARGS("[PATH]", 0, 1),
     FLAGS(mount_flags),
     .run = cmd_kv_list,
     .help = "List the secrets below a path."},
    {.name = "kv rollback",
     ARGS("PATH", 1, 1),
     FLAGS(kv_rollback_flags),
     .run = cmd_kv_rollback,
     .help = "Write an older version again as the newest."},
    {.name = "kv enable-versioning",
     ARGS("MOUNT", 1, 1),
     .run = cmd_kv_enable_versioning,
     .help = "Make a key/value engine version 2."},
    {.name = "kv metadata get",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_get_flags),
     .run = cmd_kv_metadata_get,
     .help = "Print settings and versions of a secret."},
    {.name = "kv metadata put",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_put_flags),
     .run = cmd_kv_metadata_put,
     .help = "Set the settings of a secret."},
    {.name = "kv metadata patch",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_patch_flags),
     .run = cmd_kv_metadata_patch,
     .help = "Change some settings of a secret."},
    {.name = "kv metadata delete",
     ARGS("PATH", 1, 1),
     FLAGS(mount_flags),
     .run = cmd_kv_metadata_delete,
     .help = "Remove a secret with all its versions."},
    {.name = "login",
     ARGS("[TOKEN | - | KEY=VALUE…]", 0, ANY),
     FLAGS(login_flags),
     .run = cmd_login,
     .help = "Get a token and keep it in ~/.holdfast-token."},
    {.name = "token create",
     ARGS("", 0, 0),
     FLAGS(token_create_flags),
     .run = cmd_token_create,
     .help = "Make a token."},
    {.name = "token lookup",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_named_flags),
     .run = cmd_token_lookup,
     .help = "Print the properties of a token."},
    {.name = "token renew",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_renew_flags),
     .run = cmd_token_renew,
     .help = "Extend the life of a token."},
    {.name = "token revoke",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_revoke_flags),
     .run = cmd_token_revoke,
     .help = "End a token and its children."},
    {.name = "token capabilities",
     ARGS("[TOKEN | - | ACCESSOR] PATH", 1, 2),
     FLAGS(capabilities_flags),
     .run = cmd_token_capabilities,
     .help = "Print what a token may do at a path."},
    {.name = "lease lookup",
     ARGS("ID", 1, 1),
     FLAGS(field_flags),
     .run = cmd_lease_lookup,
     .help = "Print the properties of a lease."},
    {.name = "lease renew",
     ARGS("ID", 1, 1),
     FLAGS(lease_renew_flags),
     .run = cmd_lease_renew,
     .help = "Extend the life of a lease."},
    {.name = "lease revoke",
     ARGS("ID | PREFIX", 1, 1),
     FLAGS(lease_revoke_flags),
     .run = cmd_lease_revoke,
     .help = "End a lease, or all below a path."},
    {.name = "unwrap",
     ARGS("[TOKEN | -]", 0, 1),
     FLAGS(field_flags),
     .run = cmd_unwrap,
     .help = "Print the reply behind a wrapping token, which works once."},
    {.name = "policy list", ARGS("", 0, 0), .run = cmd_policy_list, .help = "List the policies."},
    {.name = "policy read",
     ARGS("NAME", 1, 1),
     FLAGS(field_flags),
     .run = cmd_policy_read,
     .help = "Print a policy."},
    {.name = "policy write",
     ARGS("NAME FILE|-", 2, 2),
     .run = cmd_policy_write,
     .help = "Set a policy, from a file or standard input."},
    {.name = "policy delete",
     ARGS("NAME", 1, 1),
     .run = cmd_policy_delete,
     .help = "Remove a policy."},
    {.name = "policy fmt",
     ARGS("FILE", 1, 1),
     .offline = true,
     .run = cmd_policy_fmt,
     .help = "Rewrite the file of a policy in one style."},
    {.name = "secrets list",
     ARGS("", 0, 0),
     FLAGS(secrets_list_flags),
     .run = cmd_secrets_list,
     .help = "List the secrets engines."},
    {.name = "secrets enable",
     ARGS("TYPE", 1, 1),
     FLAGS(secrets_enable_flags),
     .run = cmd_secrets_enable,
     .help = "Mount a secrets engine."},
    {.name = "secrets disable",
     ARGS("PATH", 1, 1),
     .run = cmd_secrets_disable,
     .help = "Unmount a secrets engine; its data is removed."},
    {.name = "secrets move",
     ARGS("FROM TO", 2, 2),
     .run = cmd_secrets_move,
     .help = "Move a secrets engine to another path."},
    {.name = "secrets tune",
     ARGS("PATH", 1, 1),
     FLAGS(secrets_tune_flags),
     .run = cmd_secrets_tune,
     .help = "Change the settings of a secrets engine."},
    {.name = "status",
     ARGS("", 0, 0),
     .run = cmd_status,
     .help = "Show whether a node is sealed, and which node is active; exit code 2: sealed."},
    {.name = "version-history",
     ARGS("", 0, 0),
     .run = cmd_version_history,
     .help = "List the versions that have been active, and since when."},
    {.name = "init",
     ARGS("", 0, 0),
     FLAGS(init_flags),
     .run = cmd_init,
     .help = "The same as operator init."},
    {.name = "operator init",
     ARGS("", 0, 0),
     FLAGS(init_flags),
     .run = cmd_init,
     .help = "Initialise a new cluster; prints keys and root token, once."},
    {.name = "operator unseal",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(unseal_flags),
     .run = cmd_unseal,
     .help = "Give a sealed node one key share, typed or from standard input."},
    {.name = "operator seal", ARGS("", 0, 0), .run = cmd_seal, .help = "Seal a node."},
    {.name = "operator step-down",
     ARGS("", 0, 0),
     .run = cmd_step_down,
     .help = "Let another node become the active one."},
    {.name = "operator generate-root",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(generate_root_flags),
     .run = cmd_generate_root,
     .help = "Make a root token by key shares: -init, then one share a call, then -decode."},
    {.name = "operator rekey",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(rekey_flags),
     .run = cmd_rekey,
     .help = "Make new key shares: -init, then one present share a call."},
    {.name = "operator rotate",
     ARGS("", 0, 0),
     .run = cmd_rotate,
     .help = "Make a new encryption key, for values stored from now on."},
    {.name = "operator key-status",
     ARGS("", 0, 0),
     .run = cmd_key_status,
     .help = "Show the encryption key in use."},
    {.name = "operator members",
     ARGS("", 0, 0),
     .run = cmd_members,
     .help = "List the nodes and which is active."},
    {.name = "operator raft list-peers",
     ARGS("", 0, 0),
     .run = cmd_raft_list_peers,
     .help = "List the members of the Raft cluster."},
    {.name = "operator raft join",
     ARGS("[LEADER-URL]", 0, 1),
     FLAGS(join_flags),
     .run = cmd_raft_join,
     .help = "Let a node join a cluster."},
    {.name = "operator raft join-token",
     ARGS("[NODE-NAME]", 0, 1),
     FLAGS(join_token_flags),
     .run = cmd_raft_join_token,
     .help = "Make a token with which one node can join."},
    {.name = "operator raft remove-peer",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_remove_peer,
     .help = "Remove a node from the cluster."},
    {.name = "operator raft autopilot state",
     ARGS("", 0, 0),
     .run = cmd_raft_autopilot_state,
     .help = "Show the health of the members."},
    {.name = "operator raft autopilot get-config",
     ARGS("", 0, 0),
     .run = cmd_raft_autopilot_get,
     .help = "Show the settings of autopilot."},
    {.name = "operator raft autopilot set-config",
     ARGS("", 0, 0),
     FLAGS(autopilot_flags),
     .run = cmd_raft_autopilot_set,
     .help = "Change the settings of autopilot."},
    {.name = "operator raft promote",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_promote,
     .help = "Give a node of the cluster a vote."},
    {.name = "operator raft demote",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_demote,
     .help = "Take a node's vote; the node still follows and serves."},
    {.name = "operator raft readmit",
     ARGS("NODE-NAME", 1, 1),
     .run = cmd_raft_readmit,
     .help = "Let a node that was removed join again."},
    {.name = "operator raft snapshot save",
     ARGS("FILE", 1, 1),
     .run = cmd_raft_save,
     .help = "Save the whole state to a file."},
    {.name = "operator raft snapshot restore",
     ARGS("FILE", 1, 1),
     FLAGS(restore_flags),
     .run = cmd_raft_restore,
     .help = "Replace the whole state by that in a file."},
    {.name = "completion",
     ARGS("bash|zsh|fish", 1, 1),
     .offline = true,
     .run = cmd_completion,
     .help = "Print a script that completes commands: source <(holdfast completion bash)"},
    {.name = "man",
     ARGS("", 0, 0),
     .offline = true,
     .run = cmd_man,
     .help = "Print the manual page: holdfast man | man -l -"},
    {.name = "version",
     ARGS("", 0, 0),
     .offline = true,
     .run = cmd_version,
     .help = "Print the version."},
};
const unsigned cli_n_commands = ARRAY_LEN(cli_commands);

int cmd_version(struct cli *cli)
{
    (void)cli;
    printf("holdfast %s\n", HOLDFAST_VERSION);
    return CLI_OK;
}
