/* Rows of route tables of the platform, in short. A row names its facts for the dialect
 * (platform_kind.h). */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_ROWS_H
#define HOLDFAST_API_PLATFORM_PLATFORM_ROWS_H

#include "api/platform/platform_object.h"
#include "front/platform/platform_docs.h"

#define PLATFORM_GET(path_, handler_, row_, help_)                                     \
    {                                                                                  \
        .method = METHOD_GET, .path = (path_), .handler = (handler_), .help = (help_), \
        .who = WHO_ANY_TOKEN, .of_dialect = &(row_), .reply = &platform_document       \
    }
/* A document in the body; more columns may follow. */
#define PLATFORM_SEND(method_, path_, handler_, row_, ...)                                        \
    {                                                                                             \
        .method = METHOD_##method_, .path = (path_), .handler = (handler_), .who = WHO_ANY_TOKEN, \
        .of_dialect = &(row_), .reply = &platform_document, .input = INPUT_FREE,                  \
        .feature = PLATFORM_FEATURE, __VA_ARGS__                                                  \
    }
/* The same, and the reply is 201. */
#define PLATFORM_MAKE(path_, handler_, row_, ...) \
    PLATFORM_SEND(POST, path_, handler_, row_, .statuses = "201", __VA_ARGS__)
#define PLATFORM_PATCH(path_, handler_, row_, ...) \
    PLATFORM_SEND(PATCH, path_, handler_, row_, __VA_ARGS__)
/* The reply has no body. */
#define PLATFORM_ACT(method_, path_, handler_, row_, ...)                                         \
    {                                                                                             \
        .method = METHOD_##method_, .path = (path_), .handler = (handler_), .who = WHO_ANY_TOKEN, \
        .of_dialect = &(row_), .input = INPUT_FREE, .feature = PLATFORM_FEATURE, __VA_ARGS__      \
    }

/* The reply is stored bytes as they are: an archive, a state, a log, a document of the tool. */
#define PLATFORM_RAW(path_, handler_, who_, row_, ...)                               \
    {                                                                                \
        .method = METHOD_GET, .path = (path_), .handler = (handler_), .who = (who_), \
        .of_dialect = (row_), .shape = "bytes", __VA_ARGS__                          \
    }
/* The same for rows of runs, workers and the outbox, which need a later feature level. */
#define PLATFORM_RUN_MAKE(path_, handler_, row_, ...)                                        \
    {                                                                                        \
        .method = METHOD_POST, .path = (path_), .handler = (handler_), .who = WHO_ANY_TOKEN, \
        .of_dialect = &(row_), .reply = &platform_document, .input = INPUT_FREE,             \
        .feature = PLATFORM_RUNS_FEATURE, .statuses = "201", __VA_ARGS__                     \
    }
#define PLATFORM_RUN_ACT(method_, path_, handler_, row_, ...)                                     \
    {                                                                                             \
        .method = METHOD_##method_, .path = (path_), .handler = (handler_), .who = WHO_ANY_TOKEN, \
        .of_dialect = &(row_), .input = INPUT_FREE, .feature = PLATFORM_RUNS_FEATURE, __VA_ARGS__ \
    }

#endif
