/* The outbox: what is to be told to receivers outside, and the service that sends it.
 *
 *   s/platform/outbox/CONFIGURATION/NUMBER   a row; NUMBER, in 12 hex digits, is its place in the
 *                                            order of the configuration
 *
 *   written ──due──▶ under way ──2xx, another final reply, the last try──▶ gone
 *                        └──no reply, 429, 5xx: due again after a pause──▶ written
 *
 * 1. The transaction that makes something true writes the row, with what is told as of then.
 * 2. The active node sends. The row ends, and the reply is kept at its configuration, in one
 *    transaction: so each row arrives at least once, and repeats have the same delivery id.
 * 3. Rows of a configuration are sent one after the other, in their order. A slow receiver delays
 *    its own rows; tries after a failure use at most half of the senders.
 * 4. A configuration has at most PLATFORM_OUTBOX_ROWS rows: a further one drops its oldest, with a
 *    line in the log. Above PLATFORM_OUTBOX_TOTAL rows each new one drops the oldest of its own
 *    configuration, or is dropped itself.
 * 5. A DR secondary sends nothing (services do not run there), and a restore empties the outbox. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_OUTBOX_H
#define HOLDFAST_API_PLATFORM_PLATFORM_OUTBOX_H

#include "api/platform/platform_run.h"

enum {
    PLATFORM_OUTBOX_ROWS = 1000,
    PLATFORM_OUTBOX_TOTAL = 100000,
    PLATFORM_OUTBOX_TRIES = 5,
    PLATFORM_OUTBOX_SENDERS = 16,
};

/* A row as it is stored. Texts and body lie in the arena. */
struct platform_outbox_row {
    const char *delivery; /* UUID: the same in every try */
    const char *trigger, *run;
    int64_t made_ms, due_ms;
    uint8_t tries;     /* failed tries */
    struct bytes body; /* by the form of the configuration */
};

/* Stage a row for each configuration of the workspace that wants it. */
NODISCARD enum status platform_outbox_tell(struct platform_flow *flow, enum run_told told);
/* Stage the deletion of all rows. */
NODISCARD enum status platform_outbox_empty(struct state_txn *txn);
/* Read and stage a row by its key. As state_get, state_put. */
NODISCARD enum status platform_outbox_load(struct state_txn *txn, struct bytes key,
                                           struct platform_outbox_row *ret_row);
NODISCARD enum status platform_outbox_put(struct state_txn *txn, struct bytes key,
                                          const struct platform_outbox_row *row);
/* Prefix of all rows. */
#define PLATFORM_OUTBOX STATE_SHARED "platform/outbox/"

/* Count a row that was dropped because there are too many. */
void platform_outbox_dropped(const char *config);

/* The addresses of an e-mail configuration: those of its users, and its own. */
NODISCARD enum status platform_notification_to(struct state_txn *txn,
                                               const struct platform_object *config,
                                               const char *const **ret_to, size_t *ret_n);
/* Keep a reply as the latest of a configuration. ST_NOMEM. */
struct platform_answer;
NODISCARD enum status platform_notification_keep(struct arena *arena, int64_t now_ms,
                                                 const char *url,
                                                 const struct platform_answer *answer,
                                                 struct platform_object *config);

#endif
