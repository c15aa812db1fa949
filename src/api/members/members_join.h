/* Shared by the two ways to join: by a token (members_join.c), by a challenge
 * (members_challenge.c). */
#ifndef HOLDFAST_API_MEMBERS_MEMBERS_JOIN_H
#define HOLDFAST_API_MEMBERS_MEMBERS_JOIN_H

#include "crypto/cert.h"
#include "router/request/req.h"

/* Load the cluster's certificate authority into an empty pair. ST_INVALID with the request's error:
 * the authority is not stored yet, or the state belongs to a cluster with another authority. */
NODISCARD enum status members_join_authority(struct req *req, struct cert_pair *ret_pair);
/* Refuse a name that no node may have, and the name of a member. ST_INVALID with the request's
 * error. */
NODISCARD enum status members_join_check_name(struct req *req, const char *name);

#endif
