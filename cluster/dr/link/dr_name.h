/* The name of a secondary cluster in its certificate:
 *
 *     holdfast://CLUSTER/dr/SET/EPOCH/ID
 *
 * CLUSTER is the primary's cluster and SET the replication set, both 32 hexadecimal digits in lower
 * case; EPOCH is the set's epoch in decimal, ID the id that the operator gave. The certificate of
 * the authority that signs has the name holdfast://CLUSTER/dr/SET. Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_NAME_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_NAME_H

#include "cluster/mesh/mesh_pki.h"

enum {
    DR_SET_BYTES = 16,
    DR_ID_MAX = 65,   /* longest id of a secondary with its zero */
    DR_URI_MAX = 192, /* more than the longest name */
};

struct dr_name {
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    uint8_t set[DR_SET_BYTES];
    uint64_t epoch; /* 1 or more */
    char id[DR_ID_MAX];
};

/* Whether `id` may name a secondary: 1..64 of a-z A-Z 0-9 '.' '_' '-', beginning with a letter or
 * digit. */
bool dr_name_id_valid(const char *id);
/* Write the name of a secondary. Its id must be valid and its epoch 1 or more. */
void dr_name_uri(const struct dr_name *name, char ret_uri[DR_URI_MAX]);
/* Write the name of the authority: cluster and set of `name` alone are read. */
void dr_name_authority_uri(const struct dr_name *name, char ret_uri[DR_URI_MAX]);
/* Parse the name of a secondary. ST_INVALID: another form, or a number that is not in its shortest
 * form. */
NODISCARD enum status dr_name_parse(const char *uri, struct dr_name *ret_name);

#endif
