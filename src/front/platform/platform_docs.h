#ifndef HOLDFAST_FRONT_PLATFORM_PLATFORM_DOCS_H
#define HOLDFAST_FRONT_PLATFORM_PLATFORM_DOCS_H

#include "front/platform/platform_kind.h"
#include "router/openapi/openapi_dialect.h"

extern const struct docs_dialect platform_docs;

/* Reply of rows whose kind describes the resources in it. */
extern const struct schema platform_document;

#endif
