/* Entries and snapshot content as text, for people. Values are encrypted, so only their length
 * shows, except records that are stored unencrypted (base/record.h).
 * Bytes of keys that do not print appear as \xNN. */
#ifndef HOLDFAST_RAFT_TXN_RLOG_DESCRIBE_H
#define HOLDFAST_RAFT_TXN_RLOG_DESCRIBE_H

#include "raft/txn/rlog_content.h"

/* The receiver of lines, which come without their end. */
struct rlog_lines {
    void (*line)(void *ctx, const char *text);
    void *ctx;
};

/* The data of a COMMAND entry. What cannot be read is said, on a line of its own. */
void rlog_entry_describe(struct bytes entry, const struct rlog_lines *lines);

/* A visitor for rlog_content_begin that writes a line for each thing met. `lines` lives as long as
 * the reading does. */
struct rlog_content_visit rlog_content_describe(const struct rlog_lines *lines);

#endif
