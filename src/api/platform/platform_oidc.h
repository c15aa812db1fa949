#ifndef HOLDFAST_API_PLATFORM_PLATFORM_OIDC_H
#define HOLDFAST_API_PLATFORM_PLATFORM_OIDC_H

#include "node/service.h"

/* Service: makes and deletes the signing keys that are due. */
void platform_oidc_run(struct service *service);

#endif
