/* Headers between nodes. A forwarded request is the same HTTP request with headers added by the
 * node that sends it on:
 *
 *   x-holdfast-id      32 hex digits, '-', a decimal number: PROTOCOL R14
 *   x-holdfast-again   "1": an earlier try with this id may have been executed
 *   x-holdfast-client  address of the client
 *   x-holdfast-closed  "1": the client's listener wants a token for WHO_CEREMONY
 *   x-holdfast-own     "1": a request of the sending node itself, not of a client of it
 *   x-holdfast-api     name of the dialect for which the request came; absent: that of the secrets
 *                      service
 *   x-holdfast-answer  "data", "bare", or "raw" with a space and a content type: the body is the
 *                      reply that this node's handler made (struct reply_answer)
 *
 * The reply may carry x-holdfast-retry, ST_NOT_LEADER or ST_UNKNOWN_OUTCOME: then the request has
 * no reply yet, and the node that forwarded it decides. A listener for clients ignores these
 * headers. */
#ifndef HOLDFAST_FRONT_RELAY_H
#define HOLDFAST_FRONT_RELAY_H

#include "cluster/mesh/mesh.h"
#include "raft/txn/rlog_txn.h"
#include "router/router.h"

#define RELAY_PREFIX "x-holdfast-"
#define RELAY_HEADER_ID RELAY_PREFIX "id"
#define RELAY_HEADER_AGAIN RELAY_PREFIX "again"
#define RELAY_HEADER_CLIENT RELAY_PREFIX "client"
#define RELAY_HEADER_CLOSED RELAY_PREFIX "closed"
#define RELAY_HEADER_API RELAY_PREFIX "api"
#define RELAY_HEADER_ANSWER RELAY_PREFIX "answer"
#define RELAY_HEADER_OWN MESH_HEADER_OWN
#define RELAY_HEADER_RETRY RELAY_PREFIX "retry"

enum { RELAY_ID_TEXT = 32 + 1 + 20 + 1 };
/* Write a request id as the text of a header between nodes. */
void relay_id_put(const struct rlog_request_id *id, char ret_text[RELAY_ID_TEXT]);
/* Parse the text of relay_id_put. ST_INVALID. */
NODISCARD enum status relay_id_parse(struct bytes text, struct rlog_request_id *ret_id);
/* The value of x-holdfast-answer, in the arena; NULL: no memory. */
const char *relay_answer_text(struct arena *arena, const struct reply_answer *answer);
/* Parse the text of relay_answer_text: sets `kind` and `type`. ST_INVALID, ST_NOMEM. */
NODISCARD enum status relay_answer_parse(struct arena *arena, struct bytes text,
                                         struct reply_answer *ret_answer);
/* Parse the value of x-holdfast-retry; an empty text gives ST_OK. ST_INVALID for any other status.
 */
NODISCARD enum status relay_retry_parse(struct bytes text, enum status *ret_retry);

#endif
