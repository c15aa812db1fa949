#include "out/out_settings.h"

static const struct out_rules *rules;
static const char *ca_file = "";

void out_settings_set(const struct out_rules *given, const char *given_ca_file)
{
    ASSERT(given != NULL && given_ca_file != NULL);
    rules = given;
    ca_file = given_ca_file;
}

const struct out_rules *out_settings_rules(void)
{
    return rules;
}

const char *out_settings_ca_file(void)
{
    return ca_file;
}
