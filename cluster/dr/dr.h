/* Disaster recovery on this node: what the role of the cluster means for the other parts, and the
 * connections of the other cluster. A part (cluster/membership/part.h).
 *
 * 1. Each version of the state says the role (role.h); this part reads it after each change and
 *    tells the node, which begins or ends duties and services.
 * 2. A record that cannot be read counts as that of an idle secondary: such a cluster serves
 *    no client, and its record is not replaced.
 * 3. A node of a primary collects the WAL; any other node does not, once it knows the role.
 * 4. Connections of secondaries are served by threads (serve/serve.h), which end before the
 *    replica does. */
#ifndef HOLDFAST_CLUSTER_DR_DR_H
#define HOLDFAST_CLUSTER_DR_DR_H

#include "cluster/dr/serve/serve.h"
#include "cluster/dr/site.h"

/* Writes host->dr_secondary: parts that read it come after this part in the table. */
extern const struct part dr_part;
void dr_done(struct dr *dr);

#endif
