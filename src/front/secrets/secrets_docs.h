/* The secrets service's part of the OpenAPI document. Inside src/front/secrets. */
#ifndef HOLDFAST_FRONT_SECRETS_SECRETS_DOCS_H
#define HOLDFAST_FRONT_SECRETS_SECRETS_DOCS_H

#include "router/openapi/openapi_dialect.h"

extern const struct docs_dialect secrets_docs;

#endif
