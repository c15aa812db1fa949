/* A new certificate for the cluster port, in time or when an operator wants one. A part (part.h).
 * Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_RENEW_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_RENEW_H

#include "cluster/membership/local.h"

struct renew {
    struct part_host *host;
    struct local *local;
    struct buf new_key, new_public; /* key of the requested certificate; empty: none requested */
    int64_t cert_issued_s, cert_until_s; /* validity of this node's certificate; 0: not read yet */
    uint64_t looked_ms, asked_ms, wait_ms, complained_ms;
    uint64_t rotate_version; /* version of the rotation record that was read */
    int64_t rotate_since_s;
};

extern const struct part renew_part;

/* Read the validity of our certificate again: the file was replaced. */
void renew_learn(struct renew *r);

#endif
