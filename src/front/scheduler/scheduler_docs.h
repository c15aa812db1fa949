/* The scheduler's part of the OpenAPI document. */
#ifndef HOLDFAST_FRONT_SCHEDULER_SCHEDULER_DOCS_H
#define HOLDFAST_FRONT_SCHEDULER_SCHEDULER_DOCS_H

#include "router/openapi/openapi_dialect.h"

extern const struct docs_dialect scheduler_docs;

#endif
