#include "sample/sample.h"

static const struct route_api *const sample_apis[] = {&sample_lamp_api, &sample_lantern_api};

static const struct module_engine sample_engines[] = {{.type = "lamp"}};

static const struct lease_kind *const sample_leases[] = {&sample_lamp_kind};

static const struct module_login sample_logins[] = {
    {.type = "sample", .api = &sample_login_api, .renew = sample_login_renew},
};

const struct module sample_module = {.name = "sample",
                                     .apis = sample_apis,
                                     .n_apis = ARRAY_LEN(sample_apis),
                                     .engines = sample_engines,
                                     .n_engines = ARRAY_LEN(sample_engines),
                                     .leases = sample_leases,
                                     .n_leases = ARRAY_LEN(sample_leases),
                                     .logins = sample_logins,
                                     .n_logins = ARRAY_LEN(sample_logins),
                                     .services = &sample_service,
                                     .n_services = 1,
                                     .config = &sample_block,
                                     .configure = sample_configure,
                                     .metrics = sample_metrics};
