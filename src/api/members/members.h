/* Members of the cluster: Raft, joining, autopilot, snapshots by hand and by a schedule. */
#ifndef HOLDFAST_API_MEMBERS_MEMBERS_H
#define HOLDFAST_API_MEMBERS_MEMBERS_H

#include "router/req_node.h"

extern const struct module members_module;

extern const struct route_table members_autopilot_table;
extern const struct route_table members_autosnap_table;
extern const struct route_table members_challenge_table;
extern const struct route_table members_join_table;
extern const struct route_table members_peer_unseal_table;
extern const struct route_table members_raft_table;

/* members_peer_unseal.c */
void members_peer_unseal_metrics(struct metric_out *out);

#endif
