/* One key of the copy that a drill reads. */
#ifndef HOLDFAST_CLUSTER_DR_DRILL_DRILL_READ_H
#define HOLDFAST_CLUSTER_DR_DRILL_DRILL_READ_H

#include "cluster/dr/drill/drill.h"

struct drill_reader {
    struct barrier_cipher *cipher; /* of the barrier beside the node's */
    struct dr_drill *out;
    struct arena arena; /* of one record */
    struct buf plain;   /* of one value; wiped */
};

/* Read one key, and count it. A damaged value is named in `out`. ST_NOMEM, ST_SEALED, ST_CRYPTO. */
NODISCARD enum status drill_read(struct drill_reader *reader, const struct store_item *item);
/* Wipes; the cipher context stays the caller's. */
void drill_reader_done(struct drill_reader *reader);
/* Name a damaged key; one that was named already stays as it is. */
void drill_name(struct dr_drill *drill, struct bytes key, const char *problem);

#endif
