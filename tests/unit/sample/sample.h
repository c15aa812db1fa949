/* A sample module: an engine that lends lamps, and an auth method. See README.md. */
#ifndef HOLDFAST_TESTS_UNIT_SAMPLE_SAMPLE_H
#define HOLDFAST_TESTS_UNIT_SAMPLE_SAMPLE_H

#include "router/router.h"

extern const struct module sample_module;

/* with_sample_lamp.c */
extern const struct route_api sample_lamp_api;
extern const struct lease_kind sample_lamp_kind;

/* with_sample_login.c */
extern const struct route_api sample_login_api;
NODISCARD enum status sample_login_renew(struct req *req, const struct mount *mount,
                                         const struct auth_token *token,
                                         struct login_role *ret_role);

#endif
