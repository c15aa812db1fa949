/* Commands about policies of the registry: create, read, update, delete, list. */
#include "cli/command/acl.h"

static char *id_path(struct cli *cli, const char *id)
{
    char *escaped = cli_escape(cli, id);
    return escaped != NULL ? arena_concat(&cli->arena, "acl/policy/", escaped) : NULL;
}

/* Read the policy with the name of -name. */
static int ask_by_name(struct cli *cli, const char *name, const struct text_value **ret_policy)
{
    ASSERT(name[0] != '\0');
    /* the server unescapes a name twice, and cli_path escapes once more */
    char *escaped = cli_escape(cli, name);
    struct acl_call call = {
        .method = "GET", .purpose = "Error determining policy ID", .may_be_absent = true};
    if (escaped != NULL)
        call.path = arena_concat(&cli->arena, "acl/policy/name/", escaped);
    int code = acl_do(cli, &call, ret_policy);
    if (code != CLI_OK || *ret_policy != NULL)
        return code;
    cli_complain("-name: no policy has this name");
    return CLI_REMOTE_ERROR;
}

/* Find the policy that -id or -name means, -id first. *ret_policy: the policy, or NULL if only its
 * id had to be known. */
static int look_up_policy(struct cli *cli, const char **ret_id,
                          const struct text_value **ret_policy)
{
    const char *given = cli_text(cli, "id"), *name = cli_text(cli, "name");
    ASSERT(cli->n_args == 0);
    *ret_policy = NULL;
    if (given != NULL && given[0] != '\0')
        return acl_find(cli, &acl_policies, "id", given, ret_id);
    if (name == NULL || name[0] == '\0')
        return cli_usage_error(cli, "give either -id or -name");
    int code = ask_by_name(cli, name, ret_policy);
    if (code != CLI_OK)
        return code;
    const struct text_value *id = text_get(*ret_policy, "ID");
    if (id == NULL || id->kind != TEXT_STRING)
        return cli_unexpected();
    *ret_id = (const char *)id->text.data; /* a zero follows the text */
    return CLI_OK;
}

/* Find the policy that -id or -name means, and read it unless that was done. */
static int fetch_policy(struct cli *cli, const char **ret_id, const struct text_value **ret_policy)
{
    int code = look_up_policy(cli, ret_id, ret_policy);
    if (code != CLI_OK || *ret_policy != NULL)
        return code;
    const struct acl_call call = {
        .method = "GET", .path = id_path(cli, *ret_id), .purpose = "Error reading policy"};
    return acl_do(cli, &call, ret_policy);
}

/* Write the members that flags give. False with a message. */
static bool put_given(struct cli *cli, struct text_writer *w)
{
    const char *rules = cli_text(cli, "rules");
    struct bytes text;
    cli_put_text(cli, w, "name", "Name");
    cli_put_text(cli, w, "description", "Description");
    if (rules != NULL) {
        if (!cli_value(cli, rules, "flag -rules", &text))
            return false;
        text_key(w, "Rules");
        text_put_bytes(w, text);
    }
    if (cli_text(cli, "valid-datacenter") != NULL) {
        text_key(w, "Datacenters");
        cli_put_list(cli, w, "valid-datacenter");
    }
    return true;
}

static int cmd_acl_policy_create(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *policy = NULL;
    const char *name = cli_text(cli, "name");
    if (name == NULL || name[0] == '\0')
        return cli_usage_error(cli, "-name is missing");
    text_open_object(&w);
    if (!put_given(cli, &w))
        return CLI_LOCAL_ERROR;
    text_close(&w);
    const struct acl_call call = {.method = "PUT",
                                  .path = "acl/policy",
                                  .body = &body,
                                  .purpose = "Failed to create new policy"};
    int code = acl_do(cli, &call, &policy);
    return code == CLI_OK ? acl_print_policy(cli, policy) : code;
}

static int cmd_acl_policy_read(struct cli *cli)
{
    const struct text_value *policy = NULL;
    const char *id = NULL;
    int code = fetch_policy(cli, &id, &policy);
    return code == CLI_OK ? acl_print_policy(cli, policy) : code;
}

/* Write the policy as it will be: the current one with what flags give, or with -no-merge only
 * that.
 */
static int send_policy(struct cli *cli, struct buf *body, const char **ret_id)
{
    CLEANUP(buf_done) struct buf given = {0};
    struct text_writer w = {.out = &given, .plain = true}, merged = {.out = body, .plain = true};
    const struct text_value *policy = NULL, *whole = NULL;
    bool alone = cli_bool(cli, "no-merge", false);
    int code = alone ? look_up_policy(cli, ret_id, &policy) : fetch_policy(cli, ret_id, &policy);
    if (code != CLI_OK)
        return code;
    text_open_object(&w);
    text_member_str(&w, "ID", *ret_id);
    if (!put_given(cli, &w))
        return CLI_LOCAL_ERROR;
    text_close(&w);
    if (!acl_merge(cli, alone ? NULL : policy, &given, &whole))
        return CLI_LOCAL_ERROR;
    ASSERT(whole != NULL);
    text_put_value(&merged, whole);
    return CLI_OK;
}

static int cmd_acl_policy_update(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    const struct text_value *policy = NULL;
    const char *id = NULL;
    int code = send_policy(cli, &body, &id);
    if (code != CLI_OK)
        return code;
    const struct acl_call call = {.method = "PUT",
                                  .path = id_path(cli, id),
                                  .body = &body,
                                  .purpose = "Error updating policy"};
    code = acl_do(cli, &call, &policy);
    return code == CLI_OK ? acl_print_policy(cli, policy) : code;
}

static int cmd_acl_policy_delete(struct cli *cli)
{
    const struct text_value *reply = NULL, *policy;
    const char *id = NULL;
    int code = look_up_policy(cli, &id, &policy);
    if (code != CLI_OK)
        return code;
    const struct acl_call call = {
        .method = "DELETE", .path = id_path(cli, id), .purpose = "Error deleting policy"};
    code = acl_do(cli, &call, &reply);
    return code == CLI_OK ? acl_print_deleted(cli, "policy", id, reply) : code;
}

static int cmd_acl_policy_list(struct cli *cli)
{
    const struct text_value *policies = NULL;
    const struct acl_call call = {
        .method = "GET", .path = "acl/policies", .purpose = "Failed to retrieve the policy list"};
    int code = acl_do(cli, &call, &policies);
    return code == CLI_OK ? acl_print_policies(cli, policies) : code;
}

#define ID_FLAG                                                                                    \
    {                                                                                              \
        "id", CLI_TEXT, "ID of the policy, or its first characters if they are of no other policy" \
    }
#define GIVEN_FLAGS                                                                                \
    {"description", CLI_TEXT, "description of the policy"},                                        \
        {"rules", CLI_TEXT, "the rules: text, @FILE or - for standard input"},                     \
        {"valid-datacenter", CLI_MANY, "a datacenter in which the policy is valid; default: all"}, \
        META_FLAG

static const struct cli_flag create_flags[] = {{"name", CLI_TEXT, "name of the policy; required"},
                                               GIVEN_FLAGS};
static const struct cli_flag read_flags[] = {
    ID_FLAG, {"name", CLI_TEXT, "name of the policy, without -id"}, META_FLAG};
static const struct cli_flag update_flags[] = {
    ID_FLAG,
    {"name", CLI_TEXT, "with -id the new name of the policy, else its name"},
    GIVEN_FLAGS,
    {"no-merge", CLI_BOOL, "replace the whole policy: a flag that is not given empties its field"}};
static const struct cli_flag delete_flags[] = {
    ID_FLAG, {"name", CLI_TEXT, "name of the policy, without -id"}};
static const struct cli_flag list_flags[] = {META_FLAG};

static const struct cli_command acl_policy_commands[] = {
    {.name = "acl policy create",
     ARGS("", 0, 0),
     FLAGS(create_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_policy_create,
     .help = "Registry: create a policy."},
    {.name = "acl policy read",
     ARGS("", 0, 0),
     FLAGS(read_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_policy_read,
     .help = "Registry: print a policy."},
    {.name = "acl policy update",
     ARGS("", 0, 0),
     FLAGS(update_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_policy_update,
     .help = "Registry: change a policy. Fields without a flag stay."},
    {.name = "acl policy delete",
     ARGS("", 0, 0),
     FLAGS(delete_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_policy_delete,
     .help = "Registry: delete a policy."},
    {.name = "acl policy list",
     ARGS("", 0, 0),
     FLAGS(list_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_policy_list,
     .help = "Registry: list the policies."},
};

const struct cli_group cli_acl_policy_commands = {acl_policy_commands,
                                                  ARRAY_LEN(acl_policy_commands)};
