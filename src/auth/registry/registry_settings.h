/* The settings of the registry on this node, from its configuration. */
#ifndef HOLDFAST_AUTH_REGISTRY_SETTINGS_H
#define HOLDFAST_AUTH_REGISTRY_SETTINGS_H

#include <stdbool.h>

struct registry_settings {
    bool acl;           /* tokens and policies decide; false: every request is allowed */
    bool default_allow; /* rights that no rule names: allowed */
    bool strict_rules;  /* refuse rules with a block that is not known */
    const char *initial_management; /* SecretID for the bootstrap; NULL: a random one */
    const char *datacenter;         /* name of the datacenter */
};

/* The settings. Any thread. */
const struct registry_settings *registry_settings(void);
/* Replace the settings; the texts outlive the process. Once, before the node starts. */
void registry_settings_set(const struct registry_settings *settings);
/* Replace the name of the datacenter, in the same way. */
void registry_settings_in(const char *datacenter);

#endif
