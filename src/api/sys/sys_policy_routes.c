/* Policies, and what tokens may do by them. */
#include "api/sys/sys_tables.h"

/* Rows that stand at an older path too, and those that differ in whose token it is. */
#define WRITE(pattern)                                                                        \
    {                                                                                         \
        .method = METHOD_POST, .path = pattern, .handler = sys_policy_write,                  \
        .flags = ROUTE_POLICY | ROUTE_SOME, .body = &sys_policy_schema,                       \
        .help = "Create or replace a policy. It counts at once, for tokens that have it too." \
    }
#define DELETE(pattern)                                                                  \
    {                                                                                    \
        .method = METHOD_DELETE, .path = pattern, .handler = sys_policy_delete,          \
        .flags = ROUTE_POLICY | ROUTE_SOME, .help = "Delete a policy; none is fine too." \
    }
#define LIST_OLD(how)                                                                              \
    {                                                                                              \
        .method = how, .path = "policy", .handler = sys_policy_list_old, .flags = ROUTE_TOP_LEVEL, \
        .reply = &sys_policy_names_schema, .help = "The names of the policies."                    \
    }
#define CAPABILITIES(pattern, function, whose)                                    \
    {                                                                             \
        .method = METHOD_POST, .path = pattern, .handler = function,              \
        .flags = ROUTE_READS | ROUTE_TOP_LEVEL, .body = &sys_capabilities_schema, \
        .shape = "{*:[str]}", .help = "What " whose " may do at some paths."      \
    }

static const struct route rows[] = {
    {.method = METHOD_LIST,
     .path = "policies/acl",
     .handler = sys_policy_list,
     .help = "The names of the policies."},
    {.method = METHOD_GET,
     .path = "policies/acl/*name",
     .handler = sys_policy_read,
     .flags = ROUTE_POLICY | ROUTE_SOME,
     .reply = &sys_policy_shown_schema,
     .help = "The text of a policy."},
    WRITE("policies/acl/*name"),
    DELETE("policies/acl/*name"),
    {.method = METHOD_LIST,
     .path = "policies/password",
     .handler = sys_password_list,
     .help = "The names of the password policies."},
    {.method = METHOD_GET,
     .path = "policies/password/:name",
     .handler = sys_password_read,
     .reply = &sys_password_schema,
     .help = "The text of a password policy."},
    {.method = METHOD_GET,
     .path = "policies/password/:name/generate",
     .handler = sys_password_generate,
     .reply = &sys_password_made_schema,
     .help = "A new password as the policy says. It is kept nowhere."},
    {.method = METHOD_POST,
     .path = "policies/password/:name",
     .handler = sys_password_write,
     .body = &sys_password_schema,
     .help = "Create or replace a password policy: a length, and sets of characters with how many "
             "of each there are at least."},
    {.method = METHOD_DELETE,
     .path = "policies/password/:name",
     .handler = sys_password_delete,
     .help = "Delete a password policy; none is fine too."},
    LIST_OLD(METHOD_LIST),
    LIST_OLD(METHOD_GET),
    {.method = METHOD_GET,
     .path = "policy/*name",
     .handler = sys_policy_read,
     .flags = ROUTE_POLICY | ROUTE_TOP_LEVEL | ROUTE_SOME,
     .reply = &sys_policy_shown_old_schema,
     .help = "The text of a policy."},
    WRITE("policy/*name"),
    DELETE("policy/*name"),
    CAPABILITIES("capabilities", sys_capabilities, "a token"),
    CAPABILITIES("capabilities-accessor", sys_capabilities_accessor, "the token with an accessor"),
    CAPABILITIES("capabilities-self", sys_capabilities_self, "the token of the request"),
    {.method = METHOD_GET,
     .path = "internal/ui/resultant-acl",
     .handler = sys_resultant_acl,
     .reply = &sys_resultant_schema,
     .help = "All rules of the policies of the token, merged."},
};

const struct route_table sys_policy_table = {rows, ARRAY_LEN(rows)};
