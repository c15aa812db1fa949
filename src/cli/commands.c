/* The list of command files, in the order of help, manual page and completion. */
#include "cli/commands.h"
#include "base/version.h"

#include <stdio.h>

#ifdef HOLDFAST_MORE_COMMANDS /* a build for tests adds a group (CMakeLists.txt) */
#define MORE(X) X(HOLDFAST_MORE_COMMANDS)
#else
#define MORE(X)
#endif

#define GROUPS(X)                 \
    X(cli_path_commands)          \
    X(cli_kv_commands)            \
    X(cli_kv_metadata_commands)   \
    X(cli_login_commands)         \
    X(cli_token_commands)         \
    X(cli_lease_commands)         \
    X(cli_policy_commands)        \
    X(cli_mounts_commands)        \
    X(cli_audit_commands)         \
    X(cli_operator_commands)      \
    X(cli_monitor_commands)       \
    X(cli_generate_root_commands) \
    X(cli_dr_commands)            \
    X(cli_rekey_commands)         \
    X(cli_raft_commands)          \
    X(cli_autosnap_commands)      \
    X(cli_acl_token_commands)     \
    X(cli_acl_policy_commands)    \
    X(cli_platform_commands)      \
    X(cli_scheduler_commands)     \
    X(cli_about_commands)         \
    MORE(X)

int cmd_version(struct cli *cli)
{
    (void)cli; /* the command has no argument and no flag */
    printf("holdfast %s\n", holdfast_version);
    return CLI_OK;
}

static const struct cli_command about_commands[] = {
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

const struct cli_group cli_about_commands = {about_commands, ARRAY_LEN(about_commands)};

#define DECLARE(group) extern const struct cli_group group;
#define ADDRESS(group) &group,
GROUPS(DECLARE)

const struct cli_group *const cli_groups[] = {GROUPS(ADDRESS)};
const unsigned cli_n_groups = ARRAY_LEN(cli_groups);
