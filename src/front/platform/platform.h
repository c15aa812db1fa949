#ifndef HOLDFAST_FRONT_PLATFORM_PLATFORM_H
#define HOLDFAST_FRONT_PLATFORM_PLATFORM_H

#include "router/request/dialect.h"

/* The platform's dialect, below "/api/v2/", and its two other roots: documents that clients look
 * for before they know any path ("/.well-known/"), and pages for people ("/app/"). */
extern const struct dialect platform_dialect, platform_discovery_dialect, platform_app_dialect;

#endif
