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

/* Whether a stream's peer closed it; discards what the peer sent. */
bool sink_peer_gone(int fd);

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
