/* Reads encrypted records of the local state without a transaction, on a thread of the link. */
#ifndef HOLDFAST_CLUSTER_DR_READER_H
#define HOLDFAST_CLUSTER_DR_READER_H

#include "cluster/membership/part.h"

struct dr_reader {
    struct part_host *host;
    struct barrier_cipher *cipher; /* of the thread that reads; NULL before the first read */
};

/* Append the decrypted value of `key` at a pin. ST_NOT_FOUND; ST_SEALED; ST_BUSY: the node lacks
 * the key's term yet. ST_CORRUPT, ST_NOMEM. The caller wipes `out`. */
NODISCARD enum status dr_reader_read(struct dr_reader *reader, const struct store_pin *pin,
                                     struct bytes key, struct buf *out);
void dr_reader_done(struct dr_reader *reader);

#endif
