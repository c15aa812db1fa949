#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_DOCS_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_DOCS_H

#include "router/openapi/openapi_dialect.h"

extern const struct docs_dialect registry_docs;

#endif
