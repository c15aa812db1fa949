#include "auth/policy.h"

unsigned auth_capabilities(const struct auth_token *token, struct bytes path)
{
    (void)path; /* the root policy does not look at it, and no other one grants anything */
    bool root = token->policies.n == 1 && strcmp(token->policies.items[0], AUTH_POLICY_ROOT) == 0;
    return root ? CAP_CREATE | CAP_READ | CAP_UPDATE | CAP_DELETE | CAP_LIST | CAP_PATCH | CAP_SUDO
                : 0;
}

enum status auth_authorize(const struct auth_token *token, struct bytes path, unsigned caps)
{
    ASSERT(caps != 0);
    return (auth_capabilities(token, path) & caps) == caps ? ST_OK : ST_DENIED;
}
