/* Rules of the registry's ACL policies, and what the rules of several policies allow together.
 *
 *   operator = "read"                    rule about the cluster
 *   key_prefix "app/" {                  rule about the names that begin with "app/"
 *     policy = "write"
 *   }
 *   service "web" {                      rule about the name "web" alone
 *     policy     = "write"
 *     intentions = "read"                absent: read if the policy is read or write, else deny
 *   }
 *
 * or the same as JSON. Levels are deny, read, list (of keys only) and write; write implies list,
 * and list implies read. Of equal rules, deny wins, then write, list, read. About a name decides
 * its own rule; else the rule with the longest prefix of the name; else the default. A rule that
 * decides never hands over to a broader rule. The default never grants a right on ACLs, as upstream's
 * does not: a client without a token could otherwise make itself a token with all rights.
 *
 * Blocks and fields that upstream's enterprise version knows are accepted without effect: identity,
 * namespace, partition, sentinel. Others are without effect too, and registry_rules_unknown names
 * them. Source: spec 3, A5. */
#ifndef HOLDFAST_AUTH_REGISTRY_RULES_H
#define HOLDFAST_AUTH_REGISTRY_RULES_H

#include "text/value.h"

enum {
    REGISTRY_RULES_TEXT_MAX = 1 << 20,
    REGISTRY_RULES_NAME_MAX = 8192, /* longest name of a rule */
};

/* The resources without names come first. */
enum registry_resource {
    REGISTRY_ACL,
    REGISTRY_KEYRING,
    REGISTRY_MESH,
    REGISTRY_OPERATOR,
    REGISTRY_PEERING,
    REGISTRY_AGENT,
    REGISTRY_EVENT,
    REGISTRY_INTENTION,
    REGISTRY_KEY,
    REGISTRY_NODE,
    REGISTRY_QUERY,
    REGISTRY_SERVICE,
    REGISTRY_SESSION,
    REGISTRY_RESOURCES
};

/* In the order in which one level includes another; DENY overrides all. */
enum registry_level {
    REGISTRY_READ = 1,
    REGISTRY_LIST,
    REGISTRY_WRITE,
    REGISTRY_DENY,
};

/* The rules of one policy, which never change. */
struct registry_rules;

/* Compile HCL or JSON; an empty text has no rules. ST_INVALID with the reason as upstream words it;
 * ST_TOO_BIG: the text is longer than REGISTRY_RULES_TEXT_MAX or has too many values; ST_NOMEM. */
NODISCARD enum status registry_rules_compile(struct bytes text, struct registry_rules **ret_rules,
                                             struct reason *why);
void registry_rules_free(struct registry_rules *rules);          /* NULL is allowed */
size_t registry_rules_bytes(const struct registry_rules *rules); /* bytes of memory they take */
/* The first block or field that has no meaning here, as "block" or "block.field"; NULL: none. Lives
 * as long as the rules. */
const char *registry_rules_unknown(const struct registry_rules *rules);

/* The rules of several policies together. */
struct registry_acl;

/* `otherwise` is REGISTRY_WRITE or REGISTRY_DENY: the level where no rule decides. The rules must
 * outlive the ACL. ST_NOMEM. */
NODISCARD enum status registry_acl_new(const struct registry_rules *const *rules, size_t n,
                                       enum registry_level otherwise,
                                       struct registry_acl **ret_acl);
void registry_acl_free(struct registry_acl *acl);          /* NULL is allowed */
size_t registry_acl_bytes(const struct registry_acl *acl); /* bytes of memory that the ACL takes */

/* Whether the ACL gives a level (READ, LIST or WRITE) at a name; `name` is ignored for a resource
 * without names. Allocates nothing; takes a binary search and a few steps. */
bool registry_acl_allows(const struct registry_acl *acl, enum registry_resource resource,
                         struct bytes name, enum registry_level level);

#endif
