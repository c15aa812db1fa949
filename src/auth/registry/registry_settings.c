#include "auth/registry/registry_settings.h"

static struct registry_settings settings = {.acl = true, .datacenter = "dc1"};

const struct registry_settings *registry_settings(void)
{
    return &settings;
}

void registry_settings_set(const struct registry_settings *given)
{
    settings = *given;
}

void registry_settings_in(const char *datacenter)
{
    settings.datacenter = datacenter;
}
