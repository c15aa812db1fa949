/* The functions behind the table of commands. */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "cli/cli.h"

extern const struct cli_command cli_commands[];
extern const unsigned cli_n_commands;

/* cli_completion.c, commands.c */
int cmd_completion(struct cli *cli);
int cmd_version(struct cli *cli);
int cmd_man(struct cli *cli); /* cli_man.c */

/* cmd_path.c */
int cmd_read(struct cli *cli);
int cmd_write(struct cli *cli);
int cmd_patch(struct cli *cli);
int cmd_list(struct cli *cli);
int cmd_scan(struct cli *cli);
int cmd_delete(struct cli *cli);

/* cmd_kv.c, cmd_kv_metadata.c */
int cmd_kv_get(struct cli *cli);
int cmd_kv_put(struct cli *cli);
int cmd_kv_patch(struct cli *cli);
int cmd_kv_rollback(struct cli *cli);
int cmd_kv_delete(struct cli *cli);
int cmd_kv_undelete(struct cli *cli);
int cmd_kv_destroy(struct cli *cli);
int cmd_kv_list(struct cli *cli);
int cmd_kv_enable_versioning(struct cli *cli);
int cmd_kv_metadata_get(struct cli *cli);
int cmd_kv_metadata_put(struct cli *cli);
int cmd_kv_metadata_patch(struct cli *cli);
int cmd_kv_metadata_delete(struct cli *cli);

/* cmd_token.c, cmd_login.c */
int cmd_token_create(struct cli *cli);
int cmd_token_lookup(struct cli *cli);
int cmd_token_renew(struct cli *cli);
int cmd_token_revoke(struct cli *cli);
int cmd_token_capabilities(struct cli *cli);
int cmd_unwrap(struct cli *cli);
int cmd_login(struct cli *cli);

/* cmd_policy.c, policy_format.c */
int cmd_policy_list(struct cli *cli);
int cmd_policy_read(struct cli *cli);
int cmd_policy_write(struct cli *cli);
int cmd_policy_delete(struct cli *cli);
int cmd_policy_fmt(struct cli *cli);

/* cmd_lease.c */
int cmd_lease_lookup(struct cli *cli);
int cmd_lease_renew(struct cli *cli);
int cmd_lease_revoke(struct cli *cli);

/* cmd_secrets.c */
int cmd_secrets_list(struct cli *cli);
int cmd_secrets_enable(struct cli *cli);
int cmd_secrets_disable(struct cli *cli);
int cmd_secrets_move(struct cli *cli);
int cmd_secrets_tune(struct cli *cli);

/* cmd_generate_root.c, cmd_rekey.c */
int cmd_generate_root(struct cli *cli);
int cmd_rekey(struct cli *cli);

/* cmd_operator.c, cmd_raft.c */
int cmd_status(struct cli *cli);
int cmd_version_history(struct cli *cli);
int cmd_init(struct cli *cli);
int cmd_unseal(struct cli *cli);
int cmd_seal(struct cli *cli);
int cmd_step_down(struct cli *cli);
int cmd_rotate(struct cli *cli);
int cmd_key_status(struct cli *cli);
int cmd_members(struct cli *cli);
int cmd_raft_list_peers(struct cli *cli);
int cmd_raft_join(struct cli *cli);
int cmd_raft_join_token(struct cli *cli);
int cmd_raft_remove_peer(struct cli *cli);
int cmd_raft_readmit(struct cli *cli);
int cmd_raft_autopilot_state(struct cli *cli);
int cmd_raft_autopilot_get(struct cli *cli);
int cmd_raft_autopilot_set(struct cli *cli);
int cmd_raft_promote(struct cli *cli);
int cmd_raft_demote(struct cli *cli);
int cmd_raft_save(struct cli *cli);
int cmd_raft_restore(struct cli *cli);

#endif
