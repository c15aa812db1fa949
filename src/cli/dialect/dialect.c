/* The list of dialects. */
#include "cli/dialect/dialect.h"

const struct cli_dialect *const cli_dialects[] = {&cli_secrets_dialect, &cli_registry_dialect,
                                                  &cli_platform_dialect, &cli_scheduler_dialect};
const unsigned cli_n_dialects = ARRAY_LEN(cli_dialects);

const struct cli_dialect *cli_dialect_of(const struct cli_command *command)
{
    ASSERT(command != NULL);
    return command->dialect != NULL ? command->dialect : &cli_secrets_dialect;
}
