/* The block `registry` of the configuration file. */
#include "api/registry/registry.h"
#include "auth/registry/registry_settings.h"
#include "text/random.h"

struct block {
    bool acl, strict_rules;
    const char *default_policy, *initial_management;
};
static const struct field block_fields[] = {
    FIELD(struct block, acl, BOOL, .preset = "true",
          .help =
              "Tokens and policies decide who may do what; false: every request is allowed, and "
              "the paths of ACLs reply 401."),
    FIELD(struct block, default_policy, STRING, .preset = "deny",
          .help = "allow or deny: the rights that no rule decides. Those on ACLs need a rule."),
    FIELD(struct block, initial_management, STRING, .hidden = true,
          .help = "SecretID of the first token with all rights, a UUID: the active node makes the "
                  "token. Absent: acl/bootstrap makes it."),
    FIELD(struct block, strict_rules, BOOL, .preset = "false",
          .help = "Refuse rules with a block that is not known; false: warn."),
};
static const struct schema block_schema = SCHEMA(struct block, block_fields);

static const char *check_block(const void *fields)
{
    const struct block *block = fields;
    bool known =
        strcmp(block->default_policy, "allow") == 0 || strcmp(block->default_policy, "deny") == 0;
    char uuid[TEXT_UUID_LEN + 1];
    if (!known)
        return "default_policy: allow or deny is expected";
    const char *secret = block->initial_management;
    return secret == NULL || text_uuid_parse(bytes_str(secret), uuid) == ST_OK
               ? NULL
               : "initial_management: a UUID is expected";
}

const struct config_block registry_block = {"registry", &block_schema, check_block};

void registry_configure(const void *fields)
{
    const struct block *block = fields;
    registry_settings_set(&(struct registry_settings){
        .acl = block->acl,
        .default_allow = strcmp(block->default_policy, "allow") == 0,
        .strict_rules = block->strict_rules,
        .initial_management = block->initial_management,
        .datacenter = registry_settings()->datacenter,
    });
}
