/* The key/value engine, both versions. The keys lie below the mount's own prefix:
 *
 *   k/PATH        version 1: the object as compact JSON; version 2: a record (kv2_record.h), or the
 *                 object that version 1 left there
 *   v/PATH 00 N   version 2: the data of version N (varint), where the record does not hold it
 *   config        version 2: settings of the mount
 *
 * Paths hold no zero bytes. */
#ifndef HOLDFAST_API_KV_KV_H
#define HOLDFAST_API_KV_KV_H

#include "router/request/req.h"
#include "router/table/module.h"

extern const struct module kv_module;

extern const struct route_api kv_api;         /* version 1: any JSON object at any path */
extern const struct route_api kv_generic_api; /* an old name of version 1 */
extern const struct route_api kv2_api;        /* version 2: versions, check-and-set, metadata */

/* lease_duration of a read where neither the object nor the mount gives one: 768 hours. */
enum { KV_LEASE_S = 2764800 };

/* The key of the secret that the path of the request names, or of the folder. ST_NOMEM. */
NODISCARD enum status kv_key(const struct req *req, struct bytes *ret_key);
/* Whether the secret exists: for the choice between create and update. */
NODISCARD enum status kv_exists(struct req *req);
/* Handler of LIST: the names in a folder. */
NODISCARD enum status kv_list(struct req *req);

#endif
