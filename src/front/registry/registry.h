/* The dialect of the registry: the headers X-Registry-* and X-Consul-*, JSON without an envelope,
 * and errors as bare text. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_H

#include "router/request/dialect.h"

extern const struct dialect registry_dialect;

#endif
