/* URLs that stand for a right: object, method and expiry under an HMAC of a key in the state. The
 * signature is in the query, which request logs do not show. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_SIGNED_H
#define HOLDFAST_API_PLATFORM_PLATFORM_SIGNED_H

#include "api/platform/platform_object.h"

enum { PLATFORM_SIGNED_MS = 25 * 3600 * 1000 };

/* Stage the key, unless it is stored. */
NODISCARD enum status platform_signed_key(struct req *req);
/* The URL of "blobs/ID/WHAT" for a method. ST_NOT_FOUND: there is no key yet. */
NODISCARD enum status platform_signed_url(struct req *req, const char *method, const char *id,
                                          const char *what, const char **ret_url);
/* Whether the request's query signs its path and method, and has not expired. ST_NOT_FOUND. */
NODISCARD enum status platform_signed_check(struct req *req, const char *id, const char *what);
/* URLs of logs: clients replace the query, so expiry and signature are in the path. */

/* The URL of "logs/ID/KEY". "": there is no key yet. */
NODISCARD enum status platform_signed_log(struct req *req, const char *id, const char **ret_url);
/* Whether the key of such a path is signed, and has not expired. ST_NOT_FOUND. */
NODISCARD enum status platform_signed_log_check(struct req *req, const char *id, const char *key);

#endif
