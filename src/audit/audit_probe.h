/* A try of a device before it is enabled. */
#ifndef HOLDFAST_AUDIT_AUDIT_PROBE_H
#define HOLDFAST_AUDIT_AUDIT_PROBE_H

#include "audit/audit_entry.h"
#include "audit/places.h"

/* Whether `places` allow a device with these options. ST_INVALID with a reason: a wrong type or
 * option. */
NODISCARD enum status audit_probe_options(const struct audit_entry *entry,
                                          const struct audit_places *places,
                                          struct audit_options *ret_options, struct reason *why);

/* Open the sink of a device and write one test record, with the request's id and the time. Blocks
 * up to write_timeout: never on a loop. The record holds no secret, so the entry needs no salt.
 * ST_INVALID with a reason: as audit_probe_options, or a text that names the sink and the cause.
 * ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status audit_probe(const struct audit_entry *entry,
                                  const struct audit_places *places, const char *request_id,
                                  int64_t time_ms, struct reason *why);

#endif
