/* Connections to receivers, and datagrams. Private to src/audit. */
#ifndef HOLDFAST_AUDIT_SINK_PEER_H
#define HOLDFAST_AUDIT_SINK_PEER_H

#include "audit/sink.h"

/* Connect without blocking, for one write_timeout at most. `address` is HOST:PORT or a
 * path. ST_IO with a reason; ST_TIMEOUT with a reason; ST_BUSY. The resolver may take longer. */
NODISCARD enum status sink_peer_connect(const struct sink *sink, enum audit_socket type,
                                        const char *address, int *ret_fd, struct reason *why);

/* Connect to the first of several addresses that answers; each has its share of one write_timeout.
 * *ret_fd is negative. As sink_peer_connect. */
struct addrinfo;
NODISCARD enum status sink_peer_connect_any(const struct sink *sink, const struct addrinfo *all,
                                            const char *address, int *ret_fd, struct reason *why);

/* How long a TCP peer may leave sent bytes without an acknowledgement, or its window closed, before
 * the connection is given up: in ms, a multiple of the device's write_timeout. */
int sink_peer_lost_ms(const struct sink *sink);

/* Whether a stream has ended; discards what the peer sent. *ret_errno: 0 if the peer closed it, or
 * why it ended. */
bool sink_peer_gone(int fd, int *ret_errno);

/* Send each undecided line, without its newline if `trim`, as a datagram behind `head`. A line that
 * is larger than a datagram is decided with ST_TOO_BIG. *ret_errno is set with ST_IO. */
struct sink_datagrams {
    int fd;
    struct bytes head;
    bool trim;
};
NODISCARD enum status sink_peer_send(const struct sink *sink, const struct sink_datagrams *to,
                                     struct sink_batch *batch, int *ret_errno);

#endif
