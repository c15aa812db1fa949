/* The certificate files of the cluster port. Every function blocks; a failure sets `reason`. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_CERT_FILES_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_CERT_FILES_H

#include "cluster/membership/part.h"

/* Finish a replacement that a crash interrupted. ST_IO, ST_INVALID. */
NODISCARD enum status cert_files_settle(const struct member_options *o, struct reason *reason);
/* Read the hash of the authority in ca_file. ST_INVALID, ST_IO, ST_NOT_FOUND. */
NODISCARD enum status cert_files_authority(const struct member_options *o, uint8_t ret_sha256[32],
                                           struct reason *reason);
/* Write a file atomically: after a crash the file is the old or the new one. ST_IO, ST_NO_SPACE. */
NODISCARD enum status cert_file_put(const char *path, struct bytes content, struct reason *reason);
/* Replace key and certificate: after a crash and cert_files_settle both are old or both are new.
 * Statuses as cert_file_put. */
NODISCARD enum status cert_files_replace(const struct member_options *o, struct bytes key,
                                         struct bytes cert, struct reason *reason);
/* Whether a file exists at this path. */
bool cert_file_exists(const char *path);

#endif
