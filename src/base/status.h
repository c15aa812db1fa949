/* Status codes, returned by every function that can fail.
 *
 * One table has for each code its name, its HTTP status, and a text for people. A reply uses the
 * HTTP status of the code unless the handler names another one. Codes of errno, libuv, libraft and
 * OpenSSL are converted where they enter. */
#ifndef HOLDFAST_BASE_STATUS_H
#define HOLDFAST_BASE_STATUS_H

#include "base/macros.h"

#define STATUS_TABLE(X)                                                                   \
    X(OK, 200, "ok")                                                                      \
    X(INVALID, 400, "invalid request")                                                    \
    X(DENIED, 403, "permission denied")                                                   \
    X(NOT_FOUND, 404, "not found")                                                        \
    X(UNSUPPORTED, 405, "unsupported operation")                                          \
    X(TIMEOUT, 408, "timed out")                                                          \
    X(EXISTS, 409, "already exists")                                                      \
    X(CONFLICT, 409, "changed by another request")                                        \
    X(TOO_BIG, 413, "too large")                                                          \
    X(MEDIA_TYPE, 415, "unsupported media type")                                          \
    X(LIMITED, 429, "too many requests")                                                  \
    X(NOMEM, 500, "out of memory")                                                        \
    X(IO, 500, "input/output error")                                                      \
    X(CORRUPT, 500, "stored data is corrupt")                                             \
    X(INTERNAL, 500, "internal error")                                                    \
    X(CRYPTO, 500, "cryptographic operation failed")                                      \
    X(UNKNOWN_OUTCOME, 500, "outcome unknown: the change may or may not have been made")  \
    X(UNIMPLEMENTED, 501, "not implemented")                                              \
    X(UNINITIALIZED, 501, "not initialised")                                              \
    X(BAD_GATEWAY, 502, "a required call to another service failed")                      \
    X(SEALED, 503, "sealed")                                                              \
    X(NOT_LEADER, 503, "this node is not the active node")                                \
    X(NO_LEADER, 503, "no active node")                                                   \
    X(BUSY, 503, "busy, try again")                                                       \
    X(CLOSED, 503, "shutting down")                                                       \
    X(NO_SPACE, 507, "no space left")                                                     \
    X(STATE_FULL, 507, "the state is full: nothing more fits until something is deleted") \
    X(UNAUTHENTICATED, 401, "authentication is required")                                 \
    X(REFUSED, 422, "refused: the values of the request are not allowed")                 \
    X(PRECONDITION, 412, "a condition for the request does not hold")

enum status {
#define STATUS_ENUM(name, http, text) ST_##name,
    STATUS_TABLE(STATUS_ENUM)
#undef STATUS_ENUM
};

/* The text of the table, never NULL. Any thread. */
const char *status_text(enum status st);

/* The code as written in source, "ST_NOT_FOUND". Any thread. */
const char *status_name(enum status st);

/* The HTTP status of the table. Any thread. */
int status_http(enum status st);

/* The status for an errno value: ENOENT, EEXIST, ENOSPC and ENOMEM have a code of their own, every
 * other value is ST_IO. */
enum status status_from_errno(int err);

/* Return any status but ST_OK to the caller. The only macro that hides control flow. */
#define TRY(expression)                     \
    do {                                    \
        enum status try_st_ = (expression); \
        if (try_st_ != ST_OK)               \
            return try_st_;                 \
    } while (0)

/* An explanation for people that travels beside a status. Writers accept NULL. */
struct reason {
    char text[256];
};

/* Replace the text; output beyond the buffer is cut. */
void reason_set(struct reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
