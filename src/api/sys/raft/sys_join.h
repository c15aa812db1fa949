/* Shared by the two ways to join; sys_join.c. */
#ifndef HOLDFAST_API_SYS_RAFT_SYS_JOIN_H
#define HOLDFAST_API_SYS_RAFT_SYS_JOIN_H

#include "crypto/cert.h"
#include "router/req.h"

/* ST_INVALID with a text: there is none yet, or it came with another cluster's state. */
NODISCARD enum status sys_join_authority(struct req *req, struct cert_pair *ret_pair);
/* The name must not be that of a present member. ST_INVALID with a text. */
NODISCARD enum status sys_join_check_name(struct req *req, const char *name);

#endif
