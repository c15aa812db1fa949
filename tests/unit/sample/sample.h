/* A sample module: an engine that lends lamps, an auth method, a table with a dialect of its own, a
 * service, a block of the configuration, metrics. See README.md. */
#ifndef HOLDFAST_TESTS_UNIT_SAMPLE_SAMPLE_H
#define HOLDFAST_TESTS_UNIT_SAMPLE_SAMPLE_H

#include "config/config.h"
#include "router/router.h"

extern const struct module sample_module;

/* with_sample_lamp.c */
extern const struct route_api sample_lamp_api;
extern const struct lease_kind sample_lamp_kind;

/* with_sample_dialect.c */
extern const struct route_api sample_lantern_api;

/* with_sample_login.c */
extern const struct route_api sample_login_api;
NODISCARD enum status sample_login_renew(struct req *req, const struct mount *mount,
                                         const struct auth_token *token,
                                         struct login_role *ret_role);

/* with_sample_service.c */
struct sample_line {
    const char *line;
};
extern const struct node_service sample_service;
extern const struct config_block sample_block;
void sample_configure(const void *fields);
void sample_metrics(struct metric_out *out);
/* A handler: the line that the service stored last. */
NODISCARD enum status sample_said(struct req *req);

#endif
